"""The tables of appointments. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import (
    ARRAY,
    Column,
    Computed,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Time,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSTZRANGE, ExcludeConstraint

from threadline.db.columns import MOMENT, TEXT, identity, metadata, required

appointment_resources = Table(
    "appointment_resources",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "name")),
    required("time_zone", TEXT),
    *(required(name, Time()) for name in ("opens", "closes")),
    required("weekdays", ARRAY(Integer)),
)

appointments = Table(
    "appointments",
    metadata,
    identity(),
    Column("appointment_id", TEXT, Computed("('APT-'::text || (id)::text)", persisted=True), nullable=False),
    *(required(name, TEXT) for name in ("team", "resource")),
    required("during", TSTZRANGE()),
    *(required(name, TEXT) for name in ("title", "attendee")),
    required("created_at", MOMENT),
    Column("cancelled_at", MOMENT),
    required("revision", Integer()),
    UniqueConstraint("appointment_id"),
    ForeignKeyConstraint(
        ["team", "resource"],
        ["appointment_resources.team", "appointment_resources.name"],
        name="appointments_team_resource_fkey",
    ),
    ExcludeConstraint(
        ("team", "="),
        ("resource", "="),
        ("during", "&&"),
        name="appointments_one_at_a_time",
        where=text("cancelled_at IS NULL"),
    ),
    Index("appointments_attendee_idx", "team", "attendee"),
)
