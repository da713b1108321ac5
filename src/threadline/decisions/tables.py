"""The table of decisions. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import BigInteger, Column, Double, ForeignKey, Index, Integer, Table

from threadline.db.columns import JSON, MOMENT, TEXT, metadata, required


def _conversation(*, primary_key: bool = False) -> Column[int]:
    whole = ForeignKey("conversations.id", ondelete="CASCADE")
    return Column("conversation_id", BigInteger, whole, nullable=False, primary_key=primary_key, autoincrement=False)


decisions = Table(
    "decisions",
    metadata,
    _conversation(primary_key=True),
    *(Column(name, Integer, primary_key=True, autoincrement=False) for name in ("turn", "round")),
    *(required(name, TEXT) for name in ("inputs_hash", "prompt_version", "variant", "action")),
    required("decided", JSON),
    *(required(name, Double()) for name in ("threshold_high", "threshold_low")),
    required("sources", JSON),
    *(Column(name, JSON) for name in ("retrieval", "factors")),
    Column("confidence", Double),
    *(required(name, TEXT) for name in ("course", "reason", "outcome")),
    required("cost_usd", Double()),
    required("at", MOMENT),
    Index("decisions_age_idx", "at"),
)
