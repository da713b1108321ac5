"""Several people in a thread: who is answered, who is judged, and whom a tool acts for."""

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from tests.support.conversation_activities import RAN, Talking, make_talk, talk
from threadline.cases import sentences
from threadline.conversations.act import Acting
from threadline.conversations.contract import Refusal
from threadline.models.model import Outcome, OutcomeKind
from threadline.threads.messages import IncomingMessage
from threadline.tools.context import ToolContext
from threadline_devstack.models.script import Turn
from threadline_devstack.slack.identity import BYSTANDER, REPORTER
from threadline_devstack.slack.model import User

__all__ = ["make_talk", "talk"]


def aside(talk: Talking, text: str) -> IncomingMessage:
    return talk.message(text, sender_id=BYSTANDER, addressed=False)


@pytest.mark.parametrize("text", [":tada:", "help", "🎉"])
async def test_people_among_themselves_are_not_helped(talk: Talking, text: str) -> None:
    await talk.said("hello there")
    await talk.answer()
    await talk.said(aside(talk, text))
    assert (await talk.answer(2, may_be_silent=True)).kind is OutcomeKind.SILENT
    assert len(talk.posted()) == 1
    assert len(talk.model.log) == 1


async def test_a_thumb_between_people_may_still_answer_an_open_question(talk: Talking) -> None:
    async def ask(turn: Turn) -> None:
        await turn.text_only("Shall I create it?")

    talk.model.script(ask)
    await talk.said("a lamp, please")
    await talk.answer()
    await talk.said(aside(talk, ":+1:"))
    await talk.think(2)
    assert talk.sent()[-1]["content"] == f"bystander ({BYSTANDER}): :+1:"


@pytest.mark.parametrize("direct", [False, True])
async def test_a_bare_sign_that_calls_nobody_is_the_models_to_answer(talk: Talking, direct: bool) -> None:
    if direct:
        talk.thread = replace(talk.thread, channel="D0REPORTER")
    await talk.said("hello there")
    await talk.think()
    await talk.settle(Outcome(OutcomeKind.ANSWERED, "", 1))
    await talk.said(talk.message("🎉", addressed=direct))
    await talk.think(2)
    assert len(talk.model.log) == 2


async def test_a_deletion_of_what_nobody_said_to_the_bot_is_not_announced(talk: Talking) -> None:
    await talk.said("hello there")
    await talk.answer()
    for text, addressed in (("between us", False), ("for you", True)):
        said = talk.message(text, sender_id=BYSTANDER, addressed=addressed)
        await talk.said(said)
        turn = 2 + addressed
        async with talk.database.begin() as work:
            await work.conversations.take_up(talk.thread, turn, 1)
        gone = talk.message("", id=f"{said.id}:d", kind="deletion", ts=said.ts, correction_of=said.id)
        await talk.said(gone)
        await talk.answer(turn, may_be_silent=not addressed)
    assert [each.text for each in talk.posted()][1:] == [sentences.DELETED]


async def test_what_people_say_to_each_other_is_not_judged_and_gets_no_reaction(talk: Talking) -> None:
    first = await talk.said("hello there", aside(talk, "hi"))
    assert len(first.overheard) == 1
    talk.at -= 100
    talked = [aside(talk, "ok") for _ in range(2)]
    for number in range(12):
        talk.at -= 59.5
        talked.append(aside(talk, f"remark {number}"))
    stored = await talk.said(*talked)
    assert stored.refused == ()
    assert set(stored.overheard) == {each.id for each in talked}
    assert stored.marks.turn_due
    again = await talk.said(*talked)
    assert set(again.overheard) == {each.id for each in talked}
    asked = await talk.said("hello there", "hello there")
    assert Refusal.DUPLICATE in [each.why for each in asked.refused]
    assert asked.overheard == ()


async def test_the_lines_of_whoever_talks_to_the_bot_alone_are_judged(talk: Talking) -> None:
    await talk.said("hello there")
    stored = await talk.said(talk.message("more", addressed=False), talk.message("more", addressed=False))
    assert [each.why for each in stored.refused] == [Refusal.DUPLICATE]
    assert stored.overheard == ()


async def test_a_tool_acts_for_whoever_has_asked_last_before_its_step(
    talk: Talking, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def three(turn: Turn) -> None:
        for title in ("Milk", "Tea", "Salt"):
            await turn.call("lamps_create", title=title)

    seen: list[tuple[str, tuple[str, ...]]] = []
    ids: list[tuple[str, ...]] = []
    made = Acting._context

    def noting(*given: Any) -> ToolContext:
        context = made(*given)
        seen.append((context.actor, context.others))
        ids.append(context.other_ids)
        return context

    monkeypatch.setattr(Acting, "_context", noting)
    talk.model.script(three)
    await talk.said("Create a lamp.")
    joins = [talk.message("Me too!", sender_id=BYSTANDER), talk.message("nice", sender_id="U0NOBODY", addressed=False)]
    for step in (1, 2, 3):
        [call] = (await talk.think(step=step)).reply.calls
        await talk.said(*joins[step - 1 : step])
        await talk.act(call, step=step)
    assert seen == [
        ("reporter", ()),
        ("bystander", (f"reporter ({REPORTER})",)),
        ("bystander", ("U0NOBODY", f"reporter ({REPORTER})")),
    ]
    assert ids == [(), (REPORTER,), ("U0NOBODY", REPORTER)]
    assert [each.split(" for ")[1].split(" at ")[0] for each in RAN] == [REPORTER, BYSTANDER, BYSTANDER]


async def test_the_model_is_told_by_which_ids_people_go(talk: Talking) -> None:
    await talk.said("book me a slot", talk.message("me too", sender_id=BYSTANDER))
    await talk.think()
    note = next(str(each["content"]) for each in talk.sent() if each.get("role") == "developer")
    assert f"reporter ({REPORTER}) and bystander ({BYSTANDER}) wrote what follows." in note
    assert "names that person by the id" in note


async def test_who_joins_while_the_bot_works_goes_by_an_id_as_well(talk: Talking) -> None:
    await talk.said("List the lamps.")
    [call] = (await talk.think()).reply.calls
    await talk.act(call)
    await talk.said(talk.message("book me one, too", sender_id=BYSTANDER))
    await talk.think(step=2)
    assert talk.sent()[-1]["content"] == f"bystander ({BYSTANDER}): book me one, too"


def note(talk: Talking) -> str:
    return next(str(each["content"]) for each in talk.sent() if each.get("role") == "developer")


async def test_the_model_is_told_which_day_and_time_it_is_for_a_writer(talk: Talking) -> None:
    talk.slack.workspace.add_user(User("U0WEST", "west", "west", time_zone="America/Los_Angeles"))
    await talk.said(talk.message("book me a slot tomorrow at 10", sender_id="U0WEST"))
    await talk.think()
    local = datetime.now(ZoneInfo("America/Los_Angeles"))
    assert f"For west (U0WEST) it is {local:%A, %Y-%m-%d}" in note(talk)
    assert "(America/Los_Angeles)" in note(talk)


async def test_what_was_said_before_the_bot_was_called_is_said_not_to_be_known(talk: Talking) -> None:
    late = "before you were called is not shown to you"
    await talk.said("and what do you say to this?")
    await talk.answer()
    assert late in note(talk)
    await talk.said("more of it, please")
    await talk.think(2)
    assert late in note(talk)


async def test_of_a_thread_whose_root_the_bot_has_read_no_such_thing_is_said(talk: Talking) -> None:
    await talk.said(talk.message("what do you say?", ts=talk.thread.ts, id=talk.thread.key))
    await talk.answer()
    await talk.said("more of it, please")
    await talk.think(2)
    assert "before you were called" not in note(talk)
