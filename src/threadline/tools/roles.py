"""Roles: who may see and who may change which kind of record, by groups of `THREADLINE_ROLES`.

A tool names the kinds of record that it reads or changes (`registry.ToolOptions.records`). Everybody who asks
for a call must be in one of the groups that may. Of `partial_records` a tool hides or refuses some itself, by its
context's `RecordAccess`.
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from threadline.errors import Permanent, Transient
from threadline.slack.user_groups import UserGroups


class RecordKind(StrEnum):
    """The values are those of the file."""

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


MONEY_AND_STATE = frozenset({RecordKind.CUSTOMERS, RecordKind.QUOTES, RecordKind.RATES, RecordKind.RFPS})
"""Once there are groups, only people of one of them may change these, whatever else the file says."""


LOOKUP_SECONDS = 3.0
"""Of Slack's answer about a group, where nobody is to wait for it for long."""


@dataclass(frozen=True)
class Group:
    """People: users, members of Slack's user groups, and whoever asks in one of the channels."""

    users: frozenset[str] = frozenset()
    user_groups: frozenset[str] = frozenset()
    channels: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Roles:
    """`see` and `change`: the groups that may, by kind of record. A kind that is not named: everybody."""

    groups: Mapping[str, Group] = field(default_factory=dict)
    see: Mapping[RecordKind, frozenset[str]] = field(default_factory=dict)
    change: Mapping[RecordKind, frozenset[str]] = field(default_factory=dict)

    def allowed(self, kind: RecordKind, *, to_change: bool) -> frozenset[str] | None:
        """Return the groups that may, None for everybody."""
        if not to_change:
            return self.see.get(kind)
        default = frozenset(self.groups) if kind in MONEY_AND_STATE and self.groups else None
        return self.change.get(kind, default)

    def needed(self, kinds: Iterable[RecordKind], *, to_change: bool) -> frozenset[str]:
        """Return the groups that a decision about these kinds depends on."""
        verbs = (False, True) if to_change else (False,)
        found = [self.allowed(kind, to_change=verb) or frozenset() for kind in kinds for verb in verbs]
        return frozenset[str]().union(*found)

    def refusal(self, kinds: Iterable[RecordKind], held: Collection[str], *, to_change: bool) -> str:
        """Return why people with these roles may not, naming who may; empty if they may."""
        for kind in kinds:
            for verb in (False, True) if to_change else (False,):
                groups = self.allowed(kind, to_change=verb)
                if groups is not None and groups.isdisjoint(held):
                    return _refusal(kind, groups, "change" if verb else "see")
        return ""


class RecordRefused(Permanent):
    """Somebody who asks may not see or change records of a kind; the message names the groups that may."""


@dataclass(frozen=True)
class RecordAccess:
    """The rights of everybody who asks for a call, for the `kinds` of record that its tool declares."""

    kinds: frozenset[RecordKind] = frozenset()
    roles: Roles = field(default_factory=Roles)
    held: frozenset[str] = frozenset()

    def refusal(self, kind: RecordKind, *, to_change: bool = False) -> str:
        """Return why they may not see (or change) records of a kind, naming who may; empty if they may.

        Raises `RuntimeError`: the tool does not declare this kind.
        """
        if kind not in self.kinds:
            raise RuntimeError(f"a tool that asks about {kind} names them in its partial_records")
        return self.roles.refusal([kind], self.held, to_change=to_change)

    def check(self, kind: RecordKind, *, to_change: bool = False) -> None:
        """Raises `RecordRefused` where `refusal` says why."""
        if refusal := self.refusal(kind, to_change=to_change):
            raise RecordRefused(refusal)


def _refusal(kind: RecordKind, groups: Collection[str], verb: str) -> str:
    if not groups:
        return f"Nobody may {verb} {kind} here."
    who = " or ".join(sorted(groups))
    return f"Only people of the group {who} may {verb} {kind}. Please ask one of them."


class RoleDirectory:
    """Finds the groups that people are in."""

    def __init__(self, roles: Roles, user_groups: UserGroups) -> None:
        self.roles = roles
        self._user_groups = user_groups

    def is_known(self, names: Iterable[str]) -> bool:
        """Whether `held_by` answers for these groups without asking Slack."""
        ids = (each for name in names for each in self.roles.groups[name].user_groups)
        return all(map(self._user_groups.is_cached, ids))

    async def held_by(self, users: Collection[str], channel: str, names: Iterable[str]) -> frozenset[str]:
        """Return those of these groups in which all users are who ask in a channel. Raises as `UserGroups.members`."""
        return frozenset([name for name in sorted(names) if await self._has(name, users, channel)])

    async def held_where_shown(self, users: Collection[str], channel: str, names: Iterable[str]) -> frozenset[str]:
        """As `held_by`, but a group that Slack refuses to show is one that they are not in. Raises `Transient`."""
        held = set[str]()
        for name in sorted(names):
            try:
                held |= await self.held_by(users, channel, [name])
            except Permanent:
                continue
        return frozenset(held)

    async def held_by_some(self, users: Collection[str], channel: str, names: Iterable[str]) -> frozenset[str]:
        """Return those of these groups in which at least one of the users is. Raises as `held_by`."""
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
        """Raises `RecordRefused`: these people may not; `Transient`: Slack does not say for now."""
        held = await self.held_by(users, channel, self.roles.needed([kind], to_change=False))
        RecordAccess(frozenset({kind}), self.roles, held).check(kind)

    async def hidden_from(self, users: Collection[str], channel: str) -> frozenset[RecordKind]:
        """Return the kinds of record that these people may not see together. Never raises: while Slack does not say
        who is in a group, nobody counts as one of it."""
        held = set[str]()
        for name in sorted(self.roles.needed(RecordKind, to_change=False)):
            try:
                async with asyncio.timeout(LOOKUP_SECONDS):
                    held |= await self.held_by(users, channel, [name])
            except (Permanent, Transient, TimeoutError):
                continue
        return frozenset(each for each in RecordKind if self.roles.refusal([each], held, to_change=False))
