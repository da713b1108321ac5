"""The operator's tools that search its memories and that end a turn with words.

The speaking tools only accept the words: the turn posts them as its answer, once, when it ends.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from threadline.models.model import ToolKind
from threadline.operator.store import MemoryKind, MemoryStore, StoredMemory
from threadline.rfps.model import JsonObject, RfpId
from threadline.slack.text import is_blank
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.output import counted, moment
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

MAX_MEMORIES = 10
"""Memories of each kind in one answer."""
MAX_WORDS = 5_000
"""Characters; a longer text is refused and not posted."""
_TEXT = (
    "What was done, found or decided, for people: short, in Slack's mrkdwn, at most "
    f"{MAX_WORDS:,} characters."
)
_QUESTION = (
    f"One question that its reader can answer without asking back, at most {MAX_WORDS:,} "
    "characters."
)
_ACCEPTED = "This is posted into the thread now, and the turn is over."


@tool(
    "memory.search",
    "What is remembered of earlier requests, as far as it may be told here: what happened "
    "(episodic), what is so (semantic), which tools did it (procedural). What the records say "
    "goes before it.",
    records=(RecordKind.RFPS,),
)
async def search(
    context: ToolContext,
    *,
    question: Annotated[
        str, Field(min_length=1, max_length=1_000, description="What it should be about.")
    ],
    kind: Annotated[MemoryKind | None, Field(description="Null: of all kinds.")] = None,
    limit: Annotated[int, Field(ge=1, le=MAX_MEMORIES, description="Of each kind.")] = 5,
) -> ToolResult:
    kinds = [kind] if kind else list(MemoryKind)
    found = await MemoryStore(context.tx).recall(
        context.team, question, kinds, channel=context.channel, limit=limit
    )
    told = {
        each.value: [_record(memory) for memory in memories] for each, memories in found.items()
    }
    count = sum(map(len, told.values()))
    return ToolResult(
        data=told,
        display_text=f"I remember {counted(count, 'thing')} about this."
        if count
        else "I remember nothing about this.",
    )


def _record(memory: StoredMemory) -> JsonObject:
    """Omits empty fields."""
    told = {"about": memory.search_text, "text": memory.text, "failed_with": memory.error_class}
    told |= {"user_id": memory.user_id, "rfp_id": memory.rfp_id, "at": moment(memory.created_at)}
    return {name: value for name, value in told.items() if value}


def _words(text: str) -> str:
    if is_blank(text):
        raise ValueError("the text is empty: write something")
    return text.strip()


Words = Annotated[str, AfterValidator(_words), Field(min_length=1, max_length=MAX_WORDS)]


@tool(
    "slack.post.summary",
    "Post the answer into the thread; this ends the turn. Once in a turn, behind everything "
    "else: with an RFP, after what was done is written down.",
    kind=ToolKind.SPEAK,
)
async def post_summary(
    context: ToolContext,
    *,
    text: Annotated[Words, Field(description=_TEXT)],
    rfp_id: Annotated[RfpId | None, Field(description="The RFP that it is about, if any.")] = None,
) -> ToolResult:
    return ToolResult(data=_ACCEPTED)


@tool(
    "slack.ask.clarifying.question",
    "Ask the person in the thread for what is missing and no tool can tell; this ends the turn, "
    "and the answer begins the next.",
    kind=ToolKind.SPEAK,
)
async def ask_clarifying_question(
    context: ToolContext, *, question: Annotated[Words, Field(description=_QUESTION)]
) -> ToolResult:
    return ToolResult(data=_ACCEPTED)


TOOLS = [search, post_summary, ask_clarifying_question]
