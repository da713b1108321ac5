"""The catch-up and the sweep: which channels and threads are followed, the schedule of both, and what doctor checks."""

import time
from collections.abc import Mapping, Sequence
from datetime import timedelta

import structlog
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

from threadline.cases.catch_up import CaseThreads
from threadline.cases.store.sweeps import CaseSweepStore
from threadline.conversations.catch_up import ConversationThreads
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.handovers.catch_up import HandoverThreads
from threadline.settings import CatchUpSettings, ChannelSettings, DatabaseSettings
from threadline.threads.catch_up import unstored_messages
from threadline.threads.catch_up_store import CatchUpStore, FollowedChannel
from threadline.threads.comparison import ThreadSource
from threadline.threads.contract import CATCH_UP_ID, LOOK_BACK, SWEEP_ID, SWEEP_WORKFLOW, SweepRequest
from threadline.threads.model import CORE_QUEUE

LONGEST_SWEEP = timedelta(hours=1)

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
    """Every kind of thread that the catch-up compares, as the features bring them: doctor reads them without a worker.

    The first of a scope has the threads that nobody owns yet.
    """
    return CaseThreads(), ConversationThreads(bot_user_id), HandoverThreads()


async def mark_installation(database: Database, team: str, channels: ChannelSettings) -> None:
    """Remember when each channel was first followed. Without a database the gateway serves all the same."""
    try:
        async with database.begin() as work:
            await CatchUpStore(work.tx, team).follow_channels(followed_channels(channels), time.time())
    except (Permanent, Transient) as error:
        _log.warning("channels_not_followed", reason=str(error), next="The core worker follows them at its start.")


async def ensure_schedule(client: Client, interval: float, sweeps: Sequence[str]) -> None:
    """Make the schedule what the settings say, and start a sweep and a pass. A worker that may not still does
    everything else.

    Args:
        interval: seconds.
        sweeps: their names.
    """
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(
            SWEEP_WORKFLOW,
            SweepRequest(list(sweeps)),
            id=SWEEP_ID,
            task_queue=CORE_QUEUE,
            run_timeout=LONGEST_SWEEP,  # it holds back the next one, and the pass that the next one starts
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
