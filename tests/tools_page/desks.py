"""Who sits where."""

from typing import Protocol

from threadline.tools.context import Port, ToolContext
from threadline.tools.model import Structured, ToolResult
from threadline.tools.registry import Cache, tool


class Desks(Protocol):
    async def of(self, team: str, name: str) -> tuple[dict[str, str], ...]: ...


DESKS = Port[Desks]("The plan of the office", "Set OFFICE_PLAN.")


@tool("desks.find", "Where a colleague sits, by any part of a name.", needs=(DESKS,), cache=Cache(600, shared=True))
async def find(context: ToolContext, *, name: str) -> ToolResult:
    desks = await context.ports[DESKS].of(context.team, name)
    return ToolResult(data=desks, display_text=f"{len(desks)} found.", structured=(Structured("desks", desks),))


TOOLS = [find]
