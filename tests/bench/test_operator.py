"""The floor of an operator's turn has the same effects as the operator, and is the turn that the
row describes.
"""

from pathlib import Path

from bench.ground import Ground, ground
from bench.rows.operator import STEPS
from bench.scale import TINY
from bench.talk import OPERATE, all_were_answered, talks
from tests.bench.kept import Kept, kept
from tests.support.temporal import until
from threadline.slack.model import Thread


async def test_the_floor_of_an_operators_turn_leaves_the_same_rows_as_the_product(
    tmp_path: Path,
) -> None:
    async with ground(TINY, tmp_path) as under, talks(under) as ways:
        left = []
        for talk in ways:
            (thread,) = await talk.open_rfps(1)
            took = await talk.turn(thread, OPERATE)
            assert took.began < took.asked < took.asked_last < took.answered
            left.append(await _remembered(under, thread))
        assert set(STEPS) < set(took.within.steps)
        await all_were_answered(under)
    ours, floor = left
    assert ours == floor
    tools = ["opportunity.load", "opportunity.patch", "journal.append", "slack.post.summary"]
    assert [call[2] for call in ours["calls of tools"]] == tools
    assert [call[2] for call in ours["calls of the model"]].count("analyse") == 1
    assert len(ours["calls of the model"]) == 2 + 5, (
        "the first mention with its decision, and then the operator"
    )
    assert ours["states"] == [(2, "proposal_submitted")]
    assert len(ours["journal"]) == 1


async def _remembered(under: Ground, thread: Thread) -> Kept:
    """Return the rows once the turn is remembered, which happens after its answer."""

    async def remembered() -> bool:
        return bool((await kept(under, thread))["memories"])

    await until(remembered, "the turn is remembered", 30)
    return await kept(under, thread)
