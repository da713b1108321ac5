"""The table of proposed actions. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import ARRAY, Column, Computed, Table

from threadline.db.columns import JSON, MOMENT, TEXT, identity, metadata, required

proposed_actions = Table(
    "proposed_actions",
    metadata,
    identity(),
    Column(
        "action_id", TEXT, Computed("('ACT-'::text || (id)::text)", persisted=True), nullable=False
    ),
    *(required(name, TEXT) for name in ("team", "channel", "thread_ts", "rfp_id")),
    required("action", JSON),
    *(required(name, TEXT) for name in ("action_hash", "risk", "requested_by", "actor")),
    required("co_requesters", JSON),
    required("approvers", ARRAY(TEXT)),
    *(required(name, TEXT) for name in ("correlation_id", "operation_key")),
    *(required(name, MOMENT) for name in ("created_at", "expires_at")),
    Column("decision", TEXT),
    Column("decided_at", MOMENT),
    *(required(name, TEXT) for name in ("decided_by", "decision_key")),
)
