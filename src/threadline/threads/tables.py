"""The tables of threads, posts and the catch-up. Constraints, indexes, defaults and triggers are
in `alembic/`.
"""

from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, LargeBinary, Table

from threadline.db.columns import JSON, MOMENT, SLACK_TIME, TEXT, identity, metadata, required

_PLACE = ("team", "channel", "thread_ts")

posts = Table(
    "posts",
    metadata,
    Column("key", TEXT, primary_key=True),
    required("channel", TEXT),
    Column("thread_ts", TEXT),
    required("claimed_at", Double()),
    Column("ts", TEXT),
    required("record_due", Boolean()),
)

quarantine = Table(
    "quarantine",
    metadata,
    identity(),
    *(required(name, TEXT) for name in (*_PLACE, "message_id", "message_text", "error")),
    required("created_at", MOMENT),
)

threads = Table(
    "threads",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "channel", "thread_ts")),
    *(required(name, TEXT) for name in ("workflow_id", "kind", "author_id")),
    required("compare_from", SLACK_TIME),
    Column("first_message_at", SLACK_TIME),
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
)

catch_up_messages = Table(
    "catch_up_messages",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "message_id")),
    required("sends", Integer()),
    required("refused", Boolean()),
    required("last_at", MOMENT),
)

catch_up_absences = Table(
    "catch_up_absences",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "message_id")),
    *(required(name, TEXT) for name in ("channel", "thread_ts")),
    required("looks", Integer()),
    required("looked_at", Double()),
    required("verdict", TEXT),
)

removed_content = Table(
    "removed_content",
    metadata,
    identity(),
    Column("bug_id", TEXT),
    Column("conversation_id", BigInteger),
    *(required(name, TEXT) for name in ("message_id", "record", "record_key")),
    required("kept", JSON),
    Column("content", LargeBinary),
    required("removed_at", MOMENT),
)

installation_faults = Table(
    "installation_faults",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("kind", "subject", "text")),
    *(required(name, MOMENT) for name in ("first_seen", "last_seen")),
    Column("resolved_at", MOMENT),
    *(required(name, Boolean()) for name in ("told_open", "told_over")),
)

installation_places = Table(
    "installation_places",
    metadata,
    identity(),
    *(required(name, TEXT) for name in ("database_id", "temporal_id")),
    required("noticed_at", Double()),
    Column("lost_since", Double()),
)

thread_bindings = Table(
    "thread_bindings",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in (*_PLACE, "kind")),
    *(required(name, TEXT) for name in ("record_id", "bound_by")),
    required("bound_at", MOMENT),
)
