"""`threadline worker --queue core` with the workflow that stores one by one: `-m
bench.parts.one_by_one_worker`.
"""

from functools import partial

from bench.parts.one_by_one import OneByOne
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.cli import process
from threadline.wiring import workers
from threadline.wiring.temporal import WORKFLOWS

if __name__ == "__main__":
    others = [each for each in WORKFLOWS if each is not BugInvestigationWorkflow]
    vars(workers).update(WORKFLOWS=(OneByOne, *others))
    process.run_service(partial(workers.run_worker, "core"))
