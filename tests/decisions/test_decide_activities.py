"""A turn's decision on Postgres and the model's wire; the model's replies and the documents are
scripted.
"""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.conversation_activities import (
    REGISTRY,
    ConversationActivityScene,
    Make,
    make_talk,
    talk,
)
from tests.support.decision_activities import Engine, engine_of
from tests.support.decision_forms import decision_form
from threadline.conversations import decide
from threadline.conversations.contract import FinishRequest, TurnDecision
from threadline.conversations.model import answers
from threadline.conversations.model.answers import escalation_text
from threadline.conversations.model.conversation import (
    ConversationOutcome,
    ConversationTurn,
    Execution,
    OutcomeKind,
)
from threadline.conversations.store.handovers import HandoverStore
from threadline.db.engine import Database
from threadline.decisions.model import ESCALATION_CAP, DecisionOutcome, EscalationReason, NextStep
from threadline.errors import InternalError, Permanent, Transient
from threadline.estimates.store import EstimateStore
from threadline.knowledge import tools as qa
from threadline.threads.model import MessageKind
from threadline.threads.store import ThreadBindingStore
from threadline.tools.context import Services
from threadline.tools.model import ToolStatus
from threadline.tools.registry import ToolRegistry
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, REPORTER, TEAM

__all__ = ["make_talk", "talk"]


@pytest.fixture
def engine(talk: ConversationActivityScene) -> Engine:
    return engine_of(talk)


async def test_first_decision_wins_and_its_model_call_is_recorded(engine: Engine) -> None:
    await engine.hears("and now")
    first = await engine.decide()
    assert first.course is NextStep.PROCEED
    engine.decides("ESCALATE", escalation_reason="never")
    assert await engine.decide(attempt=2) == first
    (call,) = await engine.talk.rows("SELECT purpose, turn, step, cost_usd FROM model_calls")
    assert (call["purpose"], call["turn"], call["step"]) == ("decide", 1, 0)
    assert call["cost_usd"] > 0
    (sent,) = engine.talk.model.structured_requests
    assert sent.conversation.schema_name == "decision"
    assert engine.documents.asked == []


async def test_decision_is_made_with_the_last_five_messages(engine: Engine) -> None:
    said = [f"message {number}" for number in range(1, 9)]
    await engine.talk.said(*said)
    answer = (await engine.talk.answer()).text
    await engine.decided("and now?", 2)
    (sent,) = engine.talk.model.structured_requests
    situation = json.loads(sent.conversation.messages[-1]["content"])
    recent = situation["recent_conversation"]
    assert [each.rpartition(": ")[2] for each in recent] == [*said[-4:], answer]


async def test_two_invalid_answers_escalate_to_a_person(engine: Engine) -> None:
    engine.answers("no JSON at all", json.dumps(decision_form("RETRIEVE")))
    step = await engine.decided("what does it cost?")
    assert step.course is NextStep.ESCALATE
    assert "no JSON at all" in str(engine.talk.model.structured_requests[-1].conversation.messages)
    assert len(await engine.talk.rows("SELECT 1 FROM model_calls")) == 2
    _, verdict = await engine.weighed()
    assert verdict.confidence <= ESCALATION_CAP
    assert await engine.settled(OutcomeKind.ESCALATED) == escalation_text(EscalationReason.DECIDED)


async def test_third_question_in_a_row_becomes_an_escalation(engine: Engine) -> None:
    engine.decides("CLARIFY", clarifying_question="Which plan do you mean?", intent_clear=False)
    for turn in (1, 2):
        assert (await engine.decided(f"I need help {turn}", turn)).course is NextStep.CLARIFY
        assert await engine.settled(OutcomeKind.CLARIFIED, turn) == "Which plan do you mean?"
    assert (await engine.decided("just help me", 3)).course is NextStep.ESCALATE
    assert await engine.settled(OutcomeKind.ESCALATED, 3) == escalation_text(
        EscalationReason.LOW_CONFIDENCE
    )
    rows = await engine.talk.rows("SELECT outcome FROM decisions ORDER BY turn")
    assert [row["outcome"] for row in rows] == [
        DecisionOutcome.CLARIFIED,
        DecisionOutcome.CLARIFIED,
        DecisionOutcome.ESCALATED,
    ]


@pytest.mark.parametrize(
    ("sensitivity", "course"), [("asks", NextStep.PROCEED), ("claims", NextStep.ESCALATE)]
)
async def test_model_decides_the_meaning_of_a_sensitive_word(
    engine: Engine, sensitivity: str, course: NextStep
) -> None:
    engine.decides("REASON_ONLY", sensitivity=sensitivity)
    assert (await engine.decided("and the refunds?")).course is course


@pytest.mark.parametrize(
    ("words", "course"),
    [
        ("there was a DATA  BREACH", NextStep.ESCALATE),
        ("I have an issue to pursue", NextStep.PROCEED),
    ],
)
async def test_without_the_model_only_a_sensitive_word_escalates(
    engine: Engine, words: str, course: NextStep
) -> None:
    await engine.hears(words)
    engine.talk.model.fail_next(9, status=503, schema_name="decision")
    with pytest.raises(Transient):
        await engine.decide()
    assert (await engine.decide_without_model()).course is course
    if course is NextStep.ESCALATE:
        assert await engine.settled(OutcomeKind.ESCALATED) == escalation_text(
            EscalationReason.SENSITIVE_TOPIC
        )


@pytest.mark.parametrize("hangs", [False, True])
async def test_without_the_model_a_broken_lookup_of_the_person_delays_no_turn(
    engine: Engine, hangs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This step retries without end, so that an error of the lookup would keep the turn waiting
    forever.
    """

    async def broken(*_: object) -> str:
        if hangs:
            await asyncio.Event().wait()
        raise InternalError("a bug in the lookup")

    await engine.hears("there was a data breach")
    monkeypatch.setattr(decide, "LOOKUP_SECONDS", 0.05)
    deps = engine.talk.activities.deps
    engine.talk.activities.deps = replace(
        deps, decision=replace(deps.decision, describe_asker=broken)
    )
    if not hangs:
        with pytest.raises(InternalError):
            await engine.decide()
    assert (await engine.decide_without_model()).course is NextStep.ESCALATE


async def test_stopped_turn_is_not_handed_over(engine: Engine) -> None:
    """The workflow does not know of the stop yet when it asks for a person."""
    await engine.decided("and now")
    await engine.talk.said(replace(engine.talk.message("stop"), kind=MessageKind.STOP))
    said = await engine.settled(
        OutcomeKind.ESCALATED, text="Booked APT-1.", escalate=EscalationReason.RESPONSE_ERROR
    )
    assert "Booked APT-1." in said
    assert "stopped" in said.lower()
    assert await engine.talk.rows("SELECT 1 FROM handovers") == []
    judgement = (await engine.last()).judgement
    assert judgement
    assert judgement.next_step is NextStep.PROCEED


async def test_failed_answer_is_reported_with_the_completed_actions(engine: Engine) -> None:
    await engine.decided("and now")
    done = answers.progress_text([Execution("1", "calendar.book", ToolStatus.OK, "Booked APT-1.")])
    said = await engine.settled(
        OutcomeKind.ESCALATED, text=done, escalate=EscalationReason.RESPONSE_ERROR
    )
    assert said.startswith("I could not produce an answer to this.")
    assert "`calendar.book`: done. Booked APT-1." in said
    (row,) = await engine.talk.rows("SELECT next_step, reason, confidence, outcome FROM decisions")
    assert (row["next_step"], row["reason"], row["outcome"]) == (
        "escalate",
        EscalationReason.RESPONSE_ERROR,
        "escalated",
    )
    assert row["confidence"] <= ESCALATION_CAP


@pytest.mark.parametrize("tool", ["", "lamps_list", "lamps_create"])
async def test_late_answer_is_posted_after_a_handover_only_if_it_changed_something(
    engine: Engine, tool: str
) -> None:
    changed = tool == "lamps_create"
    engine.decides("ESCALATE", escalation_reason="A contract.")
    await engine.decided("a special contract, please")
    await engine.settled(OutcomeKind.ESCALATED)
    engine.decides("REASON_ONLY")
    await engine.decided("are you there?", 2)

    async def answering(turn: ScriptTurn) -> None:
        if tool:
            await turn.call(tool)
        await turn.text_only("Two of them shine.")

    engine.talk.model.script(answering)
    reply = (await engine.talk.think(2)).reply
    for call in reply.calls:
        await engine.talk.act(call, 2)
        await engine.talk.think(2, 2)
    async with engine.talk.database.begin() as tx:
        await HandoverStore(tx).take(ConversationTurn(engine.talk.thread, 1), DEVELOPER)
    before = len(engine.talk.posted())
    step = 2 if tool else 1
    answered = FinishRequest(
        engine.talk.thread, 2, OutcomeKind.ANSWERED, answer_step=step, changed_something=changed
    )
    for _ in range(2):  # the result of the first attempt is lost
        assert (
            await engine.talk.run(engine.talk.activities.finish_turn, answered)
        ).left_to_person is not changed
        async with engine.talk.database.begin() as tx:
            await HandoverStore(tx).close(ConversationTurn(engine.talk.thread, 1), DEVELOPER)
    stopped = replace(answered, kind=OutcomeKind.STOPPED, text="I have stopped.", answer_step=0)
    assert (
        await engine.talk.run(engine.talk.activities.finish_turn, stopped)
    ).left_to_person is not changed
    await engine.talk.post(2)
    assert len(engine.talk.posted()) - before == changed
    (row,) = await engine.talk.rows("SELECT kind, answer FROM conversation_turns WHERE turn = 2")
    assert (row["kind"], bool(row["answer"])) == (
        ("answered", True) if changed else ("silent", False)
    )
    (row,) = await engine.talk.rows("SELECT outcome FROM decisions WHERE turn = 2")
    assert row["outcome"] == ("answered" if changed else "taken_over")
    await engine.talk.said("are they dim?")
    await engine.talk.begin(3)
    await engine.talk.think(3)
    assert ("Two of them shine." in str(engine.talk.sent())) is changed


async def test_without_a_model_nothing_is_decided(
    make_talk: Callable[..., ConversationActivityScene],
) -> None:
    engine = engine_of(make_talk(with_model=False))
    assert await engine.decided("any news") == TurnDecision(made=False)
    assert await engine.kept() == []


async def test_words_deleted_during_the_decision_are_not_stored_in_it(engine: Engine) -> None:
    secret = engine.talk.message("the merger is called Bluebird")
    await engine.talk.said(secret, "what does it cost?")
    await engine.talk.begin()
    shown: list[str] = []

    async def script(turn: ScriptTurn) -> None:
        if not shown:
            await engine.talk.said(engine.talk.deletion(secret))
        shown.append(str(turn.prompts))
        await turn.text_only(json.dumps(decision_form("CLARIFY", clarifying_question=shown[-1])))

    engine.talk.model.script(script, schema_name="decision")
    with pytest.raises(Transient):
        await engine.decide()
    assert await engine.kept() == []
    assert (await engine.decide(attempt=2)).course is NextStep.CLARIFY
    assert ["Bluebird" in each for each in shown] == [True, False]
    assert "Bluebird" not in str(await engine.talk.rows("SELECT * FROM decisions"))
    assert len(await engine.talk.rows("SELECT 1 FROM model_calls")) == 2, "both were paid for"


async def test_tool_results_of_the_thread_count_as_evidence(engine: Engine) -> None:
    async def calling(turn: ScriptTurn) -> None:
        await turn.call("lamps_list")
        await turn.call("lamps_list", colour="of no lamp")
        await turn.call("lamps_break")
        await turn.text_only("One of them is broken.")

    engine.talk.model.script(calling)
    await engine.decided("look after the lamps")
    await engine.talk.answer()
    await engine.decided("and now", 2)
    (before, _) = await engine.weighed(1)
    (after, _) = await engine.weighed(2)
    assert (before.tool_success_rate, after.tool_success_rate) == (1.0, 0.5)
    assert (before.context_completeness, after.context_completeness) == (0.666667, 1.0)


@pytest.mark.parametrize("failure", [Transient("Slack is away."), Permanent("Slack refuses.")])
async def test_decision_is_made_although_slack_does_not_identify_the_person(
    talk: ConversationActivityScene, failure: Exception
) -> None:
    engine = engine_of(talk, lead=failure)
    step = await engine.decided("I will sue you for a refund")
    assert step.course is NextStep.ESCALATE
    assert (await engine.decide_without_model()) == step


async def test_decision_is_offered_only_allowed_tools_without_lookups(
    make_talk: Make, database: Database
) -> None:
    tools = [*REGISTRY.all(), *qa.TOOLS]
    talk = make_talk(
        registry=ToolRegistry(tools), services=Services().with_service(Database, database)
    )
    engine = engine_of(talk)
    await engine.hears("please list the lamps")
    async with database.begin() as tx:
        project = await EstimateStore(tx).get_or_create_project(TEAM, "Lamps", "EUR")
        await ThreadBindingStore(tx).bind(talk.thread, "project", project.project_id, REPORTER)
        await EstimateStore(tx).set_locked(TEAM, project.project_id, locked=True)
    await engine.decide()
    shown = json.loads(talk.model.structured_requests[-1].conversation.prompts[-1])["tools"]
    assert "lamps_list" in shown
    assert not {"qa_answer", "lamps_create"} & set(shown)


async def test_claim_during_a_turn_waits_for_its_own_decision(engine: Engine) -> None:
    talk = engine.talk
    await engine.hears("list the lamps, please")
    assert (await engine.decide()).course is NextStep.PROCEED
    await talk.think()
    await talk.said("only the red ones", "and I will sue you over the last one")
    await talk.think(step=2)
    said = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert said[-1] == "only the red ones"
    await engine.settled(OutcomeKind.ANSWERED, answer_step=2)
    await talk.begin(2)
    assert (await engine.decide(2)).course is NextStep.ESCALATE


async def test_question_during_a_turn_without_mention_gets_its_own_turn(engine: Engine) -> None:
    talk = engine.talk
    await talk.said("any news")
    await talk.answer()
    aside = talk.message("shall we do it, Anna?", sender_id=BYSTANDER, addressed=False)
    await talk.said(aside)
    assert (await talk.begin(2)).not_addressed
    await talk.think(2)
    question = talk.message("@bot what does Enterprise cost?", sender_id=BYSTANDER)
    await talk.said(
        question, talk.message("I mean the big one", sender_id=BYSTANDER, addressed=False)
    )
    await talk.think(2, 2)
    assert "Enterprise cost" not in str(talk.sent())
    snapshot = await talk.settle(ConversationOutcome(OutcomeKind.SILENT, ""), 2)
    assert (snapshot.turn_due, snapshot.addressed_due) == (True, True)
    assert not (await talk.begin(3)).not_addressed
    await talk.think(3)
    assert "Enterprise cost" in str(talk.sent())
    assert "the big one" in str(talk.sent())


async def test_only_author_is_answered_after_mentioning_another_person(engine: Engine) -> None:
    talk = engine.talk
    await talk.said("any news")
    await talk.answer()
    await talk.said(talk.message(f"<@{BYSTANDER}> can you check?", addressed=False))
    assert not (await talk.begin(2)).not_addressed
    await talk.think(2)
    await talk.said(talk.message("what does Enterprise cost?", addressed=False))
    assert (await talk.think(2, 2)).snapshot.addressed_due
    assert "Enterprise cost" in str(talk.sent())


@pytest.mark.parametrize("kind", [OutcomeKind.CLARIFIED, OutcomeKind.ANSWERED])
async def test_reply_to_a_question_needs_no_mention_among_others(
    engine: Engine, kind: OutcomeKind
) -> None:
    talk = engine.talk
    await talk.said(talk.message("any news", sender_id=BYSTANDER))
    await talk.answer()
    engine.decides("CLARIFY", clarifying_question="Which plan do you mean?")
    await engine.decided("how much does it cost?", 2)
    if kind is OutcomeKind.ANSWERED:
        await talk.think(2)
    await engine.settled(kind, 2, answer_step=int(kind is OutcomeKind.ANSWERED))
    told = await talk.said(talk.message("Enterprise, and I want my money back", addressed=False))
    assert (told.snapshot.turn_due, told.snapshot.addressed_due) == (
        True,
        kind is OutcomeKind.CLARIFIED,
    )


@pytest.mark.parametrize("text", ["thanks", "Good morning!", "danke schön"])
async def test_small_talk_needs_no_decision(engine: Engine, text: str) -> None:
    await engine.hears(text)
    told = await engine.decide()
    assert not told.made
    assert not await engine.kept(1)
