"""Workflows after a careless change: same names, other commands than the recorded ones."""

from temporalio import workflow

from threadline.cases.contract import CaseActivities
from threadline.cases.model import BUG_WORKFLOW, BugState
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.threads.calls import call


@workflow.defn(name=BUG_WORKFLOW)
class OneActivityMore(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def open(self) -> None:
        await call(CaseActivities.fetch_report, self.state.thread)
        await super().open()


@workflow.defn(name=BUG_WORKFLOW)
class AnotherOrder(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def _investigate(self) -> None:
        """Run the turn first, and only then tell people of it."""
        await self._run_turn(self.case.turn + 1, lambda: True)
        await (await self._start_turn())


@workflow.defn(name=BUG_WORKFLOW)
class OneActivityMoreLater(BugInvestigationWorkflow):
    """Goes the recorded way for a while."""

    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def store_messages(self) -> None:
        """The second batch and those behind it: the first is stored as the run opens."""
        await call(CaseActivities.fetch_report, self.state.thread)
        await super().store_messages()


@workflow.defn(name=BUG_WORKFLOW)
class NeverEnds(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        await super().run(state)
        await workflow.wait_condition(lambda: False)
        return "never"


@workflow.defn(name=BUG_WORKFLOW)
class Raises(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def open(self) -> None:
        raise ValueError("the snapshot is of another version")


@workflow.defn(name=BUG_WORKFLOW)
class OneActivityMoreBehindAGate(BugInvestigationWorkflow):
    """The same change as `OneActivityMore`, made as it should be."""

    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def open(self) -> None:
        await super().open()
        if workflow.patched("look-twice"):
            await call(CaseActivities.fetch_report, self.state.thread)
