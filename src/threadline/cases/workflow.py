"""The workflow of one bug report's thread: what is due in its case, in the run that `thread_run` leads."""

from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import CaseActivities, FlushRequest, IntakeActivities, Reactions, SlackActivities
    from threadline.cases.model import STATE_OF, Action, BugState, CaseStatus, Reason, WorkflowState
    from threadline.threads import addressing, messages

from threadline.cases import display
from threadline.cases.case_steps import BugCase
from threadline.threads import signals
from threadline.threads.calls import call
from threadline.threads.inbox import Inbox
from threadline.threads.run_loop import Step, ThreadRun

CASE_STATE = SearchAttributeKey.for_keyword("CaseState")
CASE_SEVERITY = SearchAttributeKey.for_keyword("CaseSeverity")

OVERTAKEN = 900.0
"""Seconds for which a report may be on its way while what was said after it is here: Slack tries for six minutes."""


@workflow.defn(name=addressing.BUG_WORKFLOW)
class BugInvestigationWorkflow:
    """One case, from the report to its end; a message after the end starts another run, which finds its case again."""

    @workflow.init
    def __init__(self, state: BugState) -> None:
        self._case = BugCase(state, self._enter)
        self._run = ThreadRun(
            self,
            unwanted=lambda: self._case.turn_is_unwanted,
            interrupt=self._case.interrupt_turn,
        )
        self._shown: tuple[Any, ...] = ()
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
        """Store messages, let one step at a time act on them, and end with the case's status, or with "ignored"."""
        return await self._run.to_its_end()

    # -- what the run of a case is about: see `thread_run.Duties` ----------------------------------------------------

    @property
    def inbox(self) -> Inbox:
        return self._case.inbox

    @property
    def history_events(self) -> int:
        return self._case.state.limits.history_events

    @property
    def gathers(self) -> bool:
        """A history from before bursts were gathered has no marks that say `begun`, and is not touched by it."""
        return self._case.begun

    @property
    def ended(self) -> bool:
        marks = self._case.marks
        return not marks.bug_id or (marks.status is CaseStatus.RESOLVED and not marks.message_due)

    @property
    def idle(self) -> bool:
        return self._case.idle

    @property
    def must_wait(self) -> bool:
        return self._case.telling

    def outcome(self) -> str:
        marks = self._case.marks
        return marks.status.value if marks.bug_id else "ignored"

    def cancelled(self) -> None:
        self._case.state.stopped = True

    def continue_as_new(self) -> None:
        state = self._case.state
        workflow.continue_as_new(state, memo=display.memo(state.marks))

    async def open(self) -> None:
        state = self._case.state
        opened = await call(CaseActivities.open_case, state.thread, summary="load the case")
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
            workflow.logger.warning("report_fetch_failed", extra={"slack_thread": self._case.state.thread.key})
            return None

    async def flush(self) -> None:
        case = self._case
        batch = case.inbox.batch()
        request = FlushRequest(case.state.thread, batch, begin=not self._run.at_work and not case.closing)
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
            name = "+1" if self.ended else "eyes"
            case.aside(SlackActivities.add_reactions, Reactions(case.marks.bug_id, name, seen), name)

    def _is_accepted(self, message: messages.IncomingMessage) -> bool:
        """Whether its writer is to see that it was taken in: a third party's reply is passed over in silence."""
        stranger = message.sender_type == messages.UNKNOWN and message.sender_id != self._case.marks.reporter_id
        said = message.kind in (messages.REPORT, messages.MESSAGE, messages.CLOSE)
        return said and not stranger and message.sender_type != messages.OPERATOR

    def due(self) -> Step | None:
        """What is to be done now; decided from the marks alone, so that a new run decides the same."""
        case, marks, state = self._case, self._case.marks, self._case.state
        unsaid, self._end_unsaid = self._end_unsaid, False
        if self.ended:
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
        if not self._run.alarm.is_set:
            self._arm()
        elif self._run.alarm.rang:
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

    def _arm(self) -> None:
        marks, now = self._case.marks, workflow.now().timestamp()
        at = marks.wait_until
        if marks.pull_request_open and STATE_OF[marks.status] is WorkflowState.AWAITING_DEV:
            poll = now + self._case.state.limits.pull_request_poll
            at = min(at, poll) if at else poll
        if at:
            self._run.alarm.set(at, f"until {display.clock(at)}")

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
