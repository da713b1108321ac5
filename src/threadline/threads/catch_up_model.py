"""What the catch-up and its workflow agree on: how far it looks back, and what survives between its steps."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

LOOK_BACK = 30 * 86_400.0
"""Seconds: a thread in which nothing was said for longer is not compared any more."""

QUIET = 60.0
"""Seconds: what was said later may still be on its way to the database by the ordinary road."""

CASES_EVERY = 300.0
"""Seconds: so often the channels of cases are looked at while a look at conversations goes on."""

RETRY_INTERVAL = 300.0
"""Seconds from a look that failed to the next one."""


class Passed(StrEnum):
    """What became of something that was found."""

    SIGNALLED = "signalled"
    LEFT = "left"
    """It is nobody's business, as most is."""
    REFUSED = "refused"
    """Whoever wrote it may not have a say."""


def wants_deep(args: Sequence[Any]) -> bool:
    """Read the arguments of a request to look, whatever they are: what cannot be read asks for a deep look."""
    if len(args) == 1 and isinstance(args[0], Mapping):
        return args[0].get("deep") is not False
    return True
