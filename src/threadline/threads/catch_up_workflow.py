"""CatchUpWorkflow: one pass after the other over what Slack's history shows."""

from dataclasses import replace
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.threads import addressing, contract
    from threadline.threads.contract import (
        CatchUpActivities,
        CatchUpPlan,
        CatchUpState,
        ChannelRead,
        HistoryWindow,
        LookScope,
        PageRequest,
    )

from threadline.threads.calls import call, fault_of, pause


@workflow.defn(name=addressing.CATCH_UP_WORKFLOW)
class CatchUpWorkflow:
    """Runs under one id, so that there is never a second; a request during a pass leads to one more."""

    @workflow.init
    def __init__(self, state: CatchUpState) -> None:
        self._state = state
        self._deep = False
        self._cases_checked_at = workflow.now().timestamp()

    @workflow.signal(name=addressing.LOOK, description="A gateway has reconnected: look for messages that it missed.")
    def look(self, *args: Any) -> None:
        self._state.requested = self._state.follow_up = True
        self._state.deep = self._state.deep or contract.wants_deep(args)

    @workflow.run
    async def run(self, state: CatchUpState) -> str:
        """Make passes while there are requests; nothing is awaited between the last check for one and the end."""
        while True:
            try:
                settle_time = await self._pass()
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                await self._begin_again_later(error)
            if state.follow_up and not state.requested:
                state.follow_up = False
                await self._wait(settle_time)
                continue
            if not state.requested:
                return "caught up"

    async def _begin_again_later(self, error: ActivityError) -> NoReturn:
        """What was requested of the pass that failed is requested of the next one: nobody else would do so again."""
        self._state.deep = self._state.deep or self._deep
        workflow.set_current_details(f"A pass over Slack's history failed and is repeated: {fault_of(error).message}")
        await self._wait(contract.RETRY_INTERVAL)
        workflow.continue_as_new(self._state)

    async def _wait(self, seconds: float) -> None:
        """Wait for the next pass, which begins at once when it is requested."""
        await pause(seconds, lambda: self._state.requested, "wait for the next pass")

    async def _pass(self) -> float:
        """Catch up on cases, then on conversations; or do what is left of the pass that the last run began.

        Returns:
            the seconds for which the pass has left fresh messages alone.
        """
        plan, self._state.plan = self._state.plan, None
        if plan:
            self._deep = plan.deep
            await self._compare(plan)
        else:
            self._deep, self._state.deep, self._state.requested = self._state.deep, False, False
            plan = await self._plan(deep=self._deep)
            self._deep = plan.deep
            await self._catch_up(plan)
        if plan.scope is LookScope.CASES:
            self._cases_checked_at = workflow.now().timestamp()
            await self._catch_up(replace(plan, scope=LookScope.CONVERSATIONS))
        return plan.settle_time

    async def _plan(self, *, deep: bool) -> CatchUpPlan:
        workflow.set_current_details("Reading Slack's history for messages that were not delivered.")
        return await call(CatchUpActivities.plan_catch_up, deep, summary="plan a deep pass" if deep else "plan a pass")

    async def _catch_up(self, plan: CatchUpPlan, *, nested: bool = False) -> None:
        """Read the channels of the plan's scope, and compare their threads."""
        for window in plan.windows:
            if window.scope is plan.scope and not self._yields_to_request(plan):
                error = await self._read(window, plan)
                read = ChannelRead(window.channel, plan.deep, error)
                await call(CatchUpActivities.record_channel, read, summary=f"record {window.channel}")
        left = await call(CatchUpActivities.select_threads, plan, summary="select threads to compare")
        await self._compare(plan, left, nested=nested)

    async def _compare(self, plan: CatchUpPlan, left: int | None = None, *, nested: bool = False) -> None:
        """Compare the threads that are selected, `left` of them. `nested`: within a pass that must not lose its run.

        The next run does what is left of the same plan: with a new one, a long pass would never come to its end.
        """
        while left != 0 and not self._yields_to_request(plan):
            summary = "compare threads" if left is None else f"{left} threads to compare"
            left = (await call(CatchUpActivities.compare_threads, plan, summary=summary)).left
            if left and not nested and workflow.info().is_continue_as_new_suggested():
                windows = [window for window in plan.windows if window.scope is not plan.scope]
                self._state.plan = replace(plan, windows=windows)
                workflow.continue_as_new(self._state)
            await self._check_cases(plan)

    def _yields_to_request(self, plan: CatchUpPlan) -> bool:
        """Whether a pass is requested, which begins with the cases and goes on with what is left of conversations."""
        if plan.scope is LookScope.CONVERSATIONS and self._state.requested:
            self._state.deep = self._state.deep or plan.deep
            return True
        return False

    async def _check_cases(self, plan: CatchUpPlan) -> None:
        """A deep pass over conversations may take hours, and no case waits for it."""
        since = workflow.now().timestamp() - self._cases_checked_at
        if plan.scope is LookScope.CONVERSATIONS and since > contract.CASE_INTERVAL:
            await self._catch_up(await self._plan(deep=False), nested=True)
            self._cases_checked_at = workflow.now().timestamp()

    async def _read(self, window: HistoryWindow, plan: CatchUpPlan) -> str:
        """Read a channel page by page, backwards; returns why that cannot be done, and then the others are read."""
        latest = window.latest
        while latest:
            request, summary = PageRequest(window, plan.began, latest), f"{window.channel} until {latest}"
            try:
                latest = await call(CatchUpActivities.read_history_page, request, summary=summary)
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                return fault_of(error).message
            await self._check_cases(plan)
        return ""
