"""A hand-over on Temporal's own server, Postgres and Slack's wire: shown, taken, relayed both ways, and closed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from tests.gateway.conftest import KnownThreads
from tests.support.conversation_activities import Make, Talking, make_talk
from tests.support.decision_activities import Engine, begun, engine_of
from tests.support.temporal import activities_of, real_time, until, worker
from threadline.cases.case_cards import Readers
from threadline.cases.contract import IntakeActivities
from threadline.conversations.contract import TalkTurn
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.event_handling import Door
from threadline.gateway.routes import RoutingConfig
from threadline.handovers.activities import LiveHandoverActivities, Reception
from threadline.handovers.card_data import Cards
from threadline.handovers.contract import HandoverActivities, Reminder
from threadline.handovers.model import CLOSE, TAKE, Handing, HandoverRef, button_read, button_value
from threadline.handovers.relay import Relaying
from threadline.handovers.workflow import HandoverWorkflow
from threadline.models.model import Outcome, OutcomeKind
from threadline.threads import addressing
from threadline.threads.addressing import Thread
from threadline.threads.history_authors import HavingASay
from threadline.threads.intake_activities import LiveIntakeActivities
from threadline.threads.messages import IncomingMessage
from threadline.threads.route_reply_workflow import RouteReplyWorkflow
from threadline.wiring.temporal import workflow_runner
from threadline_devstack.slack.identity import (
    BOT_ID,
    BOT_USER,
    BYSTANDER,
    DEVELOPER,
    ESCALATIONS,
    GENERAL,
    REPORTER,
    TEAM,
)
from threadline_devstack.slack.model import Message, User

__all__ = ["make_talk"]

pytestmark = pytest.mark.timeout(120)
PERSON, OTHER, ASKER = DEVELOPER, BYSTANDER, REPORTER
PAUSE = 15.0
"""Seconds for which Slack wants no more posts."""


async def _no_case(_: Thread, __: IncomingMessage) -> None:
    raise AssertionError("it is no case's")


@dataclass
class House:
    engine: Engine
    environment: WorkflowEnvironment
    gateway: Door
    remind_every: float = 3600.0
    open_to_all: tuple[str, ...] = ()

    @property
    def talk(self) -> Talking:
        return self.engine.talk

    @property
    def ref(self) -> HandoverRef:
        return HandoverRef(self.talk.thread, 1)

    @property
    def activities(self) -> LiveHandoverActivities:
        speaking = self.talk.speaking
        cards = Cards(self.talk.database, Readers((ESCALATIONS,), "https://sandbox.slack.com/"))
        reception = Reception(ESCALATIONS, self.remind_every)
        say = HavingASay(speaking._slack, self.open_to_all)
        return LiveHandoverActivities(self.talk.database, speaking._slack, speaking._posts, cards, reception, say)

    def working(self) -> AbstractAsyncContextManager[None]:
        speaking = self.talk.speaking
        relaying = Relaying(self.talk.database, speaking._slack, speaking._posts, BOT_USER)
        intake = LiveIntakeActivities(self.talk.database, speaking._slack, BOT_USER, _no_case, relaying)
        served = [*activities_of(self.activities, HandoverActivities), *activities_of(intake, IntakeActivities)]
        return worker(self.environment, [HandoverWorkflow, RouteReplyWorkflow], served)

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        identity = addressing.handover_workflow_id(self.talk.thread, 1)
        return self.environment.client.get_workflow_handle(identity)

    async def escalated(self, words: str = "I want my money back, or I will sue") -> None:
        """A turn ends with a person, as its conversation's workflow has it."""
        await begun(self.engine, words)
        await self.engine.whole()
        await self.engine.settled(OutcomeKind.ESCALATED)
        await self.waits()

    async def waits(self) -> None:
        """A run waits for a person."""
        identity = addressing.handover_workflow_id(self.talk.thread, 1)
        await self.environment.client.start_workflow(
            addressing.HANDOVER_WORKFLOW, Handing(self.ref), id=identity, task_queue=addressing.CORE_QUEUE
        )

    async def card(self) -> Message:
        await until(self._has_card, "the card is shown")
        return self.talk.posted(ESCALATIONS)[0]

    async def _has_card(self) -> bool:
        async with self.talk.database.begin() as work:
            handover = await work.handovers.of(self.ref)
        return bool(handover and handover.card_ts)

    def click(self, card: Message, by: str, button: str) -> dict[str, Any]:
        return self.talk.slack._interactions.click(by, ESCALATIONS, card.ts, button)

    async def press(self, card: Message, by: str, button: str) -> None:
        assert await self.gateway.take(self.click(card, by, button)) == "click"

    async def reply(self, card: Message, by: str, text: str) -> Message:
        """Somebody writes under the card."""
        said = self.talk.slack.workspace.post(ESCALATIONS, by, text, thread_ts=card.ts)
        await self.event(card, said)
        return said

    async def event(self, card: Message, said: Message, **given: Any) -> None:
        event = {"type": "message", "channel": ESCALATIONS, "ts": said.ts, "thread_ts": card.ts, "user": said.user}
        event |= {"text": said.text, "parent_user_id": BOT_USER} | given
        body = {"type": "event_callback", "team_id": TEAM, "event": event}
        assert await self.gateway.take(body) == "deferred_reply"

    def said(self, channel: str = GENERAL) -> list[str]:
        """What the bot says in the asker's thread, or under the card."""
        return [each.text for each in self.talk.posted(channel) if each.thread_ts]

    async def until_said(self, words: str, channel: str = GENERAL) -> None:
        async def told() -> bool:
            return any(words in each for each in self.said(channel))

        await until(told, f"{words!r} is said in {channel}")

    def reminders(self) -> list[str]:
        return [each for each in self.said(ESCALATIONS) if "Nobody has taken this over yet" in each]

    async def has_been_reminded(self) -> bool:
        return bool(self.reminders())

    async def has_reminded_five_times(self) -> bool:
        """Also that the workflow has gone on from the last one."""
        events = (await self.handle.fetch_history()).events
        busy = events[-1].event_type != EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
        return not busy and bool((await self.handle.query("state"))["reminded"] == 5) and len(self.reminders()) == 5

    def guest_joins(self, user: str) -> None:
        """A guest is in the escalations' channel."""
        workspace = self.talk.slack.workspace
        workspace.add_user(User(user, "guest", "Guest", is_restricted=True))
        workspace.join(ESCALATIONS, user)

    async def until_whispered(self, user: str, words: str, times: int = 1) -> None:
        async def whispered() -> bool:
            told = [each["text"] for each in self.talk.slack.workspace.ephemerals if each["ephemeral_to"] == user]
            return sum(words in each for each in told) == times

        await until(whispered, f"{user} is told {words!r}")

    async def ended(self) -> str:
        """Who had it; and what was done is decided again as it was."""
        async with asyncio.timeout(40):
            taken_by = str(await self.handle.result())
            again = Replayer(
                workflows=[HandoverWorkflow], data_converter=pydantic_data_converter, workflow_runner=workflow_runner()
            )
            await again.replay_workflow(await self.handle.fetch_history())
            return taken_by


@pytest.fixture
async def handover_house(make_talk: Make) -> AsyncIterator[House]:
    async with real_time() as environment:
        routing = RoutingConfig("", "", ESCALATIONS, BOT_USER, BOT_ID)
        gateway = Door(routing, Dispatcher(environment.client, KnownThreads()))
        yield House(engine_of(make_talk()), environment, gateway)


@pytest.fixture
def house(handover_house: House) -> House:
    return handover_house


@pytest.mark.records("handover_taken")
async def test_a_person_takes_it_answers_hears_the_asker_and_closes_it(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        shown = str(card.blocks)
        for part in ("I want my money back", "sensitive", "confidence", "archives/C0GENERAL", f"<@{ASKER}>"):
            assert part in shown
        await house.press(card, PERSON, TAKE)
        await house.until_said("has taken this over")

        await house.reply(card, PERSON, "We pay it back today.")
        await house.until_said("We pay it back today.")

        await house.talk.said("thank you, to which account?")
        begun_ = await house.talk.begin(2)
        assert (begun_.ends, begun_.relays) == (OutcomeKind.SILENT, True)
        await house.talk.run(house.activities.relay_to_person, TalkTurn(house.talk.thread, 2))
        await house.engine.talk.run(house.activities.relay_to_person, TalkTurn(house.talk.thread, 2), attempt=2)
        assert sum("to which account?" in each for each in house.said(ESCALATIONS)) == 1
        await house.engine.settled(OutcomeKind.SILENT, 2)

        await house.press(card, PERSON, CLOSE)
        assert await house.ended() == PERSON
    assert any("has closed the handover" in each for each in house.said())
    assert [each for each in house.said() if "We pay it back" in each] == [
        f"<@{PERSON}> answers\nWe pay it back today."
    ]
    after = house.talk.slack.workspace.message(ESCALATIONS, card.ts)
    assert "Closed by" in str(after.blocks)
    assert "actions" not in [block["type"] for block in after.blocks]
    await house.talk.said("and now?")
    assert (await house.talk.begin(3)).ends is None
    assert any("We pay it back today." in message.content for _, message in await house.talk.transcript())
    (row,) = await house.talk.rows("SELECT outcome FROM decisions")
    assert row["outcome"] == "taken_over"


async def test_a_question_of_a_direct_message_and_what_was_said_before_it_stand_on_the_card(house: House) -> None:
    talk = house.talk
    talk.thread = replace(talk.thread, channel=talk.slack.workspace.open_im(ASKER).id)
    await begun(house.engine, "the lamps of room seven flicker")
    await talk.settle(Outcome(OutcomeKind.ANSWERED, "Turn them off and on.", model_calls=1))
    await begun(house.engine, "I want my money back, or I will sue", 2)
    await house.engine.whole(2)
    await talk.settle(Outcome(OutcomeKind.ESCALATED, ""), 2)
    ref = HandoverRef(talk.thread, 2)
    await talk.run(house.activities.open_handover, ref)
    await talk.run(house.activities.show_handover, ref)
    shown = str(talk.posted(ESCALATIONS)[0].blocks)
    for part in ("I want my money back", "the lamps of room seven flicker", "Turn them off and on."):
        assert part in shown


async def test_what_a_person_does_while_every_worker_is_away_is_done_once_they_are_back(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
    body = house.click(card, PERSON, TAKE)
    for _ in range(2):  # delivered again
        assert await house.gateway.take(body) == "click"
    said = await house.reply(card, PERSON, "It is on its way.")
    await house.event(card, said)
    async with house.working():
        await house.until_said("It is on its way.")
        await house.press(card, PERSON, CLOSE)
        assert await house.ended() == PERSON
    assert sum("It is on its way." in each for each in house.said()) == 1
    assert sum("has taken this over" in each for each in house.said()) == 1


async def test_whoever_answers_what_nobody_has_taken_has_taken_it(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        await house.reply(card, OTHER, "Let me see.")
        await house.until_said("Let me see.")
        await house.press(card, PERSON, TAKE)

        await house.until_whispered(PERSON, f"<@{OTHER}> has already taken this")


@pytest.mark.records("handover_guest")
async def test_a_guest_takes_and_closes_nothing_where_guests_have_no_say(house: House) -> None:
    house.guest_joins("U0GUEST")
    async with house.working():
        await house.escalated()
        card = await house.card()
        for button in (TAKE, CLOSE):
            await house.press(card, "U0GUEST", button)
        await house.until_whispered("U0GUEST", "Ask a member of this workspace", times=2)
        await house.press(card, PERSON, TAKE)
        await house.until_said("has taken this over")
        await house.press(card, PERSON, CLOSE)
        assert await house.ended() == PERSON
    assert not any("U0GUEST" in each for each in house.said())


async def test_a_guest_takes_it_where_guests_have_a_say(house: House) -> None:
    house.guest_joins("U0GUEST")
    house.open_to_all = (ESCALATIONS,)
    async with house.working():
        await house.escalated()
        card = await house.card()
        for button in (TAKE, CLOSE):
            await house.press(card, "U0GUEST", button)
        assert await house.ended() == "U0GUEST"


async def test_people_are_reminded_five_times_in_all_also_over_two_runs_and_then_no_clock_runs(house: House) -> None:
    house.remind_every = 0.2
    async with house.working():
        await house.escalated()
        card = await house.card()
        await until(house.has_been_reminded, "people are reminded")
        await house.handle.terminate()
        for number in (2, 3):
            await house.talk.run(house.activities.remind_handover, Reminder(house.ref, number))
        await house.waits()
        await until(house.has_reminded_five_times, "people are reminded five times, and what follows is decided")
        history = await house.handle.fetch_history()
        assert sum(each.HasField("timer_started_event_attributes") for each in history.events) == 2
        await house.press(card, PERSON, CLOSE)
        await house.ended()
    assert len(house.reminders()) == 5


@pytest.mark.records("handover_reminded")
async def test_nobody_is_reminded_of_what_somebody_has_taken(house: House) -> None:
    house.remind_every = 0.2
    async with house.working():
        await house.escalated()
        card = await house.card()
        await until(house.has_been_reminded, "people are reminded")
        await house.press(card, PERSON, TAKE)
        await house.until_said("has taken this over")
        history = await house.handle.fetch_history()
        await house.press(card, PERSON, CLOSE)
        await house.ended()
    started = sum(each.HasField("timer_started_event_attributes") for each in history.events)
    ended = sum(
        each.HasField("timer_fired_event_attributes") or each.HasField("timer_canceled_event_attributes")
        for each in history.events
    )
    assert started == ended, "no clock runs any more"


async def test_a_thread_is_with_one_person_at_a_time(house: House) -> None:
    await begun(house.engine, "I will sue you")
    await house.engine.whole()
    for turn in (1, 2):
        async with house.talk.database.begin() as work:
            assert await work.handovers.open(house.talk.thread, turn, ASKER) is (turn == 1)
    assert (await house.talk.run(house.activities.open_handover, HandoverRef(house.talk.thread, 2))).open is False


async def test_an_answer_is_relayed_although_where_the_card_stands_was_not_written_down(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        async with house.talk.database.begin() as work:
            await work.handovers.shown(house.ref, "", "")
        await house.reply(card, PERSON, "Found it.")
        await house.until_said("Found it.")


def test_a_button_says_whose_it_is_and_nothing_else_is_read() -> None:
    ref = HandoverRef(Thread("T1", "C1234", "1700000000.000100"), 3)
    assert button_read(button_value(ref)) == ref
    for value in ("", "T1:C1234:1700000000.000100", "T1:C1234:x:3", "a/b:C1:1.1:1", f"{ref.key}x"):
        assert button_read(value) is None


def failing(house: House, activity: str) -> Callable[[], Awaitable[bool]]:
    """Whether an activity waits to be tried again."""

    async def waits() -> bool:
        pending = (await house.handle.describe()).raw_description.pending_activities
        return any(each.activity_type.name == activity and each.attempt > 1 for each in pending)

    return waits


async def test_a_cancel_while_people_are_told_drops_no_click(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        house.talk.slack.faults.rate_limit("chat.postMessage", retry_after=PAUSE)
        await house.press(card, PERSON, TAKE)
        await until(failing(house, "show_handover"), "it is not said who has taken it")
        await house.press(card, PERSON, CLOSE)
        await house.handle.cancel()
        assert await house.ended() == PERSON
    assert any("has closed the handover" in each for each in house.said())


async def test_a_cancel_while_people_are_reminded_ends_nothing(house: House) -> None:
    house.remind_every = 1.0
    async with house.working():
        await house.escalated()
        card = await house.card()
        house.talk.slack.faults.rate_limit("chat.postMessage", retry_after=PAUSE)
        await until(failing(house, "remind_handover"), "nobody can be reminded")
        await house.press(card, PERSON, TAKE)
        await house.handle.cancel()
        await house.press(card, PERSON, CLOSE)
        assert await house.ended() == PERSON
