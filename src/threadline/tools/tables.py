"""The table of tool calls. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import UUID, Boolean, Column, Computed, Integer, String, Table, func

from threadline.db.columns import JSON_OR_NULL, MOMENT, TEXT, metadata, required

_NAME = String(255)
_PLACE = ("team", "channel", "thread_ts")

agent_tool_executions = Table(
    "agent_tool_executions",
    metadata,
    Column("id", UUID, primary_key=True, server_default=func.gen_random_uuid()),
    *(required(name, _NAME) for name in ("request_id", *_PLACE, "user_id")),
    *(required(name, Integer()) for name in ("turn", "step")),
    required("call_id", TEXT),
    required("tool_name", String(100)),
    required("fingerprint", TEXT),
    required("cacheable", Boolean()),
    *(Column(name, JSON_OR_NULL) for name in ("parameters", "result")),
    Column("status", TEXT),
    Column(
        "success",
        Boolean,
        Computed(
            (
                "((status IS NOT NULL) AND (status = ANY (ARRAY['ok'::text, 'cached'::text, "
                "'pending'::text])))"
            ),
            persisted=True,
        ),
        nullable=False,
    ),
    Column("execution_time_ms", Integer),
    required("created_at", MOMENT),
    Column("finished_at", MOMENT),
)
