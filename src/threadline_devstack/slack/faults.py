"""The sandbox's misbehaviour: ordered in advance for the next deliveries and calls, or left to chance."""

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Literal, Protocol

CallFaultKind = Literal["rate_limited", "error_before", "error_after", "slow", "short", "login", "refused"]

DOWNLOAD = "files.download"
"""The name by which faults are ordered for what has none: the address that a file's bytes are fetched from."""


@dataclass(frozen=True)
class CallFault:
    """What happens to one call: `seconds` is Retry-After for `rate_limited`, the delay of the answer for `slow`.

    With `error_before` the call answers 500 and did nothing; with `error_after` and `slow` it was carried out. `items`
    is the most that a page shows for `short`. `login`: a download shows the page that asks to sign
    in, as Slack does for a token without `files:read`. `refused`: the call did nothing, and answers with `error`.
    """

    kind: CallFaultKind
    seconds: float = 0.0
    items: int = 0
    error: str = ""


@dataclass(frozen=True)
class DeliveryPlan:
    """What happens to one event: how many copies go out, after how many seconds, and whether after the next one."""

    copies: int = 1
    delay: float = 0.0
    hold: bool = False


class Chance(Protocol):
    """Decides what happens to deliveries and calls that no order is left for."""

    def call(self, method: str) -> CallFault | None: ...

    def delivery(self) -> DeliveryPlan: ...


class SlackFaults:
    """Orders are used up one by one; where none is left, `chance` decides, if there is any.

    Deliveries are those of what people did: the bot's own posts are not counted.
    """

    def __init__(self) -> None:
        self.chance: Chance | None = None
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

    def refuse(self, method: str, error: str, count: int = 1) -> None:
        """The next `count` calls of `method` are refused with Slack's name of an error, such as `missing_scope`."""
        self._order(method, CallFault("refused", error=error), count)

    def slow(self, method: str, seconds: float, count: int = 1) -> None:
        """The next `count` calls of `method` are carried out at once, and answer after `seconds`."""
        self._order(method, CallFault("slow", seconds), count)

    def short(self, method: str, items: int, count: int = 1) -> None:
        """The next `count` pages of `method` show at most `items`, or none, although there is more."""
        self._order(method, CallFault("short", items=items), count)

    def login_page(self, count: int = 1) -> None:
        """The next `count` downloads answer 200 with the page that asks to sign in."""
        self._order(DOWNLOAD, CallFault("login"), count)

    def ordered(self, method: str) -> int:
        """How many orders for calls of `method` are not used up yet."""
        return len(self._calls.get(method, ()))

    def clear(self) -> None:
        self._duplicates.clear()
        self._drops = self._holds = 0
        self._delays.clear()
        self._calls.clear()
        self.chance = None

    def next_call(self, method: str) -> CallFault | None:
        if waiting := self._calls.get(method):
            return waiting.popleft()
        return self.chance.call(method) if self.chance else None

    def next_delivery(self) -> DeliveryPlan:
        if self._drops:
            self._drops -= 1
            return DeliveryPlan(copies=0)
        if self.chance and not (self._duplicates or self._holds or self._delays):
            return self.chance.delivery()
        copies, hold = 1, False
        if self._duplicates:
            copies = self._duplicates.popleft()
        if self._holds:
            self._holds -= 1
            hold = True
        return DeliveryPlan(copies, self._delays.popleft() if self._delays else 0.0, hold)

    def _order(self, method: str, fault: CallFault, count: int) -> None:
        self._calls[method].extend([fault] * count)
