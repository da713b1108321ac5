"""`qa.answer`: finds passages of the team's documents, from which the model writes the answer."""

from typing import Annotated

from pydantic import Field

from threadline.db.engine import Database
from threadline.knowledge.model import Passage, SearchQuery, citations
from threadline.knowledge.search import search
from threadline.models.embeddings import Embedder
from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import Cache, tool

_NOTHING = "The documents hold nothing on this."


@tool(
    "qa.answer",
    "Passages of the team's documents about a question. Answer from them alone and name each that you used as its "
    "`cite` says; where they do not hold the answer, say so.",
    kind=ToolKind.LOOKUP,
    needs=(Database,),
    critical=True,
    cache=Cache(60, shared=True),
    remote=True,
)
async def answer(
    context: ToolContext,
    *,
    question: Annotated[str, Field(min_length=1, max_length=2_000, description="What the person wants to know.")],
) -> ToolResult:
    found = await search(
        context.services[Database], context.services.get(Embedder), SearchQuery(context.team, question)
    )
    named = tuple(citations(found.passages))
    return ToolResult(
        data={"passages": [_record(each) for each in found.passages]},
        display_text=f"Found in {', '.join(named)}." if named else _NOTHING,
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
