"""Roles: rights to see and to change each kind of record, by the groups of `THREADLINE_ROLES`.

A tool names the kinds of record that it reads or changes (`registry.ToolOptions.records`). Every
requester of a call must be in one of the permitted groups. For `partial_records`, a tool hides or
refuses records itself, with its context's `RecordAccess`.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from threadline.errors import Permanent, Transient
from threadline.slack.user_groups import UserGroups


class RecordKind(StrEnum):
    """A kind of record; the values are those of the file."""

    APPOINTMENTS = "appointments"
    BUILDS = "builds"
    CASES = "cases"
    CUSTOMERS = "customers"
    DOCUMENTS = "documents"
    EMAILS = "emails"
    JOBS = "jobs"
    QUOTES = "quotes"
    """Projects with their work items and quotes."""
    RATES = "rates"
    RFPS = "rfps"
    TEAM = "team"
    TICKETS = "tickets"


MONEY_AND_STATE = frozenset(
    {RecordKind.CUSTOMERS, RecordKind.QUOTES, RecordKind.RATES, RecordKind.RFPS}
)
"""Kinds that only members of a group may change as soon as there are groups: of any group, unless
the file names the groups for the kind.
"""


LOOKUP_SECONDS = 3.0
"""Seconds for Slack's answer about a group, where the caller must not wait long."""


@dataclass(frozen=True)
class Group:
    """A group of people: users, members of Slack's user groups, and all requesters in one of the
    channels.
    """

    users: frozenset[str] = frozenset()
    user_groups: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Roles:
    """The groups and their rights. `see` and `change`: the permitted groups by kind of record; a
    kind without an entry is open to everybody, except for changes of `MONEY_AND_STATE`.
    """

    groups: Mapping[str, Group] = field(default_factory=dict)
    see: Mapping[RecordKind, frozenset[str]] = field(default_factory=dict)
    change: Mapping[RecordKind, frozenset[str]] = field(default_factory=dict)

    def allowed(self, kind: RecordKind, *, to_change: bool) -> frozenset[str] | None:
        """Return the permitted groups, or None for everybody."""
        if not to_change:
            return self.see.get(kind)
        default = frozenset(self.groups) if kind in MONEY_AND_STATE and self.groups else None
        return self.change.get(kind, default)

    def needed(self, kinds: Iterable[RecordKind], *, to_change: bool) -> frozenset[str]:
        """Return the groups that a decision about these kinds depends on."""
        verbs = (False, True) if to_change else (False,)
        found = [
            self.allowed(kind, to_change=verb) or frozenset() for kind in kinds for verb in verbs
        ]
        return frozenset[str]().union(*found)

    def refusal(
        self, kinds: Iterable[RecordKind], held: Collection[str], *, to_change: bool
    ) -> str:
        """Return the reason why people with these roles may not, with the permitted groups; empty
        if they may.
        """
        for kind in kinds:
            for verb in (False, True) if to_change else (False,):
                groups = self.allowed(kind, to_change=verb)
                if groups is not None and groups.isdisjoint(held):
                    return _refusal(kind, groups, "change" if verb else "see")
        return ""


class RecordRefused(Permanent):
    """A requester may not see or change records of a kind; the message names the permitted
    groups.
    """


@dataclass(frozen=True)
class RecordAccess:
    """The rights of all requesters of a call together, for the `kinds` of record that its tool
    declares.
    """

    kinds: frozenset[RecordKind] = frozenset()
    roles: Roles = field(default_factory=Roles)
    held: frozenset[str] = frozenset()

    def refusal(self, kind: RecordKind, *, to_change: bool = False) -> str:
        """Return the reason why they may not see (or change) records of a kind, with the permitted
        groups; empty if they may.

        Raises:
            RuntimeError: the tool does not declare this kind.
        """
        if kind not in self.kinds:
            raise RuntimeError(f"a tool that checks {kind} must name them in partial_records")
        return self.roles.refusal([kind], self.held, to_change=to_change)

    def check(self, kind: RecordKind, *, to_change: bool = False) -> None:
        """Raise `RecordRefused` if `refusal` returns a reason."""
        if refusal := self.refusal(kind, to_change=to_change):
            raise RecordRefused(refusal)


def _refusal(kind: RecordKind, groups: Collection[str], verb: str) -> str:
    if not groups:
        return f"Nobody may {verb} {kind} here."
    who = " or ".join(sorted(groups))
    return f"Only people of the group {who} may {verb} {kind}. Please ask one of them."


class RoleDirectory:
    """Finds people's groups."""

    def __init__(self, roles: Roles, user_groups: UserGroups) -> None:
        self.roles = roles
        self._user_groups = user_groups

    def is_known(self, names: Iterable[str]) -> bool:
        """Whether `held_by` can answer for these groups without a request to Slack."""
        ids = (each for name in names for each in self.roles.groups[name].user_groups)
        return all(map(self._user_groups.is_cached, ids))

    async def held_by(
        self, users: Collection[str], channel: str, names: Iterable[str]
    ) -> frozenset[str]:
        """Return the groups that contain all of these users, who ask in a channel. Raises the
        errors of `UserGroups.members`.
        """
        return frozenset([name for name in sorted(names) if await self._has(name, users, channel)])

    async def held_where_shown(
        self, users: Collection[str], channel: str, names: Iterable[str]
    ) -> frozenset[str]:
        """As `held_by`, but a group that Slack refuses to show counts as one that they are not in.
        Raises `Transient`.
        """
        held = set[str]()
        for name in sorted(names):
            try:
                held |= await self.held_by(users, channel, [name])
            except Permanent:
                continue
        return frozenset(held)

    async def held_by_some(
        self, users: Collection[str], channel: str, names: Iterable[str]
    ) -> frozenset[str]:
        """Return the groups that contain at least one of the users. Raises the errors of
        `held_by`.
        """
        wanted = frozenset(names)
        held = [await self.held_by([each], channel, wanted) for each in users]
        return frozenset[str]().union(*held)

    async def _has(self, name: str, users: Collection[str], channel: str) -> bool:
        group = self.roles.groups[name]
        if channel in group.channels:
            return True
        missing = set(users) - group.users
        for each in sorted(group.user_groups) if missing else ():
            missing -= await self._user_groups.members(each)
        return not missing

    async def check_may_see(self, users: Collection[str], channel: str, kind: RecordKind) -> None:
        """Check that these people may see records of a kind.

        Raises:
            RecordRefused: they may not.
            Transient: Slack is unavailable at the moment.
        """
        held = await self.held_by(users, channel, self.roles.needed([kind], to_change=False))
        RecordAccess(frozenset({kind}), self.roles, held).check(kind)

    async def hidden_from(self, users: Collection[str], channel: str) -> frozenset[RecordKind]:
        """Return the kinds of record that these people together may not see. Never raises: a group
        that Slack cannot show at the moment counts as one that they are not in.
        """
        held = set[str]()
        for name in sorted(self.roles.needed(RecordKind, to_change=False)):
            try:
                async with asyncio.timeout(LOOKUP_SECONDS):
                    held |= await self.held_by(users, channel, [name])
            except (Permanent, Transient, TimeoutError):
                continue
        return frozenset(
            each for each in RecordKind if self.roles.refusal([each], held, to_change=False)
        )
