"""How values are shown to people: in Temporal's UI and in queries."""

from datetime import UTC, datetime


def format_utc(at: float) -> str:
    """Seconds since 1970 as a time of day."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
