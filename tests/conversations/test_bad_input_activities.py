"""Bad input ends with a clear message, and nothing is lost."""

import asyncio

import pytest

from tests.support.conversation_activities import (
    RAN,
    ConversationActivityScene,
    Make,
    list_lamps,
    make_talk,
    talk,
)
from threadline.conversations.model.conversation import (
    ConversationOutcome,
    ConversationSnapshot,
    OutcomeKind,
)
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.errors import Permanent
from threadline.models.model import Message, Role, ToolCall
from threadline.slack.text import is_blank
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolStatus
from threadline.tools.output import STEP_LIMIT, STORE_LIMIT
from threadline.tools.registry import ToolRegistry, tool
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BOT_USER, GENERAL

__all__ = ["make_talk", "talk"]

MB = 1_000_000


@tool("lamps.wait", "Never answers.", timeout=0.05, remote=True)
async def wait(context: ToolContext) -> None:
    await asyncio.Event().wait()


@tool("lamps.flood", "Answers with 50 MB.", remote=True)
async def flood(context: ToolContext) -> str:
    return "x" * (50 * MB)


async def snapshot_of(talk: ConversationActivityScene) -> ConversationSnapshot:
    return (await talk.opened()).snapshot


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("", id="an empty mention"),
        pytest.param(
            "bell \x07, escape \x1b[31m, a zero width \u200b space", id="control characters"
        ),
        pytest.param("x" * 40_000, id="40,000 characters of one word"),
    ],
)
async def test_any_message_gets_one_visible_answer(
    talk: ConversationActivityScene, text: str
) -> None:
    await talk.said(text)
    await talk.answer()
    [posted] = talk.posted()
    assert posted.thread_ts == talk.thread.ts
    assert not is_blank(posted.text)
    [row] = await talk.rows("SELECT message_text FROM conversation_messages")
    assert row["message_text"] == text
    snapshot = await snapshot_of(talk)
    assert (snapshot.turn, snapshot.turn_due, snapshot.unposted_turns) == (1, False, ())


async def test_answer_is_kept_until_the_bot_is_back_in_the_channel(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there")
    talk.slack.workspace.leave(GENERAL, BOT_USER)
    await talk.answer()
    with pytest.raises(Permanent, match="/invite"):
        await talk.post()
    assert talk.posted() == []
    assert (await snapshot_of(talk)).unposted_turns == (1,)
    talk.slack.workspace.join(GENERAL, BOT_USER)
    assert (await talk.post()).unposted_turns == ()
    assert len(talk.posted()) == 1
    assert len(talk.model.log) == 1, "the model is not called again"


async def test_answer_in_a_deleted_thread_is_kept_and_the_error_says_why(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there")
    talk.slack.workspace.delete(GENERAL, talk.thread.ts)
    await talk.answer()
    with pytest.raises(Permanent, match="somebody deleted its first message"):
        await talk.post()
    snapshot = await snapshot_of(talk)
    assert (snapshot.turn, snapshot.turn_due, snapshot.unposted_turns) == (1, False, (1,))
    async with talk.database.begin() as tx:
        settled = await TurnStore(tx).settled(talk.thread, 1)
    assert settled is not None
    assert (settled.kind, settled.posted_at) == (OutcomeKind.ANSWERED, None)
    assert settled.answer


async def test_thread_with_replies_goes_on_after_its_first_message_is_deleted(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there")
    await talk.answer()
    talk.slack.workspace.delete(GENERAL, talk.thread.ts)
    await talk.said("are you still there?")
    await talk.answer(2)
    assert [each.thread_ts for each in talk.posted()] == [talk.thread.ts] * 2


async def test_arguments_that_are_not_json_are_refused_and_the_model_reads_why(
    talk: ConversationActivityScene,
) -> None:
    async def mends(turn: ScriptTurn) -> None:
        await turn.call("lamps_list")
        refused = await turn.call("lamps_create", title="Milk")
        await turn.text_only(f"I could not create it. {refused.text}")

    talk.model.script(mends)
    await talk.said('Create a lamp "Milk".')
    [looked] = (await talk.think()).reply.calls
    await talk.act(looked)
    unreadable = Message(
        Role.ASSISTANT, calls=(ToolCall("call_2", "lamps.create", '{title: "Milk"'),)
    )
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).append(talk.thread, 1, 2, [("a:1:2", unreadable)])
    [call] = (await talk.think(step=2)).reply.calls
    done = await talk.act(call, step=2)
    assert done.status is ToolStatus.ERROR
    assert RAN == ["list"]
    assert "INVALID_ARGUMENTS" in (await talk.think(step=3)).reply.text
    assert not talk.model.refused, "the API accepts the model's own arguments"
    await talk.settle(ConversationOutcome(OutcomeKind.ANSWERED, "", 3))
    await talk.post()
    assert talk.posted()[0].text.startswith("I could not create it.")


async def test_tool_that_hangs_is_given_up_and_the_turn_goes_on(make_talk: Make) -> None:
    async def waits(turn: ScriptTurn) -> None:
        hung = await turn.call("lamps_wait")
        await turn.call("lamps_list")
        await turn.text_only(f"One of them did not answer. {hung.text}")

    talk = make_talk(registry=ToolRegistry([wait, list_lamps]))
    talk.model.script(waits)
    await talk.said("wait for the lamps, then list them")
    outcome = await talk.answer()
    assert [each.status for each in outcome.executions] == [
        ToolStatus.ERROR,
        ToolStatus.OK,
    ]
    assert RAN == ["list"]
    [posted] = talk.posted()
    assert "TOOL_TIMEOUT" in posted.text


async def test_huge_output_is_stored_and_shown_in_part(make_talk: Make) -> None:
    async def floods(turn: ScriptTurn) -> None:
        shown = await turn.call("lamps_flood")
        await turn.text_only("It was cut." if "data_cut" in shown.text else "It was whole.")

    talk = make_talk(registry=ToolRegistry([flood]))
    talk.model.script(floods)
    await talk.said("dump it all")
    outcome = await talk.answer()
    assert [each.status for each in outcome.executions] == [ToolStatus.OK]
    [row] = await talk.rows(
        "SELECT octet_length(result::text) AS bytes FROM agent_tool_executions"
    )
    assert STORE_LIMIT // 2 < row["bytes"] < 2 * STORE_LIMIT
    [posted] = talk.posted()
    assert posted.text == "It was cut."


async def test_results_of_one_reply_share_the_limit_of_a_step(
    talk: ConversationActivityScene,
) -> None:
    async def many(turn: ScriptTurn) -> None:
        await turn.call_together(*[("lamps_dump", {})] * 6)

    talk.model.script(many)
    await talk.said("dump it all")
    await talk.answer()
    results = [
        str(each["output"]).encode()
        for each in talk.sent()
        if each.get("type") == "function_call_output"
    ]
    assert len(results) == 6
    assert STEP_LIMIT // 2 < sum(map(len, results)) <= STEP_LIMIT


async def test_endless_tool_calls_end_with_a_summary(talk: ConversationActivityScene) -> None:
    async def insists(turn: ScriptTurn) -> None:
        while True:
            await turn.call("lamps_list")

    talk.model.script(insists)
    await talk.said("list the lamps")
    outcome = await talk.answer()
    assert (outcome.kind, outcome.model_calls) == (OutcomeKind.SUMMARISED, 6)
    assert RAN == ["list"] * 5
    [posted] = talk.posted()
    assert posted.text.startswith("This is what I did:")
    await talk.said("and now?")
    await talk.think(2)
    assert not talk.model.refused, "the calls that were not run spoil nothing"
