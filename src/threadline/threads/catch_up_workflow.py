"""The catch-up's workflow: one look at a time at what Slack shows."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from threadline.threads import addressing
    from threadline.threads import catch_up_model as catch_up
    from threadline.threads.catch_up_contract import (
        CatchUpActivities,
        CatchUpState,
        LookPlan,
        PageRequest,
        Window,
        WindowDone,
    )

from threadline.threads.calls import call, fault_of, pause
from threadline.threads.sweep_workflow import SweepWorkflow


@workflow.defn(name=addressing.CATCH_UP_WORKFLOW)
class CatchUpWorkflow:
    """Runs under one id, so that there is never a second; asked during a look, it looks once more."""

    @workflow.init
    def __init__(self, state: CatchUpState) -> None:
        self._state = state
        self._deep = False
        self._cases_seen = workflow.now().timestamp()

    @workflow.signal(name=addressing.LOOK, description="A gateway has reconnected: look for messages that it missed.")
    def look(self, *args: Any) -> None:
        self._state.asked = self._state.after = True
        self._state.deep = self._state.deep or catch_up.wants_deep(args)

    @workflow.run
    async def run(self, state: CatchUpState) -> str:
        """Look, as often as it is asked for; nothing is awaited between the last look at that and the end."""
        while True:
            try:
                quiet = await self._look_once()
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                await self._begin_again_later(error)
            if state.after and not state.asked:
                state.after = False
                await self._wait(quiet)
                continue
            if not state.asked:
                return "caught up"

    async def _begin_again_later(self, error: ActivityError) -> NoReturn:
        """What was asked of the look that failed is asked of the next one: else nobody would ask for it again."""
        self._state.deep = self._state.deep or self._deep
        workflow.set_current_details(f"The look at Slack's history failed and is repeated: {fault_of(error).words}")
        await self._wait(catch_up.RETRY_INTERVAL)
        workflow.continue_as_new(self._state)

    async def _wait(self, seconds: float) -> None:
        """Wait for the next look, which begins at once when somebody asks for one."""
        await pause(seconds, lambda: self._state.asked, "wait to look again")

    async def _look_once(self) -> float:
        """Look at cases, then at conversations; or do what is left of the look that the last run began."""
        plan, self._state.plan = self._state.plan, None
        if plan:
            self._deep = plan.deep
            await self._compare(plan)
        else:
            self._deep, self._state.deep, self._state.asked = self._state.deep, False, False
            plan = await self._begin_look(deep=self._deep)
            self._deep = plan.deep
            await self._look(plan)
        if not plan.talk:
            self._cases_seen = workflow.now().timestamp()
            await self._look(replace(plan, talk=True))
        return plan.quiet

    async def _begin_look(self, *, deep: bool) -> LookPlan:
        workflow.set_current_details("Reading Slack's history for messages that were not delivered.")
        return await call(CatchUpActivities.begin_look, deep, summary="plan a deep look" if deep else "plan a look")

    async def _look(self, plan: LookPlan, *, nested: bool = False) -> None:
        """Read the channels of cases, or of conversations, and compare their threads."""
        for window in plan.windows:
            if window.talk is plan.talk and not self._gives_way(plan):
                trouble = await self._read(window, plan)
                done = WindowDone(window, plan.began, plan.deep, trouble)
                await call(CatchUpActivities.finish_channel, done, summary=f"finish {window.channel}")
        left = await call(CatchUpActivities.choose_threads, plan, summary="choose threads to compare")
        await self._compare(plan, left, nested=nested)

    async def _compare(self, plan: LookPlan, left: int | None = None, *, nested: bool = False) -> None:
        """Compare the threads that are chosen, `left` of them. `nested`: within a look that would be lost with its run.

        The next run does what is left of the same plan: with a new one, a long look would never come to its end.
        """
        while left != 0 and not self._gives_way(plan):
            summary = "compare threads" if left is None else f"{left} threads to compare"
            left = (await call(CatchUpActivities.compare_threads, plan, summary=summary)).left
            if left and not nested and workflow.info().is_continue_as_new_suggested():
                self._state.plan = replace(plan, windows=[each for each in plan.windows if each.talk is not plan.talk])
                workflow.continue_as_new(self._state)
            await self._see_to_cases(plan)

    def _gives_way(self, plan: LookPlan) -> bool:
        """Whether a look is asked for, which begins with the cases and goes on with what is left of conversations."""
        if plan.talk and self._state.asked:
            self._state.deep = self._state.deep or plan.deep
            return True
        return False

    async def _see_to_cases(self, plan: LookPlan) -> None:
        """A deep look at where people talk may take hours, and no case waits for it."""
        if plan.talk and workflow.now().timestamp() - self._cases_seen > catch_up.CASES_EVERY:
            await self._look(await self._begin_look(deep=False), nested=True)
            self._cases_seen = workflow.now().timestamp()

    async def _read(self, window: Window, plan: LookPlan) -> str:
        """Read a channel page by page, backwards; returns why that cannot be done, and then the others are read."""
        latest = window.latest
        while latest:
            request = PageRequest(window, plan.began, latest)
            try:
                latest = await call(CatchUpActivities.read_history, request, summary=f"{window.channel} until {latest}")
            except ActivityError as error:
                if is_cancelled_exception(error):
                    raise
                return fault_of(error).words
            await self._see_to_cases(plan)
        return ""


@workflow.defn(name=addressing.CATCH_UP_TICK_WORKFLOW)
class CatchUpTickWorkflow:
    """What the schedule starts: a schedule adds the time to its workflow's id, and what it starts has one id alone."""

    @workflow.run
    async def run(self) -> str:
        """Start the sweep and the catch-up unless they run, which is as good; neither waits for the other."""
        await _start(SweepWorkflow.run, addressing.SWEEP_ID)
        return await _start(CatchUpWorkflow.run, addressing.CATCH_UP_ID, CatchUpState())


async def _start(run: Callable[..., Awaitable[str]], identity: str, *given: CatchUpState) -> str:
    try:
        await workflow.start_child_workflow(
            run,
            args=given,
            id=identity,
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
        )
    except WorkflowAlreadyStartedError:
        return "it runs already"
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
        return "not started"
    return "started"
