"""What may go wrong with a call of the Web API, with a download, and with the delivery of an event."""

from dataclasses import dataclass
from typing import Literal

CallFaultKind = Literal["rate_limited", "error_before", "error_after", "slow", "short", "login", "refused"]

DOWNLOAD = "files.download"
"""The name by which faults are ordered for what has none: the address that a file's bytes are fetched from."""


@dataclass(frozen=True)
class CallFault:
    """What happens to one call: `seconds` is Retry-After for `rate_limited`, else the delay of the answer.

    With `error_before` the call answers 500 and did nothing; with `error_after` and `slow` it was carried out. `items`
    is the most that a page shows for `short`. `login`: a download shows the page that asks to sign in, as Slack does
    for a token without `files:read`. `refused`: the call did nothing, and answers with `error`; `needed` is the scope
    that Slack names with `missing_scope`.
    """

    kind: CallFaultKind
    seconds: float = 0.0
    items: int = 0
    error: str = ""
    needed: str = ""


@dataclass(frozen=True)
class DeliveryPlan:
    """What happens to one event: how many copies go out, after how many seconds, and whether after the next one."""

    copies: int = 1
    delay: float = 0.0
    hold: bool = False


class SlackFaults:
    """Asked before each call and each delivery of what a person did. Tests let things go wrong."""

    def next_call(self, method: str) -> CallFault | None:
        return None

    def next_delivery(self) -> DeliveryPlan:
        return DeliveryPlan()
