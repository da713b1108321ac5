"""How a turn ends in words. These tools only take the words: the turn posts them as its answer, once, when it ends."""

from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field

from threadline.models.model import ToolKind
from threadline.rfps.model import RfpId
from threadline.slack.text import is_blank
from threadline.tools.arguments import CorrelationId
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.registry import tool

LONGEST_WORDS = 5_000
"""Characters; longer words are refused, and nothing is said."""
_ACCEPTED = "This is posted into the thread now, and the turn is over."


def _words(text: str) -> str:
    if is_blank(text):
        raise ValueError("the text is empty: write something")
    return text.strip()


Words = Annotated[str, AfterValidator(_words), Field(min_length=1, max_length=LONGEST_WORDS)]


class Summary(BaseModel):
    text: Annotated[
        Words,
        Field(
            description="What was done, found or decided, for people: short, in Slack's mrkdwn, at most "
            f"{LONGEST_WORDS:,} characters."
        ),
    ]
    rfp_id: Annotated[RfpId | None, Field(description="The RFP that it is about, if any.")] = None
    correlation_id: CorrelationId


class Question(BaseModel):
    question: Annotated[
        Words,
        Field(
            description="One question that its reader can answer without asking back, at most "
            f"{LONGEST_WORDS:,} characters."
        ),
    ]


@tool(
    "slack.post.summary",
    "Post the answer into the thread; this ends the turn. Once in a turn, behind everything else: with an RFP, after "
    "what was done is written down.",
    kind=ToolKind.SPEAK,
)
async def post_summary(context: ToolContext, given: Summary) -> ToolResult:
    return ToolResult(data=_ACCEPTED)


@tool(
    "slack.ask.clarifying.question",
    "Ask the person in the thread for what is missing and no tool can tell; this ends the turn, and the answer begins "
    "the next.",
    kind=ToolKind.SPEAK,
)
async def ask_clarifying_question(context: ToolContext, given: Question) -> ToolResult:
    return ToolResult(data=_ACCEPTED)


TOOLS = [post_summary, ask_clarifying_question]
