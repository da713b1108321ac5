"""The policy: decides which changes are made, which wait for an approval, and which are refused.
Pure.

`ToolRunner` calls `decide` for every call, regardless of the caller. A tool declares the risk of a
call (`registry.ToolOptions`); rules turn it into a verdict. The first rule that applies decides:
those of `THREADLINE_POLICY`, then `BUILT_IN`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Any

from threadline.tools.model import FieldChange, Risk


class Verdict(StrEnum):
    """The verdict on a call; the values are those of a rule's `then`."""

    MAKE = "make"
    PROPOSE = "propose"
    REFUSE = "refuse"


@dataclass(frozen=True)
class Assessment:
    """The facts about a call that depend on its record.

    Args:
        changes: each field with its old and new value.
        shown: the values on an approval's card in place of the arguments; None shows the
            arguments.
    """

    risk: Risk
    changes: tuple[FieldChange, ...] = ()
    shown: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class WantedApproval:
    """The model's own request for an approval of a call. `risk`: the least risk that the call
    gets.
    """

    reason: str
    risk: Risk = Risk.LOW
    rfp_id: str = ""


@dataclass(frozen=True)
class CallFacts:
    """A change, as rules see it.

    Args:
        roles: the roles that all requesters have.
        some_roles: the roles that at least one requester has.
        members: all requesters are full members of the workspace.
        wanted: the model itself requests an approval.
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
    """A verdict on the calls that it applies to. Empty `channels` or `roles` match any.

    If several people ask, a rule that makes calls needs the role of all of them; a rule that
    restricts calls applies as soon as one of them has it.
    """

    then: Verdict
    tools: tuple[str, ...] = ("*",)
    """Names with the wildcards of `fnmatch`, such as `jira.*`."""
    risks: frozenset[Risk] = frozenset(Risk)
    channels: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    outsiders: bool = False
    """Applies only to calls with a requester who is no full member of the workspace."""

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
    # These tools let outsiders reach only their own bookings and customer record.
    PolicyRule(Verdict.MAKE, tools=OUTSIDERS_TOOLS, risks=frozenset({Risk.MEDIUM})),
    PolicyRule(Verdict.PROPOSE, risks=frozenset({Risk.MEDIUM}), outsiders=True),
    PolicyRule(Verdict.MAKE),
)
"""The rules after the admin's. The last one applies to every call."""


@dataclass(frozen=True)
class CallRules:
    """The rules in order, ending with `BUILT_IN`."""

    rules: tuple[PolicyRule, ...] = BUILT_IN

    @property
    def roles(self) -> frozenset[str]:
        """The roles that the rules name."""
        return frozenset[str]().union(*(each.roles for each in self.rules))

    @property
    def asks_for_members(self) -> bool:
        """Whether a rule depends on membership."""
        return any(each.outsiders for each in self.rules)


def decide(rules: Sequence[PolicyRule], call: CallFacts) -> Verdict:
    """Return the verdict of the first rule that applies; if none does, a call waits for an
    approval.

    A call for which the model requests an approval waits for it, unless its risk is low.
    """
    verdict = next((each.then for each in rules if each.applies(call)), Verdict.PROPOSE)
    if verdict is Verdict.MAKE and call.wanted and call.risk is not Risk.LOW:
        return Verdict.PROPOSE
    return verdict
