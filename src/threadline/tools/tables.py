"""The tables of calls of tools. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import UUID, Boolean, Column, Computed, Index, Integer, String, Table, UniqueConstraint, func, text

from threadline.db.columns import JSON_OR_NULL, MOMENT, TEXT, metadata, required

_NAME = String(255)


_TOOLSET = text("split_part(tool_name, '.', 1)")
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
        Computed("((status IS NOT NULL) AND (status = ANY (ARRAY['ok'::text, 'cached'::text])))", persisted=True),
        nullable=False,
    ),
    Column("execution_time_ms", Integer),
    required("created_at", MOMENT),
    Column("finished_at", MOMENT),
    UniqueConstraint(*_PLACE, "turn", "step", "call_id", name="agent_tool_executions_call_key"),
    Index("idx_tool_executions_channel_thread", "channel", "thread_ts"),
    Index("idx_tool_executions_user", "user_id"),
    Index("idx_tool_executions_age", "created_at"),
    Index("idx_tool_executions_answer", "fingerprint", postgresql_where=text("cacheable")),
    Index("idx_tool_executions_toolset", "team", _TOOLSET, postgresql_where=text("cacheable")),
    Index("idx_tool_executions_intent", "team", _TOOLSET, postgresql_where=text("status IS NULL")),
)
