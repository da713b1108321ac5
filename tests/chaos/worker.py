"""The product's workers with short waits: `python -m tests.chaos.worker core|agents|scripted`.

They run as `threadline worker` does, but wait for shorter times after a crash, and fail at the
rates of `FaultRates`.
"""

import asyncio
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from temporalio import activity
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput

from tests.chaos.plan import seeded_random
from tests.chaos.scripted import FaultRates, scripted_activities, scripted_chat
from threadline.cases import contract
from threadline.cases import posts as case_posts
from threadline.cli import process
from threadline.cli.main import exit_now
from threadline.conversations import turn as conversation_turn
from threadline.errors import Permanent, Transient
from threadline.handovers import workflow as handover_workflow
from threadline.investigator import activities as turns
from threadline.slack import client, history
from threadline.threads import absence_store, fault_store, outbox, queues
from threadline.threads import model as thread_model
from threadline.threads.activity import ErrorInterceptor
from threadline.threads.activity_options import activity_options, options_by_name, options_of
from threadline.threads.catch_up import LiveCatchUpActivities
from threadline.wiring import agent_worker as agents
from threadline.wiring import cases, conversations, threads, workers
from threadline.wiring.temporal import CONTRACTS

EVENTS = 40
"""Events after which a run continues as new: every other turn."""
LOSSY = {name for name, each in options_by_name(*CONTRACTS).items() if each.never_gives_up} | {
    "think",
    "act",
    "post_answer",
}
"""Activities whose results are delayed and lost: those that never give up, and those that must run
at most once.
"""

TURNS = ("run_agent_investigation", "run_continuation_investigation")
"""Their options depend on the case's limits: see `agent_turn_options`."""

HEARTBEAT = 3.0
"""An attempt without a heartbeat for this long is taken for dead before its time is over."""
CALL = 3.0
ATTEMPT = 5.0
RESEND = 6.0
"""A call to Slack ends within the first, an activity's attempt within the second. A post is not
sent again before the third: its message is in Slack by then, since the sandbox stores it at once.
"""
SETTLE_TIME = 2.5
"""Messages older than this should be stored. If one is not, it is signalled twice."""
ANSWER_GRACE = 20.0
"""The sweep posts answers that finished earlier than this and were not posted."""


MENDING: dict[str, Any] = {"FIRST_MENDING_DELAY": 0.5, "LONGEST_MENDING_DELAY": 2.0}
"""Seconds between two attempts at anything that waits for the admin. A replay needs the same
values.
"""
POLLER_TIMEOUT = 12.0
"""A worker that has not polled for this long is taken for gone: see `SHORT_POLLS`."""
FAULT_SETTLED = 5.0
"""Seconds after a fault's end within which a recurrence is the same fault. After that the admin is
told that it is over.
"""


def shorten_waits() -> None:
    """Shorten the product's waits in this process together, so that their order is preserved."""
    for name, given in options_by_name(*CONTRACTS).items():
        if name not in TURNS:
            heartbeat = min(given.heartbeat, HEARTBEAT) if given.heartbeat else given.heartbeat
            _set_options(
                name, start_to_close=min(given.start_to_close, ATTEMPT), heartbeat=heartbeat
            )
    for name in (
        "read_history_page",
        "compare_threads",
        "sweep",
    ):  # else they would wait a minute after the last fault
        _set_retry(name, maximum_interval=timedelta(seconds=2))
    # An outage of seconds counts as a long one, for which the workflow waits as well.
    _set_retry("think", initial_interval=timedelta(seconds=0.5), maximum_attempts=2)
    _replace(conversation_turn, FIRST_WAIT=1.0, LONGEST_WAIT=2.0)
    _replace(handover_workflow, SEND_AGAIN=2.0)
    contract.AGENT_TURN = replace(contract.AGENT_TURN, heartbeat=4.0)
    _replace(outbox, RESEND_AFTER=RESEND, RESEND_ROOT_AFTER=RESEND)
    _replace(client, CALL_TIMEOUT=CALL)
    turns.LEASE = 8.0
    turns.RENEW_INTERVAL = 1.0
    turns.COST_WAIT = 2.0
    thread_model.FIRST_DELAY = 0.5
    thread_model.LONGEST_DELAY = 2.0
    _replace(thread_model, **MENDING)
    _replace(queues, POLLER_TIMEOUT=POLLER_TIMEOUT)
    _replace(fault_store, SETTLED=FAULT_SETTLED)
    _replace(workers, REFRESH_INTERVAL=2.0)
    workers.GRACE = 3
    agents.SWEEP = 5.0
    case_posts.ANSWER_GRACE = ANSWER_GRACE
    _replace(
        absence_store, PERIOD=20.0
    )  # else the deletions of many runs would add up to a workspace that forgets
    _replace(
        threads, LiveCatchUpActivities=partial(LiveCatchUpActivities, settle_time=SETTLE_TIME)
    )
    # A catch-up every ten minutes stays within Slack's limit, one every 4 s does not.
    _replace(history, BURST=1000.0, PER_SECOND=500.0)


def _replace(module: ModuleType, **values: Any) -> None:
    """Set variables of a module; fail if one was renamed, which would silently keep the product's
    own value.
    """
    if unknown := values.keys() - vars(module).keys():
        raise LookupError(f"{module.__name__} has no {', '.join(sorted(unknown))}")
    vars(module).update(values)


def _set_retry(activity_name: str, **changes: Any) -> None:
    _set_options(activity_name, retry=replace(options_of(_method(activity_name)).retry, **changes))


def _set_options(activity_name: str, **changes: Any) -> None:
    method = _method(activity_name)
    activity_options(replace(options_of(method), **changes))(method)


def _method(activity_name: str) -> Callable[..., Any]:
    (contract_class,) = (each for each in CONTRACTS if hasattr(each, activity_name))
    method: Callable[..., Any] = getattr(contract_class, activity_name)
    return method


class _LossyErrors(ErrorInterceptor):
    """Runs inside the product's own interceptor, which turns the error raised here into
    Temporal's.
    """

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return super().intercept_activity(_LateAndLost(next))


class _LateAndLost(ActivityInboundInterceptor):
    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        result = await super().execute_activity(input)
        if activity.info().activity_type in LOSSY:
            rates = FaultRates.read(Path(os.environ["THREADLINE_HOME"]))
            random = seeded_random(activity.info().activity_id + str(time.time()))
            await asyncio.sleep(random.uniform(0, rates.result_delay))
            if random.random() < rates.result_lost:
                raise Transient("the answer was lost after its commit")
        return result


def main(part: str) -> None:
    shorten_waits()
    case_limits = cases._case_limits
    conversation_limits = conversations._conversation_limits
    _replace(workers, ErrorInterceptor=_LossyErrors)
    _replace(
        cases,
        _case_limits=lambda *settings: replace(case_limits(*settings), max_history_events=EVENTS),
    )
    _replace(
        conversations,
        _model=scripted_chat,
        _conversation_limits=lambda settings: replace(
            conversation_limits(settings), max_history_events=EVENTS
        ),
    )
    if part == "scripted":
        _replace(workers, agent_activities=scripted_activities)
    serve("core" if part == "core" else "agents")


def serve(queue: str) -> None:
    """Work until a signal stops this process, then end it."""
    try:
        process.run_service(partial(workers.run_worker, queue), fast=queue == "core")
    except (Permanent, Transient) as error:
        sys.stderr.write(f"{error}\n")
        exit_now(1)
    exit_now(0)


if __name__ == "__main__":
    main(sys.argv[1])
