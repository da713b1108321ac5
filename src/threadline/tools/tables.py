"""The tables that the tools of a conversation work on, as queries see them; see `threadline.db.tables`."""

from sqlalchemy import (
    ARRAY,
    REAL,
    UUID,
    Boolean,
    Column,
    Computed,
    Date,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    Numeric,
    String,
    Table,
    Text,
    Time,
    UniqueConstraint,
    func,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB, TSTZRANGE, TSVECTOR, ExcludeConstraint

from threadline.db.columns import MOMENT, identity, metadata, required

_NAME = String(255)
_PLACE = ("team", "channel", "thread_ts")

limit_verdicts = Table(
    "limit_verdicts",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("rule", "scope", "event")),
    required("at", Double()),
    required("verdict", Text()),
    Index("limit_verdicts_window_idx", "rule", "scope", "at"),
    Index("limit_verdicts_told_idx", "rule", "scope", "at", postgresql_where=text("verdict = 'throttled_first'")),
    Index("limit_verdicts_age_idx", "at"),
)

agent_tool_executions = Table(
    "agent_tool_executions",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    *(required(name, _NAME) for name in ("request_id", *_PLACE, "user_id")),
    *(required(name, Integer()) for name in ("turn", "step")),
    required("call_id", Text()),
    required("tool_name", String(100)),
    required("fingerprint", Text()),
    required("cacheable", Boolean()),
    *(Column(name, JSONB(none_as_null=True)) for name in ("parameters", "result")),
    Column("status", Text),
    Column(
        "success",
        Boolean,
        Computed("((status IS NOT NULL) AND (status = ANY (ARRAY['ok'::text, 'cached'::text])))", persisted=True),
        nullable=False,
    ),
    Column("execution_time_ms", Integer),
    required("created_at", MOMENT),
    Column("finished_at", MOMENT),
    UniqueConstraint(*_PLACE, "turn", "step", "call_id", name="agent_tool_executions_call_key"),
    Index("idx_tool_executions_channel_thread", "channel", "thread_ts"),
    Index("idx_tool_executions_user", "user_id"),
    Index("idx_tool_executions_age", "created_at"),
)

tool_results = Table(
    "tool_results",
    metadata,
    Column("fingerprint", Text, primary_key=True),
    *(required(name, Text()) for name in ("team", "toolset")),
    required("result", JSONB()),
    required("until", Double()),
    Index("tool_results_toolset_idx", "team", "toolset"),
    Index("tool_results_age_idx", "until"),
)

tool_operations = Table(
    "tool_operations",
    metadata,
    Column("key", Text, primary_key=True),
    *(required(name, Text()) for name in ("kind", "record")),
    Column("result", JSONB),
    required("created_at", MOMENT),
    Index("tool_operations_age_idx", "created_at"),
)

appointment_resources = Table(
    "appointment_resources",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "name")),
    required("time_zone", Text()),
    *(required(name, Time()) for name in ("opens", "closes")),
    required("weekdays", ARRAY(Integer)),
)

appointments = Table(
    "appointments",
    metadata,
    identity(),
    Column("appointment_id", Text, Computed("('APT-'::text || (id)::text)", persisted=True), nullable=False),
    *(required(name, Text()) for name in ("team", "resource")),
    required("during", TSTZRANGE()),
    *(required(name, Text()) for name in ("title", "attendee")),
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

estimate_projects = Table(
    "estimate_projects",
    metadata,
    identity(),
    Column("project_id", Text, Computed("('PRJ-'::text || (id)::text)", persisted=True), nullable=False),
    *(required(name, Text()) for name in ("team", "name", "currency")),
    required("locked", Boolean()),
    required("created_at", MOMENT),
    UniqueConstraint("project_id"),
    Index("estimate_projects_name_idx", "team", text("lower(name)"), unique=True),
)


def _project() -> Column[str]:
    return Column("project_id", Text, ForeignKey("estimate_projects.project_id"), primary_key=True)


estimate_roles = Table(
    "estimate_roles",
    metadata,
    _project(),
    Column("name", Text, primary_key=True),
    required("day_rate", Numeric()),
)

estimate_items = Table(
    "estimate_items",
    metadata,
    _project(),
    Column("number", Integer, primary_key=True, autoincrement=False),
    *(required(name, Text()) for name in ("title", "role")),
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

thread_bindings = Table(
    "thread_bindings",
    metadata,
    *(Column(name, Text, primary_key=True) for name in (*_PLACE, "kind")),
    *(required(name, Text()) for name in ("record_id", "bound_by")),
    required("bound_at", MOMENT),
    Index("thread_bindings_record_idx", "team", "kind", "record_id", "bound_at"),
)

knowledge_documents = Table(
    "knowledge_documents",
    metadata,
    identity(),
    *(required(name, Text()) for name in ("team", "title", "source", "body")),
    Column(
        "words",
        TSVECTOR,
        Computed(
            "(setweight(to_tsvector('english'::regconfig, title), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, body), 'B'::\"char\"))",
            persisted=True,
        ),
    ),
    required("updated_at", MOMENT),
    required("type", Text()),
    required("authority", Double()),
    *(Column(name, Date) for name in ("effective", "expires")),
    *(required(name, Text()) for name in ("root", "content_hash")),
    UniqueConstraint("team", "source"),
    Index("knowledge_documents_words_idx", "words", postgresql_using="gin"),
)

knowledge_passages = Table(
    "knowledge_passages",
    metadata,
    Column("document_id", ForeignKey("knowledge_documents.id", ondelete="CASCADE"), primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    *(required(name, Text()) for name in ("title", "section", "body")),
    Column(
        "words",
        TSVECTOR,
        Computed(
            "((setweight(to_tsvector('english'::regconfig, title), 'A'::\"char\")"
            " || setweight(to_tsvector('english'::regconfig, section), 'B'::\"char\"))"
            " || setweight(to_tsvector('english'::regconfig, body), 'C'::\"char\"))",
            persisted=True,
        ),
    ),
    required("model", Text()),
    Column("vector", ARRAY(REAL)),
    Index("knowledge_passages_words_idx", "words", postgresql_using="gin"),
)

knowledge_words = Table(
    "knowledge_words",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "word")),
    Index("knowledge_words_letters_idx", "word", postgresql_using="gin", postgresql_ops={"word": "gin_trgm_ops"}),
)
