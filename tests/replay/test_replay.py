"""Whatever the workflows have decided, they decide again: finished runs of every path, replayed.

A failure here means that threads in flight would be wedged by a deploy. Do not record anew to make it pass: put the
change behind a gate, `workflow.patched(...)`, in `src/threadline/threads/patches.py` (the first gate creates the
file; each names the date on which it may go). The histories of a path that is new are recorded with

    THREADLINE_RECORD_HISTORIES=1 pytest tests/replay -k "recorded and <path>"

and those of all paths only while no thread of any released version can still be running.
"""

import os
import re
from pathlib import Path

import asyncpg
import pytest
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.approvals.approval_scene import make_desk, make_talk
from tests.approvals.test_approval_workflow import MakeHouse, make_house
from tests.handovers.test_handover_workflow import House as HandoverHouse
from tests.handovers.test_handover_workflow import handover_house
from tests.jobs.job_scene import jobbing
from tests.replay import diverging, histories, later_paths, operator_paths  # noqa: F401 - their paths list themselves
from tests.replay.approval_paths import APPROVALS, ApprovalPath, ApprovalStage
from tests.replay.conversation_paths import TALKS, TalkPath, TalkStage
from tests.replay.decision_paths import HANDOVERS, HandoverPath, HandoverStage
from tests.replay.job_paths import JOBS, JobPath, JobStage
from tests.replay.paths import PATHS
from tests.replay.paths import Path as PlayedPath
from tests.replay.stage import SHOP, Stage, shop
from tests.support.case_scene import house
from tests.support.conversation_scene import conversation
from tests.support.temporal import real_time, skipping_time
from threadline.cases.model import Limits
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.db.engine import Database
from threadline.wiring.temporal import WORKFLOWS, replayer, workflow_runner

__all__ = ["handover_house", "make_desk", "make_house", "make_talk"]

MAX_BYTES = 100_000
_OF_A_MACHINE = re.compile(r"(?<![\w:/.])/(?:[\w.-]+/)+|\d+@\w")
"""An absolute path, or a process on a host."""

AnyPath = PlayedPath | TalkPath | JobPath | ApprovalPath | HandoverPath
EVERY: list[AnyPath] = [*PATHS, *TALKS, *JOBS, *APPROVALS, *HANDOVERS]
every_path = pytest.mark.parametrize("path", EVERY, ids=lambda path: path.name)
on_demand = pytest.mark.skipif(
    os.environ.get("THREADLINE_RECORD_HISTORIES") != "1", reason="histories are recorded on demand alone"
)


@on_demand
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.name)
async def test_a_path_is_recorded_to_its_end(
    path: PlayedPath, database: Database, pool: asyncpg.Pool, tmp_path: Path
) -> None:
    repository = shop(tmp_path)
    server = skipping_time if path.limits.history_events == Limits().history_events else real_time
    async with house(database, pool, limits=path.limits, repositories={SHOP: str(repository)}, server=server) as home:
        stage = Stage(home, repository)
        await path.play(stage)
        histories.write(path.name, stage.runs)


@on_demand
@pytest.mark.parametrize("path", TALKS, ids=lambda path: path.name)
async def test_a_conversation_is_recorded_to_its_end(path: TalkPath, database: Database) -> None:
    async with conversation(database, limits=path.limits, server=path.server, decides=path.decides) as talk:
        stage = TalkStage(talk)
        await path.play(stage)
        histories.write(path.name, stage.runs)


@on_demand
@pytest.mark.parametrize("path", JOBS, ids=lambda path: path.name)
async def test_a_job_is_recorded_to_its_end(path: JobPath, database: Database) -> None:
    async with jobbing(database, path.server) as talk, talk.working():
        stage = JobStage(talk)
        await path.play(stage)
        histories.write(path.name, stage.runs)


@on_demand
@pytest.mark.parametrize("path", APPROVALS, ids=lambda path: path.name)
async def test_an_approval_is_recorded_to_its_end(path: ApprovalPath, make_house: MakeHouse) -> None:
    async with make_house(path.expiry, path.server) as house, house.working():
        stage = ApprovalStage(house)
        await path.play(stage)
        histories.write(path.name, stage.runs)


@on_demand
@pytest.mark.parametrize("path", HANDOVERS, ids=lambda path: path.name)
async def test_a_hand_over_is_recorded_to_its_end(path: HandoverPath, handover_house: HandoverHouse) -> None:
    handover_house.remind_every = path.remind_every
    async with handover_house.working():
        stage = HandoverStage(handover_house)
        await path.play(stage)
        histories.write(path.name, stage.runs)


@every_path
async def test_every_recorded_run_is_decided_again_as_it_was(path: AnyPath) -> None:
    runs = histories.files(path.name)
    assert runs, f"nothing is recorded of {path.name}; the top of this file says how that is done"
    for run in runs:
        await replayer().replay_workflow(histories.read(run))


@every_path
def test_a_recording_holds_what_its_path_is_about(path: AnyPath) -> None:
    told = {fact for run in histories.files(path.name) for fact in histories.facts(run)}
    missing = set(path.holds) - told
    assert not missing


@every_path
def test_a_recording_is_small_and_tells_nothing_of_the_machine(path: AnyPath) -> None:
    for run in histories.files(path.name):
        raw = run.read_text(encoding="utf-8")
        assert len(raw) < MAX_BYTES, run.name
        for text in (raw, *histories.payloads(histories.events(run))):
            assert not _OF_A_MACHINE.search(text), run.name


def test_there_is_no_recording_without_its_path() -> None:
    known = {file for path in EVERY for file in histories.files(path.name)}
    assert set(histories.FOLDER.iterdir()) == known


@pytest.mark.parametrize("changed", [diverging.OneActivityMore, diverging.AnotherOrder], ids=lambda each: each.__name__)
async def test_a_change_of_the_commands_does_not_replay(changed: type) -> None:
    workflows = [changed, *(each for each in WORKFLOWS if each is not BugInvestigationWorkflow)]
    careless = Replayer(workflows=workflows, data_converter=pydantic_data_converter, workflow_runner=workflow_runner())
    runs = [histories.read(run) for path in PATHS for run in histories.files(path.name)]
    results = [await careless.replay_workflow(run, raise_on_replay_failure=False) for run in runs]
    assert any("Nondeterminism" in repr(result.replay_failure) for result in results)
