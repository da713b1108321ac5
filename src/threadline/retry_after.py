"""How long another service asks us to wait, as its answer says it."""

import math
from collections.abc import Mapping
from datetime import datetime
from email.utils import parsedate_to_datetime


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """The seconds that a server asks to wait, by `Retry-After` (seconds or a date, RFC 9110) or `retry-after-ms`.

    Args:
        headers: by names in any case; a plain mapping has them in small letters.

    Returns:
        None when it names none, or one that is no time to wait.
    """
    seconds = _number(headers.get("retry-after-ms", ""), 1000.0)
    if seconds is None:
        seconds = _number(headers.get("retry-after", ""))
    if seconds is None:
        try:
            seconds = (parsedate_to_datetime(headers.get("retry-after", "")) - now).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    return seconds if seconds > 0 else None


def _number(text: str, divisor: float = 1.0) -> float | None:
    try:
        value = float(text) / divisor
    except ValueError:
        return None
    return value if math.isfinite(value) else None
