"""The tables of bug cases and of the agent's turns. Constraints, indexes, defaults and triggers
are in `alembic/`.
"""

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    Column,
    Computed,
    Double,
    Integer,
    LargeBinary,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from threadline.db.columns import (
    JSON,
    MOMENT,
    MONEY,
    SLACK_TIME,
    TEXT,
    identity,
    metadata,
    required,
)

_HAS_FINDINGS = (
    "((status = 'done'::text) AND (failure = ''::text)"
    " AND (COALESCE(action, 'ask_reporter'::text) <> 'ask_reporter'::text)"
    " AND (COALESCE((result ->> 'summary'::text), ''::text) ~ '[^[:space:]]'::text))"
)
_HAS_REPLY = (
    "((failure <> ''::text)"
    " OR (COALESCE((result ->> 'reply'::text), ''::text) ~ '[^[:space:]]'::text))"
)
_WORKFLOW_ID = "((((('bug:'::text || team) || ':'::text) || channel) || ':'::text) || thread_ts)"
_TITLE_VECTOR = (
    "(to_tsvector('english'::regconfig, title) || word_vector('english'::regconfig, title_words))"
)
_MESSAGE_VECTOR = (
    "(to_tsvector('english'::regconfig, ((message_text || ' '::text) || forwarded))"
    " || word_vector('english'::regconfig, words))"
)

cases = Table(
    "cases",
    metadata,
    identity(),
    Column(
        "bug_id", TEXT, Computed("('BUG-'::text || (id)::text)", persisted=True), nullable=False
    ),
    *(
        required(name, TEXT)
        for name in ("team", "channel", "thread_ts", "reporter_id", "title", "severity", "status")
    ),
    required("title_words", ARRAY(TEXT)),
    required("components", ARRAY(TEXT)),
    required("rev", BigInteger()),
    *(
        required(name, Integer())
        for name in ("message_count", "turn", "questions", "escalations", "closings")
    ),
    required("escalated", Boolean()),
    required("wait_until", Double()),
    *(
        required(name, TEXT)
        for name in ("last_action", "last_question", "close_reason", "last_session_id")
    ),
    required("base", JSON),
    required("cost_usd", MONEY),
    required("cost_known", Boolean()),
    required("created_at", MOMENT),
    Column("resolved_at", MOMENT),
    Column("workflow_id", TEXT, Computed(_WORKFLOW_ID, persisted=True), nullable=False),
    Column("search_vector", TSVECTOR, Computed(_TITLE_VECTOR, persisted=True), nullable=False),
)

case_transitions = Table(
    "case_transitions",
    metadata,
    identity(),
    required("bug_id", TEXT),
    required("rev", BigInteger()),
    Column("from_status", TEXT),
    *(required(name, TEXT) for name in ("to_status", "reason", "actor")),
    required("at", MOMENT),
)

# `Text` cleans nothing, so that a message that Postgres refuses goes into quarantine. A cleaned id
# could be the id of another message, and one of the two would not be stored.
bug_conversations = Table(
    "bug_conversations",
    metadata,
    identity(),
    required("bug_id", TEXT),
    Column("seq", Integer),
    *(
        required(name, Text())
        for name in ("message_id", "sender_type", "sender_id", "message_type", "message_text")
    ),
    *(required(name, Text()) for name in ("channel", "slack_ts")),
    required("said_at", SLACK_TIME),
    required("correction_of", Text()),
    required("version", SLACK_TIME),
    required("forwarded", Text()),
    required("words", ARRAY(Text)),
    Column("search_vector", TSVECTOR, Computed(_MESSAGE_VECTOR, persisted=True), nullable=False),
    *(Column(name, Integer) for name in ("turn", "read_in_turn")),
    *(required(name, Boolean()) for name in ("spoken", "wants_turn")),
    Column("closes", Boolean),
    *(Column(name, MOMENT) for name in ("redacted_at", "edited_at")),
    required("created_at", MOMENT),
)

attachments = Table(
    "attachments",
    metadata,
    identity(),
    required("bug_id", TEXT),
    *(required(name, Text()) for name in ("message_id", "file_id", "name", "mimetype")),
    required("size", BigInteger()),
    Column("content", LargeBinary),
    required("error", TEXT),
    required("created_at", MOMENT),
)

agent_turns = Table(
    "agent_turns",
    metadata,
    Column("bug_id", TEXT, primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    required("attempt", Integer()),
    required("status", TEXT),
    required("token", BigInteger()),
    Column("lease_until", MOMENT),
    *(required(name, TEXT) for name in ("session_id", "parent_session")),
    *(Column(name, Integer) for name in ("first_seq", "last_seq")),
    Column("action", TEXT),
    *(required(name, JSON) for name in ("result", "diffs", "base")),
    required("has_fix", Boolean()),
    required("fix_requested_by", TEXT),
    required("cost_usd", MONEY),
    required("cost_known", Boolean()),
    *(required(name, BigInteger()) for name in ("input_tokens", "output_tokens")),
    required("duration_s", Double()),
    required("read_seqs", ARRAY(Integer)),
    required("failure", TEXT),
    required("started_at", MOMENT),
    Column("finished_at", MOMENT),
    Column("has_findings", Boolean, Computed(_HAS_FINDINGS, persisted=True), nullable=False),
    Column("has_reply", Boolean, Computed(_HAS_REPLY, persisted=True), nullable=False),
)

sla_events = Table(
    "sla_events",
    metadata,
    Column("bug_id", TEXT, primary_key=True),
    *(
        Column(name, Integer, primary_key=True, autoincrement=False)
        for name in ("escalation", "ordinal")
    ),
    required("kind", TEXT),
    required("tier", Integer()),
    required("at", MOMENT),
)

pull_requests = Table(
    "pull_requests",
    metadata,
    Column("bug_id", TEXT, primary_key=True),
    *(required(name, TEXT) for name in ("repository", "branch", "url")),
    Column("number", Integer),
    *(required(name, TEXT) for name in ("state", "commit")),
    required("draft", Boolean()),
    required("opened_at", MOMENT),
    Column("merged_at", MOMENT),
)

services = Table(
    "services",
    metadata,
    Column("name", TEXT, primary_key=True),
    *(required(name, TEXT) for name in ("description", "owner", "channel", "repository")),
)
