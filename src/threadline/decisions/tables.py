"""The table of decisions. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import BigInteger, Column, Double, Integer, Table

from threadline.db.columns import JSON, MOMENT, TEXT, metadata, required

decisions = Table(
    "decisions",
    metadata,
    Column("conversation_id", BigInteger, primary_key=True, autoincrement=False),
    *(Column(name, Integer, primary_key=True, autoincrement=False) for name in ("turn", "round")),
    *(required(name, TEXT) for name in ("inputs_hash", "prompt_version", "variant", "type")),
    required("decision", JSON),
    *(required(name, Double()) for name in ("threshold_high", "threshold_low")),
    required("sources", JSON),
    *(Column(name, JSON) for name in ("retrieval", "factors")),
    Column("confidence", Double),
    *(required(name, TEXT) for name in ("next_step", "reason", "outcome")),
    Column("cost_usd", Double()),
    required("decided_at", MOMENT),
)
