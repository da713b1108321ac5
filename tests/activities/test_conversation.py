"""A conversation's activities on their real parts: Postgres, OpenAI's wire, Slack's."""

import asyncio
import json
from dataclasses import replace
from itertools import pairwise

import pytest
from sqlalchemy import text as sql
from structlog.testing import capture_logs

from tests.activities.talking import RAN, Make, Talking, make_talk, talk
from tests.postgres import database, database_url, postgres
from threadline.activities import sentences
from threadline.agents.copilot import briefing
from threadline.agents.copilot.context import Budget
from threadline.agents.models.failures import RateLimited
from threadline.contracts.conversation import Refusal, TalkTurn
from threadline.devstack.model_sandbox.turn import Turn
from threadline.devstack.slack_sandbox.identity import BYSTANDER, ESCALATIONS, REPORTER
from threadline.domain.dialogue import ExecutionStatus, Outcome, OutcomeKind
from threadline.domain.errors import Permanent

__all__ = ["database", "database_url", "make_talk", "postgres", "talk"]


async def test_a_turn_chains_tools_answers_and_is_remembered_by_the_next(talk: Talking) -> None:
    await talk.said('List the lamps, then create a lamp "Milk".')
    outcome = await talk.answer()
    assert outcome.kind is OutcomeKind.ANSWERED
    assert [each.status for each in outcome.executions] == [ExecutionStatus.OK, ExecutionStatus.OK]
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


async def test_each_call_of_a_turn_begins_byte_for_byte_like_the_one_before(talk: Talking) -> None:
    await talk.said("hello there, who are you")
    await talk.answer()
    await talk.said('List the lamps, then create a lamp "Milk", then list the lamps.')
    await talk.answer(2)
    calls = [each.conversation for each in talk.model.log][1:]
    assert len(calls) == 4
    assert all(later.continues(earlier) for earlier, later in pairwise(calls))
    rows = await talk.rows("SELECT turn, step, purpose, cached_tokens, cost_usd FROM model_calls ORDER BY id")
    assert [(each["turn"], each["step"], each["purpose"]) for each in rows] == [
        (1, 1, "think"), (2, 1, "think"), (2, 2, "think"), (2, 3, "think"), (2, 4, "think")]  # fmt: skip
    assert all(each["cost_usd"] > 0 for each in rows)
    assert all(each["cached_tokens"] > 0 for each in rows[2:])


async def test_the_model_is_told_when_who_and_what_the_thread_is_about(talk: Talking) -> None:
    await talk.said("what is this about, please?")
    async with talk.database.begin() as work:
        project = await work.estimates.open_project(talk.thread.team, "Shop", "EUR")
        await work.bindings.bind(talk.thread, "project", project.project_id, REPORTER)
        await work.estimates.set_locked(talk.thread.team, project.project_id, locked=True)
    await talk.think()
    note = next(str(each["content"]) for each in talk.sent() if each.get("role") == "developer")
    assert "reporter wrote what follows." in note
    assert f"This thread is about project {project.project_id}." in note
    assert f"Read-only: the project {project.project_id} is locked." in note
    assert sorted(talk.model.log[-1].conversation.tools) == ["lamps_break", "lamps_dump", "lamps_list"]


async def test_a_locked_project_blocks_what_the_model_asks_for_anyway_until_the_turn_ends(talk: Talking) -> None:
    async def create(turn: Turn) -> None:
        await turn.call("lamps_create", title="Milk")

    talk.model.script(create)
    await talk.said("what now?")
    async with talk.database.begin() as work:
        project = await work.estimates.open_project(talk.thread.team, "Shop", "EUR")
        await work.bindings.bind(talk.thread, "project", project.project_id, REPORTER)
        await work.estimates.set_locked(talk.thread.team, project.project_id, locked=True)
    [call] = (await talk.think()).reply.calls
    async with talk.database.begin() as work:
        await work.estimates.set_locked(talk.thread.team, project.project_id, locked=False)
    done = await talk.act(call)
    assert done.status is ExecutionStatus.BLOCKED
    assert "is locked" in done.note
    assert RAN == []
    [row] = await talk.rows("SELECT status FROM agent_tool_executions")
    assert row["status"] == "blocked"


async def test_a_reply_that_is_kept_is_not_asked_for_again_and_a_result_is_not_made_again(talk: Talking) -> None:
    await talk.said('Create a lamp "Milk".')
    first = await talk.think()
    assert (await talk.think(attempt=2)).reply == first.reply
    assert len(talk.model.log) == 1
    [call] = first.reply.calls
    assert call.arguments == ""
    assert await talk.act(call) == await talk.act(call, attempt=2)
    assert len(RAN) == 1
    assert [key for key, _ in await talk.transcript()].count(f"t:1:1:{call.id}") == 1


async def test_of_two_attempts_at_once_the_first_reply_stands(make_talk: Make) -> None:
    one, other = make_talk(), make_talk()
    await one.said("hello there")
    replies = await asyncio.gather(one.think(), other.think())
    assert replies[0].reply == replies[1].reply
    assert [key for key, _ in await one.transcript() if key.startswith("a:")] == ["a:1:1"]
    assert [key for key, _ in await one.transcript() if key.startswith("c:")] == ["c:1"]


async def test_a_message_that_comes_while_a_tool_runs_is_in_the_next_call(talk: Talking) -> None:
    await talk.said("List the lamps.")
    thought = await talk.think()
    await talk.said("And hurry up!")
    await talk.act(thought.reply.calls[0])
    later = await talk.think(step=2)
    assert [each.get("content") for each in talk.sent() if each.get("role") == "user"] == [
        "List the lamps.",
        "And hurry up!",
    ]
    assert later.marks.turn_due
    assert not (await talk.settle(Outcome(OutcomeKind.ANSWERED, "ok", 2))).turn_due


async def test_the_model_learns_that_the_outcome_of_a_lost_call_is_unknown(talk: Talking) -> None:
    await talk.said('Create a lamp "Milk".')
    [call] = (await talk.think()).reply.calls
    await talk.think(step=2)  # its worker was lost: no result was kept
    [output] = [each["output"] for each in talk.sent() if each.get("type") == "function_call_output"]
    assert json.loads(output)["error"]["code"] == "OUTCOME_UNKNOWN"
    kept = dict(await talk.transcript())[f"t:1:1:{call.id}"]
    await talk.act(call, attempt=3)
    assert dict(await talk.transcript())[f"t:1:1:{call.id}"] == kept, "what the model has read stays as it was"


async def test_twenty_calls_of_a_reply_are_made_and_no_more(talk: Talking) -> None:
    async def greedy(turn: Turn) -> None:
        await turn.call_together(*[("lamps_list", {})] * 30)

    talk.model.script(greedy)
    await talk.said("list")
    assert len((await talk.think()).reply.calls) == 20


@pytest.mark.parametrize("text", ["", ":tada:", "🎉🎉 !", "help"])
async def test_where_there_is_nothing_to_understand_help_is_given_without_a_model(talk: Talking, text: str) -> None:
    await talk.said(text)
    await talk.answer()
    [posted] = talk.posted()
    assert "Create a lamp" in posted.text
    assert len(talk.model.log) == 0


async def test_a_thumb_after_a_question_is_an_answer(talk: Talking) -> None:
    async def ask(turn: Turn) -> None:
        await turn.text_only("Shall I create it?")

    talk.model.script(ask)
    await talk.said("a lamp, please")
    await talk.answer()
    stored = await talk.said(":+1:")
    assert stored.marks.question == "Shall I create it?"
    await talk.answer(2)
    assert talk.sent()[-1]["content"] == ":+1:"


async def test_without_a_key_whoever_asks_is_told_whom_to_ask(make_talk: Make) -> None:
    talk = make_talk(with_model=False)
    await talk.said("what is open for checkout?")
    with pytest.raises(Permanent, match="OPENAI_API_KEY"):
        await talk.think()
    marks = await talk.settle(Outcome(OutcomeKind.FAILED, sentences.NO_MODEL))
    assert marks.unsaid == 1
    assert (await talk.post()).unsaid == 0
    assert talk.posted()[0].text == sentences.NO_MODEL


async def test_a_rate_limit_says_for_how_long_to_wait(talk: Talking) -> None:
    talk.model.fail_next(2, status=429, retry_after=9)
    await talk.said("hello there")
    for attempt, least in ((1, 9), (4, 16)):
        with pytest.raises(RateLimited) as raised:
            await talk.think(attempt=attempt)
        assert (raised.value.retry_after or 0) >= least
    assert (await talk.think(attempt=5)).reply.text


async def test_a_refused_key_ends_the_turn_with_words_and_the_third_time_the_operators_are_told(
    make_talk: Make,
) -> None:
    talk = make_talk(key="sk-proj-wrong-0123456789abcdefghijkl")
    await talk.said("hello there")
    for _ in range(5):
        with pytest.raises(Permanent, match="check OPENAI_API_KEY") as raised:
            await talk.think()
        assert "sk-proj" not in str(raised.value)
        assert "http" not in str(raised.value)
    [alert] = talk.posted(ESCALATIONS)
    assert "model" in alert.text


async def test_a_tool_that_keeps_breaking_is_told_to_the_model_in_words_and_to_the_operators_once(
    talk: Talking,
) -> None:
    async def breaking(turn: Turn) -> None:
        await turn.call_together(*[("lamps_break", {})] * 4)
        await turn.text_only("That did not work.")

    talk.model.script(breaking)
    await talk.said("break them")
    outcome = await talk.answer()
    assert {each.status for each in outcome.executions} == {ExecutionStatus.ERROR}
    assert "db.internal" not in str(talk.sent())
    assert "db.internal" not in str(outcome)
    [alert] = talk.posted(ESCALATIONS)
    assert "lamps.break" in alert.text


async def test_two_megabytes_of_output_travel_as_one_line_and_the_model_gets_what_it_can_read(talk: Talking) -> None:
    await talk.said("Dump everything.")
    thought = await talk.think()
    done = await talk.act(thought.reply.calls[0])
    assert len(json.dumps([thought, done], default=str)) < 5_000
    await talk.think(step=2)
    [output] = [each["output"] for each in talk.sent() if each.get("type") == "function_call_output"]
    assert 1_000 < len(output) < 20_000


async def test_a_message_of_40_000_characters_is_kept_and_shown_in_part(talk: Talking) -> None:
    await talk.said(f"Here is the log: {'x' * 39_000} What do you say?")
    await talk.think()
    shown = str(talk.sent()[-1]["content"])
    assert "characters are left out here" in shown
    assert shown.endswith("What do you say?")
    [row] = await talk.rows("SELECT length(message_text) AS length FROM conversation_messages")
    assert row["length"] > 39_000


async def test_above_twenty_messages_the_older_are_summarised_once_and_the_summary_is_extended(talk: Talking) -> None:
    for turn in range(1, 15):
        await talk.said(f"remark number {turn}")
        await talk.answer(turn)
        sent = [each for each in talk.sent() if each.get("type", "message") == "message"]
        assert len(sent) <= 20
    asked = [each.conversation for each in talk.model.log if not each.conversation.tools]
    assert len(asked) >= 2
    assert asked[0].prompt.startswith("Summary so far: none")
    assert asked[1].prompt.startswith("Summary so far: So far: ")
    assert "Person: remark number 1\n" not in asked[1].prompt, "it is extended, not redone"
    assert str(talk.sent()[0]["content"]).startswith("[Earlier] So far: ")
    [row] = await talk.rows("SELECT count(*) AS made FROM model_calls WHERE purpose = 'summarise'")
    assert row["made"] == len(asked)


async def test_where_no_summary_can_be_had_the_oldest_are_left_out_and_the_log_says_so(make_talk: Make) -> None:
    talk = make_talk(budget=Budget(messages=6, tokens=4_000))

    async def mute(turn: Turn) -> None:
        await turn.error(500)

    talk.model.script(mute, when=lambda conversation: not conversation.tools)
    with capture_logs() as logs:
        for turn in range(1, 5):
            await talk.said(f"remark number {turn}")
            await talk.answer(turn)
    assert [each["left_out"] for each in logs if each["event"] == "summary_failed"][-1] >= 2
    texts = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert texts[-1] == "remark number 4"
    assert "remark number 1" not in texts
    assert "remark number 1" in str(await talk.transcript()), "it is still there for the next try"


async def test_a_context_that_is_too_long_after_all_is_halved_once(talk: Talking) -> None:
    for turn in range(1, 5):
        await talk.said(f"remark number {turn}")
        await talk.answer(turn)
    talk.model.fail_next(1, status=400, code="context_length_exceeded")
    await talk.said("remark number 5")
    assert (await talk.think(5)).reply.text
    assert str(talk.sent()[0]["content"]).startswith("[Earlier] ")
    assert len([each for each in talk.sent() if each.get("type", "message") == "message"]) <= 10
    talk.model.fail_next(2, status=400, code="context_length_exceeded")
    with pytest.raises(Permanent, match="start a new thread"):
        await talk.think(5, 2)


async def test_people_are_told_apart_as_soon_as_there_are_two(talk: Talking) -> None:
    await talk.said("hello there, who are you")
    await talk.answer()
    await talk.said(talk.message("and me?", sender_id=BYSTANDER, addressed=False))
    await talk.think(2)
    users = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert users == ["hello there, who are you", "bystander: and me?"]
    assert any("You were not spoken to" in str(each.get("content")) for each in talk.sent())


async def test_a_name_that_slack_does_not_tell_is_the_id(talk: Talking) -> None:
    await talk.said(talk.message("hello", sender_id="U0NOBODY"), "and from me")
    await talk.think()
    users = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert users == ["U0NOBODY: hello", "reporter: and from me"]


async def test_silence_is_kept_and_nothing_is_posted(talk: Talking) -> None:
    async def silent(turn: Turn) -> None:
        await turn.text_only("NO_REPLY")

    talk.model.script(silent)
    await talk.said(talk.message("hello", sender_id=BYSTANDER), talk.message("not you", addressed=False))
    outcome = await talk.answer(may_be_silent=True)
    assert outcome.kind is OutcomeKind.SILENT
    assert talk.posted() == []
    async with talk.database.begin() as work:
        settled = await work.conversations.settled(talk.thread, 1)
    assert settled is not None
    assert (settled.kind, settled.answer) == (OutcomeKind.SILENT, "")


async def test_where_silence_is_not_allowed_the_word_for_it_is_never_posted(talk: Talking) -> None:
    async def silent(turn: Turn) -> None:
        await turn.text_only("NO_REPLY")
        await turn.text_only("NO_REPLY")

    talk.model.script(silent)
    await talk.said("hello there")
    assert (await talk.answer()).kind is OutcomeKind.SPEECHLESS
    [posted] = talk.posted()
    assert "NO_REPLY" not in posted.text


async def test_a_message_that_was_deleted_before_it_was_read_is_not_answered_by_a_guess(talk: Talking) -> None:
    first = talk.message("my password is in here")
    await talk.said(first)
    async with talk.database.begin() as work:
        await work.conversations.take_up(talk.thread, 1, 1)
    gone = talk.message("", id=f"{first.id}:d", kind="deletion", ts=first.ts, correction_of=first.id)
    await talk.said(gone)
    assert (await talk.think()).reply.text == sentences.DELETED[:300]
    assert len(talk.model.log) == 0


async def test_our_own_last_words_are_remembered_too(talk: Talking) -> None:
    await talk.said("hello there")
    await talk.think()
    await talk.settle(Outcome(OutcomeKind.STOPPED, "I have stopped, as you asked."))
    await talk.said("go on")
    await talk.think(2)
    said = [each.get("content") for each in talk.sent() if each.get("role") == "assistant"]
    assert said[-1] == "I have stopped, as you asked."


async def test_what_was_listed_can_be_named_by_it_in_the_next_turn(talk: Talking) -> None:
    await talk.said("List the lamps.")
    await talk.answer()
    await talk.said("tell me about the second one")
    await talk.think(2)
    note = briefing.read(dict(await talk.transcript())["c:2"])
    assert note is not None
    assert note.ids == ("N-1", "N-2")
    assert "each in its own order: N-1, N-2." in str(talk.sent())


async def test_an_answer_is_posted_once_and_shows_what_the_tools_returned(talk: Talking) -> None:
    """Property 7, on the real wire: records are posted as blocks."""
    await talk.said('Create a lamp "Milk".')
    await talk.answer()
    await talk.run(talk.speaking.post_answer, TalkTurn(talk.thread, 1))
    [posted] = talk.posted()
    assert len(posted.blocks) > 1
    assert "N-3" in json.dumps(posted.blocks[1:])


async def test_details_are_posted_whole_where_somebody_asked_for_them(talk: Talking) -> None:
    async def long(turn: Turn) -> None:
        await turn.text_only("\n\n".join(f"Paragraph {number}. {'word ' * 60}" for number in range(30)))

    talk.model.script(long)
    await talk.said("tell me")
    await talk.answer()
    assert len(talk.posted()[0].text) <= 2_000
    await talk.said("tell me everything in detail")
    await talk.answer(2)
    whole = "".join(each.text for each in talk.posted()[1:])
    assert "Paragraph 29." in whole


async def test_the_guards_refuse_a_duplicate_and_too_many_and_say_so_again_when_asked_again(talk: Talking) -> None:
    same = [talk.message("hello"), talk.message("hello")]
    stored = await talk.said(*same)
    assert [each.why for each in stored.refused] == [Refusal.DUPLICATE]
    flood = []
    for number in range(12):
        flood.append(talk.message(f"remark {number}"))
        talk.at -= 59
    stored = await talk.said(*flood)
    assert [each.why for each in stored.refused] == [Refusal.THROTTLED_FIRST, Refusal.THROTTLED]
    rows = await talk.rows("SELECT verdict, wakes FROM conversation_messages ORDER BY seq")
    assert [each["verdict"] for each in rows].count("ok") == 11
    assert all(each["wakes"] == (each["verdict"] == "ok") for each in rows)


async def test_an_answer_to_a_question_may_be_the_same_twice(talk: Talking) -> None:
    async def ask(turn: Turn) -> None:
        await turn.text_only("Are you sure?")

    talk.model.script(ask)
    for turn in (1, 2):
        talk.at -= 50
        stored = await talk.said("yes")
        assert stored.refused == ()
        await talk.answer(turn)


async def test_a_guard_that_cannot_be_asked_lets_everything_pass_and_is_counted(talk: Talking) -> None:
    async with talk.database.begin() as work:
        await work.connection.execute(sql("ALTER TABLE limit_verdicts RENAME TO away"))
    with capture_logs() as logs:
        stored = await talk.said("hello")
    assert stored.marks.turn_due
    assert stored.refused == ()
    assert [each["guard"] for each in logs if each["event"] == "guard_open"] == ["duplicate", "user"]


async def test_no_secret_of_a_message_reaches_the_database_or_the_model(talk: Talking) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    await talk.said(f"use {token} for it")
    await talk.think()
    assert token not in str(talk.sent())
    assert token not in str(await talk.rows("SELECT * FROM conversation_messages"))


async def test_a_call_that_the_model_did_not_make_is_not_made(talk: Talking) -> None:
    await talk.said("List the lamps.")
    [call] = (await talk.think()).reply.calls
    with pytest.raises(Permanent):
        await talk.act(replace(call, id="another"))
    with pytest.raises(Permanent):
        await talk.act(call, step=7)
    assert RAN == []
