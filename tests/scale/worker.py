"""The product's workers with a scripted agent: `python -m tests.scale.worker core|agents ADDRESS`.

Nothing else differs from `threadline worker`. Temporal's metrics are served at ADDRESS in Prometheus' form.
"""

import sys
from functools import partial

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from tests.chaos import scripted
from tests.chaos.worker import _replace
from threadline.cases.model import Action
from threadline.cli import process
from threadline.cli.main import exit_now
from threadline.errors import Permanent, Transient
from threadline.wiring import workers

OPEN_ENDS = {Action.POST_FINDINGS: 80, Action.ASK_REPORTER: 20}
"""Shares of what turns end with: after either, the case stays open."""


def main(queue: str, address: str) -> None:
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=address))))
    _replace(scripted, _ACTIONS=OPEN_ENDS)
    _replace(workers, agent_activities=scripted.scripted_activities)
    try:
        process.run_service(partial(workers.run_worker, queue), fast=queue == "core")
    except (Permanent, Transient) as error:
        sys.stderr.write(f"{error}\n")
        exit_now(1)
    exit_now(0)


if __name__ == "__main__":
    main(*sys.argv[1:3])
