"""The context of a thread that the model gets, over OpenAI's real wire and from the real
Postgres.
"""

import json
from itertools import pairwise

import pytest
from structlog.testing import capture_logs

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk, talk
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind
from threadline.conversations.prompt import ContextBudget, parse_note
from threadline.conversations.store.messages import MessageStore
from threadline.errors import Permanent
from threadline.estimates.store import EstimateStore
from threadline.threads.store import ThreadBindingStore
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BYSTANDER, REPORTER

__all__ = ["make_talk", "talk"]


async def test_each_model_call_of_a_turn_begins_like_the_one_before(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there, who are you")
    await talk.answer()
    await talk.said('List the lamps, then create a lamp "Milk", then list the lamps.')
    await talk.answer(2)
    calls = [each.conversation for each in talk.model.log][1:]
    assert len(calls) == 4
    assert all(later.continues(earlier) for earlier, later in pairwise(calls))
    rows = await talk.rows(
        "SELECT turn, step, purpose, cached_tokens, cost_usd FROM model_calls ORDER BY id"
    )
    assert [(each["turn"], each["step"], each["purpose"]) for each in rows] == [
        (1, 1, "think"),
        (2, 1, "think"),
        (2, 2, "think"),
        (2, 3, "think"),
        (2, 4, "think"),
    ]
    assert all(each["cost_usd"] > 0 for each in rows)
    assert all(each["cached_tokens"] > 0 for each in rows[2:])


async def test_model_reads_the_author_and_the_project_of_the_thread(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("what is this about, please?")
    async with talk.database.begin() as tx:
        project = await EstimateStore(tx).get_or_create_project(talk.thread.team, "Shop", "EUR")
        await ThreadBindingStore(tx).bind(talk.thread, "project", project.project_id, REPORTER)
        await EstimateStore(tx).set_locked(talk.thread.team, project.project_id, locked=True)
    await talk.think()
    note = next(str(each["content"]) for each in talk.sent() if each.get("role") == "developer")
    assert f"reporter ({REPORTER}) wrote what follows." in note
    assert f"This thread is about project {project.project_id}." in note
    assert f"Read-only: the project {project.project_id} is locked." in note
    assert sorted(talk.model.log[-1].conversation.tools) == [
        "lamps_break",
        "lamps_dump",
        "lamps_list",
    ]


async def test_oldest_messages_are_left_out_where_the_summary_fails(make_talk: Make) -> None:
    talk = make_talk(budget=ContextBudget(messages=6, tokens=4_000))

    async def mute(turn: ScriptTurn) -> None:
        await turn.error(500)

    talk.model.script(mute, when=lambda conversation: not conversation.tools)
    with capture_logs() as logs:
        for turn in range(1, 5):
            await talk.said(f"remark number {turn}")
            await talk.answer(turn)
    assert [each["messages_omitted"] for each in logs if each["event"] == "history_truncated"][
        -1
    ] >= 2
    texts = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert texts[-1] == "remark number 4"
    assert "remark number 1" not in texts
    assert "remark number 1" in str(await talk.transcript()), "it is still there for the next try"


async def test_prompt_that_the_model_finds_too_long_is_halved_once(
    talk: ConversationActivityScene,
) -> None:
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


async def test_long_results_of_a_turn_are_shown_short_and_kept_whole(
    talk: ConversationActivityScene,
) -> None:
    async def dump(turn: ScriptTurn) -> None:
        for _ in range(5):
            await turn.call("lamps_dump")
        await turn.text_only("That is all.")

    talk.model.script(dump, when=lambda request: "lamps_dump" in request.tools)
    await talk.said("Dump them, please")
    assert (await talk.answer()).text == "That is all."
    budget = talk.activities.deps.budget
    sizes = [len(json.dumps(talk.sent(index))) for index in range(len(talk.model.log))]
    assert len(sizes) == 6
    assert max(sizes) <= budget.tokens * 4
    whole = [
        len(message.content) for key, message in await talk.transcript() if key.startswith("t:")
    ]
    assert len(whole) == 5
    assert min(whole) > 18_000


async def test_second_person_in_the_thread_is_named(talk: ConversationActivityScene) -> None:
    await talk.said("any news there, who are you")
    await talk.answer()
    await talk.said(talk.message("and me?", sender_id=BYSTANDER, addressed=False))
    await talk.think(2)
    users = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert users == ["any news there, who are you", f"bystander ({BYSTANDER}): and me?"]
    assert any("You were not spoken to" in str(each.get("content")) for each in talk.sent())


async def test_person_without_a_name_in_slack_goes_by_the_id(
    talk: ConversationActivityScene,
) -> None:
    await talk.said(talk.message("any news", sender_id="U0NOBODY"), "and from me")
    await talk.think()
    users = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert users == ["U0NOBODY: any news", f"reporter ({REPORTER}): and from me"]


async def test_message_read_by_a_lost_model_call_is_in_the_transcript(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("List the lamps.")
    await talk.think()
    await talk.said("And the chairs!")
    async with talk.database.begin() as tx:
        await MessageStore(tx).take_up(talk.thread, 1, 2)
    for _ in range(2):
        await talk.settle(ConversationOutcome(OutcomeKind.FAILED, "The model is away."))
    keys = [(key[:2], message.content) for key, message in await talk.transcript()]
    assert keys[-2:] == [("u:", "And the chairs!"), ("f:", "The model is away.")]
    assert [key for key, _ in keys].count("u:") == 2


async def test_text_that_ended_a_stopped_turn_is_sent_to_the_model(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there")
    await talk.think()
    await talk.settle(ConversationOutcome(OutcomeKind.STOPPED, "I have stopped, as you asked."))
    await talk.said("go on")
    await talk.think(2)
    said = [each.get("content") for each in talk.sent() if each.get("role") == "assistant"]
    assert said[-1] == "I have stopped, as you asked."


async def test_ids_of_the_last_result_are_in_the_note_of_the_next_turn(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("List the lamps.")
    await talk.answer()
    await talk.said("tell me about the second one")
    await talk.think(2)
    note = parse_note(dict(await talk.transcript())["c:2"])
    assert note is not None
    assert note.ids == ("N-1", "N-2")
    assert "each in its own order: N-1, N-2." in str(talk.sent())
