"""The floor of a conversation is worth comparing with only if it does the same."""

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from bench.ground import Ground, ground
from bench.scale import TINY
from bench.talk import WORK, all_were_answered, talks
from threadline.domain.addressing import Thread

_KEPT = {
    "what the model has read and said": """
        SELECT left(t.key, 1) AS kind, t.turn, t.step FROM transcript t JOIN conversations c ON c.id = conversation_id
        WHERE c.thread_ts = :ts ORDER BY t.place
    """,
    "calls of the model": """
        SELECT m.turn, m.step, m.purpose, m.output_tokens > 0 FROM model_calls m
        JOIN conversations c ON c.id = conversation_id WHERE c.thread_ts = :ts ORDER BY m.turn, m.step
    """,
    "calls of tools": """
        SELECT turn, step, tool_name, status FROM agent_tool_executions WHERE thread_ts = :ts ORDER BY turn, step
    """,
    "turns": """
        SELECT t.turn, t.kind, t.answer, t.model_calls, t.said_at IS NOT NULL FROM conversation_turns t
        JOIN conversations c ON c.id = conversation_id WHERE c.thread_ts = :ts ORDER BY t.turn
    """,
    "posts": "SELECT kind, ts IS NOT NULL FROM slack_posts WHERE thread_ts = :ts ORDER BY claimed_at",
}


@pytest.mark.promise("speed:bench:every-row")
async def test_the_floor_of_a_conversation_leaves_what_the_product_leaves(tmp_path: Path) -> None:
    async with ground(TINY, tmp_path) as under, talks(under) as ways:
        kept = []
        for talk in ways:
            (thread,) = await talk.open(1)
            took = await talk.turn(thread, WORK)
            assert took.began < took.asked < took.answered
            await talk.fall_silent()
            kept.append(await _kept(under, thread))
        await all_were_answered(under)
    ours, floor = kept
    assert ours == floor
    assert [call[2] for call in ours["calls of tools"]] == ["estimates.getProjectDetails", "estimates.updateWbsItems"]
    assert len(ours["calls of the model"]) == 4


async def _kept(under: Ground, thread: Thread) -> dict[str, list[tuple[Any, ...]]]:
    async with under.database.begin() as work:
        return {
            what: [tuple(row) for row in await work.connection.execute(text(query), {"ts": thread.ts})]
            for what, query in _KEPT.items()
        }
