"""Bug cases, looked up from any thread: developers read the findings, everybody else what a reporter may know."""

from typing import Annotated, Any

from pydantic import Field

from threadline.cases import audience
from threadline.cases.model import Action, CaseReaders, CaseStatus
from threadline.cases.outcome import AnsweredTurn
from threadline.cases.report import parse_bug_report
from threadline.cases.store.lists import CardSource, CaseLists
from threadline.errors import Permanent
from threadline.tools.context import ToolContext
from threadline.tools.model import RecordGroup, ToolResult
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

MOST = 20
"""Cases of one answer; further ones are found by more words."""

Wanted = Annotated[str | None, Field(max_length=300)]


@tool(
    "cases.search",
    "Bug cases of the team, such as those that are open for a component.",
    needs=(CaseReaders,),
    records=(RecordKind.CASES,),
)
async def search(
    context: ToolContext,
    *,
    words: Annotated[Wanted, Field(description="Words of the report or the title.")] = None,
    status: CaseStatus | None = None,
    component: Annotated[Wanted, Field(description="A part of the product, such as checkout.")] = None,
    open_only: Annotated[bool, Field(description="Leave out resolved cases, unless the status asks for them.")] = True,
) -> ToolResult:
    found = await CaseLists(context.tx).search(
        context.team,
        words=words or "",
        status=status,
        component=component or "",
        open_only=open_only and status is not CaseStatus.RESOLVED,
        limit=MOST + 1,
    )
    cards = [_card(context, each) for each in found[:MOST]]
    more = len(found) > MOST
    counted = f"{'more than ' if more else ''}{len(cards)} case{'' if len(cards) == 1 else 's'}"
    return ToolResult(
        data={"cases": cards, "more": more},
        display_text=f"Found {counted}." if cards else "There is no such case.",
        structured=(RecordGroup("cases", tuple(cards)),) if cards else (),
    )


@tool(
    "cases.get",
    "One bug case by its number: how it stands and what its reporter was told.",
    needs=(CaseReaders,),
    records=(RecordKind.CASES,),
)
async def get(
    context: ToolContext,
    *,
    bug_id: Annotated[str, Field(min_length=1, max_length=30, description="Its number, such as BUG-12.")],
) -> ToolResult:
    number = bug_id.strip().upper()
    found = await CaseLists(context.tx).for_cards(context.team, [number])
    if not found:
        raise Permanent(f"there is no case {number}; search for it by its words")
    card = _card(context, found[0])
    return ToolResult(
        data=card,
        display_text=f"{number} ({card['title']}) is {card['status'].replace('_', ' ')}, severity {card['severity']}.",
        structured=(RecordGroup("cases", (card,)),),
    )


TOOLS = [search, get]


def _card(context: ToolContext, source: CardSource) -> dict[str, Any]:
    """What may be told of a case where somebody asks about it, without what is empty, save the title. `told` is what
    its reporter was told or asked last, `link` leads to the thread it was reported in. What is for developers
    (`components`, `findings`, `pull_request`) is missing where others read as well."""
    case, turns, readers = source.case, source.turns, context.services[CaseReaders]
    card: dict[str, Any] = {
        "bug_id": case.bug_id,
        "title": _title_for_everybody(source),
        "status": case.status,
        "severity": case.severity,
        "opened_at": case.created_at.isoformat(timespec="minutes"),
        "status_since": source.status_since.isoformat(timespec="minutes"),
        "link": readers.link(case.thread),
        "told": next(filter(None, (_told(turn, source.reporter_words) for turn in turns)), ""),
    }
    if context.channel in readers.developers:
        card |= {
            "title": case.title,
            "components": case.components,
            "findings": next(filter(None, (turn.outcome.summary for turn in turns)), ""),
            "pull_request": source.pull_request,
        }
    return {name: value for name, value in card.items() if value or name == "title"}


def _title_for_everybody(source: CardSource) -> str:
    """The agent's title, unless it names what is internal: then the one that the report itself had."""
    title, known = source.case.title, source.reporter_words
    results = ({**turn.result, "title": ""} for turn in source.turns)
    if not any(audience.find_internal_content(title, result, known) for result in results):
        return title
    return parse_bug_report(source.report).title


def _told(turn: AnsweredTurn, reporter_words: str) -> str:
    """What the reporter was asked or told at the end of a turn."""
    if turn.action is Action.ASK_REPORTER:
        return turn.outcome.clarification_question.strip()
    return audience.reporter_text(turn.result, reporter_words)
