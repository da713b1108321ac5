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
    StatusChange,
    TurnRef,
)
from threadline.cases.message_store import CaseMessageStore
from threadline.cases.model import Action, CaseStatus, Limits, Marks, Settled
from threadline.cases.store import CaseStore
from threadline.db.engine import Database
from threadline.errors import IllegalTransition, Transient
from threadline.slack.model import Thread
from threadline.threads.message_table import log_quarantined, redact_message

_log = structlog.get_logger(__name__)


async def take_step(database: Database, change: StatusChange) -> Marks:
    """A step that the status no longer allows is not taken: the marks say where the case is instead."""
    try:
        async with database.begin() as work:
            marks = await CaseStore(work.tx).transition(
                change.bug_id, change.to, change.reason, actor=change.actor, wait_until=change.wait_until
            )
    except IllegalTransition as error:
        _log.warning("status_change_refused", case=change.bug_id, reason=str(error))
        async with database.begin() as work:
            return await CaseStore(work.tx).marks(change.bug_id)
    _log.info("status_changed", case=change.bug_id, status=change.to, reason=change.reason)
    return marks


class LiveCaseActivities(CaseActivities):
    """Args: `post_findings` posts what a turn has found."""

    def __init__(self, database: Database, limits: Limits, post_findings: Callable[[TurnRef], Awaitable[None]]) -> None:
        self._database = database
        self._limits = limits
        self._post_findings = post_findings

    @activity.defn
    async def open_case(self, thread: Thread) -> Opened:
        async with self._database.begin() as work:
            store = CaseStore(work.tx)
            marks = await store.marks_in(thread)
            end_unsaid = marks.status is CaseStatus.RESOLVED and await store.closing_is_unposted(marks.bug_id)
            return Opened(marks, self._limits, end_unsaid)

    @activity.defn
    async def flush_messages(self, request: FlushRequest) -> Marks:
        async with self._database.begin() as work:
            batch = [redact_message(each) for each in request.messages]
            flushed = await CaseMessageStore(work.tx).flush(request.thread, batch, start_turn=request.begin)
        log_quarantined(request.thread, flushed.quarantined, case=flushed.marks.bug_id)
        if flushed.turn_started:
            _log.info("status_changed", case=flushed.marks.bug_id, status=flushed.marks.status)
        return flushed.marks

    @activity.defn
    async def update_status(self, change: StatusChange) -> Marks:
        return await take_step(self._database, change)

    @activity.defn
    async def save_investigation_result(self, request: SaveRequest) -> Settled:
        async with self._database.begin() as work:
            settled = await CaseStore(work.tx).settle(request.bug_id, request.turn, request.failure)
        _log.info("turn_completed", case=request.bug_id, turn=request.turn, action=settled.action)
        # A close that came meanwhile keeps them unsaid, unless an earlier attempt may have begun to say them.
        dropped = settled.marks.close_due and activity.info().attempt == 1
        if request.then and settled.action is Action.POST_FINDINGS and not (settled.has_fix or dropped):
            return await self._post_settled(settled, TurnRef(request.bug_id, request.turn), request.then)
        return settled

    async def _post_settled(self, settled: Settled, turn: TurnRef, then: StatusChange) -> Settled:
        """Post the findings in this activity, which saves one; while Slack does not take them, it is tried again."""
        try:
            await self._post_findings(turn)
            return replace(settled, marks=await take_step(self._database, _from_now(then)), posted=True)
        except Transient:
            raise
        except Exception as error:  # noqa: BLE001 - the turn is settled, and the workflow posts in a step of its own
            _log.warning("findings_not_posted", case=turn.bug_id, turn=turn.turn, reason=str(error))
            return settled

    @activity.defn
    async def end_case(self, request: EndRequest) -> Marks:
        async with self._database.begin() as work:
            marks = await CaseStore(work.tx).end(request.bug_id, request.reason, actor=request.actor)
        _log.info("case_ended", case=request.bug_id, status=marks.status, reason=request.reason)
        return marks


def _from_now(change: StatusChange) -> StatusChange:
    """A wait begins when there is something to answer: posting may have taken Slack's outage of a day."""
    info = activity.info()
    late = (info.started_time - info.scheduled_time).total_seconds()
    return replace(change, wait_until=change.wait_until + max(0.0, late)) if change.wait_until else change
