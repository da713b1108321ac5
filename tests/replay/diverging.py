"""Workflows after a careless change: same names, other commands than the recorded ones."""

from typing import ClassVar

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
        """Run the turn first, and post to people only then."""
        await self._run_turn(self.case.turn + 1)
        await (await self._start_turn())


@workflow.defn(name=BUG_WORKFLOW)
class OneActivityMoreLater(BugInvestigationWorkflow):
    """Follows the recorded commands for a while."""

    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)

    async def store_messages(self) -> None:
        """Diverges from the second batch on: the first is stored as the run opens."""
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
    """The same change as `OneActivityMore`, made correctly."""

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


@workflow.defn(name=BUG_WORKFLOW)
class Delayed(BugInvestigationWorkflow):
    """Runs until the SDK interrupts it, once for each of `blocked`."""

    blocked: ClassVar[list[bool]] = []

    @workflow.init
    def __init__(self, state: BugState) -> None:
        if self.blocked:
            self.blocked.pop()
            while True:
                pass
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)
