"""BugInvestigationWorkflow: one bug case, from its report to its end.

    messages -> store -> agent turn -> action
        ask_reporter    AWAITING_REPORTER, 2 h: the reporter's answer or the timeout starts the
                        next turn
        post_findings   AWAITING_DEV, 48 h: any message starts the next turn, the timeout
                        resolves the case
        escalate        AWAITING_DEV, no limit: SLATrackingWorkflow reminds people
        resolved        the end

`ThreadRun` owns the run: it stores the inbox, and starts at most one step at a time, the one that
`next_step` names. The case is in Postgres. Activities return a snapshot of it; the one with the
highest `rev` counts.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, SearchAttributeKey
from temporalio.exceptions import FailureError, is_cancelled_exception

from threadline.cases import contract
from threadline.cases.contract import AgentActivities, CaseActivities, CasePostActivities, TurnRef
from threadline.cases.model import (
    BUG_WORKFLOW,
    STATE_OF,
    Action,
    BugState,
    CaseSnapshot,
    CaseStatus,
    NoticeKind,
    Reason,
    Settled,
    UnpostedTurn,
    UnsaidNotice,
    WorkflowState,
    card_facts,
    describe_state,
    session_id,
    shown_state,
    wait_in,
)
from threadline.cases.sla import signal_clock, start_clock
from threadline.slack.model import CHANNEL_FAULT, seconds_of
from threadline.threads.calls import (
    BackgroundTasks,
    Interrupted,
    NotMended,
    attempt,
    attempt_unless_mendable,
    call,
    fault_of,
    pause,
    run_unless,
)
from threadline.threads.inbox import Inbox
from threadline.threads.model import (
    Fault,
    FaultKind,
    IncomingMessage,
    MessageKind,
    RetryBudget,
    SenderType,
    format_utc,
    mending_delay,
)
from threadline.threads.run_loop import Step, ThreadHandler, ThreadRun

CASE_STATE = SearchAttributeKey.for_keyword("CaseState")
CASE_SEVERITY = SearchAttributeKey.for_keyword("CaseSeverity")

REPORT_DELAY = 900.0
"""Seconds in which a report may arrive after messages under it: Slack retries for six minutes."""


@workflow.defn(name=BUG_WORKFLOW)
class BugInvestigationWorkflow(ThreadHandler):
    """One run of a case. A message after the end starts another run, which loads the same case."""

    state: BugState

    @workflow.init
    def __init__(self, state: BugState) -> None:
        self.state = state
        self.inbox = Inbox(state.pending, state.seen)
        self.background = BackgroundTasks()
        self.thread_run = ThreadRun(self)
        self._closing_unposted = False
        self._card: asyncio.Task[None] | None = None
        self._sla_signal: asyncio.Task[None] | None = None
        self._trouble = ""
        """The reason why the last attempt at this turn failed, or its posts were refused."""
        self._shown: tuple[Any, ...] = ()

    @workflow.signal(
        dynamic=True,
        description=(
            "incoming_message: somebody wrote in a thread of the case; close_requested: end it."
        ),
    )
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Receive any signal: a dynamic handler also gets payloads that the SDK cannot decode."""
        self.inbox.receive(name, args)

    @workflow.run
    async def run(self, state: BugState) -> str:
        """Return the case's status, or "ignored" when the thread has no case."""
        return await self.thread_run.run()

    @property
    def case(self) -> CaseSnapshot:
        return self.state.case

    @property
    def _closing(self) -> bool:
        """Whether the case must end now: a close was requested, or the workflow was cancelled."""
        return self.case.close_requested or self.state.cancelled

    # -- ThreadHandler: load, store, choose the step

    async def open(self) -> None:
        # Without a report the thread may have no case, and the stored batch would be dropped.
        opens = self.case.bug_id or self.inbox.holds_report()
        await self._store(self.inbox.batch() if opens else [], first=True)
        if not (self.case.bug_id or self.inbox.holds_report()):
            await self._fetch_report()

    async def _fetch_report(self) -> None:
        """Fetch the report when messages under it arrived first.

        Only the report or a message of its author opens a case; other people's words in an old
        thread do not.
        """
        began = seconds_of(self.state.thread.ts)
        fresh = began is not None and workflow.now().timestamp() - began < REPORT_DELAY
        senders = self.inbox.senders()
        if not (senders or fresh):
            return
        try:
            report = await call(
                CaseActivities.fetch_report, self.state.thread, summary="fetch the report"
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning(
                "report_fetch_failed", extra={"slack_thread": self.state.thread.key}
            )
            return
        if report and (
            fresh
            or senders
            & {(kind, report.sender_id) for kind in (SenderType.REPORTER, SenderType.UNKNOWN)}
        ):
            self.inbox.accept(report, first=True)

    async def store_messages(self) -> None:
        await self._store(self.inbox.batch(), first=False)

    async def _store(self, batch: list[IncomingMessage], *, first: bool) -> None:
        """Store the oldest batch.

        The first batch of a run may be empty: its result brings the known state of the thread.
        """
        starts = not (self.thread_run.busy or self._closing)
        request = contract.FlushRequest(self.state.thread, batch, start_turn=starts, first=first)
        stored = await call(
            CaseActivities.flush_messages, request, summary=f"store {len(batch)} messages"
        )
        self.inbox.stored(len(batch))
        self.state.limits = stored.limits or self.state.limits
        self._closing_unposted = self._closing_unposted or stored.closing_unposted
        self._update(stored.case)
        developers = (each.kind for each in batch if each.sender_type == SenderType.DEVELOPER)
        if self.case.bug_id and MessageKind.MESSAGE in developers:
            self._acknowledge_escalation()

    @property
    def collects_burst(self) -> bool:
        return self._turn_due

    def next_step(self) -> Step | None:
        """Choose the next step of the source design's loop.

        It depends on the snapshot alone, so that a new run chooses the same step.
        """
        case = self.case
        state = self.state
        if case.ended:
            state.cancelled = False  # the cancellation came when nothing was left to close
            return self._closing_step()
        self._closing_unposted = False
        if self._closing:
            return self._close(
                Reason.REPORTER_CLOSED if case.close_requested else Reason.ADMIN_CANCELLED
            )
        if self.state.post_again_at:
            if self.state.post_again_at <= workflow.now().timestamp():
                return self._post_again()
        elif self._undecided and state.acted_turn < case.turn:
            # A close was withdrawn, or an earlier run was terminated before the action.
            return self._resume_action()
        if self._turn_due:
            return self._investigate()
        if self._undecided and not self.state.post_again_at:
            # resolving was postponed for a message that wanted no turn
            return self._resume_action()
        return self._timeout_step()

    @property
    def _undecided(self) -> bool:
        """Whether the action of the last settled turn is outstanding."""
        case = self.case
        return (
            case.status is CaseStatus.INVESTIGATING
            and bool(case.last_action)
            and not case.unanswered
        )

    def _closing_step(self) -> Step | None:
        """Post how the case ended, unless that is done; after a refusal, wait for the next try."""
        if not self._closing_unposted:
            return None
        if self.state.post_again_at <= workflow.now().timestamp():
            return self._post_closing()
        if not (self.inbox or self.thread_run.timer.is_set):
            self.thread_run.timer.set(
                self.state.post_again_at, "until Slack may accept the last post"
            )
        return None

    @property
    def _turn_due(self) -> bool:
        case = self.case
        if case.status is CaseStatus.AWAITING_REPORTER:
            return case.reporter_wrote  # developers' messages wait, and join the same batch
        asked = case.status is CaseStatus.INVESTIGATING and case.last_action == Action.ASK_REPORTER
        return case.has_unread or case.unanswered or (asked and case.reporter_wrote)

    def _timeout_step(self) -> Step | None:
        timer = self.thread_run.timer
        if self.inbox:
            return None  # an unread message ends the silence
        # It fires at the end of the wait, the next look at a pull request, or the next try.
        if not timer.is_set:
            at = self.case.wait_until
            if (
                self.case.pull_request_open
                and STATE_OF[self.case.status] is WorkflowState.AWAITING_DEV
            ):
                poll = workflow.now().timestamp() + self.state.limits.pull_request_poll
                at = min(at, poll) if at else poll
            if self.state.post_again_at:
                at = min(at, self.state.post_again_at) if at else self.state.post_again_at
            if at:
                timer.set(at, f"until {format_utc(at)}")
        elif timer.fired:
            if 0 < self.case.wait_until <= workflow.now().timestamp():
                return self._on_timeout()
            return self._check_pull_request()
        return None

    @property
    def ended(self) -> bool:
        return self.case.ended and not self._closing_unposted

    @property
    def blocks_continue_as_new(self) -> bool:
        """Whether an SLA clock is being signalled.

        The server drops a signal whose sender's run ends before it is sent.
        """
        return self._sla_signal is not None and not self._sla_signal.done()

    def result(self) -> str:
        return self.case.status.value if self.case.bug_id else "ignored"

    def continue_as_new(self) -> None:
        workflow.continue_as_new(self.state, memo=_memo(self.case))

    # -- one turn of the agent

    async def _investigate(self) -> None:
        self._put_action_off()
        announced = await self._start_turn()
        settled = await self._run_turn(self.case.turn + 1)
        await announced  # the intake notice is posted before the findings
        if settled.action and not self._closing:
            await self._act(settled)

    async def _start_turn(self) -> asyncio.Task[None]:
        """Make the case `investigating`, and notify people.

        The returned task ends once the reporter is notified, if that is due.
        """
        before = self.case
        if before.status is not CaseStatus.INVESTIGATING:
            reasons = {CaseStatus.NEW: Reason.REPORTED, CaseStatus.RESOLVED: Reason.REOPENED}
            await self._set_status(
                CaseStatus.INVESTIGATING, reasons.get(before.status, Reason.NEW_MESSAGES)
            )
        return asyncio.create_task(self._announce(before))

    async def _announce(self, before: CaseSnapshot) -> None:
        # Also when an earlier run ended before it posted the intake notice.
        if before.turn == 0 and before.closings == 0:
            await self._notice(NoticeKind.INTAKE)
        elif before.status is CaseStatus.RESOLVED:
            await self._notice(NoticeKind.REOPENED, before.closings)

    async def _run_turn(self, number: int) -> Settled:
        """Attempt a turn until an attempt has an outcome or people must take over.

        Each attempt is forked from the last good session.
        """
        bug_id = self.case.bug_id
        budget = RetryBudget()
        while True:
            if self.case.attachments_pending:
                await self._fetch_attachments()
            if self._closing:
                return Settled(self.case)
            fault = await self._attempt_turn(number)
            broken = fault if fault and fault.kind is FaultKind.MENDABLE else None
            settled = await self._settle(contract.SettleRequest(bug_id, number, fault=broken))
            delay = budget.next_delay(fault, workflow.now().timestamp()) if fault else 1.0
            self._trouble = fault.message if fault and not settled.action else ""
            self._show()
            if delay is None and fault and not (settled.action or self._closing):
                settled = await self._settle(
                    contract.SettleRequest(bug_id, number, failure=fault.message)
                )
            if delay is None or settled.action or self._closing:
                return settled
            if broken and budget.mendable == 1:
                await self._notice(NoticeKind.WAITS_FOR_MENDING, number)
            await pause(delay, lambda: self._closing, "wait before the next attempt")

    async def _fetch_attachments(self) -> None:
        """Fetch the attachments.

        While Slack refuses the bot, this waits: Slack would refuse the turn's posts as well.
        """
        refusals = 0
        while not self._closing:
            try:
                fetch = CaseActivities.fetch_attachments
                await attempt_unless_mendable(fetch, self.case.bug_id, summary="fetch attachments")
            except NotMended as refused:
                refusals += 1
                self._trouble = (
                    "Slack refuses the attachments; they are fetched once it delivers them. "
                    f"{refused}"
                )
                self._show()
                await pause(
                    mending_delay(refusals),
                    lambda: self._closing,
                    "until Slack may deliver the files",
                )
            else:
                return

    async def _attempt_turn(self, number: int) -> Fault | None:
        """Run the turn once in the agents' worker.

        A close interrupts it; settling then revokes its claim.
        """
        case = self.case
        limits = self.state.limits
        no = self.case.attempts + 1
        first = number == 1
        run = (
            AgentActivities.run_agent_investigation
            if first
            else AgentActivities.run_continuation_investigation
        )
        session = session_id(case.bug_id, number, no)
        request = contract.TurnRequest(
            case.bug_id, number, no, session, limits, unanswered=case.unanswered
        )
        summary = f"turn {number}" + (f", attempt {no}" if no > 1 else "")
        running = call(run, request, summary=summary, options=contract.agent_turn_options(limits))
        turn = asyncio.ensure_future(run_unless(lambda: self._closing, running))
        self.background.add(asyncio.create_task(self._watch_worker(number, turn.done)))
        try:
            await turn
        except Interrupted:
            return None
        except FailureError as error:
            return fault_of(error)
        return None

    async def _watch_worker(self, number: int, over: Callable[[], bool]) -> None:
        """Notify people once when the turn waits because no worker serves the agents' queue.

        The turn keeps waiting, and starts by itself. The checks go on after a worker was found: it
        may go away later, while the turn still waits in its queue.
        """
        told = False
        while True:
            await pause(
                self.state.limits.worker_patience,
                over,
                "until the next check for the agents' worker",
            )
            if over():
                return
            found: list[bool] = []
            check = CaseActivities.check_agents_worker
            await attempt(
                check,
                self.case.bug_id,
                summary="check for the agents' worker",
                on_result=found.append,
            )
            if found == [False] and not (told or over()):
                told = True
                await self._notice(NoticeKind.WAITS_FOR_WORKER, number)

    async def _settle(self, request: contract.SettleRequest) -> Settled:
        settled = await call(
            CaseActivities.save_investigation_result,
            request,
            summary=f"settle turn {request.turn}",
        )
        self._update(settled.case)
        return settled

    # -- the agent's action

    async def _resume_action(self) -> None:
        settled = await self._settle(contract.SettleRequest(self.case.bug_id, self.case.turn))
        if settled.action:
            await self._act(settled)
        else:
            # The end of the case took the turn's number: another try would never end.
            self.state.acted_turn = self.case.turn

    async def _act(self, settled: Settled) -> None:
        """Do the action of the last settled turn; safe to repeat.

        A post has a key, and a status is taken once. While Slack refuses a post for a reason that
        the admin can mend, the case waits, and stores new messages.
        """
        try:
            await self._do_action(settled)
        except NotMended as refused:
            self._wait_until_mended(str(refused))

    async def _do_action(self, settled: Settled) -> None:
        turn = TurnRef(self.case.bug_id, self.case.turn)
        unsaid = await self._say_unsaid()
        if settled.action is Action.ASK_REPORTER:
            # The question is for another channel, and does not wait for the earlier turns.
            await self._try_earlier_turns()
            if unsaid:
                raise NotMended(unsaid)  # same channel as the question, which comes after it
            await self._ask_reporter(turn)
        else:
            await self._post_earlier_turns()
            if self._closing or not await self._act_on_findings(turn, settled):
                return  # a close may be withdrawn: then the rest is outstanding
        self.state.acted_turn = turn.turn

    async def _act_on_findings(self, turn: TurnRef, settled: Settled) -> bool:
        """Post a turn's findings and do what follows them; return false once a close is due."""
        posted = await self._post_findings(turn)
        if settled.has_fix and not self._closing:
            await self._open_pull_request(turn)
        if self._closing:
            return False
        if settled.action is Action.ESCALATE:
            await self._escalate(turn)
        elif settled.may_resolve:
            if not self.inbox and not self.case.has_unread:
                await self._close(Reason.AGENT_RESOLVED)
        else:
            reason = Reason.FINDINGS_POSTED if posted else Reason.FINDINGS_REFUSED
            await self._await_developers(Reason.FIX_PROPOSED if settled.has_fix else reason)
        return True

    # -- posts that Slack refuses until the admin mends something

    def _wait_until_mended(self, why: str) -> None:
        self.state.refusals += 1
        self.state.post_again_at = workflow.now().timestamp() + mending_delay(self.state.refusals)
        self._trouble = f"Slack refuses the posts; they are retried until it accepts them. {why}"
        self._show()

    def _put_action_off(self) -> None:
        """Keep the refused findings of a turn for later, since the next turn begins before they
        are posted.

        A question is not kept: the next turn may ask it again.
        """
        case = self.case
        state = self.state
        if not (self._undecided and state.acted_turn < case.turn):
            return
        if case.last_action != Action.ASK_REPORTER:
            state.unposted.append(UnpostedTurn(case.turn, Action(case.last_action)))
        state.acted_turn = case.turn

    async def _post_again(self) -> None:
        """Try the refused posts again, in their order.

        A notice that is refused again does not hold up the findings, which may be for another
        channel.
        """
        self.state.post_again_at = 0.0
        self._trouble = ""
        if self._undecided:
            await self._resume_action()
        else:
            await self._say_unsaid()
            await self._try_earlier_turns()
        if not self.state.post_again_at:
            self.state.refusals = 0

    async def _say_unsaid(self) -> str:
        """Post the refused notices; return the reason if one is refused again."""
        for unsaid in list(self.state.unsaid):
            notice = contract.Notice(self.case.bug_id, unsaid.kind, unsaid.ordinal, unsaid.detail)
            try:
                await attempt_unless_mendable(
                    CasePostActivities.post_notice, notice, summary=f"notice: {unsaid.kind}"
                )
            except NotMended as refused:
                self._wait_until_mended(str(refused))
                return str(refused)
            self.state.unsaid.remove(unsaid)
        return ""

    async def _try_earlier_turns(self) -> None:
        """Post the overdue posts of earlier turns; schedule another try if one is refused."""
        try:
            await self._post_earlier_turns()
        except NotMended as refused:
            self._wait_until_mended(str(refused))

    async def _post_earlier_turns(self) -> None:
        for owed in list(self.state.unposted):
            turn = TurnRef(self.case.bug_id, owed.turn)
            await self._post_findings(turn)
            if owed.action is Action.ESCALATE:
                await self._call_people(turn)
            self.state.unposted.remove(owed)

    async def _ask_reporter(self, turn: TurnRef) -> None:
        if self._reporter_wrote():
            return  # it may be the answer: the next turn reads it first
        ask = CasePostActivities.post_clarification_question
        if await attempt_unless_mendable(ask, turn, summary="ask the reporter"):
            posted = await self._post_findings(turn)  # the reporter's thread cannot be written to
            await self._await_developers(
                Reason.FINDINGS_POSTED if posted else Reason.FINDINGS_REFUSED
            )
            return
        if not self._closing:
            await self._set_status(CaseStatus.AWAITING_REPORTER, Reason.QUESTION_ASKED)

    async def _post_findings(self, turn: TurnRef) -> bool:
        """Post a turn's findings; return whether Slack accepted them.

        Raises:
            NotMended: Slack may accept them later.
        """
        trouble = ""
        if not self.case.has_summary_thread:
            open_thread = CasePostActivities.create_summary_thread
            trouble = await attempt_unless_mendable(
                open_thread, turn.bug_id, summary="open the summary thread"
            )
        if not trouble:
            post = CasePostActivities.post_investigation_results
            trouble = await attempt_unless_mendable(post, turn, summary="post findings")
        if trouble:
            await self._notice(NoticeKind.UNDELIVERABLE, turn.turn, trouble)
        return not trouble

    async def _open_pull_request(self, turn: TurnRef) -> None:
        """Open a pull request for the turn's fix.

        This waits for a code host that is away, except when the reporter wants the case closed.

        Raises:
            NotMended: The fix can be proposed, or announced, later.
        """
        try:
            opening = call(CaseActivities.open_pull_request, turn, summary="open a pull request")
            self._update(await run_unless(lambda: self._closing, opening))
        except Interrupted:
            return
        except FailureError as error:
            fault = fault_of(error)
            if fault.kind is FaultKind.MENDABLE:
                raise NotMended(fault.message) from error
            await self._notice(NoticeKind.FIX_REFUSED, turn.turn, fault.message)

    async def _escalate(self, turn: TurnRef) -> None:
        await self._call_people(turn)
        await self._set_status(CaseStatus.ESCALATED, Reason.ESCALATED)

    async def _call_people(self, turn: TurnRef) -> None:
        """Call people, and start the escalation's clock.

        Raises:
            NotMended: People can be called later.
        """
        try:
            escalation = await call(
                CasePostActivities.escalate_to_humans, turn, summary="call on-call"
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            fault = fault_of(error)
            elsewhere = fault.cause == CHANNEL_FAULT and fault.subject != self.state.thread.channel
            if fault.kind is not FaultKind.MENDABLE or (elsewhere and not self.state.refusals):
                await self._notice(NoticeKind.NOBODY_CALLED, turn.turn, fault.message)
            if fault.kind is FaultKind.MENDABLE:
                raise NotMended(fault.message) from error
        else:
            before = min(self.state.sla_clock or escalation.number - 1, escalation.number - 1)
            await start_clock(replace(escalation, started=workflow.now().timestamp()), before)
            self.state.sla_clock = escalation.number

    async def _await_developers(self, reason: Reason) -> None:
        await self._set_status(CaseStatus.PENDING_VERIFICATION, reason)

    # -- silence and the end

    async def _on_timeout(self) -> None:
        if self.case.status is CaseStatus.AWAITING_REPORTER:
            await self._notice(NoticeKind.QUESTION_UNANSWERED, self.case.turn)
            if not self._reporter_wrote():
                await self._set_status(CaseStatus.INVESTIGATING, Reason.QUESTION_UNANSWERED)
            return
        if self.case.pull_request_open:
            await self._check_pull_request()
        if self.case.status is not CaseStatus.RESOLVED:
            await self._close(Reason.NO_REPLY)

    async def _check_pull_request(self) -> None:
        """Check the case's fix at the code host; a merged one ends the case.

        Without an answer from the code host nothing changes.
        """
        try:
            bug_id = self.case.bug_id
            self._update(
                await call(
                    CaseActivities.check_pull_request, bug_id, summary="check the pull request"
                )
            )
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("pull_request_check_failed", extra={"case": self.case.bug_id})
        if self.case.status is CaseStatus.RESOLVED:
            await self._post_closing()

    async def _close(self, reason: Reason) -> None:
        """Resolve the case, unless the database holds a message that contradicts it."""
        end = contract.EndRequest(self.case.bug_id, reason)
        self._update(await call(CaseActivities.end_case, end, summary=f"end: {reason}"))
        if self.case.status is CaseStatus.RESOLVED:
            self.state.cancelled = False
            self.state.acted_turn = self.case.turn  # the last action is dropped, or was done
            self.state.unposted.clear()
            self.state.unsaid.clear()
            self.state.post_again_at = 0.0
            await self._post_closing()

    async def _post_closing(self) -> None:
        """Post how the case ended, stop its clock, and remove its workspace."""
        if self._sla_clock:
            await signal_clock(self.case.bug_id, self._sla_clock, "resolved")
        try:
            await attempt_unless_mendable(
                CasePostActivities.post_closing,
                self.case.bug_id,
                summary="post the closing message",
            )
        except NotMended as refused:
            self._closing_unposted = True
            self._wait_until_mended(str(refused))
            return
        self._closing_unposted = False
        self.state.post_again_at = 0.0
        self.state.refusals = 0
        self.background.start(
            AgentActivities.cleanup_workspace, self.case.bug_id, summary="remove the workspace"
        )

    def _reporter_wrote(self) -> bool:
        return self.case.reporter_wrote or self.inbox.holds_from(self.case.reporter_id)

    def _status_change(self, to: CaseStatus, reason: Reason) -> contract.StatusChange:
        wait = wait_in(to, self.state.limits, escalated=self.case.escalated)
        return contract.StatusChange(self.case.bug_id, to, reason, wait)

    async def _set_status(self, to: CaseStatus, reason: Reason) -> None:
        change = self._status_change(to, reason)
        self._update(await call(CaseActivities.update_status, change, summary=f"{to}: {reason}"))

    async def _notice(self, kind: NoticeKind, ordinal: int = 0, detail: str = "") -> None:
        """Post a notice, now or once Slack accepts it again."""
        notice = contract.Notice(self.case.bug_id, kind, ordinal, detail)
        try:
            await attempt_unless_mendable(
                CasePostActivities.post_notice, notice, summary=f"notice: {kind}"
            )
        except NotMended as refused:
            self.state.unsaid.append(UnsaidNotice(kind, ordinal, detail))
            self._wait_until_mended(str(refused))

    @property
    def _sla_clock(self) -> int:
        """The escalation whose clock runs.

        A close may have dropped the last escalation after it was settled.
        """
        return self.state.sla_clock or self.case.escalations

    def _acknowledge_escalation(self) -> None:
        """Stop the reminders to answer an open escalation, since a developer has answered.

        This also happens during a step.
        """
        if self.case.escalated and self.state.acknowledged_escalation < self._sla_clock:
            self.state.acknowledged_escalation = self._sla_clock
            signal = signal_clock(self.case.bug_id, self._sla_clock, "acknowledged")
            self._sla_signal = asyncio.create_task(signal)
            self.background.add(self._sla_signal)

    def _update(self, case: CaseSnapshot) -> None:
        """Adopt a snapshot unless a newer one is known: results arrive in another order than
        commits.
        """
        if case.rev >= self.case.rev:
            self.state.case = case
            self._show()
            self._keep_card()

    # -- the card in the summaries channel

    def _keep_card(self) -> None:
        """Start to bring the card up to date, in the background, unless that is under way."""
        if self._card is None or self._card.done():
            self._card = asyncio.create_task(self._update_card())
            self.background.add(self._card)

    async def _update_card(self) -> None:
        """Update the card until it shows the case as it is.

        A card that Slack refuses is tried again after the case's next change.
        """
        while (shown := card_facts(self.case)) != self.state.card:
            update = CasePostActivities.update_card
            failed = await attempt(update, self.case.bug_id, summary="update the card")
            if not failed:
                self.state.card = shown
            elif card_facts(self.case) == shown:
                return

    # -- Temporal's UI

    def _show(self) -> None:
        case = self.case
        if not case.bug_id:
            return
        state = shown_state(case.status)
        shown = (state, case.severity, case.title)
        if shown != self._shown:
            self._shown = shown
            workflow.upsert_memo(_memo(case))
            workflow.upsert_search_attributes(
                [CASE_STATE.value_set(state), CASE_SEVERITY.value_set(case.severity.value)]
            )
        workflow.set_current_details(describe_state(case, self._trouble))

    @workflow.query(
        name="state",
        description=(
            "State, pending work, the last action, the agent's session, cost and deadline."
        ),
    )
    def query_state(self) -> dict[str, Any]:
        case = self.case
        return {
            "bug_id": case.bug_id,
            "state": shown_state(case.status),
            "status": case.status.value,
            "pending": len(self.inbox),
            "action": case.last_action,
            "session_id": case.session_id,
            "turn": case.turn,
            "cost_usd": case.cost_usd,
            "deadline": format_utc(case.wait_until) if case.wait_until else None,
        }


def _memo(case: CaseSnapshot) -> dict[str, Any]:
    return {"case": case.bug_id, "title": case.title}
