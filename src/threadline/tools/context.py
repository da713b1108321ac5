"""The context of a tool call: the requester, the thread, the step, and the services that it may
use.
"""

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
from threadline.tools.model import (
    Author,
    Change,
    ErrorCode,
    FieldChange,
    Operation,
    ToolResult,
    error_result,
)
from threadline.tools.policy import WantedApproval
from threadline.tools.roles import RecordAccess

S = TypeVar("S")


class Services:
    """The services of the tools, by class. A tool is offered if all services that it needs are
    here. A service's class attribute `setup_hint` names its settings, for `threadline doctor`.
    """

    def __init__(self, services: Mapping[type[Any], object] | None = None) -> None:
        self._services = MappingProxyType(dict(services or {}))

    def with_service(self, kind: type[S], service: S) -> "Services":
        return Services({**self._services, kind: service})

    def __contains__(self, kind: type[Any]) -> bool:
        return kind in self._services

    def __getitem__(self, kind: type[S]) -> S:
        """Return the service. Raises `Permanent` if it is not set up."""
        service = self.get(kind)
        if service is None:
            raise Permanent(f"This is not set up here. {setup_hint(kind)}".strip())
        return service

    def get(self, kind: type[S]) -> S | None:
        return cast(S | None, self._services.get(kind))


def setup_hint(kind: type[Any]) -> str:
    """Return the hint at a service's settings; empty if its class has none."""
    return str(getattr(kind, "setup_hint", ""))


@dataclass(frozen=True)
class Requester:
    """The people who ask. `user`: Slack's data about the latest requester, None if Slack has none.
    `are_members`: all requesters are full members of the workspace.
    """

    user: User | None
    are_members: bool


@dataclass(frozen=True)
class ToolContext:
    """The context that every tool gets.

    Args:
        request_id: the person's request that led to the call.
        turn: with `step` and `call_id`, identifies the call in its thread; unchanged on a retry.
        retries_left: the number of attempts that the caller would still make.
        clock: returns the time with its zone.
        co_requesters: the other people whose messages led to the call: each id with its label from
            `name_with_id`. If there are any, it is unclear for whom the call is.
        approved_action_id: the approved action that this call carries out; empty for a model's own
            call.
        approved_changes: the changes that the action's card showed.
        wanted: the model itself requests an approval.
        roles: the roles that all requesters have.
        some_roles: the roles that at least one requester has.
        members: all requesters are known to be full members of the workspace; False until a rule
            has asked for it.
        access: the requesters' rights to the records of the tool.

    Raises:
        ValueError: the team, channel, thread, user, request or correlation is missing, blank or
            too long.
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
                raise ValueError(
                    f"a tool's context needs {name}: a visible text of at most {MAX_NAME} "
                    "characters"
                )

    @property
    def tx(self) -> Transaction:
        """The transaction of a local tool, which also records the call. A remote tool has none,
        and gets `RuntimeError`.
        """
        if self.transaction is None:
            raise RuntimeError(
                "a remote tool has no transaction: its effects cannot be rolled back"
            )
        return self.transaction

    @property
    def requester(self) -> Requester:
        """The people who ask. Raises `RuntimeError` for a tool that does not declare
        `needs_requester`.
        """
        if self.identified is None:
            raise RuntimeError("a tool that reads its requester must declare needs_requester=True")
        return self.identified

    async def count_change(self, record: str) -> None:
        """Count a change of a record (`project:PRJ-1`) by a local tool, over all threads of the
        team.

        Raises:
            RateExceeded: the record was changed too often; this call must change nothing.
        """
        if self.change_rate:
            now = self.clock().timestamp()
            await RateLimits(self.tx).count_change(
                self.team, record, self.operation_key, now, self.change_rate
            )

    @property
    def thread(self) -> Thread:
        return Thread(self.team, self.channel, self.thread_ts)

    def unclear_requester(self, advice: str) -> ToolResult | None:
        """Return a refusal if several people have written, because it is unclear for whom the call
        is.
        """
        if not self.co_requesters:
            return None
        names = ", ".join(self.requester_labels)
        return error_result(
            ErrorCode.INVALID_ARGUMENTS, f"Several people have written: {names}. {advice}"
        )

    def only_asker(self, user_id: str) -> bool:
        """Whether this user is the only requester."""
        return not self.co_requesters and user_id == self.user_id

    @property
    def askers(self) -> tuple[str, ...]:
        """Ids of all people whose messages led to the call."""
        return (self.user_id, *self.co_requesters)

    @property
    def author(self) -> Author:
        return Author(self.user_id, self.correlation_id)

    @property
    def requester_labels(self) -> tuple[str, ...]:
        """Labels, with ids, of all people whose messages led to the call."""
        return (
            name_with_id(" ".join(self.actor.split()), self.user_id),
            *self.co_requesters.values(),
        )

    @property
    def operation_key(self) -> str:
        """A permanent, globally unique key of this call: a change outside happens at most once
        under it.
        """
        return self.operation.key

    @property
    def operation(self) -> Operation:
        return Operation(self.thread, self.turn, self.step, self.call_id)

    @property
    def change(self) -> Change:
        """The call's entry in a record that it changes; the record limits how often that may
        happen.
        """
        return Change(self.operation, self.author, self.clock().timestamp())


_REQUIRED = ("team", "channel", "thread_ts", "user_id", "request_id", "correlation_id")
