"""A thread whose first turn ended with a person: its handover on Postgres, Slack's wire and, in
workflows, Temporal.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from typing import Any, cast

from temporalio.client import WorkflowHandle
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Replayer

from tests.support.conversation_activities import ConversationActivityScene
from tests.support.decision_activities import Engine
from tests.support.patience import patient
from tests.support.temporal import until, worker
from threadline.cases.contract import case_start
from threadline.cases.model import CaseReaders
from threadline.conversations.model.conversation import ConversationTurn, OutcomeKind
from threadline.conversations.model.handover import (
    HANDOVER_WORKFLOW,
    HandoverInput,
    handover_workflow_id,
)
from threadline.conversations.store.handovers import HandoverStore
from threadline.gateway.router import EventRouter
from threadline.handovers.activities import HandoverSettings, LiveHandoverActivities
from threadline.handovers.contract import HandoverState
from threadline.handovers.model import (
    CLOSE,
    HANDOVER,
    LOOK_EVERY,
    REPLY,
    TAKE,
    UNDO,
    WRITTEN,
    reply_value,
)
from threadline.handovers.workflow import HandoverWorkflow
from threadline.slack.model import FileRef, Thread
from threadline.slack.users import UserDirectory
from threadline.threads.activities import LiveThreadActivities
from threadline.threads.activity_options import activities_of
from threadline.threads.authors import AuthorPolicy
from threadline.threads.model import CORE_QUEUE, ButtonPress, IncomingMessage, MessageKind
from threadline.threads.workflow import RouteReplyWorkflow
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart
from threadline.wiring.temporal import workflow_runner
from threadline_devstack.slack.identity import (
    BOT_USER,
    BYSTANDER,
    DEVELOPER,
    ESCALATIONS,
    GENERAL,
    ON_CALL,
    REPORTER,
    TEAM,
)
from threadline_devstack.slack.model import SandboxMessage, SandboxUser

PERSON = DEVELOPER
OTHER = BYSTANDER
ASKER = REPORTER


def correction(
    said: IncomingMessage, kind: MessageKind, text: str = "", after: float = 1
) -> IncomingMessage:
    """An edit or a deletion of a message, this many seconds later."""
    version = f"{float(said.ts) + after:.6f}"
    return replace(
        said,
        id=f"{said.id}:{kind}:{version}",
        kind=kind,
        text=text,
        correction_of=said.id,
        version=version,
    )


class Starts(WorkflowClient):
    """Keeps the requested workflows; no Temporal runs."""

    def __init__(self) -> None:
        self.started: list[WorkflowStart] = []

    async def start(self, start: WorkflowStart) -> None:
        self.started.append(start)


@dataclass
class HandoverScene:
    engine: Engine
    remind_every: float = 3600.0
    hold: float = 0.0
    open_to_all: tuple[str, ...] = ()
    workflows: WorkflowClient = field(default_factory=Starts)
    question: IncomingMessage = field(init=False)

    @property
    def talk(self) -> ConversationActivityScene:
        return self.engine.talk

    @property
    def ref(self) -> ConversationTurn:
        return ConversationTurn(self.talk.thread, 1)

    @property
    def activities(self) -> LiveHandoverActivities:
        slack = self.talk.activities.deps.slack
        outbox = self.talk.activities.deps.outbox
        readers = CaseReaders((ESCALATIONS,), "https://sandbox.slack.com/")
        settings = HandoverSettings(ESCALATIONS, readers, self.remind_every, self.hold, (ON_CALL,))
        authors = AuthorPolicy(UserDirectory(slack.user), self.open_to_all)
        return LiveHandoverActivities(
            self.talk.database, slack, outbox, authors, self.workflows, settings
        )

    @property
    def threads(self) -> LiveThreadActivities:
        relays = {HANDOVER: self.activities.receive_message}
        slack = self.talk.activities.deps.slack
        return LiveThreadActivities(
            self.talk.database, slack, BOT_USER, self.workflows, {"case": case_start}, relays
        )

    async def escalated(self, *files: FileRef) -> None:
        """A turn ends with a person."""
        self.question = self.talk.message("I want my money back, or I will sue", files=files)
        await self.talk.said(self.question)
        await self.talk.begin(1)
        await self.engine.decide()
        await self.engine.settled(OutcomeKind.ESCALATED)

    async def taken(self) -> None:
        async with self.talk.database.begin() as tx:
            await HandoverStore(tx).take(self.ref, PERSON)

    async def closed(self) -> None:
        async with self.talk.database.begin() as tx:
            await HandoverStore(tx).close(self.ref, PERSON)

    async def card_ts(self) -> str:
        async with self.talk.database.begin() as tx:
            handover = await HandoverStore(tx).get(self.ref)
        return handover.card_ts if handover else ""

    async def pressed(
        self, by: str = PERSON, *, close: bool = False, at: float = 0.0, key: str = "click"
    ) -> HandoverState:
        """Somebody presses a button of the card."""
        card = Thread(TEAM, ESCALATIONS, await self.card_ts())
        press = ButtonPress(
            by, CLOSE if close else TAKE, self.ref.key, key, at, card.channel, card.ts
        )
        return await self.talk.run(self.activities.press_handover, press)

    async def replied(
        self, text: str, by: str = PERSON, key: str = "V1", at: float = 0.0
    ) -> HandoverState:
        """Somebody sends a reply by the card's modal."""
        card = Thread(TEAM, ESCALATIONS, await self.card_ts())
        press = ButtonPress(by, REPLY, self.ref.key, key, at, card.channel, card.ts, text)
        pressed = await self.talk.run(self.activities.press_handover, press)
        await self.talk.run(self.activities.show_reply, press)
        return pressed

    async def undone(self, message_id: str, by: str = PERSON) -> HandoverState:
        """Somebody presses Undo at the preview of a reply."""
        press = ButtonPress(
            by, UNDO, reply_value(self.ref, message_id), "undo", 0.0, ESCALATIONS, "1.0"
        )
        pressed = await self.talk.run(self.activities.press_handover, press)
        await self.talk.run(self.activities.show_reply, press)
        return pressed

    async def show_replies(self) -> None:
        """Do the workflow's part for the presses that messages under the card have made."""
        starts = cast("Starts", self.workflows)
        while starts.started:
            (press,) = starts.started.pop(0).signal_args
            await self.talk.run(self.activities.press_handover, press)
            if press.action_id == WRITTEN:
                await self.talk.run(self.activities.show_reply, press)

    async def send_replies(self) -> HandoverState:
        """Post the replies that are due, as the workflow does at its timer."""
        return await self.talk.run(self.activities.send_replies, self.ref)

    def previews(self) -> list[SandboxMessage]:
        """The replies that are shown under the card."""
        return [each for each in self.talk.posted(ESCALATIONS) if "replies to" in str(each.blocks)]

    async def hears(self, turn: int, *said: str | IncomingMessage) -> None:
        """The asker writes, and a silent turn relays it."""
        if said:
            await self.talk.said(*said)
        begun = await self.talk.begin(turn)
        assert (begun.ends, begun.relays_to_person) == (OutcomeKind.SILENT, True)
        await self.relay(turn)
        await self.engine.settled(OutcomeKind.SILENT, turn)

    async def relay(self, turn: int) -> bool:
        return await self.talk.run(
            self.activities.relay_to_person, ConversationTurn(self.talk.thread, turn)
        )

    def said(self, channel: str = GENERAL) -> list[str]:
        """The bot's words in the asker's thread, or under the card."""
        return [each.text for each in self.talk.posted(channel) if each.thread_ts]

    def whole(self, channel: str = GENERAL) -> list[str]:
        """The same with its blocks."""
        return [
            f"{each.text} {each.blocks}" for each in self.talk.posted(channel) if each.thread_ts
        ]

    async def notes(self) -> list[str]:
        """The agent's notes of the person's answers."""
        return [
            message.content
            for key, message in await self.talk.transcript()
            if key.startswith("h:")
        ]


@dataclass(kw_only=True)
class HandoverWorkflowScene(HandoverScene):
    environment: WorkflowEnvironment
    gateway: EventRouter

    def working(self) -> AbstractAsyncContextManager[None]:
        served = activities_of(self.activities, self.threads)
        return worker(self.environment, [HandoverWorkflow, RouteReplyWorkflow], served)

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        identity = handover_workflow_id(self.talk.thread, 1)
        return self.environment.client.get_workflow_handle(identity)

    async def start(self) -> None:
        identity = handover_workflow_id(self.talk.thread, 1)
        await self.environment.client.start_workflow(
            HANDOVER_WORKFLOW, HandoverInput(self.ref), id=identity, task_queue=CORE_QUEUE
        )

    async def card(self) -> SandboxMessage:
        """The card of a turn that has ended with a person just now."""
        await self.escalated()
        await self.start()

        async def shown() -> bool:
            return bool(await self.card_ts())

        await until(shown, "the card is shown")
        return self.talk.posted(ESCALATIONS)[0]

    def click(self, card: SandboxMessage, by: str, button: str) -> dict[str, Any]:
        return self.talk.slack._interactions.click(by, ESCALATIONS, card.ts, button)

    async def press(self, card: SandboxMessage, by: str, button: str) -> None:
        assert (await self.gateway.handle(self.click(card, by, button))).signalled

    async def state(self) -> dict[str, Any]:
        """The answer of the workflow's query."""
        return dict(await self.handle.query("state"))

    async def timers(self) -> list[float]:
        """The seconds of each timer that neither fired nor was cancelled."""
        return (await self._timers())[0]

    async def only_looks(self) -> bool:
        """Whether the workflow waits for nothing but the next look at the record."""
        timers = await self.timers()
        return len(timers) == 1 and LOOK_EVERY - 600 < timers[0] <= LOOK_EVERY

    async def fired(self) -> int:
        """The number of this run's timers that have fired."""
        return (await self._timers())[1]

    async def _timers(self) -> tuple[list[float], int]:
        started = dict[int, float]()
        fired = 0
        for event in (await self.handle.fetch_history()).events:
            if event.HasField("timer_started_event_attributes"):
                timer = event.timer_started_event_attributes.start_to_fire_timeout
                started[event.event_id] = timer.ToTimedelta().total_seconds()
            elif event.HasField("timer_fired_event_attributes"):
                del started[event.timer_fired_event_attributes.started_event_id]
                fired += 1
            elif event.HasField("timer_canceled_event_attributes"):
                del started[event.timer_canceled_event_attributes.started_event_id]
        return list(started.values()), fired

    async def reply(self, card: SandboxMessage, by: str, text: str) -> SandboxMessage:
        """Somebody answers the asker by a message under the card."""
        return await self.write(card, by, f"reply: {text}")

    async def until_previewed(self, words: str) -> SandboxMessage:
        """Wait until a reply with these words is shown under the card, and return its preview."""

        found = list[SandboxMessage]()

        async def shown() -> bool:
            found[:] = [each for each in self.previews() if words in str(each.blocks)]
            return bool(found)

        await until(shown, f"{words!r} is shown under the card")
        return found[0]

    async def write(self, card: SandboxMessage, by: str, text: str) -> SandboxMessage:
        """Somebody writes under the card."""
        said = self.talk.slack.workspace.post(ESCALATIONS, by, text, thread_ts=card.ts)
        await self.event(card, said)
        return said

    async def event(self, card: SandboxMessage, said: SandboxMessage) -> None:
        event = {
            "type": "message",
            "channel": ESCALATIONS,
            "ts": said.ts,
            "thread_ts": card.ts,
            "user": said.user,
        }
        event |= {"text": said.text, "parent_user_id": BOT_USER}
        body = {"type": "event_callback", "team_id": TEAM, "event": event}
        assert (await self.gateway.handle(body)).outcome == "case_thread_deferred"

    async def until_said(self, words: str) -> None:
        async def told() -> bool:
            return any(words in each for each in self.said())

        await until(told, f"{words!r} is said to the asker")

    async def until_kept(self, count: int) -> None:
        """Wait until this many messages under the card are handled."""

        async def kept() -> bool:
            return (
                len(
                    await self.talk.rows(
                        "SELECT message_id FROM handover_answers WHERE shown_at IS NOT NULL"
                    )
                )
                == count
            )

        await until(kept, f"{count} messages are handled")

    async def until_whispered(self, user: str, words: str, times: int = 1) -> None:
        async def whispered() -> bool:
            told = [
                each["text"]
                for each in self.talk.slack.workspace.ephemerals
                if each["ephemeral_to"] == user
            ]
            return sum(words in each for each in told) == times

        await until(whispered, f"{user} is told {words!r}")

    def failing(self, activity: str) -> Callable[[], Awaitable[bool]]:
        """Whether an activity waits to be tried again."""

        async def waits() -> bool:
            pending = (await self.handle.describe()).raw_description.pending_activities
            return any(
                each.activity_type.name == activity and each.attempt > 1 for each in pending
            )

        return waits

    def reminders(self) -> list[str]:
        return [
            each for each in self.said(ESCALATIONS) if "Nobody has taken this over yet" in each
        ]

    def guest_joins(self) -> str:
        """A guest is in the escalations' channel."""
        workspace = self.talk.slack.workspace
        workspace.add_user(SandboxUser("U0GUEST", "guest", "Guest", is_restricted=True))
        workspace.join(ESCALATIONS, "U0GUEST")
        return "U0GUEST"

    async def ended(self) -> str:
        """The person who had it, after the end; the run is replayed as well."""
        async with asyncio.timeout(patient(40)):
            taken_by = str(await self.handle.result())
            again = Replayer(
                workflows=[HandoverWorkflow],
                data_converter=pydantic_data_converter,
                workflow_runner=workflow_runner(),
            )
            await again.replay_workflow(await self.handle.fetch_history())
            return taken_by
