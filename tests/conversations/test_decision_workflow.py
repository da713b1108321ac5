"""The decision before the agent runs: the turn goes on, asks back, or is handed over to a
person.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.support.conversation_scene import BEN, HANDOVERS, ConversationScene, Use, conversation
from tests.support.scripted_model import AWAY, SILENT, Reply, calls
from tests.support.temporal import skipping_time
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model.conversation import (
    ConversationLimits,
    NoticeReason,
    OutcomeKind,
)
from threadline.conversations.model.turn_route import Agent
from threadline.db.engine import Database
from threadline.decisions.model import EscalationReason
from threadline.errors import Mendable, Permanent, Transient
from threadline.knowledge.model import Retrieval
from threadline.models.errors import MODEL_FAULT
from threadline.models.model import ModelReply
from threadline.tools.context import ToolContext

RETRIEVE = {"decision": "RETRIEVE", "retrieval_needed": True, "retrieval_query": "plans"}
CLARIFY = {"decision": "CLARIFY", "clarifying_question": "Which product?", "intent_clear": False}
ESCALATE = {"decision": "ESCALATE", "escalation_reason": "Somebody makes a claim."}


def steps(scene: ConversationScene) -> list[str]:
    return scene.names("decide", "decide_without_model")


async def escalated(scene: ConversationScene) -> list[tuple[int, str]]:
    """The turns that end with a handover, each with its reason."""
    rows = await scene.rows(
        "SELECT turn, reason FROM decisions WHERE next_step = 'escalate' ORDER BY turn, round"
    )
    return [(each.turn, each.reason) for each in rows]


async def handed_over(scene: ConversationScene) -> None:
    """Wait until the handover of turn 1 is posted."""
    await scene.until(lambda: scene.posted(HANDOVERS), "a person is asked")
    assert await scene.handovers() == [(1, "")]


async def test_documents_are_looked_up_and_weighed_before_the_answer(database: Database) -> None:
    async with conversation(database, ModelReply("It is 990 a month [1]."), decides=True) as scene:
        scene.model.decisions[1, 1] = RETRIEVE
        assert (await scene.ask("what does the Enterprise plan cost?")).startswith(
            "It is 990 a month"
        )
        assert (steps(scene), scene.documents.asked) == (["decide"], ["plans"])


@pytest.mark.records("decided_after_looking_twice")
async def test_more_is_looked_up_once_and_no_more_than_once(database: Database) -> None:
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.documents.retrieval = Retrieval(0.3)
        scene.model.decisions[1, 1] = scene.model.decisions[1, 2] = RETRIEVE
        await scene.ask("compare your plans with theirs")
        assert (await scene.until_settled(1)).kind is OutcomeKind.CLARIFIED
        assert (steps(scene), len(scene.documents.asked), scene.asked) == (["decide"], 2, [])


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
        assert await scene.ask("the export") == "And this?"


UNCLEAR = (
    "Please update the opportunity status to won",
    "mark the opportunity as lost, they chose somebody else",
    "set the proposal to submitted",
    "The bid is withdrawn. Please write that down.",
    "*Log* that the client called about the RFP",
)
"""Requests that may be about an RFP and name none: branch B of docs/operator.md."""
ENDS = {
    "asks back": CLARIFY,
    "names a tool of the operator": {
        "decision": "USE_TOOL",
        "tools_needed": ["opportunity_patch"],
    },
    "is unsure": {"query_complexity": 1.0, "intent_clear": False},
}


@pytest.mark.parametrize(
    ("says", "decision"),
    [*((each, ESCALATE) for each in UNCLEAR), *((UNCLEAR[0], each) for each in ENDS.values())],
)
async def test_operator_answers_an_unclear_request_that_the_decision_would_end(
    database: Database, says: str, decision: dict[str, Any]
) -> None:
    async with conversation(database, ModelReply("From the operator."), decides=True) as scene:
        scene.model.decisions[1, 1] = scene.model.decisions[1, 2] = decision
        assert await scene.ask(says) == "From the operator."
        assert [each.agent for each in scene.asked] == [Agent.OPERATOR]
        assert await scene.handovers() == []
        assert await scene.rows("SELECT next_step, outcome FROM decisions") == [
            ("operator", "answered")
        ]


@pytest.mark.parametrize(
    ("says", "decision"),
    [
        ("I want my money back for the proposal", ESCALATE | {"sensitivity": "claims"}),
        ("We will sue over this bid", ESCALATE | {"sensitivity": "claims"}),
        ("who approved the legal part of the proposal", ESCALATE | {"sensitivity": "asks"}),
        ("update the weather", ESCALATE),
    ],
)
async def test_operator_takes_no_handover_that_is_for_a_person(
    database: Database, says: str, decision: dict[str, Any]
) -> None:
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.model.decisions[1, 1] = decision
        await scene.say(says)
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        await handed_over(scene)
        assert scene.asked == []


async def test_request_that_the_operator_cannot_answer_either_ends_with_a_person(
    database: Database,
) -> None:
    async with conversation(database, *[ModelReply("")] * 4, decides=True) as scene:
        scene.model.decisions[1, 1] = CLARIFY
        await scene.say(UNCLEAR[0])
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        assert await escalated(scene) == [(1, EscalationReason.RESPONSE_ERROR)]
        assert [each.step for each in scene.requests("pass_to_operator")] == [0]


async def test_turn_goes_on_without_a_decision_that_cannot_be_made(database: Database) -> None:
    async with conversation(
        database, ModelReply("Still here."), decides=True, server=skipping_time
    ) as scene:
        scene.model.decisions[1, 1] = Transient("The model cannot be reached.")
        await scene.say("any news?")
        await scene.later(minutes=1)
        assert await scene.until_said(1) == "Still here."
        assert steps(scene) == [*["decide"] * 3, "decide_without_model"]


@pytest.mark.records("undecided")
async def test_a_sensitive_word_ends_with_a_person_where_the_decision_cannot_be_made(
    database: Database,
) -> None:
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.model.decisions[1, 1] = Permanent("The key is wrong.")
        await scene.say("I want a refund")
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        await handed_over(scene)
        assert scene.asked == []


@pytest.mark.parametrize("says", ["I want a refund", "any news?"], ids=["sensitive", "plain"])
@pytest.mark.parametrize(
    "decided", [False, True], ids=["the decision is refused", "the answer is refused"]
)
async def test_refused_key_is_reported_plainly_without_a_handover(
    database: Database, says: str, *, decided: bool
) -> None:
    refused = Mendable("Check OPENAI_API_KEY.", kind=MODEL_FAULT, subject="key")
    async with conversation(database, refused, decides=True) as scene:
        scene.model.decisions[1, 1] = {"sensitivity": "asks"} if decided else refused
        await scene.say(says)
        assert "I have told the admin" in await scene.until_said(1)
        assert (await scene.until_settled(1)).kind is OutcomeKind.FAILED
        assert await scene.handovers() == []
        assert await escalated(scene) == []
        assert len(scene.asked) == int(decided), "a refused call is not made again in the turn"
        assert "OPENAI" not in await scene.until_said(1)


@pytest.mark.records("answer_given_up")
async def test_an_answer_that_cannot_be_made_ends_with_a_person(database: Database) -> None:
    limits = ConversationLimits(model_patience=600)
    async with conversation(
        database, *[AWAY] * 6, limits=limits, decides=True, server=skipping_time
    ) as scene:
        await scene.say("what is our SLA?")
        await scene.until_known("waiting for the model")
        await scene.later(minutes=11)
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        assert await escalated(scene) == [(1, EscalationReason.RESPONSE_ERROR)]


async def test_turn_whose_model_says_nothing_is_handed_over(database: Database) -> None:
    async with conversation(database, *[ModelReply("")] * 4, decides=True) as scene:
        await scene.say("create a proposal")
        assert (await scene.until_settled(1)).kind is OutcomeKind.ESCALATED
        assert await escalated(scene) == [(1, EscalationReason.RESPONSE_ERROR)]
        assert [each.step for each in scene.requests("pass_to_operator")] == [2]


@pytest.mark.records("given_to_a_person")
@pytest.mark.parametrize("ends_well", [False, True])
async def test_a_critical_tool_that_fails_for_good_brings_a_person_beside_the_answer(
    database: Database, ends_well: bool
) -> None:
    async def book(context: ToolContext) -> str:
        if context.call_id == "calendar.book:2" and ends_well:
            return "booked"
        raise RuntimeError("The calendar is away.")

    script = (
        calls("calendar.book:1"),
        calls("calendar.book:2"),
        ModelReply("That is how it ended."),
    )
    async with conversation(
        database, *script, tools={"calendar.book": book}, decides=True
    ) as scene:
        assert (await scene.ask("book a meeting with me tomorrow at ten")).startswith(
            "That is how it ended."
        )
        assert await escalated(scene) == (
            [] if ends_well else [(1, EscalationReason.TOOL_FAILURE)]
        )
        if not ends_well:
            await handed_over(scene)


async def test_success_in_the_same_reply_does_not_undo_a_critical_failure(
    database: Database,
) -> None:
    async def update(context: ToolContext) -> str:
        if context.call_id == "crm.update:1":
            raise RuntimeError("The record is away.")
        return "updated"

    script = calls("crm.update:1", "crm.update:2"), ModelReply("The second one is done.")
    async with conversation(
        database, *script, tools={"crm.update": update}, decides=True
    ) as scene:
        await scene.ask("put both on record")
        assert await escalated(scene) == [(1, EscalationReason.TOOL_FAILURE)]


async def test_only_questions_to_the_bot_are_decided(database: Database) -> None:
    async with conversation(
        database, ModelReply("Hello."), SILENT, ModelReply("Done."), decides=True
    ) as scene:
        rfp_id = await scene.rfp()
        scene.model.decisions[2, 1] = scene.model.decisions[3, 1] = ESCALATE
        assert await scene.ask("any news") == "Hello."
        assert not scene.documents.asked, "for an easy question nothing is looked up"
        await scene.say("shall we do it, Anna?", BEN, addressed=False)
        assert (await scene.until_settled(2)).kind is OutcomeKind.SILENT
        await scene.say(f"update rfp {rfp_id}")
        assert (await scene.until_settled(3)).kind is OutcomeKind.ANSWERED
        assert [each.turn for each in await scene.rows("SELECT turn FROM decisions")] == [1]
        assert (await scene.handovers(), scene.posted(HANDOVERS)) == ([], [])


@pytest.mark.parametrize("bound", [False, True], ids=["assistant", "operator"])
async def test_help_is_given_without_any_call_of_the_model(
    database: Database, bound: bool
) -> None:
    async with conversation(database, decides=True) as scene:
        if bound:
            rfp_id = await scene.rfp()
            await scene.ask(f"link {rfp_id}")
        for words in ("help", ":wave:", "Good morning! :wave:"):
            assert "I can help with " in await scene.ask(words)
        assert (scene.asked, steps(scene)) == ([], [])
        assert await scene.rows("SELECT 1 FROM model_calls") == []


async def test_stop_while_deciding_ends_the_turn(database: Database) -> None:
    async with conversation(database, ModelReply("never"), decides=True) as scene:
        scene.model.decisions[1, 1] = scene.hang
        await scene.say("what is our SLA?")
        await scene.hanging.wait()
        await scene.stop()
        assert (await scene.until_settled(1)).kind is OutcomeKind.STOPPED
        assert scene.asked == []


# -- messages shown to the person who has the thread, or may take it


@asynccontextmanager
async def with_handover(
    database: Database,
    *replies: Reply,
    taken: bool = False,
    tools: Mapping[str, Use] | None = None,
) -> AsyncIterator[ConversationScene]:
    """A thread whose first turn waits for a person, or was taken by one."""
    async with conversation(database, ModelReply("Hello."), *replies, tools=tools) as scene:
        await scene.ask("any news")
        await (scene.take_over() if taken else scene.hand_over())
        yield scene


@pytest.mark.records("relayed_to_a_person")
@pytest.mark.parametrize("taken", [True, False])
async def test_message_that_slack_refuses_for_now_is_shown_to_the_person_once_it_takes_it(
    database: Database, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.activity.mending_delay", lambda attempt: 0.3)
    async with with_handover(database, ModelReply("Here is how."), taken=taken) as scene:
        scene.slack.workspace.archive(HANDOVERS)
        await scene.say("to which account?")
        await scene.until_settled(2)
        await scene.until(
            lambda: len(scene.requests("relay_until_mended")) > 1, "it is tried again"
        )
        await scene.until(
            lambda: taken or 2 in scene.said, "the agent answers unless a person has the thread"
        )
        assert scene.words == [(NoticeReason.FORWARDED_LATER, "2")] * taken
        assert (2 in scene.said) is not taken
        scene.slack.workspace.channel(HANDOVERS).is_archived = False
        await scene.until(
            lambda: any("which account" in each for each in scene.posted(HANDOVERS)), "it is shown"
        )
        await scene.until_idle()
        assert scene.words == [(NoticeReason.FORWARDED_LATER, "2")] * taken


async def test_messages_that_slack_refuses_for_now_are_shown_in_their_order(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refused_again() -> bool:
        described = (await scene.handle.describe()).raw_description
        return any(each.attempt > 1 for each in described.pending_activities)

    monkeypatch.setattr("threadline.threads.activity.mending_delay", lambda attempt: 8.0)
    async with with_handover(database, taken=True) as scene:
        channel = scene.slack.workspace.channel(HANDOVERS)
        scene.slack.workspace.archive(HANDOVERS)
        await scene.say("yes, do it")
        await scene.until_settled(2)
        await scene.until(refused_again, "it is tried again, and refused")
        channel.is_archived = False
        await scene.say("no, wait")
        await scene.until(
            lambda: any("no, wait" in each for each in scene.posted(HANDOVERS)), "it is shown"
        )
        shown = " ".join(scene.posted(HANDOVERS))
        assert 0 < shown.index("yes, do it") < shown.index("no, wait")


async def test_author_gets_a_notice_when_no_person_can_be_shown_the_message(
    database: Database,
) -> None:
    async with with_handover(database, ModelReply("Here is how."), taken=True) as scene:
        scene.slack.faults.refuse("chat.postMessage", "invalid_arguments")
        await scene.say("to which account?")
        await scene.until_settled(2)
        await scene.until_idle()
        assert scene.words == [(NoticeReason.NOT_FORWARDED, "2")]


async def test_author_gets_a_notice_when_the_person_closes_while_slack_refuses_the_message(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.activity.mending_delay", lambda attempt: 0.3)
    async with with_handover(database, ModelReply("Here is how."), taken=True) as scene:
        scene.slack.workspace.archive(HANDOVERS)
        await scene.say("to which account?")
        await scene.until_settled(2)
        await scene.close_handover()
        await scene.until(lambda: len(scene.words) == 2, "its author is told")
        assert scene.words == [
            (NoticeReason.FORWARDED_LATER, "2"),
            (NoticeReason.NOT_FORWARDED, "2"),
        ]


async def test_author_gets_a_notice_when_a_person_takes_and_closes_during_the_turn(
    database: Database,
) -> None:
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
        assert (scene.words, list(scene.said)) == ([(NoticeReason.NOT_FORWARDED, "2")], [1])


async def test_messages_read_during_a_turn_are_relayed_too(database: Database) -> None:
    async def look(_: ToolContext) -> str:
        await scene.say("and when?")
        await scene.until_stored(3)
        return "looked"

    async with with_handover(
        database, calls("look"), ModelReply("Here is how."), tools={"look": look}
    ) as scene:
        await scene.ask("how do I export?")
        await scene.until_idle()
        await scene.take_over()
        await scene.say("to which account?")
        assert (await scene.until_settled(3)).kind is OutcomeKind.SILENT
        assert [each.turn for each in scene.requests("relay_to_person")] == [2, 2, 3]
        shown = [text for text in scene.posted(HANDOVERS) if "?" in text]
        for words, text in zip(
            ("how do I export?", "and when?", "to which account?"), shown[-3:], strict=True
        ):
            assert words in text
