"""The table of Slack users. Constraints, indexes, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Table

from threadline.db.columns import MOMENT, TEXT, metadata, required

users = Table(
    "users",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("team", "user_id")),
    *(required(name, TEXT) for name in ("email", "display_name", "platform_id")),
    required("fetched_at", MOMENT),
)
