"""The workflow of one bug report's thread: it stores what arrives, and lets one supervised step at a time act on it.

Why it has this shape, and what other shapes lost, is told in docs/adr/0002.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.contracts.bug import CaseActivities, FlushRequest, IntakeActivities, Reactions, SlackActivities
    from threadline.domain import addressing, messages
    from threadline.domain.bug import STATE_OF, Action, BugState, CaseStatus, Reason, WorkflowState

from threadline.workflows import display, patches, signals
from threadline.workflows.bug_case import BugCase
from threadline.workflows.calls import call

CASE_STATE = SearchAttributeKey.for_keyword("CaseState")
CASE_SEVERITY = SearchAttributeKey.for_keyword("CaseSeverity")

Step = Coroutine[Any, Any, None]

GATHERS = 5
"""Batches that are stored one after the other before a turn starts on them."""
OVERTAKEN = 900.0
"""Seconds for which a report may be on its way while what was said after it is here: Slack tries for six minutes."""


@workflow.defn(name=addressing.BUG_WORKFLOW)
class BugInvestigationWorkflow:
    """One case, from the report to its end; a message after the end starts another run, which finds its case again."""

    @workflow.init
    def __init__(self, state: BugState) -> None:
        self._case = BugCase(state, self._enter)
        self._opened = False
        self._cancelled = False
        self._step: asyncio.Task[None] | None = None
        self._timer: asyncio.Task[None] | None = None
        self._shown: tuple[Any, ...] = ()
        self._gathered = 0
        self._seen: list[tuple[str, str]] = []
        self._end_unsaid = False

    @workflow.signal(
        dynamic=True, description="incoming_message: somebody wrote in a thread of the case; close_requested: end it."
    )
    def take(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well."""
        self._case.inbox.accept(signals.read(name, args))

    @workflow.query(description="State, what is pending, the last action, the agent's session, cost and deadline.")
    def state(self) -> dict[str, Any]:
        marks = self._case.marks
        return {
            "bug_id": marks.bug_id,
            "state": display.state(marks.status),
            "status": marks.status.value,
            "pending": len(self._case.inbox),
            "action": marks.last_action,
            "session_id": marks.session_id,
            "turn": marks.turn,
            "cost_usd": marks.cost_usd,
            "deadline": display.clock(marks.wait_until) if marks.wait_until else None,
        }

    @workflow.run
    async def run(self, state: BugState) -> str:
        """Store messages and own the run's life; everything else is one step whose result is always looked at."""
        while True:
            try:
                await self._take_in()
                if (outcome := self._proceed()) is not None:
                    return outcome
                await workflow.wait_condition(self._awake)
            except (asyncio.CancelledError, FailureError) as error:
                if not is_cancelled_exception(error) or self._cancelled:
                    # Failing the run would take accepted messages with it; a failed task waits for a mended worker.
                    raise RuntimeError("a step failed in a way it has no answer for") from error
                # Of this run alone: one that continues a run which was cancelled may be cancelled once more.
                self._cancelled = state.stopped = True

    async def _take_in(self) -> None:
        """Know the case, hear how the step ended, and store what has arrived."""
        if not self._opened:
            await self._open()
            self._opened = True
        if self._step and self._step.done():
            finished, self._step = self._step, None
            finished.result()
        if self._case.inbox:
            await self._flush()

    def _proceed(self) -> str | None:
        """Start what is due, continue as new, or end with the outcome.

        Nothing in here awaits: a signal between the last look at the inbox and the end would be lost.
        """
        state = self._case.state
        if self._step:
            self._case.interrupt_turn()
            return None
        if self._must_continue_as_new():
            inbox = self._case.inbox
            draining = not inbox.fits_one_batch() and patches.DRAIN_FIRST.passed()
            if inbox.fits_one_batch() or (draining and inbox.fits_next_run()):
                workflow.continue_as_new(state, memo=display.memo(state.marks))
            if draining:
                return None  # in a flood, step after step would keep the run until the server refuses its signals
        if self._gathers():
            return None
        if due := self._due():
            self._disarm()
            self._step = asyncio.create_task(due)
        elif self._ended() and not self._case.inbox and self._case.idle:
            return state.marks.status.value if state.marks.bug_id else "ignored"
        return None

    def _gathers(self) -> bool:
        """Whether to store what has come meanwhile before a turn starts: a burst is one turn of the agent, not two.

        A few times, and then the turn starts in any case: in a storm there is always something more. A history from
        before this rule has no marks that say `begun`, and is not touched by it.
        """
        self._gathered = self._gathered + 1 if self._case.inbox and self._case.begun else 0
        return 0 < self._gathered <= GATHERS

    async def _open(self) -> None:
        state = self._case.state
        opened = await call(CaseActivities.open_case, state.thread, summary="what is known of this thread?")
        state.limits = opened.limits
        self._case.merge(opened.marks)
        self._end_unsaid = opened.end_unsaid
        if opened.unanswered and not state.unanswered:  # a run that was terminated took the word with it
            state.unanswered, state.acted = True, opened.marks.turn
        if opened.marks.bug_id or self._case.inbox.holds_report():
            return
        # What is said here may have overtaken the report. It opens nothing when the thread is old and not its writer's.
        fresh = workflow.now().timestamp() - _seconds(self._case.state.thread.ts) < OVERTAKEN
        senders = self._case.inbox.senders()
        report = await self._fetch_report() if senders or fresh else None
        if report and (fresh or senders & {(kind, report.sender_id) for kind in (messages.REPORTER, messages.UNKNOWN)}):
            self._case.inbox.accept(report, first=True)

    async def _fetch_report(self) -> messages.IncomingMessage | None:
        try:
            return await call(IntakeActivities.fetch_report, self._case.state.thread, summary="fetch the report")
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("report_not_fetched", extra={"slack_thread": self._case.state.thread.key})
            return None

    async def _flush(self) -> None:
        case = self._case
        batch = case.inbox.batch()
        request = FlushRequest(case.state.thread, batch, begin=self._step is None and not case.closing)
        case.merge(await call(CaseActivities.flush_messages, request, summary=f"store {len(batch)} messages"))
        case.begun = case.begun or case.marks.begun
        case.inbox.stored(len(batch))
        if not case.marks.bug_id:
            return
        if any(m.sender_type == messages.DEVELOPER and m.kind == messages.MESSAGE for m in batch):
            case.hear_developer()
        self._seen += [(m.channel, m.ts) for m in batch if self._is_accepted(m)]
        more_of_a_burst = case.inbox and case.begun
        if self._seen and not more_of_a_burst:
            seen, self._seen = self._seen, []
            name = "+1" if self._ended() else "eyes"
            case.aside(SlackActivities.add_reactions, Reactions(case.marks.bug_id, name, seen), name)

    def _is_accepted(self, message: messages.IncomingMessage) -> bool:
        """Whether its writer is to see that it was taken in: a third party's reply is passed over in silence."""
        stranger = message.sender_type == messages.UNKNOWN and message.sender_id != self._case.marks.reporter_id
        said = message.kind in (messages.REPORT, messages.MESSAGE, messages.CLOSE)
        return said and not stranger and message.sender_type != messages.OPERATOR

    def _due(self) -> Step | None:
        """What is to be done now; decided from the marks alone, so that a new run decides the same."""
        case, marks, state = self._case, self._case.marks, self._case.state
        unsaid, self._end_unsaid = self._end_unsaid, False
        if self._ended():
            state.stopped = False  # cancelled when there was nothing left to close
            return case.farewell() if unsaid else None
        if marks.close_due or state.stopped:
            return case.end(Reason.REPORTER_CLOSED if marks.close_due else Reason.OPERATOR_CANCELLED)
        if case.owes_an_act:
            return case.act_again()
        if self._turn_due():
            return case.turn()
        if marks.status is CaseStatus.INVESTIGATING and marks.last_action:
            return case.act_again()  # resolving was put off for something that turned out to want no turn
        return self._due_by_time()

    def _due_by_time(self) -> Step | None:
        if self._case.inbox:
            return None  # silence is none while something is unread
        if self._timer is None:
            self._arm()
        elif self._timer.done():
            if 0 < self._case.marks.wait_until <= workflow.now().timestamp():
                return self._case.silence()
            return self._case.look_up_fix()
        return None

    def _turn_due(self) -> bool:
        marks = self._case.marks
        if marks.status is CaseStatus.AWAITING_REPORTER:
            return marks.reporter_due
        if marks.status is CaseStatus.INVESTIGATING:
            asked = marks.last_action == Action.ASK_REPORTER and marks.reporter_due
            return marks.message_due or asked or self._case.state.unanswered
        return marks.message_due

    def _ended(self) -> bool:
        marks = self._case.marks
        return not marks.bug_id or (marks.status is CaseStatus.RESOLVED and not marks.message_due)

    def _must_continue_as_new(self) -> bool:
        allowed = self._case.state.limits.history_events
        info = workflow.info()
        due = info.is_continue_as_new_suggested() or 0 < allowed < info.get_current_history_length()
        # What is cosmetic would be dropped with the run; at the end of a case that is the workspace's removal.
        leaving = self._ended() and not self._case.idle
        return due and not (leaving or self._case.telling)

    def _awake(self) -> bool:
        if self._case.inbox:
            return True
        if self._step:
            return self._step.done() or self._case.turn_is_unwanted
        return self._timer_done() or (self._ended() and self._case.idle)

    # -- the one timer of a wait: absolute, so that continue-as-new keeps it -----------------------------------------

    def _arm(self) -> None:
        marks, now = self._case.marks, workflow.now().timestamp()
        at = marks.wait_until
        if marks.pull_request_open and STATE_OF[marks.status] is WorkflowState.AWAITING_DEV:
            poll = now + self._case.state.limits.pull_request_poll
            at = min(at, poll) if at else poll
        if at:
            pause = workflow.sleep(max(0.0, at - now), summary=f"until {display.clock(at)}")
            self._timer = asyncio.create_task(pause)

    def _disarm(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def _timer_done(self) -> bool:
        return self._timer is not None and self._timer.done()

    # -- what Temporal's UI shows ------------------------------------------------------------------------------------

    def _enter(self) -> None:
        """The one place that says where the workflow is: search attributes and the sentence in the UI."""
        marks = self._case.marks
        if not marks.bug_id:
            return
        state = display.state(marks.status)
        shown = (state, marks.severity, marks.title)
        if shown != self._shown:
            self._shown = shown
            workflow.upsert_memo(display.memo(marks))
            workflow.upsert_search_attributes(
                [CASE_STATE.value_set(state), CASE_SEVERITY.value_set(marks.severity.value)]
            )
        workflow.set_current_details(display.details(marks, self._case.trouble))


def _seconds(ts: str) -> float:
    """A Slack timestamp as seconds since 1970; 0 when it is none."""
    try:
        return float(ts)
    except ValueError:
        return 0.0
