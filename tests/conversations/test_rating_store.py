"""Thumbs on answers: the last thumb of each person counts once, for the turn of the answer."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.conversation_store import (
    REPORTER,
    STRANGER,
    THREAD,
    StoredConversation,
    identity,
    mention,
)
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.judged_decisions import judged_since
from threadline.db.engine import Database
from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionRound,
    DecisionType,
    Factors,
    Judgement,
    NextStep,
    Thresholds,
)
from threadline.decisions.reports import JudgedDecision, Label
from threadline.decisions.store import DecisionStore
from threadline.threads.model import (
    IncomingMessage,
    MessageKind,
    SenderType,
    message_id,
    reaction_id,
)
from threadline.threads.store import PostStore

DECIDED = Decision(DecisionType.RETRIEVE, "It asks for a price.", query="Starter price")
ANSWER = "1700000900.000100"
SECOND_PART = "1700000900.000200"
WORD = "1700000900.000300"


def thumb(
    at: float,
    name: str = "+1",
    by: str = REPORTER,
    on: str = ANSWER,
    kind: MessageKind = MessageKind.REACTION_ADDED,
) -> IncomingMessage:
    moment = f"{1_700_001_000 + at:.6f}"
    return IncomingMessage(
        id=reaction_id(THREAD.team, THREAD.channel, on, by, name, moment),
        kind=kind,
        sender_type=SenderType.UNKNOWN,
        sender_id=by,
        text=name,
        channel=THREAD.channel,
        ts=moment,
        correction_of=message_id(THREAD.team, THREAD.channel, on),
    )


def taken(at: float, name: str = "+1", by: str = REPORTER, on: str = ANSWER) -> IncomingMessage:
    return thumb(at, name, by, on, MessageKind.REACTION_REMOVED)


async def post(talk: StoredConversation, key: str, ts: str) -> None:
    async with talk.database.begin() as tx:
        await PostStore(tx).claim(f"conversation:{THREAD.key}:{key}", THREAD.channel, THREAD.ts)
        await PostStore(tx).record_posted(f"conversation:{THREAD.key}:{key}", ts)


async def outcomes(talk: StoredConversation, team: str = "") -> list[JudgedDecision]:
    async with talk.database.begin() as tx:
        return await judged_since(tx, datetime.now(UTC) - timedelta(days=1), team)


async def votes(talk: StoredConversation) -> tuple[int, int]:
    (found,) = await outcomes(talk)
    return found.thumbs_up, found.thumbs_down


async def decide(talk: StoredConversation, turn: int = 1, round_: int = 1) -> None:
    made = DecisionRound(round_, DECIDED, Thresholds(0.8, 0.4), "abc", "v1", "calm")
    async with talk.database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        store = DecisionStore(tx)
        await store.add(row.id, turn, made)
        await store.add_judgement(
            row.id, turn, round_, Factors(0.95, 0.1, 0.8), Judgement(NextStep.PROCEED, 0.905)
        )


@pytest.fixture
async def talk(database: Database) -> StoredConversation:
    """A turn with an answer of two messages; another message of the bot's answers no turn."""
    talk = StoredConversation(database)
    await talk.hear(mention(0, "What does Starter cost?"))
    await talk.take_up(1)
    await decide(talk)
    async with database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        await DecisionStore(tx).close(row.id, 1, DecisionOutcome.ANSWERED, 0.25)
    for key, ts in (("turn:1", ANSWER), ("turn:1#2", SECOND_PART), ("throttled:turn:1:x", WORD)):
        await post(talk, key, ts)
    return talk


async def test_decision_is_read_with_its_result_and_ratings(talk: StoredConversation) -> None:
    await talk.store(thumb(1))
    (found,) = await outcomes(talk)
    made = found.made
    assert (found.thread, found.turn, made.round, made.variant, made.prompt_version) == (
        THREAD,
        1,
        1,
        "calm",
        "v1",
    )
    assert (made.decision, made.thresholds, made.factors) == (
        DECIDED,
        Thresholds(0.8, 0.4),
        Factors(0.95, 0.1, 0.8),
    )
    assert (found.judgement, found.outcome, found.cost_usd) == (
        Judgement(NextStep.PROCEED, 0.905),
        DecisionOutcome.ANSWERED,
        0.25,
    )
    assert (found.thumbs_up, found.thumbs_down, found.label) == (1, 0, Label.GOOD)


async def test_last_thumb_counts_in_any_order_of_arrival(talk: StoredConversation) -> None:
    await talk.store(taken(2))
    await talk.store(thumb(1))
    assert await votes(talk) == (0, 0)
    await talk.store(taken(2), thumb(3), thumb(1))
    assert await votes(talk) == (1, 0)


async def test_thumb_of_a_person_counts_once_in_any_skin_tone(talk: StoredConversation) -> None:
    await talk.store(thumb(1), thumb(1), thumb(2, "+1::skin-tone-3"), thumb(3, on=SECOND_PART))
    await talk.store(thumb(1))
    assert await votes(talk) == (1, 0)
    await talk.store(taken(4))
    assert await votes(talk) == (1, 0), "the thumb of another tone is there still"


async def test_later_of_two_thumbs_of_a_person_counts(talk: StoredConversation) -> None:
    await talk.store(thumb(1), thumb(2, "-1::skin-tone-6"))
    assert await votes(talk) == (0, 1)
    await talk.store(taken(3, "-1::skin-tone-6"))
    assert await votes(talk) == (1, 0)


async def test_thumb_of_each_person_counts_until_it_is_taken_away(
    talk: StoredConversation,
) -> None:
    await talk.store(thumb(1), thumb(2, by=STRANGER), thumb(3, "-1", by="U9"))
    assert await votes(talk) == (2, 1)
    await talk.store(taken(4))
    assert await votes(talk) == (1, 1)


@pytest.mark.parametrize("on", [WORD, identity(0).rpartition(":")[2], "1.000000"])
async def test_thumb_on_another_message_does_not_count(talk: StoredConversation, on: str) -> None:
    await talk.store(thumb(1, on=on))
    assert await votes(talk) == (0, 0)


async def test_thumb_stored_before_its_answer_counts_later(talk: StoredConversation) -> None:
    await decide(talk, 2)
    await talk.store(thumb(1, on="1700000950.000100"))
    assert [each.thumbs_up for each in await outcomes(talk)] == [0, 0]
    await post(talk, "turn:2", "1700000950.000100")
    assert [(each.turn, each.thumbs_up) for each in await outcomes(talk)] == [(1, 0), (2, 1)]


async def test_thumb_needs_no_turn_and_is_no_message(talk: StoredConversation) -> None:
    before = await talk.rows("SELECT count(*) AS count FROM conversation_messages")
    snapshot = (await talk.store(thumb(1, by=STRANGER))).snapshot
    assert snapshot == await talk.snapshot()
    assert await talk.rows("SELECT count(*) AS count FROM conversation_messages") == before
    (row,) = await talk.rows("SELECT stored, has_several_people FROM conversations")
    assert (row["stored"], row["has_several_people"]) == (1, False)


async def test_thumb_opens_no_conversation(database: Database) -> None:
    nowhere = StoredConversation(database)
    stored = await nowhere.store(thumb(1))
    assert not stored.snapshot.exists
    assert (stored.quarantined, await nowhere.rows("SELECT * FROM ratings")) == ((), [])


async def test_thumbs_are_deleted_with_the_conversation(talk: StoredConversation) -> None:
    await talk.store(thumb(1))
    async with talk.database.begin() as tx:
        assert await ConversationStore(tx).prune(datetime.now(UTC).timestamp() + 60) == 1
    assert await talk.rows("SELECT * FROM ratings") == []
