"""The conversations of a channel that are at work."""

from sqlalchemy import text

from tests.support.conversation_store import THREAD, StoredConversation, deletion, mention
from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.slack.model import Thread

_OPEN = """
INSERT INTO conversations (team, channel, thread_ts, stored, turn, last_at)
VALUES (:team, :channel, :ts, 1, :turn, now() - make_interval(hours => :hours)) RETURNING id
"""
_SAY = """
INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id,
                                   message_type, message_text,
                                   channel, slack_ts, said_at, wants_turn, turn)
VALUES (:conversation_id, 1, :id, 'unknown', 'U1', 'message', 'hi', :channel, '1.0', 1,
        :wants_turn, :used)
"""


async def talk(
    database: Database,
    ts: str,
    *,
    team: str = "T1",
    channel: str = "D1",
    turn: int = 1,
    used: int | None = None,
    wants_turn: bool = True,
    hours: int = 0,
) -> Thread:
    """A conversation with one message, which the turn `used` has read; `turn` is the last settled
    turn.
    """
    async with database.begin() as tx:
        opening = {"team": team, "channel": channel, "ts": ts, "turn": turn, "hours": hours}
        conversation_id = (await tx.execute(text(_OPEN), opening)).scalar_one()
        said = {
            "conversation_id": conversation_id,
            "id": f"{team}:{channel}:{ts}",
            "channel": channel,
        }
        await tx.execute(text(_SAY), said | {"wants_turn": wants_turn, "used": used})
    return Thread(team, channel, ts)


async def at_work(database: Database) -> Thread | None:
    async with database.begin() as tx:
        return await ConversationStore(tx).active_in_channel("T1", "D1")


async def test_working_conversation_has_something_to_answer(database: Database) -> None:
    await talk(database, "1.0", used=1)
    await talk(database, "2.0", wants_turn=False)
    await talk(database, "3.0", channel="D2")
    await talk(database, "4.0", team="T2")
    await talk(database, "5.0", hours=25)
    assert await at_work(database) is None

    waiting = await talk(database, "6.0", hours=2)
    assert await at_work(database) == waiting

    thinking = await talk(database, "7.0", turn=1, used=2, hours=1)
    assert await at_work(database) == thinking


async def test_conversation_began_with_its_first_message(database: Database) -> None:
    thread = await talk(database, "1.0")
    async with database.begin() as tx:
        assert await MessageStore(tx).first_said_at(thread) == 1
        assert await MessageStore(tx).first_said_at(Thread("T1", "D1", "2.0")) is None


async def test_last_answer_of_a_thread_is_the_last_that_was_posted(database: Database) -> None:
    for ts, channel in (("1.0", "D1"), ("2.0", "D1"), ("3.0", "D2")):
        thread = await talk(database, ts, channel=channel, turn=0)
        for turn, words in enumerate(("first", "second " * 5, "not posted"), start=1):
            async with database.begin() as tx:
                await TurnStore(tx).settle(thread, turn, OutcomeKind.ANSWERED, words, "U1")
                if turn < 3:
                    await TurnStore(tx).mark_posted(thread, turn)
    async with database.begin() as tx:
        found = await TurnStore(tx).last_answers("T1", "D1", ["1.0", "3.0", "9.0"], longest=6)
    assert [answer for answer, _ in found] == ["second"]


async def test_answer_to_a_deleted_message_is_not_shown_in_other_threads(
    database: Database,
) -> None:
    people = StoredConversation(database)
    await people.hear(mention(0, "what is due?"))
    await people.turn(1, "A crane.")
    await people.hear(mention(10, "my salary is 90k"))
    await people.turn(2, "Noted: 90k.")
    await people.hear(deletion(10))
    async with database.begin() as tx:
        found = await TurnStore(tx).last_answers(THREAD.team, THREAD.channel, [THREAD.ts])
    assert [answer for answer, _ in found] == ["A crane."]
