"""The table of jobs. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Computed, Index, Integer, Table, Text, UniqueConstraint, text
from sqlalchemy.dialects.postgresql import JSONB

from threadline.db.columns import MOMENT, identity, metadata, required

agent_jobs = Table(
    "agent_jobs",
    metadata,
    identity(),
    Column("job_id", Text, Computed("('JOB-'::text || (id)::text)", persisted=True), nullable=False),
    Column(
        "workflow_id",
        Text,
        Computed("((('job:'::text || team) || ':'::text) || (id)::text)", persisted=True),
        nullable=False,
    ),
    *(required(name, Text()) for name in ("team", "job_type")),
    required("arguments", JSONB()),
    Column("run_at", MOMENT),
    *(required(name, Text()) for name in ("cron", "time_zone", "status", "rfp_id", "channel", "thread_ts")),
    *(required(name, Text()) for name in ("asked_by", "correlation_id", "operation_key", "run_key")),
    required("runs", Integer()),
    Column("result", JSONB(none_as_null=True)),
    required("error", Text()),
    required("created_at", MOMENT),
    *(Column(name, MOMENT) for name in ("started_at", "finished_at")),
    UniqueConstraint("job_id"),
    UniqueConstraint("team", "operation_key"),
    Index("agent_jobs_order_idx", "team", "id"),
    Index("agent_jobs_status_idx", "team", "status", "id"),
    Index("agent_jobs_rfp_idx", "team", "rfp_id", "id", postgresql_where=text("rfp_id <> ''")),
)
