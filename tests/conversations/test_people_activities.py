"""Several people in a thread: the people who get an answer, are judged, or lend a tool their
rights.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.conversation_activities import RAN, ConversationActivityScene, make_talk, talk
from threadline.conversations import act, blocks
from threadline.conversations.activities import RECEIVED_REACTION, REFUSAL_REACTIONS
from threadline.conversations.contract import FinishRequest
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind, Refusal
from threadline.conversations.store.messages import MessageStore
from threadline.models.model import Role
from threadline.threads.model import IncomingMessage
from threadline.tools.context import ToolContext
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BYSTANDER, REPORTER
from threadline_devstack.slack.model import SandboxUser

__all__ = ["make_talk", "talk"]


def note(talk: ConversationActivityScene) -> str:
    return next(str(each["content"]) for each in talk.sent() if each.get("role") == "developer")


def aside(talk: ConversationActivityScene, text: str) -> IncomingMessage:
    return talk.message(text, sender_id=BYSTANDER, addressed=False)


@pytest.mark.parametrize("text", [":tada:", "help"])
async def test_help_is_not_given_to_people_who_talk_to_each_other(
    talk: ConversationActivityScene, text: str
) -> None:
    await talk.said("any news there")
    await talk.answer()
    await talk.said(aside(talk, text))
    assert (await talk.answer(2, may_be_silent=True)).kind is OutcomeKind.SILENT
    assert len(talk.posted()) == 1
    assert len(talk.model.log) == 1


async def test_thumb_emoji_answers_an_open_question(talk: ConversationActivityScene) -> None:
    talk.replies("Shall I create it?")
    await talk.said("a lamp, please")
    await talk.answer()
    await talk.said(aside(talk, ":+1:"))
    await talk.think(2)
    assert talk.sent()[-1]["content"] == f"bystander ({BYSTANDER}): :+1:"


@pytest.mark.parametrize("direct", [False, True])
async def test_emoji_that_answers_no_question_is_left_to_the_model(
    talk: ConversationActivityScene, direct: bool
) -> None:
    if direct:
        talk.thread = replace(talk.thread, channel="D0REPORTER")
    await talk.said("any news there")
    await talk.think()
    await talk.run(
        talk.activities.finish_turn,
        FinishRequest(talk.thread, 1, OutcomeKind.ANSWERED, answer_step=1),
    )
    await talk.said(talk.message("🎉", addressed=direct))
    await talk.think(2)
    assert len(talk.model.log) == 2


async def test_deletion_is_announced_only_for_messages_to_the_bot(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there")
    await talk.answer()
    for text, addressed in (("between us", False), ("for you", True)):
        said = talk.message(text, sender_id=BYSTANDER, addressed=addressed)
        await talk.said(said)
        turn = 2 + addressed
        async with talk.database.begin() as tx:
            await MessageStore(tx).take_up(talk.thread, turn, 1)
        await talk.said(talk.deletion(said))
        await talk.answer(turn, may_be_silent=not addressed)
    assert [each.text for each in talk.posted()][1:] == [blocks.DELETED]


async def test_messages_between_people_are_not_judged(talk: ConversationActivityScene) -> None:
    asked = talk.message("any news there")
    await talk.said(asked, aside(talk, "hi"))
    assert talk.reacted == {asked.ts: RECEIVED_REACTION}
    talk.at -= 100
    talked = [aside(talk, "ok") for _ in range(2)]
    for number in range(12):
        talk.at -= 59.5
        talked.append(aside(talk, f"remark {number}"))
    stored = await talk.said(*talked)
    assert stored.refused == ()
    assert stored.snapshot.turn_due
    await talk.said(*talked)
    assert talk.reacted == {asked.ts: RECEIVED_REACTION}
    once = talk.message("any news there")
    again = talk.message("any news there")
    stored = await talk.said(once, again)
    assert Refusal.DUPLICATE in [each.why for each in stored.refused]
    assert {once.ts, again.ts} <= set(talk.reacted)


async def test_words_of_a_stopped_turn_are_in_the_transcript_by_its_end(
    talk: ConversationActivityScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that is lost right after the end of a turn leaves no step undone that only it knew
    of.
    """

    async def lost(_: str) -> None:
        raise asyncio.CancelledError

    await talk.said("any news there", aside(talk, "and here"))
    await talk.begin()
    monkeypatch.setattr(talk.activities.deps.users, "get_known", lost)
    await talk.settle(ConversationOutcome(OutcomeKind.STOPPED, "", model_calls=0))
    told = [
        (message.role, message.content, message.author) for _, message in await talk.transcript()
    ]
    assert set(told[:2]) == {
        (Role.USER, "any news there", REPORTER),
        (Role.USER, "and here", BYSTANDER),
    }
    assert [role for role, *_ in told[2:]] == [Role.ASSISTANT]


async def test_unaddressed_messages_of_a_single_person_are_judged(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("any news there")
    once = talk.message("more", addressed=False)
    again = talk.message("more", addressed=False)
    stored = await talk.said(once, again)
    assert [each.why for each in stored.refused] == [Refusal.DUPLICATE]
    assert talk.reacted[once.ts] == RECEIVED_REACTION
    assert talk.reacted[again.ts] == REFUSAL_REACTIONS[Refusal.DUPLICATE]


async def test_tool_acts_for_the_last_asker_before_its_step(
    talk: ConversationActivityScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def three(turn: ScriptTurn) -> None:
        for title in ("Milk", "Tea", "Salt"):
            await turn.call("lamps_create", title=title)

    seen: list[tuple[str, Mapping[str, str]]] = []

    def noting(**given: Any) -> ToolContext:
        context = ToolContext(**given)
        seen.append((context.actor, context.co_requesters))
        return context

    monkeypatch.setattr(act, "ToolContext", noting)
    talk.model.script(three)
    await talk.said("Create a lamp.")
    joins = [
        talk.message("Me too!", sender_id=BYSTANDER),
        talk.message("nice", sender_id="U0NOBODY", addressed=False),
    ]
    for step in (1, 2, 3):
        [call] = (await talk.think(step=step)).reply.calls
        await talk.said(*joins[step - 1 : step])
        await talk.act(call, step=step)
    assert seen == [
        ("reporter", {}),
        ("bystander", {REPORTER: f"reporter ({REPORTER})"}),
        ("bystander", {"U0NOBODY": "U0NOBODY", REPORTER: f"reporter ({REPORTER})"}),
    ]
    assert [each.split(" for ")[1].split(" at ")[0] for each in RAN] == [
        REPORTER,
        BYSTANDER,
        BYSTANDER,
    ]


async def test_person_who_joins_during_a_turn_is_named_with_the_id(
    talk: ConversationActivityScene,
) -> None:
    await talk.said("List the lamps.")
    [call] = (await talk.think()).reply.calls
    await talk.act(call)
    await talk.said(talk.message("book me one, too", sender_id=BYSTANDER))
    await talk.think(step=2)
    assert talk.sent()[-1]["content"] == f"bystander ({BYSTANDER}): book me one, too"


async def test_model_reads_ids_and_local_times_of_the_authors(
    talk: ConversationActivityScene,
) -> None:
    talk.slack.workspace.add_user(
        SandboxUser("U0WEST", "west", "west", time_zone="America/Los_Angeles")
    )
    await talk.said("book me a slot", talk.message("me too, tomorrow at 10", sender_id="U0WEST"))
    await talk.think()
    local = datetime.now(ZoneInfo("America/Los_Angeles"))
    assert f"reporter ({REPORTER}) and west (U0WEST) wrote" in note(talk)
    assert f"west (U0WEST) it is {local:%A, %Y-%m-%d}" in note(talk)
    assert "(America/Los_Angeles)" in note(talk)


async def test_prompt_says_that_earlier_messages_are_missing(
    talk: ConversationActivityScene,
) -> None:
    late = "before you were called is not shown to you"
    await talk.said("and what do you say to this?")
    await talk.answer()
    assert late in note(talk)
    await talk.said("more of it, please")
    await talk.think(2)
    assert late in note(talk)


async def test_prompt_with_the_first_message_mentions_no_missing_ones(
    talk: ConversationActivityScene,
) -> None:
    await talk.said(talk.message("what do you say?", ts=talk.thread.ts, id=talk.thread.key))
    await talk.answer()
    await talk.said("more of it, please")
    await talk.think(2)
    assert "before you were called" not in note(talk)
