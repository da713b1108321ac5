"""How often is too often."""

from dataclasses import dataclass
from enum import StrEnum

from threadline.errors import Permanent


@dataclass(frozen=True)
class Rate:
    """At most `count` in any `seconds`."""

    count: int
    seconds: float


USER_RATE = Rate(10, 60.0)
"""Requests of one person."""

MUTATION_RATE = Rate(30, 60.0)
"""Changes of one record, in all threads together."""


class Verdict(StrEnum):
    """`throttled_first`: too often, and the person is to be told; `throttled`: too often, and they were told."""

    OK = "ok"
    THROTTLED_FIRST = "throttled_first"
    THROTTLED = "throttled"


class RateExceeded(Permanent):
    """A record was changed as often as the setting allows: nothing was changed now."""
