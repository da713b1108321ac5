"""The table of users as Slack knows them. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Table, Text

from threadline.db.columns import MOMENT, metadata, required

actors = Table(
    "actors",
    metadata,
    *(Column(name, Text, primary_key=True) for name in ("team", "user_id")),
    *(required(name, Text()) for name in ("email", "display_name", "platform_id")),
    required("fetched_at", MOMENT),
)
