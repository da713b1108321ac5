"""The catch-up's workflow: one look at a time at what Slack shows."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from threadline.threads import addressing
    from threadline.threads import catch_up_model as catch_up
    from threadline.threads.catch_up_contract import CatchUpActivities, LookPlan, PageRequest, Window, WindowDone
    from threadline.threads.catch_up_model import CatchUpState

from threadline.threads import patches
from threadline.threads.calls import call, fault_of
from threadline.threads.sweep_workflow import SweepWorkflow


@workflow.defn(name=addressing.CATCH_UP_WORKFLOW)
class CatchUpWorkflow:
    """Runs under one id, so that there is never a second; asked during a look, it looks once more."""

    @workflow.init
    def __init__(self, state: CatchUpState) -> None:
        self._state = state
        self._cases_seen = 0.0

    @workflow.signal(name=addressing.LOOK, description="A gateway has reconnected: look for messages that it missed.")
    def look(self, *args: Any) -> None:
        self._state.asked = self._state.after = True
        self._state.deep = self._state.deep or catch_up.wants_deep(args)

    @workflow.run
    async def run(self, state: CatchUpState) -> str:
        """Look, as often as it is asked for; nothing is awaited between the last look at that and the end."""
        while True:
            deep, state.deep, state.asked = state.deep, False, False
            quiet = await self._look_once(deep=deep)
            if state.after and not state.asked:
                state.after = False
                await self._wait(quiet)
                continue
            if not state.asked:
                return "caught up"

    async def _wait(self, quiet: float) -> None:
        """Until what was too young for the last look can be judged."""
        try:
            await workflow.wait_condition(
                lambda: self._state.asked, timeout=quiet, timeout_summary="wait to look again at recent messages"
            )
        except TimeoutError:
            return

    async def _look_once(self, *, deep: bool) -> float:
        plan = await self._look_at_cases(deep=deep)
        if patches.CASES_FIRST.passed():
            await self._look(replace(plan, talk=True))
        return plan.quiet

    async def _look_at_cases(self, *, deep: bool) -> LookPlan:
        workflow.set_current_details("Reading Slack's history for messages that were not delivered.")
        plan = await call(CatchUpActivities.begin_look, deep, summary="plan a deep look" if deep else "plan a look")
        await self._look(plan)
        self._cases_seen = workflow.now().timestamp()
        return plan

    async def _look(self, plan: LookPlan) -> None:
        """Read the channels of cases, or of conversations, and compare their threads."""
        for window in plan.windows:
            if window.talk is plan.talk and not self._gives_way(plan):
                trouble = await self._read(window, plan)
                done = WindowDone(window, plan.began, plan.deep, trouble)
                await call(CatchUpActivities.finish_channel, done, summary=f"finish {window.channel}")
        left = await call(CatchUpActivities.choose_threads, plan, summary="choose threads to compare")
        while left and not self._gives_way(plan):
            compared = await call(CatchUpActivities.compare_threads, plan, summary=f"{left} threads to compare")
            left = compared.left
            if left and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)  # the threads that are left are noted in the database
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
            await self._look_at_cases(deep=False)

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
