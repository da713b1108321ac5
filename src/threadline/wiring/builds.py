"""Doctor's check of worker versioning: Temporal only gives work to the current and the ramping
build.
"""

from collections.abc import Collection, Sequence

from temporalio.api.deployment.v1 import WorkerDeploymentVersion
from temporalio.api.enums.v1 import WorkerDeploymentVersionStatus, WorkerVersioningMode
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueueVersioningInfo
from temporalio.api.workflowservice.v1 import DescribeWorkerDeploymentVersionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

Build = tuple[str, str]
"""Name of the deployment, and id of the build. Two empty strings mean a worker, or work, without a
version.
"""

UNVERSIONED: Build = ("", "")
_VERSIONED = WorkerVersioningMode.WORKER_VERSIONING_MODE_VERSIONED
_NEVER_CURRENT = (
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_CREATED,
    WorkerDeploymentVersionStatus.WORKER_DEPLOYMENT_VERSION_STATUS_INACTIVE,
)


def targets_of(info: TaskQueueVersioningInfo) -> set[Build]:
    """Return the builds that get a queue's work."""
    targets = {_build(info.current_deployment_version)}
    if info.ramping_version_percentage > 0:
        targets.add(_build(info.ramping_deployment_version))
    return targets


def served_by(pollers: Sequence[PollerInfo]) -> set[Build]:
    """Return the builds whose workers poll a queue."""
    options = [poller.deployment_options for poller in pollers]
    return {
        (each.deployment_name, each.build_id)
        if each.worker_versioning_mode == _VERSIONED
        else UNVERSIONED
        for each in options
    }


def build_faults(queue: str, targets: Collection[Build], served: Collection[Build]) -> list[str]:
    """Return a sentence for each build that should get work and has no worker, or has a worker and
    gets none.
    """
    faults = []
    for name, build in sorted(set(targets) - set(served) - {UNVERSIONED}):
        faults.append(
            f"Temporal sends work of {queue!r} to build {build!r} of {name!r}, which no worker "
            "runs: start it, or set a running build as the current one (docs/deploying.md)."
        )
    for name, build in sorted(set(served) - set(targets)):
        if (name, build) == UNVERSIONED:
            faults.append(
                f"A worker without THREADLINE_BUILD_ID serves {queue!r} but gets no work, because "
                "Temporal sends all work to a build: stop the worker, or give it that build's "
                "name. One that was just stopped is listed for 90 s more."
            )
            continue
        why = "another build is" if set(targets) - {UNVERSIONED} else "no build is"
        faults.append(
            f"Build {build!r} serves {queue!r} but gets no work, because {why} the current one: "
            f"run `temporal worker deployment set-current-version --deployment-name {name} "
            f"--build-id {build}`, or stop its worker."
        )
    return faults


def own_build_fault(own: Build, targets: Collection[Build]) -> str:
    """Return a sentence when the settings name a build that gets no work; empty otherwise."""
    if own == UNVERSIONED or own in targets:
        return ""
    return (
        f"THREADLINE_BUILD_ID is {own[1]!r} here, and Temporal gives that build no work: make "
        "it the current one, or correct the setting (docs/deploying.md)."
    )


async def without_replaced(
    client: Client, served: Collection[Build], targets: Collection[Build]
) -> set[Build]:
    """Return the served builds without those that had work and were replaced: their workers need
    not stop at once.
    """
    kept = set(served)
    for build in kept - set(targets) - {UNVERSIONED}:
        request = DescribeWorkerDeploymentVersionRequest(
            namespace=client.namespace, version=f"{build[0]}.{build[1]}"
        )
        try:
            found = await client.workflow_service.describe_worker_deployment_version(request)
        except RPCError as error:
            if error.status is not RPCStatusCode.NOT_FOUND:
                raise
            continue  # its worker has just begun to poll
        if found.worker_deployment_version_info.status not in _NEVER_CURRENT:
            kept.discard(build)
    return kept


def _build(version: WorkerDeploymentVersion) -> Build:
    return version.deployment_name, version.build_id
