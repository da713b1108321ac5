"""The sandbox's misbehaviour, ordered in advance: what happens to the next deliveries and to the next calls."""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Literal

CallFaultKind = Literal["rate_limited", "error_before", "error_after", "slow"]


@dataclass(frozen=True)
class CallFault:
    """What happens to one call: `seconds` is Retry-After for `rate_limited`, the delay of the answer for `slow`.

    With `error_before` the call answers 500 and did nothing; with `error_after` and `slow` it was carried out.
    """

    kind: CallFaultKind
    seconds: float = 0.0


@dataclass(frozen=True)
class DeliveryPlan:
    """What happens to one event: how many copies go out, after how many seconds, and whether after the next one."""

    copies: int = 1
    delay: float = 0.0
    hold: bool = False


class Faults:
    """Orders are used up one by one. Deliveries are those of what people did: the bot's own posts are not counted."""

    def __init__(self) -> None:
        self._duplicates: deque[int] = deque()
        self._drops = 0
        self._holds = 0
        self._delays: deque[float] = deque()
        self._calls: defaultdict[str, deque[CallFault]] = defaultdict(deque)

    def duplicate(self, count: int = 1, copies: int = 2) -> None:
        """The next `count` events are delivered `copies` times, with the same event id."""
        self._duplicates.extend([copies] * count)

    def drop(self, count: int = 1) -> None:
        """The next `count` events are never delivered, as when Slack has given up."""
        self._drops += count

    def delay(self, seconds: float, count: int = 1) -> None:
        self._delays.extend([seconds] * count)

    def reorder(self, count: int = 1) -> None:
        """Each of the next `count` events is delivered after the event that follows them."""
        self._holds += count

    def rate_limit(self, method: str, count: int = 1, retry_after: float = 1.0) -> None:
        """The next `count` calls of `method` answer 429 with `Retry-After`."""
        self._order(method, CallFault("rate_limited", retry_after), count)

    def fail_before(self, method: str, count: int = 1) -> None:
        """The next `count` calls of `method` answer 500 and store nothing."""
        self._order(method, CallFault("error_before"), count)

    def fail_after(self, method: str, count: int = 1) -> None:
        """The next `count` calls of `method` are carried out, and answer 500."""
        self._order(method, CallFault("error_after"), count)

    def slow(self, method: str, seconds: float, count: int = 1) -> None:
        """The next `count` calls of `method` are carried out at once, and answer after `seconds`."""
        self._order(method, CallFault("slow", seconds), count)

    def clear(self) -> None:
        self._duplicates.clear()
        self._drops = self._holds = 0
        self._delays.clear()
        self._calls.clear()

    def next_call(self, method: str) -> CallFault | None:
        waiting = self._calls.get(method)
        return waiting.popleft() if waiting else None

    def next_delivery(self) -> DeliveryPlan:
        if self._drops:
            self._drops -= 1
            return DeliveryPlan(copies=0)
        copies, hold = 1, False
        if self._duplicates:
            copies = self._duplicates.popleft()
        if self._holds:
            self._holds -= 1
            hold = True
        return DeliveryPlan(copies, self._delays.popleft() if self._delays else 0.0, hold)

    def _order(self, method: str, fault: CallFault, count: int) -> None:
        self._calls[method].extend([fault] * count)
