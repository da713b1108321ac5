"""Workflows as a careless change would leave them: under their names, with other commands than are on record."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from threadline.contracts.bug import IntakeActivities
    from threadline.domain import addressing
    from threadline.domain.bug import BugState

from threadline.workflows.bug_investigation import BugInvestigationWorkflow
from threadline.workflows.calls import call


@workflow.defn(name=addressing.BUG_WORKFLOW)
class OneActivityMore(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def _open(self) -> None:
        await super()._open()
        await call(IntakeActivities.fetch_report, self._case.state.thread)


@workflow.defn(name=addressing.BUG_WORKFLOW)
class AnotherOrder(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def _take_in(self) -> None:
        """Store first, and only then look up what is known of the thread."""
        if self._case.inbox and not self._opened:
            await self._flush()
        await super()._take_in()
