"""The product's workers in a hurry: `python -m tests.chaos.product core|agents|scripted`, as `threadline worker` is.

They are the product's own processes but for the times that are waited for after a crash, which are shorter, and for
what the file `chaos.json` in THREADLINE_HOME asks them to suffer; it is read again and again.
"""

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, WorkflowRunner
from temporalio.worker.workflow_sandbox import SandboxedWorkflowRunner

from tests.chaos.hurry import hurry
from tests.chaos.plan import dice_of
from tests.chaos.scripted import scripted_activities
from tests.chaos.scripted_chat import scripted_chat
from threadline.cli import process as stopping
from threadline.cli.main import leave
from threadline.errors import Permanent, Transient
from threadline.threads import activity_options as options
from threadline.threads.activity_errors import FaultInterceptor
from threadline.wiring import conversations, temporal, workers
from threadline.wiring import core_worker as core

FILE = "chaos.json"

EVENTS = 40
"""Continue as new comes every other turn."""
LOSSY = options.NEVER_GIVE_UP | {"think", "act", "post_answer"}
"""Activities whose results are late and lost: those that may not give up, and those that must not do a thing twice."""


@dataclass(frozen=True)
class Suffering:
    """What the core worker suffers: shares of results that are late (up to `late` seconds) and lost after commit."""

    late: float = 0.0
    lost: float = 0.0

    @classmethod
    def now(cls) -> "Suffering":
        told = json.loads((Path(os.environ["THREADLINE_HOME"]) / FILE).read_text())
        return cls(**told.get("core", {}))


class _LossyFaults(FaultInterceptor):
    """Inside the product's own interceptor, so that what is raised here becomes Temporal's error in its words."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return super().intercept_activity(_LateAndLost(next))


class _LateAndLost(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        result = await super().execute_activity(input)
        if activity.info().activity_type in LOSSY:
            suffering, dice = Suffering.now(), dice_of(activity.info().activity_id + str(time.time()))
            await asyncio.sleep(dice.uniform(0, suffering.late))
            if dice.random() < suffering.lost:
                raise Transient("the answer was lost after its commit")
        return result


def _runner() -> WorkflowRunner:
    """As the product's, but that a conversation waits as `hurry` says: each workflow would load the module anew."""
    usual = temporal.workflow_runner()
    assert isinstance(usual, SandboxedWorkflowRunner)
    waits = usual.restrictions.with_passthrough_modules("threadline.conversations.turn")
    return SandboxedWorkflowRunner(restrictions=waits)


def main(part: str) -> None:
    hurry()
    limits, talk_limits = core._limits, conversations._limits
    vars(workers).update(
        FaultInterceptor=_LossyFaults,
        workflow_runner=_runner,
    )
    vars(core).update(_limits=lambda case: replace(limits(case), history_events=EVENTS))
    vars(conversations).update(
        _model=scripted_chat,
        _limits=lambda talk: replace(talk_limits(talk), history_events=EVENTS),
    )
    if part == "scripted":
        vars(workers).update(agent_activities=scripted_activities)
    queue = "core" if part == "core" else "agents"
    try:
        stopping.serve(partial(workers.run_worker, queue), fast=queue == "core")
    except (Permanent, Transient) as error:
        sys.stderr.write(f"{error}\n")
        leave(1)
    leave(0)


if __name__ == "__main__":
    main(sys.argv[1])
