"""The two steps of a turn on their real parts: their records, and their retries."""

import asyncio
import json
import time
from dataclasses import replace

import pytest

from tests.support.conversation_activities import (
    RAN,
    ConversationActivityScene,
    Make,
    make_talk,
    talk,
)
from tests.support.decision_activities import engine_of
from threadline.conversations import blocks
from threadline.conversations.activities import RECEIVED_REACTION
from threadline.conversations.contract import ActRequest, FinishRequest, ThreadNotice
from threadline.conversations.help import ASK_EXAMPLE, example_id
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import (
    ConversationOutcome,
    NoticeReason,
    OutcomeKind,
)
from threadline.errors import Mendable, Permanent, Transient
from threadline.estimates.store import EstimateStore
from threadline.models.errors import MODEL_FAULT
from threadline.models.model import ToolChoice
from threadline.threads.model import MessageKind
from threadline.threads.store import ThreadBindingStore
from threadline.tools.model import Operation, ToolResult, ToolStatus
from threadline.tools.store import LoggedCall, ToolLedger
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BYSTANDER, ESCALATIONS, REPORTER, TEAM

__all__ = ["make_talk", "talk"]


async def test_turn_calls_tools_answers_and_is_known_to_the_next(
    talk: ConversationActivityScene,
) -> None:
    await talk.said('List the lamps, then create a lamp "Milk".')
    outcome = await talk.answer()
    assert outcome.kind is OutcomeKind.ANSWERED
    assert [each.status for each in outcome.executions] == [ToolStatus.OK, ToolStatus.OK]
    assert RAN[0] == "list"
    assert RAN[1].startswith(f"create by reporter for {REPORTER} at {talk.thread.key}:1:2:")
    [posted] = talk.posted()
    assert posted.thread_ts == talk.thread.ts
    assert "Done: list, then create" in posted.text
    await talk.said("What did I ask before?")
    await talk.answer(2)
    texts = [str(each.get("content", "")) for each in talk.sent()]
    assert next(text for text in texts if "Milk" in text).startswith("List the lamps")
    assert texts[-1] == "What did I ask before?"
    assert not talk.model.refused


async def test_project_locked_at_the_start_blocks_changes_for_the_whole_turn(
    talk: ConversationActivityScene,
) -> None:
    async def create(turn: ScriptTurn) -> None:
        await turn.call("lamps_create", title="Milk")

    talk.model.script(create)
    await talk.said("what now?")
    async with talk.database.begin() as tx:
        project = await EstimateStore(tx).get_or_create_project(talk.thread.team, "Shop", "EUR")
        await ThreadBindingStore(tx).bind(talk.thread, "project", project.project_id, REPORTER)
        await EstimateStore(tx).set_locked(talk.thread.team, project.project_id, locked=True)
    [call] = (await talk.think()).reply.calls
    async with talk.database.begin() as tx:
        await EstimateStore(tx).set_locked(talk.thread.team, project.project_id, locked=False)
    done = await talk.act(call)
    assert done.status is ToolStatus.BLOCKED
    assert "is locked" in done.note
    assert RAN == []
    [row] = await talk.rows("SELECT status FROM agent_tool_executions")
    assert row["status"] == "blocked"


async def test_last_call_of_a_turn_shows_the_tools_and_forbids_them(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("List the lamps.")
    [call] = (await talk.think()).reply.calls
    await talk.act(call)
    assert (await talk.think(step=2, choice=ToolChoice.NONE)).reply.text
    free, forced = (each.conversation for each in talk.model.log)
    assert (free.tool_choice, forced.tool_choice) == ("auto", "none")
    assert list(forced.tools) == list(free.tools) != []


async def test_retry_uses_the_stored_reply_and_the_stored_result(
    talk: ConversationActivityScene,
) -> None:
    await talk.said('Create a lamp "Milk".')
    first = await talk.think()
    assert (await talk.think(attempt=2)).reply == first.reply
    assert len(talk.model.log) == 1
    [call] = first.reply.calls
    assert call.arguments == ""
    assert await talk.act(call) == await talk.act(call, attempt=2)
    assert len(RAN) == 1
    assert [key for key, _ in await talk.transcript()].count(f"t:1:1:{call.id}") == 1


async def test_first_reply_of_two_parallel_attempts_is_kept(make_talk: Make) -> None:
    one = make_talk()
    other = make_talk()
    await one.said("any news there")
    replies = await asyncio.gather(one.think(), other.think())
    assert replies[0].reply == replies[1].reply
    assert [key for key, _ in await one.transcript() if key.startswith("a:")] == ["a:1:1"]
    assert [key for key, _ in await one.transcript() if key.startswith("c:")] == ["c:1"]


async def test_lost_call_that_is_on_record_is_reported_with_its_outcome(
    talk: ConversationActivityScene,
) -> None:
    """The worker was lost between the record and the transcript, as during a side effect."""
    await talk.said('Create a lamp "Milk".')
    [call] = (await talk.think()).reply.calls
    operation = Operation(talk.thread, 1, 1, call.id)
    made = LoggedCall(operation, "r", "U1", call.name, {}, "f", time.time(), has_side_effects=True)
    async with talk.database.begin() as tx:
        ledger = ToolLedger(talk.database)
        await ledger.finish(tx, made, ToolResult(data="Milk is there"), time.time(), 5)
    await talk.think(step=2)
    [output] = [
        each["output"] for each in talk.sent() if each.get("type") == "function_call_output"
    ]
    assert json.loads(output)["data"] == "Milk is there"


async def test_next_step_reads_the_messages_of_a_lost_one(
    talk: ConversationActivityScene,
) -> None:
    """The worker was lost before it had read anything, and the workflow runs the next step."""
    await talk.said("what is new?")
    await talk.begin()
    await talk.said("and what is old?")
    await talk.think(step=2)
    assert [each["content"] for each in talk.sent() if each.get("role") == "user"] == [
        "what is new?",
        "and what is old?",
    ]


async def test_lost_call_is_reported_to_the_model_as_unknown(
    talk: ConversationActivityScene,
) -> None:
    await talk.said('Create a lamp "Milk".')
    [call] = (await talk.think()).reply.calls
    await talk.think(step=2)  # the worker was lost: no result was kept
    [output] = [
        each["output"] for each in talk.sent() if each.get("type") == "function_call_output"
    ]
    assert json.loads(output)["error"]["code"] == "OUTCOME_UNKNOWN"
    kept = dict(await talk.transcript())[f"t:1:1:{call.id}"]
    await talk.act(call, attempt=3)
    assert dict(await talk.transcript())[f"t:1:1:{call.id}"] == kept, (
        "the result that the model has read stays unchanged"
    )


async def test_first_twenty_calls_of_a_reply_are_made(talk: ConversationActivityScene) -> None:
    async def greedy(turn: ScriptTurn) -> None:
        await turn.call_together(*[("lamps_list", {})] * 30)

    talk.model.script(greedy)
    await talk.said("list")
    assert len((await talk.think()).reply.calls) == 20
    told = dict(await talk.transcript())["n:1:1"].content
    assert "Of the 30 calls in your reply only the first 20 were made." in told


@pytest.mark.parametrize("text", ["", ":tada: 🎉!", "help", "Hello there :wave:"])
async def test_help_is_given_without_a_model_where_nothing_is_asked(
    talk: ConversationActivityScene, text: str
) -> None:
    await talk.said(text)
    begun = await talk.begin()
    assert begun.ends is OutcomeKind.REPLIED_BY_RULE
    await talk.settle(ConversationOutcome(begun.ends, ""))
    [posted] = talk.posted()
    assert "I can help with questions about this thread." in posted.text
    assert "Create a lamp" not in posted.text
    assert posted.text.startswith("Hi there!") is (text != "help")
    assert len(talk.model.log) == 0


async def test_pressed_example_gets_no_emoji_since_slack_has_no_such_message(
    talk: ConversationActivityScene,
) -> None:
    written = talk.message("help")
    button = f"{ASK_EXAMPLE}:1"
    place = (TEAM, talk.thread.channel, written.ts)
    pressed = talk.message("list", id=example_id(*place, button, BYSTANDER), sender_id=BYSTANDER)
    await talk.said(written, pressed)
    assert talk.reacted == {written.ts: RECEIVED_REACTION}


async def test_deleted_message_is_not_answered_because_an_edit_of_an_earlier_one_waits(
    talk: ConversationActivityScene,
) -> None:
    """Neither the decision nor the answer calls the model."""
    engine = engine_of(talk)
    first = talk.message("any news there")
    await talk.said(first)
    await talk.answer()
    asked = len(talk.model.log)
    second = talk.message("what is open?")
    await talk.said(
        second,
        talk.message("any news here", kind=MessageKind.EDIT, correction_of=first.id, version="2"),
    )
    await talk.begin(2)
    await talk.said(talk.deletion(second))
    assert not (await engine.decide(2)).made
    await talk.think(2)
    await talk.settle(ConversationOutcome(OutcomeKind.ANSWERED, "", 1), 2)
    assert len(talk.model.log) == asked
    assert talk.posted()[-1].text == blocks.DELETED


async def test_question_without_a_configured_model_is_answered(make_talk: Make) -> None:
    talk = make_talk(with_model=False)
    await talk.said("what is open for checkout?")
    with pytest.raises(Permanent, match="have no language model"):
        await talk.think()
    assert (
        await talk.settle(ConversationOutcome(OutcomeKind.FAILED, blocks.NO_MODEL))
    ).unposted_turns == ()
    assert talk.posted()[0].text == blocks.NO_MODEL


async def test_rate_limit_says_how_long_to_wait(talk: ConversationActivityScene) -> None:
    talk.model.fail_next(2, status=429, retry_after=9)
    await talk.said("any news there")
    for attempt, least in ((1, 9), (4, 16)):
        with pytest.raises(Transient) as raised:
            await talk.think(attempt=attempt)
        assert (raised.value.retry_after or 0) >= least
    assert (await talk.think(attempt=5)).reply.text


async def test_refused_key_is_a_fault_for_the_admin_without_the_key(make_talk: Make) -> None:
    talk = make_talk(key="sk-proj-wrong-0123456789abcdefghijkl")
    await talk.said("any news there")
    with pytest.raises(Mendable, match="check OPENAI_API_KEY") as raised:
        await talk.think()
    assert (raised.value.kind, raised.value.subject) == (MODEL_FAULT, "key")
    assert "sk-proj" not in str(raised.value)
    assert "http" not in str(raised.value)


async def test_tool_that_keeps_failing_alerts_operators_once_without_details(
    talk: ConversationActivityScene,
) -> None:
    async def breaking(turn: ScriptTurn) -> None:
        await turn.call_together(*[("lamps_break", {})] * 4)
        await turn.text_only("That did not work.")

    talk.model.script(breaking)
    await talk.said("break them")
    outcome = await talk.answer()
    assert {each.status for each in outcome.executions} == {ToolStatus.ERROR}
    assert "db.internal" not in str(talk.sent())
    assert "db.internal" not in str(outcome)
    [alert] = talk.posted(ESCALATIONS)
    assert "lamps.break" in alert.text


async def test_retries_of_a_failed_call_count_as_one_failure(
    talk: ConversationActivityScene,
) -> None:
    async def breaking(turn: ScriptTurn) -> None:
        await turn.call("lamps_break")

    talk.model.script(breaking)
    await talk.said("break them")
    [call] = (await talk.think()).reply.calls
    for attempt in range(1, 5):
        await talk.act(call, attempt=attempt)
    assert talk.posted(ESCALATIONS) == []


async def test_call_that_the_model_did_not_ask_for_is_refused(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("List the lamps.")
    [call] = (await talk.think()).reply.calls
    with pytest.raises(Permanent):
        await talk.act(replace(call, id="another"))
    with pytest.raises(Permanent):
        await talk.act(call, step=7)
    assert RAN == []


# -- the first end of a turn wins


def stopping(talk: ConversationActivityScene) -> FinishRequest:
    return FinishRequest(talk.thread, 1, OutcomeKind.STOPPED, "I have stopped.")


async def asked(talk: ConversationActivityScene) -> None:
    talk.replies("There are two.")
    await talk.said("How many lamps are there?")
    await talk.begin()


async def test_turn_that_was_answered_is_not_stopped_after_it(
    talk: ConversationActivityScene,
) -> None:
    await asked(talk)
    await talk.answer()
    finished = await talk.run(talk.activities.finish_turn, stopping(talk))
    assert finished.summary.startswith("turn 1: answered")
    await talk.post()
    assert [each.text for each in talk.posted()] == ["There are two."]
    assert "I have stopped." not in str(await talk.transcript())


async def test_reply_that_comes_once_the_turn_was_stopped_is_not_recorded(
    talk: ConversationActivityScene,
) -> None:
    async def late(turn: ScriptTurn) -> None:
        await talk.run(talk.activities.finish_turn, stopping(talk))
        await turn.text_only("There are two.")

    talk.model.script(late)
    await talk.said("How many lamps are there?")
    await talk.begin()
    assert (await talk.think()).step == 0
    assert "There are two." not in str(await talk.transcript())


async def test_notice_that_the_model_is_away_never_follows_its_answer(
    talk: ConversationActivityScene,
) -> None:
    away = ThreadNotice(talk.thread, NoticeReason.MODEL_AWAY, about="1", until=1.0)
    await asked(talk)
    await talk.answer()
    await talk.run(talk.activities.post_thread_notice, away)
    assert [each.text for each in talk.posted()] == ["There are two."]


@pytest.mark.parametrize("how", ["stopped", "ended"])
async def test_tools_are_not_run_once_the_turn_is_over(
    talk: ConversationActivityScene, how: str
) -> None:
    """The workflow may not know of the stop: the word waits in its inbox, or the attempt was
    frozen.
    """

    async def wanted(turn: ScriptTurn) -> None:
        await turn.call("lamps_create", title="Milk")

    talk.model.script(wanted)
    await talk.said("Create a lamp.")
    await talk.begin()
    [call] = (await talk.think()).reply.calls
    if how == "ended":
        await talk.run(talk.activities.finish_turn, stopping(talk))
    else:
        await talk.said(talk.message("stop", kind=MessageKind.STOP))
    late = ActRequest(talk.thread, 1, 1, (call.reference(),))
    assert await talk.run(talk.activities.act, late) == []
    assert RAN == []


async def test_reply_that_a_stop_has_overtaken_is_not_remembered_as_posted(
    talk: ConversationActivityScene,
) -> None:
    await asked(talk)
    await talk.think()
    await talk.run(talk.activities.finish_turn, stopping(talk))
    assert (
        dict(await talk.transcript())["a:1:1"].content
        == "(This was not posted: somebody had asked me to stop.)"
    )


# -- an account lists the calls on record


async def test_account_lists_a_call_whose_result_was_lost(
    talk: ConversationActivityScene,
) -> None:
    """Somebody says to stop while the worker is lost: the workflow knows of no call."""
    await talk.said('Create a lamp "Milk".')
    await talk.begin()
    [call] = (await talk.think()).reply.calls
    ran = await talk.act(call.reference())
    await talk.said(talk.message("stop", kind=MessageKind.STOP))
    ending = FinishRequest(talk.thread, 1, OutcomeKind.STOPPED, answers.stopped_text([]))
    await talk.run(talk.activities.finish_turn, ending)
    await talk.post()
    [posted] = talk.posted()
    assert "Nothing was done" not in posted.text
    assert "`lamps.create`: done" in posted.text
    assert ran.status is ToolStatus.OK


async def test_account_lists_each_call_once(talk: ConversationActivityScene) -> None:
    await talk.said("List the lamps.")
    await talk.begin()
    ran = [await talk.act(each.reference()) for each in (await talk.think()).reply.calls]
    text = answers.stopped_text(ran)
    told = tuple(each.call_id for each in ran)
    await talk.run(
        talk.activities.finish_turn,
        FinishRequest(talk.thread, 1, OutcomeKind.STOPPED, text, listed_calls=told),
    )
    await talk.post()
    assert [each.text.count("lamps.list") for each in talk.posted()] == [1]
