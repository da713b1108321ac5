"""The tables of threads, posts, quarantine and the catch-up. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Boolean, Column, Double, Index, Integer, Table, UniqueConstraint, text

from threadline.db.columns import MOMENT, SLACK_TIME, TEXT, identity, metadata, required

_PLACE = ("team", "channel", "thread_ts")


posts = Table(
    "posts",
    metadata,
    Column("key", TEXT, primary_key=True),
    required("channel", TEXT),
    Column("thread_ts", TEXT),
    *(required(name, Double()) for name in ("claimed_at", "lease_until")),
    Column("ts", TEXT),
    required("record_due", Boolean()),
    Index("posts_answers_idx", "channel", "ts", postgresql_where=text("key LIKE 'talk:%'")),
    Index("posts_talk_idx", "channel", "thread_ts", postgresql_where=text("key LIKE 'talk:%'")),
)

quarantine = Table(
    "quarantine",
    metadata,
    identity(),
    *(required(name, TEXT) for name in (*_PLACE, "message_id", "message_text", "error")),
    required("created_at", MOMENT),
    UniqueConstraint("team", "channel", "thread_ts", "message_id"),
)

threads = Table(
    "threads",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "channel", "thread_ts")),
    *(required(name, TEXT) for name in ("workflow_id", "kind", "author_id")),
    required("compare_from", SLACK_TIME),
    Column("first_message_at", SLACK_TIME),
    Index("threads_workflow_idx", "workflow_id"),
)

catch_up_channels = Table(
    "catch_up_channels",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "channel")),
    required("installed_at", SLACK_TIME),
    *(Column(name, MOMENT) for name in ("read_at", "deep_read_at")),
    required("error", TEXT),
)

catch_up_threads = Table(
    "catch_up_threads",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in _PLACE),
    required("active_at", SLACK_TIME),
    *(required(name, TEXT) for name in ("root_state", "compared_state")),
    *(required(name, Double()) for name in ("seen_at", "compared_at")),
    required("is_due", Boolean()),
    required("error", TEXT),
    Index("catch_up_threads_due_idx", "team", "active_at", postgresql_where=text("is_due")),
    Index("catch_up_threads_active_idx", "team", "active_at", "compared_at"),
)

catch_up_messages = Table(
    "catch_up_messages",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "message_id")),
    required("sends", Integer()),
    required("refused", Boolean()),
    required("last_at", MOMENT),
)

thread_bindings = Table(
    "thread_bindings",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in (*_PLACE, "kind")),
    *(required(name, TEXT) for name in ("record_id", "bound_by")),
    required("bound_at", MOMENT),
    Index("thread_bindings_record_idx", "team", "kind", "record_id", "bound_at"),
)
