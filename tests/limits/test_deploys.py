"""Newer code meets cases that older code began: gates, and builds that replace one another."""

from contextlib import AsyncExitStack

import pytest
from temporalio import workflow
from temporalio.api.enums.v1 import VersionDrainageStatus
from temporalio.api.workflowservice.v1 import (
    DescribeWorkerDeploymentVersionRequest,
    SetWorkerDeploymentCurrentVersionRequest,
)
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError

from tests.limits.scene import LoadScene, connected, laid_out
from tests.replay import diverging
from threadline.cases.store.lists import CaseLists
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.slack.model import Thread
from threadline.wiring import doctor, temporal
from threadline.wiring.temporal import WORKFLOWS
from threadline.wiring.workers import deployment_config

NAME = "threadline"
SOON = (
    'matching.wv.VersionDrainageStatusVisibilityGracePeriod="1s"',
    'matching.wv.VersionDrainageStatusRefreshInterval="1s"',
)
"""By default the server checks after three minutes whether a build has drained."""


def _with(changed: type) -> list[type]:
    return [changed, *(each for each in WORKFLOWS if each is not BugInvestigationWorkflow)]


async def _begun(ground: LoadScene) -> Thread:
    """A case that today's code has begun, whose worker is gone."""
    thread = ground.thread()
    async with ground.working():
        await ground.deliver(thread, ground.report(thread))
        # At rest: a post interrupted by the end of its worker is looked for only after most of a
        # minute.
        await ground.until(lambda: _rests(ground), "the findings are posted")
    return thread


async def _rests(ground: LoadScene) -> bool:
    async with ground.database.begin() as tx:
        return [case.status for case in await CaseLists(tx).list()] == ["pending_verification"]


async def test_a_case_goes_on_under_newer_code_whose_change_is_gated(ground: LoadScene) -> None:
    thread = await _begun(ground)
    async with ground.working(workflows=_with(diverging.OneActivityMoreBehindAGate)):
        await ground.deliver(thread, ground.message(thread, 1, "any news?"))
        await ground.until_stored()
        assert await ground.faults() == []


async def test_a_case_stops_under_newer_code_whose_change_is_not_gated_and_goes_on_when_it_is(
    ground: LoadScene,
) -> None:
    thread = await _begun(ground)

    async def refused() -> bool:
        return (await ground.task_failures())["NON_DETERMINISTIC_ERROR"] > 0

    async with ground.working(workflows=_with(diverging.OneActivityMore)):
        await ground.deliver(thread, ground.message(thread, 1, "any news?"))
        await ground.until(refused, "the newer code is refused")
    async with ground.working(workflows=_with(diverging.OneActivityMoreBehindAGate)):
        await ground.until_stored(60)
        assert await ground.lost() == []


async def _make_current(ground: LoadScene, build: str) -> None:
    request = SetWorkerDeploymentCurrentVersionRequest(
        namespace=ground.client.namespace, deployment_name=NAME, build_id=build, identity="deploy"
    )

    async def made() -> bool:
        try:
            await ground.client.workflow_service.set_worker_deployment_current_version(request)
        except RPCError:  # its worker has not polled yet
            return False
        return True

    await ground.until(made, f"build {build} is current")


async def _build_of(handle: WorkflowHandle[object, object]) -> str:
    info = (await handle.describe()).raw_description.workflow_execution_info
    return info.versioning_info.deployment_version.build_id


async def test_a_new_build_takes_over_the_open_cases_and_the_old_one_drains(
    database: Database, agent_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with laid_out(database, agent_database, *SOON) as ground, AsyncExitStack() as old:
        thread = ground.thread()
        await ground.deliver(thread, ground.report(thread))
        await old.enter_async_context(ground.working(deployment=deployment_config(NAME, "1")))
        await _until_advised(
            ground, "set-current-version --deployment-name threadline --build-id 1"
        )
        await _make_current(ground, "1")
        await ground.until_stored()
        assert await _build_of(ground.handle(thread)) == "1"
        another = await connected(ground.client.service_client.config.target_host)
        async with ground.working(client=another, deployment=deployment_config(NAME, "2")):
            await _make_current(ground, "2")
            await ground.until(lambda: _drained(ground, "1"), "build 1 has drained")
            await old.aclose()
            await ground.deliver(thread, ground.message(thread, 1, "any news?"))
            await ground.until_stored()
            assert await _build_of(ground.handle(thread)) == "2"
            assert await doctor.check_task_queues(ground.client, idle) == "both queues are served"
            assert await ground.faults() == []


async def idle() -> bool:
    """No agent worker holds a turn."""
    return False


async def _drained(ground: LoadScene, build: str) -> bool:
    found = await ground.client.workflow_service.describe_worker_deployment_version(
        DescribeWorkerDeploymentVersionRequest(
            namespace=ground.client.namespace, version=f"{NAME}.{build}"
        )
    )
    status = found.worker_deployment_version_info.drainage_info.status
    return status == VersionDrainageStatus.VERSION_DRAINAGE_STATUS_DRAINED


async def _until_advised(ground: LoadScene, words: str) -> None:
    async def advised() -> bool:
        try:
            await doctor.check_task_queues(ground.client, idle)
        except Permanent as advice:
            return words in str(advice)
        return False

    await ground.until(advised, f"doctor says {words!r}")


async def test_doctor_names_an_unserved_queue(
    ground: LoadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _until_advised(
        ground, "No worker serves the queue 'threadline': start `threadline worker --queue core`"
    )

    async def served() -> bool:
        try:
            return bool(await doctor.check_task_queues(ground.client, idle))
        except Permanent:
            return False

    async with ground.working():
        await ground.until(served, "both queues are served")
    # The server still lists the pollers of a worker that has gone, for five minutes.
    monkeypatch.setattr(temporal, "POLLER_TIMEOUT", 1.0)
    await _until_advised(ground, "No worker serves the queue")


async def test_doctor_names_open_workflows_on_an_unserved_queue(
    ground: LoadScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "_SHOWN", len(WORKFLOWS))
    assert (await doctor.check_open_workflows(ground.client)).startswith("0, each")
    names = {str(workflow._Definition.must_from_class(each).name) for each in WORKFLOWS}
    for name in names:
        await ground.client.start_workflow(name, id=f"{name}:lost", task_queue="threadline-old")

    async def named() -> bool:
        try:
            await doctor.check_open_workflows(ground.client)
        except Permanent as advice:
            return all(f"{name}:lost on 'threadline-old'" in str(advice) for name in names)
        return False

    await ground.until(named, "the forgotten workflows are named")
