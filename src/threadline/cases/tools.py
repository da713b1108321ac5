"""Bug cases, looked up from any thread: developers read the findings, everybody else what a reporter may know."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any

from pydantic import Field

from threadline.cases import audience
from threadline.cases.model import Action, CaseNotFound, CaseReaders, CaseStatus, Severity
from threadline.cases.report import parse_bug_report
from threadline.cases.store.lists import CardSource, CardTurn, CaseLists
from threadline.tools.context import ToolContext
from threadline.tools.model import RecordGroup, ToolResult
from threadline.tools.registry import tool

MOST = 20
"""Cases of one answer; further ones are found by more words."""


Wanted = Annotated[str | None, Field(max_length=300)]


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

    def record(self) -> dict[str, Any]:
        """Only what there is to tell; moments in ISO 8601 with their zone."""
        told = {name: value for name, value in vars(self).items() if value}
        moments = {name: told[name].isoformat(timespec="minutes") for name in ("opened_at", "status_since")}
        return {**told, **moments}


@tool(
    "cases.search",
    "Bug cases of the team, such as those that are open for a component.",
    needs=(CaseReaders,),
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
    cards = [_card(context, each).record() for each in found[:MOST]]
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
)
async def get(
    context: ToolContext,
    *,
    bug_id: Annotated[str, Field(min_length=1, max_length=30, description="Its number, such as BUG-12.")],
) -> ToolResult:
    number = bug_id.strip().upper()
    found = await CaseLists(context.tx).for_cards(context.team, [number])
    if not found:
        raise CaseNotFound(f"there is no case {number}; search for it by its words")
    case = _card(context, found[0])
    return ToolResult(
        data=case.record(),
        display_text=f"{case.bug_id} ({case.title}) is {case.status.replace('_', ' ')}, severity {case.severity}.",
        structured=(RecordGroup("cases", (case.record(),)),),
    )


TOOLS = [search, get]


def _card(context: ToolContext, source: CardSource) -> CaseCard:
    case, turns, readers = source.case, source.turns, context.services[CaseReaders]
    card = CaseCard(
        bug_id=case.bug_id,
        title=_title_for_everybody(source),
        status=case.status,
        severity=case.severity,
        opened_at=case.created_at,
        status_since=source.status_since,
        link=readers.link(case.thread),
        told=next(filter(None, (_told(turn, source.reporter_words) for turn in turns)), ""),
    )
    if context.channel not in readers.developers:
        return card
    return replace(
        card,
        title=case.title,
        components=case.components,
        findings=next(filter(None, (turn.outcome.summary for turn in turns)), ""),
        pull_request=source.pull_request,
    )


def _title_for_everybody(source: CardSource) -> str:
    """The agent's title, unless it names what is internal: then the one that the report itself had."""
    title, known = source.case.title, source.reporter_words
    results = ({**turn.result, "title": ""} for turn in source.turns)
    if not any(audience.find_internal_content(title, result, known) for result in results):
        return title
    return parse_bug_report(source.report).title


def _told(turn: CardTurn, reporter_words: str) -> str:
    """What the reporter was asked or told at the end of a turn."""
    if turn.action is Action.ASK_REPORTER:
        return turn.outcome.clarification_question.strip()
    return audience.reporter_text(turn.result, reporter_words)
