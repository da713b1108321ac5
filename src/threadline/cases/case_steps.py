"""The steps of a bug's case: one turn with what follows from it, a silence, an end.

A step runs supervised beside the workflow's main coroutine, which goes on storing what arrives. Whether a step is still
wanted is looked up after each await, in the marks that both share.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import (
        AgentActivities,
        CaseActivities,
        EndRequest,
        Notice,
        NoticeKind,
        SaveRequest,
        SlackActivities,
        StatusChange,
        TurnEnded,
        TurnRef,
    )
    from threadline.cases.model import Action, BugState, CaseStatus, Marks, Reason, Settled
    from threadline.threads.activity_options import COSMETIC

from threadline.cases import fix_steps as bug_fix
from threadline.cases import sla_workflow as sla_tracking
from threadline.cases import turn_steps as bug_turn
from threadline.threads.calls import Asides, attempt, call, fault_of
from threadline.threads.inbox import Inbox


class BugCase:
    """A case as its workflow sees it: the state that survives, and the steps that change it."""

    def __init__(self, state: BugState, entered: Callable[[], None]) -> None:
        self.state = state
        self.inbox = Inbox(state.pending, state.seen)
        self._entered = entered
        self.begun = False  # has what was stored since the last turn begun the next one?
        self.trouble = ""
        """Why the last attempt at the present turn failed, in words."""
        self.attempt: workflow.ActivityHandle[TurnEnded] | None = None
        """The attempt at a turn that runs now."""
        self._asides = Asides()
        self.aside = self._asides.start
        self._telling: asyncio.Task[None] | None = None

    @property
    def marks(self) -> Marks:
        return self.state.marks

    def merge(self, marks: Marks) -> None:
        """Take over what the database says, unless newer is known: results arrive in another order than commits."""
        if marks.rev >= self.marks.rev:
            self.state.marks = marks
            self._entered()

    @property
    def closing(self) -> bool:
        """The case is to end now: the reporter said so, or whoever runs the house."""
        return self.marks.close_due or self.state.stopped

    @property
    def turn_is_unwanted(self) -> bool:
        return self.attempt is not None and self.closing

    def interrupt_turn(self) -> None:
        """Stop a turn that is unwanted; its claim is taken away by the step that settles it."""
        if self.attempt and self.closing:
            self.attempt.cancel()
            self.attempt = None

    def struggle(self, words: str) -> None:
        """Show why the agent does not get on, or with nothing that it does."""
        self.trouble = words
        self._entered()

    @property
    def idle(self) -> bool:
        return self._asides.idle

    @property
    def telling(self) -> bool:
        """A clock is being told something: the server drops a signal whose sender's run ends beneath it."""
        return self._telling is not None and not self._telling.done()

    # -- the steps ---------------------------------------------------------------------------------------------------

    async def turn(self) -> None:
        """Let the agent look at what is unused, and act on what it asks for."""
        number = self.marks.turn + 1
        told = await self._begin(number)

        def announced() -> bool:
            return (told is None or told.done()) and not self.closing

        settled = await bug_turn.settle(self, number, lambda: self._after_findings() if announced() else None)
        if told:
            await told  # before anything that it announces
        if settled.said:
            self._mark_used(TurnRef(self.marks.bug_id, number))
            self.state.acted = number
        elif settled.action and not self.closing:
            await self._act(settled)

    @property
    def owes_an_act(self) -> bool:
        """A turn was settled and not acted on: a close was taken back, or an earlier run was terminated in between."""
        waiting = self.marks.status is CaseStatus.INVESTIGATING and bool(self.marks.last_action)
        return waiting and self.state.acted < self.marks.turn

    async def act_again(self) -> None:
        """Carry on from a turn's outcome."""
        settled = await self.save(SaveRequest(self.marks.bug_id, self.marks.turn))
        if settled.action:
            await self._act(settled)
        else:  # the end of the case took its number: asking again would go on for ever
            self.state.acted = self.marks.turn

    async def _act(self, settled: Settled) -> None:
        """Do what the last settled turn asked for. Safe to repeat: each post has a key, each status is a fact."""
        turn = TurnRef(self.marks.bug_id, self.marks.turn)
        if settled.action is Action.ASK_REPORTER:
            await self._ask(turn)
        else:
            waits = await self._post_findings(replace(turn, then=self._then(settled)), has_fix=settled.has_fix)
            if self.closing and not waits:
                return  # a close may yet be taken back: then the rest is still owed
            if not waits:
                await self._follow_up(settled, turn)
        self.state.acted = turn.turn

    def _then(self, settled: Settled) -> StatusChange | None:
        """The step that findings are followed by, where it hangs on nothing but their being posted."""
        if settled.action is not Action.POST_FINDINGS or settled.has_fix:
            return None
        return self._after_findings()

    def _after_findings(self) -> StatusChange:
        return self._wait(CaseStatus.PENDING_VERIFICATION, Reason.FINDINGS_POSTED, self.state.limits.developer_timeout)

    async def _follow_up(self, settled: Settled, turn: TurnRef) -> None:
        if settled.action is Action.ESCALATE:
            await self._escalate(turn)
        elif settled.may_resolve:
            if not self.inbox and not self.marks.message_due:
                await self.end(Reason.AGENT_RESOLVED)
        else:
            await self._await_developers(Reason.FIX_PROPOSED if settled.has_fix else Reason.FINDINGS_POSTED)

    async def silence(self) -> None:
        """Nobody answered in time: that is a result with a name."""
        if self.marks.status is CaseStatus.AWAITING_REPORTER:
            await self._notice(NoticeKind.QUESTION_UNANSWERED, self.marks.turn)
            if self.marks.reporter_due or self.inbox.holds_from(self.marks.reporter_id):
                return  # the answer came while that was said
            self.state.unanswered = True
            await self._take(self._wait(CaseStatus.INVESTIGATING, Reason.QUESTION_UNANSWERED))
            return
        if self.marks.pull_request_open:
            await self.look_up_fix()
        if self.marks.status is not CaseStatus.RESOLVED:
            await self.end(Reason.NO_REPLY)

    async def look_up_fix(self) -> None:
        """Ask the code host whether the fix was merged; a merge ends the case."""
        await bug_fix.check(self)
        if self.marks.status is CaseStatus.RESOLVED:
            await self.farewell()

    async def end(self, reason: Reason) -> None:
        """Resolve the case, unless the database knows of a message that speaks against it."""
        self.merge(await call(CaseActivities.end_case, EndRequest(self.marks.bug_id, reason), summary=f"end: {reason}"))
        if self.marks.status is CaseStatus.RESOLVED:
            self.state.stopped = self.state.unanswered = False
            self.state.acted = self.marks.turn  # what it found last is dropped, or was said
            await self.farewell()

    async def farewell(self) -> None:
        """Say how the case ended, once, and take away what it needed."""
        if self._clock:
            await sla_tracking.tell_clock(self.marks.bug_id, self._clock, "resolved")
        await attempt(SlackActivities.post_closing, self.marks.bug_id, summary="post how it ended")
        self.aside(AgentActivities.cleanup_workspace, self.marks.bug_id, "remove the workspace")

    @property
    def _clock(self) -> int:
        """The escalation whose clock runs: the last one may have been settled and dropped by a close."""
        return self.state.clock or self.marks.escalations

    def hear_developer(self) -> None:
        """A developer has spoken: the clock of an open escalation stops asking for that, also while a step runs."""
        if self.marks.escalated and self.state.acknowledged < self._clock:
            self.state.acknowledged = self._clock
            told = sla_tracking.tell_clock(self.marks.bug_id, self._clock, "acknowledged")
            self._telling = asyncio.create_task(told)
            self._asides.add(self._telling)

    # -- their parts -------------------------------------------------------------------------------------------------

    async def _begin(self, number: int) -> asyncio.Task[None] | None:
        """Take the first steps of a turn; what is returned is still being said, and keeps nobody waiting."""
        before, told, begun, self.begun = self.marks, None, self.begun, False
        if before.status is not CaseStatus.INVESTIGATING:
            reasons = {CaseStatus.NEW: Reason.REPORTED, CaseStatus.RESOLVED: Reason.REOPENED}
            await self._take(self._wait(CaseStatus.INVESTIGATING, reasons.get(before.status, Reason.NEW_MESSAGES)))
        if begun and before.turn == 0 and before.closings == 0:
            told = asyncio.create_task(self._notice(NoticeKind.INTAKE))
        elif before.turn == 0 and before.closings == 0:  # said once, also when an earlier run ended before it could
            self.merge(await call(CaseActivities.parse_bug_report, before.bug_id, summary="read the report"))
            await self._notice(NoticeKind.INTAKE)
        elif before.status is CaseStatus.RESOLVED:
            await self._notice(NoticeKind.REOPENED, before.closings)
        if before.developer_due:
            notice = Notice(before.bug_id, NoticeKind.FORWARDED, number)
            self.aside(SlackActivities.post_notice, notice, "tell developers", COSMETIC)
        return told

    async def save(self, request: SaveRequest) -> Settled:
        """Settle a turn in the database; whatever runs for it loses its claim."""
        settled = await call(CaseActivities.save_investigation_result, request, summary=f"settle turn {request.turn}")
        self.merge(settled.said or settled.marks)
        return settled

    async def _ask(self, turn: TurnRef) -> None:
        if self.marks.reporter_due or self.inbox.holds_from(self.marks.reporter_id):
            return  # they may have just said it: the next turn sees it first
        trouble = await attempt(SlackActivities.post_clarification_question, turn, summary="ask the reporter")
        if trouble:
            await self._post_findings(turn, has_fix=False)
            await self._await_developers(Reason.FINDINGS_POSTED)
            return
        self._mark_used(turn)
        if not self.closing:
            timeout = self.state.limits.reporter_timeout
            await self._wait_as(CaseStatus.AWAITING_REPORTER, Reason.QUESTION_ASKED, timeout)

    async def _post_findings(self, turn: TurnRef, *, has_fix: bool) -> bool:
        """Whether the case took the turn's next step with that."""
        bug_id, trouble, stepped = turn.bug_id, "", list[Marks | None]()
        if not self.marks.presented:
            trouble = await attempt(SlackActivities.create_summary_thread, bug_id, summary="open the summary thread")
        if not trouble:
            report, words = stepped.append, "post findings"
            trouble = await attempt(SlackActivities.post_investigation_results, turn, summary=words, taken=report)
        if trouble:
            await self._notice(NoticeKind.UNDELIVERABLE, turn.turn, trouble)
        elif stepped[0]:
            self.merge(stepped[0])
        self._mark_used(turn)
        if has_fix and not self.closing:
            refusal = await bug_fix.open_pull_request(self, turn)
            if refusal is not None:
                await self._notice(NoticeKind.FIX_REFUSED, turn.turn, refusal)
        return any(stepped)

    def _mark_used(self, turn: TurnRef) -> None:
        self.aside(SlackActivities.mark_used, replace(turn, then=None), "check marks")

    async def _escalate(self, turn: TurnRef) -> None:
        try:
            escalation = await call(SlackActivities.escalate_to_humans, turn, summary="call on-call")
        except FailureError as error:
            if is_cancelled_exception(error):
                raise
            await self._notice(NoticeKind.NOBODY_CALLED, turn.turn, fault_of(error).words)
        else:
            before = min(self.state.clock or escalation.number - 1, escalation.number - 1)
            await sla_tracking.start_clock(replace(escalation, started=workflow.now().timestamp()), before)
            self.state.clock = escalation.number
        await self._wait_as(CaseStatus.ESCALATED, Reason.ESCALATED, 0)

    async def _await_developers(self, reason: Reason) -> None:
        await self._wait_as(CaseStatus.PENDING_VERIFICATION, reason, self.state.limits.developer_timeout)

    async def _wait_as(self, status: CaseStatus, reason: Reason, timeout: float) -> None:
        await self._take(self._wait(status, reason, timeout))

    def _wait(self, status: CaseStatus, reason: Reason, timeout: float = 0.0) -> StatusChange:
        never_by_silence = self.marks.escalated and status is not CaseStatus.AWAITING_REPORTER
        until = workflow.now().timestamp() + timeout if timeout and not never_by_silence else 0.0
        return StatusChange(self.marks.bug_id, status, reason, wait_until=until)

    async def _take(self, change: StatusChange) -> None:
        self.merge(await call(CaseActivities.update_status, change, summary=f"{change.to}: {change.reason}"))

    async def _notice(self, kind: NoticeKind, ordinal: int = 0, detail: str = "") -> None:
        notice = Notice(self.marks.bug_id, kind, ordinal, detail)
        await attempt(SlackActivities.post_notice, notice, summary=f"notice: {kind}")
