"""A conversation's workflow with its worker: real Temporal, everything else in memory."""

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from tests.support.conversation_memory import Desk, Reply, Tool
from tests.support.engine_memory import ENGINE
from tests.support.temporal import activities_of, deliver, real_time, until, worker
from threadline.conversations.contract import ConversationActivities, SpeakingActivities
from threadline.conversations.model.conversation import ConversationLimits, Talk
from threadline.conversations.operator_contract import OperatorActivities
from threadline.threads import addressing, messages
from threadline.threads.addressing import Thread
from threadline.threads.messages import IncomingMessage
from threadline.wiring.temporal import WORKFLOWS

ANNA, BEN = "U0ANNA", "U0BEN"


@dataclass
class Talking:
    """A thread whose conversation nobody has begun yet, and the people in it."""

    environment: WorkflowEnvironment
    desk: Desk
    thread: Thread
    _clock: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.environment.client.get_workflow_handle(addressing.conversation_workflow_id(self.thread))

    def message(
        self, text: str, user: str = ANNA, kind: str = messages.MESSAGE, *, addressed: bool = True
    ) -> IncomingMessage:
        """Said now, after whatever was said before."""
        ts = f"1700000001.{next(self._clock):06}"
        identity = addressing.message_id(self.thread.team, self.thread.channel, ts)
        return IncomingMessage(
            identity, kind, messages.UNKNOWN, user, text, self.thread.channel, ts, addressed=addressed
        )

    async def send(self, message: IncomingMessage) -> None:
        state, identity = Talk(self.thread), addressing.conversation_workflow_id(self.thread)
        client, signal = self.environment.client, addressing.INCOMING_MESSAGE
        await deliver(client, addressing.CONVERSATION_WORKFLOW, state, identity, signal, message)

    async def say(self, text: str, user: str = ANNA, *, addressed: bool = True) -> None:
        await self.send(self.message(text, user, addressed=addressed))

    async def stop(self) -> None:
        await self.send(self.message("stop", kind=messages.STOP))

    async def until(self, condition: Callable[[], object], what: str) -> None:
        async def holds() -> bool:
            return bool(condition())

        await until(holds, what)

    async def until_said(self, turn: int) -> str:
        """Wait for the answer of a turn."""
        await self.until(lambda: turn in self.desk.said, f"turn {turn} is answered")
        return self.desk.said[turn]

    async def until_stored(self, count: int) -> None:
        await self.until(lambda: len(self.desk.rows) == count, f"{count} messages are stored")

    async def until_known(self, words: str) -> None:
        """Wait until Temporal's UI shows something."""

        async def shown() -> bool:
            return words in await self.details()

        await until(shown, f"the UI says {words!r}")

    async def details(self) -> str:
        answer: WorkflowMetadata = await self.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        return answer.current_details

    async def later(self, **duration: float) -> None:
        await self.environment.sleep(timedelta(**duration))

    def working(self) -> AbstractAsyncContextManager[None]:
        """A worker for as long as the block lasts."""
        served = activities_of(self.desk, ConversationActivities, SpeakingActivities, OperatorActivities, *ENGINE)
        return worker(self.environment, WORKFLOWS, served)


@asynccontextmanager
async def talking(
    *replies: Reply,
    limits: ConversationLimits | None = None,
    tools: dict[str, Tool] | None = None,
    server: Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]] = real_time,
) -> AsyncIterator[Talking]:
    """A conversation with a worker; the model gives these replies, and after them says that it is done."""
    desk = Desk(list(replies), tools or {}, limits or ConversationLimits())
    async with server() as environment:
        talk = Talking(environment, desk, Thread("T1", "C1", "1700000000.000100"))
        async with talk.working():
            yield talk
