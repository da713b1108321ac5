"""The workflow of the source design, which stores each message by a separate activity, and is
otherwise the same.

A burst is one turn here as well: a workflow that stores one by one may also wait for the last
message.
"""

from temporalio import workflow

from threadline.cases.model import BUG_WORKFLOW, BugState
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.threads import inbox, run_loop

inbox.MAX_MESSAGES = 1
run_loop.MAX_BURST = 1000


@workflow.defn(name=BUG_WORKFLOW)
class OneByOne(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)
