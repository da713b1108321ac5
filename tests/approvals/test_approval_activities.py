"""The activities of an approval on Postgres and Slack's wire: the decisions, posts and executions
that follow a click.
"""

import itertools
import json
import time
from functools import partial

import pytest

from tests.approvals.approval_scene import (
    APPROVER,
    ASKER,
    LOADED,
    OTHER,
    ApprovalScene,
    desk,
    make_desk,
    make_talk,
)
from threadline.approvals.contract import (
    EXECUTE,
    ApprovalRef,
    ApprovalState,
    DecideAction,
    ExpireAction,
)
from threadline.approvals.model import APPROVE, REJECT, ApprovalRules, ApprovalStage, button_value
from threadline.approvals.store import OUTCOME_DUE
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind
from threadline.db.rate_limits import MUTATION_RATE, RateLimits
from threadline.errors import Permanent, Transient
from threadline.operator.model.protocol import ProtocolState
from threadline.rfps.model import RfpFacts
from threadline.rfps.store import RfpStore
from threadline.threads.model import ButtonPress
from threadline.tools.model import Author, Change, Operation
from threadline.tools.store import ToolLedger
from threadline_devstack.slack.identity import GENERAL, TEAM

__all__ = ["desk", "make_desk", "make_talk"]

REF = ApprovalRef(TEAM, "ACT-1")


async def click(
    desk: ApprovalScene,
    by: str,
    *,
    approve: bool = True,
    key: str = "k1",
    at: float = 0.0,
    settings: ApprovalRules | None = None,
) -> ApprovalState:
    action = await desk.action()
    thread = desk.talk.thread
    button = APPROVE if approve else REJECT
    value = button_value("ACT-1", action.action_hash)
    pressed = ButtonPress(by, button, value, key, at, thread.channel, thread.ts)
    request = DecideAction(REF, pressed)
    return await desk.talk.run(desk.activities(settings).decide_action, request)


async def show(desk: ApprovalScene) -> None:
    await desk.talk.run(desk.activities().show_decision, REF)


async def execute_action(desk: ApprovalScene, attempt: int = 1) -> None:
    await desk.talk.run(desk.activities().execute_action, REF, attempt=attempt)


async def outcome(desk: ApprovalScene) -> str:
    """Post the outcome of the action, and return the post."""
    await desk.talk.run(desk.activities().post_outcome, REF)
    return desk.thread()[-1]


async def test_first_click_decides_and_replaces_the_buttons(desk: ApprovalScene) -> None:
    await desk.propose()
    message = await desk.say()
    assert [each["type"] for each in message.blocks][-1] == "actions"
    answer = await click(desk, APPROVER)
    assert (answer.stage, answer.reply) == (ApprovalStage.APPROVED, "")
    await show(desk)
    shown = desk.talk.slack.workspace.message(GENERAL, message.ts)
    assert "actions" not in [each["type"] for each in shown.blocks]
    assert f"*Approved* by <@{APPROVER}>" in shown.blocks[-1]["text"]["text"]
    assert shown.blocks[0] == message.blocks[0]
    assert len(desk.thread()) == 1


async def test_click_after_the_decision_gets_the_decider(desk: ApprovalScene) -> None:
    await desk.propose()
    assert (await click(desk, APPROVER)).reply == ""
    assert (await click(desk, APPROVER)).reply == "", "the same click again"
    late = await click(desk, ASKER, approve=False, key="k2")
    assert late.stage is ApprovalStage.APPROVED
    assert f"by <@{APPROVER}>" in late.reply
    assert "ACT-1 was already decided" in late.reply
    assert "was already decided" in (await click(desk, APPROVER, key="k3")).reply


async def test_refused_click_gets_a_reason_and_decides_nothing(desk: ApprovalScene) -> None:
    await desk.propose()
    stranger = await click(desk, OTHER)
    former = await click(desk, APPROVER, settings=ApprovalRules((ASKER,)))
    assert {stranger.stage, former.stage} == {ApprovalStage.OPEN}
    assert "not among those who may decide ACT-1" in stranger.reply
    assert "no longer an approver" in former.reply
    assert (await desk.action()).decision is None


@pytest.mark.parametrize(
    ("button", "made_for", "of_it"),
    [
        ("handover_close", "ACT-1", True),
        (REJECT, "ACT-2", True),
        (APPROVE, "ACT-1", False),
        (REJECT, "ACT-1", False),
    ],
)
async def test_button_that_is_not_for_this_action_decides_nothing(
    desk: ApprovalScene, button: str, made_for: str, of_it: bool
) -> None:
    """`of_it`: whether the button carries the hash of the proposed action."""
    await desk.propose()
    value = button_value(made_for, (await desk.action()).action_hash if of_it else "0" * 64)
    pressed = ButtonPress(APPROVER, button, value, "k1", 0.0, GENERAL, desk.talk.thread.ts)
    reply = await desk.talk.run(desk.activities().decide_action, DecideAction(REF, pressed))
    assert (reply.stage, (await desk.action()).decision) == (ApprovalStage.OPEN, None)
    assert "does not belong to ACT-1" in reply.reply


@pytest.mark.parametrize(
    ("pressed", "stage"),
    [(-1.0, ApprovalStage.APPROVED), (0.0, ApprovalStage.EXPIRED), (1.0, ApprovalStage.EXPIRED)],
)
async def test_click_in_time_counts_when_it_is_handled_late(
    desk: ApprovalScene, pressed: float, stage: ApprovalStage
) -> None:
    """`pressed`: seconds after the expiry (negative: before); the click is handled an hour
    later.
    """
    await desk.propose()
    action = await desk.action()
    expires = action.expires_at.timestamp()
    live = desk.activities(clock=lambda: expires + 3600)
    value = button_value("ACT-1", action.action_hash)
    button = ButtonPress(
        APPROVER, APPROVE, value, "k", expires + pressed, GENERAL, desk.talk.thread.ts
    )
    answer = await desk.talk.run(live.decide_action, DecideAction(REF, button))
    assert answer.stage is stage
    assert ("Expired" in answer.reply) == (stage is ApprovalStage.EXPIRED)


async def test_click_from_the_future_counts_as_now(desk: ApprovalScene) -> None:
    await desk.propose()
    assert (await click(desk, APPROVER, at=time.time() + 1e6)).stage is ApprovalStage.APPROVED


async def test_click_on_a_missing_action_gets_a_reply(desk: ApprovalScene) -> None:
    await desk.propose()
    value = button_value("ACT-99", "0" * 64)
    pressed = ButtonPress(APPROVER, APPROVE, value, "k", 0.0, GENERAL, desk.talk.thread.ts)
    live = desk.activities()
    unknown = await desk.talk.run(
        live.decide_action, DecideAction(ApprovalRef(TEAM, "ACT-99"), pressed)
    )
    assert (unknown.stage, "no longer on record" in unknown.reply) == (ApprovalStage.UNKNOWN, True)
    for ref in (ApprovalRef(TEAM, "ACT-99"), ApprovalRef("T0OTHER", "ACT-1")):
        assert (await desk.talk.run(live.load_approval, ref)).stage is ApprovalStage.UNKNOWN


async def test_co_requester_of_a_high_risk_gets_a_reason_and_cannot_decide(
    desk: ApprovalScene,
) -> None:
    await desk.propose(
        "opportunity_patch",
        {"rfp_id": "rfp_abc", "patch": json.dumps({"status": "won"})},
        state=LOADED,
        by=OTHER,
        others=(ASKER,),
    )
    assert "somebody other than the requester has to decide it" in (await click(desk, ASKER)).reply


async def test_each_card_of_a_message_shows_its_own_decision(desk: ApprovalScene) -> None:
    """One turn proposes two actions, and its one message holds both cards."""
    await desk.propose()
    desk.turn -= 1
    await desk.propose(arguments={"title": "another"}, call_id="call_2")
    message = await desk.say()
    await click(desk, APPROVER)
    await show(desk)
    second = ApprovalRef(TEAM, "ACT-2")
    action = await desk.action("ACT-2")
    value = button_value("ACT-2", action.action_hash)
    pressed = ButtonPress(APPROVER, REJECT, value, "k2", 0.0, GENERAL, desk.talk.thread.ts)
    await desk.talk.run(desk.activities().decide_action, DecideAction(second, pressed))
    await desk.talk.run(desk.activities().show_decision, second)
    shown = desk.talk.slack.workspace.message(GENERAL, message.ts)
    assert [each["type"] for each in shown.blocks].count("actions") == 0
    assert "*Approved*" in str(shown.blocks)
    assert "*Rejected*" in str(shown.blocks)


async def test_action_approved_long_ago_is_not_executed_by_a_late_press(
    desk: ApprovalScene,
) -> None:
    """The ledger may have dropped the call by then, so that the action would run twice."""
    await desk.propose()
    await click(desk, APPROVER)
    soon = time.time() + OUTCOME_DUE.total_seconds() - 60
    late = time.time() + OUTCOME_DUE.total_seconds() + 60
    for now, finished in ((soon, False), (late, True)):
        state = await desk.talk.run(desk.activities(clock=partial(float, now)).load_approval, REF)
        assert (state.stage, state.finished) == (ApprovalStage.APPROVED, finished)


async def test_approved_call_runs_for_all_requesters(desk: ApprovalScene) -> None:
    await desk.propose("rates_set", {"rate": 900}, others=(OTHER,))
    await click(desk, APPROVER)
    await execute_action(desk)
    assert desk.works.done == [f"rate 900 for Ana ({ASKER}), Somebody"]


async def test_decision_waits_for_a_message_not_yet_in_slack(desk: ApprovalScene) -> None:
    await desk.propose()
    await click(desk, APPROVER)
    with pytest.raises(Transient, match="turn"):
        await show(desk)
    await desk.talk.said("please do it")
    desk.talk.slack.faults.refuse("chat.postMessage", "is_archived")
    await desk.talk.settle(
        ConversationOutcome(OutcomeKind.ANSWERED, "I propose this.", model_calls=1), desk.turn
    )
    with pytest.raises(Transient, match="message"):
        await show(desk)
    await desk.talk.post(desk.turn)
    await show(desk)
    assert "Approved" in desk.talk.posted()[-1].text


async def test_decision_about_a_deleted_message_is_not_shown(desk: ApprovalScene) -> None:
    await desk.propose()
    message = await desk.say()
    desk.talk.slack.workspace.delete(GENERAL, message.ts)
    await click(desk, APPROVER)
    await show(desk)
    assert desk.thread() == []


async def test_decision_is_shown_in_the_part_with_the_buttons(desk: ApprovalScene) -> None:
    await desk.propose()
    await desk.say("\n\n".join(["many words " * 60] * 30))
    holding = [
        each
        for each in desk.talk.posted()
        if any(block["type"] == "actions" for block in each.blocks)
    ]
    assert len(holding) == 1
    await click(desk, APPROVER)
    await show(desk)
    assert "Approved" in desk.talk.slack.workspace.message(GENERAL, holding[0].ts).text


async def test_approved_action_is_executed_and_reported_once(desk: ApprovalScene) -> None:
    await desk.propose()
    await desk.say()
    await click(desk, APPROVER)
    for _ in range(3):
        await execute_action(desk)
        assert "ACT-1 was approved and carried out: T-1 is open." in await outcome(desk)
    assert desk.works.done == [f"ticket new for {ASKER}"]
    assert len(desk.thread()) == 2
    assert (await desk.talk.run(desk.activities().load_approval, REF)).finished


async def test_action_on_a_busy_record_is_executed_once_it_may_be_changed_again(
    desk: ApprovalScene,
) -> None:
    await desk.propose()
    await desk.say()
    await click(desk, APPROVER)
    scope = f"{TEAM}:thread:{desk.talk.thread.key}"
    async with desk.talk.database.begin() as tx:
        changes = itertools.count()
        while await RateLimits(tx).allows_change(
            scope, f"change {next(changes)}", time.time(), MUTATION_RATE
        ):
            pass
    with pytest.raises(Transient, match="too often") as busy:
        await execute_action(desk)
    assert busy.value.retry_after == MUTATION_RATE.seconds
    assert desk.works.done == []
    await desk.talk.rows("DELETE FROM rate_limit_events RETURNING event")
    await execute_action(desk)
    assert len(desk.works.done) == 1
    await execute_action(desk)
    assert len(desk.works.done) == 1


async def test_unapproved_action_is_not_executed(desk: ApprovalScene) -> None:
    await desk.propose()
    with pytest.raises(Permanent):
        await execute_action(desk)
    await click(desk, APPROVER, approve=False)
    with pytest.raises(Permanent):
        await execute_action(desk)
    assert desk.works.done == []


async def test_outcome_of_a_failed_action_gives_the_reason(desk: ApprovalScene) -> None:
    await desk.propose(arguments={"title": "impossible"})
    await click(desk, APPROVER)
    await execute_action(desk)
    assert "could not be carried out: There is no such project." in await outcome(desk)


async def test_outcome_of_an_action_that_never_began_reports_no_effect(
    desk: ApprovalScene,
) -> None:
    await desk.propose()
    await click(desk, APPROVER)
    assert "Nothing was done" in await outcome(desk)


async def test_execution_waits_for_a_database_that_is_away(
    desk: ApprovalScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The wait has no limit: no model would retry the call."""
    await desk.propose()
    await click(desk, APPROVER)

    async def away(*_: object) -> None:
        raise Transient("The database is away.")

    with monkeypatch.context() as gone:
        gone.setattr(ToolLedger, "begin", away)
        for attempt in (1, 4, 400):
            with pytest.raises(Transient):
                await execute_action(desk, attempt)
    assert (EXECUTE.retry.maximum_attempts, EXECUTE.schedule_to_close) == (0, None)
    await execute_action(desk, attempt=401)
    assert desk.works.done == [f"ticket new for {ASKER}"]


@pytest.mark.parametrize(("attempt", "again"), [(59, True), (60, False)])
async def test_service_that_is_away_is_retried_for_an_hour(
    desk: ApprovalScene, attempt: int, again: bool
) -> None:
    async def away() -> None:
        raise Transient("The journal is away.")

    given = {"rfp_id": "rfp_abc", "text": "any news"}
    await desk.propose("journal_append", given, state=LOADED, risk="high", rfp_id="rfp_abc")
    await click(desk, APPROVER)
    desk.works.hooks.append(away)
    if again:
        with pytest.raises(Transient):
            await execute_action(desk, attempt)
    else:
        await execute_action(desk, attempt)
        assert "could not be carried out" in await outcome(desk)


async def test_action_expires_by_the_clock_of_the_workflow(desk: ApprovalScene) -> None:
    await desk.propose()
    expires = (await desk.action()).expires_at.timestamp()
    live = desk.activities()
    assert (
        await desk.talk.run(live.expire_action, ExpireAction(REF, expires - 1))
    ).stage is ApprovalStage.OPEN
    assert (
        await desk.talk.run(live.expire_action, ExpireAction(REF, expires))
    ).stage is ApprovalStage.EXPIRED


async def test_decision_and_execution_are_logged_as_events_once(desk: ApprovalScene) -> None:
    thread = desk.talk.thread
    async with desk.talk.database.begin() as tx:
        change = Change(Operation(thread, 0, 0, "create"), Author(ASKER, "c"), time.time())
        made = (await RfpStore(tx).create(change, RfpFacts("A tender"))).rfp
    given = {"rfp_id": made.rfp_id, "patch": json.dumps({"status": "won"})}
    state = ProtocolState(scope=made.rfp_id, loaded=(made.rfp_id,), did_load=True)
    await desk.propose("opportunity_patch", given, state=state, calls=2)
    for _ in range(2):
        await click(desk, APPROVER)
        await execute_action(desk)
        await outcome(desk)
    assert desk.works.done == [f'patch {made.rfp_id} {{"status": "won"}} in {thread.key}:1']
    logged = await desk.talk.rows(
        "SELECT event_type, user_id, correlation_id FROM events WHERE event_type LIKE "
        "'action%' ORDER BY id"
    )
    assert [(each["event_type"], each["user_id"]) for each in logged] == [
        ("action_proposed", ASKER),
        ("action_approved", APPROVER),
        ("action_executed", ASKER),
    ]
    assert {each["correlation_id"] for each in logged} == {f"{thread.key}:1"}
