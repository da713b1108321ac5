"""Drafts of answers: the decision and the turn's first model call at the same time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from tests.support.conversation_activities import (
    ConversationActivityScene,
    Make,
    make_talk,
    talk,
)
from tests.support.decision_activities import Engine, engine_of
from tests.support.temporal import until
from threadline.conversations import draft
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import TurnDecision
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.draft_share import DraftShare
from threadline.decisions.model import NextStep
from threadline.models.errors import MODEL_FAULT
from threadline.slack.model import FileRef
from threadline.threads.model import IncomingMessage, MessageKind

__all__ = ["make_talk", "talk"]

DECIDING = "filling-in:decision"
ANSWERING = "conversing"
WORDS = "and now"


@pytest.fixture
def engine(talk: ConversationActivityScene) -> Engine:
    engine = engine_of(talk)
    drafting(engine, DraftShare())
    return engine


def drafting(engine: Engine, share: DraftShare | None) -> None:
    deps = engine.talk.activities.deps
    decision = replace(deps.decision, draft_share=share)
    engine.talk.activities = LiveConversationActivities(replace(deps, decision=decision))


async def purposes(engine: Engine) -> list[str]:
    rows = await engine.talk.rows("SELECT purpose FROM model_calls ORDER BY purpose")
    return [each["purpose"] for each in rows]


async def keys(engine: Engine) -> list[str]:
    """The keys in the transcript."""
    return [key for key, _ in await engine.talk.transcript()]


async def decided_during_draft(
    engine: Engine, meanwhile: Callable[[], Awaitable[object]]
) -> TurnDecision:
    """Decide, while the draft waits for the model, and do something before it comes back."""
    holds = engine.talk.model.holds
    holds.arm(ANSWERING)
    deciding = asyncio.create_task(engine.decided(WORDS))
    await holds.reached(ANSWERING)
    await until_decided(engine)
    await meanwhile()
    await holds.release(ANSWERING)
    return await deciding


async def until_decided(engine: Engine) -> None:
    async def is_judged() -> bool:
        return bool(await engine.talk.rows("SELECT 1 FROM decisions WHERE next_step IS NOT NULL"))

    await until(is_judged, "the decision is recorded")


async def decided_once_drafting(engine: Engine, words: str) -> TurnDecision:
    """Decide about a message, and let the decision wait until the draft has asked the model."""
    holds = engine.talk.model.holds
    holds.arm(DECIDING)
    deciding = asyncio.create_task(engine.decided(words))
    await holds.reached(DECIDING)

    async def is_asked() -> bool:
        return len(engine.talk.model.log) == 1

    await until(is_asked, "the draft's call")
    assert await keys(engine) == [], "nothing is stored before the decision"
    await holds.release(DECIDING)
    return await deciding


async def test_model_is_asked_for_the_answer_while_it_decides(engine: Engine) -> None:
    assert (await decided_once_drafting(engine, WORDS)).course is NextStep.PROCEED


async def test_draft_is_the_reply_of_the_first_step(engine: Engine) -> None:
    assert (await engine.decided(WORDS)).course is NextStep.PROCEED
    thought = await engine.talk.think()
    assert thought.reply.text == "I can help with lamps."
    assert thought.step == 1
    assert len(engine.talk.model.log) == 1
    assert await purposes(engine) == ["decide", "think"]
    assert len([each for each in await keys(engine) if each == "a:1:1"]) == 1


async def test_draft_asks_what_a_think_would_ask(engine: Engine, make_talk: Make) -> None:
    """One clock for both: the prompt names the time."""
    plain = engine_of(make_talk())
    at = engine.talk.at
    for each in (engine, plain):
        deps = each.talk.activities.deps
        each.talk.activities = LiveConversationActivities(replace(deps, clock=lambda: at))
        each.talk.at = at
        await each.decided(WORDS)
        await each.talk.think()
    assert engine.talk.sent() == plain.talk.sent()


async def test_turn_without_drafts_asks_one_after_the_other(engine: Engine) -> None:
    drafting(engine, None)
    await engine.decided(WORDS)
    assert len(engine.talk.model.log) == 0
    await engine.talk.think()
    assert await purposes(engine) == ["decide", "think"]


@pytest.mark.parametrize(
    ("decision", "course"),
    [
        ("RETRIEVE", NextStep.PROCEED),
        ("ESCALATE", NextStep.ESCALATE),
        ("CLARIFY", NextStep.CLARIFY),
    ],
)
async def test_draft_is_dropped_and_paid_for_where_the_decision_goes_elsewhere(
    engine: Engine, decision: str, course: NextStep
) -> None:
    engine.decides(
        decision,
        retrieval_query="price",
        clarifying_question="Which plan?",
        escalation_reason="They ask for a person.",
        intent_clear=decision != "CLARIFY",
    )
    assert (await decided_once_drafting(engine, "what does it cost?")).course is course

    async def is_paid() -> bool:
        return "draft" in await purposes(engine)

    await until(is_paid, "the cost of the draft is stored")
    assert not [each for each in await keys(engine) if each.startswith("a:")]
    if course is NextStep.PROCEED:
        await engine.talk.think()
        assert "990 a month" in str(engine.talk.sent())
        assert (await purposes(engine)).count("think") == 1


async def test_message_that_arrives_during_a_draft_waits_for_the_next_step(engine: Engine) -> None:
    await decided_during_draft(engine, lambda: engine.talk.said("no, wait, list the lamps"))
    thought = await engine.talk.think()
    assert thought.reply.text == "I can help with lamps."
    assert thought.snapshot.addressed_due
    await engine.talk.think(step=2)
    assert "no, wait" in str(engine.talk.sent())


async def test_draft_of_a_deleted_message_is_dropped(engine: Engine) -> None:
    said = engine.talk.message("and now, with a secret")

    async def delete() -> None:
        await engine.talk.said(engine.talk.deletion(said))

    await engine.talk.said(said)
    await engine.talk.begin()
    holds = engine.talk.model.holds
    holds.arm(ANSWERING)
    deciding = asyncio.create_task(engine.decide())
    await holds.reached(ANSWERING)
    await until_decided(engine)
    await delete()
    await holds.release(ANSWERING)
    await deciding
    assert not [each for each in await keys(engine) if each.startswith("a:")]
    assert (await engine.talk.think()).reply.text != "I can help with lamps."


async def test_draft_of_an_edited_message_is_dropped(engine: Engine) -> None:
    said = engine.talk.message(WORDS)
    await engine.talk.said(said)
    await engine.talk.begin()
    holds = engine.talk.model.holds
    holds.arm(ANSWERING)
    deciding = asyncio.create_task(engine.decide())
    await holds.reached(ANSWERING)
    await until_decided(engine)
    edit = engine.talk.message(
        "and now list the lamps", kind=MessageKind.EDIT, correction_of=said.id, version="2"
    )
    await engine.talk.said(edit)
    await holds.release(ANSWERING)
    await deciding
    await engine.talk.think()
    assert "and now list the lamps" in str(engine.talk.sent())


async def test_draft_is_dropped_when_a_stop_is_requested(engine: Engine) -> None:
    def stop() -> IncomingMessage:
        return engine.talk.message("stop", kind=MessageKind.STOP)

    await decided_during_draft(engine, lambda: engine.talk.said(stop()))
    assert await keys(engine) == []


async def test_turn_with_files_that_are_not_fetched_yet_has_no_draft(engine: Engine) -> None:
    await engine.talk.said(engine.talk.message("see", files=(FileRef("F1", "log.txt"),)))
    await engine.talk.begin()
    assert (await engine.talk.opened()).snapshot.files_due
    await engine.decide()
    assert len(engine.talk.model.log) == 0


async def test_failed_draft_is_recorded_as_a_draft_and_the_turn_asks_again(engine: Engine) -> None:
    engine.talk.model.fail_next(1, status=400, schema_name="")
    assert (await engine.decided(WORDS)).course is NextStep.PROCEED
    (failed,) = await engine.talk.rows("SELECT purpose FROM model_calls WHERE failure <> ''")
    assert failed["purpose"] == "draft"
    assert (await engine.talk.think()).reply.text == "I can help with lamps."


async def test_fault_in_the_code_of_a_draft_leaves_the_decision(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def break_off(*_: object) -> None:
        raise KeyError("a fault in the code")

    monkeypatch.setattr(draft, "prompt_of", break_off)
    assert (await engine.decided(WORDS)).course is NextStep.PROCEED
    assert (await engine.talk.think()).reply.text == "I can help with lamps."


async def test_model_that_answered_a_draft_works(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    works: list[str] = []

    async def note(fault: str) -> None:
        works.append(fault)

    monkeypatch.setattr(engine.talk.activities.deps.outbox.recovery, "works", note)
    await engine.decided(WORDS)
    assert works == [MODEL_FAULT]


async def test_draft_whose_decision_is_cancelled_stores_its_cost(engine: Engine) -> None:
    holds = engine.talk.model.holds
    holds.arm(ANSWERING)
    holds.arm(DECIDING)
    await engine.hears(WORDS)
    deciding = asyncio.create_task(engine.decide())
    await holds.reached(ANSWERING)
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    await holds.release(ANSWERING)

    async def is_paid() -> bool:
        return await purposes(engine) == ["draft"]

    await until(is_paid, "the cost of the draft is stored")
    assert await keys(engine) == []


async def test_draft_that_has_not_asked_when_the_decision_is_cancelled_never_asks(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def wait(*_: object) -> None:
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(draft, "_rehearse", wait)
    engine.talk.model.holds.arm(DECIDING)
    await engine.hears(WORDS)
    deciding = asyncio.create_task(engine.decide())
    await begun.wait()
    deciding.cancel()
    with pytest.raises(asyncio.CancelledError):
        await deciding
    await asyncio.gather(*draft._ending, return_exceptions=True)
    assert len(engine.talk.model.log) == 0


async def test_turn_whose_roles_slack_has_to_tell_has_no_draft(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ConversationDeps, "knows_roles", False)
    await engine.decided(WORDS)
    assert len(engine.talk.model.log) == 0


async def test_sensitive_turn_has_no_draft_and_does_not_count(engine: Engine) -> None:
    share = DraftShare()
    drafting(engine, share)
    await engine.decided("I want a refund")
    assert len(engine.talk.model.log) == 0
    assert share.share == 1.0


@pytest.mark.parametrize(("words", "share_after"), [(WORDS, 1.0), ("what does it cost?", 0.9)])
async def test_share_counts_kept_and_dropped_drafts(
    engine: Engine, words: str, share_after: float
) -> None:
    share = DraftShare()
    drafting(engine, share)
    if words != WORDS:
        engine.decides("RETRIEVE", retrieval_query="price")
    await engine.decided(words)
    assert share.share == pytest.approx(share_after)


async def test_second_attempt_finds_the_draft_that_was_kept(engine: Engine) -> None:
    first = await engine.decided(WORDS)
    assert await engine.decide(attempt=2) == first
    await engine.talk.think(attempt=2)
    assert await purposes(engine) == ["decide", "think"]
    assert len(engine.talk.model.log) == 1


async def test_no_draft_where_most_decisions_would_drop_it(engine: Engine) -> None:
    share = DraftShare(share=0.5)
    drafting(engine, share)
    await engine.decided(WORDS)
    assert len(engine.talk.model.log) == 0
    assert share.share == pytest.approx(0.55), "the decision would have kept it"


@pytest.mark.parametrize(
    ("drops", "is_worthwhile"), [(0, True), (2, True), (3, False), (20, False)]
)
def test_drafts_pause_while_more_than_one_in_four_is_dropped(
    drops: int, is_worthwhile: bool
) -> None:
    share = DraftShare()
    for _ in range(drops):
        share.note(keeps_draft=False)
    assert share.is_worthwhile is is_worthwhile
    for _ in range(30):
        share.note(keeps_draft=True)
    assert share.is_worthwhile
