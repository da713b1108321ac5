"""The tables of RFPs and their records. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import (
    ARRAY,
    Column,
    Computed,
    Date,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from threadline.db.columns import JSON, MOMENT, TEXT, identity, metadata, required


def _of_rfp(table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["team", "rfp_id"], ["rfps.team", "rfps.rfp_id"], name=f"{table}_team_rfp_id_fkey")


_WRITTEN = ("user_id", "correlation_id", "channel", "thread_ts", "operation_key")


rfps = Table(
    "rfps",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "rfp_id")),
    *(required(name, TEXT) for name in ("title", "client")),
    Column("due_date", Date),
    *(required(name, TEXT) for name in ("status", "owner", "source_name")),
    Column("source_hash", TEXT),
    required("source_text", TEXT),
    Column(
        "search_vector",
        TSVECTOR,
        Computed(
            "(setweight(to_tsvector('english'::regconfig, ((title || ' '::text) || client)), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, \"left\"(source_text, 200000)), 'D'::\"char\"))",
            persisted=True,
        ),
    ),
    required("created_by", TEXT),
    required("created_at", MOMENT),
    Column("deleted_at", MOMENT),
    Index("rfps_source_idx", "team", "source_hash", unique=True, postgresql_where=text("deleted_at IS NULL")),
    Index("rfps_due_idx", "team", "due_date", "rfp_id", postgresql_where=text("deleted_at IS NULL")),
    Index("rfps_client_idx", "team", text("lower(client)"), postgresql_where=text("deleted_at IS NULL")),
    Index("rfps_search_idx", "search_vector", postgresql_using="gin"),
    Index("rfps_title_trgm_idx", "title", postgresql_using="gin", postgresql_ops={"title": "gin_trgm_ops"}),
)

opportunity_states = Table(
    "opportunity_states",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "rfp_id")),
    required("version", Integer()),
    required("document", JSON),
    *(required(name, TEXT) for name in ("updated_by", "correlation_id")),
    required("updated_at", MOMENT),
    _of_rfp("opportunity_states"),
)

journal_entries = Table(
    "journal_entries",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "rfp_id", "kind", "text", *_WRITTEN)),
    required("created_at", MOMENT),
    _of_rfp("journal_entries"),
    UniqueConstraint("team", "operation_key"),
    Index("journal_entries_order_idx", "team", "rfp_id", "id"),
    Index("journal_entries_correlation_idx", "team", "correlation_id"),
)

events = Table(
    "events",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "rfp_id", "event_type")),
    required("payload", JSON),
    *(required(name, TEXT) for name in _WRITTEN),
    required("created_at", MOMENT),
    _of_rfp("events"),
    UniqueConstraint("team", "operation_key"),
    Index("events_order_idx", "team", "rfp_id", "id"),
    Index("events_correlation_idx", "team", "correlation_id"),
)

team_members = Table(
    "team_members",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "user_id")),
    *(required(name, TEXT) for name in ("name", "email", "role", "biography")),
    required("skills", ARRAY(TEXT)),
    required("hours_per_week", Integer()),
    required("updated_at", MOMENT),
    Index("team_members_name_idx", "team", text("lower(name)")),
)
