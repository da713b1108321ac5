"""A reply in a thread that the gateway could not place."""

from dataclasses import asdict, dataclass, field

import pytest
from temporalio import activity

from tests.support.temporal import skipping_time, worker
from threadline.errors import Permanent, Transient
from threadline.slack.model import Thread
from threadline.threads.contract import ForwardedReply
from threadline.threads.model import (
    CORE_QUEUE,
    INCOMING_MESSAGE,
    IncomingMessage,
    MessageKind,
    SenderType,
)
from threadline.threads.workflow import RouteReplyWorkflow

THREAD = Thread("T1", "C2", "1.0")


def _reply(number: int) -> IncomingMessage:
    return IncomingMessage(
        f"T1:C2:{number}",
        MessageKind.MESSAGE,
        SenderType.DEVELOPER,
        "U1",
        f"reply {number}",
        "C2",
        f"{number}.0",
    )


@dataclass
class ReplyScene:
    trouble: Exception | None = None
    known: bool = True
    forwarded: list[IncomingMessage] = field(default_factory=list)

    @activity.defn
    async def forward_reply(self, reply: ForwardedReply) -> bool:
        if self.trouble:
            trouble = self.trouble
            self.trouble = None
            raise trouble
        self.forwarded.append(reply.message)
        return self.known


async def _route(desk: ReplyScene, *messages: IncomingMessage) -> str:
    async with skipping_time() as environment:
        handle = await environment.client.start_workflow(
            RouteReplyWorkflow.run,
            THREAD,
            id="route",
            task_queue=CORE_QUEUE,
            start_signal=INCOMING_MESSAGE,
            start_signal_args=[asdict(messages[0])],
        )
        for message in messages[1:]:
            await handle.signal(INCOMING_MESSAGE, message)
        async with worker(environment, [RouteReplyWorkflow], [desk.forward_reply]):
            return await handle.result()


@pytest.mark.records("reply_forwarded")
async def test_each_reply_is_forwarded_once_and_in_order() -> None:
    desk = ReplyScene()
    first = _reply(1)
    second = _reply(2)
    assert await _route(desk, first, second, first) == "forwarded"
    assert desk.forwarded == [first, second]


@pytest.mark.records("reply_to_no_case")
async def test_thread_that_is_no_case_ends_quietly() -> None:
    assert await _route(ReplyScene(known=False), _reply(1)) == "not a case"


@pytest.mark.parametrize(
    "trouble", [Transient("Postgres is away"), Permanent("the bot is not in the channel")]
)
async def test_failed_forward_is_tried_again(trouble: Exception) -> None:
    desk = ReplyScene(trouble)
    assert await _route(desk, _reply(1), _reply(2)) == "forwarded"
    assert desk.forwarded == [_reply(1), _reply(2)]
