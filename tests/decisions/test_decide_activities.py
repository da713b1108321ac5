"""A decision on Postgres and OpenAI's wire: kept before anybody acts on it, judged by evidence, and told in the thread.

Only the model's words and what the documents say are given.
"""

import json
from collections.abc import Callable

import pytest

from tests.support.conversation_activities import REGISTRY, Make, Talking, make_talk, talk
from tests.support.decision_activities import Engine, begun, engine_of
from threadline.conversations import decision_texts as decision_words
from threadline.conversations.contract import SettleRequest
from threadline.conversations.decision_contract import Escalate, Step
from threadline.conversations.model import answers
from threadline.db.engine import Database
from threadline.decisions.confidence import ESCALATED
from threadline.decisions.model import FALLBACK, Course, Reason, Result
from threadline.errors import Permanent, Transient
from threadline.handovers.model import HandoverRef
from threadline.knowledge import tools as qa
from threadline.knowledge.library import PostgresKnowledge
from threadline.models.model import Execution, ExecutionStatus, Outcome, OutcomeKind
from threadline.tools.context import Ports
from threadline.tools.registry import Registry
from threadline_devstack.models.decision_script import decided
from threadline_devstack.models.script import Turn
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, REPORTER, TEAM

__all__ = ["make_talk", "talk"]


@pytest.fixture
def engine(talk: Talking) -> Engine:
    return engine_of(talk)


@pytest.mark.parametrize(
    "words", ["thanks", "what did I just ask you?", "list the lamps", "book a meeting with me tomorrow"]
)
async def test_thanks_and_what_the_conversation_or_a_tool_answers_make_no_retrieval(engine: Engine, words: str) -> None:
    step = await (await begun(engine, words)).whole()
    assert step.course is Course.PROCEED
    assert engine.documents.asked == []


async def test_the_first_decision_stands_and_each_call_of_the_model_is_paid_for(engine: Engine) -> None:
    await begun(engine, "thanks")
    first = await engine.step("decide")
    engine.decides("ESCALATE", escalation_reason="never")
    assert await engine.step("decide", attempt=2) == first
    (call,) = await engine.talk.rows("SELECT purpose, turn, step, cost_usd FROM model_calls")
    assert (call["purpose"], call["turn"], call["step"]) == ("decide", 1, 0)
    assert call["cost_usd"] > 0
    (sent,) = engine.talk.model.forms
    assert sent.conversation.form == "decision"


async def test_what_is_invalid_is_shown_once_more_with_its_faults_and_then_decided(engine: Engine) -> None:
    engine.answers(
        json.dumps(decided({}) | {"decision": "RETRIEVE"}),
        json.dumps(decided({}) | {"decision": "RETRIEVE", "retrieval_needed": True, "retrieval_query": "plans"}),
    )
    await begun(engine, "what does it cost?")
    assert (await engine.step("decide")).about == "RETRIEVE"
    shown = engine.talk.model.forms[-1].conversation.prompts[-1]
    assert "RETRIEVE needs retrieval_query" in shown
    assert len(await engine.talk.rows("SELECT 1 FROM model_calls")) == 2


@pytest.mark.parametrize("written", ["", "no JSON at all", "{", json.dumps({"decision": "DANCE"}), "[" * 5_000])
async def test_whatever_the_model_writes_twice_a_person_takes_over(engine: Engine, written: str) -> None:
    engine.answers(written)
    step = await (await begun(engine, "what does it cost?")).whole()
    assert step.course is Course.ESCALATE
    made = await engine.last()
    assert made.verdict
    assert made.verdict.confidence <= ESCALATED
    assert await engine.settled(OutcomeKind.ESCALATED) == decision_words.handed_over(Reason.DECIDED)


async def test_who_was_asked_twice_in_a_row_without_avail_is_given_to_a_person(engine: Engine) -> None:
    engine.decides("CLARIFY", clarifying_question="Which plan do you mean?", intent_clear=False)
    for turn in (1, 2):
        assert (await (await begun(engine, f"I need help {turn}", turn)).whole(turn)).course is Course.CLARIFY
        assert await engine.settled(OutcomeKind.CLARIFIED, turn) == "Which plan do you mean?"
    assert (await (await begun(engine, "just help me", 3)).whole(3)).course is Course.ESCALATE
    assert await engine.settled(OutcomeKind.ESCALATED, 3) == decision_words.handed_over(Reason.LOW_CONFIDENCE)
    rows = await engine.talk.rows("SELECT turn, outcome, reason FROM decisions ORDER BY turn")
    assert [row["outcome"] for row in rows] == [Result.CLARIFIED, Result.CLARIFIED, Result.ESCALATED]


@pytest.mark.parametrize(("sensitivity", "course"), [("asks", Course.PROCEED), ("claims", Course.ESCALATE)])
async def test_of_a_sensitive_word_the_model_says_what_is_meant(
    engine: Engine, sensitivity: str, course: Course
) -> None:
    engine.decides("REASON_ONLY", sensitivity=sensitivity)
    assert (await (await begun(engine, "and the refunds?")).whole()).course is course


@pytest.mark.parametrize(
    ("words", "course"),
    [
        ("I was promised compensation", Course.ESCALATE),
        ("there was a DATA  BREACH", Course.ESCALATE),
        ("I have an issue to pursue", Course.PROCEED),
    ],
)
async def test_where_the_model_cannot_be_asked_the_sensitive_word_alone_hands_over(
    engine: Engine, words: str, course: Course
) -> None:
    await begun(engine, words)
    engine.talk.model.fail_next(9, status=503, form="decision")
    with pytest.raises(Transient):
        await engine.step("decide")
    assert (await engine.step("give_up_deciding")).course is course
    if course is Course.ESCALATE:
        assert await engine.settled(OutcomeKind.ESCALATED) == decision_words.handed_over(Reason.SENSITIVE_TOPIC)


async def test_an_answer_that_cannot_be_made_is_told_in_the_designs_sentence(engine: Engine) -> None:
    await (await begun(engine, "thanks")).whole()
    await engine.talk.run(engine.activities.escalate, Escalate(engine.talk.thread, 1, Reason.RESPONSE_ERROR))
    assert await engine.settled(OutcomeKind.ESCALATED) == FALLBACK
    (row,) = await engine.talk.rows("SELECT course, reason, confidence, outcome FROM decisions")
    assert (row["course"], row["reason"], row["outcome"]) == ("escalate", Reason.RESPONSE_ERROR, "escalated")
    assert row["confidence"] <= ESCALATED


async def test_a_critical_tool_that_has_failed_brings_a_person_beside_the_answer(engine: Engine) -> None:
    await (await begun(engine, "thanks")).whole()
    await engine.talk.think()
    await engine.talk.run(engine.activities.escalate, Escalate(engine.talk.thread, 1, Reason.TOOL_FAILURE))
    said = await engine.settled(OutcomeKind.ANSWERED, answered_at=1)
    assert said.endswith(decision_words.handed_over(Reason.TOOL_FAILURE))
    assert not said.startswith(decision_words.handed_over(Reason.TOOL_FAILURE))


async def test_what_a_turn_had_done_before_it_failed_is_told_with_the_designs_sentence(engine: Engine) -> None:
    await (await begun(engine, "thanks")).whole()
    await engine.talk.run(engine.activities.escalate, Escalate(engine.talk.thread, 1, Reason.RESPONSE_ERROR))
    done = answers.until_then([Execution("1", "calendar.book", ExecutionStatus.OK, "Booked APT-1.")])
    said = await engine.settled(OutcomeKind.ESCALATED, text=done)
    assert said == f"{FALLBACK}\n\nWhat I did so far:\n\n- `calendar.book`: done. Booked APT-1."


@pytest.mark.parametrize("tool", ["", "lamps_list", "lamps_create"])
async def test_an_answer_that_comes_when_a_person_has_the_thread_is_not_said_unless_something_was_changed(
    engine: Engine, tool: str
) -> None:
    changed = tool == "lamps_create"
    engine.decides("ESCALATE", escalation_reason="A contract.")
    await (await begun(engine, "a special contract, please")).whole()
    await engine.settled(OutcomeKind.ESCALATED)
    engine.decides("REASON_ONLY")
    await (await begun(engine, "are you there?", 2)).whole(2)

    async def answering(turn: Turn) -> None:
        if tool:
            await turn.call(tool)
        await turn.text_only("Two of them shine.")

    engine.talk.model.script(answering)
    reply = (await engine.talk.think(2)).reply
    for call in reply.calls:
        await engine.talk.act(call, 2)
        await engine.talk.think(2, 2)
    async with engine.talk.database.begin() as work:
        await work.handovers.take(HandoverRef(engine.talk.thread, 1), DEVELOPER)
    before = len(engine.talk.posted())
    answered = SettleRequest(engine.talk.thread, 2, OutcomeKind.ANSWERED, answered_at=2 if tool else 1, touched=changed)
    for _ in range(2):  # what the first try came to was lost on its way
        assert (await engine.talk.run(engine.talk.thinking.settle_turn, answered)).left is not changed
        async with engine.talk.database.begin() as work:
            await work.handovers.close(HandoverRef(engine.talk.thread, 1), DEVELOPER)
    await engine.talk.post(2)
    assert len(engine.talk.posted()) - before == changed
    (row,) = await engine.talk.rows("SELECT kind, answer FROM conversation_turns WHERE turn = 2")
    assert (row["kind"], bool(row["answer"])) == (("answered", True) if changed else ("silent", False))
    (row,) = await engine.talk.rows("SELECT outcome FROM decisions WHERE turn = 2")
    assert row["outcome"] == ("answered" if changed else "taken_over")
    await engine.talk.said("are they dim?")
    await engine.talk.begin(3)
    await engine.talk.think(3)
    assert ("Two of them shine." in str(engine.talk.sent())) is changed, "nobody is told what was not said"


async def test_without_a_model_and_without_words_nothing_is_decided(make_talk: Callable[..., Talking]) -> None:
    engine = engine_of(make_talk(with_model=False))
    assert await (await begun(engine, "hello")).whole() == Step(Course.PROCEED, decides=False)
    assert await engine.kept() == []


async def test_weighing_what_nobody_has_decided_is_refused(engine: Engine) -> None:
    await begun(engine, "hello")
    with pytest.raises(Permanent, match="no stored decision"):
        await engine.step("weigh")


async def test_what_the_tools_of_the_thread_came_to_counts(engine: Engine) -> None:
    async def calling(turn: Turn) -> None:
        await turn.call("lamps_list")
        await turn.call("lamps_list", colour="of no lamp")
        await turn.call("lamps_break")
        await turn.text_only("One of them is broken.")

    engine.talk.model.script(calling)
    await (await begun(engine, "look after the lamps")).whole()
    await engine.talk.answer()
    await (await begun(engine, "thanks", 2)).whole(2)
    before, after = (await engine.last(1)).factors, (await engine.last(2)).factors
    assert before
    assert after
    assert (before.tool_success_rate, after.tool_success_rate) == (1.0, 0.5)
    assert (before.context_completeness, after.context_completeness) == (0.666667, 1.0)


@pytest.mark.parametrize("trouble", [Transient("Slack is away."), Permanent("Slack refuses.")])
async def test_who_asks_may_be_unknown_while_slack_does_not_say_it(talk: Talking, trouble: Exception) -> None:
    engine = engine_of(talk, lead=trouble)
    step = await (await begun(engine, "I will sue you for a refund")).whole()
    assert step.course is Course.ESCALATE
    assert (await engine.step("give_up_deciding")) == step


async def test_a_turn_decides_among_the_tools_that_it_may_use_and_none_of_them_looks_into_documents(
    make_talk: Make, database: Database
) -> None:
    tools = [*REGISTRY.all(), *qa.TOOLS]
    talk = make_talk(registry=Registry(tools), ports=Ports().having(qa.KNOWLEDGE, PostgresKnowledge(database)))
    engine = engine_of(talk)
    await begun(engine, "please list the lamps")
    async with database.begin() as work:
        project = await work.estimates.open_project(TEAM, "Lamps", "EUR")
        await work.bindings.bind(talk.thread, "project", project.project_id, REPORTER)
        await work.estimates.set_locked(TEAM, project.project_id, locked=True)
    await engine.step("decide")
    shown = json.loads(talk.model.forms[-1].conversation.prompts[-1])["tools"]
    assert "lamps_list" in shown
    assert not {"qa_answer", "lamps_create"} & set(shown)


async def test_a_claim_in_the_middle_of_a_turn_waits_for_a_decision_of_its_own(engine: Engine) -> None:
    talk = engine.talk
    await begun(engine, "list the lamps, please")
    assert (await engine.whole()).course is Course.PROCEED
    await talk.think()
    await talk.said("only the red ones", "and I will sue you over the last one")
    await talk.think(step=2)
    said = [str(each["content"]) for each in talk.sent() if each.get("role") == "user"]
    assert said[-1] == "only the red ones"
    await engine.settled(OutcomeKind.ANSWERED, answered_at=2)
    await talk.begin(2)
    assert (await engine.whole(2)).course is Course.ESCALATE


async def test_a_person_who_takes_the_thread_while_a_turn_runs_is_what_came_of_its_decision(engine: Engine) -> None:
    await begun(engine, "I want my money back, or I will sue")
    await engine.whole()
    await engine.settled(OutcomeKind.ESCALATED)
    await begun(engine, "thanks", 2)
    assert (await engine.whole(2)).course is Course.PROCEED
    async with engine.talk.database.begin() as work:
        await work.handovers.take(HandoverRef(engine.talk.thread, 1), DEVELOPER)
    await engine.talk.think(2)
    await engine.talk.run(
        engine.talk.thinking.settle_turn,
        SettleRequest(engine.talk.thread, 2, OutcomeKind.ANSWERED, "", answered_at=1),
    )
    rows = await engine.talk.rows("SELECT outcome FROM decisions WHERE turn = 2")
    assert [each["outcome"] for each in rows] == [Result.TAKEN_OVER]


async def test_what_is_said_to_the_bot_while_it_overhears_others_is_a_turn_of_its_own(engine: Engine) -> None:
    talk = engine.talk
    await talk.said("hello")
    await talk.answer()
    aside = talk.message("shall we do it, Anna?", sender_id=BYSTANDER, addressed=False)
    await talk.said(aside)
    assert (await talk.begin(2)).overhears
    await talk.think(2)
    question = talk.message("@bot what does Enterprise cost?", sender_id=BYSTANDER)
    await talk.said(question, talk.message("I mean the big one", sender_id=BYSTANDER, addressed=False))
    await talk.think(2, 2)
    assert "Enterprise cost" not in str(talk.sent())
    marks = await talk.settle(Outcome(OutcomeKind.SILENT, ""), 2)
    assert (marks.turn_due, marks.addressed_due) == (True, True)
    assert not (await talk.begin(3)).overhears
    await talk.think(3)
    assert "Enterprise cost" in str(talk.sent())
    assert "the big one" in str(talk.sent())


async def test_who_writes_alone_and_calls_somebody_else_first_is_still_answered(engine: Engine) -> None:
    talk = engine.talk
    await talk.said("hello")
    await talk.answer()
    await talk.said(talk.message(f"<@{BYSTANDER}> can you check?", addressed=False))
    assert not (await talk.begin(2)).overhears
    await talk.think(2)
    await talk.said(talk.message("what does Enterprise cost?", addressed=False))
    assert (await talk.think(2, 2)).marks.addressed_due
    assert "Enterprise cost" in str(talk.sent())


@pytest.mark.parametrize("kind", [OutcomeKind.CLARIFIED, OutcomeKind.ANSWERED])
async def test_who_was_asked_back_answers_the_bot_without_calling_it_also_among_others(
    engine: Engine, kind: OutcomeKind
) -> None:
    talk = engine.talk
    await talk.said(talk.message("hello", sender_id=BYSTANDER))
    await talk.answer()
    engine.decides("CLARIFY", clarifying_question="Which plan do you mean?")
    await (await begun(engine, "how much does it cost?", 2)).whole(2)
    if kind is OutcomeKind.ANSWERED:
        await talk.think(2)
    await engine.settled(kind, 2, answered_at=int(kind is OutcomeKind.ANSWERED))
    told = await talk.said(talk.message("Enterprise, and I want my money back", addressed=False))
    assert (told.marks.turn_due, told.marks.addressed_due) == (True, kind is OutcomeKind.CLARIFIED)
