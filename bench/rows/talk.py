"""The costs of a conversation: the time until the first request to the model, the time until its
answer is in Slack, and all work in between.
"""

import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from sqlalchemy import text

from bench.figures import Figure, Goal, Row, pair, percentile
from bench.ground import Ground
from bench.rows import latency
from bench.rows.latency import Least, Times
from bench.scale import by_turns
from bench.talk import PLAIN, READ, WORK, Talks, Took, all_were_answered, talks
from bench.usage import Meter
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline.models.model import Message, Prompt, Role
from threadline.slack.model import Thread

FLOOR = "the same model calls, tools and SQL one after the other in one process, without Temporal"
TURN = "a turn with a decision, 3 model calls and 2 tool calls"
AT_ONCE = 50
LONG = 300
COMPARED = 10
"""Turns of a long thread, and the number of its last turns that each round compares with as many
of a new thread.
"""
BEGINNING = "the same in a new thread"
GOALS = {"asked": Goal("ratio at most", 3), "said": Goal("ratio at most", 2.5)}
"""For the time until the first request to the model, and the time from its last reply to the
answer.
"""
OVERHEAD = Goal("ratio at most", 1.3)
ONE_CALL = Goal("ratio at most", 1.25)
"""The decision and the first call of the model run concurrently."""
MODEL_SECONDS = 1.5
RATE = Goal("ratio at least", 0.9)
FLAT = Goal("ratio at most", 1.1)
SMALL = Goal("largest at most", 20)
"""Kilobytes, the limit in the issue about conversations for a turn whose tools return two
megabytes.
"""
_MUCH = ["A long description of what there is to do. " * 300] * 100
"""Items of a project that is longer than a megabyte."""
_KEPT = 2_000_000
"""Minimum of stored bytes of a turn's results; the record has a limit for each of them."""
_OUTPUT = text(
    "SELECT coalesce(sum(octet_length(result::text)), 0) FROM agent_tool_executions WHERE "
    "thread_ts = :ts"
)


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    async with talks(ground) as (ours, floor):
        for part in (_latency, _one_call, _overhead, _at_once):
            for row in await part(ours, floor):
                yield row
        for row in await _history(ours):
            yield row
        # Last, since the tables then hold many short threads, as in a database in operation.
        for row in await _growth(ours, floor):
            yield row
        await all_were_answered(ground)


# -- latency


@dataclass(frozen=True)
class Heard:
    """Seconds for each mention: until the first request to the model, and from its last reply to
    the answer.
    """

    asked: tuple[float, ...]
    said: tuple[float, ...]


async def _latency(ours: Talks, _: Talks) -> list[Row]:
    ground = ours.ground
    count = ground.scale.of(60, least=4)
    rounds = ground.scale.rounds
    async with ground.part("least_worker", ground.temporal_address):
        floor = Least(ground)
        threads = await ours.open(count)
        least = await floor.open(count)

        def first() -> list[Thread]:
            return [ours.new() for _ in range(count)]

        known = await by_turns(
            rounds, lambda: _mentions(ours, threads), lambda: _least(floor.times(least))
        )
        new = await by_turns(
            rounds, lambda: _mentions(ours, first()), lambda: _least(floor.new(count))
        )
    said = {"said": "the model's last reply → the answer in Slack"}
    rows = _rows({"asked": "a mention → the model is asked", **said}, *known)
    return rows + _rows({"asked": "a first mention → the model is asked"}, *new)


async def _mentions(talk: Talks, threads: Sequence[Thread]) -> Heard:
    took = [await talk.turn(thread, PLAIN) for thread in threads]
    return Heard(
        tuple(each.asked - each.began for each in took),
        tuple(each.answered - each.asked_last for each in took),
    )


async def _least(measured: Awaitable[Times]) -> Heard:
    """Return one activity after one message, the floor of both times."""
    started = (await measured).started
    return Heard(started, started)


def _rows(parts: Mapping[str, str], ours: Sequence[Heard], floor: Sequence[Heard]) -> list[Row]:
    rows = []
    for of, what in parts.items():
        mine, least = (
            [percentile(getattr(run, of), 0.5) * 1000 for run in runs] for runs in (ours, floor)
        )
        rows.append(
            Row("talk", f"{what}, p50", *pair(mine, least, "ms"), latency.FLOOR, GOALS[of])
        )
    return rows


# -- an answer of a model that takes its time


async def _one_call(ours: Talks, _: Talks) -> list[Row]:
    """Measure an answer without tools beside one call of the model by the product's client."""
    count = ours.ground.scale.of(10, least=3)
    threads = await ours.open(count)
    config = OpenAIConfig("gpt-5.4-mini", "none", f"{ours.model.url}/v1")
    model = OpenAIModel(config)
    prompt = Prompt("", (Message(Role.USER, PLAIN),))

    async def answered() -> float:
        took = [await ours.turn(thread, PLAIN) for thread in threads]
        return statistics.median(each.wall for each in took) * 1000

    async def called() -> float:
        seconds = []
        for _ in threads:
            began = time.monotonic()
            await model.ask(prompt)
            seconds.append(time.monotonic() - began)
        return statistics.median(seconds) * 1000

    ours.model.delay = MODEL_SECONDS
    try:
        mine, least = await by_turns(ours.ground.scale.rounds, answered, called)
    finally:
        ours.model.delay = 0.0
        await model.close()
    what = f"a mention → its answer, the model takes {MODEL_SECONDS} s"
    return [Row("talk", what, *pair(mine, least, "ms"), "one call of this model", ONE_CALL)]


# -- a turn with tools


async def _overhead(ours: Talks, floor: Talks) -> list[Row]:
    count = ours.ground.scale.of(20, least=2)

    async def wall(talk: Talks) -> float:
        took = [await talk.turn(thread, WORK) for thread in await talk.open(count)]
        return statistics.median(each.wall for each in took) * 1000

    mine, least = await by_turns(ours.ground.scale.rounds, lambda: wall(ours), lambda: wall(floor))
    return [Row("talk", f"{TURN}: wall time", *pair(mine, least, "ms"), FLOOR, OVERHEAD)]


async def _at_once(ours: Talks, floor: Talks) -> list[Row]:
    return await at_once("talk", "a turn", "turns", WORK, ours, floor)


async def at_once(
    topic: str, one: str, many: str, words: str, ours: Talks, floor: Talks
) -> list[Row]:
    """Measure many concurrent threads: answers a second, and the CPU of each.

    Args:
        one: name of a turn.
        many: name of several turns.
        words: the message in each thread, which has its own project and RFP.
    """
    count = ours.ground.scale.of(AT_ONCE, least=2)

    async def load(talk: Talks) -> tuple[float, float]:
        threads = await talk.open_rfps(count)
        meter = Meter(talk.pids)
        meter.start()
        seconds = await talk.together(threads, words)
        await talk.fall_silent()
        return count / seconds, meter.used * 1000 / count

    mine, least = await by_turns(ours.ground.scale.rounds, lambda: load(ours), lambda: load(floor))
    rate = pair((run[0] for run in mine), (run[0] for run in least), "turns/s")
    cpu = pair((run[1] for run in mine), (run[1] for run in least), "ms")
    note = "all processes: worker, Temporal, Postgres; model and Slack are not counted"
    return [
        Row(topic, f"answered {many}/s, {count} conversations at once", *rate, FLOOR, RATE),
        Row(topic, f"CPU {one}, {count} conversations at once", *cpu, FLOOR, note=note),
    ]


# -- the history


async def _history(ours: Talks) -> list[Row]:
    count = ours.ground.scale.of(5)
    usual = [await added(ours, thread, WORK) for thread in await ours.open(count)]
    much = await ours.open(count, _MUCH)
    large = [await added(ours, thread, READ) for thread in much]
    for thread in much:
        async with ours.ground.database.begin() as tx:
            output = (await tx.execute(_OUTPUT, {"ts": thread.ts})).scalar_one()
        if output < _KEPT:
            raise RuntimeError(
                f"of the results of the tools of {thread.key} no more than {output} bytes are kept"
            )
    bounded = Figure(tuple(run[1] for run in large), "kB")
    return [
        Row("talk", f"{TURN}: history events", Figure(tuple(run[0] for run in usual), "events")),
        Row("talk", "history of a turn whose 3 tool calls return 2 MB", bounded, goal=SMALL),
    ]


async def added(talk: Talks, thread: Thread, words: str) -> tuple[float, float]:
    """Return the events and kilobytes that a turn adds."""
    before = await _size(talk, thread)
    await talk.turn(thread, words)
    await talk.fall_silent()
    after = await _size(talk, thread)
    return after[0] - before[0], (after[1] - before[1]) / 1000


async def _size(talk: Talks, thread: Thread) -> tuple[int, int]:
    handle = talk.ground.client.get_workflow_handle(conversation_workflow_id(thread))
    events = (await handle.fetch_history()).events
    return len(events), sum(event.ByteSize() for event in events)


# -- a long thread


async def _growth(ours: Talks, floor: Talks) -> list[Row]:
    """Compare a long thread with a new one, in turns: a machine that slows down slows both."""
    async with ours.ground.database.begin() as tx:
        await tx.execute(text("ANALYZE"))
    scale = ours.ground.scale
    rows = []
    length = scale.of(LONG, least=6)
    share = scale.of(COMPARED, least=2)
    measured: list[tuple[str, Talks, Callable[[Took], float]]] = [
        ("wall time", ours, lambda took: took.wall),
        ("database", floor, lambda took: took.within.database),
    ]
    for what, talk, of in measured:
        long, young = await talk.open(2)
        await _mean(of, talk, long, length)
        ends = await by_turns(
            scale.rounds,
            partial(_mean, of, talk, long, share),
            partial(_mean, of, talk, young, share),
        )
        rows.append(
            Row(
                "talk",
                f"{TURN}: {what}, after {length} turns",
                *pair(*ends, "ms"),
                BEGINNING,
                FLAT,
            )
        )
    return rows


async def _mean(of: Callable[[Took], float], talk: Talks, thread: Thread, turns: int) -> float:
    """Return the mean milliseconds of a turn."""
    took = [of(await talk.turn(thread, WORK)) for _ in range(turns)]
    return statistics.mean(took) * 1000
