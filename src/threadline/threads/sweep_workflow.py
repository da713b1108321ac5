"""The sweep's workflow: what is open has its workflow, every escalation its clock, every turn its answer."""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import SlackActivities, TurnRef
    from threadline.threads import addressing
    from threadline.threads.activity_options import ActivityOptions, retry_policy
    from threadline.threads.catch_up_contract import Repair, RepairKind, SweepActivities, Swept, Unsaid

from threadline.threads.calls import attempt

REPAIR = ActivityOptions(start_to_close=30, retry=retry_policy(1, 30, attempts=3), schedule_to_close=180)
"""Given up soon: the next sweep finds it again."""


@workflow.defn(name=addressing.SWEEP_WORKFLOW)
class SweepWorkflow:
    """Runs under one id, and apart from the catch-up, which waits for Slack as long as Slack is away."""

    @workflow.run
    async def run(self) -> str:
        """Sweep once, page by page. A step that gives up does not end the others."""
        await self._sweep(SweepActivities.sweep_cases, "cases")
        await self._sweep(SweepActivities.sweep_clocks, "clocks of cases")
        await self._say_missing_answers()
        await self._sweep(SweepActivities.sweep_conversations, "conversations")
        return "swept"

    async def _sweep(self, step: Callable[[Any, int], Awaitable[Swept]], what: str) -> None:
        after, first = 0, True
        while after or first:
            pages: list[Swept] = []
            if await attempt(step, after, summary=f"{what} after {after}", on_result=pages.append):
                return
            after, first = pages[0].next, False

    async def _say_missing_answers(self) -> None:
        after, first = 0, True
        while after or first:
            pages: list[Unsaid] = []
            find = SweepActivities.find_missing_answers
            if await attempt(find, after, summary=f"missing answers after {after}", on_result=pages.append):
                return
            for repair in pages[0].repairs:
                await self._repair(repair)
            after, first = pages[0].next, False

    async def _repair(self, repair: Repair) -> None:
        """Say what was not said; every post has a key, so what has been said by now is not said twice."""
        turn = TurnRef(repair.bug_id, repair.turn)
        if repair.kind is RepairKind.QUESTION:
            ask = SlackActivities.post_clarification_question
            await attempt(ask, turn, summary="ask the reporter", options=REPAIR)
        else:
            opening = SlackActivities.create_summary_thread
            await attempt(opening, turn.bug_id, summary="open the summary thread", options=REPAIR)
            findings = SlackActivities.post_investigation_results
            await attempt(findings, turn, summary="post findings", options=REPAIR)
