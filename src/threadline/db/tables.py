"""The tables as queries see them. Checks, defaults and triggers live in the migrations; a test compares the two."""

from typing import Any

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Computed,
    DateTime,
    Double,
    ForeignKey,
    ForeignKeyConstraint,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    literal_column,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import TypeEngine

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_name)s_fkey",
    }
)

_MOMENT = DateTime(timezone=True)
_MONEY = Numeric(14, 6)
_SLACK_TIME = Numeric(20, 6)
"""Seconds since 1970 with Slack's six decimals: exact, and ordered, which its text is not."""


def _must(name: str, kind: TypeEngine[Any]) -> Column[Any]:
    return Column(name, kind, nullable=False)


def _case() -> Column[str]:
    return Column("bug_id", Text, ForeignKey("cases.bug_id"), nullable=False)


def _serial() -> Column[int]:
    return Column("id", BigInteger, Identity(always=True), primary_key=True)


cases = Table(
    "cases",
    metadata,
    _serial(),
    Column("bug_id", Text, Computed("('BUG-'::text || (id)::text)", persisted=True), nullable=False),
    *(_must(name, Text()) for name in ("team", "channel", "thread_ts", "reporter_id", "title", "severity", "status")),
    _must("components", ARRAY(Text)),
    _must("rev", BigInteger()),
    *(_must(name, Integer()) for name in ("stored", "turn", "questions", "escalations", "closings")),
    _must("escalated", Boolean()),
    _must("wait_until", Double()),
    *(_must(name, Text()) for name in ("last_action", "last_question", "close_reason", "session_head")),
    _must("base", JSONB()),
    _must("cost_usd", _MONEY),
    Column("summary_channel", Text),
    Column("summary_ts", Text),
    _must("created_at", _MOMENT),
    Column("resolved_at", _MOMENT),
    UniqueConstraint("bug_id"),
    UniqueConstraint("team", "channel", "thread_ts"),
    Index("cases_status_idx", "status"),
    Index("cases_title_trgm_idx", "title", postgresql_using="gin", postgresql_ops={"title": "gin_trgm_ops"}),
)

case_transitions = Table(
    "case_transitions",
    metadata,
    _serial(),
    _case(),
    _must("rev", BigInteger()),
    Column("from_status", Text),
    *(_must(name, Text()) for name in ("to_status", "reason", "actor")),
    _must("at", _MOMENT),
    UniqueConstraint("bug_id", "rev"),
)

bug_conversations = Table(
    "bug_conversations",
    metadata,
    _serial(),
    _case(),
    Column("seq", Integer),
    *(_must(name, Text()) for name in ("message_id", "sender_type", "sender_id", "message_type", "message_text")),
    *(_must(name, Text()) for name in ("channel", "slack_ts")),
    _must("said_at", _SLACK_TIME),
    _must("correction_of", Text()),
    _must("version", _SLACK_TIME),
    Column("turn", Integer),
    Column("read_through", Integer),
    _must("wakes", Boolean()),
    _must("error", Text()),
    Column("redacted_at", _MOMENT),
    Column("edited_at", _MOMENT),
    _must("created_at", _MOMENT),
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
    _serial(),
    _case(),
    *(_must(name, Text()) for name in ("message_id", "file_id", "name", "mimetype")),
    _must("size", BigInteger()),
    Column("content", LargeBinary),
    _must("error", Text()),
    _must("created_at", _MOMENT),
    UniqueConstraint("bug_id", "message_id", "file_id"),
)

agent_turns = Table(
    "agent_turns",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    _must("attempt", Integer()),
    _must("status", Text()),
    _must("token", BigInteger()),
    Column("lease_until", _MOMENT),
    *(_must(name, Text()) for name in ("session_id", "parent_session")),
    Column("first_seq", Integer),
    Column("last_seq", Integer),
    Column("action", Text),
    *(_must(name, JSONB()) for name in ("result", "diffs", "base")),
    _must("has_fix", Boolean()),
    _must("fix_asked_by", Text()),
    _must("cost_usd", _MONEY),
    *(_must(name, BigInteger()) for name in ("input_tokens", "output_tokens")),
    _must("duration_s", Double()),
    _must("read_seqs", ARRAY(Integer)),
    _must("failure", Text()),
    _must("started_at", _MOMENT),
    Column("finished_at", _MOMENT),
)

findings = Table(
    "findings",
    metadata,
    _serial(),
    _case(),
    _must("turn", Integer()),
    *(_must(name, Text()) for name in ("title", "detail", "file")),
    _must("line", Integer()),
    _must("severity", Text()),
    _must("created_at", _MOMENT),
    UniqueConstraint("bug_id", "turn", "title", "file", "line"),
)

agent_sessions = Table(
    "agent_sessions",
    metadata,
    Column("project_key", Text, primary_key=True),
    Column("session_id", Text, primary_key=True),
    Column("subpath", Text, primary_key=True),
    _must("modified_at", _MOMENT),
)

agent_session_entries = Table(
    "agent_session_entries",
    metadata,
    _serial(),
    *(_must(name, Text()) for name in ("project_key", "session_id", "subpath")),
    Column("uuid", Text),
    _must("entry", Text()),
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
    *(_must(name, Text()) for name in ("kind", "channel")),
    Column("thread_ts", Text),
    *(_must(name, Double()) for name in ("claimed_at", "lease_until")),
    Column("ts", Text),
    _must("error", Text()),
)

sla_events = Table(
    "sla_events",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    Column("escalation", Integer, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    _must("kind", Text()),
    _must("tier", Integer()),
    _must("at", _MOMENT),
)

pull_requests = Table(
    "pull_requests",
    metadata,
    Column("bug_id", Text, ForeignKey("cases.bug_id"), primary_key=True),
    *(_must(name, Text()) for name in ("repository", "branch", "url")),
    Column("number", Integer),
    *(_must(name, Text()) for name in ("state", "commit")),
    _must("turn", Integer()),
    _must("opened_at", _MOMENT),
    Column("merged_at", _MOMENT),
)

quarantine = Table(
    "quarantine",
    metadata,
    _serial(),
    *(_must(name, Text()) for name in ("team", "channel", "thread_ts", "message_id", "message_text")),
    _must("created_at", _MOMENT),
    UniqueConstraint("team", "channel", "thread_ts", "message_id"),
)

services = Table(
    "services",
    metadata,
    Column("name", Text, primary_key=True),
    *(_must(name, Text()) for name in ("description", "owner", "channel", "repository")),
)

threads = Table(
    "threads",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "channel", "thread_ts")),
    *(_must(name, Text()) for name in ("workflow_id", "kind")),
    _case(),
)

channel_marks = Table(
    "channel_marks",
    metadata,
    Column("channel", Text, primary_key=True),
    _must("installed_at", _SLACK_TIME),
    *(Column(name, _MOMENT) for name in ("looked_at", "deep_at")),
    _must("error", Text()),
)

followed_threads = Table(
    "followed_threads",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("channel", "thread_ts")),
    *(_must(name, _SLACK_TIME) for name in ("said_at", "active_at")),
    *(_must(name, Text()) for name in ("shown", "compared")),
    *(_must(name, Double()) for name in ("seen_at", "compared_at")),
    _must("due", Boolean()),
    _must("error", Text()),
    Index("followed_threads_due_idx", "active_at", postgresql_where=text("due")),
    Index("followed_threads_active_idx", "active_at", "compared_at"),
)

resent_messages = Table(
    "resent_messages",
    metadata,
    Column("message_id", Text, primary_key=True),
    _must("times", Integer()),
    _must("last_at", _MOMENT),
)

refused_messages = Table(
    "refused_messages",
    metadata,
    Column("message_id", Text, primary_key=True),
    _must("refused_at", _MOMENT),
)
