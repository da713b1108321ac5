"""The sweeps of all features: they start missing workflows of records in Postgres, and post
missing results.
"""

import time

import structlog

from threadline.approvals.contract import approval_start
from threadline.approvals.model import ProposedAction
from threadline.approvals.store import ApprovalStore
from threadline.cases.contract import case_start, clock_start
from threadline.cases.posts import CaseChannels, LiveCasePostActivities
from threadline.cases.store.lists import CaseLists, MissingAnswer, OpenCase, OpenEscalation
from threadline.conversations.contract import conversation_start
from threadline.conversations.store.conversation import ConversationStore, WaitingConversation
from threadline.handovers.contract import handover_start
from threadline.handovers.store import HandoverAnswerStore, UnfinishedHandover
from threadline.jobs.model import AgentJob, JobRunner
from threadline.jobs.store import JobStore
from threadline.threads.fault_store import FaultStore, InstallationFault
from threadline.threads.faults import InstallationFaults
from threadline.threads.sweep import Sweep, WorkflowSweeps
from threadline.threads.workflow_client import WorkflowStart

_log = structlog.get_logger(__name__)


def open_cases(workflow_sweeps: WorkflowSweeps) -> Sweep[OpenCase]:
    return workflow_sweeps.sweep(
        "cases",
        lambda tx, *page: CaseLists(tx).open_cases(*page),
        lambda case: case_start(case.thread),
    )


def sla_clocks(workflow_sweeps: WorkflowSweeps, channels: CaseChannels) -> Sweep[OpenEscalation]:
    """Start missing clocks. A clock counts from the moment of the escalation; its posts have keys,
    so none appears twice.
    """

    def start_of(item: OpenEscalation) -> WorkflowStart:
        escalation = channels.escalation(item.bug_id, item.number, item.severity, item.started)
        return clock_start(escalation, acknowledged=item.acknowledged)

    return workflow_sweeps.sweep(
        "SLA clocks",
        lambda tx, *page: CaseLists(tx).open_escalations(*page),
        start_of,
        restart_completed=False,
    )


def missing_answers(posts: LiveCasePostActivities) -> Sweep[MissingAnswer]:
    """Post answers that no workflow is about to post. Each post has a key, so an answer that was
    posted in the meantime is not posted twice.
    """
    return Sweep("missing answers", posts.find_missing, posts.post_missing, waits_for_slack=True)


def waiting_conversations(
    workflow_sweeps: WorkflowSweeps, idle_timeout: float
) -> Sweep[WaitingConversation]:
    """Start missing workflows of conversations with pending work.

    Args:
        idle_timeout: seconds of silence after which a run ends.
    """
    return workflow_sweeps.sweep(
        "conversations",
        lambda tx, after, limit: ConversationStore(tx).waiting_conversations(
            after, limit, idle_timeout
        ),
        lambda conversation: conversation_start(conversation.thread),
    )


def open_handovers(workflow_sweeps: WorkflowSweeps) -> Sweep[UnfinishedHandover]:
    return workflow_sweeps.sweep(
        "handovers",
        lambda tx, *page: HandoverAnswerStore(tx).unfinished_handovers(*page),
        lambda it: handover_start(it.ref),
    )


def open_approvals(workflow_sweeps: WorkflowSweeps) -> Sweep[ProposedAction]:
    """Start missing workflows of undecided actions, and of approved ones without a posted outcome.
    Otherwise only a click starts such a workflow again.

    The record of executions prevents a second execution. An outcome that Slack refuses is tried
    again for a day.
    """
    return workflow_sweeps.sweep(
        "approvals",
        lambda tx, *page: ApprovalStore(tx).unfinished_after(*page),
        lambda action: approval_start(action.team, action.action_id),
    )


def untold_faults(faults: InstallationFaults) -> Sweep[InstallationFault]:
    """Notify the admin of faults of the installation, and of their ends, that were not reported
    yet.
    """
    return Sweep(
        "faults",
        lambda tx, after, limit: FaultStore(tx).untold_after(after, limit, time.time()),
        faults.tell,
        waits_for_slack=True,
    )


def open_jobs(runner: JobRunner) -> Sweep[AgentJob]:
    """Start jobs without a workflow or, for a cron, without a schedule. Temporal's list does not
    show schedules.
    """

    async def start(job: AgentJob) -> bool:
        """Start a job without a workflow. If the job has ended in the meantime, its workflow
        notices that and ends.
        """
        if (await runner.describe(job)).exists:
            return False
        await runner.start(job)
        _log.warning("workflow_restarted", sweep="jobs", workflow_id=job.workflow_id)
        return True

    return Sweep(
        "jobs",
        lambda tx, *page: JobStore(tx).open_jobs(*page),
        start,
        workflow_id=lambda job: job.workflow_id,
    )
