"""The tables as queries see them. Checks, defaults and triggers are in `alembic/`; a test compares the two."""

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
from sqlalchemy.dialects.postgresql import JSONB

from threadline.db.columns import MOMENT, MONEY, SLACK_TIME, identity, metadata, required


def _case() -> Column[str]:
    return Column("bug_id", Text, ForeignKey("cases.bug_id"), nullable=False)


cases = Table(
    "cases",
    metadata,
    identity(),
    Column("bug_id", Text, Computed("('BUG-'::text || (id)::text)", persisted=True), nullable=False),
    *(
        required(name, Text())
        for name in ("team", "channel", "thread_ts", "reporter_id", "title", "severity", "status")
    ),
    required("components", ARRAY(Text)),
    required("rev", BigInteger()),
    *(required(name, Integer()) for name in ("stored", "turn", "questions", "escalations", "closings")),
    required("escalated", Boolean()),
    required("wait_until", Double()),
    *(required(name, Text()) for name in ("last_action", "last_question", "close_reason", "session_head")),
    required("base", JSONB()),
    required("cost_usd", MONEY),
    Column("summary_channel", Text),
    Column("summary_ts", Text),
    required("created_at", MOMENT),
    Column("resolved_at", MOMENT),
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
    Column("from_status", Text),
    *(required(name, Text()) for name in ("to_status", "reason", "actor")),
    required("at", MOMENT),
    UniqueConstraint("bug_id", "rev"),
)

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
    Column("read_through", Integer),
    required("wakes", Boolean()),
    required("error", Text()),
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
    required("error", Text()),
    required("created_at", MOMENT),
    UniqueConstraint("bug_id", "message_id", "file_id"),
)

agent_turns = Table(
    "agent_turns",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    required("attempt", Integer()),
    required("status", Text()),
    required("token", BigInteger()),
    Column("lease_until", MOMENT),
    *(required(name, Text()) for name in ("session_id", "parent_session")),
    Column("first_seq", Integer),
    Column("last_seq", Integer),
    Column("action", Text),
    *(required(name, JSONB()) for name in ("result", "diffs", "base")),
    required("has_fix", Boolean()),
    required("fix_asked_by", Text()),
    required("cost_usd", MONEY),
    *(required(name, BigInteger()) for name in ("input_tokens", "output_tokens")),
    required("duration_s", Double()),
    required("read_seqs", ARRAY(Integer)),
    required("failure", Text()),
    required("started_at", MOMENT),
    Column("finished_at", MOMENT),
)

findings = Table(
    "findings",
    metadata,
    identity(),
    _case(),
    required("turn", Integer()),
    *(required(name, Text()) for name in ("title", "detail", "file")),
    required("line", Integer()),
    required("severity", Text()),
    required("created_at", MOMENT),
    UniqueConstraint("bug_id", "turn", "title", "file", "line"),
)

agent_sessions = Table(
    "agent_sessions",
    metadata,
    Column("project_key", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("subpath", Text, primary_key=True),
    required("modified_at", MOMENT),
)

agent_session_entries = Table(
    "agent_session_entries",
    metadata,
    identity(),
    *(required(name, Text()) for name in ("project_key", "session_id", "subpath")),
    Column("uuid", Text),
    required("entry", Text()),
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

slack_posts = Table(
    "slack_posts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("bug_id", Text, ForeignKey("cases.bug_id")),
    *(required(name, Text()) for name in ("kind", "channel")),
    Column("thread_ts", Text),
    *(required(name, Double()) for name in ("claimed_at", "lease_until")),
    Column("ts", Text),
    required("error", Text()),
    Index("slack_posts_answers_idx", "channel", "ts", postgresql_where=text("key LIKE 'talk:%'")),
    Index("slack_posts_talk_idx", "channel", "thread_ts", postgresql_where=text("key LIKE 'talk:%'")),
)

sla_events = Table(
    "sla_events",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    Column("escalation", Integer, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    required("kind", Text()),
    required("tier", Integer()),
    required("at", MOMENT),
)

pull_requests = Table(
    "pull_requests",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    *(required(name, Text()) for name in ("repository", "branch", "url")),
    Column("number", Integer),
    *(required(name, Text()) for name in ("state", "commit")),
    required("turn", Integer()),
    required("opened_at", MOMENT),
    Column("merged_at", MOMENT),
)

quarantine = Table(
    "quarantine",
    metadata,
    identity(),
    *(required(name, Text()) for name in ("team", "channel", "thread_ts", "message_id", "message_text")),
    required("created_at", MOMENT),
    UniqueConstraint("team", "channel", "thread_ts", "message_id"),
)

services = Table(
    "services",
    metadata,
    Column("name", Text, primary_key=True),
    *(required(name, Text()) for name in ("description", "owner", "channel", "repository")),
)

threads = Table(
    "threads",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "channel", "thread_ts")),
    *(required(name, Text()) for name in ("workflow_id", "kind")),
    _case(),
)

channel_marks = Table(
    "channel_marks",
    metadata,
    Column("channel", Text, primary_key=True),
    required("installed_at", SLACK_TIME),
    *(Column(name, MOMENT) for name in ("looked_at", "deep_at")),
    required("error", Text()),
)

followed_threads = Table(
    "followed_threads",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("channel", "thread_ts")),
    *(required(name, SLACK_TIME) for name in ("said_at", "active_at")),
    *(required(name, Text()) for name in ("shown", "compared")),
    *(required(name, Double()) for name in ("seen_at", "compared_at")),
    required("due", Boolean()),
    required("error", Text()),
    Index("followed_threads_due_idx", "active_at", postgresql_where=text("due")),
    Index("followed_threads_active_idx", "active_at", "compared_at"),
)

resent_messages = Table(
    "resent_messages",
    metadata,
    Column("message_id", Text, primary_key=True),
    required("times", Integer()),
    required("last_at", MOMENT),
)

refused_messages = Table(
    "refused_messages",
    metadata,
    Column("message_id", Text, primary_key=True),
    required("refused_at", MOMENT),
)
