"""Gates: threads that began before a change keep their old commands."""

import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.replay import diverging, histories
from tests.support.temporal import sandbox_runner
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.wiring.temporal import WORKFLOWS


@pytest.mark.slow
async def test_older_histories_replay_only_under_a_gated_change() -> None:
    runs = [histories.read(file) for file in histories.files_of(BugInvestigationWorkflow.__name__)]
    kept = [each for each in WORKFLOWS if each is not BugInvestigationWorkflow]
    diverged: dict[str, int] = {}
    for changed in (diverging.OneActivityMore, diverging.OneActivityMoreBehindAGate):
        judge = Replayer(
            workflows=[changed, *kept],
            data_converter=pydantic_data_converter,
            workflow_runner=sandbox_runner(),
        )
        results = [await judge.replay_workflow(run, raise_on_replay_failure=False) for run in runs]
        diverged[changed.__name__] = sum(result.replay_failure is not None for result in results)
    assert diverged["OneActivityMore"] > 10
    assert diverged["OneActivityMoreBehindAGate"] == 0
