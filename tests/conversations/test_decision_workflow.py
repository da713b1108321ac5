"""The decision engine before an agent is asked: the turn goes on, asks back, or ends with a person."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from tests.support.conversation_scene import BEN, HANDOVERS, ConversationScene, Use, conversation
from tests.support.scripted_model import AWAY, SILENT, Reply, calls
from tests.support.temporal import skipping_time
from threadline.conversations.contract import ThinkRequest, WordKind
from threadline.conversations.model.conversation import ConversationLimits
from threadline.db.engine import Database
from threadline.decisions.model import Reason, Retrieval
from threadline.errors import Permanent, Transient
from threadline.models.model import ModelReply, OutcomeKind
from threadline.tools.context import ToolContext

RETRIEVE = {"decision": "RETRIEVE", "retrieval_needed": True, "retrieval_query": "plans"}
CLARIFY = {"decision": "CLARIFY", "clarifying_question": "Which product?", "intent_clear": False}
ESCALATE = {"decision": "ESCALATE", "escalation_reason": "Somebody makes a claim."}
ROUND = ["decide", "look_up", "weigh"]


def steps(scene: ConversationScene) -> list[str]:
    return scene.names(*ROUND, "give_up_deciding")


async def escalated(scene: ConversationScene) -> list[tuple[int, str]]:
    """The turns that end with a person, and why."""
    rows = await scene.rows("SELECT turn, reason FROM decisions WHERE course = 'escalate' ORDER BY turn, round")
    return [(each.turn, each.reason) for each in rows]


async def handed_over(scene: ConversationScene) -> None:
    """Wait until people are shown that turn 1 waits for one of them."""
    await scene.until(lambda: scene.posted(HANDOVERS), "a person is asked")
    assert await scene.handovers() == [(1, "")]


async def test_an_easy_question_goes_on_to_the_agent_and_nothing_is_looked_up(database: Database) -> None:
    async with conversation(database, ModelReply("You are welcome."), decides=True) as scene:
        await scene.say("thanks")
        assert await scene.until_said(1) == "You are welcome."
        assert steps(scene) == ["decide"]
        assert (await scene.handovers(), scene.posted(HANDOVERS)) == ([], [])


async def test_evidence_is_looked_up_and_weighed_before_the_answer(database: Database) -> None:
    async with conversation(database, ModelReply("It is 990 a month [1]."), decides=True) as scene:
        scene.model.decisions[1, 1] = RETRIEVE
        await scene.say("what does the Enterprise plan cost?")
        assert (await scene.until_said(1)).startswith("It is 990 a month")
        assert (steps(scene), scene.documents.asked) == (ROUND, ["plans"])


@pytest.mark.records("decided_after_looking_twice")
async def test_more_is_looked_up_once_and_no_more_than_once(database: Database) -> None:
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.documents.retrieval = Retrieval(0.3)
        scene.model.decisions[1, 1] = scene.model.decisions[1, 2] = RETRIEVE
        await scene.say("compare your plans with theirs")
        await scene.until_said(1)
        assert (await scene.until_settled(1)).kind is OutcomeKind.CLARIFIED
        assert (steps(scene), scene.asked) == ([*ROUND, *ROUND], [])


@pytest.mark.records("decided_asks_back")
@pytest.mark.parametrize(
    ("decision", "kind"),
    [(CLARIFY, OutcomeKind.CLARIFIED), (ESCALATE, OutcomeKind.ESCALATED)],
    ids=["asks back", "escalates"],
)
async def test_a_question_and_a_handover_end_the_turn_before_the_agent_is_asked(
    database: Database, decision: dict[str, Any], kind: OutcomeKind
) -> None:
    async with conversation(database, ModelReply("And this?"), decides=True) as scene:
        scene.model.decisions[1, 1] = decision
        await scene.say("I need help with your product.")
        said = await scene.until_said(1)
        assert (await scene.until_settled(1)).kind is kind
        assert scene.asked == []
        if kind is OutcomeKind.ESCALATED:
            await handed_over(scene)
        else:
            assert said == "Which product?"
            assert await scene.handovers() == []
        await scene.say("the export")
        assert await scene.until_said(2) == "And this?"


async def test_a_turn_whose_decision_cannot_be_made_goes_on_without(database: Database) -> None:
    async with conversation(database, ModelReply("Still here."), decides=True, server=skipping_time) as scene:
        scene.model.decisions[1, 1] = Transient("The model cannot be reached.")
        await scene.say("hello?")
        await scene.later(minutes=1)
        assert await scene.until_said(1) == "Still here."
        assert steps(scene) == [*["decide"] * 3, "give_up_deciding"]


@pytest.mark.records("undecided")
async def test_a_sensitive_word_ends_with_a_person_where_the_decision_cannot_be_made(database: Database) -> None:
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.model.decisions[1, 1] = Permanent("The key is wrong.")
        await scene.say("I want a refund")
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        await handed_over(scene)
        assert scene.asked == []


@pytest.mark.records("answer_given_up")
async def test_an_answer_that_cannot_be_made_ends_with_a_person(database: Database) -> None:
    limits = ConversationLimits(model_patience=600)
    async with conversation(database, *[AWAY] * 6, limits=limits, decides=True, server=skipping_time) as scene:
        await scene.say("what is our SLA?")
        await scene.until_known("waiting for the model")
        await scene.later(minutes=11)
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        assert await escalated(scene) == [(1, Reason.RESPONSE_ERROR)]


async def test_a_turn_in_which_the_operator_fails_as_well_ends_with_a_person(database: Database) -> None:
    async with conversation(database, *[ModelReply("")] * 4, decides=True) as scene:
        await scene.say("create a proposal")
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        assert await escalated(scene) == [(1, Reason.RESPONSE_ERROR)]
        assert [each.step for each in scene.requests("pass_on")] == [2]


@pytest.mark.records("given_to_a_person")
@pytest.mark.parametrize("ends_well", [False, True])
async def test_a_critical_tool_that_fails_for_good_brings_a_person_beside_the_answer(
    database: Database, ends_well: bool
) -> None:
    async def book(context: ToolContext) -> str:
        if context.call_id == "calendar.book:2" and ends_well:
            return "booked"
        raise RuntimeError("The calendar is away.")

    script = calls("calendar.book:1"), calls("calendar.book:2"), ModelReply("That is how it ended.")
    async with conversation(database, *script, tools={"calendar.book": book}, decides=True) as scene:
        await scene.say("book a meeting with me tomorrow at ten")
        assert (await scene.until_said(1)).startswith("That is how it ended.")
        assert await escalated(scene) == ([] if ends_well else [(1, Reason.TOOL_FAILURE)])
        if not ends_well:
            await handed_over(scene)


async def test_another_call_of_the_same_reply_mends_no_critical_failure(database: Database) -> None:
    async def update(context: ToolContext) -> str:
        if context.call_id == "crm.update:1":
            raise RuntimeError("The record is away.")
        return "updated"

    script = calls("crm.update:1", "crm.update:2"), ModelReply("The second one is done.")
    async with conversation(database, *script, tools={"crm.update": update}, decides=True) as scene:
        await scene.say("put both on record")
        await scene.until_said(1)
        assert await escalated(scene) == [(1, Reason.TOOL_FAILURE)]


async def test_overheard_messages_and_the_operators_are_not_decided(database: Database) -> None:
    async with conversation(database, ModelReply("Hello."), SILENT, ModelReply("Done."), decides=True) as scene:
        rfp_id = await scene.rfp()
        scene.model.decisions[2, 1] = scene.model.decisions[3, 1] = ESCALATE
        await scene.say("hello")
        await scene.until_said(1)
        await scene.say("shall we do it, Anna?", BEN, addressed=False)
        assert (await scene.until_settled(2)).kind is OutcomeKind.SILENT
        await scene.say(f"update rfp {rfp_id}")
        assert (await scene.until_settled(3)).kind is OutcomeKind.ANSWERED
        assert [each.turn for each in scene.requests("decide")] == [1]


async def test_a_stop_while_it_is_decided_ends_the_turn_and_the_agent_is_not_asked(database: Database) -> None:
    async def long() -> None:
        deciding.set()
        await scene.forever()

    deciding = asyncio.Event()
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.steps.before["decide"] = [long]
        await scene.say("what is our SLA?")
        await deciding.wait()
        await scene.stop()
        assert (await scene.until_settled(1)).kind is OutcomeKind.STOPPED
        assert scene.asked == []


# -- what a person who has the thread, or may take it, is shown -------------------------------------------------------


def with_handover(
    database: Database, *replies: Reply, taken: bool = False, tools: Mapping[str, Use] | None = None
) -> AbstractAsyncContextManager[ConversationScene]:
    """A thread whose first turn waits for a person, or is theirs."""

    @asynccontextmanager
    async def scene() -> AsyncIterator[ConversationScene]:
        async with conversation(database, ModelReply("Hello."), *replies, tools=tools) as scene:
            await scene.say("hello")
            await scene.until_said(1)
            await (scene.take_over() if taken else scene.hand_over())
            yield scene

    return scene()


@pytest.mark.records("relayed_to_a_person")
@pytest.mark.parametrize("taken", [True, False])
async def test_who_waits_for_a_person_is_told_when_nobody_could_be_shown_it(database: Database, taken: bool) -> None:
    async with with_handover(database, ModelReply("Here is how."), taken=taken) as scene:
        scene.slack.workspace.archive(HANDOVERS)
        await scene.say("to which account?")
        await scene.until_settled(2)
        await scene.until_idle()
        assert scene.words == [(WordKind.NOT_SHOWN, "2")] * taken
        assert (2 in scene.said) is not taken


@pytest.mark.parametrize("taken", [True, False])
async def test_who_wrote_what_was_closed_before_it_was_shown_is_told_where_nobody_else_answers(
    database: Database, taken: bool
) -> None:
    async with with_handover(database, ModelReply("Here is how."), taken=taken) as scene:
        scene.steps.before["relay_to_person"] = [scene.close_handover]
        await scene.say("to which account?")
        await scene.until_settled(2)
        await scene.until_idle()
        assert scene.words == [(WordKind.NOT_SHOWN, "2")] * taken
        assert (2 in scene.said) is not taken


async def test_who_wrote_what_a_person_took_amid_the_turn_and_closed_unseen_is_told(database: Database) -> None:
    async def taken(_: ThinkRequest) -> ModelReply:
        await scene.take_over()
        await scene.say("and when?")
        await scene.until_stored(3)
        scene.steps.before["relay_to_person"] = [scene.close_handover]
        return calls("look")

    async with with_handover(database, taken, ModelReply("Here is how.")) as scene:
        await scene.say("to which account?")
        settled = await scene.until_settled(2)
        assert settled.kind is OutcomeKind.SILENT
        await scene.until(lambda: scene.words, "its author is told")
        assert (scene.words, list(scene.said)) == ([(WordKind.NOT_SHOWN, "2")], [1])


async def test_messages_that_a_turn_takes_up_on_its_way_are_shown_to_who_reads_along(database: Database) -> None:
    async def look(_: ToolContext) -> str:
        await scene.say("and when?")
        await scene.until_stored(3)
        return "looked"

    async with with_handover(database, calls("look"), ModelReply("Here is how."), tools={"look": look}) as scene:
        await scene.say("how do I export?")
        await scene.until_said(2)
        await scene.until_idle()
        await scene.take_over()
        await scene.say("to which account?")
        assert (await scene.until_settled(3)).kind is OutcomeKind.SILENT
        assert [each.turn for each in scene.requests("relay_to_person")] == [2, 2, 3]
        shown = [text for text in scene.posted(HANDOVERS) if "?" in text]
        for words, text in zip(("how do I export?", "and when?", "to which account?"), shown[-3:], strict=True):
            assert words in text
