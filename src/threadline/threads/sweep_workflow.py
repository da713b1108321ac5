"""The sweep's workflow: what is open has its workflow, every escalation its clock, every turn its answer."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import SlackActivities, TurnRef
    from threadline.threads import addressing
    from threadline.threads.activity_options import ActivityOptions, retry_policy
    from threadline.threads.catch_up_contract import Repair, RepairKind, SweepActivities

from threadline.threads.calls import attempt, call

REPAIR = ActivityOptions(start_to_close=30, retry=retry_policy(1, 30, attempts=3), schedule_to_close=180)
"""Given up soon: the next sweep finds it again."""


@workflow.defn(name=addressing.SWEEP_WORKFLOW)
class SweepWorkflow:
    """Runs under one id, and apart from the catch-up, which waits for Slack as long as Slack is away."""

    @workflow.run
    async def run(self) -> str:
        """Sweep once, page by page."""
        after, first = 0, True
        while after or first:
            cases = await call(SweepActivities.sweep_cases, after, summary=f"cases after {after}")
            after, first = cases.next, False
        after, first = 0, True
        while after or first:
            clocks = await call(SweepActivities.sweep_clocks, after, summary=f"clocks of cases after {after}")
            after, first = clocks.next, False
        after, first = 0, True
        while after or first:
            unsaid = await call(SweepActivities.find_missing_answers, after, summary=f"missing answers after {after}")
            for repair in unsaid.repairs:
                await self._repair(repair)
            after, first = unsaid.next, False
        after, first = 0, True
        while after or first:
            talks = await call(SweepActivities.sweep_conversations, after, summary=f"conversations after {after}")
            after, first = talks.next, False
        return "swept"

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
