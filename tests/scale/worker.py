"""The product's workers with a scripted agent: `python -m tests.scale.worker core ADDRESS`, or
`agents`.

Everything else is as in `threadline worker`. ADDRESS serves Temporal's metrics in Prometheus'
form.
"""

import sys

from temporalio.runtime import PrometheusConfig, Runtime, TelemetryConfig

from tests.chaos import scripted
from tests.chaos.worker import _replace, serve
from threadline.cases.model import Action
from threadline.wiring import workers

OPEN_ENDS = {Action.POST_FINDINGS: 80, Action.ASK_REPORTER: 20}
"""Shares of the turns' results: after either, the case stays open."""

if __name__ == "__main__":
    for address in sys.argv[2:]:
        Runtime.set_default(
            Runtime(telemetry=TelemetryConfig(metrics=PrometheusConfig(bind_address=address)))
        )
    _replace(scripted, _ACTIONS=OPEN_ENDS)
    _replace(workers, agent_activities=scripted.scripted_activities)
    serve(sys.argv[1])
