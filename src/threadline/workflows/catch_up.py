"""The catch-up's workflow: one look at a time at what Slack shows, then a sweep over the cases."""

from typing import Any

from temporalio import workflow
from temporalio.exceptions import ActivityError, FailureError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from threadline.contracts import options
    from threadline.contracts.bug import SlackActivities, TurnRef
    from threadline.contracts.catch_up import (
        CatchUpActivities,
        LookPlan,
        PageRequest,
        Repair,
        RepairKind,
        SweepActivities,
        Window,
        WindowDone,
    )
    from threadline.domain import addressing, catch_up
    from threadline.domain.catch_up import CatchUpState

from threadline.workflows.calls import attempt, call, fault_of

_MOST = 200
"""Escalations and missing answers that one sweep looks at; the next one sees the others."""


@workflow.defn(name=addressing.CATCH_UP_WORKFLOW)
class CatchUpWorkflow:
    """Runs under one id, so that there is never a second; asked during a look, it looks once more."""

    @workflow.init
    def __init__(self, state: CatchUpState) -> None:
        self._state = state

    @workflow.signal(name=addressing.LOOK, description="A gateway has come back: look at what it may have missed.")
    def look(self, *args: Any) -> None:
        self._state.asked = self._state.after = True
        self._state.deep = self._state.deep or catch_up.wants_deep(args)

    @workflow.run
    async def run(self, state: CatchUpState) -> str:
        """Look, as often as it is asked for; nothing is awaited between the last look at that and the end."""
        while True:
            deep, state.deep, state.asked = state.deep, False, False
            quiet = await self._look_once(deep=deep)
            await self._tidy()
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
                lambda: self._state.asked, timeout=quiet, timeout_summary="then once more, for what was too young"
            )
        except TimeoutError:
            return

    async def _look_once(self, *, deep: bool) -> float:
        workflow.set_current_details("Looking into Slack's history for what was not delivered.")
        plan = await call(CatchUpActivities.begin_look, deep, summary="deep look" if deep else "look")
        for window in plan.windows:
            trouble = await self._read(window, plan)
            done = WindowDone(window, plan.began, plan.deep, trouble)
            await call(CatchUpActivities.finish_channel, done, summary=f"{window.channel} was read")
        left = await call(CatchUpActivities.choose_threads, plan, summary="which threads?")
        while left:
            compared = await call(CatchUpActivities.compare_threads, plan, summary=f"{left} threads to compare")
            left = compared.left
            if left and workflow.info().is_continue_as_new_suggested():
                workflow.continue_as_new(self._state)  # the threads that are left are noted in the database
        return plan.quiet

    async def _read(self, window: Window, plan: LookPlan) -> str:
        """Read a channel page by page, backwards; returns why that cannot be done, and then the others are read."""
        latest = window.latest
        try:
            while latest:
                request = PageRequest(window, plan.began, latest)
                latest = await call(CatchUpActivities.read_history, request, summary=f"{window.channel} until {latest}")
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            return fault_of(error).words
        return ""

    async def _tidy(self) -> None:
        """Sweep; what stands in its way keeps nobody's message from being looked for."""
        try:
            await self._sweep()
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.error("sweep_broke_off", extra={"reason": fault_of(error).words})

    async def _sweep(self) -> None:
        workflow.set_current_details("Looking whether every open case has its workflow, and every turn its answer.")
        after, first = 0, True
        while after or first:
            swept = await call(SweepActivities.sweep_cases, after, summary=f"cases after {after}")
            after, first = swept.next, False
        await call(SweepActivities.sweep_clocks, _MOST, summary="clocks of open escalations")
        missing = await call(SweepActivities.find_missing_answers, _MOST, summary="turns without their answer")
        for repair in missing:
            await self._repair(repair)

    async def _repair(self, repair: Repair) -> None:
        """Say what was not said; every post has a key, so what has been said by now is not said twice."""
        turn = TurnRef(repair.bug_id, repair.turn)
        if repair.kind is RepairKind.CLOSING:
            await attempt(SlackActivities.post_closing, turn.bug_id, summary="say how it ended", chosen=options.REPAIR)
        elif repair.kind is RepairKind.QUESTION:
            ask = SlackActivities.post_clarification_question
            await attempt(ask, turn, summary="ask the reporter", chosen=options.REPAIR)
        else:
            opening = SlackActivities.create_summary_thread
            await attempt(opening, turn.bug_id, summary="open the summary thread", chosen=options.REPAIR)
            findings = SlackActivities.post_investigation_results
            await attempt(findings, turn, summary="post findings", chosen=options.REPAIR)


@workflow.defn(name=addressing.CATCH_UP_TICK_WORKFLOW)
class CatchUpTickWorkflow:
    """What the schedule starts: a schedule adds the time to its workflow's id, and the catch-up has one id alone."""

    @workflow.run
    async def run(self) -> str:
        """Start the catch-up unless it runs, which is as good."""
        try:
            await workflow.start_child_workflow(
                CatchUpWorkflow.run,
                CatchUpState(),
                id=addressing.CATCH_UP_ID,
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
