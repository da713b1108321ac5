"""The table of rate limits. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Double, Index, Table, text

from threadline.db.columns import TEXT, metadata, required

rate_limit_events = Table(
    "rate_limit_events",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("rule", "scope", "event")),
    required("at", Double()),
    required("verdict", TEXT),
    Index("rate_limit_events_window_idx", "rule", "scope", "at"),
    Index("rate_limit_events_told_idx", "rule", "scope", "at", postgresql_where=text("verdict = 'throttled_first'")),
    Index("rate_limit_events_age_idx", "at"),
)
