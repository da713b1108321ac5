"""Bug cases, looked up from any thread: which there are and how one stands, as far as its readers may know."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, Protocol

from pydantic import Field

from threadline.cases.model import CaseStatus, Severity
from threadline.tools.context import Port, ToolContext
from threadline.tools.model import Structured, ToolResult
from threadline.tools.registry import tool

MOST = 20
"""Cases of one answer; further ones are found by more words."""


@dataclass(frozen=True)
class CaseQuery:
    """What is empty does not matter. `component`: a part of its name."""

    words: str = ""
    status: CaseStatus | None = None
    component: str = ""
    open_only: bool = True


@dataclass(frozen=True)
class CaseCard:
    """What may be told of a case where somebody asks about it.

    `told`: what its reporter was told or asked last, empty when nothing was; `link`: of the thread it was reported in.
    What is for developers (`components`, `findings`, `pull_request`) is empty where others read as well.
    """

    bug_id: str
    title: str
    status: CaseStatus
    severity: Severity
    opened_at: datetime
    status_since: datetime
    link: str
    told: str = ""
    components: Sequence[str] = ()
    findings: str = ""
    pull_request: str = ""


class CaseBook(Protocol):
    """A team's cases. What a card tells depends on who reads in `channel`."""

    async def search(self, team: str, channel: str, query: CaseQuery, limit: int) -> Sequence[CaseCard]:
        """Those that have most of the words first, else the newest."""
        ...

    async def get(self, team: str, channel: str, bug_id: str) -> CaseCard:
        """Raises `CaseNotFound`."""
        ...


CASES = Port[CaseBook]("The cases", "They are in the database: set DATABASE_URL.")

Wanted = Annotated[str | None, Field(max_length=300)]


@tool("cases.search", "Bug cases of the team, such as those that are open for a component.", needs=(CASES,))
async def search(
    context: ToolContext,
    *,
    words: Annotated[Wanted, Field(description="Words of the report or the title.")] = None,
    status: CaseStatus | None = None,
    component: Annotated[Wanted, Field(description="A part of the product, such as checkout.")] = None,
    open_only: Annotated[bool, Field(description="Leave out resolved cases, unless the status asks for them.")] = True,
) -> ToolResult:
    query = CaseQuery(words or "", status, component or "", open_only and status is not CaseStatus.RESOLVED)
    found = await context.ports[CASES].search(context.team, context.channel, query, MOST + 1)
    cards = [_card(each) for each in found[:MOST]]
    more = len(found) > MOST
    counted = f"{'more than ' if more else ''}{len(cards)} case{'' if len(cards) == 1 else 's'}"
    return ToolResult(
        data={"cases": cards, "more": more},
        display_text=f"Found {counted}." if cards else "There is no such case.",
        structured=(Structured("cases", tuple(cards)),) if cards else (),
    )


@tool("cases.get", "One bug case by its number: how it stands and what its reporter was told.", needs=(CASES,))
async def get(
    context: ToolContext,
    *,
    bug_id: Annotated[str, Field(min_length=1, max_length=30, description="Its number, such as BUG-12.")],
) -> ToolResult:
    case = await context.ports[CASES].get(context.team, context.channel, bug_id)
    card = _card(case)
    return ToolResult(
        data=card,
        display_text=f"{case.bug_id} ({case.title}) is {case.status.replace('_', ' ')}, severity {case.severity}.",
        structured=(Structured("cases", (card,)),),
    )


TOOLS = [search, get]


def _card(case: CaseCard) -> dict[str, Any]:
    """Only what there is to tell; moments in ISO 8601 with their zone."""
    told = {name: value for name, value in vars(case).items() if value}
    moments = {name: told[name].isoformat(timespec="minutes") for name in ("opened_at", "status_since")}
    return {**told, **moments}
