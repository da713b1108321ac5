"""The tables of the operator's records, as queries see them; see `threadline.db.tables`."""

from sqlalchemy import (
    ARRAY,
    Column,
    Computed,
    Date,
    ForeignKeyConstraint,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSVECTOR

from threadline.db.columns import MOMENT, identity, metadata, required

_WRITTEN = ("user_id", "correlation_id", "channel", "thread_ts", "operation_key")


def _of_rfp(table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["team", "rfp_id"], ["rfps.team", "rfps.rfp_id"], name=f"{table}_team_rfp_id_fkey")


rfps = Table(
    "rfps",
    metadata,
    Column("rfp_id", Text, primary_key=True),
    *(required(name, Text()) for name in ("team", "title", "client")),
    Column("due_date", Date),
    *(required(name, Text()) for name in ("status", "owner", "source_name")),
    Column("source_hash", Text),
    required("source_text", Text()),
    Column(
        "words",
        TSVECTOR,
        Computed(
            "(setweight(to_tsvector('english'::regconfig, ((title || ' '::text) || client)), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, \"left\"(source_text, 200000)), 'D'::\"char\"))",
            persisted=True,
        ),
    ),
    required("created_by", Text()),
    required("created_at", MOMENT),
    Column("deleted_at", MOMENT),
    UniqueConstraint("team", "rfp_id"),
    Index("rfps_source_idx", "team", "source_hash", unique=True, postgresql_where=text("deleted_at IS NULL")),
    Index("rfps_due_idx", "team", "due_date", "rfp_id", postgresql_where=text("deleted_at IS NULL")),
    Index("rfps_client_idx", "team", text("lower(client)"), postgresql_where=text("deleted_at IS NULL")),
    Index("rfps_words_idx", "words", postgresql_using="gin"),
    Index("rfps_title_trgm_idx", "title", postgresql_using="gin", postgresql_ops={"title": "gin_trgm_ops"}),
)

opportunity_states = Table(
    "opportunity_states",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "rfp_id")),
    required("version", Integer()),
    required("document", JSONB()),
    *(required(name, Text()) for name in ("updated_by", "correlation_id")),
    required("updated_at", MOMENT),
    _of_rfp("opportunity_states"),
)

journal_entries = Table(
    "journal_entries",
    metadata,
    identity(),
    *(required(name, Text()) for name in ("team", "rfp_id", "kind", "text", *_WRITTEN)),
    required("at", MOMENT),
    _of_rfp("journal_entries"),
    UniqueConstraint("team", "operation_key"),
    Index("journal_entries_order_idx", "team", "rfp_id", "id"),
    Index("journal_entries_correlation_idx", "team", "correlation_id"),
)

events = Table(
    "events",
    metadata,
    identity(),
    *(required(name, Text()) for name in ("team", "rfp_id", "event_type")),
    required("payload", JSONB()),
    *(required(name, Text()) for name in _WRITTEN),
    required("at", MOMENT),
    _of_rfp("events"),
    UniqueConstraint("team", "operation_key"),
    Index("events_order_idx", "team", "rfp_id", "id"),
    Index("events_correlation_idx", "team", "correlation_id"),
)

team_members = Table(
    "team_members",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "user_id")),
    *(required(name, Text()) for name in ("name", "email", "role", "biography")),
    required("skills", ARRAY(Text)),
    required("capacity", Integer()),
    required("updated_at", MOMENT),
    Index("team_members_name_idx", "team", text("lower(name)")),
)

memories = Table(
    "memories",
    metadata,
    identity(),
    *(required(name, Text()) for name in ("team", "kind", "cue", "text", "error_class")),
    *(required(name, Text()) for name in ("user_id", "channel", "rfp_id", "key")),
    Column(
        "words",
        TSVECTOR,
        Computed(
            "(setweight(to_tsvector('english'::regconfig, cue), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, text), 'B'::\"char\"))",
            persisted=True,
        ),
    ),
    required("at", MOMENT),
    UniqueConstraint("team", "kind", "key"),
    Index("memories_words_idx", "words", postgresql_using="gin"),
    Index("memories_age_idx", "at"),
)

actors = Table(
    "actors",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "user_id")),
    *(required(name, Text()) for name in ("email", "display_name", "platform_id")),
    required("fetched_at", MOMENT),
)

proposed_actions = Table(
    "proposed_actions",
    metadata,
    identity(),
    Column("action_id", Text, Computed("('ACT-'::text || (id)::text)", persisted=True), nullable=False),
    *(required(name, Text()) for name in ("team", "channel", "thread_ts", "rfp_id")),
    required("action", JSONB()),
    *(required(name, Text()) for name in ("action_hash", "risk", "asked_by")),
    required("approvers", ARRAY(Text)),
    *(required(name, Text()) for name in ("correlation_id", "operation_key")),
    *(required(name, MOMENT) for name in ("created_at", "expires_at")),
    Column("decision", Text),
    Column("decided_at", MOMENT),
    *(required(name, Text()) for name in ("decided_by", "decided_how")),
    UniqueConstraint("action_id"),
    UniqueConstraint("team", "operation_key"),
    Index("proposed_actions_thread_idx", "team", "channel", "thread_ts", "id"),
)

agent_jobs = Table(
    "agent_jobs",
    metadata,
    identity(),
    Column("job_id", Text, Computed("('JOB-'::text || (id)::text)", persisted=True), nullable=False),
    Column(
        "workflow_id",
        Text,
        Computed("((('job:'::text || team) || ':'::text) || (id)::text)", persisted=True),
        nullable=False,
    ),
    *(required(name, Text()) for name in ("team", "job_type")),
    required("arguments", JSONB()),
    Column("run_at", MOMENT),
    *(required(name, Text()) for name in ("cron", "time_zone", "status", "rfp_id", "channel", "thread_ts")),
    *(required(name, Text()) for name in ("asked_by", "correlation_id", "operation_key", "run_key")),
    required("runs", Integer()),
    Column("result", JSONB(none_as_null=True)),
    required("error", Text()),
    required("created_at", MOMENT),
    *(Column(name, MOMENT) for name in ("started_at", "finished_at")),
    UniqueConstraint("job_id"),
    UniqueConstraint("team", "operation_key"),
    Index("agent_jobs_order_idx", "team", "id"),
    Index("agent_jobs_status_idx", "team", "status", "id"),
    Index("agent_jobs_rfp_idx", "team", "rfp_id", "id", postgresql_where=text("rfp_id <> ''")),
)
