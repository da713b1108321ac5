"""Cases as a conversation may tell of them: to developers where they read, and to everybody else what a reporter may
know."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from threadline.cases import audience
from threadline.cases.case_tools import CaseBook, CaseCard, CaseQuery
from threadline.cases.message_store import CaseMessageStore
from threadline.cases.model import Action, CaseNotFound
from threadline.cases.report import parse_bug_report
from threadline.cases.store import CaseRecord, CaseStore, TurnRecord
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.slack.model import Thread


@dataclass(frozen=True)
class Readers:
    """Who reads where. `developers`: the channels that only developers read, such as the summaries'.

    `workspace`: the address of the workspace, such as `https://example.slack.com/`, for links.
    """

    developers: Collection[str]
    workspace: str

    def link(self, thread: Thread) -> str:
        """See the example at https://docs.slack.dev/reference/methods/chat.getPermalink."""
        return f"{self.workspace.rstrip('/')}/archives/{thread.channel}/p{thread.ts.replace('.', '')}"


class PostgresCases(CaseBook):
    def __init__(self, database: Database, readers: Readers) -> None:
        self._database = database
        self._readers = readers

    async def search(self, team: str, channel: str, query: CaseQuery, limit: int) -> Sequence[CaseCard]:
        async with self._database.begin() as work:
            found = await CaseStore(work.tx).search(team, **vars(query), limit=limit)
            return [await self._card(work, case, channel) for case in found]

    async def get(self, team: str, channel: str, bug_id: str) -> CaseCard:
        async with self._database.begin() as work:
            case = await _of_team(work, team, bug_id.strip().upper())
            return await self._card(work, case, channel)

    async def _card(self, work: Work, case: CaseRecord, channel: str) -> CaseCard:
        turns = [each for each in await CaseStore(work.tx).turns(case.bug_id) if each.turn <= case.turn]
        said = await CaseMessageStore(work.tx).reporter_words(case.bug_id)
        card = CaseCard(
            bug_id=case.bug_id,
            title=await _title(work, case, turns, said),
            status=case.status,
            severity=case.severity,
            opened_at=case.created_at,
            status_since=(await CaseStore(work.tx).transitions(case.bug_id))[-1].at,
            link=self._readers.link(case.thread),
            told=next(filter(None, (_told(turn, said) for turn in reversed(turns))), ""),
        )
        if channel not in self._readers.developers:
            return card
        fix = await CaseStore(work.tx).pull_request(case.bug_id)
        found = (str(turn.result.get("summary") or "") for turn in reversed(turns))
        return replace(
            card,
            title=case.title,
            components=case.components,
            findings=next(filter(None, found), ""),
            pull_request=fix.url if fix else "",
        )


async def _of_team(work: Work, team: str, bug_id: str) -> CaseRecord:
    try:
        case = await CaseStore(work.tx).get(bug_id)
    except CaseNotFound:
        case = None
    if case is None or case.thread.team != team:
        raise CaseNotFound(f"there is no case {bug_id}; search for it by its words")
    return case


async def _title(work: Work, case: CaseRecord, turns: Sequence[TurnRecord], said: str) -> str:
    """The agent's title, unless it names what is internal: then the one that the report itself had."""
    if not any(audience.find_internal_content(case.title, {**turn.result, "title": ""}, said) for turn in turns):
        return case.title
    report = await CaseMessageStore(work.tx).report(case.bug_id)
    return parse_bug_report(report.text if report else "").title


def _told(turn: TurnRecord, said: str) -> str:
    """What the reporter was asked or told at the end of a turn."""
    if turn.action is Action.ASK_REPORTER:
        return str(turn.result.get("clarification_question") or "").strip()
    return audience.reporter_text(turn.result, said)
