"""Where a tool runs: whose request, in which thread, at which step, and through which ports it reaches the world."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar, cast

from threadline.db.engine import Transaction
from threadline.db.rate_limit_rules import Rate
from threadline.db.rate_limits import Limits
from threadline.errors import Permanent
from threadline.slack.model import MAX_NAME, Thread, name_with_id
from threadline.tools.operations import Change, Operation

P = TypeVar("P")


@dataclass(frozen=True, eq=False)
class Port(Generic[P]):
    """The name of something that a toolset needs, typed by what it is; each toolset has its own.

    `help` says which settings bring it, for `threadline doctor`.
    """

    name: str
    help: str


class Ports:
    """What is configured. A tool whose port is missing is not offered to the model."""

    def __init__(self, bound: Mapping[Port[Any], object] | None = None) -> None:
        self._bound = MappingProxyType(dict(bound or {}))

    def having(self, port: Port[P], value: P) -> "Ports":
        """These ports and one more."""
        return Ports({**self._bound, port: value})

    def __contains__(self, port: Port[Any]) -> bool:
        return port in self._bound

    def __getitem__(self, port: Port[P]) -> P:
        if port not in self._bound:
            raise Permanent(f"{port.name} is not set up here. {port.help}")
        return cast(P, self._bound[port])


@dataclass(frozen=True)
class ToolContext:
    """What every tool is given.

    `request_id` names the request of a person that led here. `turn`, `step` and `call_id` say which call of the thread
    it is: they stay the same when a call is tried again. `retries_left` counts the further attempts that the caller
    would make. `clock` gives the time with its zone. `others` are further people who wrote what led here,
    each as `name_with_id` names them: with any, it is not plain whom a call is for; `other_ids` are their
    ids. `approved`: the proposed action that somebody has approved and that
    this call carries out; empty for what a model asks for.

    Raises:
        ValueError: the team, channel, thread, user, request or correlation is missing, blank or too long.
    """

    team: str
    channel: str
    thread_ts: str
    user_id: str
    request_id: str
    correlation_id: str
    clock: Callable[[], datetime]
    ports: Ports = field(default_factory=Ports)
    actor: str = ""
    turn: int = 0
    step: int = 0
    call_id: str = ""
    retries_left: int = 0
    others: tuple[str, ...] = ()
    other_ids: tuple[str, ...] = ()
    approved: str = ""
    transaction: Transaction | None = None
    change_rate: Rate | None = None

    def __post_init__(self) -> None:
        for name in _REQUIRED:
            value = getattr(self, name)
            if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME:
                raise ValueError(f"a tool's context needs {name}: a text of 1 to {MAX_NAME} characters")

    @property
    def tx(self) -> Transaction:
        """The transaction in which a local tool does its work, and in which the call is recorded.

        Raises:
            RuntimeError: the tool is a remote one.
        """
        if self.transaction is None:
            raise RuntimeError("a remote tool has no transaction: what it does outside cannot be rolled back")
        return self.transaction

    async def count_change(self, record: str) -> None:
        """Count a change of a record (`project:PRJ-1`) by a local tool, in all threads of the team together.

        Raises:
            RateExceeded: it was changed too often; nothing is changed by this call.
        """
        if self.change_rate:
            now = self.clock().timestamp()
            await Limits(self.tx).count_change(self.team, record, self.operation_key, now, self.change_rate)

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.thread_ts)

    @property
    def people(self) -> tuple[str, ...]:
        """Whoever wrote what led here, each with the id."""
        return (name_with_id(" ".join(self.actor.split()), self.user_id), *self.others)

    @property
    def operation_key(self) -> str:
        """Names this one call for ever, in any thread: what a tool changes outside is done once under it."""
        return self.operation.key

    @property
    def operation(self) -> Operation:
        return Operation(self.thread, self.turn, self.step, self.call_id)

    @property
    def change(self) -> Change:
        """What this call says of itself to a record that it changes; how often that may be is the record's to know."""
        return Change(self.operation, self.clock().timestamp())


_REQUIRED = ("team", "channel", "thread_ts", "user_id", "request_id", "correlation_id")
