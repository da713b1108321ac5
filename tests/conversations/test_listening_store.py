"""The rule for silence on the real database: the modes of a channel, and quiet threads."""

import pytest

from tests.support.conversation_store import (
    REPORTER,
    STRANGER,
    THREAD,
    StoredConversation,
    identity,
    mention,
    says,
    texts,
)
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.model.listening import Listen, Listening
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.messages import MessageStore
from threadline.db.engine import Database
from threadline.threads.model import IncomingMessage

HOUR = 3600.0
"""The seconds of a quiet thread in these tests."""


class Listener(StoredConversation):
    """A conversation in a channel of a mode."""

    def __init__(self, database: Database, listen: Listen = Listen.MEANT) -> None:
        super().__init__(database)
        self.listening = Listening(by_channel={THREAD.channel: listen}, quiet_for=HOUR)

    async def due(self, *batch: IncomingMessage) -> str:
        """Store messages, and return what they make due: `answer`, `weigh` or nothing."""
        async with self.database.begin() as tx:
            stored = await MessageStore(tx).store(self.thread, batch, self.listening)
            verdicts = {each.message_id: None for each in stored.unjudged}
            if not stored.exists:
                return ""
            found = await MessageStore(tx).judge(self.thread, verdicts)
        return _due(found)


def _due(found: ConversationSnapshot) -> str:
    if not found.turn_due:
        return ""
    return "answer" if found.addressed_due else "weigh"


@pytest.fixture
async def meant(database: Database) -> Listener:
    """A thread in which the bot has answered one person."""
    return await _begun(Listener(database))


async def _begun(talk: Listener) -> Listener:
    assert await talk.due(mention(1, root_author_id=REPORTER)) == "answer"
    await talk.turn(1)
    return talk


async def test_only_mentions_are_answered_where_the_channel_wants_that(
    database: Database,
) -> None:
    talk = await _begun(Listener(database, Listen.MENTIONED))
    assert await talk.due(says(2, "and the second one?")) == ""
    assert await talk.due(mention(3, "and the third one?")) == "answer"
    assert texts(await talk.take_up(2)) == ["and the second one?", "and the third one?"], (
        "the next turn reads what was only stored"
    )


async def test_an_answer_to_a_question_needs_a_mention_only_where_mentions_count(
    database: Database,
) -> None:
    talk = Listener(database, Listen.MENTIONED)
    await talk.due(mention(1, root_author_id=REPORTER))
    await talk.take_up(1)
    await talk.settle(1, "Which one?", question="Which one?")
    assert await talk.due(says(2, "the first one")) == ""


async def test_every_message_is_answered_except_talk_between_people(database: Database) -> None:
    talk = await _begun(Listener(database, Listen.EVERY))
    assert await talk.due(says(2, "for me too", sender_id=STRANGER)) == "answer"
    await talk.turn(2)
    assert await talk.due(says(3, f"<@{STRANGER}> since when?")) == ""
    assert await talk.due(says(4, "since today", sender_id=STRANGER)) == ""
    assert await talk.due(says(5, "then it is the release")) == ""
    assert await talk.due(mention(6, "was there a release?")) == "answer"
    await talk.turn(3)
    assert await talk.due(says(7, "and before?")) == "answer"


async def test_two_people_before_the_first_answer_talk_to_each_other(database: Database) -> None:
    talk = Listener(database, Listen.EVERY)
    reply = says(2, "did you restart it?", sender_id=STRANGER)
    assert await talk.due(mention(1), reply) == "answer"
    taken = await talk.take_up(1)
    assert texts(taken) == ["any news", "did you restart it?"]
    assert [each.only_stored for each in taken] == [False, True]


@pytest.mark.parametrize("listen", Listen)
async def test_a_message_to_another_person_gets_no_turn(
    database: Database, listen: Listen
) -> None:
    talk = await _begun(Listener(database, listen))
    assert await talk.due(says(2, f"<@{STRANGER}> have a look")) == ""
    row = await talk.rows(
        "SELECT message_text, verdict, turn FROM conversation_messages WHERE message_id = :id",
        id=identity(2),
    )
    assert row == [
        {"message_text": f"<@{STRANGER}> have a look", "verdict": "heard", "turn": None}
    ]


async def test_a_quiet_thread_stores_and_starts_no_turn_until_somebody_calls_the_bot(
    meant: Listener,
) -> None:
    assert await meant.due(says(2, "be quiet please")) == "answer", "the note"
    await meant.turn(2)
    assert await meant.due(says(3, "and now?")) == ""
    assert await meant.due(mention(4, "thanks")) == "", "no request"
    assert await meant.due(mention(5, "which offers are open?")) == "answer"
    await meant.turn(3)
    assert await meant.due(says(6, "and the second one?")) == "answer", "the quiet has ended"


async def test_unmute_ends_the_quiet(meant: Listener) -> None:
    await meant.due(says(2, "quiet"))
    await meant.turn(2)
    assert await meant.due(says(3, "unmute")) == "answer"
    await meant.turn(3)
    assert await meant.due(says(4, "and now?")) == "answer"


async def test_the_quiet_ends_by_itself(meant: Listener) -> None:
    await meant.due(says(2, "quiet"))
    await meant.turn(2)
    assert await meant.due(says(2 + HOUR - 1, "still there?")) == ""
    assert await meant.due(says(2 + HOUR + 1, "and now?")) == "answer"


async def test_an_order_names_its_own_end(meant: Listener) -> None:
    await meant.due(says(2, "mute for 10 minutes"))
    await meant.turn(2)
    assert await meant.due(says(500, "and now?")) == ""
    assert await meant.due(says(700, "and now, please?")) == "answer"


async def test_among_several_people_an_order_needs_a_mention(meant: Listener) -> None:
    assert await meant.due(says(2, "quiet", sender_id=STRANGER)) == "weigh"
    await meant.turn(2, "")
    assert await meant.due(mention(3, "quiet", sender_id=STRANGER)) == "answer"
    await meant.turn(3)
    assert await meant.due(says(4, "did it work?")) == ""


async def test_a_late_or_repeated_order_changes_nothing(meant: Listener) -> None:
    await meant.due(says(2, "quiet"))
    await meant.turn(2)
    await meant.due(mention(3, "which offers are open?"))
    await meant.turn(3)
    await meant.due(says(2, "quiet"))
    await meant.due(says(2.5, "mute"))
    await meant.turn(4)
    assert await meant.due(says(4, "and the second one?")) == "answer"


async def test_a_person_who_has_the_thread_still_sees_its_messages(meant: Listener) -> None:
    async with meant.database.begin() as tx:
        await HandoverStore(tx).open(THREAD, 1, REPORTER)
    await meant.due(says(2, "quiet"))
    await meant.turn(2)
    assert await meant.due(says(3, "is somebody there?")) != ""
