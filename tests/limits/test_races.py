"""Signals at the worst moments of a run's life: none is lost, none counts twice."""

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
from temporalio import activity

from tests.chaos.plan import seeded_random
from tests.limits.scene import LoadScene, connected
from tests.support.case_scene import Agent, outcome
from threadline.cases.model import Action, CaseLimits
from threadline.cases.store.lists import CaseLists
from threadline.gateway.routes import Route, RouteTarget
from threadline.slack.model import Thread

THREADS = 6
PATIENCE = 75.0
AMID = 0.06
"""A run ends within this many seconds after the start of its last activity."""

pytestmark = pytest.mark.alone


async def _talk_until_hit(
    ground: LoadScene, threads: list[Thread], ended: str, times: int
) -> None:
    """Send messages without a pause until runs have ended among them, and a signal came during
    such an end.
    """
    numbers = iter(range(1, 10**6))
    hit = asyncio.Event()

    async def talk(thread: Thread) -> None:
        while not hit.is_set():
            await ground.deliver(thread, ground.message(thread, next(numbers)))

    async def happened() -> bool:
        return (
            await ground.runs(ended) >= times
            and (await ground.task_failures())["UNHANDLED_COMMAND"] > 0
        )

    async with asyncio.TaskGroup() as together:
        talking = [together.create_task(talk(thread)) for thread in threads]
        try:
            await ground.until(
                happened,
                f"{times} runs are {ended} and a signal came amid an end",
                PATIENCE,
                every=0.5,
            )
        finally:
            hit.set()
        await asyncio.gather(*talking)


@dataclass
class AmidTheEnd(Agent):
    """Somebody writes while the last activity of a run is at work, and just after it."""

    write: Callable[[str], Coroutine[Any, Any, None]] | None = None
    writing: list[asyncio.Task[None]] = field(default_factory=list)

    @activity.defn
    async def cleanup_workspace(self, bug_id: str) -> None:
        assert self.write
        self.cleaned.append(bug_id)
        self.writing.append(asyncio.create_task(self.write(bug_id)))


async def test_signals_while_a_run_completes_are_stored_once(ground: LoadScene) -> None:
    numbers = itertools.count(1)
    throws = seeded_random("1")
    over = asyncio.Event()

    async def write(bug_id: str) -> None:
        await asyncio.sleep(throws.uniform(0, AMID))
        if not over.is_set():
            thread = threads[bug_id]
            await ground.deliver(thread, ground.message(thread, next(numbers)))

    async def hit() -> bool:
        return (
            await ground.runs("Completed") > 1
            and (await ground.task_failures())["UNHANDLED_COMMAND"] > 0
        )

    ground.agent = agent = AmidTheEnd(
        ground.agent.turns, [outcome(Action.RESOLVED)] * 10_000, write=write
    )
    async with ground.working():
        reports = [ground.thread() for _ in range(THREADS)]
        threads: dict[str, Thread] = {}
        for number, thread in enumerate(reports, start=1):
            threads[f"BUG-{number}"] = thread
            await ground.deliver(thread, ground.report(thread))
            await ground.until(partial(_open_cases, ground, number), "the report is a case")
        await ground.until(
            hit, "runs end, and a signal comes amid the end of one", PATIENCE, every=0.5
        )
        over.set()
        await asyncio.gather(*agent.writing)
        await ground.until_stored()
        assert await ground.faults() == []


async def _open_cases(ground: LoadScene, count: int) -> bool:
    async with ground.database.begin() as tx:
        return len(await CaseLists(tx).list(limit=2 * THREADS)) == count


async def test_signals_while_a_run_continues_as_new_are_stored_once(ground: LoadScene) -> None:
    async with ground.working(CaseLimits(max_history_events=40)):
        threads = [ground.thread() for _ in range(THREADS)]
        await asyncio.gather(
            *(ground.deliver(thread, ground.report(thread)) for thread in threads)
        )
        await _talk_until_hit(ground, threads, "ContinuedAsNew", 2 * THREADS)
        await ground.until_stored()
        assert await ground.faults() == []


async def test_signals_before_the_first_task_are_all_there_when_it_runs(ground: LoadScene) -> None:
    thread = ground.thread()
    await ground.deliver(thread, ground.message(thread, 2))
    await ground.deliver(thread, ground.report(thread))
    for number in (3, 1, 4):
        await ground.deliver(thread, ground.message(thread, number))
    async with ground.working():
        await ground.until_stored()
        assert await ground.faults() == []
        said = [text for batch in ground.agent.batches for text in batch]
        assert said == ["The cart total is wrong", "no. 1", "no. 2", "no. 3", "no. 4"]


async def test_a_signal_after_the_end_starts_a_run_that_carries_on_the_case(
    ground: LoadScene,
) -> None:
    thread = ground.thread()
    ground.agent.script[:] = [outcome(Action.RESOLVED), outcome(Action.RESOLVED)]
    async with ground.working():
        await ground.deliver(thread, ground.report(thread))
        assert await ground.handle(thread).result() == "resolved"
        await ground.deliver(thread, ground.message(thread, 1, "it is back"))
        assert await ground.handle(thread).result() == "resolved"
        await ground.until_stored()
        assert await ground.faults() == []
        assert [request.turn for request in ground.agent.requests] == [1, 2]
        assert {request.bug_id for request in ground.agent.requests} == {"BUG-1"}
        assert ground.agent.batches[1] == ["it is back"]


async def test_the_same_report_from_two_gateways_at_once_is_one_case(ground: LoadScene) -> None:
    address = ground.client.service_client.config.target_host
    gateways = [ground.router(await connected(address)) for _ in range(2)]
    async with ground.working():
        threads = [ground.thread() for _ in range(20)]
        routes = [Route(RouteTarget.CASE, thread, ground.report(thread)) for thread in threads]
        await asyncio.gather(*(gateway.deliver(route) for route in routes for gateway in gateways))
        ground.sent = {route.message.id: route.message for route in routes}
        await ground.until_stored()
        assert await ground.faults() == []
        async with ground.database.begin() as tx:
            assert len(await CaseLists(tx).list(limit=100)) == len(threads)
        assert len(ground.agent.requests) == len(threads)
        assert len([run async for run in ground.client.list_workflows()]) == len(threads)
