"""What is remembered of earlier turns, found by the words of a question."""

from typing import Annotated

from pydantic import Field

from threadline.operator.model.memory import Memory, MemoryKind
from threadline.operator.store import MemoryStore
from threadline.rfps.model import JsonObject
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.output import counted, moment
from threadline.tools.registry import tool

MOST = 10
"""Memories of each kind in one answer."""


@tool(
    "memory.search",
    "What is remembered of earlier requests, as far as it may be told here: what happened (episodic), what is so "
    "(semantic), which tools did it (procedural). What the records say goes before it.",
)
async def search(
    context: ToolContext,
    *,
    question: Annotated[str, Field(min_length=1, max_length=1_000, description="What it should be about.")],
    kind: Annotated[MemoryKind | None, Field(description="Null: of all kinds.")] = None,
    limit: Annotated[int, Field(ge=1, le=MOST, description="Of each kind.")] = 5,
) -> ToolResult:
    kinds = [kind] if kind else list(MemoryKind)
    found = await MemoryStore(context.tx).recall(context.team, question, kinds, channel=context.channel, limit=limit)
    told = {each.value: [_record(memory) for memory in memories] for each, memories in found.items()}
    count = sum(map(len, told.values()))
    return ToolResult(
        data=told,
        display_text=f"I remember {counted(count, 'thing')} about this." if count else "I remember nothing about this.",
    )


TOOLS = [search]


def _record(memory: Memory) -> JsonObject:
    """Only what there is to tell."""
    told = {
        "about": memory.cue,
        "text": memory.text,
        "failed_with": memory.error_class,
        "user_id": memory.user_id,
        "rfp_id": memory.rfp_id,
        "at": moment(memory.at),
    }
    return {name: value for name, value in told.items() if value}
