"""The case in the database, as its workflow asks for it."""

from collections.abc import Awaitable, Callable
from dataclasses import replace

import structlog
from temporalio import activity

from threadline.cases.contract import (
    CaseActivities,
    EndRequest,
    FlushRequest,
    Opened,
    SaveRequest,
    Settled,
    StatusChange,
    TurnRef,
)
from threadline.cases.model import Action, CaseStatus, Limits, Marks, Reason
from threadline.cases.report import parse_bug_report
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.errors import IllegalTransition, Transient
from threadline.slack.model import Thread
from threadline.threads.message_table import log_quarantined, redact_message

_log = structlog.get_logger(__name__)

_BEGINS = {
    CaseStatus.NEW: Reason.REPORTED,
    CaseStatus.AWAITING_REPORTER: Reason.NEW_MESSAGES,
    CaseStatus.PENDING_VERIFICATION: Reason.NEW_MESSAGES,
    CaseStatus.ESCALATED: Reason.NEW_MESSAGES,
}
"""Why a turn begins, by what the case was; a reopening is told to people first, and so is the workflow's."""


async def take_step(database: Database, change: StatusChange) -> Marks:
    """A step that the status no longer allows is not taken: the marks say where the case is instead."""
    try:
        async with database.begin() as work:
            marks = await work.cases.transition(
                change.bug_id, change.to, change.reason, actor=change.actor, wait_until=change.wait_until
            )
    except IllegalTransition as error:
        _log.warning("status_change_refused", case=change.bug_id, reason=str(error))
        async with database.begin() as work:
            return await work.cases.marks_of(change.bug_id)
    _log.info("status_changed", case=change.bug_id, status=change.to, reason=change.reason)
    return marks


def _turn_due(marks: Marks) -> bool:
    """As the workflow decides it for a case in which nothing goes on."""
    due = marks.reporter_due if marks.status is CaseStatus.AWAITING_REPORTER else marks.message_due
    return bool(marks.bug_id) and due and not marks.close_due and marks.status in _BEGINS


async def _describe(work: Work, bug_id: str) -> Marks:
    entry = await work.conversation.report(bug_id)
    services = [service.name for service in await work.services.all()]
    report = parse_bug_report(entry.text if entry else "", services)
    return await work.cases.describe(
        bug_id, title=report.title, severity=report.severity, components=list(report.components)
    )


class LiveCaseActivities(CaseActivities):
    """Each method is one unit of work. Args: `say` posts a turn's findings, and returns the marks after its step."""

    def __init__(self, database: Database, limits: Limits, say: Callable[[TurnRef], Awaitable[Marks | None]]) -> None:
        self._database = database
        self._limits = limits
        self._say = say

    @activity.defn
    async def open_case(self, thread: Thread) -> Opened:
        async with self._database.begin() as work:
            marks = await work.cases.marks(thread)
            unanswered = bool(marks.bug_id) and await work.cases.goes_on_unanswered(marks.bug_id)
            end_unsaid = marks.status is CaseStatus.RESOLVED and await work.sweep.end_is_unsaid(marks.bug_id)
            return Opened(marks, self._limits, unanswered, end_unsaid)

    @activity.defn
    async def flush_messages(self, request: FlushRequest) -> Marks:
        async with self._database.begin() as work:
            marks = await work.conversation.flush(request.thread, [redact_message(each) for each in request.messages])
            quarantined = work.conversation.quarantined
            if request.begin and _turn_due(marks):
                marks = await self._begin(work, marks)
        log_quarantined(request.thread, quarantined, case=marks.bug_id)
        return marks

    async def _begin(self, work: Work, marks: Marks) -> Marks:
        """An activity less on the way to the agent. When the answer is lost, the next flush finds the step taken."""
        reason = _BEGINS[marks.status]
        if marks.turn == 0 and marks.closings == 0:
            await _describe(work, marks.bug_id)
        begun = await work.cases.transition(
            marks.bug_id, CaseStatus.INVESTIGATING, reason, actor="threadline", wait_until=0.0
        )
        _log.info("status_changed", case=marks.bug_id, status=CaseStatus.INVESTIGATING, reason=reason)
        return replace(begun, begun=True)

    @activity.defn
    async def parse_bug_report(self, bug_id: str) -> Marks:
        async with self._database.begin() as work:
            return await _describe(work, bug_id)

    @activity.defn
    async def update_status(self, change: StatusChange) -> Marks:
        return await take_step(self._database, change)

    @activity.defn
    async def save_investigation_result(self, request: SaveRequest) -> Settled:
        async with self._database.begin() as work:
            settled = await work.turns.settle(request.bug_id, request.turn, request.failure)
        _log.info("turn_completed", case=request.bug_id, turn=request.turn, action=settled.action)
        # A close that came meanwhile keeps them unsaid, unless an earlier attempt may have begun to say them.
        dropped = settled.marks.close_due and activity.info().attempt == 1
        if request.then and settled.action is Action.POST_FINDINGS and not (settled.has_fix or dropped):
            return await self._say_too(settled, TurnRef(request.bug_id, request.turn, request.then))
        return settled

    async def _say_too(self, settled: Settled, turn: TurnRef) -> Settled:
        """An activity less on the way to people: until Slack takes it, this one is tried again."""
        try:
            return replace(settled, said=await self._say(turn))
        except Transient:
            raise
        except Exception as error:  # noqa: BLE001 - the turn is settled, and the workflow asks for the post by itself
            _log.warning("findings_not_posted", case=turn.bug_id, turn=turn.turn, reason=str(error))
            return settled

    @activity.defn
    async def end_case(self, request: EndRequest) -> Marks:
        async with self._database.begin() as work:
            marks = await work.cases.end(request.bug_id, request.reason, actor=request.actor)
        _log.info("case_ended", case=request.bug_id, status=marks.status, reason=request.reason)
        return marks
