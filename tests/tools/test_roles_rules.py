"""Roles: the groups that may see and change each kind of record, and the files that declare
them.
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

from threadline.errors import Permanent, Transient
from threadline.slack.user_groups import CACHE_SECONDS, STALE_SECONDS, UserGroups
from threadline.tools.model import Risk
from threadline.tools.policy import BUILT_IN, PolicyRule, Verdict
from threadline.tools.policy_files import load_roles, load_rules
from threadline.tools.policy_table import policy_rows, rule_sentence
from threadline.tools.roles import Group, RecordKind, RoleDirectory, Roles
from threadline.wiring.toolsets import TOOLS

ROLES = Roles(
    {
        "sales": Group(user_groups=frozenset({"S1"})),
        "finance": Group(frozenset({"U9"}), channels=frozenset({"CFIN"})),
    },
    see={
        RecordKind.RATES: frozenset({"finance"}),
        RecordKind.CUSTOMERS: frozenset({"sales", "finance"}),
    },
    change={RecordKind.QUOTES: frozenset({"finance"})},
)


@pytest.mark.parametrize(
    ("kinds", "to_change", "held", "refusal"),
    [
        ([RecordKind.RFPS], False, set(), ""),
        (
            [RecordKind.RFPS],
            True,
            set(),
            "Only people of the group finance or sales may change rfps.",
        ),
        ([RecordKind.RFPS], True, {"sales"}, ""),
        (
            [RecordKind.QUOTES],
            True,
            {"sales"},
            "Only people of the group finance may change quotes.",
        ),
        (
            [RecordKind.QUOTES, RecordKind.RATES],
            False,
            {"sales"},
            "Only people of the group finance may see rates.",
        ),
        (
            [RecordKind.CUSTOMERS],
            False,
            set(),
            "Only people of the group finance or sales may see customers.",
        ),
        ([RecordKind.CUSTOMERS], True, {"sales"}, ""),
        ([RecordKind.RATES], True, {"sales"}, "Only people of the group finance may see rates."),
        ([RecordKind.TICKETS], True, set(), ""),
    ],
)
def test_refusal_names_the_permitted_groups(
    kinds: list[RecordKind], to_change: bool, held: set[str], refusal: str
) -> None:
    assert ROLES.refusal(kinds, held, to_change=to_change).startswith(refusal)
    assert bool(ROLES.refusal(kinds, held, to_change=to_change)) == bool(refusal)


@pytest.mark.parametrize("kind", ["customers", "quotes", "rates", "rfps"])
def test_changes_of_money_and_state_need_a_group_once_there_is_one(kind: str) -> None:
    roles = Roles({"sales": Group(users=frozenset({"U1"}))})
    assert roles.refusal([RecordKind(kind)], (), to_change=True)
    assert not roles.refusal([RecordKind(kind)], ["sales"], to_change=True)


def test_everybody_may_do_everything_without_groups() -> None:
    assert all(not Roles().refusal([kind], (), to_change=True) for kind in RecordKind)


class Slack:
    """User groups that Slack may fail to return."""

    def __init__(self, groups: Mapping[str, frozenset[str]]) -> None:
        self.groups = dict(groups)
        self.asked = 0
        self.now = 0.0
        self.fault: Exception | None = None
        self.user_groups = UserGroups(self._fetch, lambda: self.now)

    async def _fetch(self, group: str) -> frozenset[str]:
        self.asked += 1
        if self.fault:
            raise self.fault
        return self.groups[group]


async def test_every_requester_needs_the_role() -> None:
    directory = RoleDirectory(ROLES, Slack({"S1": frozenset({"U1", "U2"})}).user_groups)
    assert await directory.held_by(["U1"], "C1", ["sales", "finance"]) == {"sales"}
    assert await directory.held_by(["U1", "U9"], "C1", ["sales", "finance"]) == frozenset()
    assert await directory.held_by(["U5"], "CFIN", ["sales", "finance"]) == {"finance"}
    assert await directory.hidden_from(["U1"], "C1") == {RecordKind.RATES}
    assert await directory.hidden_from(["U5"], "C1") == {RecordKind.RATES, RecordKind.CUSTOMERS}


async def test_slack_is_asked_once_in_five_minutes_and_its_last_answer_lasts_an_hour() -> None:
    slack = Slack({"S1": frozenset({"U1"})})
    assert [await slack.user_groups.members("S1") for _ in range(3)] == [frozenset({"U1"})] * 3
    assert slack.asked == 1
    slack.now = CACHE_SECONDS + 1
    slack.fault = Transient("Slack is away.")
    assert await slack.user_groups.members("S1") == frozenset({"U1"})
    slack.now = STALE_SECONDS + 1
    with pytest.raises(Transient):
        await slack.user_groups.members("S1")
    assert await RoleDirectory(ROLES, slack.user_groups).hidden_from(["U1"], "C1") == {
        RecordKind.RATES,
        RecordKind.CUSTOMERS,
    }


async def test_unreadable_group_is_a_fault_until_it_can_be_read() -> None:
    slack = Slack({"S1": frozenset({"U1"})})
    told = list[str]()

    class Faults:
        async def report(self, kind: str, subject: str, text: str) -> None:
            told.append(f"{kind} {subject}: {text}")

        async def resolve(self, kind: str, subject: str = "") -> None:
            told.append(f"{subject} is over")

    groups = UserGroups(slack._fetch, lambda: slack.now, Faults())
    slack.fault = Permanent("The scope is missing.")
    with pytest.raises(Permanent):
        await groups.members("S1")
    slack.fault = None
    assert await groups.members("S1") == frozenset({"U1"})
    assert told == [
        "user group S1: Until this is solved, the group S1 counts as empty. The scope is missing.",
        "S1 is over",
    ]


FILE = """
[groups]
sales = ["S0SALES", "U0ANA"]
finance = ["C0FINANCE"]

[see]
rates = ["finance"]

[change]
quotes = ["finance", "sales"]
"""


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_roles_are_read_from_a_file(tmp_path: Path) -> None:
    roles = load_roles(written(tmp_path, "roles.toml", FILE))
    assert roles.groups["sales"] == Group(frozenset({"U0ANA"}), frozenset({"S0SALES"}))
    assert roles.groups["finance"] == Group(channels=frozenset({"C0FINANCE"}))
    assert roles.allowed(RecordKind.RATES, to_change=False) == frozenset({"finance"})
    assert roles.allowed(RecordKind.QUOTES, to_change=True) == frozenset({"finance", "sales"})
    assert load_roles(None) == Roles()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[groups", "is not TOML"),
        ('[groups]\nsales = ["ana"]', "names 'ana'"),
        ("[groups]\nsales = []", "groups.sales"),
        ('[see]\nrates = ["sales"]', "names the group 'sales'"),
        ("[see]\nmoney = []", "see.money"),
        ("[roles]", "roles"),
    ],
)
def test_invalid_roles_file_is_refused_with_a_sentence(
    tmp_path: Path, text: str, words: str
) -> None:
    with pytest.raises(Permanent, match="THREADLINE_ROLES") as told:
        load_roles(written(tmp_path, "roles.toml", text))
    assert words in str(told.value)


POLICY = """
[[rule]]
tools = ["jira.*", "ci.rerun"]
risks = ["medium"]
channels = ["C0PUBLIC"]
roles = ["sales"]
then = "propose"
"""


def test_rules_of_a_file_come_before_the_built_in_ones(tmp_path: Path) -> None:
    roles = load_roles(written(tmp_path, "roles.toml", FILE))
    names = [each.name for each in TOOLS]
    first, *others = load_rules(written(tmp_path, "policy.toml", POLICY), roles, names).rules
    assert first == PolicyRule(
        Verdict.PROPOSE,
        ("jira.*", "ci.rerun"),
        frozenset({Risk.MEDIUM}),
        frozenset({"C0PUBLIC"}),
        frozenset({"sales"}),
    )
    assert tuple(others) == BUILT_IN == load_rules(None, roles, names).rules
    assert rule_sentence(first) == (
        "Calls of jira.*, ci.rerun are proposed, of medium risk, in C0PUBLIC, for people of sales."
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[[rule]]", "rule.1.then"),
        ('[[rule]]\nthen = "ask"', "rule.1.then"),
        ('[[rule]]\nthen = "make"\ntool = ["x"]', "rule.1.tool"),
        ('[[rule]]\nthen = "make"\ntools = ["jirra.*"]', "'jirra.*'"),
        ('[[rule]]\nthen = "make"\nroles = ["boss"]', "names the group 'boss'"),
        ('[[rule]]\nthen = "make"\nchannels = ["#general"]', "'#general'"),
        ('[[rule]]\nthen = "make"\nrisks = ["huge"]', "rule.1.risks.1"),
    ],
)
def test_invalid_policy_is_refused_with_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(Permanent, match="THREADLINE_POLICY") as told:
        load_rules(written(tmp_path, "policy.toml", text), Roles(), [each.name for each in TOOLS])
    assert words in str(told.value)


def test_missing_file_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(
        Permanent, match=r"THREADLINE_ROLES names roles\.toml, which cannot be read"
    ):
        load_roles(tmp_path / "roles.toml")


def test_every_tool_declares_records() -> None:
    """A new tool without declared records would be open to everybody."""
    without = {each.name for each in TOOLS if not each.all_records}
    assert without == {
        "slack.ask.clarifying.question",
        "slack.get.thread",
        "slack.post.summary",
    }


def test_table_shows_the_verdict_of_each_tool(tmp_path: Path) -> None:
    roles = load_roles(written(tmp_path, "roles.toml", FILE))
    rows = {row[0]: row[1:] for row in policy_rows(TOOLS, load_rules(None, roles, []), roles)}
    assert rows["opportunity.patch"] == (
        "by its record",
        "made",
        "made",
        "proposed",
        "members",
        "finance or sales",
    )
    assert rows["crm.update"][4:] == ("members", "members; customers as the tool decides")
    assert rows["email.send"][1:4] == ("made", "proposed", "proposed")
    assert "opportunity.load" not in rows
