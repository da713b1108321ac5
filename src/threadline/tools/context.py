"""Where a tool runs: whose request, in which thread, at which step, and through which services it reaches the world."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any, TypeVar, cast

from threadline.db.engine import Transaction
from threadline.db.rate_limits import Rate, RateLimits
from threadline.errors import Permanent
from threadline.slack.model import MAX_NAME, Thread, User, name_with_id
from threadline.slack.text import is_blank
from threadline.tools.model import Author, Change, ErrorCode, FieldChange, Operation, ToolResult, error_result
from threadline.tools.policy import WantedApproval
from threadline.tools.roles import RecordAccess

S = TypeVar("S")


class Services:
    """What tools reach the world through, each by its class. A tool is offered where all that it needs is here. A
    service's class attribute `setup_hint` says which settings bring it, for `threadline doctor`."""

    def __init__(self, services: Mapping[type[Any], object] | None = None) -> None:
        self._services = MappingProxyType(dict(services or {}))

    def with_service(self, kind: type[S], service: S) -> "Services":
        return Services({**self._services, kind: service})

    def __contains__(self, kind: type[Any]) -> bool:
        return kind in self._services

    def __getitem__(self, kind: type[S]) -> S:
        """Raises `Permanent`: it is not set up."""
        service = self.get(kind)
        if service is None:
            raise Permanent(f"This is not set up here. {setup_hint(kind)}".strip())
        return service

    def get(self, kind: type[S]) -> S | None:
        return cast(S | None, self._services.get(kind))


def setup_hint(kind: type[Any]) -> str:
    """Which settings bring a service; empty where its class does not say."""
    return str(getattr(kind, "setup_hint", ""))


@dataclass(frozen=True)
class Requester:
    """Who asks. `user`: as Slack knows whoever asked last, None where it does not; `are_members`: whether all who ask
    are full members of the workspace."""

    user: User | None
    are_members: bool


@dataclass(frozen=True)
class ToolContext:
    """What every tool is given. Raises `ValueError`: the team, channel, thread, user, request or correlation is
    missing, blank or too long.

    `request_id` names the request of a person that led here. `turn`, `step` and `call_id` say which call of the thread
    it is: they stay the same when a call is tried again. `retries_left` counts the further attempts that the caller
    would make. `clock` gives the time with its zone. `co_requesters` are further people who wrote what led here:
    each id with its label, as `name_with_id` makes it. With any, it is not plain whom a call is for.
    `approved_action_id`: the proposed action that somebody has approved and that this call carries out; empty for what
    a model asks for. `approved_changes`: the changes that its card showed.
    `wanted`: the model itself wants an approval. `roles`: those that everybody has who asks.
    `some_roles`: those that at least one of them has. `members`: all of them are known to be full members of the
    workspace; False until a rule has asked for it. `access`: their rights to the records of the tool.
    """

    team: str
    channel: str
    thread_ts: str
    user_id: str
    request_id: str
    correlation_id: str
    clock: Callable[[], datetime]
    services: Services = field(default_factory=Services)
    actor: str = ""
    turn: int = 0
    step: int = 0
    call_id: str = ""
    retries_left: int = 0
    co_requesters: Mapping[str, str] = field(default_factory=dict)
    approved_action_id: str = ""
    approved_changes: tuple[FieldChange, ...] = ()
    wanted: WantedApproval | None = None
    roles: frozenset[str] = frozenset()
    some_roles: frozenset[str] = frozenset()
    members: bool = False
    access: RecordAccess = field(default_factory=RecordAccess)
    transaction: Transaction | None = None
    change_rate: Rate | None = None
    identified: Requester | None = None

    def __post_init__(self) -> None:
        for name in _REQUIRED:
            value = getattr(self, name)
            if not isinstance(value, str) or is_blank(value) or len(value) > MAX_NAME:
                raise ValueError(f"a tool's context needs {name}: a visible text of at most {MAX_NAME} characters")

    @property
    def tx(self) -> Transaction:
        """The transaction in which a local tool does its work, and in which the call is recorded. A remote tool has
        none, and gets `RuntimeError`."""
        if self.transaction is None:
            raise RuntimeError("a remote tool has no transaction: what it does outside cannot be rolled back")
        return self.transaction

    @property
    def requester(self) -> Requester:
        """Who asks. A tool that does not say `needs_requester` gets `RuntimeError`."""
        if self.identified is None:
            raise RuntimeError("a tool that is to know who asks says needs_requester=True")
        return self.identified

    async def count_change(self, record: str) -> None:
        """Count a change of a record (`project:PRJ-1`) by a local tool, in all threads of the team together. Raises
        `RateExceeded` when it was changed too often; nothing is changed by this call."""
        if self.change_rate:
            now = self.clock().timestamp()
            await RateLimits(self.tx).count_change(self.team, record, self.operation_key, now, self.change_rate)

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.thread_ts)

    def unclear_requester(self, advice: str) -> ToolResult | None:
        """Return a refusal where several people have written, so that it is not plain whom a call is for."""
        if not self.co_requesters:
            return None
        names = ", ".join(self.requester_labels)
        return error_result(ErrorCode.INVALID_ARGUMENTS, f"Several people have written: {names}. {advice}")

    def only_asker(self, user_id: str) -> bool:
        """Whether this user has asked for the call, and nobody else."""
        return not self.co_requesters and user_id == self.user_id

    @property
    def askers(self) -> tuple[str, ...]:
        """Everybody who wrote what led here."""
        return (self.user_id, *self.co_requesters)

    @property
    def author(self) -> Author:
        return Author(self.user_id, self.correlation_id)

    @property
    def requester_labels(self) -> tuple[str, ...]:
        """Whoever wrote what led here, each with the id."""
        return (name_with_id(" ".join(self.actor.split()), self.user_id), *self.co_requesters.values())

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
        return Change(self.operation, self.author, self.clock().timestamp())


_REQUIRED = ("team", "channel", "thread_ts", "user_id", "request_id", "correlation_id")
