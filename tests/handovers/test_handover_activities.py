"""A hand-over on Postgres and Slack's wire: what an asker writes stands under the card once, as it reads now."""

from dataclasses import dataclass, field, replace

import pytest

from tests.support.conversation_activities import Make, Talking, make_talk
from tests.support.decision_activities import Engine, engine_of
from threadline.cases.case_cards import Readers
from threadline.conversations.contract import TalkTurn
from threadline.errors import Permanent
from threadline.handovers.activities import LiveHandoverActivities, Reception
from threadline.handovers.card_data import Cards
from threadline.handovers.contract import PressRequest, Reminder
from threadline.handovers.model import HandoverClick, HandoverRef
from threadline.handovers.relay import Relaying
from threadline.models.model import OutcomeKind
from threadline.threads import messages
from threadline.threads.addressing import Thread
from threadline.threads.history_authors import HavingASay
from threadline.threads.messages import FileRef, IncomingMessage
from threadline_devstack.slack.identity import BOT_USER, BYSTANDER, DEVELOPER, ESCALATIONS, GENERAL, TEAM

__all__ = ["make_talk"]


@dataclass
class WithAPerson:
    """A thread whose first turn ended with a person, who may have taken it."""

    engine: Engine
    activities: LiveHandoverActivities
    first: IncomingMessage = field(init=False)

    @property
    def talk(self) -> Talking:
        return self.engine.talk

    @property
    def ref(self) -> HandoverRef:
        return HandoverRef(self.talk.thread, 1)

    async def given(self) -> None:
        self.first = self.talk.message("I want my money back, or I will sue")
        await self.talk.said(self.first)
        await self.talk.begin(1)
        await self.engine.whole()
        await self.engine.settled(OutcomeKind.ESCALATED)
        await self.talk.run(self.activities.open_handover, self.ref)

    async def taken(self) -> None:
        async with self.talk.database.begin() as work:
            await work.handovers.take(self.ref, DEVELOPER)

    async def hears(self, turn: int, *said: str | IncomingMessage) -> None:
        """Something is said, if it was not before, and a silent turn passes it on."""
        if said:
            await self.talk.said(*said)
        begun_ = await self.talk.begin(turn)
        assert (begun_.ends, begun_.relays) == (OutcomeKind.SILENT, True)
        await self.relay(turn)
        await self.engine.settled(OutcomeKind.SILENT, turn)

    async def relay(self, turn: int) -> bool:
        return await self.talk.run(self.activities.relay_to_person, TalkTurn(self.talk.thread, turn))

    async def written(self, message: IncomingMessage) -> None:
        """The person writes under the card."""
        speaking = self.talk.speaking
        relaying = Relaying(self.talk.database, speaking._slack, speaking._posts, BOT_USER)
        async with self.talk.database.begin() as work:
            handover = await work.handovers.of(self.ref)
        assert handover
        assert await relaying.relay(Thread(TEAM, handover.channel, handover.card_ts), message)

    async def corrects(self, said: IncomingMessage, kind: str, text: str = "") -> None:
        """Somebody edits or deletes a message; what has to be shown anew is."""
        version = f"{float(said.ts) + 1:.6f}"
        correction = replace(
            said, id=f"{said.id}:{kind}:{version}", kind=kind, text=text, correction_of=said.id, version=version
        )
        for turn in (await self.talk.said(correction)).reworded:
            await self.relay(turn)

    async def pressed(self, *, close: bool) -> str:
        """The person presses a button, both threads are told; returns the card."""
        await self.talk.run(
            self.activities.press_handover, PressRequest(self.ref, HandoverClick(DEVELOPER, close, "c"))
        )
        await self.talk.run(self.activities.show_handover, self.ref)
        return str(self.talk.posted(ESCALATIONS)[0].blocks)

    def under_the_card(self) -> list[str]:
        return [each.text for each in self.talk.posted(ESCALATIONS) if each.thread_ts]


@pytest.fixture
async def asked(make_talk: Make) -> WithAPerson:
    talk = make_talk()
    speaking, cards = talk.speaking, Cards(talk.database, Readers((ESCALATIONS,), "https://sandbox.slack.com/"))
    reception = Reception(ESCALATIONS)
    say = HavingASay(speaking._slack)
    activities = LiveHandoverActivities(talk.database, speaking._slack, speaking._posts, cards, reception, say)
    house = WithAPerson(engine_of(talk), activities)
    await house.given()
    return house


async def test_what_nobody_can_read_is_said_to_nobody(asked: WithAPerson) -> None:
    before = len(asked.talk.posted())
    await asked.written(messages.quarantined('{"id": 7}'))
    assert len(asked.talk.posted()) == before
    assert not asked.under_the_card()


async def test_a_file_is_named_under_the_card_with_and_without_words(asked: WithAPerson) -> None:
    await asked.taken()
    receipt = (FileRef("F1", "receipt.png", "image/png", 10),)
    await asked.hears(2, asked.talk.message("", files=receipt), asked.talk.message("my receipt", files=receipt))
    alone, worded = asked.under_the_card()
    assert "receipt.png" in alone
    assert "my receipt" in worded
    assert "receipt.png" in worded


async def test_a_word_to_stop_is_an_answer_like_any_other_while_a_person_has_the_thread(asked: WithAPerson) -> None:
    await asked.taken()
    stop = asked.talk.message("please stop it", kind=messages.STOP)
    assert (await asked.talk.said(stop)).passed_on == (stop.id,)
    await asked.hears(2)
    (said,) = asked.under_the_card()
    assert "please stop it" in said


async def test_a_word_to_stop_behind_another_message_loses_neither(asked: WithAPerson) -> None:
    await asked.taken()
    await asked.talk.said("here is more")
    await asked.talk.begin(2)  # and nothing is relayed yet
    await asked.hears(2)
    await asked.hears(3, asked.talk.message("one thing more"), asked.talk.message("stop", kind=messages.STOP))
    assert [words.partition("\n")[2] for words in asked.under_the_card()] == ["here is more", "one thing more", "stop"]


async def test_a_word_to_stop_ends_what_the_agent_was_at_when_a_person_took_the_thread(asked: WithAPerson) -> None:
    await asked.talk.said("my order is 4711")
    assert (await asked.talk.begin(2)).ends is None
    await asked.taken()
    stored = await asked.talk.said(asked.talk.message("stop", kind=messages.STOP))
    assert (stored.marks.stop_due, stored.passed_on) == (True, ())


async def test_what_the_asker_corrects_or_deletes_reads_so_under_the_card_in_all_its_parts(asked: WithAPerson) -> None:
    await asked.taken()
    long = asked.talk.message("\n\n".join(f"paragraph {number} {'x' * 900}" for number in range(20)))
    short = asked.talk.message("on Monday")
    await asked.hears(2, long, short)
    before = asked.under_the_card()
    assert "on Monday" in before[-1]
    await asked.corrects(short, messages.EDIT, "on Tuesday")
    await asked.corrects(long, messages.DELETION)
    after = asked.under_the_card()
    assert len(after) == len(before) > 2
    assert "on Tuesday" in after[-1]
    assert all("deleted by its author" in each for each in after[:-1])
    assert not any("paragraph" in str(each.blocks) for each in asked.talk.posted(ESCALATIONS))


async def test_an_edit_that_is_longer_is_shown_whole_and_once(asked: WithAPerson) -> None:
    await asked.taken()
    said = asked.talk.message("on Monday")
    await asked.hears(2, said)
    await asked.corrects(said, messages.EDIT, "\n\n".join(f"paragraph {number}. {'x' * 900}" for number in range(20)))
    await asked.relay(2)
    shown = str([each.blocks for each in asked.talk.posted(ESCALATIONS) if each.thread_ts])
    assert [shown.count(f"paragraph {number}.") for number in range(20)] == [1] * 20
    assert "Monday" not in shown


async def test_what_is_deleted_after_the_end_is_gone_under_the_card_and_on_it(asked: WithAPerson) -> None:
    await asked.taken()
    said = asked.talk.message("my account is DE89 3704")
    await asked.hears(2, said)
    async with asked.talk.database.begin() as work:
        await work.handovers.close(asked.ref, DEVELOPER)
    await asked.corrects(said, messages.DELETION)
    await asked.corrects(asked.first, messages.DELETION)
    shown = str([(each.text, each.blocks) for each in asked.talk.posted(ESCALATIONS)])
    assert "DE89" not in shown
    assert "money back" not in shown


async def test_what_is_deleted_before_it_was_shown_is_not_shown(asked: WithAPerson) -> None:
    await asked.taken()
    said = asked.talk.message("never mind this")
    await asked.talk.said(said)
    await asked.talk.begin(2)
    await asked.corrects(said, messages.DELETION)
    await asked.relay(2)
    assert asked.under_the_card() == []


async def test_what_was_not_shown_when_it_was_closed_is_shown_to_nobody_and_its_turn_is_told_so(
    asked: WithAPerson,
) -> None:
    await asked.taken()
    await asked.talk.said("on Monday")
    assert (await asked.talk.begin(2)).ends is OutcomeKind.SILENT
    assert await asked.relay(2) is False
    await asked.engine.settled(OutcomeKind.SILENT, 2)
    await asked.talk.said("or on Tuesday")
    assert (await asked.talk.begin(3)).ends is OutcomeKind.SILENT
    await asked.pressed(close=True)
    assert await asked.relay(3) is True
    assert await asked.relay(2) is False, "that was shown before"
    assert [words.partition("\n")[2] for words in asked.under_the_card()] == ["on Monday"]


async def test_what_was_written_before_the_button_was_pressed_arrives_also_behind_it(asked: WithAPerson) -> None:
    await asked.taken()
    early, late = (
        replace(asked.talk.message(text), channel=ESCALATIONS, sender_id=DEVELOPER)
        for text in ("I have sent you the money.", "And a coupon.")
    )
    close = HandoverClick(DEVELOPER, True, "c", float(late.ts) - 1)
    await asked.talk.run(asked.activities.press_handover, PressRequest(asked.ref, close))
    for each in (early, late, early):
        await asked.written(each)
    said = [each.text for each in asked.talk.posted() if "answers" in each.text]
    assert ["I have sent you the money." in each for each in said] == [True]
    assert "This handover is closed" in asked.under_the_card()[-1]


async def test_a_new_run_goes_on_with_the_number_of_the_last_reminder(asked: WithAPerson) -> None:
    for number in (1, 2):
        await asked.talk.run(asked.activities.remind_handover, Reminder(asked.ref, number))
    assert (await asked.talk.run(asked.activities.open_handover, asked.ref)).reminded == 2


async def test_what_an_untaken_turn_hears_on_its_way_and_what_a_stop_ends_is_read_along(asked: WithAPerson) -> None:
    await asked.talk.said("how do I export?")
    assert (await asked.talk.begin(2)).relays
    await asked.relay(2)
    await asked.talk.said("as a CSV file")
    await asked.talk.think(2, 1)
    await asked.talk.think(2, 2)
    await asked.engine.settled(OutcomeKind.ANSWERED, 2, answered_at=2)
    await asked.relay(2)
    assert [words.partition("\n")[2] for words in asked.under_the_card()] == ["how do I export?", "as a CSV file"]
    await asked.talk.said(asked.talk.message("or PDF?"), asked.talk.message("stop", kind=messages.STOP))
    begun_ = await asked.talk.begin(3)
    assert (begun_.ends, begun_.relays) == (None, True)
    await asked.engine.settled(OutcomeKind.STOPPED, 3, "I stopped.")
    await asked.relay(3)
    assert [words.partition("\n")[2] for words in asked.under_the_card()][2:] == ["or PDF?", "stop"]


async def test_a_person_is_shown_the_same_word_twice_and_many_in_a_minute(asked: WithAPerson) -> None:
    await asked.taken()
    first = asked.talk.message("yes")
    at = float(first.ts)
    many = [
        replace(first, id=f"{first.id}.{number}", ts=f"{at + number:.6f}", text=text)
        for number, text in enumerate(["yes", *(f"line {number}" for number in range(12))], start=1)
    ]
    assert (await asked.talk.said(first, *many)).refused == ()
    await asked.hears(2)
    assert len(asked.under_the_card()) == 14
    async with asked.talk.database.begin() as work:
        await work.handovers.close(asked.ref, DEVELOPER)
    again = replace(many[-1], id=f"{first.id}.99", ts=f"{at + 20:.6f}")
    same = replace(again, id=f"{first.id}.98", ts=f"{at + 21:.6f}")
    assert [each.ts for each in (await asked.talk.said(again, same)).refused] == [same.ts]


async def test_whoever_closes_it_is_told_nothing_when_the_answer_was_lost_and_others_are(asked: WithAPerson) -> None:
    await asked.taken()

    async def told(by: str, *, close: bool = True) -> str:
        request = PressRequest(asked.ref, HandoverClick(by, close, "click"))
        pressed = await asked.talk.run(asked.activities.press_handover, request)
        assert pressed.open is False
        return pressed.words

    assert [await told(DEVELOPER), await told(DEVELOPER)] == ["", ""]
    for words in (await told(BYSTANDER), await told(DEVELOPER, close=False)):
        assert words == f"<@{DEVELOPER}> has already closed this handover."


async def test_whoever_presses_while_slack_does_not_say_who_they_are_is_told_why_and_may_press_again(
    asked: WithAPerson,
) -> None:
    press = PressRequest(asked.ref, HandoverClick(DEVELOPER, False, "click"))
    asked.talk.slack.faults.refuse("users.info", "missing_scope")
    refused = await asked.talk.run(asked.activities.press_handover, press)
    assert refused.words.startswith("Slack did not say who you are, so nothing was changed. ")
    assert (refused.open, refused.taken_by) == (True, "")
    taken = await asked.talk.run(asked.activities.press_handover, press)
    assert (taken.words, taken.taken_by) == ("", DEVELOPER)


async def test_where_the_asker_cannot_be_told_the_card_changes_and_whoever_pressed_is_told_under_it(
    asked: WithAPerson,
) -> None:
    asked.talk.slack.workspace.archive(GENERAL)
    assert f"Taken by <@{DEVELOPER}>" in await asked.pressed(close=False)
    shown = await asked.pressed(close=True)
    assert f"Closed by <@{DEVELOPER}>" in shown
    assert "actions" not in shown
    for told, what in zip(asked.under_the_card(), ("taken", "closed"), strict=True):
        assert f"<@{DEVELOPER}>" in told
        assert "Slack has archived" in told
        assert told.endswith(f"The other thread was not told that you have {what} the handover.")


async def test_where_the_card_cannot_be_changed_the_asker_is_told_all_the_same(asked: WithAPerson) -> None:
    asked.talk.slack.faults.refuse("chat.update", "cant_update_message")
    with pytest.raises(Permanent):
        await asked.pressed(close=True)
    assert "has closed the handover" in asked.talk.posted()[-1].text
