"""The workflows that belong to no feature: the catch-up, the sweep, and a reply whose thread is looked for."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, FailureError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from threadline.slack.model import Thread
from threadline.threads import contract
from threadline.threads.calls import attempt, call, fault_of, pause
from threadline.threads.contract import CatchUpActivities, SweepActivities, ThreadActivities
from threadline.threads.inbox import Inbox


@workflow.defn(name=contract.CATCH_UP_WORKFLOW)
class CatchUpWorkflow:
    """One pass after the other over what Slack's history shows, under one id, so that there is never a second. A
    request during a pass leads to one more."""

    @workflow.init
    def __init__(self, state: contract.CatchUpState) -> None:
        self._state = state
        self._deep = False
        self._cases_checked_at = workflow.now().timestamp()

    @workflow.signal(
        name=contract.CATCH_UP_REQUESTED, description="A gateway has reconnected: look for messages that it missed."
    )
    def look(self, *args: Any) -> None:
        self._state.requested = self._state.follow_up = True
        deep, followed = contract.parse_request(args)
        self._state.deep = self._state.deep or deep
        self._state.followed = followed | self._state.followed  # the first moment stands

    @workflow.run
    async def run(self, state: contract.CatchUpState) -> str:
        """Make passes while there are requests; nothing is awaited between the last check for one and the end."""
        while True:
            try:
                settle_time = await self._pass()
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                # What was requested of this pass is requested of the next one: nobody else would do so again.
                self._state.deep = self._state.deep or self._deep
                reason = fault_of(error).message
                workflow.set_current_details(f"A pass over Slack's history failed and is repeated: {reason}")
                await self._wait(contract.RETRY_INTERVAL)
                workflow.continue_as_new(self._state)
            if state.follow_up and not state.requested:
                state.follow_up = False
                await self._wait(settle_time)
                continue
            if not state.requested:
                return "caught up"

    async def _wait(self, seconds: float) -> None:
        """Wait for the next pass, which begins at once when it is requested."""
        await pause(seconds, lambda: self._state.requested, "wait for the next pass")

    async def _pass(self) -> float:
        """Catch up on cases, then on conversations; or do what is left of the pass that the last run began. Returns the
        seconds for which the pass has left fresh messages alone."""
        plan, self._state.plan = self._state.plan, None
        if plan:
            self._deep = plan.deep
            await self._compare(plan)
        else:
            self._deep, self._state.deep, self._state.requested = self._state.deep, False, False
            plan = await self._plan(deep=self._deep)
            self._deep = plan.deep
            await self._catch_up(plan)
        if plan.scope is contract.LookScope.CASES:
            self._cases_checked_at = workflow.now().timestamp()
            await self._catch_up(replace(plan, scope=contract.LookScope.CONVERSATIONS))
        return plan.settle_time

    async def _plan(self, *, deep: bool) -> contract.CatchUpPlan:
        workflow.set_current_details("Reading Slack's history for messages that were not delivered.")
        request = contract.PlanRequest(deep, dict(self._state.followed))
        plan = await call(CatchUpActivities.plan_catch_up, request, summary=f"plan a {'deep ' if deep else ''}pass")
        self._state.followed = {c: at for c, at in self._state.followed.items() if c not in request.followed}
        return plan

    async def _catch_up(self, plan: contract.CatchUpPlan, *, nested: bool = False) -> None:
        for window in plan.windows:
            if window.scope is plan.scope and not self._yields_to_request(plan):
                error = await self._read(window, plan)
                read = contract.ChannelRead(window.channel, plan.deep, error)
                await call(CatchUpActivities.record_channel, read, summary=f"record {window.channel}")
        left = await call(CatchUpActivities.select_threads, plan, summary="select threads to compare")
        await self._compare(plan, left, nested=nested)

    async def _compare(self, plan: contract.CatchUpPlan, left: int | None = None, *, nested: bool = False) -> None:
        """Compare the threads that are selected, `left` of them. `nested`: within a pass that must not lose its run.
        The next run does what is left of the same plan: with a new one, a long pass would never come to its end."""
        while left != 0 and not self._yields_to_request(plan):
            summary = "compare threads" if left is None else f"{left} threads to compare"
            left = (await call(CatchUpActivities.compare_threads, plan, summary=summary)).left
            if left and not nested and workflow.info().is_continue_as_new_suggested():
                windows = [window for window in plan.windows if window.scope is not plan.scope]
                self._state.plan = replace(plan, windows=windows)
                workflow.continue_as_new(self._state)
            await self._check_cases(plan)

    def _yields_to_request(self, plan: contract.CatchUpPlan) -> bool:
        """Whether a pass is requested, which begins with the cases and goes on with what is left of conversations."""
        if plan.scope is contract.LookScope.CONVERSATIONS and self._state.requested:
            self._state.deep = self._state.deep or plan.deep
            return True
        return False

    async def _check_cases(self, plan: contract.CatchUpPlan) -> None:
        """A deep pass over conversations may take hours, and no case waits for it."""
        since = workflow.now().timestamp() - self._cases_checked_at
        if plan.scope is contract.LookScope.CONVERSATIONS and since > contract.CASE_INTERVAL:
            await self._catch_up(await self._plan(deep=False), nested=True)
            self._cases_checked_at = workflow.now().timestamp()

    async def _read(self, window: contract.HistoryWindow, plan: contract.CatchUpPlan) -> str:
        """Read a channel page by page, backwards; returns why that cannot be done, and then the others are read."""
        latest = window.latest
        while latest:
            request, summary = contract.PageRequest(window, plan.began, latest), f"{window.channel} until {latest}"
            try:
                latest = await call(CatchUpActivities.read_history_page, request, summary=summary)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                return fault_of(error).message
            await self._check_cases(plan)
        return ""


@workflow.defn(name=contract.SWEEP_WORKFLOW)
class SweepWorkflow:
    """What the schedule starts: it starts the catch-up, without waiting for it and so for Slack, and runs every sweep
    once."""

    @workflow.run
    async def run(self, request: contract.SweepRequest) -> str:
        """Sweep page by page. A sweep that gives up does not end the others."""
        started = await _start_catch_up()
        failed = [name for name in request.names if not await _sweep(name)]
        return f"{started}, failed: {', '.join(failed)}" if failed else f"{started}, swept"


async def _sweep(name: str) -> bool:
    """Returns whether the sweep came to its end."""
    page: contract.SweepPage | None = contract.SweepPage(name)
    while page:
        pages: list[contract.SweepPage | None] = []
        summary = f"{name} after {page.after}" if page.after else name
        if await attempt(SweepActivities.sweep, page, summary=summary, on_result=pages.append):
            return False
        page = pages[0]
    return True


async def _start_catch_up() -> str:
    """There is one at a time: a schedule adds the time to the id of what it starts, and so cannot start it itself."""
    try:
        await workflow.start_child_workflow(
            CatchUpWorkflow.run,
            contract.CatchUpState(),
            id=contract.CATCH_UP_ID,
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
        )
    except WorkflowAlreadyStartedError:
        return "catch-up runs already"
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
        return "catch-up not started"
    return "catch-up started"


@workflow.defn(name=contract.ROUTE_REPLY_WORKFLOW)
class RouteReplyWorkflow:
    """Finds the case of a reply whose thread the gateway could not place in time, and hands the reply on. One for each
    such thread, which ends when nothing is left to forward."""

    @workflow.init
    def __init__(self, thread: Thread) -> None:
        self._inbox = Inbox([], {})

    @workflow.signal(dynamic=True, description="incoming_message: somebody wrote in this thread.")
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well."""
        self._inbox.receive(name, args)

    @workflow.run
    async def run(self, thread: Thread) -> str:
        """Forward each message in turn; the whole envelope goes on, so that its id stays what it was."""
        await workflow.wait_condition(lambda: len(self._inbox) > 0)
        outcome = "not a case"
        while batch := self._inbox.batch():
            try:
                known = await call(
                    ThreadActivities.forward_reply, contract.ForwardedReply(thread, batch[0]), summary="find the case"
                )
            except FailureError as error:
                if not is_cancelled_exception(error):
                    raise RuntimeError("an activity with unlimited retries failed") from error
                continue  # a Cancel in the UI must not lose what was accepted
            outcome = "forwarded" if known else outcome
            self._inbox.stored(1)
        return outcome
