"""The tables of estimates. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import (
    Boolean,
    Column,
    Computed,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Numeric,
    Table,
    UniqueConstraint,
    text,
)

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required


def _project() -> Column[str]:
    return Column("project_id", TEXT, ForeignKey("estimate_projects.project_id"), primary_key=True)


estimate_projects = Table(
    "estimate_projects",
    metadata,
    identity(),
    Column("project_id", TEXT, Computed("('PRJ-'::text || (id)::text)", persisted=True), nullable=False),
    *(required(name, TEXT) for name in ("team", "name", "currency")),
    required("locked", Boolean()),
    required("created_at", MOMENT),
    UniqueConstraint("project_id"),
    Index("estimate_projects_name_idx", "team", text("lower(name)"), unique=True),
)

estimate_roles = Table(
    "estimate_roles",
    metadata,
    _project(),
    Column("name", TEXT, primary_key=True),
    required("day_rate", Numeric()),
)

estimate_items = Table(
    "estimate_items",
    metadata,
    _project(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *(required(name, TEXT) for name in ("title", "role")),
    required("days", Numeric()),
    ForeignKeyConstraint(
        ["project_id", "role"],
        ["estimate_roles.project_id", "estimate_roles.name"],
        name="estimate_items_project_id_role_fkey",
    ),
)

estimate_quotes = Table(
    "estimate_quotes",
    metadata,
    _project(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *(
        required(name, Numeric())
        for name in ("discount_percent", "tax_percent", "subtotal", "discount", "tax", "total")
    ),
)
