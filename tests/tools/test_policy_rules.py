"""The policy: from the facts of a call to its verdict."""

import pytest

from threadline.tools.model import Risk
from threadline.tools.policy import BUILT_IN, CallFacts, PolicyRule, Verdict, decide

LOW, MEDIUM, HIGH = Risk
MAKE, PROPOSE, REFUSE = Verdict


@pytest.mark.parametrize(
    ("call", "verdict"),
    [
        (CallFacts("journal.append", LOW, members=True), MAKE),
        (CallFacts("opportunity.patch", MEDIUM, members=True), MAKE),
        (CallFacts("opportunity.patch", HIGH, members=True), PROPOSE),
        (CallFacts("whatever.new", HIGH, members=True), PROPOSE),
        (CallFacts("email.send", LOW, members=True), MAKE),
        (CallFacts("email.send", MEDIUM, members=True), PROPOSE),
        (CallFacts("journal.append", LOW, wanted=True, members=True), MAKE),
        (CallFacts("opportunity.patch", MEDIUM, wanted=True, members=True), PROPOSE),
        (CallFacts("opportunity.patch", MEDIUM, members=False), PROPOSE),
        (CallFacts("jira.create", MEDIUM, members=False), PROPOSE),
        (CallFacts("ci.rerun", MEDIUM, members=False), PROPOSE),
        (CallFacts("schedule.job", MEDIUM, members=False), PROPOSE),
        (CallFacts("whatever.new", MEDIUM, members=False), PROPOSE),
        (CallFacts("journal.append", LOW, members=False), MAKE),
        (CallFacts("calendar.book", MEDIUM, members=False), MAKE),
        (CallFacts("calendar.book", HIGH, members=False), PROPOSE),
        (CallFacts("crm.update", MEDIUM, members=False), MAKE),
        (CallFacts("crm.update", MEDIUM, wanted=True, members=True), PROPOSE),
    ],
)
def test_built_in_rules_make_requested_calls_and_propose_high_risks(
    call: CallFacts, verdict: Verdict
) -> None:
    assert decide(BUILT_IN, call) is verdict


RULES = (
    PolicyRule(REFUSE, tools=("jira.*",), channels=frozenset({"CPUBLIC"})),
    PolicyRule(MAKE, tools=("jira.create", "ci.*"), roles=frozenset({"developers"})),
    PolicyRule(PROPOSE, tools=("jira.*", "ci.*")),
    PolicyRule(MAKE, tools=("crm.update",), risks=frozenset({HIGH})),
    *BUILT_IN,
)


@pytest.mark.parametrize(
    ("tool", "risk", "channel", "roles", "verdict"),
    [
        ("jira.create", MEDIUM, "CPUBLIC", {"developers"}, REFUSE),
        ("jira.create", MEDIUM, "C1", {"developers"}, MAKE),
        ("jira.create", MEDIUM, "C1", {"sales", "developers"}, MAKE),
        ("jira.create", MEDIUM, "C1", {"sales"}, PROPOSE),
        ("jira.comment", MEDIUM, "C1", {"developers"}, PROPOSE),
        ("ci.rerun", MEDIUM, "C1", set(), PROPOSE),
        ("jirax", MEDIUM, "C1", set(), MAKE),
        ("crm.update", HIGH, "C1", set(), MAKE),
        ("crm.log", HIGH, "C1", set(), PROPOSE),
    ],
)
def test_first_rule_that_applies_decides(
    tool: str, risk: Risk, channel: str, roles: set[str], verdict: Verdict
) -> None:
    assert decide(RULES, CallFacts(tool, risk, channel, frozenset(roles), members=True)) is verdict


INTERNS = frozenset({"interns"})


@pytest.mark.parametrize(
    ("then", "of_all", "of_some", "verdict"),
    [
        (REFUSE, INTERNS, INTERNS, REFUSE),
        (REFUSE, (), INTERNS, REFUSE),
        (REFUSE, (), (), MAKE),
        (PROPOSE, INTERNS, INTERNS, PROPOSE),
        (PROPOSE, (), INTERNS, PROPOSE),
        (PROPOSE, (), (), MAKE),
        (MAKE, INTERNS, INTERNS, MAKE),
        (MAKE, (), INTERNS, PROPOSE),
        (MAKE, (), (), PROPOSE),
    ],
)
def test_one_person_is_enough_for_a_rule_that_restricts(
    then: Verdict, of_all: frozenset[str], of_some: frozenset[str], verdict: Verdict
) -> None:
    otherwise = PROPOSE if then is MAKE else MAKE
    rules = (PolicyRule(then, roles=INTERNS), PolicyRule(otherwise))
    call = CallFacts(
        "jira.create", MEDIUM, roles=frozenset(of_all), some_roles=frozenset(of_some), members=True
    )
    assert decide(rules, call) is verdict


def test_call_without_any_rule_waits() -> None:
    assert decide((), CallFacts("journal.append", LOW, members=True)) is PROPOSE
