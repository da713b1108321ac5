"""How results are worded: numbers of things, and moments."""

from datetime import datetime


def counted(count: int, one: str, many: str = "", *, more: bool = False) -> str:
    """`3 RFPs`. `more`: there are further ones."""
    return f"{'more than ' if more else ''}{count} {one if count == 1 else many or f'{one}s'}"


def moment(at: datetime) -> str:
    """ISO 8601 with its zone."""
    return at.isoformat(timespec="minutes")
