"""The time until a message is stored, and until the agent's turn on it has started."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle

from bench.figures import Figure, Goal, Row, percentile
from bench.ground import Ground
from bench.parts.least import QUEUE, EmptyActivities
from bench.path import Clock, Product, product
from bench.scale import by_turns

FLOOR = "a workflow with one activity that does nothing, on a queue of its own"
TWO = (
    "a workflow with two activities that do nothing, as storing and the turn are two, on a queue "
    "of its own"
)
REPLY = Goal("ratio at most", 2)
REPORT = Goal("ratio at most", 2.5)
PAUSE = 0.5
"""Seconds between two messages, so that no work is under way."""
TURNS = ("run_agent_investigation", "run_continuation_investigation")


@dataclass(frozen=True)
class Times:
    """Seconds from a message's sending, for each message."""

    stored: tuple[float, ...]
    started: tuple[float, ...]


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    count = ground.scale.of(60, least=4)
    async with ground.part("least_worker", ground.temporal_address), product(ground) as ours:
        floor = Least(ground)
        two = Least(ground, activities=2)
        threads = await ours.open(count)
        least = await two.open(count)
        await asyncio.sleep(1)
        replies = await by_turns(
            ground.scale.rounds, lambda: _product(ours, threads), lambda: two.times(least)
        )
        reports = await by_turns(
            ground.scale.rounds, lambda: _reports(ours, count), lambda: floor.new(count)
        )
    for row in _rows("a reply", TWO, REPLY, *replies):
        yield row
    for row in _rows("a report", FLOOR, REPORT, *reports):
        yield row


def _rows(
    what: str, beside: str, within: Goal, ours: Sequence[Times], floor: Sequence[Times]
) -> list[Row]:
    least = Figure(tuple(percentile(run.started, 0.5) * 1000 for run in floor), "ms")
    stored, started = (
        Figure(tuple(percentile(run, 0.5) * 1000 for run in runs), "ms")
        for runs in ([run.stored for run in ours], [run.started for run in ours])
    )
    return [
        Row("latency", f"{what} → stored, p50", stored, least, beside),
        Row("latency", f"{what} → turn started, p50", started, least, beside, within),
    ]


async def _product(ours: Product, threads: Sequence[str]) -> Times:
    """Send one reply in each thread, one after the other. Return their times."""
    sent = {}
    for thread in threads:
        sent[thread] = datetime.now(UTC)
        await ours.send(thread)
        await asyncio.sleep(PAUSE)
    await ours.rest()
    return await times(ours.ground, sent, ("flush_messages",), TURNS)


async def _reports(ours: Product, count: int) -> Times:
    sent = {}
    for _ in range(count):
        began = datetime.now(UTC)
        sent[await ours.report()] = began
        await asyncio.sleep(PAUSE)
    await ours.rest()
    return await times(ours.ground, sent, ("flush_messages",), TURNS)


async def times(
    ground: Ground, sent: dict[str, datetime], storing: Sequence[str], turns: Sequence[str]
) -> Times:
    """Return the times from Temporal's history.

    Args:
        sent: time of the last message of each workflow.
        storing: activities of which one stores the message.
        turns: activities of which one starts the message's turn.
    """
    stored = []
    started = []
    for workflow_id, at in sent.items():
        history = (await ground.client.get_workflow_handle(workflow_id).fetch_history()).events
        since = [event for event in history if _at(event) >= at]
        names = {
            event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name
            for event in since
        }
        stored.append(
            _first(since, names, "activity_task_completed_event_attributes", storing, at)
        )
        started.append(_first(since, names, "activity_task_started_event_attributes", turns, at))
    return Times(tuple(stored), tuple(started))


async def lasted(ground: Ground, workflow_id: str, since: datetime) -> dict[str, float]:
    """Return the seconds of a workflow's activities by their names, each from its scheduling to
    its completion.
    """
    names: dict[int, tuple[str, datetime]] = {}
    seconds: dict[str, float] = defaultdict(float)
    for event in (await ground.client.get_workflow_handle(workflow_id).fetch_history()).events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            names[event.event_id] = (
                event.activity_task_scheduled_event_attributes.activity_type.name,
                _at(event),
            )
        elif event.HasField("activity_task_completed_event_attributes"):
            name, at = names[event.activity_task_completed_event_attributes.scheduled_event_id]
            seconds[name] += (_at(event) - at).total_seconds() if at >= since else 0.0
    return seconds


class Least:
    """The floor: the same clock, the same server, and empty activities, of which the start of the
    last one counts.
    """

    def __init__(self, ground: Ground, activities: int = 1) -> None:
        self._ground = ground
        self._activities = activities
        self._clock = Clock()

    async def open(self, count: int) -> list[str]:
        opened = [f"one:{self._clock.next()}" for _ in range(count)]
        for workflow_id in opened:
            await self._send(workflow_id)
        await self._rest(opened, self._activities)
        return opened

    async def times(self, workflow_ids: Sequence[str]) -> Times:
        before = await self._done(workflow_ids[0])
        sent = {}
        for workflow_id in workflow_ids:
            sent[workflow_id] = datetime.now(UTC)
            await self._send(workflow_id)
            await asyncio.sleep(PAUSE)
        await self._rest(workflow_ids, before + self._activities)
        return await self._read(sent)

    async def new(self, count: int) -> Times:
        sent = {}
        for _ in range(count):
            began = datetime.now(UTC)
            workflow_id = f"one:{self._clock.next()}"
            await self._send(workflow_id)
            sent[workflow_id] = began
            await asyncio.sleep(PAUSE)
        await self._rest(list(sent), self._activities)
        return await self._read(sent)

    async def _send(self, workflow_id: str) -> None:
        await self._ground.client.start_workflow(
            EmptyActivities.run,
            self._activities,
            id=workflow_id,
            task_queue=QUEUE,
            start_signal="message",
            start_signal_args=[{}],
        )

    async def _done(self, workflow_id: str) -> int:
        history = await self._handle(workflow_id).fetch_history()
        return sum(
            event.HasField("activity_task_completed_event_attributes") for event in history.events
        )

    async def _rest(self, workflow_ids: Sequence[str], times: int) -> None:
        for workflow_id in workflow_ids:
            async with asyncio.timeout(30):
                while await self._done(workflow_id) < times:  # noqa: ASYNC110 - another process
                    await asyncio.sleep(0.05)

    async def _read(self, sent: dict[str, datetime]) -> Times:
        started = []
        for workflow_id, at in sent.items():
            events = (await self._handle(workflow_id).fetch_history()).events
            since = [event for event in events if _at(event) >= at]
            names = {
                event.event_id: event.activity_task_scheduled_event_attributes.activity_type.name
                for event in since
            }
            kind = "activity_task_started_event_attributes"
            number = self._activities
            started.append(_first(since, names, kind, ("nothing",), at, number=number))
        return Times(tuple(started), tuple(started))

    def _handle(self, workflow_id: str) -> "WorkflowHandle[object, object]":
        return self._ground.client.get_workflow_handle(workflow_id)


def _at(event: HistoryEvent) -> datetime:
    return event.event_time.ToDatetime(tzinfo=UTC)


def _first(
    events: Sequence[HistoryEvent],
    names: dict[int, str],
    kind: str,
    wanted: Sequence[str],
    since: datetime,
    *,
    number: int = 1,
) -> float:
    """Return the seconds from `since` until the `number`-th event of this kind for an activity of
    a wanted name, by the server's clock.
    """
    moments = [
        _at(event)
        for event in events
        if event.HasField(kind)  # type: ignore[arg-type]  # stubs list each name
        and names.get(getattr(event, kind).scheduled_event_id) in wanted
    ]
    return (sorted(moments)[number - 1] - since).total_seconds()
