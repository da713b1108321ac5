"""The tables of RFPs and their records. Constraints, indexes, defaults and triggers are in
`alembic/`.
"""

from sqlalchemy import ARRAY, Column, Computed, Date, Integer, Table
from sqlalchemy.dialects.postgresql import TSVECTOR

from threadline.db.columns import JSON, MOMENT, TEXT, identity, metadata, required

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
    *(required(name, ARRAY(TEXT)) for name in ("source_unread", "name_words", "source_words")),
    Column(
        "search_vector",
        TSVECTOR,
        Computed(
            "(((setweight(to_tsvector('english'::regconfig, ((title || ' '::text) || client)), "
            "'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, \"left\"(source_text, 200000)), "
            "'D'::\"char\"))"
            " || word_vector('english'::regconfig, name_words))"
            " || word_vector('english'::regconfig, source_words))",
            persisted=True,
        ),
        nullable=False,
    ),
    required("created_by", TEXT),
    required("created_at", MOMENT),
    Column("deleted_at", MOMENT),
)

opportunity_states = Table(
    "opportunity_states",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "rfp_id")),
    required("version", Integer()),
    required("document", JSON),
    *(required(name, TEXT) for name in ("updated_by", "correlation_id")),
    required("updated_at", MOMENT),
)

journal_entries = Table(
    "journal_entries",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "rfp_id", "kind", "text", *_WRITTEN)),
    required("created_at", MOMENT),
)

events = Table(
    "events",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "rfp_id", "event_type")),
    required("payload", JSON),
    *(required(name, TEXT) for name in _WRITTEN),
    required("created_at", MOMENT),
)

team_members = Table(
    "team_members",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "user_id")),
    *(required(name, TEXT) for name in ("name", "email", "role", "biography")),
    required("skills", ARRAY(TEXT)),
    required("hours_per_week", Integer()),
    required("updated_at", MOMENT),
)
