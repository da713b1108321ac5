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

channel_marks = Table(
    "channel_marks",
    metadata,
    Column("channel", TEXT, primary_key=True),
    required("installed_at", SLACK_TIME),
    *(Column(name, MOMENT) for name in ("looked_at", "deep_at")),
    required("error", TEXT),
)

followed_threads = Table(
    "followed_threads",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("channel", "thread_ts")),
    *(required(name, SLACK_TIME) for name in ("said_at", "active_at")),
    *(required(name, TEXT) for name in ("shown", "compared")),
    *(required(name, Double()) for name in ("seen_at", "compared_at")),
    required("due", Boolean()),
    required("error", TEXT),
    Index("followed_threads_due_idx", "active_at", postgresql_where=text("due")),
    Index("followed_threads_active_idx", "active_at", "compared_at"),
)

resent_messages = Table(
    "resent_messages",
    metadata,
    Column("message_id", TEXT, primary_key=True),
    required("times", Integer()),
    required("last_at", MOMENT),
)

refused_messages = Table(
    "refused_messages",
    metadata,
    Column("message_id", TEXT, primary_key=True),
    required("refused_at", MOMENT),
)

thread_bindings = Table(
    "thread_bindings",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in (*_PLACE, "kind")),
    *(required(name, TEXT) for name in ("record_id", "bound_by")),
    required("bound_at", MOMENT),
    Index("thread_bindings_record_idx", "team", "kind", "record_id", "bound_at"),
)
