"""The tool that proposes an action: the calls that it refuses, executes at once, or leaves to an
approver.
"""

import json
from typing import Any

import pytest

from tests.approvals.approval_scene import (
    APPROVER,
    ASKER,
    GUEST,
    LOADED,
    OTHER,
    ApprovalScene,
    MakeDesk,
    desk,
    make_desk,
    make_talk,
)
from threadline.errors import Permanent, Transient
from threadline.tools.model import ErrorCode, Risk

__all__ = ["desk", "make_desk", "make_talk"]


def patch(status: str, rfp_id: str = "rfp_abc") -> dict[str, Any]:
    return {"rfp_id": rfp_id, "patch": json.dumps({"status": status})}


async def test_medium_risk_is_recorded_and_waits(desk: ApprovalScene) -> None:
    result = await desk.propose()
    assert result.success, result.error
    assert result.data["risk"] == "medium"
    assert result.data["waits_for"] == [ASKER, APPROVER]
    assert "once it is approved" in result.display_text
    [shown] = result.structured
    assert (shown.kind, shown.records[0]["does"], shown.records[0]["reason"]) == (
        "approval",
        "Open a ticket",
        "It has to be.",
    )
    assert (desk.works.done, await desk.undecided()) == ([], ["ACT-1"])
    action = await desk.action()
    assert (action.decision, action.risk, action.requested_by) == (None, Risk.MEDIUM, ASKER)
    assert action.correlation_id == f"{desk.talk.thread.key}:1"
    assert action.action == {"tool": "jira.create", "arguments": {"title": "new"}}


async def test_low_risk_is_executed_at_once(make_desk: MakeDesk) -> None:
    desk = make_desk(approvers=())
    result = await desk.propose(
        "journal_append", {"rfp_id": "rfp_abc", "text": "any news"}, state=LOADED
    )
    assert result.success, result.error
    assert result.display_text.endswith("low risk: It is written down.")
    assert (desk.works.done, await desk.undecided()) == (["journal rfp_abc any news"], [])
    assert [
        each["tool_name"]
        for each in await desk.talk.rows("SELECT tool_name FROM agent_tool_executions")
    ] == [
        "journal.append",
        "propose.action",
    ]


async def test_model_may_raise_the_risk_and_not_lower_it(desk: ApprovalScene) -> None:
    raised = await desk.propose(
        "journal_append",
        {"rfp_id": "rfp_abc", "text": "any news"},
        state=LOADED,
        risk="high",
        rfp_id="rfp_abc",
    )
    lowered = await desk.propose("opportunity_patch", patch("won"), state=LOADED, risk="low")
    assert [raised.data["risk"], lowered.data["risk"]] == ["high", "high"]
    assert raised.data["waits_for"] == [APPROVER], "a requester does not decide a high-risk action"
    assert desk.works.done == []


@pytest.mark.parametrize(
    ("tool", "arguments", "code", "words"),
    [
        (
            "jira_create",
            {"title": 3},
            ErrorCode.INVALID_ARGUMENTS,
            "`title`: Input should be a valid string",
        ),
        ("jira_create", "[]", ErrorCode.INVALID_ARGUMENTS, "one JSON object"),
        ("jira_destroy", {}, ErrorCode.UNKNOWN_TOOL, "no tool of this name"),
        ("rfp_list", {}, ErrorCode.REFUSED, "only reads"),
        ("slack_post_summary", {"text": "any news"}, ErrorCode.REFUSED, "cannot be proposed"),
        ("propose_action", {}, ErrorCode.REFUSED, "cannot be proposed"),
        ("opportunity_patch", patch("won"), ErrorCode.PROTOCOL, "proposed call would fail"),
    ],
)
async def test_call_that_would_fail_is_not_proposed(
    desk: ApprovalScene, tool: str, arguments: Any, code: ErrorCode, words: str
) -> None:
    result = await desk.propose(tool, arguments if arguments != {} else "{}")
    assert result.error
    assert (result.error.code, words in result.error.text) == (code, True), result.error.text
    assert (desk.works.done, await desk.undecided()) == ([], [])
    assert await desk.talk.rows("SELECT 1 FROM proposed_actions") == []


@pytest.mark.parametrize(("by", "others"), [(GUEST, ()), (ASKER, (GUEST,))])
async def test_guest_cannot_propose_what_only_members_may_do(
    desk: ApprovalScene, by: str, others: Any
) -> None:
    result = await desk.propose("rates_set", {"rate": 900}, by=by, others=others)
    assert result.error
    assert result.error.code is ErrorCode.NOT_ALLOWED
    assert "The proposed call would fail: Only full members" in result.error.message
    assert (await desk.talk.rows("SELECT 1 FROM proposed_actions"), await desk.undecided()) == (
        [],
        [],
    )
    assert (await desk.propose("rates_set", {"rate": 900}, others=(OTHER,))).success


async def test_change_of_another_rfp_is_not_proposed(desk: ApprovalScene) -> None:
    foreign = await desk.propose("opportunity_patch", patch("won", "rfp_other"), state=LOADED)
    crossed = await desk.propose(
        "opportunity_patch", patch("won"), state=LOADED, rfp_id="rfp_other"
    )
    assert [each.error.code for each in (foreign, crossed) if each.error] == [
        ErrorCode.PROTOCOL,
        ErrorCode.PROTOCOL,
    ]


@pytest.mark.parametrize(
    ("approvers", "tool", "words"),
    [
        ((), "jira_create", "no approvers are set"),
        ((ASKER,), "opportunity_patch", "somebody else must ask for it"),
    ],
)
async def test_proposal_without_an_eligible_approver_is_refused(
    make_desk: MakeDesk, approvers: tuple[str, ...], tool: str, words: str
) -> None:
    desk = make_desk(approvers=approvers)
    arguments = {"title": "new"} if tool == "jira_create" else patch("won")
    result = await desk.propose(tool, arguments, state=LOADED)
    assert result.error
    assert result.error.code is ErrorCode.REFUSED
    assert words in result.error.message
    assert await desk.undecided() == []


async def test_no_requester_of_the_turn_decides_a_high_risk(desk: ApprovalScene) -> None:
    """An approver asks, and another person says "yes, please" in the same turn."""
    asked = await desk.propose(
        "opportunity_patch", patch("won"), state=LOADED, by=ASKER, others=(OTHER, APPROVER)
    )
    assert asked.error
    assert "somebody else must ask for it" in asked.error.message
    asked = await desk.propose(
        "opportunity_patch", patch("won"), state=LOADED, by=OTHER, others=(ASKER,)
    )
    assert asked.data["waits_for"] == [APPROVER]
    assert (await desk.action(asked.data["action_id"])).approvers == (APPROVER,)
    lower = await desk.propose(by=OTHER, others=(ASKER,))
    assert lower.data["waits_for"] == [ASKER, APPROVER]


async def test_arguments_that_do_not_fit_on_the_card_are_refused(desk: ApprovalScene) -> None:
    hidden = {
        "rfp_id": "rfp_abc",
        "patch": json.dumps({"terms": {"a": {"b": {"c": {"price": 0}}}}}),
    }
    result = await desk.propose("opportunity_patch", hidden, state=LOADED)
    assert result.error
    assert (result.error.code, "propose less at once" in result.error.message) == (
        ErrorCode.REFUSED,
        True,
    )
    assert await desk.undecided() == []


@pytest.mark.parametrize("fault", [Permanent("It is full."), Transient("The journal is away.")])
async def test_failed_low_risk_call_is_reported_and_not_repeated(
    desk: ApprovalScene, fault: Exception
) -> None:
    async def broken() -> None:
        raise fault

    desk.works.hooks.append(broken)
    given = {"rfp_id": "rfp_abc", "text": "any news"}
    failed = await desk.propose("journal_append", given, state=LOADED, calls=2)
    assert failed.error
    assert str(fault) in failed.error.message
    assert (desk.works.done, await desk.undecided()) == ([], [])
