"""The workflows that belong to no feature: the catch-up, the sweep, and the routing of a reply
whose thread is looked up.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import (
    ActivityError,
    FailureError,
    WorkflowAlreadyStartedError,
    is_cancelled_exception,
)
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

from threadline.slack.model import Thread
from threadline.threads import contract
from threadline.threads.calls import attempt, call, fault_of, pause
from threadline.threads.contract import CatchUpActivities, SweepActivities, ThreadActivities
from threadline.threads.inbox import Inbox


@workflow.defn(name=contract.CATCH_UP_WORKFLOW)
class CatchUpWorkflow:
    """Compares Slack's history with the stored messages, pass after pass. Its one id prevents a
    second one at the same time. A request during a pass causes one more.
    """

    @workflow.init
    def __init__(self, state: contract.CatchUpState) -> None:
        self._state = state
        self._deep = False
        self._cases_checked_at = workflow.now().timestamp()

    @workflow.signal(
        name=contract.CATCH_UP_REQUESTED,
        description="A gateway has reconnected: look for messages that it missed.",
    )
    def look(self, *args: Any) -> None:
        self._state.requested = self._state.follow_up = True
        deep, followed = contract.parse_request(args)
        self._state.deep = self._state.deep or deep
        self._state.followed = followed | self._state.followed  # the first write wins

    @workflow.run
    async def run(self, state: contract.CatchUpState) -> str:
        """Make passes while there are requests. Nothing is awaited between the last check for a
        request and the end.
        """
        while True:
            try:
                settle_time = await self._pass()
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                # The next pass inherits this one's request, which no gateway would repeat.
                self._state.deep = self._state.deep or self._deep
                reason = fault_of(error).message
                workflow.set_current_details(
                    f"A pass over Slack's history failed and is repeated: {reason}"
                )
                await self._wait(contract.RETRY_INTERVAL)
                workflow.continue_as_new(self._state)
            if state.follow_up and not state.requested:
                state.follow_up = False
                await self._wait(settle_time)
                continue
            if not state.requested:
                return "caught up"

    async def _wait(self, seconds: float) -> None:
        """Wait for the next pass, which begins at once when one is requested."""
        await pause(seconds, lambda: self._state.requested, "wait for the next pass")

    async def _pass(self) -> float:
        """Catch up on cases, then on conversations; or finish the pass that the last run began.
        Returns the seconds for which the pass left fresh messages alone.
        """
        plan = self._state.plan
        self._state.plan = None
        if plan:
            self._deep = plan.deep
            await self._compare(plan)
        else:
            self._deep = self._state.deep
            self._state.deep = False
            self._state.requested = False
            plan = await self._plan(deep=self._deep)
            self._deep = plan.deep
            await self._catch_up(plan)
        if plan.scope is contract.LookScope.CASES:
            self._cases_checked_at = workflow.now().timestamp()
            await self._catch_up(replace(plan, scope=contract.LookScope.CONVERSATIONS))
        return plan.settle_time

    async def _plan(self, *, deep: bool) -> contract.CatchUpPlan:
        workflow.set_current_details(
            "Reading Slack's history for messages that were not delivered."
        )
        request = contract.PlanRequest(deep, dict(self._state.followed))
        plan = await call(
            CatchUpActivities.plan_catch_up,
            request,
            summary=f"plan a {'deep ' if deep else ''}pass",
        )
        self._state.followed = {
            c: at for c, at in self._state.followed.items() if c not in request.followed
        }
        return plan

    async def _catch_up(self, plan: contract.CatchUpPlan, *, nested: bool = False) -> None:
        for window in plan.windows:
            if window.scope is plan.scope and not self._yields_to_request(plan):
                error = await self._read(window, plan)
                read = contract.ChannelRead(window.channel, plan.deep, error)
                await call(
                    CatchUpActivities.record_channel, read, summary=f"record {window.channel}"
                )
        left = await call(
            CatchUpActivities.select_threads, plan, summary="select threads to compare"
        )
        await self._compare(plan, left, nested=nested)

    async def _compare(
        self, plan: contract.CatchUpPlan, left: int | None = None, *, nested: bool = False
    ) -> None:
        """Compare the selected threads, `left` of them. A next run finishes the same plan: with a
        new plan, a long pass would never end.

        Args:
            nested: within a pass that must not lose its run.
        """
        while left != 0 and not self._yields_to_request(plan):
            summary = "compare threads" if left is None else f"{left} threads to compare"
            left = (await call(CatchUpActivities.compare_threads, plan, summary=summary)).left
            if left and not nested and workflow.info().is_continue_as_new_suggested():
                windows = [window for window in plan.windows if window.scope is not plan.scope]
                self._state.plan = replace(plan, windows=windows)
                workflow.continue_as_new(self._state)
            await self._check_cases(plan)

    def _yields_to_request(self, plan: contract.CatchUpPlan) -> bool:
        """Return whether to leave the conversations to a requested pass, which begins with the
        cases and continues with the rest of them.
        """
        if plan.scope is contract.LookScope.CONVERSATIONS and self._state.requested:
            self._state.deep = self._state.deep or plan.deep
            return True
        return False

    async def _check_cases(self, plan: contract.CatchUpPlan) -> None:
        """Catch up on cases during a pass over conversations, which may take hours when it is
        deep: no case waits for it.
        """
        since = workflow.now().timestamp() - self._cases_checked_at
        if plan.scope is contract.LookScope.CONVERSATIONS and since > contract.CASE_INTERVAL:
            await self._catch_up(await self._plan(deep=False), nested=True)
            self._cases_checked_at = workflow.now().timestamp()

    async def _read(self, window: contract.HistoryWindow, plan: contract.CatchUpPlan) -> str:
        """Read a channel page by page, backwards. Returns the error when it cannot be read, so
        that the others are read.
        """
        latest = window.latest
        while latest:
            request = contract.PageRequest(window, plan.began, latest)
            summary = f"{window.channel} until {latest}"
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
    """The workflow that the schedule starts. It starts the catch-up, without waiting for it or for
    Slack, and runs every sweep once.
    """

    @workflow.run
    async def run(self, request: contract.SweepRequest) -> str:
        """Sweep page by page. A sweep that gives up does not end the others."""
        started = await _start_catch_up()
        failed = [name for name in request.names if not await _sweep(name)]
        return f"{started}, failed: {', '.join(failed)}" if failed else f"{started}, swept"


async def _sweep(name: str) -> bool:
    """Run a sweep; returns whether it came to its end."""
    page: contract.SweepPage | None = contract.SweepPage(name)
    while page:
        pages: list[contract.SweepPage | None] = []
        summary = f"{name} after {page.after}" if page.after else name
        if await attempt(SweepActivities.sweep, page, summary=summary, on_result=pages.append):
            return False
        page = pages[0]
    return True


async def _start_catch_up() -> str:
    """Start the catch-up unless it runs. The schedule cannot start it directly: it adds the time
    to the ids of its workflows, and only one catch-up may run.
    """
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
    """Finds the owner of a reply whose thread the gateway could not resolve in time, and forwards
    the reply. There is one workflow for each such thread; it ends when nothing is left to forward.
    """

    @workflow.init
    def __init__(self, thread: Thread) -> None:
        self._inbox = Inbox([], {})

    @workflow.signal(dynamic=True, description="incoming_message: somebody wrote in this thread.")
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Queue a signal. The handler is dynamic, so that a signal which the SDK cannot decode
        arrives as well.
        """
        self._inbox.receive(name, args)

    @workflow.run
    async def run(self, thread: Thread) -> str:
        """Forward each message in turn. The whole envelope is forwarded, so that its id stays the
        same.
        """
        await workflow.wait_condition(lambda: len(self._inbox) > 0)
        outcome = "not a case"
        while batch := self._inbox.batch():
            try:
                known = await call(
                    ThreadActivities.forward_reply,
                    contract.ForwardedReply(thread, batch[0]),
                    summary="find the case",
                )
            except FailureError as error:
                if not is_cancelled_exception(error):
                    raise RuntimeError("an activity with unlimited retries failed") from error
                continue  # a Cancel in the UI must not lose an accepted message
            outcome = "forwarded" if known else outcome
            self._inbox.stored(1)
        return outcome
