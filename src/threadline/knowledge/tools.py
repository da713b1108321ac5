"""`qa.answer`: finds passages of the team's documents, from which the model writes the answer."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from pydantic import Field

from threadline.knowledge.model import Passage, SearchQuery, SearchResult, citations
from threadline.tools.context import Port, ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import Cache, tool

_NOTHING = "The documents hold nothing on this."


Search = Callable[[SearchQuery], Awaitable[SearchResult]]
"""`search` with its database and embedder."""

KNOWLEDGE = Port[Search](
    "The knowledge base",
    "It is in the database: set DATABASE_URL, and fill it with `threadline knowledge ingest PATH…`.",
)


@tool(
    "qa.answer",
    "Passages of the team's documents about a question. Answer from them alone and name each that you used as its "
    "`cite` says; where they do not hold the answer, say so.",
    needs=(KNOWLEDGE,),
    critical=True,
    cache=Cache(60, shared=True),
    remote=True,
)
async def answer(
    context: ToolContext,
    *,
    question: Annotated[str, Field(min_length=1, max_length=2_000, description="What the person wants to know.")],
) -> ToolResult:
    found = await context.ports[KNOWLEDGE](SearchQuery(context.team, question))
    named = tuple(citations(found.passages))
    return ToolResult(
        data={"passages": [_record(each) for each in found.passages]},
        display_text=f"SearchResult in {', '.join(named)}." if named else _NOTHING,
        sources=named,
    )


def _record(passage: Passage) -> dict[str, object]:
    """A passage as the model sees it; `cite` is how an answer names it."""
    return {
        "cite": citations([passage])[0],
        "title": passage.title,
        "section": passage.section,
        "source": passage.source,
        "type": passage.type.value,
        "valid_until": passage.expires.isoformat() if passage.expires else None,
        "text": passage.text,
    }


TOOLS = [answer]
