"""What a person writes under a card is said to the asker once, as it reads now."""

import time
from dataclasses import replace
from decimal import Decimal
from typing import cast

import pytest
from sqlalchemy import text as sql

from tests.handovers.scene import ASKER, OTHER, PERSON, HandoverScene, Starts, correction
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.errors import Transient
from threadline.handovers.activities import HandoverThreads
from threadline.handovers.model import ANSWER_PRESS, HANDOVER, TAKE, handover_workflow_id
from threadline.handovers.store import HandoverAnswerStore, HandoverStore
from threadline.slack.model import Thread
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.contract import ForwardedReply
from threadline.threads.model import (
    BUTTON_PRESSED,
    IncomingMessage,
    MessageKind,
    ThreadOwner,
    message_id,
    quarantined_message,
)
from threadline.threads.store import PostStore
from threadline.threads.workflow_client import WorkflowStart
from threadline_devstack.slack.identity import ESCALATIONS, GENERAL, TEAM

NOTE = f"{PERSON}, a person of the team, answered: "
DELETED = "(deleted by its author)"


def written(scene: HandoverScene, text: str) -> IncomingMessage:
    """What the person writes under the card."""
    return replace(scene.talk.message(text), channel=ESCALATIONS, sender_id=PERSON)


async def arrives(scene: HandoverScene, *said: IncomingMessage) -> None:
    place = Thread(TEAM, ESCALATIONS, scene.talk.posted(ESCALATIONS)[0].ts)
    for message in said:
        assert await scene.threads.forward_reply(ForwardedReply(place, message))


async def test_unreadable_message_is_said_to_nobody_and_kept_in_quarantine(waiting: HandoverScene) -> None:
    before = waiting.said()
    await arrives(waiting, quarantined_message('{"id": 7}'))
    assert waiting.said() == before
    assert waiting.said(ESCALATIONS) == []
    assert len(await waiting.talk.rows("SELECT message_id FROM quarantine")) == 1


async def test_answer_presses_take_once_whichever_try_comes_to_it(waiting: HandoverScene) -> None:
    said = written(waiting, "Let me see.")
    waiting.talk.slack.faults.fail_before("chat.postMessage")
    with pytest.raises(Transient):
        await arrives(waiting, said)
    assert await waiting.talk.rows("DELETE FROM posts WHERE key LIKE '%answer%' RETURNING 1"), "its lease is over"
    await arrives(waiting, said, written(waiting, "It is on its way."))
    (start,) = cast("Starts", waiting.workflows).started
    (press,) = start.signal_args
    assert (start.workflow_id, start.signal) == (f"handover:{waiting.ref.key}", BUTTON_PRESSED)
    assert (press.user_id, press.action_id, press.value) == (PERSON, TAKE, waiting.ref.key)


async def test_answer_to_a_handover_that_another_has_taken_tells_its_author_nothing(taken: HandoverScene) -> None:
    assert "has already taken" in (await taken.pressed(OTHER)).reply
    assert (await taken.pressed(OTHER, key=f"{ANSWER_PRESS}1")).reply == ""


async def test_answer_is_not_said_once_somebody_has_closed_the_handover(waiting: HandoverScene) -> None:
    """The close comes while the answer takes the handover."""
    before, said = waiting.said(), written(waiting, "It is on its way.")

    class Closing(Starts):
        async def start(self, start: WorkflowStart) -> None:
            await super().start(start)
            await waiting.pressed(close=True, at=float(said.ts) - 1)

    waiting.workflows = Closing()
    await arrives(waiting, said)
    assert waiting.said() == before
    assert any("This handover is closed" in each for each in waiting.said(ESCALATIONS))
    assert await waiting.notes() == []


async def test_only_answers_under_its_own_card_are_compared(waiting: HandoverScene) -> None:
    """A thread that was escalated twice has two cards, and a deletion under one says nothing of the other."""
    card_ts = await waiting.card_ts()
    first, second = waiting.ref, ConversationTurn(waiting.talk.thread, 2)
    answers = [written(waiting, "Under the first."), written(waiting, "Under the second.")]
    answers = [replace(said, id=message_id(TEAM, ESCALATIONS, said.ts)) for said in answers]
    async with waiting.talk.database.begin() as tx:
        await HandoverStore(tx).open(waiting.talk.thread, 2, ASKER)
        for ref, said in zip((first, second), answers, strict=True):
            await HandoverAnswerStore(tx).store(ref, said)
        for ref, said in zip((first, second), answers, strict=True):
            owner = ThreadOwner(handover_workflow_id(ref.thread, ref.turn), HANDOVER)
            card = CatchUpThread(TEAM, ESCALATIONS, card_ts, "", owner, "", Decimal(0))
            found = await HandoverThreads().messages_between(tx, card, Decimal(0), Decimal(10**11))
            assert [each.message_id for each in found] == [said.id]


async def test_answer_is_relayed_although_the_cards_place_was_not_stored(waiting: HandoverScene) -> None:
    async with waiting.talk.database.begin() as tx:
        await HandoverStore(tx).set_card(waiting.ref, "", "")
    assert await waiting.talk.rows("UPDATE posts SET ts = NULL WHERE key LIKE '%card' RETURNING 1")
    assert await waiting.talk.rows("DELETE FROM threads WHERE kind = 'handover' RETURNING 1")
    await arrives(waiting, written(waiting, "Found it."))
    assert "Found it." in waiting.said()[-1]


async def test_corrections_change_every_part_of_an_answer_and_its_note(taken: HandoverScene) -> None:
    long = "\n\n".join(f"{number} {'x' * 900}" for number in range(30)) + "\n\nAnother customer's name"
    said = written(taken, long)
    await arrives(taken, said)
    assert sum("Another customer's name" in each for each in taken.whole()) == 1 < len(taken.said())

    await arrives(taken, correction(said, MessageKind.EDIT, f"{long} for ever\n\n{'y' * 9000}\n\nThe very end", 2))
    assert sum("name for ever" in each for each in taken.whole()) == 1
    assert "The very end" in taken.whole()[-1]

    await arrives(taken, correction(said, MessageKind.EDIT, "Short.", 3))
    assert not any("Another customer's name" in each or "The very end" in each for each in taken.whole())
    assert await taken.notes() == [f"{NOTE}Short."]

    await arrives(taken, correction(said, MessageKind.DELETION, after=4))
    assert not any("Short." in each for each in taken.whole())
    assert any(DELETED in each for each in taken.said())
    assert await taken.notes() == [f"{NOTE}{DELETED}"]


async def test_unreachable_asker_is_reported_and_later_answers_go_on(taken: HandoverScene) -> None:
    workspace = taken.talk.slack.workspace
    first = written(taken, "It is on its way.")
    await arrives(taken, first)
    workspace.archive(GENERAL)
    await arrives(taken, written(taken, "It is delayed."), correction(first, MessageKind.DELETION))
    unposted, unchanged = taken.said(ESCALATIONS)
    assert "Your message was not posted" in unposted
    assert "Your change was not made" in unchanged
    assert all("Slack has archived" in each and f"<@{PERSON}>" in each for each in (unposted, unchanged))

    workspace.channel(GENERAL).is_archived = False
    await arrives(taken, written(taken, "It comes on Monday."))
    assert not any("It is delayed." in each for each in taken.whole())
    assert await taken.notes() == [f"{NOTE}{DELETED}", f"{NOTE}It comes on Monday."]


async def test_only_answers_written_before_the_close_are_said(taken: HandoverScene) -> None:
    early, late = written(taken, "I have sent you the money."), written(taken, "And a coupon.")
    await taken.pressed(close=True, at=float(late.ts) - 1)
    await arrives(taken, early, late, early)
    assert sum("I have sent you the money." in each for each in taken.said()) == 1
    assert not any("And a coupon." in each for each in taken.said())
    (notice,) = [each for each in taken.talk.posted(ESCALATIONS) if "This handover is closed" in each.text]
    # Each Slack channel counts by itself: a post of ours in the asker's may have the same timestamp.
    taken.talk.slack.workspace.channel(GENERAL).messages[notice.ts] = replace(taken.talk.posted()[-1], ts=notice.ts)
    before = taken.whole()
    await arrives(taken, correction(late, MessageKind.EDIT, "And a coupon, and another."))
    assert taken.whole() == before
    assert await taken.notes() == [f"{NOTE}I have sent you the money."]


async def test_answer_behind_its_deletion_is_not_said_and_takes_nothing(waiting: HandoverScene) -> None:
    before = waiting.whole()
    said = written(waiting, "Another customer's name")
    await arrives(
        waiting,
        correction(said, MessageKind.EDIT, "Another customer's first name", 2),
        correction(said, MessageKind.DELETION, after=3),
        said,
        correction(said, MessageKind.EDIT, "Another customer's last name", 4),
    )
    assert waiting.whole() == before
    assert await waiting.notes() == []
    stored = "SELECT redacted_at IS NOT NULL AS deleted FROM handover_answers WHERE message_type = 'message'"
    assert await waiting.talk.rows(stored) == [{"deleted": True}]
    assert await waiting.talk.rows("SELECT message_id FROM handover_answers WHERE message_text <> ''") == []
    assert await waiting.talk.rows("SELECT turn FROM handovers WHERE taken_by <> ''") == []


async def test_newest_edit_is_said_in_any_order_of_arrival(waiting: HandoverScene) -> None:
    said = written(waiting, "On Monday.")
    friday, tuesday = (
        correction(said, MessageKind.EDIT, "On Friday.", 4),
        correction(said, MessageKind.EDIT, "On Tuesday.", 2),
    )
    for batch in ((friday, tuesday, said), (correction(said, MessageKind.EDIT, "On Wednesday.", 3),)):
        await arrives(waiting, *batch)
        assert [each for each in waiting.said() if "On " in each] == [f"<@{PERSON}> answers\nOn Friday."]
    assert await waiting.notes() == [f"{NOTE}On Friday."]
    kept = await waiting.talk.rows("SELECT message_text FROM handover_answers WHERE message_text <> ''")
    assert kept == [{"message_text": "On Friday."}] * 2, "of the answer and of its newest edit"


async def test_answer_whose_record_was_lost_before_the_close_is_said_once(taken: HandoverScene) -> None:
    said = written(taken, "It is on its way.")
    await arrives(taken, said)
    async with taken.talk.database.begin() as tx:
        await tx.execute(sql("DELETE FROM handover_answers"))
    await taken.pressed(close=True)
    await arrives(taken, said)
    assert sum("It is on its way." in each for each in taken.said()) == 1
    assert taken.said(ESCALATIONS) == []
    assert await taken.notes() == [f"{NOTE}It is on its way."]


async def test_pruned_conversation_takes_all_posts_of_its_handover(taken: HandoverScene) -> None:
    await arrives(taken, written(taken, "It is on its way."))
    await taken.pressed(close=True)
    await taken.talk.run(taken.activities.show_handover, taken.ref)
    other = f"handover:{taken.ref.key}5:card"
    async with taken.talk.database.begin() as tx:
        await PostStore(tx).claim(other, ESCALATIONS, None)
        assert await ConversationStore(tx).prune(time.time() + 100_000) == 1
    assert await taken.talk.rows("SELECT key FROM posts") == [{"key": other}]
