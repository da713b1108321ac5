"""Messages through the whole path, in bursts and one by one, on one thread and on many; and the
events in their histories.
"""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from bench.figures import Figure, Goal, Row
from bench.ground import Ground
from bench.path import Product, burst, paths
from bench.scale import by_turns
from bench.usage import Meter

BURST = 20
FLOOR = "the same, but each message is stored by an activity of its own"
FASTER = {1: Goal("ratio at least", 5), 50: Goal("ratio at least", 3.5)}
FLAT = Goal("ratio at most", 1.1)
FEWER_EVENTS = Goal("ratio at most", 0.25)


@dataclass(frozen=True)
class Load:
    """The result of one run: messages a second, and for each message history events and CPU
    milliseconds.
    """

    rate: float
    events: float
    cpu: float
    core_cpu: float


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    async with paths(ground) as (ours, floor):
        flat: dict[int, list[Load]] = {}
        for threads in ground.scale.some(1, 50, 500):
            for each in (1, BURST) if threads < 500 else (BURST,):
                rounds = ground.scale.rounds if threads < 500 else min(2, ground.scale.rounds)
                if threads == 500:
                    each = max(2, ground.scale.of(BURST))
                of_ours, of_floor = await _alternately(rounds, ours, floor, threads, each)
                if each > 1:
                    flat[threads] = of_ours
                for row in _rows(of_ours, of_floor, threads, each):
                    yield row
        if len(flat) > 1:
            yield _flat(flat)


async def _alternately(
    rounds: int, ours: Product, floor: Product, threads: int, each: int
) -> tuple[list[Load], list[Load]]:
    opened = {id(path): await path.open(threads) for path in (ours, floor)}
    await ours.fall_silent()
    await floor.fall_silent()

    async def load(path: Product) -> Load:
        return await _load(path, opened[id(path)], each)

    return await by_turns(rounds, lambda: load(ours), lambda: load(floor))


async def _load(path: Product, threads: Sequence[str], each: int) -> Load:
    repeats = 5 if len(threads) == 1 else 1
    counted = threads[:50]
    before = await events(path, counted)
    all_of_it = Meter(path.pids)
    core = Meter(path.pids[:1])
    all_of_it.start()
    core.start()
    seconds = 0.0
    for _ in range(repeats):
        seconds += await burst(path, threads, each)
        await path.fall_silent()
    sent = repeats * each
    return Load(
        rate=sent * len(threads) / seconds,
        events=(await events(path, counted) - before) / (sent * len(counted)),
        cpu=all_of_it.used * 1000 / (sent * len(threads)),
        core_cpu=core.used * 1000 / (sent * len(threads)),
    )


async def events(path: Product, workflow_ids: Sequence[str]) -> int:
    """Return the number of events in the workflows' histories, including the runs that they
    continue.
    """
    total = 0
    for workflow_id in workflow_ids:
        run: str | None = None
        while True:
            told = await path.ground.client.get_workflow_handle(workflow_id, run_id=run).describe()
            total += told.history_length
            started = await path.ground.first_event(workflow_id, told.run_id)
            run = started.continued_execution_run_id
            if not run:
                break
    return total


def _rows(ours: Sequence[Load], floor: Sequence[Load], threads: int, each: int) -> list[Row]:
    on = f"{threads} thread{'s' if threads > 1 else ''}, " + (
        f"bursts of {each}" if each > 1 else "one by one"
    )

    def figures(name: str, unit: str) -> tuple[Figure, Figure]:
        return (
            Figure(tuple(getattr(load, name) for load in ours), unit),
            Figure(tuple(getattr(load, name) for load in floor), unit),
        )

    bursts = each == BURST
    rate = figures("rate", "messages/s")
    history = figures("events", "events")
    cpu = figures("cpu", "ms")
    rows = [
        Row(
            "throughput",
            f"messages/s, {on}",
            *rate,
            FLOOR,
            FASTER.get(threads) if bursts else None,
        )
    ]
    if bursts and threads < 500:
        rows.append(
            Row("throughput", f"history events a message, {on}", *history, FLOOR, FEWER_EVENTS)
        )
    note = "all processes: worker, agent, Temporal, Postgres"
    rows.append(Row("throughput", f"CPU a message, {on}", *cpu, FLOOR, note=note))
    return rows


def _flat(loads: dict[int, list[Load]]) -> Row:
    """Return the row that compares the most with the fewest threads; only bursts, since a single
    message costs the same everywhere.
    """
    few = min(loads)
    many = max(loads)
    rounds = min(len(loads[few]), len(loads[many]))
    return Row(
        "throughput",
        f"CPU of the core worker a message, {many} threads",
        Figure(tuple(load.core_cpu for load in loads[many][:rounds]), "ms"),
        Figure(tuple(load.core_cpu for load in loads[few][:rounds]), "ms"),
        f"the same on {few} thread",
        FLAT,
    )
