"""Decisions in Postgres: kept and weighed once a round, and without quotes of deleted messages."""

from dataclasses import replace

import pytest

from tests.support.conversation_store import THREAD, StoredConversation, deletion, mention
from threadline.db.engine import Database
from threadline.decisions.confidence import Factors, Thresholds
from threadline.decisions.model import (
    Action,
    Course,
    Decided,
    Deliberation,
    Reason,
    Result,
    Retrieval,
    Source,
    Verdict,
    handed_over,
)

DECIDED = Decided(Action.RETRIEVE, "It asks for a price.", query="Starter price", complexity=0.1, own_confidence=0.9)
FIRST = Deliberation(1, DECIDED, Thresholds(), "abc", "v1", "calm")
PRICE = Source("Pricing", "Starter", "pricing.md", "pricing", "Starter is 29 a month.", 0.9)
FACTORS = Factors(0.95, 0.1, 0.8)
PROCEED = Verdict(Course.PROCEED, 0.905)


@pytest.fixture
async def talk(database: Database) -> StoredConversation:
    talk = StoredConversation(database)
    await talk.hear(mention(0, "What does Starter cost?"))
    await talk.take_up(1)
    return talk


async def kept(talk: StoredConversation) -> list[Deliberation]:
    async with talk.database.begin() as work:
        return await work.decisions.of(THREAD, 1)


async def keep(talk: StoredConversation, turn: int, *rounds: Deliberation, outcome: Result | None = None) -> None:
    async with talk.database.begin() as work:
        for each in rounds:
            await work.decisions.keep(THREAD, turn, each)
        if outcome:
            await work.decisions.settled(THREAD, turn, outcome, 0.25)


async def test_first_attempt_is_read_back_and_a_second_changes_nothing(talk: StoredConversation) -> None:
    retrieval = Retrieval(0.95, critical=True, suspicious=((0, 1),))
    await keep(talk, 1, FIRST, replace(FIRST, decided=replace(DECIDED, action=Action.REASON_ONLY)))
    async with talk.database.begin() as work:
        await work.decisions.found(THREAD, 1, 1, [PRICE], retrieval)
        await work.decisions.found(THREAD, 1, 1, [], Retrieval(failed=True))
        await work.decisions.weighed(THREAD, 1, 1, FACTORS, PROCEED)
        await work.decisions.weighed(THREAD, 1, 1, FACTORS, handed_over(0.3, Reason.LOW_CONFIDENCE))
    whole = replace(FIRST, sources=(PRICE,), retrieval=retrieval, factors=FACTORS, verdict=PROCEED)
    assert await kept(talk) == [whole]


async def test_later_escalation_changes_the_last_round_only(talk: StoredConversation) -> None:
    await keep(talk, 1, FIRST, replace(FIRST, round=2))
    async with talk.database.begin() as work:
        for each in (1, 2):
            await work.decisions.weighed(THREAD, 1, each, FACTORS, PROCEED)
        await work.decisions.escalated(THREAD, 1, handed_over(0.905, Reason.TOOL_FAILURE))
    first, last = await kept(talk)
    assert first.verdict == PROCEED
    assert last.verdict == Verdict(Course.ESCALATE, 0.35, Reason.TOOL_FAILURE)


async def test_settled_turn_keeps_names_of_sources_without_texts(talk: StoredConversation) -> None:
    await keep(talk, 1, FIRST)
    async with talk.database.begin() as work:
        await work.decisions.found(THREAD, 1, 1, [PRICE], Retrieval(0.9))
    await keep(talk, 1, outcome=Result.ANSWERED)
    (made,) = await kept(talk)
    assert made.sources == (replace(PRICE, text=""),)
    async with talk.database.begin() as work:
        assert await work.decisions.known_sources(THREAD, 2) == [replace(PRICE, text="", score=0.0)]
        assert await work.decisions.known_sources(THREAD, 1) == []


async def test_questions_in_a_row_are_counted_since_the_last_answer(talk: StoredConversation) -> None:
    asked = replace(FIRST, decided=replace(DECIDED, action=Action.CLARIFY))
    for turn, outcome in enumerate((Result.CLARIFIED, Result.ANSWERED, Result.CLARIFIED, Result.CLARIFIED), start=1):
        await keep(talk, turn, asked, outcome=outcome)
    async with talk.database.begin() as work:
        counts = [await work.decisions.questions_in_a_row(THREAD, turn) for turn in range(1, 6)]
    assert counts == [0, 1, 0, 1, 2]


async def test_deleting_a_message_deletes_its_quotes(talk: StoredConversation) -> None:
    await keep(talk, 1, FIRST, outcome=Result.ANSWERED)
    await talk.store(deletion(0))
    (made,) = await kept(talk)
    assert (made.decided.action, made.decided.query, made.decided.reasoning) == (Action.RETRIEVE, "", "")
