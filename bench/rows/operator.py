"""The costs of an operator's turn: it gathers facts, loads, changes, writes the journal, and
posts.
"""

import statistics
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bench.figures import Figure, Row, pair
from bench.ground import Ground
from bench.rows import latency
from bench.rows.talk import FLOOR, OVERHEAD, added, at_once
from bench.scale import by_turns
from bench.talk import OPERATE, Talks, Took, all_were_answered, talks
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.slack.model import Thread

TURN = "an operator's turn with 5 model calls and 4 tool calls"
STEPS = ("begin_turn", "think")
"""Steps before the first call of the operator; the analysis is one of its model calls."""
AFTER = (
    "what is remembered of a turn is written after its answer: among the CPU, and not among the "
    "wall time"
)


@dataclass(frozen=True)
class Stepped:
    """A turn whose steps are measured separately; `words` request it, `steps` are the names of
    their activities.
    """

    topic: str
    turn: str
    words: str
    steps: Sequence[str]
    note: str = ""


OPERATED = Stepped("operator", TURN, OPERATE, STEPS, AFTER)


async def measure(ground: Ground) -> AsyncGenerator[Row, None]:
    async with talks(ground) as (ours, floor):
        for row in await overhead(OPERATED, ours, floor):
            yield row
        for row in await at_once(
            "operator", "an operator's turn", "operator's turns", OPERATE, ours, floor
        ):
            yield row
        for row in await _history(ours):
            yield row
        await all_were_answered(ground)


@dataclass(frozen=True)
class Run:
    """Milliseconds, each the median of a run's turns; `steps` by the name of the activity."""

    wall: float
    steps: Mapping[str, float]


async def overhead(measured: Stepped, ours: Talks, floor: Talks) -> list[Row]:
    """Measure such a turn, whole and by its steps, beside the same in one process."""
    count = ours.ground.scale.of(20, least=2)

    async def run(talk: Talks) -> Run:
        threads = await talk.open_rfps(count)
        took = [await talk.turn(thread, measured.words) for thread in threads]
        each = [await _steps(talk, *turn) for turn in zip(threads, took, strict=True)]
        steps = {
            name: statistics.median(turn[name] for turn in each) * 1000 for name in measured.steps
        }
        return Run(statistics.median(turn.wall for turn in took) * 1000, steps)

    mine, least = await by_turns(ours.ground.scale.rounds, lambda: run(ours), lambda: run(floor))
    return _rows(measured, mine, least)


def _rows(measured: Stepped, mine: Sequence[Run], least: Sequence[Run]) -> list[Row]:
    walls = pair((run.wall for run in mine), (run.wall for run in least), "ms")
    rows = [
        Row(
            measured.topic,
            f"{measured.turn}: wall time",
            *walls,
            FLOOR,
            OVERHEAD,
            note=measured.note,
        )
    ]
    for name in measured.steps:
        step = pair((run.steps[name] for run in mine), (run.steps[name] for run in least), "ms")
        rows.append(Row(measured.topic, f"{measured.turn}: `{name}`", *step, FLOOR))
    return rows


async def _steps(talk: Talks, thread: Thread, took: Took) -> Mapping[str, float]:
    """Return the seconds of each step: as the one process reports them, or by Temporal's history
    from scheduled to completed.
    """
    if took.within.steps:
        return took.within.steps
    workflow_id = conversation_workflow_id(thread)
    return await latency.lasted(talk.ground, workflow_id, datetime.fromtimestamp(took.began, UTC))


async def _history(ours: Talks) -> list[Row]:
    threads = await ours.open_rfps(ours.ground.scale.of(5))
    sizes = [await added(ours, thread, OPERATE) for thread in threads]
    return [
        Row(
            "operator",
            f"{TURN}: history events",
            Figure(tuple(events for events, _ in sizes), "events"),
        )
    ]
