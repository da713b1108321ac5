"""The table of jobs. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Computed, Integer, Table

from threadline.db.columns import JSON, JSON_OR_NULL, MOMENT, TEXT, identity, metadata, required

agent_jobs = Table(
    "agent_jobs",
    metadata,
    identity(),
    Column(
        "job_id", TEXT, Computed("('JOB-'::text || (id)::text)", persisted=True), nullable=False
    ),
    Column(
        "workflow_id",
        TEXT,
        Computed("((('job:'::text || team) || ':'::text) || (id)::text)", persisted=True),
        nullable=False,
    ),
    *(required(name, TEXT) for name in ("team", "job_type")),
    required("arguments", JSON),
    Column("run_at", MOMENT),
    *(
        required(name, TEXT)
        for name in ("cron", "time_zone", "status", "rfp_id", "channel", "thread_ts")
    ),
    *(
        required(name, TEXT)
        for name in ("requested_by", "correlation_id", "operation_key", "run_key")
    ),
    required("runs", Integer()),
    Column("result", JSON_OR_NULL),
    required("error", TEXT),
    required("created_at", MOMENT),
    *(Column(name, MOMENT) for name in ("started_at", "finished_at")),
)
