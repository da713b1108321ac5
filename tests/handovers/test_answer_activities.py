"""Words under a card stay internal; a reply reaches the asker once, in order, and as it reads at
that time.
"""

import time
from dataclasses import replace
from decimal import Decimal
from typing import cast

import pytest
from sqlalchemy import text as sql

from tests.handovers.scene import ASKER, OTHER, PERSON, HandoverScene, Starts, correction
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import Handover, handover_workflow_id
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.handovers import HandoverStore
from threadline.errors import Mendable, Transient
from threadline.handovers.activities import HandoverThreads
from threadline.handovers.contract import Reminder
from threadline.handovers.model import HANDOVER, TAKE, UNDO, WRITTEN, reply_value
from threadline.handovers.store import HandoverAnswerStore
from threadline.slack.model import FileRef, Thread
from threadline.slack.mrkdwn import escape
from threadline.slack.text import read_text
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
from threadline_devstack.slack.identity import ESCALATIONS, GENERAL, ON_CALL, TEAM
from threadline_devstack.slack.model import SandboxUser

NOTE = f"{PERSON}, a person of the team, answered: "
DELETED = "(deleted by its author)"


def remark(scene: HandoverScene, text: str) -> IncomingMessage:
    """A message of the person's under the card."""
    return replace(scene.talk.message(text), channel=ESCALATIONS, sender_id=PERSON)


def written(scene: HandoverScene, text: str) -> IncomingMessage:
    """A reply of the person's under the card."""
    return remark(scene, f"reply: {text}")


def edited(said: IncomingMessage, text: str, after: float = 1) -> IncomingMessage:
    """The reply with another text."""
    return correction(said, MessageKind.EDIT, f"reply: {text}", after)


async def received(scene: HandoverScene, *said: IncomingMessage) -> None:
    """Messages are stored, and their presses reach the workflow."""
    place = Thread(TEAM, ESCALATIONS, scene.talk.posted(ESCALATIONS)[0].ts)
    for message in said:
        assert await scene.threads.forward_reply(ForwardedReply(place, message))


async def shown(scene: HandoverScene, *said: IncomingMessage) -> None:
    """Messages arrive, and replies among them are held."""
    await received(scene, *said)
    await scene.show_replies()


async def arrives(scene: HandoverScene, *said: IncomingMessage) -> None:
    """Messages arrive one by one, and replies among them are sent."""
    for message in said:
        await shown(scene, message)
        await scene.send_replies()


def answers(scene: HandoverScene) -> list[str]:
    """The person's replies as the asker reads them."""
    return [each for each in scene.said() if f"<@{PERSON}> answers" in each]


async def test_unreadable_message_is_kept_in_quarantine_and_not_relayed(
    waiting: HandoverScene,
) -> None:
    before = waiting.said()
    await arrives(waiting, quarantined_message('{"id": 7}'))
    assert waiting.said() == before
    assert waiting.said(ESCALATIONS) == []
    assert len(await waiting.talk.rows("SELECT message_id FROM quarantine")) == 1


async def test_reply_is_announced_to_the_workflow_with_the_same_key_at_each_try(
    waiting: HandoverScene,
) -> None:
    said = written(waiting, "Let me see.")
    starts = cast("Starts", waiting.workflows)
    await received(waiting, said, said)
    (first,), (again,) = (each.signal_args for each in starts.started)
    assert first == again
    assert {(each.workflow_id, each.signal) for each in starts.started} == {
        (f"handover:{waiting.ref.key}", BUTTON_PRESSED)
    }
    value = reply_value(waiting.ref, said.id)
    assert (first.user_id, first.action_id, first.value) == (PERSON, WRITTEN, value)
    assert await waiting.talk.rows("SELECT taken_by FROM handovers") == [{"taken_by": PERSON}]
    await waiting.show_replies()
    await waiting.send_replies()
    assert answers(waiting) == [f"<@{PERSON}> answers\nLet me see."]


async def test_reply_is_sent_once_over_several_attempts(waiting: HandoverScene) -> None:
    said = written(waiting, "Let me see.")
    await shown(waiting, said)
    waiting.talk.slack.faults.fail_after("chat.postMessage")
    with pytest.raises(Transient):
        await waiting.send_replies()
    for _ in range(2):
        await waiting.send_replies()
    assert answers(waiting) == [f"<@{PERSON}> answers\nLet me see."]
    assert await waiting.notes() == [f"{NOTE}Let me see."]


async def test_reply_to_a_handover_that_another_has_taken_is_sent_and_takes_nothing(
    taken: HandoverScene,
) -> None:
    said = replace(written(taken, "I know it."), sender_id=OTHER)
    await arrives(taken, said)
    assert f"<@{OTHER}> answers\nI know it." in taken.said()
    assert await taken.talk.rows("SELECT taken_by FROM handovers") == [{"taken_by": PERSON}]


@pytest.mark.parametrize(
    "word", ["take", "Take!", "  take it", "I'll take this", "*take*", "TAKE it over."]
)
async def test_word_takes_the_handover_and_is_not_sent(waiting: HandoverScene, word: str) -> None:
    before = waiting.said()
    await received(waiting, remark(waiting, word))
    (start,) = cast("Starts", waiting.workflows).started
    (press,) = start.signal_args
    assert (press.user_id, press.action_id, press.value) == (PERSON, TAKE, waiting.ref.key)
    assert await waiting.talk.rows("SELECT taken_by FROM handovers") == [{"taken_by": PERSON}]
    assert waiting.said() == before


REPLIES = (
    ("reply: We pay it back.", "We pay it back."),
    ("Reply:We pay it back.", "We pay it back."),
    ("  REPLY :\n We pay it back.", "We pay it back."),
    ("\u200b*reply:* We pay it back.", "We pay it back."),
    ("_Reply_: We pay it back.", "We pay it back."),
    ("reply\uff1aWe pay it back.", "We pay it back."),
    (f"<@{ASKER}> We pay it back.", "We pay it back."),
    (f"\n<@{ASKER}|reporter>, We pay it back.", "We pay it back."),
    (f"reply: <@{ASKER}>: We pay it back.", "We pay it back."),
)


@pytest.mark.parametrize(("text", "sent"), REPLIES)
async def test_reply_is_shown_under_the_card_and_sent_without_its_prefix(
    waiting: HandoverScene, text: str, sent: str
) -> None:
    await shown(waiting, remark(waiting, text))
    (preview,) = waiting.previews()
    assert sent in str(preview.blocks)
    assert UNDO in str(preview.blocks)
    assert answers(waiting) == []
    await waiting.send_replies()
    assert answers(waiting) == [f"<@{PERSON}> answers\n{sent}"]
    (preview,) = waiting.previews()
    assert UNDO not in str(preview.blocks)
    assert f"Sent to <@{ASKER}>" in str(preview.blocks)


async def test_reply_is_held_until_its_seconds_are_over(waiting: HandoverScene) -> None:
    waiting.hold = 60.0
    await shown(waiting, written(waiting, "We pay it back."))
    state = await waiting.send_replies()
    assert answers(waiting) == []
    assert state.send_in is not None
    assert 50 < state.send_in <= 60
    await waiting.talk.rows("UPDATE handover_answers SET send_at = now() RETURNING 1")
    assert (await waiting.send_replies()).send_in is None
    assert len(answers(waiting)) == 1


async def test_reply_that_is_not_shown_yet_sets_no_timer(waiting: HandoverScene) -> None:
    """Otherwise the workflow would look again and again until its preview is posted."""
    await received(waiting, written(waiting, "We pay it back."))
    assert (await waiting.send_replies()).send_in is None
    assert answers(waiting) == []
    await waiting.show_replies()
    assert (await waiting.pressed()).send_in == 0


async def test_undone_reply_never_reaches_the_asker(waiting: HandoverScene) -> None:
    said = written(waiting, "We pay nothing.")
    await shown(waiting, said)
    assert (await waiting.undone(said.id, OTHER)).reply == ""
    await received(waiting, said)  # delivered again
    await waiting.show_replies()
    await waiting.send_replies()
    assert answers(waiting) == []
    (preview,) = waiting.previews()
    assert f"<@{OTHER}> has undone it" in str(preview.blocks)
    assert await waiting.notes() == []


async def test_undone_reply_is_sent_once_its_author_edits_it(waiting: HandoverScene) -> None:
    said = written(waiting, "We pay nothing.")
    await shown(waiting, said)
    await waiting.undone(said.id)
    await arrives(waiting, edited(said, "We pay it back."))
    assert answers(waiting) == [f"<@{PERSON}> answers\nWe pay it back."]


async def test_undo_after_the_reply_was_sent_changes_nothing_and_says_so(
    waiting: HandoverScene,
) -> None:
    said = written(waiting, "We pay it back.")
    await arrives(waiting, said)
    assert "was already on its way" in (await waiting.undone(said.id)).reply
    assert len(answers(waiting)) == 1


async def test_guest_can_neither_reply_nor_undo(waiting: HandoverScene) -> None:
    waiting.talk.slack.workspace.add_user(
        SandboxUser("U0GUEST", "guest", "Guest", is_restricted=True)
    )
    said = written(waiting, "We pay it back.")
    await shown(waiting, said)
    for pressed in (
        await waiting.replied("Ha!", "U0GUEST"),
        await waiting.undone(said.id, "U0GUEST"),
    ):
        assert "Guests and people from other companies" in pressed.reply
    await waiting.send_replies()
    assert len(answers(waiting)) == 1
    assert not any("Ha!" in each for each in waiting.said())


async def test_replies_are_sent_in_the_order_in_which_they_were_written(
    waiting: HandoverScene,
) -> None:
    first = written(waiting, "First.")
    second = written(waiting, "Second.")
    await shown(waiting, second, first)
    waiting.hold = 60.0
    await shown(waiting, edited(first, "First, corrected."))
    await waiting.send_replies()
    assert answers(waiting) == [], (
        "the second one waits for the first one, whose seconds began again"
    )
    await waiting.talk.rows("UPDATE handover_answers SET send_at = now() RETURNING 1")
    await waiting.send_replies()
    assert [each.partition("\n")[2] for each in answers(waiting)] == [
        "First, corrected.",
        "Second.",
    ]


async def test_closing_sends_held_replies_first(taken: HandoverScene) -> None:
    taken.hold = 60.0
    await shown(taken, written(taken, "We pay it back."))
    await received(taken, written(taken, "And a coupon."))  # stored, and not shown yet
    assert (await taken.pressed(close=True)).send_in == 0
    await taken.send_replies()
    await taken.talk.run(taken.activities.show_handover, taken.ref)
    told = [each for each in taken.said() if "answers" in each or "closed" in each]
    assert [each.partition("\n")[2] for each in told[:2]] == ["We pay it back.", "And a coupon."]
    assert "has closed the handover" in told[-1]


async def test_reply_by_the_button_is_shown_sent_and_takes_the_handover(
    waiting: HandoverScene,
) -> None:
    pressed = await waiting.replied("We pay it back.\nToday.")
    assert (pressed.reply, pressed.taken_by) == ("", PERSON)
    await waiting.replied("We pay it back.\nToday.")  # the submission is delivered again
    await waiting.send_replies()
    assert answers(waiting) == [f"<@{PERSON}> answers\nWe pay it back.\nToday."]
    assert await waiting.notes() == [f"{NOTE}We pay it back.\nToday."]


async def test_empty_reply_by_the_button_is_refused(waiting: HandoverScene) -> None:
    assert "was empty" in (await waiting.replied(" \n\u200b")).reply
    assert await waiting.talk.rows("SELECT turn FROM handovers WHERE taken_by <> ''") == []


async def test_reply_by_the_button_after_the_close_is_refused(taken: HandoverScene) -> None:
    await taken.pressed(close=True)
    assert "has already closed" in (await taken.replied("We pay it back.")).reply
    await taken.send_replies()
    assert answers(taken) == []


async def test_files_are_named_to_the_asker_with_a_reply_alone(taken: HandoverScene) -> None:
    contract = (FileRef("F1", "contract.pdf", "application/pdf", 10),)
    for text, sent in (
        ("for us only", False),
        ("", False),
        ("reply: here it is", True),
        ("reply:", True),
    ):
        before = taken.whole()
        await arrives(taken, replace(remark(taken, text), files=contract))
        new = taken.whole()[len(before) :]
        assert bool(new) is sent
        assert all("contract.pdf" in each for each in new)


async def test_links_and_marks_of_a_reply_reach_the_asker_and_names_notify_no_person(
    taken: HandoverScene,
) -> None:
    written = (
        "reply: *Wait* for <https://ci.example/run/6|run 6>, <@U0NOBODY> in <#C1|general> knows: "
        "a &lt; b"
    )
    await arrives(taken, replace(remark(taken, ""), text=read_text({"text": written}).text))
    shown = "**Wait** for [run 6](https://ci.example/run/6), @U0NOBODY in #general knows: a < b"
    assert answers(taken) == [f"<@{PERSON}> answers\n{escape(shown)}"]


async def test_quotes_of_a_reply_keep_their_places(taken: HandoverScene) -> None:
    def quoting(said: IncomingMessage, words: str) -> IncomingMessage:
        read = read_text({"text": words})
        return replace(said, text=read.text, forwarded=read.forwarded, as_written=read.as_written)

    said = quoting(remark(taken, ""), "reply: please see\n&gt; step 3\nand tell us")
    await arrives(taken, said)
    assert answers(taken) == [f"<@{PERSON}> answers\nplease see\n&gt; step 3\nand tell us"]
    moved = quoting(
        correction(said, MessageKind.EDIT), "reply: please see\nand tell us\n&gt; step 3"
    )
    await arrives(taken, moved)
    assert answers(taken) == [f"<@{PERSON}> answers\nplease see\nand tell us\n&gt; step 3"]
    await arrives(
        taken,
        replace(correction(said, MessageKind.DELETION, after=2), forwarded="", as_written=""),
    )
    assert await taken.talk.rows("SELECT 1 FROM handover_answers WHERE as_written <> ''") == []


async def test_held_reply_that_is_deleted_or_made_internal_is_not_sent(
    taken: HandoverScene,
) -> None:
    first = written(taken, "We pay nothing.")
    second = written(taken, "Go away.")
    await shown(taken, first, second)
    await shown(
        taken,
        correction(first, MessageKind.DELETION),
        correction(second, MessageKind.EDIT, "(to you: go away)"),
    )
    await taken.send_replies()
    assert answers(taken) == []
    assert all("its author has taken it back" in str(each.blocks) for each in taken.previews())
    assert "We pay nothing" not in str(taken.whole(ESCALATIONS))


async def test_remark_that_is_edited_into_a_reply_is_held_and_sent(taken: HandoverScene) -> None:
    said = remark(taken, "repyl: We pay it back.")
    await arrives(taken, said)
    assert answers(taken) == []
    await arrives(taken, edited(said, "We pay it back."))
    assert answers(taken) == [f"<@{PERSON}> answers\nWe pay it back."]


async def test_sent_reply_without_its_prefix_stays_as_it_was_and_its_author_gets_a_notice(
    taken: HandoverScene,
) -> None:
    said = written(taken, "We pay it back.")
    await arrives(taken, said)
    await arrives(taken, correction(said, MessageKind.EDIT, "We pay it back, the fool.", 2))
    assert answers(taken) == [f"<@{PERSON}> answers\nWe pay it back."]
    assert "does not begin with" in taken.said(ESCALATIONS)[-1]
    await arrives(taken, edited(said, "We pay it back today.", 3))
    assert answers(taken) == [f"<@{PERSON}> answers\nWe pay it back today."]


async def test_first_internal_message_of_the_person_who_took_it_is_explained_in_private(
    taken: HandoverScene,
) -> None:
    def hints() -> list[str]:
        told = taken.talk.slack.workspace.ephemerals
        return [
            each["ephemeral_to"] for each in told if "Only your team reads this" in each["text"]
        ]

    await arrives(taken, replace(remark(taken, "Who knows him?"), sender_id=OTHER))
    assert hints() == []
    await arrives(taken, remark(taken, "It is 24 months."), remark(taken, "Or not?"))
    assert hints() == [PERSON]


async def test_card_and_reminders_call_the_people_on_call(waiting: HandoverScene) -> None:
    (card,) = waiting.talk.posted(ESCALATIONS)
    assert f"<@{ON_CALL}>" in card.text
    assert f"<@{ON_CALL}>" in str(card.blocks)
    assert "stay in your team" in str(card.blocks)
    await waiting.talk.run(waiting.activities.remind_handover, Reminder(waiting.ref, 1))
    assert f"<@{ON_CALL}>" in waiting.said(ESCALATIONS)[-1]


async def test_only_answers_under_its_own_card_are_compared(waiting: HandoverScene) -> None:
    """A thread that was escalated twice has two cards, and a deletion under one does not touch the
    other.
    """
    card_ts = await waiting.card_ts()
    first = waiting.ref
    second = ConversationTurn(waiting.talk.thread, 2)
    said_there = [written(waiting, "Under the first."), remark(waiting, "Under the second.")]
    said_there = [replace(said, id=message_id(TEAM, ESCALATIONS, said.ts)) for said in said_there]
    async with waiting.talk.database.begin() as tx:
        await HandoverStore(tx).close(first, PERSON)
        await HandoverStore(tx).open(second.thread, second.turn, ASKER)
        for ref, said in zip((first, second), said_there, strict=True):
            await HandoverAnswerStore(tx).store(Handover(0, ref, ASKER), said)
        for ref, said in zip((first, second), said_there, strict=True):
            owner = ThreadOwner(handover_workflow_id(ref.thread, ref.turn), HANDOVER)
            card = CatchUpThread(TEAM, ESCALATIONS, card_ts, "", owner, "", Decimal(0))
            found = await HandoverThreads().messages_between(tx, card, Decimal(0), Decimal(10**11))
            assert [each.message_id for each in found] == [said.id]


async def test_answer_is_relayed_although_the_cards_place_was_not_stored(
    waiting: HandoverScene,
) -> None:
    async with waiting.talk.database.begin() as tx:
        await HandoverStore(tx).set_card(waiting.ref, "", "")
    assert await waiting.talk.rows("UPDATE posts SET ts = NULL WHERE key LIKE '%card' RETURNING 1")
    assert await waiting.talk.rows("DELETE FROM threads WHERE kind = 'handover' RETURNING 1")
    await arrives(waiting, written(waiting, "Found it."))
    assert "Found it." in waiting.said()[-1]


async def test_corrections_change_every_part_of_an_answer_and_its_note(
    taken: HandoverScene,
) -> None:
    long = (
        "\n\n".join(f"{number} {'x' * 900}" for number in range(30))
        + "\n\nAnother customer's name"
    )
    said = written(taken, long)
    await arrives(taken, said)
    assert (
        sum("Another customer's name" in each for each in taken.whole()) == 1 < len(taken.said())
    )

    await arrives(taken, edited(said, f"{long} for ever\n\n{'y' * 9000}\n\nThe very end", 2))
    assert sum("name for ever" in each for each in taken.whole()) == 1
    assert "The very end" in taken.whole()[-1]

    await arrives(taken, edited(said, "Short.", 3))
    assert not any(
        "Another customer's name" in each or "The very end" in each for each in taken.whole()
    )
    assert await taken.notes() == [f"{NOTE}Short."]

    await arrives(taken, correction(said, MessageKind.DELETION, after=4))
    assert not any("Short." in each for each in taken.whole())
    assert any(DELETED in each for each in taken.said())
    assert await taken.notes() == [f"{NOTE}{DELETED}"]


async def test_unreachable_asker_is_reported_and_later_answers_go_on(taken: HandoverScene) -> None:
    first = written(taken, "It is on its way.")
    await arrives(taken, first)
    await shown(taken, written(taken, "It is delayed."))
    taken.talk.slack.faults.refuse("chat.postMessage", "thread_not_found")
    await taken.send_replies()
    taken.talk.slack.faults.refuse("chat.update", "cant_update_message")
    await arrives(taken, correction(first, MessageKind.DELETION))
    told = [each for each in taken.said(ESCALATIONS) if f"<@{PERSON}>" in each]
    assert sum("Your reply was not posted" in each for each in told) == 1
    assert sum("Your change was not made" in each for each in told) == 1
    await arrives(taken, written(taken, "It comes on Monday."))
    assert not any("It is delayed." in each for each in taken.whole())
    assert await taken.notes() == [f"{NOTE}{DELETED}", f"{NOTE}It comes on Monday."]


async def test_refused_reply_is_sent_in_its_order_once_slack_takes_it(
    taken: HandoverScene,
) -> None:
    workspace = taken.talk.slack.workspace
    workspace.archive(GENERAL)
    await shown(taken, written(taken, "It is delayed."), written(taken, "It comes on Monday."))
    for _ in range(3):
        with pytest.raises(Mendable):
            await taken.send_replies()
    (kept,) = [each for each in taken.said(ESCALATIONS) if "Your reply is saved" in each]
    assert "Slack has archived" in kept
    assert f"<@{PERSON}>" in kept
    states = await taken.talk.rows("SELECT DISTINCT reply_state FROM handover_answers")
    assert states == [{"reply_state": "sending"}]

    workspace.channel(GENERAL).is_archived = False
    await taken.send_replies()
    assert [each.split("answers\n")[-1] for each in answers(taken)] == [
        "It is delayed.",
        "It comes on Monday.",
    ]
    assert await taken.notes() == [f"{NOTE}It is delayed.", f"{NOTE}It comes on Monday."]


async def test_refused_change_of_a_sent_reply_is_made_once_slack_takes_it(
    taken: HandoverScene,
) -> None:
    workspace = taken.talk.slack.workspace
    first = written(taken, "It is on its way.")
    await arrives(taken, first)
    workspace.archive(GENERAL)
    await received(taken, correction(first, MessageKind.DELETION))
    (press,) = cast("Starts", taken.workflows).started.pop().signal_args
    await taken.talk.run(taken.activities.press_handover, press)
    for _ in range(2):
        with pytest.raises(Mendable):
            await taken.talk.run(taken.activities.show_reply, press)
    assert (
        sum("as soon as Slack accepts the change" in each for each in taken.said(ESCALATIONS)) == 1
    )
    workspace.channel(GENERAL).is_archived = False
    await taken.talk.run(taken.activities.show_reply, press)
    assert not any("It is on its way." in each for each in taken.said())


async def test_only_answers_written_before_the_close_are_relayed(taken: HandoverScene) -> None:
    early = written(taken, "I have sent you the money.")
    late = written(taken, "And a coupon.")
    await taken.pressed(close=True, at=float(late.ts) - 1)
    await arrives(taken, early, late, early)
    assert sum("I have sent you the money." in each for each in taken.said()) == 1
    assert not any("And a coupon." in each for each in taken.said())
    (notice,) = [
        each for each in taken.talk.posted(ESCALATIONS) if "This handover is closed" in each.text
    ]
    # Each Slack channel counts by itself: a post of ours in the asker's may have the same
    # timestamp.
    taken.talk.slack.workspace.channel(GENERAL).messages[notice.ts] = replace(
        taken.talk.posted()[-1], ts=notice.ts
    )
    before = taken.whole()
    await arrives(taken, edited(late, "And a coupon, and another."))
    assert taken.whole() == before
    assert await taken.notes() == [f"{NOTE}I have sent you the money."]


async def test_answer_that_arrives_after_its_deletion_is_not_relayed_and_takes_nothing(
    waiting: HandoverScene,
) -> None:
    before = waiting.whole()
    said = written(waiting, "Another customer's name")
    await arrives(
        waiting,
        edited(said, "Another customer's first name", 2),
        correction(said, MessageKind.DELETION, after=3),
        said,
        edited(said, "Another customer's last name", 4),
    )
    assert waiting.whole() == before
    assert await waiting.notes() == []
    stored = (
        "SELECT redacted_at IS NOT NULL AS deleted FROM handover_answers WHERE message_type = "
        "'message'"
    )
    assert await waiting.talk.rows(stored) == [{"deleted": True}]
    assert (
        await waiting.talk.rows("SELECT message_id FROM handover_answers WHERE message_text <> ''")
        == []
    )
    assert await waiting.talk.rows("SELECT turn FROM handovers WHERE taken_by <> ''") == []


async def test_newest_edit_is_relayed_in_any_order_of_arrival(waiting: HandoverScene) -> None:
    said = written(waiting, "On Monday.")
    friday = edited(said, "On Friday.", 4)
    tuesday = edited(said, "On Tuesday.", 2)
    for batch in ((friday, tuesday, said), (edited(said, "On Wednesday.", 3),)):
        await arrives(waiting, *batch)
        assert [each for each in waiting.said() if "On " in each] == [
            f"<@{PERSON}> answers\nOn Friday."
        ]
    assert await waiting.notes() == [f"{NOTE}On Friday."]
    kept = await waiting.talk.rows(
        "SELECT message_text FROM handover_answers WHERE message_text <> ''"
    )
    assert kept == [{"message_text": "reply: On Friday."}] * 2, (
        "of the answer and of its newest edit"
    )


async def test_answer_whose_record_was_lost_before_the_close_is_relayed_once(
    taken: HandoverScene,
) -> None:
    said = written(taken, "It is on its way.")
    await arrives(taken, said)
    async with taken.talk.database.begin() as tx:
        await tx.execute(sql("DELETE FROM handover_answers"))
    await taken.pressed(close=True)
    await arrives(taken, said)
    assert sum("It is on its way." in each for each in taken.said()) == 1
    assert len(taken.previews()) == 1
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
    assert await taken.talk.rows("SELECT turn FROM handovers") == []
    assert await taken.talk.rows("SELECT message_text FROM handover_answers") == []


async def test_handover_is_unfinished_until_it_is_closed_and_its_replies_are_posted(
    taken: HandoverScene,
) -> None:
    async def unfinished() -> list[ConversationTurn]:
        async with taken.talk.database.begin() as tx:
            return [each.ref for each in await HandoverAnswerStore(tx).unfinished_handovers(0, 9)]

    assert await unfinished() == [taken.ref]
    await shown(taken, written(taken, "It is on its way."))
    await taken.pressed(close=True)
    assert await unfinished() == [taken.ref]
    await taken.send_replies()
    assert await unfinished() == []


REMARKS = (
    "lol who is this guy, anyone?",
    "It is 24 months.",
    "I would reply: we pay nothing",
    "&gt; reply: we pay it back",
    f"anyone? <@{ASKER}> waits",
    "replying: soon",
    "reply to him, please",
    "reply:",
    "take care of him, please",
)
"""Remarks of a developer to colleagues under a card."""


@pytest.mark.parametrize("words", REMARKS)
async def test_internal_remark_stays_under_the_card_and_takes_nothing(
    waiting: HandoverScene, words: str
) -> None:
    before = waiting.whole()
    await arrives(waiting, remark(waiting, words))
    assert waiting.whole() == before
    assert await waiting.notes() == []
    assert cast("Starts", waiting.workflows).started == []
    assert await waiting.talk.rows("SELECT turn FROM handovers WHERE taken_by <> ''") == []
