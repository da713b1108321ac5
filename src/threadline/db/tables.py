"""The table of rate limits. Checks, defaults and triggers are in `alembic/`."""

from sqlalchemy import Column, Double, Index, Table, text

from threadline.db.columns import TEXT, metadata, required

limit_verdicts = Table(
    "limit_verdicts",
    metadata,
    *(Column(name, TEXT, primary_key=True) for name in ("rule", "scope", "event")),
    required("at", Double()),
    required("verdict", TEXT),
    Index("limit_verdicts_window_idx", "rule", "scope", "at"),
    Index("limit_verdicts_told_idx", "rule", "scope", "at", postgresql_where=text("verdict = 'throttled_first'")),
    Index("limit_verdicts_age_idx", "at"),
)
