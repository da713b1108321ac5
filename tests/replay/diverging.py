"""Workflows after a careless change: same names, other commands than the recorded ones."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
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
        await super().open()
        await call(CaseActivities.fetch_report, self.state.thread)


@workflow.defn(name=BUG_WORKFLOW)
class AnotherOrder(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def open(self) -> None:
        """Store first, and only then look up what is known of the thread."""
        if self.inbox:
            await self.store_messages()
        await super().open()


@workflow.defn(name=BUG_WORKFLOW)
class OneActivityMoreLater(BugInvestigationWorkflow):
    """Goes the recorded way for a while."""

    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)
        self._flushes = 0

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def store_messages(self) -> None:
        self._flushes += 1
        if self._flushes > 1:
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

    async def store_messages(self) -> None:
        raise ValueError("the marks are of another house")


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
