"""A handover on Postgres and Slack's wire: its buttons, and the asker's messages, each of which is
shown under the card once.
"""

import asyncio
from dataclasses import replace

import pytest

from tests.handovers.scene import ASKER, OTHER, PERSON, HandoverScene, correction
from tests.support.conversation_activities import Make
from tests.support.decision_activities import engine_of
from tests.support.temporal import until
from threadline.conversations.activities import RECEIVED_REACTION
from threadline.conversations.model.conversation import (
    ConversationOutcome,
    ConversationTurn,
    OutcomeKind,
)
from threadline.conversations.store.handovers import HandoverStore
from threadline.errors import Mendable, Permanent
from threadline.handovers.contract import Reminder
from threadline.slack.model import FileRef
from threadline.threads.model import IncomingMessage, MessageKind
from threadline_devstack.slack.identity import ESCALATIONS, GENERAL
from threadline_devstack.slack.model import SandboxUser

LONG = "\n\n".join(f"paragraph {number}. {'x' * 900}" for number in range(20))


async def corrects(
    scene: HandoverScene, said: IncomingMessage, kind: MessageKind, text: str = ""
) -> None:
    """The asker edits or deletes a message; the turns that show it are relayed again."""
    for turn in (await scene.talk.said(correction(said, kind, text))).turns_to_show_again:
        await scene.relay(turn)


def relayed(scene: HandoverScene) -> list[str]:
    """The asker's messages under the card, without their authors."""
    return [words.partition("\n")[2] for words in scene.said(ESCALATIONS)]


async def test_file_is_named_under_the_card_with_and_without_text(taken: HandoverScene) -> None:
    receipt = (FileRef("F1", "receipt.png", "image/png", 10),)
    await taken.hears(
        2, taken.talk.message("", files=receipt), taken.talk.message("my receipt", files=receipt)
    )
    alone, worded = taken.said(ESCALATIONS)
    assert "receipt.png" in alone
    assert "my receipt" in worded
    assert "receipt.png" in worded


async def test_stop_word_is_relayed_while_a_person_has_the_thread(taken: HandoverScene) -> None:
    stop = taken.talk.message("please stop it", kind=MessageKind.STOP)
    await taken.talk.said(stop)
    assert taken.talk.reacted[stop.ts] == RECEIVED_REACTION, "as a message to the person"
    await taken.hears(2)
    assert relayed(taken) == ["please stop it"]


async def test_stop_word_after_other_messages_loses_none(taken: HandoverScene) -> None:
    await taken.talk.said("here is more")
    await taken.talk.begin(2)  # and nothing is relayed yet
    await taken.hears(2)
    await taken.hears(
        3, taken.talk.message("one thing more"), taken.talk.message("stop", kind=MessageKind.STOP)
    )
    assert relayed(taken) == ["here is more", "one thing more", "stop"]


async def test_stop_word_ends_a_turn_that_began_before_the_handover_was_taken(
    waiting: HandoverScene,
) -> None:
    await waiting.talk.said("my order is 4711")
    assert (await waiting.talk.begin(2)).ends is None
    await waiting.taken()
    stop = waiting.talk.message("stop", kind=MessageKind.STOP)
    assert (await waiting.talk.said(stop)).snapshot.stop_due
    assert stop.ts not in waiting.talk.reacted, "the turn's end answers it"


async def test_untaken_handover_relays_messages_that_its_asker_sends_to_the_agent(
    waiting: HandoverScene,
) -> None:
    talk = waiting.talk
    await talk.said("how do I export?")
    assert (await talk.begin(2)).relays_to_person
    await waiting.relay(2)
    await talk.said("as a CSV file")
    await talk.think(2, 1)
    await talk.think(2, 2)
    await waiting.engine.settled(OutcomeKind.ANSWERED, 2, answer_step=2)
    await waiting.relay(2)
    assert relayed(waiting) == ["how do I export?", "as a CSV file"]
    await talk.said(talk.message("or PDF?"), talk.message("stop", kind=MessageKind.STOP))
    begun_ = await talk.begin(3)
    assert (begun_.ends, begun_.relays_to_person) == (None, True)
    await waiting.engine.settled(OutcomeKind.STOPPED, 3, "I stopped.")
    await waiting.relay(3)
    assert relayed(waiting)[2:] == ["or PDF?", "stop"]


async def test_corrections_change_every_part_under_the_card(taken: HandoverScene) -> None:
    long = taken.talk.message(LONG)
    short = taken.talk.message("on Monday")
    await taken.hears(2, long, short)
    before = taken.said(ESCALATIONS)
    assert "on Monday" in before[-1]
    await corrects(taken, short, MessageKind.EDIT, "on Tuesday")
    await corrects(taken, long, MessageKind.DELETION)
    after = taken.said(ESCALATIONS)
    assert len(after) == len(before) > 2
    assert "on Tuesday" in after[-1]
    assert all("deleted by its author" in each for each in after[:-1])
    assert not any("paragraph" in each for each in taken.whole(ESCALATIONS))


async def test_longer_edit_is_shown_whole_and_once(taken: HandoverScene) -> None:
    said = taken.talk.message("on Monday")
    await taken.hears(2, said)
    await corrects(taken, said, MessageKind.EDIT, LONG)
    await taken.relay(2)
    shown = str([each.blocks for each in taken.talk.posted(ESCALATIONS) if each.thread_ts])
    assert [shown.count(f"paragraph {number}.") for number in range(20)] == [1] * 20
    assert "Monday" not in shown


async def test_deletion_after_the_end_is_made_under_and_on_the_card(taken: HandoverScene) -> None:
    said = taken.talk.message("my account is DE89 3704")
    await taken.hears(2, said)
    await taken.closed()
    await corrects(taken, said, MessageKind.DELETION)
    await corrects(taken, taken.question, MessageKind.DELETION)
    shown = str([(each.text, each.blocks) for each in taken.talk.posted(ESCALATIONS)])
    assert "DE89" not in shown
    assert "money back" not in shown


async def posting(scene: HandoverScene, count: int) -> None:
    """Wait until this many messages are in the escalations' channel."""

    async def posted() -> bool:
        return len(scene.talk.posted(ESCALATIONS)) == count

    await until(posted, f"{count} messages are posted")


async def test_words_deleted_while_the_card_is_posted_leave_it(make_talk: Make) -> None:
    scene = HandoverScene(engine_of(make_talk()))
    await scene.escalated()
    scene.talk.slack.faults.slow("chat.postMessage", 2)
    opening = asyncio.create_task(scene.talk.run(scene.activities.open_handover, scene.ref))
    await posting(scene, 1)
    await corrects(scene, scene.question, MessageKind.DELETION)
    assert await scene.card_ts() == "", "the card's place is not known yet"
    await opening
    assert "money back" not in str(
        [(each.text, each.blocks) for each in scene.talk.posted(ESCALATIONS)]
    )


async def test_words_deleted_while_the_card_is_updated_leave_it(waiting: HandoverScene) -> None:
    await waiting.pressed()
    waiting.talk.slack.faults.slow("chat.update", 2)
    showing = asyncio.create_task(waiting.talk.run(waiting.activities.show_handover, waiting.ref))
    (card,) = waiting.talk.posted(ESCALATIONS)

    async def updated() -> bool:
        return f"Taken by <@{PERSON}>" in str(
            waiting.talk.slack.workspace.message(ESCALATIONS, card.ts).blocks
        )

    await until(updated, "the card is updated")
    await waiting.talk.said(correction(waiting.question, MessageKind.DELETION))
    await showing
    assert "money back" not in str(
        [(each.text, each.blocks) for each in waiting.talk.posted(ESCALATIONS)]
    )


async def test_words_deleted_while_they_are_relayed_leave_the_cards_thread(
    taken: HandoverScene,
) -> None:
    said = taken.talk.message("my account is DE89 3704")
    await taken.talk.said(said)
    await taken.talk.begin(2)
    taken.talk.slack.faults.slow("chat.postMessage", 2)
    relaying = asyncio.create_task(taken.relay(2))
    await posting(taken, 2)
    await corrects(taken, said, MessageKind.DELETION)
    await relaying
    assert "DE89" not in str(taken.whole(ESCALATIONS))
    assert "deleted by its author" in taken.said(ESCALATIONS)[-1]


async def test_run_opens_although_somebody_has_deleted_the_card(taken: HandoverScene) -> None:
    taken.talk.slack.faults.refuse("chat.update", "message_not_found")
    state = await taken.talk.run(taken.activities.open_handover, taken.ref)
    assert (state.open, state.taken_by) == (True, PERSON)


async def test_message_deleted_before_it_was_relayed_is_not_shown(taken: HandoverScene) -> None:
    said = taken.talk.message("never mind this")
    await taken.talk.said(said)
    await taken.talk.begin(2)
    await corrects(taken, said, MessageKind.DELETION)
    await taken.relay(2)
    assert taken.said(ESCALATIONS) == []


async def test_message_not_relayed_before_the_end_is_reported_to_its_turn(
    taken: HandoverScene,
) -> None:
    await taken.hears(2, "on Monday")
    await taken.talk.said("or on Tuesday")
    assert (await taken.talk.begin(3)).ends is OutcomeKind.SILENT
    await taken.pressed(close=True)
    assert await taken.relay(3) is True
    assert await taken.relay(2) is False
    assert relayed(taken) == ["on Monday"]


async def test_person_is_shown_repeated_and_many_messages(taken: HandoverScene) -> None:
    first = taken.talk.message("yes")
    at = float(first.ts)
    many = [
        replace(first, id=f"{first.id}.{number}", ts=f"{at + number:.6f}", text=text)
        for number, text in enumerate(
            ["yes", *(f"line {number}" for number in range(12))], start=1
        )
    ]
    assert (await taken.talk.said(first, *many)).refused == ()
    await taken.hears(2)
    assert len(taken.said(ESCALATIONS)) == 14
    await taken.closed()
    again = replace(many[-1], id=f"{first.id}.99", ts=f"{at + 20:.6f}")
    same = replace(again, id=f"{first.id}.98", ts=f"{at + 21:.6f}")
    assert [each.ts for each in (await taken.talk.said(again, same)).refused] == [same.ts]


async def test_new_run_continues_the_count_of_reminders(waiting: HandoverScene) -> None:
    for number in (1, 2):
        await waiting.talk.run(waiting.activities.remind_handover, Reminder(waiting.ref, number))
    assert (await waiting.talk.run(waiting.activities.open_handover, waiting.ref)).reminded == 2


async def test_thread_has_one_open_handover(waiting: HandoverScene) -> None:
    async with waiting.talk.database.begin() as tx:
        await HandoverStore(tx).open(waiting.talk.thread, 2, ASKER)
    other = ConversationTurn(waiting.talk.thread, 2)
    assert (await waiting.talk.run(waiting.activities.open_handover, other)).open is False


async def test_card_of_a_direct_message_shows_the_earlier_messages(waiting: HandoverScene) -> None:
    talk = waiting.talk
    talk.thread = replace(talk.thread, channel=talk.slack.workspace.open_im(ASKER).id)
    await waiting.engine.hears("the lamps of room seven flicker")
    await talk.settle(
        ConversationOutcome(OutcomeKind.ANSWERED, "Turn them off and on.", model_calls=1)
    )
    await waiting.engine.hears("I want my money back, or I will sue", 2)
    await waiting.engine.decide(2)
    await talk.settle(ConversationOutcome(OutcomeKind.ESCALATED, ""), 2)
    await talk.run(waiting.activities.open_handover, ConversationTurn(talk.thread, 2))
    await talk.run(waiting.activities.show_handover, ConversationTurn(talk.thread, 2))
    shown = str(talk.posted(ESCALATIONS)[-1].blocks)
    for part in (
        "I want my money back",
        "the lamps of room seven flicker",
        "Turn them off and on.",
    ):
        assert part in shown


async def test_guest_can_take_and_close_in_a_channel_open_to_all(waiting: HandoverScene) -> None:
    workspace = waiting.talk.slack.workspace
    workspace.add_user(SandboxUser("U0GUEST", "guest", "Guest", is_restricted=True))
    workspace.join(ESCALATIONS, "U0GUEST")
    waiting.open_to_all = (ESCALATIONS,)
    assert (await waiting.pressed("U0GUEST")).taken_by == "U0GUEST"
    assert (await waiting.pressed("U0GUEST", close=True)).open is False


async def test_repeated_close_is_silent_and_a_later_click_gets_the_name_of_the_closer(
    taken: HandoverScene,
) -> None:
    for _ in range(2):
        pressed = await taken.pressed(close=True)
        assert (pressed.open, pressed.reply) == (False, "")
    for late in (await taken.pressed(OTHER, close=True), await taken.pressed()):
        assert late.open is False
        assert f"<@{PERSON}> has already closed" in late.reply


async def test_click_is_refused_while_slack_does_not_identify_its_person(
    waiting: HandoverScene,
) -> None:
    waiting.talk.slack.faults.refuse("users.info", "missing_scope")
    refused = await waiting.pressed()
    assert "I could not look up who you are in Slack" in refused.reply
    assert (refused.open, refused.taken_by) == (True, "")
    taken = await waiting.pressed()
    assert (taken.reply, taken.taken_by) == ("", PERSON)


async def test_unreachable_asker_is_reported_under_the_card(waiting: HandoverScene) -> None:
    waiting.talk.slack.workspace.archive(GENERAL)
    for close, button in ((False, "taken"), (True, "closed")):
        await waiting.pressed(close=close)
        with pytest.raises(Mendable):
            await waiting.talk.run(waiting.activities.show_handover, waiting.ref)
        shown = str(waiting.talk.posted(ESCALATIONS)[0].blocks)
        assert f"{button.capitalize()} by <@{PERSON}>" in shown
        told = waiting.said(ESCALATIONS)[-1]
        assert f"<@{PERSON}>" in told
        assert "Slack has archived" in told
        assert f"you have {button}" in told
    assert "actions" not in shown
    assert len(waiting.said(ESCALATIONS)) == 2
    waiting.talk.slack.workspace.channel(GENERAL).is_archived = False
    await waiting.talk.run(waiting.activities.show_handover, waiting.ref)
    assert any("has closed the handover" in each for each in waiting.said())


async def test_asker_gets_a_notice_although_the_card_cannot_be_changed(
    taken: HandoverScene,
) -> None:
    taken.talk.slack.faults.refuse("chat.update", "cant_update_message")
    await taken.pressed(close=True)
    with pytest.raises(Permanent):
        await taken.talk.run(taken.activities.show_handover, taken.ref)
    assert "has closed the handover" in taken.talk.posted()[-1].text
