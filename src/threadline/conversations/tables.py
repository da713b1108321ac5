"""The tables of conversations, as queries see them; see `threadline.db.tables`."""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from threadline.db.columns import MOMENT, SLACK_TIME, metadata, must, serial

conversations = Table(
    "conversations",
    metadata,
    serial(),
    *(must(name, Text()) for name in ("team", "channel", "thread_ts")),
    *(must(name, Integer()) for name in ("rev", "stored", "turn", "taken_turn", "taken_step")),
    *(must(name, Text()) for name in ("question", "writer")),
    must("several", Boolean()),
    must("cost_usd", Double()),
    must("summary", Text()),
    must("summary_until", Integer()),
    *(must(name, MOMENT) for name in ("created_at", "last_at")),
    UniqueConstraint("team", "channel", "thread_ts", name="conversations_thread_key"),
    Index("conversations_age_idx", "last_at", postgresql_where=text("stored > 0")),
)


def _conversation(*, primary_key: bool = False) -> Column[int]:
    whole = ForeignKey("conversations.id", ondelete="CASCADE")
    return Column("conversation_id", BigInteger, whole, nullable=False, primary_key=primary_key, autoincrement=False)


conversation_messages = Table(
    "conversation_messages",
    metadata,
    serial(),
    _conversation(),
    must("seq", Integer()),
    *(must(name, Text()) for name in ("message_id", "sender_type", "sender_id", "message_type", "message_text")),
    *(must(name, Text()) for name in ("channel", "slack_ts")),
    must("said_at", SLACK_TIME),
    must("correction_of", Text()),
    must("version", SLACK_TIME),
    must("files", JSONB()),
    must("addressed", Boolean()),
    Column("verdict", Text),
    must("wakes", Boolean()),
    *(Column(name, Integer) for name in ("turn", "step")),
    must("error", Text()),
    *(Column(name, MOMENT) for name in ("redacted_at", "edited_at")),
    must("created_at", MOMENT),
    UniqueConstraint("conversation_id", "seq"),
    UniqueConstraint("conversation_id", "message_id"),
    Index("conversation_messages_unused_idx", "conversation_id", "turn"),
    Index("conversation_messages_id_idx", "message_id"),
    Index(
        "conversation_messages_correction_idx",
        "conversation_id",
        "correction_of",
        postgresql_where=text("correction_of <> ''"),
    ),
)

transcript = Table(
    "transcript",
    metadata,
    _conversation(primary_key=True),
    Column("place", Integer, primary_key=True, autoincrement=False),
    must("key", Text()),
    *(must(name, Integer()) for name in ("turn", "step")),
    must("body", Text()),
    must("created_at", MOMENT),
    UniqueConstraint("conversation_id", "key"),
)

conversation_turns = Table(
    "conversation_turns",
    metadata,
    _conversation(primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    *(must(name, Text()) for name in ("kind", "answer", "user_id")),
    must("detail", Boolean()),
    must("model_calls", Integer()),
    must("settled_at", MOMENT),
    Column("said_at", MOMENT),
    Index(
        "conversation_turns_unsaid_idx",
        "conversation_id",
        "turn",
        postgresql_where=text("said_at IS NULL AND answer <> ''"),
    ),
)

turn_plans = Table(
    "turn_plans",
    metadata,
    _conversation(primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    must("route", JSONB()),
    *(must(name, Text()) for name in ("context", "patterns", "analysis")),
    must("layers", JSONB()),
    Column("result", JSONB),
    must("created_at", MOMENT),
)

decisions = Table(
    "decisions",
    metadata,
    _conversation(primary_key=True),
    *(Column(name, Integer, primary_key=True, autoincrement=False) for name in ("turn", "round")),
    *(must(name, Text()) for name in ("inputs_hash", "prompt_version", "variant", "action")),
    must("decided", JSONB()),
    *(must(name, Double()) for name in ("threshold_high", "threshold_low")),
    must("sources", JSONB()),
    *(Column(name, JSONB) for name in ("retrieval", "factors")),
    Column("confidence", Double),
    *(must(name, Text()) for name in ("course", "reason", "outcome")),
    must("cost_usd", Double()),
    must("at", MOMENT),
    Index("decisions_age_idx", "at"),
)

handovers = Table(
    "handovers",
    metadata,
    _conversation(primary_key=True),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    *(must(name, Text()) for name in ("user_id", "channel", "card_ts", "taken_by", "closed_by")),
    must("reminded", Integer()),
    must("opened_at", MOMENT),
    *(Column(name, MOMENT) for name in ("taken_at", "closed_at")),
    Index("handovers_open_key", "conversation_id", unique=True, postgresql_where=text("closed_at IS NULL")),
    Index("handovers_card_idx", "channel", "card_ts"),
)

handover_answers = Table(
    "handover_answers",
    metadata,
    _conversation(primary_key=True),
    Column("message_id", Text, primary_key=True),
    must("turn", Integer()),
    *(must(name, Text()) for name in ("message_type", "sender_id", "channel", "slack_ts", "correction_of")),
    must("version", SLACK_TIME),
    must("message_text", Text()),
    must("files", JSONB()),
    must("deleted", Boolean()),
    Index("handover_answers_message_idx", "message_id"),
)

thumbs = Table(
    "thumbs",
    metadata,
    _conversation(primary_key=True),
    *(Column(name, Text, primary_key=True) for name in ("message_ts", "user_id", "reaction")),
    must("put", Boolean()),
    must("at", SLACK_TIME),
)

model_calls = Table(
    "model_calls",
    metadata,
    serial(),
    _conversation(),
    *(must(name, Integer()) for name in ("turn", "step")),
    *(must(name, Text()) for name in ("purpose", "model")),
    *(must(name, Integer()) for name in ("input_tokens", "cached_tokens", "output_tokens", "reasoning_tokens")),
    must("cost_usd", Double()),
    must("milliseconds", Integer()),
    must("created_at", MOMENT),
    Index("model_calls_turn_idx", "conversation_id", "turn"),
)
