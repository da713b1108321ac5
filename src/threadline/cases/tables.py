"""The tables of bug cases, of the agent's turns, findings and sessions. Checks and triggers are in `alembic/`."""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Computed,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)

from threadline.db.columns import JSON, MOMENT, MONEY, SLACK_TIME, TEXT, identity, metadata, required

_WORKFLOW_ID = "((((('bug:'::text || team) || ':'::text) || channel) || ':'::text) || thread_ts)"


def _case() -> Column[str]:
    return Column("bug_id", TEXT, ForeignKey("cases.bug_id"), nullable=False)


cases = Table(
    "cases",
    metadata,
    identity(),
    Column("bug_id", TEXT, Computed("('BUG-'::text || (id)::text)", persisted=True), nullable=False),
    *(required(name, TEXT) for name in ("team", "channel", "thread_ts", "reporter_id", "title", "severity", "status")),
    required("components", ARRAY(TEXT)),
    required("rev", BigInteger()),
    *(required(name, Integer()) for name in ("message_count", "turn", "questions", "escalations", "closings")),
    required("escalated", Boolean()),
    required("wait_until", Double()),
    *(required(name, TEXT) for name in ("last_action", "last_question", "close_reason", "last_session_id")),
    required("base", JSON),
    required("cost_usd", MONEY),
    required("created_at", MOMENT),
    Column("resolved_at", MOMENT),
    Column("workflow_id", TEXT, Computed(_WORKFLOW_ID, persisted=True), nullable=False),
    UniqueConstraint("bug_id"),
    UniqueConstraint("team", "channel", "thread_ts"),
    Index("cases_status_idx", "status"),
    Index("cases_title_trgm_idx", "title", postgresql_using="gin", postgresql_ops={"title": "gin_trgm_ops"}),
)

case_transitions = Table(
    "case_transitions",
    metadata,
    identity(),
    _case(),
    required("rev", BigInteger()),
    Column("from_status", TEXT),
    *(required(name, TEXT) for name in ("to_status", "reason", "actor")),
    required("at", MOMENT),
    UniqueConstraint("bug_id", "rev"),
)

# `Text` cleans nothing: a message that Postgres refuses is to go into quarantine. If its id were cleaned
# instead, it could be the id of another message, and one of the two would not be stored.
bug_conversations = Table(
    "bug_conversations",
    metadata,
    identity(),
    _case(),
    Column("seq", Integer),
    *(required(name, Text()) for name in ("message_id", "sender_type", "sender_id", "message_type", "message_text")),
    *(required(name, Text()) for name in ("channel", "slack_ts")),
    required("said_at", SLACK_TIME),
    required("correction_of", Text()),
    required("version", SLACK_TIME),
    Column("turn", Integer),
    Column("read_in_turn", Integer),
    required("wants_turn", Boolean()),
    Column("redacted_at", MOMENT),
    Column("edited_at", MOMENT),
    required("created_at", MOMENT),
    UniqueConstraint("bug_id", "seq"),
    UniqueConstraint("bug_id", "message_id"),
    Index("bug_conversations_order_idx", "bug_id", "said_at"),
    Index("bug_conversations_turn_idx", "bug_id", "turn", postgresql_where=text("sender_type <> 'bot'")),
    Index("bug_conversations_correction_idx", "bug_id", "correction_of", postgresql_where=text("correction_of <> ''")),
    Index(
        "bug_conversations_words_idx",
        literal_column("to_tsvector('english'::regconfig, message_text)"),
        postgresql_using="gin",
    ),
)

attachments = Table(
    "attachments",
    metadata,
    identity(),
    _case(),
    *(required(name, Text()) for name in ("message_id", "file_id", "name", "mimetype")),
    required("size", BigInteger()),
    Column("content", LargeBinary),
    required("error", TEXT),
    required("created_at", MOMENT),
    UniqueConstraint("bug_id", "message_id", "file_id"),
)

agent_turns = Table(
    "agent_turns",
    metadata,
    Column("bug_id", TEXT, ForeignKey("cases.bug_id"), primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    required("attempt", Integer()),
    required("status", TEXT),
    required("token", BigInteger()),
    Column("lease_until", MOMENT),
    *(required(name, TEXT) for name in ("session_id", "parent_session")),
    Column("first_seq", Integer),
    Column("last_seq", Integer),
    Column("action", TEXT),
    *(required(name, JSON) for name in ("result", "diffs", "base")),
    required("has_fix", Boolean()),
    required("fix_requested_by", TEXT),
    required("cost_usd", MONEY),
    *(required(name, BigInteger()) for name in ("input_tokens", "output_tokens")),
    required("duration_s", Double()),
    required("read_seqs", ARRAY(Integer)),
    required("failure", TEXT),
    required("started_at", MOMENT),
    Column("finished_at", MOMENT),
)

sla_events = Table(
    "sla_events",
    metadata,
    Column("bug_id", TEXT, ForeignKey("cases.bug_id"), primary_key=True),
    Column("escalation", Integer, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    required("kind", TEXT),
    required("tier", Integer()),
    required("at", MOMENT),
)

pull_requests = Table(
    "pull_requests",
    metadata,
    Column("bug_id", TEXT, ForeignKey("cases.bug_id"), primary_key=True),
    *(required(name, TEXT) for name in ("repository", "branch", "url")),
    Column("number", Integer),
    *(required(name, TEXT) for name in ("state", "commit")),
    required("turn", Integer()),
    required("opened_at", MOMENT),
    Column("merged_at", MOMENT),
)

services = Table(
    "services",
    metadata,
    Column("name", TEXT, primary_key=True),
    *(required(name, TEXT) for name in ("description", "owner", "channel", "repository")),
)

findings = Table(
    "findings",
    metadata,
    identity(),
    _case(),
    required("turn", Integer()),
    *(required(name, TEXT) for name in ("title", "detail", "file")),
    required("line", Integer()),
    required("severity", TEXT),
    required("created_at", MOMENT),
    UniqueConstraint("bug_id", "turn", "title", "file", "line"),
)

agent_sessions = Table(
    "agent_sessions",
    metadata,
    Column("project_key", TEXT, primary_key=True),
    Column("session_id", TEXT, primary_key=True),
    Column("subpath", TEXT, primary_key=True),
    required("modified_at", MOMENT),
)

agent_session_entries = Table(
    "agent_session_entries",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("project_key", "session_id", "subpath")),
    Column("uuid", TEXT),
    required("entry", TEXT),
    ForeignKeyConstraint(
        ["project_key", "session_id", "subpath"],
        ["agent_sessions.project_key", "agent_sessions.session_id", "agent_sessions.subpath"],
        name="agent_session_entries_project_key_session_id_subpath_fkey",
        ondelete="CASCADE",
    ),
    Index(
        "agent_session_entries_uuid_idx",
        "project_key",
        "session_id",
        "subpath",
        "uuid",
        unique=True,
        postgresql_where=text("uuid IS NOT NULL"),
    ),
    Index("agent_session_entries_order_idx", "project_key", "session_id", "subpath", "id"),
)
