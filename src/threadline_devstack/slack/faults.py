"""Faults of a call of the Web API, of a download, and of the delivery of an event."""

from dataclasses import dataclass
from typing import Literal

CallFaultKind = Literal[
    "rate_limited", "error_before", "error_after", "slow", "short", "login", "refused"
]

DOWNLOAD = "files.download"
"""Name for faults of downloads, which have no method: fetches of a file's bytes."""


@dataclass(frozen=True)
class CallFault:
    """A fault of one call: `seconds` is Retry-After for `rate_limited`, else the delay of the
    answer.

    With `error_before` the call answers 500 and had no effect; with `error_after` and `slow` it
    had its effect. `items` is the maximum of a page for `short`. `login`: a download shows the
    page that asks to sign in, as Slack does for a token without `files:read`. `refused`: the call
    had no effect, and answers with `error`; `needed` is the scope that Slack names with
    `missing_scope`.
    """

    kind: CallFaultKind
    seconds: float = 0.0
    items: int = 0
    error: str = ""
    needed: str = ""


@dataclass(frozen=True)
class DeliveryPlan:
    """The delivery of one event: the number of copies, the seconds before them, and whether they
    go out only after the next event.
    """

    copies: int = 1
    delay: float = 0.0
    hold: bool = False


class SlackFaults:
    """Decides before each call and each delivery of a person's action whether it fails. Tests
    override it.
    """

    def next_call(self, method: str) -> CallFault | None:
        return None

    def next_delivery(self) -> DeliveryPlan:
        return DeliveryPlan()
