"""Decisions in Postgres: stored and judged once per round, and without quotes of deleted
messages.
"""

from dataclasses import replace

import pytest

from tests.support.conversation_store import THREAD, StoredConversation, deletion, mention
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Database
from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionRound,
    DecisionType,
    EscalationReason,
    Factors,
    Judgement,
    NextStep,
    Thresholds,
    escalation,
)
from threadline.decisions.store import DecisionStore
from threadline.knowledge.model import Retrieval, Source

DECIDED = Decision(
    DecisionType.RETRIEVE,
    "It asks for a price.",
    query="Starter price",
    complexity=0.1,
    model_confidence=0.9,
)
FIRST = DecisionRound(1, DECIDED, Thresholds(), "abc", "v1", "calm")
PRICE = Source("Pricing", "Starter", "pricing.md", "pricing", "Starter is 29 a month.", 0.9)
FACTORS = Factors(0.95, 0.1, 0.8)
PROCEED = Judgement(NextStep.PROCEED, 0.905)


@pytest.fixture
async def talk(database: Database) -> StoredConversation:
    talk = StoredConversation(database)
    await talk.hear(mention(0, "What does Starter cost?"))
    await talk.take_up(1)
    return talk


async def kept(talk: StoredConversation) -> list[DecisionRound]:
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        return await DecisionStore(tx).rounds(row.id, 1)


async def keep(
    talk: StoredConversation,
    turn: int,
    *rounds: DecisionRound,
    outcome: DecisionOutcome | None = None,
) -> None:
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        for each in rounds:
            await store.add(row.id, turn, each)
        if outcome:
            await store.close(row.id, turn, outcome, 0.25)


async def test_first_attempt_is_read_back_and_a_second_changes_nothing(
    talk: StoredConversation,
) -> None:
    retrieval = Retrieval(0.95, critical=True, suspicious=((0, 1),))
    await keep(
        talk, 1, FIRST, replace(FIRST, decision=replace(DECIDED, type=DecisionType.REASON_ONLY))
    )
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        await store.add_sources(row.id, 1, 1, [PRICE], retrieval)
        await store.add_sources(row.id, 1, 1, [], Retrieval(failed=True))
        await store.add_judgement(row.id, 1, 1, FACTORS, PROCEED)
        await store.add_judgement(
            row.id, 1, 1, FACTORS, escalation(0.3, EscalationReason.LOW_CONFIDENCE)
        )
    whole = replace(
        FIRST, sources=(PRICE,), retrieval=retrieval, factors=FACTORS, judgement=PROCEED
    )
    assert await kept(talk) == [whole]


async def test_later_escalation_changes_the_last_round_only(talk: StoredConversation) -> None:
    await keep(talk, 1, FIRST, replace(FIRST, round=2))
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        for each in (1, 2):
            await store.add_judgement(row.id, 1, each, FACTORS, PROCEED)
        await store.escalate(row.id, 1, escalation(0.905, EscalationReason.TOOL_FAILURE))
    first, last = await kept(talk)
    assert first.judgement == PROCEED
    assert last.judgement == Judgement(NextStep.ESCALATE, 0.35, EscalationReason.TOOL_FAILURE)


async def test_settled_turn_keeps_names_of_sources_without_texts(talk: StoredConversation) -> None:
    await keep(talk, 1, FIRST)
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        await DecisionStore(tx).add_sources(row.id, 1, 1, [PRICE], Retrieval(0.9))
    await keep(talk, 1, outcome=DecisionOutcome.ANSWERED)
    (made,) = await kept(talk)
    assert made.sources == (replace(PRICE, text=""),)
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        assert await store.recent_sources(row.id, 2) == [replace(PRICE, text="", score=0.0)]
        assert await store.recent_sources(row.id, 1) == []


async def test_questions_in_a_row_are_counted_since_the_last_answer(
    talk: StoredConversation,
) -> None:
    asked = replace(FIRST, decision=replace(DECIDED, type=DecisionType.CLARIFY))
    for turn, outcome in enumerate(
        (
            DecisionOutcome.CLARIFIED,
            DecisionOutcome.ANSWERED,
            DecisionOutcome.CLARIFIED,
            DecisionOutcome.CLARIFIED,
        ),
        start=1,
    ):
        await keep(talk, turn, asked, outcome=outcome)
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        counts = [
            await DecisionStore(tx).consecutive_questions(row.id, turn) for turn in range(1, 6)
        ]
    assert counts == [0, 1, 0, 1, 2]


async def test_deleting_a_message_deletes_its_quotes(talk: StoredConversation) -> None:
    await keep(talk, 1, FIRST, outcome=DecisionOutcome.ANSWERED)
    await talk.store(deletion(0))
    (made,) = await kept(talk)
    assert (made.decision.type, made.decision.query, made.decision.reasoning) == (
        DecisionType.RETRIEVE,
        "",
        "",
    )
