"""The tables of handovers and the answers under their cards. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, Table, text

from threadline.db.columns import JSON, MOMENT, SLACK_TIME, TEXT, metadata, required


def _conversation() -> Column[int]:
    whole = ForeignKey("conversations.id", ondelete="CASCADE")
    return Column("conversation_id", BigInteger, whole, primary_key=True, autoincrement=False)


handovers = Table(
    "handovers",
    metadata,
    _conversation(),
    Column("turn", Integer, primary_key=True, autoincrement=False),
    *(required(name, TEXT) for name in ("user_id", "channel", "card_ts", "taken_by", "closed_by")),
    required("reminded", Integer()),
    required("opened_at", MOMENT),
    *(Column(name, MOMENT) for name in ("taken_at", "closed_at")),
    Index("handovers_open_key", "conversation_id", unique=True, postgresql_where=text("closed_at IS NULL")),
)

handover_answers = Table(
    "handover_answers",
    metadata,
    _conversation(),
    Column("message_id", TEXT, primary_key=True),
    *(required(name, Integer()) for name in ("turn", "seq")),
    *(required(name, TEXT) for name in ("message_type", "sender_type", "sender_id", "message_text", "channel")),
    required("slack_ts", TEXT),
    required("said_at", SLACK_TIME),
    required("correction_of", TEXT),
    required("version", SLACK_TIME),
    required("files", JSON),
    *(Column(name, MOMENT) for name in ("redacted_at", "edited_at", "shown_at")),
    Index("handover_answers_message_idx", "message_id"),
)
