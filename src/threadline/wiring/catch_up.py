"""The catch-up and the sweep put together: which channels are followed, every sweep, and the schedule of both."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

import structlog
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
    WorkflowExecutionStatus,
)
from temporalio.service import RPCError

from threadline.approvals.sweep import OpenApprovals
from threadline.cases.catch_up import CaseThreads
from threadline.cases.posts import CaseChannels, LiveCasePostActivities
from threadline.cases.store.sweeps import CaseSweepStore
from threadline.cases.sweep import MissingAnswers, OpenCases, SlaClocks
from threadline.conversations.catch_up import ConversationThreads
from threadline.conversations.sweep import OpenConversations
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.event_handling import Door
from threadline.gateway.routes import RoutingConfig
from threadline.handovers.catch_up import HandoverThreads
from threadline.handovers.sweep import OpenHandovers
from threadline.jobs.scheduling import PostgresJobs
from threadline.jobs.sweep import MissingJobWorkflows
from threadline.settings import CatchUpSettings, ChannelSettings, DatabaseSettings
from threadline.slack.client import Slack
from threadline.slack.history import History
from threadline.threads.catch_up import LiveCatchUpActivities, unstored_messages
from threadline.threads.catch_up_store import CatchUpStore, FollowedChannel
from threadline.threads.comparison import ThreadSource
from threadline.threads.contract import CATCH_UP_ID, LOOK_BACK, SWEEP_ID, SWEEP_WORKFLOW, SweepRequest
from threadline.threads.model import CORE_QUEUE
from threadline.threads.sweep import Sweep
from threadline.threads.workflow_client import WorkflowClient

_LATE = 3
"""Intervals after which the doctor reports a pass that has not ended."""
_SHOWN = 5

_log = structlog.get_logger(__name__)


def followed_channels(channels: ChannelSettings) -> list[str]:
    """The channels whose history is read in any case; without `conversation_channels` also wherever the bot is."""
    return [*case_channels(channels), *channels.conversation_channels]


def case_channels(channels: ChannelSettings) -> dict[str, bool]:
    """The channels of cases, with whether only threads that the bot opened count there."""
    by_bot = dict.fromkeys((channels.summaries_channel, channels.escalation), True)
    return {channels.reports_channel: False, **by_bot}


def thread_sources(bot_user_id: str) -> tuple[ThreadSource, ...]:
    """Every kind of thread that the catch-up compares; the first of a scope has the threads that nobody owns yet."""
    return CaseThreads(), HandoverThreads(), ConversationThreads(bot_user_id)


async def mark_installation(database: Database, team: str, channels: ChannelSettings) -> None:
    """Remember when each channel was first followed. Without a database the gateway serves all the same."""
    try:
        async with database.begin() as work:
            await CatchUpStore(work.tx, team).follow_channels(followed_channels(channels), time.time())
    except (Permanent, Transient) as error:
        _log.warning("channels_not_followed", reason=str(error), next="The core worker follows them at its start.")


def live_catch_up(
    database: Database, slack: Slack, dispatcher: Dispatcher, channels: ChannelSettings, identity: AsyncSlackResponse
) -> LiveCatchUpActivities:
    """`identity` is Slack's answer to `auth.test`."""
    routing = RoutingConfig(
        reports_channel=channels.reports_channel,
        summaries_channel=channels.summaries_channel,
        escalation_channel=channels.escalation_channel,
        bot_user_id=str(identity["user_id"]),
        bot_id=str(identity.get("bot_id") or ""),
        external_people=frozenset(channels.external_people),
    )
    return LiveCatchUpActivities(
        database,
        History(slack),
        Door(routing, dispatcher).pass_on,
        thread_sources(routing.bot_user_id),
        case_channels(channels),
        team=str(identity["team_id"]),
        bot_user_id=routing.bot_user_id,
        conversation_channels=channels.conversation_channels or None,
    )


def all_sweeps(
    database: Database,
    workflows: WorkflowClient,
    case_channels: CaseChannels,
    posts: LiveCasePostActivities,
    jobs: PostgresJobs,
    conversation_quiet: float,
) -> list[Sweep[Any]]:
    """Every sweep, in the order in which they run.

    Args:
        conversation_quiet: seconds of silence after which the run of a conversation ends.
    """
    return [
        OpenCases(database, workflows),
        SlaClocks(database, workflows, case_channels.targets, len(case_channels.tiers)),
        MissingAnswers(posts),
        OpenConversations(database, workflows, conversation_quiet),
        OpenHandovers(database, workflows),
        OpenApprovals(database, workflows),
        MissingJobWorkflows(jobs),
    ]


async def ensure_schedule(client: Client, interval: float, sweeps: Sequence[str]) -> None:
    """Make the schedule what the settings say, and start a sweep and a pass. A worker that may not still does
    everything else.

    Args:
        interval: seconds.
        sweeps: their names.
    """
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            SWEEP_WORKFLOW, SweepRequest(list(sweeps)), id=SWEEP_ID, task_queue=CORE_QUEUE
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=interval))]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=interval)),
    )

    def renewed(known: ScheduleUpdateInput) -> ScheduleUpdate:
        schedule.state = known.description.schedule.state  # an operator may have paused it
        return ScheduleUpdate(schedule)

    try:
        try:
            await client.create_schedule(CATCH_UP_ID, schedule, trigger_immediately=True)
        except ScheduleAlreadyRunningError:
            handle = client.get_schedule_handle(CATCH_UP_ID)
            await handle.update(renewed)
            await handle.trigger()
    except RPCError as error:
        _log.error("schedule_failed", reason=str(error), hint="Run `threadline doctor` to check it.")


async def check_sweep(client: Client, interval: float) -> str:
    """For the doctor. `interval`: of the schedule, in seconds.

    Raises:
        Permanent: no sweep has begun for long, or the last one to end gave up in part.
    """
    try:
        recent = (await client.get_schedule_handle(CATCH_UP_ID).describe()).info.recent_actions
        if not recent or time.time() - recent[-1].started_at.timestamp() > _LATE * interval + _LATE * 60:
            raise Permanent(
                f"No sweep has begun for {_LATE} intervals: in Temporal's UI, see whether the schedule {CATCH_UP_ID!r} "
                f"is paused, or the last workflow {SWEEP_ID!r} does not end."
            )
        for each in reversed(recent):
            if isinstance(each.action, ScheduleActionExecutionStartWorkflow):
                handle = client.get_workflow_handle(each.action.workflow_id)
                if (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED:
                    return _swept(each.action.workflow_id, str(await handle.result()))
    except RPCError as error:
        raise Permanent(f"Temporal did not report the sweep ({error.message}): is a core worker started?") from error
    return "the first one has begun"


def _swept(workflow_id: str, result: str) -> str:
    if "failed" in result or "not started" in result:
        raise Permanent(f"{workflow_id} ended with {result!r}: see its failed activities in Temporal's UI.")
    return f"the last one ended with {result!r}"


async def check_catch_up(team: str, bot_user_id: str) -> str:
    """For the doctor. `team` and `bot_user_id`: Slack's ids of the workspace and of the bot's user.

    Raises:
        Permanent: a channel cannot be read, no pass has ended for long, or something was found that stays undone.
    """
    channels, interval = ChannelSettings.read(), CatchUpSettings.read().interval
    database = Database(DatabaseSettings.read().url.get_secret_value(), pool_size=1, application="threadline-cli")
    try:
        async with database.begin() as work:
            store = CatchUpStore(work.tx, team)
            followed = {each.channel: each for each in await store.channels()}
            failed = await store.failed_threads(time.time() - LOOK_BACK, _SHOWN)
            unstored = await unstored_messages(work.tx, team, thread_sources(bot_user_id), _SHOWN)
            unsaid = await CaseSweepStore(work.tx).missing_answers(_LATE * interval, _SHOWN)
    finally:
        await database.dispose()
    _check_channels(followed, channels, interval)
    if failed:
        listed = ", ".join(f"{root} in {place} ({error})" for place, root, error in failed)
        raise Permanent(f"Threads could not be compared with what is stored: {listed}")
    if unstored:
        raise Permanent(f"Messages were sent to their workflows repeatedly and never stored: {', '.join(unstored)}.")
    if unsaid:
        listed = ", ".join(f"{each.bug_id} (turn {each.turn}: {each.kind})" for each in unsaid)
        raise Permanent(f"Results were never posted: {listed}. `threadline cases show` prints them.")
    return f"every channel is compared with what is stored, and nothing is owed; {_reach(followed, channels)}"


def _reach(followed: Mapping[str, FollowedChannel], channels: ChannelSettings) -> str:
    """Where a mention is found that Slack gave up delivering."""
    if channels.conversation_channels:
        return "mentions that were missed are found in THREADLINE_CONVERSATION_CHANNELS alone, and no direct messages"
    others = len(followed.keys() - case_channels(channels).keys())
    return f"mentions and direct messages that were missed are found in {others} more, which take turns"


def _check_channels(followed: Mapping[str, FollowedChannel], channels: ChannelSettings, interval: float) -> None:
    """Raises:
    Permanent: a channel cannot be read, or was not for long.
    """
    for channel in followed_channels(channels):
        known = followed.get(channel)
        if known is None or not known.read_at:
            raise Permanent(f"Slack's history of {channel} was never compared: start `threadline worker --queue core`.")
        if not known.error and time.time() - known.read_at > _LATE * interval + _LATE * 60:
            raise Permanent(
                f"Slack's history of {channel} was last compared {int((time.time() - known.read_at) / 60)} minutes "
                f"ago: see the workflow {CATCH_UP_ID!r} and the schedule of that name in Temporal's UI."
            )
    for each in followed.values():
        if each.error:
            raise Permanent(f"Slack's history of {each.channel} cannot be compared: {each.error}")
