"""The tables of estimates. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import Boolean, Column, Computed, Integer, Numeric, Table

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required

estimate_projects = Table(
    "estimate_projects",
    metadata,
    identity(),
    Column(
        "project_id",
        TEXT,
        Computed("('PRJ-'::text || (id)::text)", persisted=True),
        nullable=False,
    ),
    *(required(name, TEXT) for name in ("team", "name", "currency")),
    required("locked", Boolean()),
    required("created_at", MOMENT),
)

estimate_roles = Table(
    "estimate_roles",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("name", TEXT, primary_key=True),
    required("day_rate", Numeric()),
)

estimate_items = Table(
    "estimate_items",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *(required(name, TEXT) for name in ("title", "role")),
    required("days", Numeric()),
)

estimate_quotes = Table(
    "estimate_quotes",
    metadata,
    Column("project_id", TEXT, primary_key=True),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *(
        required(name, Numeric())
        for name in ("discount_percent", "tax_percent", "subtotal", "discount", "tax", "total")
    ),
)
