"""Comparing with the floor of a conversation is only valid if the floor has the same effects."""

from pathlib import Path

from bench.ground import ground
from bench.scale import TINY
from bench.talk import WORK, all_were_answered, talks
from tests.bench.kept import kept


async def test_the_floor_of_a_conversation_leaves_the_same_rows_as_the_product(
    tmp_path: Path,
) -> None:
    async with ground(TINY, tmp_path) as under, talks(under) as ways:
        left = []
        for talk in ways:
            (thread,) = await talk.open(1)
            took = await talk.turn(thread, WORK)
            assert took.began < took.asked < took.asked_last < took.answered
            await talk.fall_silent()
            left.append(await kept(under, thread))
        await all_were_answered(under)
    ours, floor = left
    assert ours == floor
    assert [call[2] for call in ours["calls of tools"]] == [
        "estimates.getProjectDetails",
        "estimates.updateWbsItems",
    ]
    assert (
        [call[2] for call in ours["calls of the model"]].count("decide")
        == len(ours["decisions"])
        == 2
    )
    assert len(ours["calls of the model"]) == 4 + 2
