"""No call gets past the policy: neither directly, in parts, through another tool, nor on a second
request.
"""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from tests.support.role_fakes import directory
from tests.support.tool_fakes import LossyLedger, context
from tests.support.tool_results import message_of
from tests.support.tool_scene import ToolScene, members
from threadline.appointments import tools as appointments
from threadline.approvals import tools as approvals
from threadline.approvals.activities import PostgresProposals
from threadline.approvals.model import ApprovalRules, ProposedAction
from threadline.approvals.store import ApprovalStore
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.estimates import tools as estimates
from threadline.models.model import ToolCall, ToolKind
from threadline.rfps import tools as rfps
from threadline.rfps.model import RfpFacts, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.sales import tools as sales
from threadline.slack.model import Thread
from threadline.slack.user_groups import UserGroups
from threadline.slack.users import UserDirectory
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import (
    Author,
    Change,
    ErrorCode,
    FieldChange,
    Operation,
    ToolResult,
    ToolStatus,
)
from threadline.tools.policy import BUILT_IN, CallRules, PolicyRule, Verdict
from threadline.tools.proposals import Proposals
from threadline.tools.registry import Cache, ToolRegistry, allowed_tools, tool
from threadline.tools.roles import Group, RecordKind, RoleDirectory, Roles
from threadline.tools.runner import ToolRunner

THREAD = Thread("T1", "C1", "1760000000.000100")


@tool("robots.start", "Start the robots.", kind=ToolKind.CHANGE)
async def start_robots(context: ToolContext) -> str:
    return "They are on their way."


TOOLS = [
    *rfps.TOOLS,
    *appointments.TOOLS,
    *estimates.TOOLS,
    *sales.TOOLS[:4],
    *approvals.TOOLS,
    start_robots,
]


class Desk:
    """A person whose calls of real tools pass the policy."""

    def __init__(
        self,
        database: Database,
        rules: tuple[PolicyRule, ...] = BUILT_IN,
        roles: Roles | None = None,
    ) -> None:
        self.database = database
        services = Services().with_service(
            Proposals, PostgresProposals(ApprovalRules(("UAPPROVER",)))
        )
        services = services.with_service(
            RoleDirectory, RoleDirectory(roles or Roles(), UserGroups(self._members))
        )
        self.scene = ToolScene(
            database, TOOLS, services=services.with_service(CallRules, CallRules(rules))
        )

    async def _members(self, group: str) -> frozenset[str]:
        if group == "SAWAY":
            raise Transient("Slack is away.")
        return frozenset({"USELLER"})

    async def ask(self, name: str, **given: Any) -> ToolResult:
        return await self.scene.ask(name, **given)

    async def patch(self, patch: Mapping[str, Any], **where: Any) -> ToolResult:
        return await self.ask(
            "opportunity.patch", rfp_id="rfp_abc123", patch=json.dumps(patch), **where
        )

    async def document(self) -> dict[str, Any]:
        async with self.database.begin() as tx:
            return (await RfpStore(tx).ensure_state_exists("T1", "rfp_abc123")).document

    async def waiting(self) -> list[ProposedAction]:
        async with self.database.begin() as tx:
            return await ApprovalStore(tx).unfinished_after(0, 100)

    async def is_held(self, result: ToolResult) -> bool:
        return (
            result.status is ToolStatus.PENDING
            and [each.action_id for each in await self.waiting()] != []
        )


@pytest.fixture
async def desk(database: Database) -> Desk:
    async with database.begin() as tx:
        made = Change(Operation(THREAD, 0, 0, "create"), Author("U1", "c"), 1_760_000_000.0)
        await RfpStore(tx).create(made, RfpFacts("A tender"), "rfp_abc123")
    return Desk(database)


async def test_direct_call_of_high_risk_waits_and_the_model_learns_it(desk: Desk) -> None:
    result = await desk.patch({"status": "lost"})
    assert result.status is ToolStatus.PENDING
    assert (result.data["done"], result.data["action_id"], result.data["risk"]) == (
        False,
        "ACT-1",
        "high",
    )
    assert "ACT-1" in result.data["next"]
    [card] = result.structured
    assert card.records[0]["changes"] == [{"field": "status", "old": "new", "new": "lost"}]
    assert (await desk.document())["status"] == "new"
    [action] = await desk.waiting()
    assert (action.requested_by, action.rfp_id, action.tool) == (
        "U1",
        "rfp_abc123",
        "opportunity.patch",
    )


async def test_change_by_a_member_is_made_at_once(desk: Desk) -> None:
    assert (await desk.patch({"status": "proposal submitted"})).made
    assert (await desk.document())["status"] == "proposal_submitted"
    assert await desk.waiting() == []


async def test_model_that_insists_gets_the_same_pending_action(desk: Desk) -> None:
    """The call comes with another id, in another wording, or through the other tool."""
    first = await desk.patch({"status": "lost"})
    again = await desk.patch({"status": "lost"})
    worded = await desk.ask(
        "opportunity.patch", rfp_id="rfp_abc123", patch=' {"status":"lost"} ', version=1
    )
    assert [each.data["action_id"] for each in (first, again, worded)] == ["ACT-1"] * 3
    assert [len(each.structured) for each in (first, again, worded)] == [1, 0, 0]
    assert [each.action_id for each in await desk.waiting()] == ["ACT-1"]
    assert (await desk.document())["status"] == "new"


@pytest.mark.parametrize(
    "parts",
    [
        [{"outcome": {}}, {"outcome": {"status": "lost"}}],
        [{"outcome": {"status": "open"}}, {"outcome": {"status": "closed lost"}}],
        [{"a": {"b": 1}}, {"a": {"b": "LOST"}}],
        [{"steps": ["sent"]}, {"steps": ["sent", "lost"]}],
        [{"lost": False}, {"lost": True}],
        [{"flags": {}}, {"flags": {"is_won": 1}}],
        [{"notes": "we may lose"}, {"notes": {"decision": "no bid"}}],
        [{"owner": "Ana"}, {"Status": "No-Bid"}],
        [{"stage": "late"}, {"stage": "ca\u200bncelled"}],
        [{"phase": "x"}, {"phase": "\uff37\uff2f\uff2e"}],
    ],
)
async def test_split_change_is_held_at_the_step_that_takes_effect(
    desk: Desk, parts: list[dict[str, Any]]
) -> None:
    first, last = parts
    assert (await desk.patch(first)).made
    before = await desk.document()
    assert await desk.is_held(await desk.patch(last))
    assert await desk.document() == before


@pytest.mark.parametrize("status", ["wOn", "lOST", "canceLLed", "no_bId", " nO-bID ", "cAnCeLlEd"])
async def test_final_status_in_any_capitals_is_held(desk: Desk, status: str) -> None:
    assert await desk.is_held(await desk.patch({"status": status}))
    assert (await desk.document())["status"] == "new"


@pytest.mark.parametrize(
    ("event_type", "payload"),
    [
        ("status_changed", {"status": "lost"}),
        ("rfp_lost", {}),
        ("note", {"rfp": {"outcome": "won by us"}}),
        ("action_approved", {"action_id": "ACT-1"}),
    ],
)
async def test_event_of_the_same_effect_is_held(
    desk: Desk, event_type: str, payload: dict[str, Any]
) -> None:
    """Other systems read events."""
    given = {"rfp_id": "rfp_abc123", "event_type": event_type, "payload": json.dumps(payload)}
    assert await desk.is_held(await desk.ask("event.append", **given))
    assert (
        await desk.ask(
            "event.append", rfp_id="rfp_abc123", event_type="proposal_sent", payload="{}"
        )
    ).made


async def test_final_status_is_not_left_without_approval(desk: Desk) -> None:
    allowed = Desk(desk.database, (PolicyRule(Verdict.MAKE),))
    assert (await allowed.patch({"status": "won"})).made
    assert await desk.is_held(await desk.patch({"status": "in progress"}))
    assert (await desk.patch({"notes": "They like us."})).made


async def test_money_and_owner_of_another_users_rfp_wait(desk: Desk) -> None:
    """Taking the RFP over and then changing its budget is the same change in two parts."""
    async with desk.database.begin() as tx:
        await TeamMemberStore(tx).save("T1", TeamMember("U1", "Ana"))
    assert (await desk.patch({"owner": "Ana", "budget": {"total": 100}}, actor="Ana")).made
    assert (await desk.patch({"budget": {"total": 120}}, actor="Ana")).made
    held = await desk.patch({"budget": {"total": 1}}, actor="Bob", user_id="U2")
    [card] = held.structured
    assert card.records[0]["changes"] == [{"field": "budget.total", "old": 120, "new": 1}]
    assert await desk.is_held(await desk.patch({"owner": "Bob"}, actor="Bob", user_id="U2"))
    assert await desk.is_held(await desk.patch({"budget": None}, actor="Ana", user_id="U2")), (
        "called Ana too"
    )
    assert (await desk.patch({"status": "shortlisted"}, actor="Bob", user_id="U2")).made


async def test_final_stage_of_a_customer_waits(desk: Desk) -> None:
    assert (await desk.ask("crm.update", title="Buyer", stage="proposal")).made
    held = await desk.ask("crm.update", lead_id="LEAD-1", stage="won")
    [card] = held.structured
    assert card.records[0]["changes"] == [{"field": "stage", "old": "proposal", "new": "won"}]
    assert (await desk.ask("crm.get", lead_id="LEAD-1")).data["stage"] == "proposal"


async def test_tool_that_declares_no_risk_waits(desk: Desk) -> None:
    assert await desk.is_held(await desk.ask("robots.start"))


async def test_without_proposals_no_high_risk_call_runs(database: Database) -> None:
    refused = await ToolScene(
        database, [start_robots], services=Services().with_service(CallRules, CallRules())
    ).ask("robots.start")
    assert "needs an approval, which is not available here" in message_of(refused)


async def test_proposal_of_a_change_that_cannot_be_made_is_refused(desk: Desk) -> None:
    refused = await desk.patch({"status": "won", "due_date": "tomorrow"})
    assert "is not a due date" in message_of(refused)
    assert await desk.waiting() == []


async def test_rule_may_refuse_a_call(desk: Desk) -> None:
    strict = Desk(desk.database, (PolicyRule(Verdict.REFUSE, tools=("opportunity.*",)), *BUILT_IN))
    assert "does not allow this change here" in message_of(await strict.patch({"notes": "x"}))


@pytest.mark.parametrize("asker", ["USELLER", "U1"])
async def test_rule_that_refuses_a_role_holds_if_a_colleague_asks_too(
    desk: Desk, asker: str
) -> None:
    rule = PolicyRule(Verdict.REFUSE, roles=frozenset({"interns"}))
    interns = Roles(
        {
            "interns": Group(user_groups=frozenset({"S1"})),
            "team": Group(frozenset({"U1", "USELLER"})),
        }
    )
    strict = Desk(desk.database, (rule, *BUILT_IN), interns)
    with_other = {
        "user_id": asker,
        "co_requesters": {"U1" if asker == "USELLER" else "USELLER": "Another"},
    }
    assert "does not allow this change here" in message_of(
        await strict.patch({"notes": "x"}, **with_other)
    )
    assert (await strict.patch({"notes": "x"}, user_id="U1")).made


async def test_medium_change_of_an_outside_requester_waits(desk: Desk) -> None:
    services = desk.scene._services.with_service(UserDirectory, members(["UGUEST"]))
    desk.scene = ToolScene(desk.database, TOOLS, services=services)
    assert await desk.is_held(await desk.patch({"place": "Kiel"}, user_id="UGUEST"))
    with_guest = {"user_id": "U1", "co_requesters": {"UGUEST": "Gus"}}
    assert await desk.is_held(await desk.patch({"place": "Bonn"}, **with_guest))
    assert (await desk.patch({"place": "Ulm"}, user_id="U1")).made


async def test_without_a_user_directory_no_medium_risk_call_runs(
    desk: Desk,
) -> None:
    """Without a directory of Slack's users, the policy takes no user for a member."""
    database = desk.database
    services = (
        Services().with_service(CallRules, CallRules()).with_service(RoleDirectory, directory())
    )
    given = {"rfp_id": "rfp_abc123", "patch": '{"place": "Kiel"}'}
    refused = await call_with(database, services, "opportunity.patch", **given)
    assert "not set up" in message_of(refused)


async def test_without_a_role_directory_no_record_is_accessible(desk: Desk) -> None:
    database = desk.database
    services = (
        Services().with_service(CallRules, CallRules()).with_service(UserDirectory, members())
    )
    for name, given in (("rfp.list", {}), ("opportunity.load", {"rfp_id": "rfp_abc123"})):
        assert "not set up" in message_of(await call_with(database, services, name, **given))


async def call_with(database: Database, services: Services, name: str, **given: Any) -> ToolResult:
    """Call a real tool with these services alone."""
    registry = ToolRegistry(TOOLS)
    runner = ToolRunner(
        registry,
        allowed_tools(registry, services, operator=True, read_only=False),
        LossyLedger(database),
    )
    return await runner.run(
        ToolCall(name, name, json.dumps(given)), context(services=services, call_id=name)
    )


@pytest.mark.parametrize("changes", [True, False])
async def test_kind_of_record_without_roles_is_inaccessible(desk: Desk, changes: bool) -> None:
    nobody = dict.fromkeys([RecordKind.RFPS], frozenset[str]())
    roles = Roles(change=nobody) if changes else Roles(see=nobody)
    closed = Desk(desk.database, roles=roles)
    assert "Nobody may" in message_of(await closed.patch({"notes": "x"}))
    loaded = await closed.ask("opportunity.load", rfp_id="rfp_abc123")
    assert loaded.made is changes


async def approve(
    desk: Desk, patch: Mapping[str, Any], changes: tuple[FieldChange, ...]
) -> ToolResult:
    """Make the call as it is made after its action was approved."""
    at = desk.scene.context(
        call_id="approved", approved_action_id="ACT-1", approved_changes=changes
    )
    return await desk.scene.run_at(
        at, "opportunity.patch", rfp_id="rfp_abc123", patch=json.dumps(patch)
    )


async def test_approved_call_is_made_as_its_card_showed_it(desk: Desk) -> None:
    await desk.patch({"status": "lost"})
    [action] = await desk.waiting()
    assert (await approve(desk, {"status": "lost"}, action.changes)).made
    assert (await desk.document())["status"] == "lost"


async def test_approved_call_is_refused_when_the_record_has_changed_since(desk: Desk) -> None:
    """Approval of `new → lost` does not cover `shortlisted → lost`."""
    await desk.patch({"status": "lost"})
    [action] = await desk.waiting()
    await desk.patch({"status": "shortlisted"})
    assert "changed after the proposal" in message_of(
        await approve(desk, {"status": "lost"}, action.changes)
    )
    assert (await desk.document())["status"] == "shortlisted"


SELLERS = Roles(
    {"sales": Group(user_groups=frozenset({"S1"}))},
    see={RecordKind.RFPS: frozenset({"sales"}), RecordKind.DOCUMENTS: frozenset({"sales"})},
)


@tool(
    "qa.answer",
    "Look documents up.",
    cache=Cache(60, shared=True),
    records=(RecordKind.DOCUMENTS,),
)
async def look_up(context: ToolContext) -> str:
    return "secret prices"


async def test_only_people_with_the_role_read_and_change_records(desk: Desk) -> None:
    guarded = Desk(desk.database, roles=SELLERS)
    for name, given in (
        ("rfp.list", {}),
        ("opportunity.load", {"rfp_id": "rfp_abc123"}),
        ("opportunity.patch", {"rfp_id": "rfp_abc123", "patch": '{"notes": "x"}'}),
        ("opportunity.patch", {"rfp_id": "rfp_abc123", "patch": '{"status": "lost"}'}),
    ):
        refused = await guarded.ask(name, **given)
        assert refused.error
        assert refused.error.code is ErrorCode.NOT_ALLOWED
        assert "Only people of the group sales may see rfps" in refused.error.message
    assert await guarded.waiting() == []
    assert (await guarded.ask("rfp.list", user_id="USELLER")).made
    together = await guarded.ask("rfp.list", user_id="USELLER", co_requesters={"U1": "Ana"})
    assert "Only people of the group sales" in message_of(together)


async def test_people_without_the_role_file_no_proposal_under_an_rfp(desk: Desk) -> None:
    """The log of the RFP would show it."""
    guarded = Desk(desk.database, roles=SELLERS)
    given = {
        "tool": "robots.start",
        "arguments": "{}",
        "reason": "It is time.",
        "rfp_id": "rfp_abc123",
    }
    call = ToolCall("p1", "propose.action", json.dumps(given))
    refused = await guarded.scene._runner.run(call, guarded.scene.context(call_id=call.id))
    assert "Only people of the group sales may see rfps" in message_of(refused)
    assert await guarded.waiting() == []


async def test_changes_of_money_and_state_need_a_role_once_there_is_one(desk: Desk) -> None:
    guarded = Desk(desk.database, roles=Roles({"sales": Group(user_groups=frozenset({"S1"}))}))
    assert (await guarded.ask("opportunity.load", rfp_id="rfp_abc123")).made
    assert "may change rfps" in message_of(await guarded.patch({"notes": "x"}))
    assert (await guarded.patch({"notes": "x"}, user_id="USELLER")).made


async def test_shared_answer_does_not_reach_people_without_the_role(database: Database) -> None:
    services = Services().with_service(CallRules, CallRules())
    desk = Desk(database)
    services = services.with_service(
        RoleDirectory, RoleDirectory(SELLERS, UserGroups(desk._members))
    )
    scene = ToolScene(database, [look_up], services=services)
    assert (await scene.ask("qa.answer", user_id="USELLER")).data == "secret prices"
    assert (await scene.ask("qa.answer", user_id="USELLER")).status is ToolStatus.CACHED
    refused = await scene.refused("qa.answer", user_id="U1")
    assert "secret" not in str(refused)


async def test_while_group_members_are_unknown_no_call_runs(desk: Desk) -> None:
    away = Roles(
        {"sales": Group(user_groups=frozenset({"SAWAY"}))},
        see={RecordKind.RFPS: frozenset({"sales"})},
    )
    guarded = Desk(desk.database, roles=away)
    refused = await guarded.ask("opportunity.load", rfp_id="rfp_abc123")
    assert refused.error
    assert refused.error.code is ErrorCode.SERVICE_UNAVAILABLE
    with pytest.raises(Transient):
        await guarded.ask("opportunity.load", rfp_id="rfp_abc123", retries_left=1)


async def test_approved_call_is_refused_when_its_requester_has_lost_the_role(desk: Desk) -> None:
    await desk.patch({"status": "lost"})
    [action] = await desk.waiting()
    assert "may see rfps" in message_of(
        await approve(Desk(desk.database, roles=SELLERS), {"status": "lost"}, action.changes)
    )
    assert (await desk.document())["status"] == "new"
