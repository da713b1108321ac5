"""The tables of conversations. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    Double,
    ForeignKey,
    Integer,
    Table,
    Text,
)
from sqlalchemy.dialects.postgresql import JSONB

from threadline.db.columns import (
    JSON,
    JSON_OR_NULL,
    MOMENT,
    SLACK_TIME,
    TEXT,
    identity,
    metadata,
    required,
)

_NEEDS_ANSWER = (
    r"((message_type = 'message'::text) AND (redacted_at IS NULL) AND (addressed OR "
    r"(message_text ~ '\S'::text) OR (files <> '[]'::jsonb) OR (forwarded <> ''::text)))"
)


def conversation_id(*, primary_key: bool = False) -> Column[int]:
    """Return the column of the conversation's row; the foreign key is for joins."""
    whole = ForeignKey("conversations.id")
    return Column(
        "conversation_id",
        BigInteger,
        whole,
        nullable=False,
        primary_key=primary_key,
        autoincrement=False,
    )


conversations = Table(
    "conversations",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("team", "channel", "thread_ts")),
    *(
        required(name, Integer())
        for name in ("rev", "stored", "deletions", "turn", "reading_turn", "reading_step")
    ),
    *(required(name, TEXT) for name in ("question", "first_author")),
    required("has_several_people", Boolean()),
    *(required(name, SLACK_TIME) for name in ("quiet_until", "quiet_changed_at")),
    Column("cost_usd", Double()),
    required("summary", TEXT),
    required("summary_until", Integer()),
    *(required(name, MOMENT) for name in ("created_at", "last_at")),
)

# `Text` and `JSONB` clean no value, so that a message which Postgres refuses goes into quarantine.
# If its id were cleaned instead, it could equal the id of another message, and one of the two
# would not be stored.
conversation_messages = Table(
    "conversation_messages",
    metadata,
    identity(),
    conversation_id(),
    required("seq", Integer()),
    *(
        required(name, Text())
        for name in ("message_id", "sender_type", "sender_id", "message_type", "message_text")
    ),
    *(required(name, Text()) for name in ("channel", "slack_ts")),
    required("said_at", SLACK_TIME),
    required("correction_of", Text()),
    required("version", SLACK_TIME),
    required("forwarded", Text()),
    required("files", JSONB()),
    required("files_removed", Boolean()),
    required("addressed", Boolean()),
    Column("verdict", TEXT),
    required("wants_turn", Boolean()),
    *(Column(name, Integer) for name in ("turn", "step")),
    *(Column(name, MOMENT) for name in ("redacted_at", "edited_at")),
    required("created_at", MOMENT),
    Column("needs_answer", Boolean, Computed(_NEEDS_ANSWER, persisted=True), nullable=False),
)

conversation_files = Table(
    "conversation_files",
    metadata,
    conversation_id(primary_key=True),
    *(Column(name, TEXT, primary_key=True) for name in ("message_id", "file_id")),
    *(required(name, TEXT) for name in ("content", "trouble")),
    Column("fetched_at", MOMENT),
    required("created_at", MOMENT),
)

transcript_entries = Table(
    "transcript_entries",
    metadata,
    conversation_id(primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    required("key", TEXT),
    *(required(name, Integer()) for name in ("turn", "step")),
    required("body", TEXT),
    required("created_at", MOMENT),
)

conversation_turns = Table(
    "conversation_turns",
    metadata,
    conversation_id(primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    Column("route", JSON_OR_NULL),
    *(required(name, TEXT) for name in ("context", "patterns", "analysis")),
    required("layers", JSON),
    *(required(name, TEXT) for name in ("kind", "answer", "user_id")),
    required("wants_detail", Boolean()),
    required("model_calls", Integer()),
    Column("result", JSON_OR_NULL),
    required("created_at", MOMENT),
    *(Column(name, MOMENT) for name in ("settled_at", "posted_at")),
)

ratings = Table(
    "ratings",
    metadata,
    conversation_id(primary_key=True),
    *(Column(name, TEXT, primary_key=True) for name in ("message_ts", "user_id", "reaction")),
    required("active", Boolean()),
    required("at", SLACK_TIME),
)

model_calls = Table(
    "model_calls",
    metadata,
    identity(),
    conversation_id(),
    *(required(name, Integer()) for name in ("turn", "step")),
    *(required(name, TEXT) for name in ("purpose", "model")),
    *(
        required(name, Integer())
        for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")
    ),
    Column("cost_usd", Double()),
    required("milliseconds", Integer()),
    required("failure", TEXT),
    required("created_at", MOMENT),
)

handovers = Table(
    "handovers",
    metadata,
    conversation_id(primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    *(required(name, TEXT) for name in ("user_id", "channel", "card_ts", "taken_by", "closed_by")),
    required("reminded", Integer()),
    required("opened_at", MOMENT),
    *(Column(name, MOMENT) for name in ("taken_at", "closed_at")),
)
