"""Tools that look up bug cases from any thread. Developers read the findings, everybody else only
content for a reporter.
"""

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
"""Number of cases in one answer; more words find further ones."""

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
    component: Annotated[
        Wanted, Field(description="A part of the product, such as checkout.")
    ] = None,
    open_only: Annotated[
        bool, Field(description="Leave out resolved cases, unless the status asks for them.")
    ] = True,
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
    bug_id: Annotated[
        str, Field(min_length=1, max_length=30, description="Its number, such as BUG-12.")
    ],
) -> ToolResult:
    number = bug_id.strip().upper()
    found = await CaseLists(context.tx).for_cards(context.team, [number])
    if not found:
        raise Permanent(f"there is no case {number}; search for it by its words")
    card = _card(context, found[0])
    return ToolResult(
        data=card,
        display_text=(
            f"{number} ({card['title']}) is {card['status'].replace('_', ' ')}, severity "
            f"{card['severity']}."
        ),
        structured=(RecordGroup("cases", (card,)),),
    )


TOOLS = [search, get]


def _card(context: ToolContext, source: CardSource) -> dict[str, Any]:
    """Return the card of a case for the asking channel, without empty fields except the title.

    `told` is the reporter's last text or question, `link` the address of the report's thread. The
    fields for developers (`components`, `findings`, `pull_request`) are missing in channels that
    others read as well.
    """
    case = source.case
    turns = source.turns
    readers = context.services[CaseReaders]
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
            "pull_request": source.case.pull_request,
        }
    return {name: value for name, value in card.items() if value or name == "title"}


def _title_for_everybody(source: CardSource) -> str:
    """Return the agent's title, or the report's own when the agent's names something internal."""
    title = source.case.title
    known = source.reporter_words
    results = ({**turn.result, "title": ""} for turn in source.turns)
    if not any(audience.find_internal_content(title, result, known) for result in results):
        return title
    return parse_bug_report(source.report).title


def _told(turn: AnsweredTurn, reporter_words: str) -> str:
    """Return the question or the text for the reporter at the end of a turn."""
    if turn.action is Action.ASK_REPORTER:
        return turn.outcome.clarification_question.strip()
    return audience.reporter_text(turn.result, reporter_words)
