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

from threadline.db.columns import MOMENT, MONEY, SLACK_TIME, metadata, must, serial


def _case() -> Column[str]:
    return Column("bug_id", Text, ForeignKey("cases.bug_id"), nullable=False)


cases = Table(
    "cases",
    metadata,
    serial(),
    Column("bug_id", Text, Computed("('BUG-'::text || (id)::text)", persisted=True), nullable=False),
    *(must(name, Text()) for name in ("team", "channel", "thread_ts", "reporter_id", "title", "severity", "status")),
    must("components", ARRAY(Text)),
    must("rev", BigInteger()),
    *(must(name, Integer()) for name in ("stored", "turn", "questions", "escalations", "closings")),
    must("escalated", Boolean()),
    must("wait_until", Double()),
    *(must(name, Text()) for name in ("last_action", "last_question", "close_reason", "session_head")),
    must("base", JSONB()),
    must("cost_usd", MONEY),
    Column("summary_channel", Text),
    Column("summary_ts", Text),
    must("created_at", MOMENT),
    Column("resolved_at", MOMENT),
    UniqueConstraint("bug_id"),
    UniqueConstraint("team", "channel", "thread_ts"),
    Index("cases_status_idx", "status"),
    Index("cases_title_trgm_idx", "title", postgresql_using="gin", postgresql_ops={"title": "gin_trgm_ops"}),
)

case_transitions = Table(
    "case_transitions",
    metadata,
    serial(),
    _case(),
    must("rev", BigInteger()),
    Column("from_status", Text),
    *(must(name, Text()) for name in ("to_status", "reason", "actor")),
    must("at", MOMENT),
    UniqueConstraint("bug_id", "rev"),
)

bug_conversations = Table(
    "bug_conversations",
    metadata,
    serial(),
    _case(),
    Column("seq", Integer),
    *(must(name, Text()) for name in ("message_id", "sender_type", "sender_id", "message_type", "message_text")),
    *(must(name, Text()) for name in ("channel", "slack_ts")),
    must("said_at", SLACK_TIME),
    must("correction_of", Text()),
    must("version", SLACK_TIME),
    Column("turn", Integer),
    Column("read_through", Integer),
    must("wakes", Boolean()),
    must("error", Text()),
    Column("redacted_at", MOMENT),
    Column("edited_at", MOMENT),
    must("created_at", MOMENT),
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
    serial(),
    _case(),
    *(must(name, Text()) for name in ("message_id", "file_id", "name", "mimetype")),
    must("size", BigInteger()),
    Column("content", LargeBinary),
    must("error", Text()),
    must("created_at", MOMENT),
    UniqueConstraint("bug_id", "message_id", "file_id"),
)

agent_turns = Table(
    "agent_turns",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    must("attempt", Integer()),
    must("status", Text()),
    must("token", BigInteger()),
    Column("lease_until", MOMENT),
    *(must(name, Text()) for name in ("session_id", "parent_session")),
    Column("first_seq", Integer),
    Column("last_seq", Integer),
    Column("action", Text),
    *(must(name, JSONB()) for name in ("result", "diffs", "base")),
    must("has_fix", Boolean()),
    must("fix_asked_by", Text()),
    must("cost_usd", MONEY),
    *(must(name, BigInteger()) for name in ("input_tokens", "output_tokens")),
    must("duration_s", Double()),
    must("read_seqs", ARRAY(Integer)),
    must("failure", Text()),
    must("started_at", MOMENT),
    Column("finished_at", MOMENT),
)

findings = Table(
    "findings",
    metadata,
    serial(),
    _case(),
    must("turn", Integer()),
    *(must(name, Text()) for name in ("title", "detail", "file")),
    must("line", Integer()),
    must("severity", Text()),
    must("created_at", MOMENT),
    UniqueConstraint("bug_id", "turn", "title", "file", "line"),
)

agent_sessions = Table(
    "agent_sessions",
    metadata,
    Column("project_key", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("subpath", Text, primary_key=True),
    must("modified_at", MOMENT),
)

agent_session_entries = Table(
    "agent_session_entries",
    metadata,
    serial(),
    *(must(name, Text()) for name in ("project_key", "session_id", "subpath")),
    Column("uuid", Text),
    must("entry", Text()),
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
    *(must(name, Text()) for name in ("kind", "channel")),
    Column("thread_ts", Text),
    *(must(name, Double()) for name in ("claimed_at", "lease_until")),
    Column("ts", Text),
    must("error", Text()),
    Index("slack_posts_answers_idx", "channel", "ts", postgresql_where=text("key LIKE 'talk:%'")),
    Index("slack_posts_talk_idx", "channel", "thread_ts", postgresql_where=text("key LIKE 'talk:%'")),
)

sla_events = Table(
    "sla_events",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    Column("escalation", Integer, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    must("kind", Text()),
    must("tier", Integer()),
    must("at", MOMENT),
)

pull_requests = Table(
    "pull_requests",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    *(must(name, Text()) for name in ("repository", "branch", "url")),
    Column("number", Integer),
    *(must(name, Text()) for name in ("state", "commit")),
    must("turn", Integer()),
    must("opened_at", MOMENT),
    Column("merged_at", MOMENT),
)

quarantine = Table(
    "quarantine",
    metadata,
    serial(),
    *(must(name, Text()) for name in ("team", "channel", "thread_ts", "message_id", "message_text")),
    must("created_at", MOMENT),
    UniqueConstraint("team", "channel", "thread_ts", "message_id"),
)

services = Table(
    "services",
    metadata,
    Column("name", Text, primary_key=True),
    *(must(name, Text()) for name in ("description", "owner", "channel", "repository")),
)

threads = Table(
    "threads",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "channel", "thread_ts")),
    *(must(name, Text()) for name in ("workflow_id", "kind")),
    _case(),
)

channel_marks = Table(
    "channel_marks",
    metadata,
    Column("channel", Text, primary_key=True),
    must("installed_at", SLACK_TIME),
    *(Column(name, MOMENT) for name in ("looked_at", "deep_at")),
    must("error", Text()),
)

followed_threads = Table(
    "followed_threads",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("channel", "thread_ts")),
    *(must(name, SLACK_TIME) for name in ("said_at", "active_at")),
    *(must(name, Text()) for name in ("shown", "compared")),
    *(must(name, Double()) for name in ("seen_at", "compared_at")),
    must("due", Boolean()),
    must("error", Text()),
    Index("followed_threads_due_idx", "active_at", postgresql_where=text("due")),
    Index("followed_threads_active_idx", "active_at", "compared_at"),
)

resent_messages = Table(
    "resent_messages",
    metadata,
    Column("message_id", Text, primary_key=True),
    must("times", Integer()),
    must("last_at", MOMENT),
)

refused_messages = Table(
    "refused_messages",
    metadata,
    Column("message_id", Text, primary_key=True),
    must("refused_at", MOMENT),
)
