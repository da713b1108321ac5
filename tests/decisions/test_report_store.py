"""Outcomes read for reports: the last round, and whether a person answered an escalated turn."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from tests.conversations.test_rating_store import decide, outcomes
from tests.support.conversation_store import (
    REPORTER,
    THREAD,
    StoredConversation,
    mention,
    says,
    ts,
)
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.handovers import HandoverStore
from threadline.db.engine import Database
from threadline.decisions.model import DecisionOutcome, EscalationReason, escalation
from threadline.decisions.reports import Label
from threadline.decisions.store import DecisionStore
from threadline.threads.store import PostStore

REF = ConversationTurn(THREAD, 1)
PERSON = "U0PERSON"
DESK = "C0DESK"


@pytest.fixture
async def talk(database: Database) -> StoredConversation:
    """A conversation whose first turn waits for a person."""
    talk = StoredConversation(database)
    await talk.hear(mention(0, "I want my money back."))
    await talk.take_up(1)
    await decide(talk)
    async with database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        await store.escalate(row.id, 1, escalation(0.4, EscalationReason.LOW_CONFIDENCE))
        await store.close(row.id, 1, DecisionOutcome.ESCALATED, 0.25)
        await HandoverStore(tx).open(THREAD, 1, REPORTER)
    return talk


async def take(talk: StoredConversation, *, close: bool = False) -> None:
    async with talk.database.begin() as tx:
        await HandoverStore(tx).take(REF, PERSON)
        if close:
            await HandoverStore(tx).close(REF, PERSON)


async def answer(
    talk: StoredConversation, channel: str = THREAD.channel, thread_ts: str = THREAD.ts
) -> None:
    key = f"handover:{REF.key}:answer:T1:{DESK}:9.5"
    async with talk.database.begin() as tx:
        await PostStore(tx).claim(key, channel, thread_ts)
        await PostStore(tx).record_posted(key, "1700000999.000100")


async def labels(talk: StoredConversation) -> Sequence[Label]:
    return [each.label for each in await outcomes(talk)]


async def test_open_handover_has_no_label(talk: StoredConversation) -> None:
    assert await labels(talk) == [Label.UNLABELLED]
    await take(talk)
    assert await labels(talk) == [Label.UNLABELLED]


async def test_answer_under_the_card_was_needed(talk: StoredConversation) -> None:
    await take(talk)
    await answer(talk)
    assert await labels(talk) == [Label.ESCALATION_NEEDED]
    await take(talk, close=True)
    assert await labels(talk) == [Label.ESCALATION_NEEDED]


async def test_answer_in_the_thread_was_needed(talk: StoredConversation) -> None:
    await take(talk, close=True)
    later = datetime.now(UTC).timestamp() - float(ts(0)) + 60
    await talk.store(says(later, "Here you are.", sender_id=PERSON))
    assert await labels(talk) == [Label.ESCALATION_NEEDED]


async def test_messages_before_the_handover_or_after_its_end_are_no_answer(
    talk: StoredConversation,
) -> None:
    await talk.store(says(0.5, "I am here, too.", sender_id=PERSON))
    await take(talk, close=True)
    assert await labels(talk) == [Label.ESCALATION_NOT_NEEDED]
    await answer(talk, DESK, "9.0")
    assert await labels(talk) == [Label.ESCALATION_NOT_NEEDED]


async def test_only_the_last_round_of_recent_decisions_of_the_workspace_is_read(
    talk: StoredConversation,
) -> None:
    await decide(talk, round_=2)
    assert [each.made.round for each in await outcomes(talk, THREAD.team)] == [2]
    assert await outcomes(talk, "T9") == []
    await talk.do("UPDATE decisions SET decided_at = now() - interval '2 days'")
    assert await outcomes(talk) == []
