"""The tables of appointments. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import ARRAY, Column, Computed, Integer, Table, Time
from sqlalchemy.dialects.postgresql import TSTZRANGE

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
    Column(
        "appointment_id",
        TEXT,
        Computed("('APT-'::text || (id)::text)", persisted=True),
        nullable=False,
    ),
    *(required(name, TEXT) for name in ("team", "resource")),
    required("during", TSTZRANGE()),
    *(required(name, TEXT) for name in ("title", "attendee")),
    required("created_at", MOMENT),
    Column("cancelled_at", MOMENT),
    required("revision", Integer()),
)
