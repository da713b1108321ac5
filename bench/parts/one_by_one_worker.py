"""`threadline worker --queue core` with the workflow that stores one by one: `-m bench.parts.one_by_one_worker`."""

from functools import partial

from bench.parts.one_by_one import OneByOne
from threadline.bootstrap import workers
from threadline.bootstrap.temporal import WORKFLOWS
from threadline.cli import stopping
from threadline.workflows.bug_investigation import BugInvestigationWorkflow

if __name__ == "__main__":
    others = [each for each in WORKFLOWS if each is not BugInvestigationWorkflow]
    vars(workers).update(WORKFLOWS=(OneByOne, *others))
    stopping.serve(partial(workers.run_worker, "core"))
