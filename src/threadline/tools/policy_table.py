"""The policy in readable form: a row for each tool that changes something, and a sentence for each
rule. Pure.
"""

from collections.abc import Iterable

from threadline.tools.model import Risk
from threadline.tools.policy import CallFacts, CallRules, PolicyRule, Verdict, decide
from threadline.tools.registry import Tool
from threadline.tools.roles import Roles

COLUMNS = ("tool", "risk", "low", "medium", "high", "seen by", "changed by")
_VERDICTS = {Verdict.MAKE: "made", Verdict.PROPOSE: "proposed", Verdict.REFUSE: "refused"}
_EVERYBODY = "members"


def policy_rows(tools: Iterable[Tool], rules: CallRules, roles: Roles) -> list[tuple[str, ...]]:
    """Return a row for each tool, with the columns of `COLUMNS`: the verdicts on its calls by
    risk, for a person without a role, in a channel that no rule names.
    """
    return [
        (
            each.name,
            _risk(each),
            *(
                _VERDICTS[decide(rules.rules, CallFacts(each.name, risk, members=True))]
                for risk in Risk
            ),
            _groups(roles, each, to_change=False),
            _groups(roles, each, to_change=True),
        )
        for each in sorted(tools, key=lambda tool: tool.name)
        if each.acts
    ]


def rule_sentence(rule: PolicyRule) -> str:
    """Return a rule in words, such as `Calls of jira.* are proposed, of medium risk, in
    C012AB3CD.`
    """
    told = [f"Calls of {', '.join(rule.tools)} are {_VERDICTS[rule.then]}"]
    if rule.risks != frozenset(Risk):
        told.append(f"of {' or '.join(each for each in Risk if each in rule.risks)} risk")
    if rule.channels:
        told.append(f"in {' or '.join(sorted(rule.channels))}")
    if rule.outsiders:
        told.append("if a requester is not a member")
    if rule.roles:
        told.append(f"for people of {' or '.join(sorted(rule.roles))}")
    return f"{', '.join(told)}."


def _risk(tool: Tool) -> str:
    if tool.assess:
        return "by its record"
    return tool.risk.value if isinstance(tool.risk, Risk) else "by its arguments"


def _groups(roles: Roles, tool: Tool, *, to_change: bool) -> str:
    found = [roles.allowed(kind, to_change=to_change) for kind in tool.records]
    named = [" or ".join(sorted(each)) or "nobody" for each in found if each is not None]
    whole = ", ".join(dict.fromkeys(named)) or _EVERYBODY
    partial = [
        kind
        for kind in tool.partial_records
        if roles.allowed(kind, to_change=to_change) is not None
    ]
    return f"{whole}; {', '.join(partial)} as the tool decides" if partial else whole
