"""A queue without a worker: the admin gets a message after a while, and another when a worker is
back.
"""

from typing import Any

import pytest

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk
from threadline.errors import Transient
from threadline.threads.faults import InstallationFaults
from threadline.threads.model import CORE_QUEUE
from threadline.threads.queues import NO_WORKER, QueueWatch
from threadline_devstack.slack.identity import ESCALATIONS

__all__ = ["make_talk"]

PATIENCE = 180.0


class Queue:
    """A queue as Temporal shows it, and the time."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.served: bool | None = True
        """None while Temporal does not answer."""

    async def has_worker(self, name: str) -> bool:
        assert name == CORE_QUEUE
        if self.served is None:
            raise Transient("Temporal is away.")
        return self.served


@pytest.fixture
def talk(make_talk: Make) -> ConversationActivityScene:
    return make_talk()


def watch_of(talk: ConversationActivityScene, queue: Queue) -> QueueWatch:
    faults = InstallationFaults(talk.database, talk.activities.deps.outbox, ESCALATIONS)
    return QueueWatch(
        CORE_QUEUE, queue.has_worker, faults, PATIENCE, "Start it.", clock=lambda: queue.now
    )


async def open_faults(talk: ConversationActivityScene) -> list[Any]:
    rows = await talk.rows(
        "SELECT kind, subject FROM installation_faults WHERE resolved_at IS NULL"
    )
    return [(each["kind"], each["subject"]) for each in rows]


async def test_absent_worker_is_reported_once_and_its_return_ends_the_fault(
    talk: ConversationActivityScene,
) -> None:
    queue = Queue()
    watch = watch_of(talk, queue)
    for served, seconds, told, faults in (
        (True, 0, 0, 0),
        (False, PATIENCE - 1, 0, 0),  # the first look without a worker: the time begins
        (None, 300, 0, 0),
        (False, PATIENCE - 1, 1, 1),
        (False, 3600, 1, 1),
        (None, 3600, 1, 1),
        (True, 30, 1, 0),
        (False, 30, 1, 0),
    ):
        queue.served = served
        queue.now += seconds
        await watch.look()
        assert len(talk.posted(ESCALATIONS)) == told, (served, seconds)
        assert await open_faults(talk) == [(NO_WORKER, CORE_QUEUE)] * faults, (served, seconds)
    assert "Start it." in talk.posted(ESCALATIONS)[0].text


async def test_fault_that_an_earlier_gateway_reported_is_ended(
    talk: ConversationActivityScene,
) -> None:
    queue = Queue()
    queue.served = False
    first = watch_of(talk, queue)
    await first.look()
    queue.now += PATIENCE
    await first.look()
    queue.served = True
    await watch_of(talk, queue).look()
    assert await open_faults(talk) == []
