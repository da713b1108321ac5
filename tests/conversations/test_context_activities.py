"""What the model is sent of a thread, over OpenAI's real wire and from the real Postgres."""

from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tests.support.conversation_activities import Make, Talking, make_talk, talk
from threadline.cases import sentences
from threadline.conversations import turn_note as briefing
from threadline.conversations.context_window import Budget
from threadline.errors import Permanent
from threadline.models.model import Outcome, OutcomeKind
from threadline_devstack.models.script import Turn
from threadline_devstack.slack.identity import BYSTANDER, REPORTER

__all__ = ["make_talk", "talk"]


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
    assert f"reporter ({REPORTER}) wrote what follows." in note
    assert f"This thread is about project {project.project_id}." in note
    assert f"Read-only: the project {project.project_id} is locked." in note
    assert sorted(talk.model.log[-1].conversation.tools) == ["lamps_break", "lamps_dump", "lamps_list"]


async def test_a_message_of_40_000_characters_is_kept_and_shown_in_part(talk: Talking) -> None:
    await talk.said(f"Here is the log: {'x' * 39_000} What do you say?")
    await talk.think()
    shown = str(talk.sent()[-1]["content"])
    assert "characters are left out here" in shown
    assert shown.endswith("What do you say?")
    [row] = await talk.rows("SELECT length(message_text) AS length FROM conversation_messages")
    assert row["length"] > 39_000


async def test_above_twenty_messages_the_older_are_summarised_once_and_the_summary_is_extended(talk: Talking) -> None:
    for turn in range(1, 21):
        await talk.said(f"remark number {turn}")
        await talk.answer(turn)
        sent = [each for each in talk.sent() if each.get("type", "message") == "message"]
        assert len(sent) <= 20
    asked = [each.conversation for each in talk.model.log if not each.conversation.tools]
    assert len(asked) == 2, "each leaves room for some turns"
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
    assert [each["messages_omitted"] for each in logs if each["event"] == "history_truncated"][-1] >= 2
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
    assert "remark number 1" not in str(talk.sent())
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
    assert users == ["hello there, who are you", f"bystander ({BYSTANDER}): and me?"]
    assert any("You were not spoken to" in str(each.get("content")) for each in talk.sent())


async def test_a_name_that_slack_does_not_tell_is_the_id(talk: Talking) -> None:
    await talk.said(talk.message("hello", sender_id="U0NOBODY"), "and from me")
    await talk.think()
    users = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert users == ["U0NOBODY: hello", f"reporter ({REPORTER}): and from me"]


async def test_what_a_lost_thought_has_taken_up_is_remembered_too(talk: Talking) -> None:
    await talk.said("List the lamps.")
    await talk.think()
    await talk.said("And the chairs!")
    async with talk.database.begin() as work:
        await work.conversations.take_up(talk.thread, 1, 2)
    for _ in range(2):
        await talk.settle(Outcome(OutcomeKind.FAILED, "The model is away."))
    keys = [(key[:2], message.content) for key, message in await talk.transcript()]
    assert keys[-2:] == [("u:", "And the chairs!"), ("f:", "The model is away.")]
    assert [key for key, _ in keys].count("u:") == 2


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
