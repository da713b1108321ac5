"""What the catch-up and its workflow agree on: how far it looks back, and what survives between its steps."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

LOOK_BACK = 30 * 86_400.0
"""Seconds: a thread in which nothing was said for longer is not compared any more."""

QUIET = 60.0
"""Seconds: what was said later may still be on its way to the database by the ordinary road."""

CASES_EVERY = 300.0
"""Seconds: so often the channels of cases are looked at while a look at conversations goes on."""


class Passed(StrEnum):
    """What became of something that was found."""

    SIGNALLED = "signalled"
    LEFT = "left"
    """It is nobody's business, as most is."""
    REFUSED = "refused"
    """Whoever wrote it may not have a say."""


@dataclass
class CatchUpState:
    """All that survives continue-as-new. Whoever starts the workflow gives an empty one."""

    asked: bool = False
    """Somebody wants a look that begins now; one that is under way does not count."""
    deep: bool = False
    """Every active thread is to be compared, and not only those that show a change."""
    after: bool = False
    """A look was asked for by a gateway that came back: what was too young for it is looked at once more."""


def wants_deep(args: Sequence[Any]) -> bool:
    """Read the arguments of a request to look, whatever they are: what cannot be read asks for a deep look."""
    if len(args) == 1 and isinstance(args[0], Mapping):
        return args[0].get("deep") is not False
    return True
