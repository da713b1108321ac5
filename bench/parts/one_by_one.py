"""The core worker as the source design has it, each message stored by an activity of its own, and all else the same.

`python -m bench.parts.one_by_one`, with the settings of `threadline worker --queue core`. A burst is one turn here as
well: whoever stores one by one may wait for the last one, too.
"""

from functools import partial

from temporalio import workflow

from threadline.bootstrap import workers
from threadline.bootstrap.temporal import WORKFLOWS
from threadline.cli import stopping
from threadline.domain import addressing
from threadline.domain.bug import BugState
from threadline.workflows import bug_investigation, inbox
from threadline.workflows.bug_investigation import BugInvestigationWorkflow

# In the sandbox as well, which imports this module and what it names anew.
inbox.MAX_MESSAGES = 1
bug_investigation.GATHERS = 1000


@workflow.defn(name=addressing.BUG_WORKFLOW)
class OneByOne(BugInvestigationWorkflow):
    @workflow.init
    def __init__(self, state: BugState) -> None:
        super().__init__(state)

    @workflow.run
    async def run(self, state: BugState) -> str:
        return await super().run(state)


def main() -> None:
    from bench.parts.one_by_one import OneByOne as Named  # the sandbox cannot import `__main__`

    others = [each for each in WORKFLOWS if each is not BugInvestigationWorkflow]
    vars(workers).update(WORKFLOWS=(Named, *others))
    stopping.serve(partial(workers.run_worker, "core"))


if __name__ == "__main__":
    main()
