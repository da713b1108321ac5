"""The activities of an approval, each on Postgres and Slack's wire: what a click decides, shows and brings about."""

import json
import time

import pytest

from tests.approvals.approval_scene import APPROVER, ASKER, LOADED, OTHER, Desk, desk, make_desk, make_talk
from threadline.approvals.buttons import ButtonClick
from threadline.approvals.contract import ActionRef, ClickAnswer, ClickRequest, Expiry, Stage, Whisper
from threadline.approvals.proposing import Approving
from threadline.errors import Permanent, Transient
from threadline.operator.model.protocol import ProtocolState
from threadline.rfps.model import Facts, NewRfp
from threadline.threads import activity_options as options
from threadline.tools.author import Author
from threadline.tools.operations import Change, Operation
from threadline.tools.postgres_ports import PostgresExecutionLog
from threadline_devstack.slack.identity import GENERAL, TEAM

__all__ = ["desk", "make_desk", "make_talk"]

REF = ActionRef(TEAM, "ACT-1")


async def click(
    desk: Desk, by: str, *, approve: bool = True, key: str = "k1", at: float = 0.0, settings: Approving | None = None
) -> ClickAnswer:
    action = await desk.action()
    thread = desk.talk.thread
    pressed = ButtonClick(by, action.action_hash, approve, key, at, thread.channel, thread.ts)
    request = ClickRequest(TEAM, "ACT-1", pressed)
    return await desk.talk.run(desk.activities(settings).decide_action, request)


async def test_the_first_click_decides_and_the_message_says_who_in_place_of_the_buttons(desk: Desk) -> None:
    await desk.propose()
    message = await desk.say()
    assert [each["type"] for each in message.blocks][-1] == "actions"
    answer = await click(desk, APPROVER)
    assert (answer.state.stage, answer.words) == (Stage.APPROVED, "")
    await desk.talk.run(desk.activities().show_decision, REF)
    shown = desk.talk.slack.workspace.message(GENERAL, message.ts)
    assert "actions" not in [each["type"] for each in shown.blocks]
    assert f"*Approved* by <@{APPROVER}>" in shown.blocks[-1]["text"]["text"]
    assert shown.blocks[0] == message.blocks[0]
    assert len(desk.thread()) == 1


async def test_a_click_that_is_delivered_again_is_the_same_and_another_is_told_who_has_decided(desk: Desk) -> None:
    await desk.propose()
    assert (await click(desk, APPROVER)).words == ""
    assert (await click(desk, APPROVER)).words == "", "the same click once more"
    late = await click(desk, ASKER, approve=False, key="k2")
    assert late.state.stage is Stage.APPROVED
    assert f"by <@{APPROVER}>" in late.words
    assert "ACT-1 was already decided" in late.words
    assert "was already decided" in (await click(desk, APPROVER, key="k3")).words


@pytest.mark.parametrize(
    ("tool", "by", "words"),
    [
        ("jira_create", OTHER, "You are not among those who may decide ACT-1"),
        ("opportunity_patch", ASKER, "somebody other than who asked has to decide"),
    ],
)
async def test_who_may_not_decide_is_told_so_and_nothing_is_decided(desk: Desk, tool: str, by: str, words: str) -> None:
    risky = {"rfp_id": "rfp_abc", "patch": json.dumps({"status": "won"})}
    await desk.propose(tool, None if tool == "jira_create" else risky, state=LOADED)
    answer = await click(desk, by)
    assert answer.state.stage is Stage.OPEN
    assert words in answer.words
    assert (await desk.action()).decision is None


async def test_a_click_is_authorised_by_the_settings_of_now(desk: Desk) -> None:
    await desk.propose()
    answer = await click(desk, APPROVER, settings=Approving((ASKER,)))
    assert (answer.state.stage, "no approver any more" in answer.words) == (Stage.OPEN, True)


@pytest.mark.parametrize(("pressed", "stage"), [(-1.0, Stage.APPROVED), (0.0, Stage.EXPIRED), (1.0, Stage.EXPIRED)])
async def test_a_click_in_time_counts_however_late_it_is_looked_at(desk: Desk, pressed: float, stage: Stage) -> None:
    """`pressed`: seconds from the expiry on; the click is looked at an hour later."""
    await desk.propose()
    action = await desk.action()
    expires = action.expires_at.timestamp()
    live = desk.activities(clock=lambda: expires + 3600)
    button = ButtonClick(APPROVER, action.action_hash, True, "k", expires + pressed, GENERAL, desk.talk.thread.ts)
    answer = await desk.talk.run(live.decide_action, ClickRequest(TEAM, "ACT-1", button))
    assert answer.state.stage is stage
    assert ("Expired" in answer.words) == (stage is Stage.EXPIRED)


async def test_a_click_from_the_future_was_made_now(desk: Desk) -> None:
    await desk.propose()
    assert (await click(desk, APPROVER, at=time.time() + 1e6)).state.stage is Stage.APPROVED


async def test_a_button_of_another_action_decides_nothing_and_an_unknown_one_says_so(desk: Desk) -> None:
    await desk.propose()
    pressed = ButtonClick(APPROVER, "0" * 64, True, "k", 0.0, GENERAL, desk.talk.thread.ts)
    live = desk.activities()
    wrong = await desk.talk.run(live.decide_action, ClickRequest(TEAM, "ACT-1", pressed))
    assert (wrong.state.stage, "this button is not for" in wrong.words.casefold()) == (Stage.OPEN, True)
    unknown = await desk.talk.run(live.decide_action, ClickRequest(TEAM, "ACT-99", pressed))
    assert (unknown.state.stage, "no longer on record" in unknown.words) == (Stage.UNKNOWN, True)
    assert (await desk.talk.run(live.open_approval, ActionRef(TEAM, "ACT-99"))).stage is Stage.UNKNOWN
    assert (await desk.talk.run(live.open_approval, ActionRef("T0OTHER", "ACT-1"))).stage is Stage.UNKNOWN


async def test_only_the_clicker_reads_what_became_of_the_click(desk: Desk) -> None:
    pressed = ButtonClick(OTHER, "", True, "k", 0.0, GENERAL, desk.talk.thread.ts)
    await desk.talk.run(desk.activities().whisper, Whisper(pressed, "You may not."))
    assert (desk.whispers(OTHER), desk.thread()) == (["You may not."], [])


async def test_the_decision_waits_for_a_message_that_is_not_in_slack_yet(desk: Desk) -> None:
    await desk.propose()
    await click(desk, APPROVER)
    with pytest.raises(Transient):
        await desk.talk.run(desk.activities().show_decision, REF)
    message = await desk.say()
    await desk.talk.run(desk.activities().show_decision, REF)
    assert "Approved" in desk.talk.slack.workspace.message(GENERAL, message.ts).text


async def test_a_message_that_somebody_deleted_takes_nothing_with_it(desk: Desk) -> None:
    await desk.propose()
    message = await desk.say()
    desk.talk.slack.workspace.delete(GENERAL, message.ts)
    await click(desk, APPROVER)
    await desk.talk.run(desk.activities().show_decision, REF)
    assert desk.thread() == []


async def test_the_buttons_are_found_in_the_part_that_has_them(desk: Desk) -> None:
    await desk.propose()
    await desk.say("\n\n".join(["many words " * 60] * 30))
    holding = [each for each in desk.talk.posted() if any(block["type"] == "actions" for block in each.blocks)]
    assert len(holding) == 1
    await click(desk, APPROVER)
    await desk.talk.run(desk.activities().show_decision, REF)
    assert "Approved" in desk.talk.slack.workspace.message(GENERAL, holding[0].ts).text


async def test_an_approved_action_is_made_once_for_who_asked_and_its_outcome_is_said_once(desk: Desk) -> None:
    await desk.propose()
    await desk.say()
    await click(desk, APPROVER)
    for _ in range(3):
        await desk.talk.run(desk.activities().carry_out, REF)
        await desk.talk.run(desk.activities().post_outcome, REF)
    assert desk.works.done == [f"ticket new for {ASKER}"]
    assert len(desk.thread()) == 2
    assert desk.thread()[-1].startswith("ACT-1 was approved and carried out: T-1 is open.")
    assert (await desk.talk.run(desk.activities().open_approval, REF)).told


async def test_a_change_of_an_rfp_is_made_in_its_turns_name_and_passes_the_protocol(desk: Desk) -> None:
    given = {"rfp_id": "rfp_abc", "patch": json.dumps({"status": "won"})}
    await desk.propose("opportunity_patch", given, state=LOADED)
    await click(desk, APPROVER)
    await desk.talk.run(desk.activities().carry_out, REF)
    assert desk.works.done == [f'patch rfp_abc {{"status": "won"}} in {desk.talk.thread.key}:1']


async def test_what_nobody_approved_is_not_made(desk: Desk) -> None:
    await desk.propose()
    with pytest.raises(Permanent):
        await desk.talk.run(desk.activities().carry_out, REF)
    await click(desk, APPROVER, approve=False)
    with pytest.raises(Permanent):
        await desk.talk.run(desk.activities().carry_out, REF)
    assert desk.works.done == []


async def test_an_approved_action_that_cannot_be_made_says_why(desk: Desk) -> None:
    await desk.propose(arguments={"title": "impossible"})
    await click(desk, APPROVER)
    await desk.talk.run(desk.activities().carry_out, REF)
    await desk.talk.run(desk.activities().post_outcome, REF)
    assert "could not be carried out: There is no such project." in desk.thread()[-1]


async def test_a_worker_that_dies_amid_it_leaves_an_outcome_that_says_it_is_not_known(desk: Desk) -> None:
    class Died(BaseException):
        pass

    async def die() -> None:
        raise Died

    await desk.propose()
    await click(desk, APPROVER)
    desk.works.hooks.append(die)
    with pytest.raises(Died):
        await desk.talk.run(desk.activities().carry_out, REF)
    await desk.talk.run(desk.activities().carry_out, REF, attempt=2)
    await desk.talk.run(desk.activities().post_outcome, REF)
    assert desk.works.done == [], "a ticket that may be there is not opened again"
    assert "not known whether" in desk.thread()[-1] or "may have taken effect" in desk.thread()[-1]


async def test_where_no_execution_is_on_record_nothing_was_done_and_that_is_said(desk: Desk) -> None:
    await desk.propose()
    await click(desk, APPROVER)
    await desk.talk.run(desk.activities().post_outcome, REF)
    assert "could not be started. Nothing was done" in desk.thread()[-1]


async def test_a_database_that_is_away_when_it_is_begun_is_waited_for(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: nobody calls again, as a model would."""
    await desk.propose()
    await click(desk, APPROVER)

    async def away(*_: object) -> None:
        raise Transient("The database is away.")

    with monkeypatch.context() as gone:
        gone.setattr(PostgresExecutionLog, "recorded", away)
        for attempt in (1, 4, 400):
            with pytest.raises(Transient):
                await desk.talk.run(desk.activities().carry_out, REF, attempt=attempt)
    chosen = options.FOR["carry_out"]
    assert (chosen.retry.maximum_attempts, chosen.schedule_to_close) == (0, None)
    await desk.talk.run(desk.activities().carry_out, REF, attempt=401)
    assert desk.works.done == [f"ticket new for {ASKER}"]


@pytest.mark.parametrize(("attempt", "again"), [(3, True), (59, True), (60, False)])
async def test_a_service_that_is_away_is_asked_for_an_hour(desk: Desk, attempt: int, again: bool) -> None:
    async def away() -> None:
        raise Transient("The journal is away.")

    given = {"rfp_id": "rfp_abc", "text": "hello"}
    await desk.propose("journal_append", given, state=LOADED, risk="high", rfp_id="rfp_abc")
    await click(desk, APPROVER)
    desk.works.hooks.append(away)
    if again:
        with pytest.raises(Transient):
            await desk.talk.run(desk.activities().carry_out, REF, attempt=attempt)
    else:
        await desk.talk.run(desk.activities().carry_out, REF, attempt=attempt)
        await desk.talk.run(desk.activities().post_outcome, REF)
        assert "could not be carried out" in desk.thread()[-1]


async def test_the_time_runs_out_by_the_clock_of_who_waited(desk: Desk) -> None:
    await desk.propose()
    expires = (await desk.action()).expires_at.timestamp()
    live = desk.activities()
    assert (await desk.talk.run(live.expire_action, Expiry(TEAM, "ACT-1", expires - 1))).stage is Stage.OPEN
    assert (await desk.talk.run(live.expire_action, Expiry(TEAM, "ACT-1", expires))).stage is Stage.EXPIRED


async def test_what_was_done_at_once_is_never_made_again_by_a_click(desk: Desk) -> None:
    await desk.propose("journal_append", {"rfp_id": "rfp_abc", "text": "hello"}, state=LOADED)
    assert (await click(desk, APPROVER)).state.told
    with pytest.raises(Permanent):
        await desk.talk.run(desk.activities().carry_out, REF)
    assert len(desk.works.done) == 1


async def test_what_becomes_of_it_stands_in_the_rfps_log_of_events_once(desk: Desk) -> None:
    thread = desk.talk.thread
    async with desk.talk.database.begin() as work:
        change = Change(Operation(thread, 0, 0, "create"), time.time())
        made = (await work.rfps.create(change, NewRfp(Facts("A tender")), Author(ASKER, "c"))).rfp
    given = {"rfp_id": made.rfp_id, "patch": json.dumps({"status": "won"})}
    state = ProtocolState(scope=made.rfp_id, loaded=(made.rfp_id,), did_load=True)
    await desk.propose("opportunity_patch", given, state=state, calls=2)
    for _ in range(2):
        await click(desk, APPROVER)
        await desk.talk.run(desk.activities().carry_out, REF)
        await desk.talk.run(desk.activities().post_outcome, REF)
    logged = await desk.talk.rows(
        "SELECT event_type, user_id, correlation_id FROM events WHERE event_type LIKE 'action%' ORDER BY id"
    )
    assert [(each["event_type"], each["user_id"]) for each in logged] == [
        ("action_proposed", ASKER),
        ("action_approved", APPROVER),
        ("action_carried_out", ASKER),
    ]
    assert {each["correlation_id"] for each in logged} == {f"{thread.key}:1"}
