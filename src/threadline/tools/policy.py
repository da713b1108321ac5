"""The policy: which calls that change something are made, which wait for an approval, and which are refused. Pure.

`ToolRunner` asks `decide` for every call, whoever makes it. A tool declares the risk of a call
(`registry.ToolOptions`); rules make a verdict of it. The first rule that applies decides: those of
`THREADLINE_POLICY`, then `BUILT_IN`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from threadline.tools.model import FieldChange, Risk


class Verdict(StrEnum):
    """The values are those of a rule's `then`."""

    MAKE = "make"
    PROPOSE = "propose"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Assessment:
    """The facts about a call that its record knows.

    `changes`: each field with its old and new value. `shown`: what an approval's card shows in
    place of the arguments; None for the arguments themselves.
    """

    risk: Risk
    changes: tuple[FieldChange, ...] = ()
    shown: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class WantedApproval:
    """The model's own wish that somebody approves a call. `risk`: at least this one."""

    reason: str
    risk: Risk = Risk.LOW
    rfp_id: str = ""


@dataclass(frozen=True)
class CallFacts:
    """A call that changes something, as rules see it.

    `roles`: those that everybody has who asks. `some_roles`: those that at least one of them has.
    `members`: whether all of them are full members of the workspace.
    """

    tool: str
    risk: Risk
    channel: str = ""
    roles: frozenset[str] = frozenset()
    some_roles: frozenset[str] = frozenset()
    members: bool = field(kw_only=True)
    wanted: bool = False


@dataclass(frozen=True)
class PolicyRule:
    """A verdict on the calls that it applies to. Empty `channels` or `roles`: any.

    Where several people ask, a rule that makes calls needs the role of all of them; a rule that
    restricts calls applies as soon as one of them has it.
    """

    then: Verdict
    tools: tuple[str, ...] = ("*",)
    """Names with the wildcards of `fnmatch`, such as `jira.*`."""
    risks: frozenset[Risk] = frozenset(Risk)
    channels: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    outsiders: bool = False
    """Only calls for which somebody asks who is no full member of the workspace."""

    def applies(self, call: CallFacts) -> bool:
        return (
            any(fnmatchcase(call.tool, each) for each in self.tools)
            and call.risk in self.risks
            and (not self.channels or call.channel in self.channels)
            and (not self.outsiders or not call.members)
            and (not self.roles or not self.roles.isdisjoint(self._roles_that_count(call)))
        )

    def _roles_that_count(self, call: CallFacts) -> frozenset[str]:
        return call.roles if self.then is Verdict.MAKE else call.roles | call.some_roles


OUTSIDERS_TOOLS = ("calendar.book", "appointments.move", "appointments.cancel", "crm.update")

BUILT_IN = (
    PolicyRule(Verdict.PROPOSE, risks=frozenset({Risk.HIGH})),
    # A mail cannot be taken back.
    PolicyRule(Verdict.PROPOSE, tools=("email.send",), risks=frozenset({Risk.MEDIUM})),
    # These tools let outsiders reach their own bookings and customer record alone.
    PolicyRule(Verdict.MAKE, tools=OUTSIDERS_TOOLS, risks=frozenset({Risk.MEDIUM})),
    PolicyRule(Verdict.PROPOSE, risks=frozenset({Risk.MEDIUM}), outsiders=True),
    PolicyRule(Verdict.MAKE),
)
"""The rules after those of the admin. The last one applies to every call."""


@dataclass(frozen=True)
class CallRules:
    """The rules in their order, ending with `BUILT_IN`."""

    rules: tuple[PolicyRule, ...] = BUILT_IN

    @property
    def roles(self) -> frozenset[str]:
        """The roles that rules name."""
        return frozenset[str]().union(*(each.roles for each in self.rules))

    @property
    def asks_for_members(self) -> bool:
        """Whether a rule depends on who is a member."""
        return any(each.outsiders for each in self.rules)


def decide(rules: Sequence[PolicyRule], call: CallFacts) -> Verdict:
    """Return the verdict of the first rule that applies; without any, a call waits for an approval.

    A call for which the model wants an approval waits for it, unless its risk is low.
    """
    verdict = next((each.then for each in rules if each.applies(call)), Verdict.PROPOSE)
    if verdict is Verdict.MAKE and call.wanted and call.risk is not Risk.LOW:
        return Verdict.PROPOSE
    return verdict
