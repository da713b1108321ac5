"""`qa.answer`: finds passages of the team's documents, from which the model writes the answer."""

from typing import Annotated

from pydantic import Field

from threadline.db.engine import Database
from threadline.knowledge.model import SearchQuery, citation, citations
from threadline.knowledge.search import search
from threadline.models.embeddings import Embedder
from threadline.models.model import ToolKind
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import Cache, tool
from threadline.tools.roles import RecordKind

_NOTHING = "The documents hold nothing on this."


@tool(
    "qa.answer",
    "Passages of the team's documents about a question. Answer from them alone and name each "
    "that you used as its `cite` says; where they do not hold the answer, say so.",
    kind=ToolKind.LOOKUP,
    needs=(Database,),
    critical=True,
    cache=Cache(60, shared=True),
    remote=True,
    records=(RecordKind.DOCUMENTS,),
)
async def answer(
    context: ToolContext,
    *,
    question: Annotated[
        str, Field(min_length=1, max_length=2_000, description="What the person wants to know.")
    ],
) -> ToolResult:
    found = await search(
        context.services[Database],
        context.services.get(Embedder),
        SearchQuery(context.team, question),
    )
    passages = [
        {
            "cite": citation(each.title, each.section),
            "title": each.title,
            "section": each.section,
            "source": each.source,
            "type": each.type.value,
            "valid_until": each.expires.isoformat() if each.expires else None,
            "text": each.text,
        }
        for each in found.passages
    ]
    named = tuple(citations(found.passages))
    return ToolResult(
        data={"passages": passages},
        display_text=f"Found in {', '.join(named)}." if named else _NOTHING,
        sources=named,
    )


TOOLS = [answer]
