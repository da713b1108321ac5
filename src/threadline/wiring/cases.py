"""Bug cases: their activities and sweeps."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from threadline.cases.activities import LiveCaseActivities
from threadline.cases.model import CaseLimits
from threadline.cases.posts import LiveCasePostActivities
from threadline.forge import remotes
from threadline.forge.pull_requests import PullRequests
from threadline.settings import (
    CaseSettings,
    QueueSettings,
)
from threadline.threads.queues import is_served
from threadline.threads.sweep import Sweep, WorkflowSweeps
from threadline.wiring import sweeps
from threadline.wiring.core import CoreDeps
from threadline.wiring.core_settings import CoreSettings

CaseParts = tuple[Sequence[object], Sequence[Sweep[Any]]]
"""Objects with activities, and sweeps."""


def configured_cases(settings: CoreSettings, deps: CoreDeps) -> CaseParts:
    """Return the activities of bug cases and their sweeps, as the settings say."""
    repositories = remotes.repositories_by_name(settings.repository.repo)
    pull_requests = PullRequests(repositories, settings.forge.token, settings.forge.api_url)
    return cases(deps, _case_limits(settings.case, settings.queues), pull_requests)


def cases(deps: CoreDeps, limits: CaseLimits, pull_requests: PullRequests) -> CaseParts:
    """Return the activities of bug cases, and their sweeps."""
    database = deps.database
    channels = deps.case_channels
    workflow_sweeps = WorkflowSweeps(database, deps.workflows)
    posts = LiveCasePostActivities(database, deps.outbox, channels)
    live = LiveCaseActivities(
        database,
        deps.slack,
        posts,
        pull_requests,
        limits=limits,
        bot_user=channels.bot_user,
        authors=deps.authors,
        report_fault=deps.faults.report,
        has_worker=partial(is_served, deps.temporal),
    )
    return (live, posts), (
        sweeps.open_cases(workflow_sweeps),
        sweeps.sla_clocks(workflow_sweeps, channels),
        sweeps.missing_answers(posts),
    )


def _case_limits(case: CaseSettings, queues: QueueSettings) -> CaseLimits:
    return CaseLimits(
        reporter_timeout=case.reporter_timeout,
        developer_timeout=case.developer_timeout,
        turn_timeout=case.turn_timeout,
        max_questions=case.max_questions,
        turn_budget_usd=case.turn_budget_usd,
        case_budget_usd=case.case_budget_usd,
        pull_request_poll=case.pull_request_poll,
        worker_patience=queues.worker_patience,
    )
