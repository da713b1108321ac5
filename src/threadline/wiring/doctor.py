"""`threadline doctor`: checks each requirement of Threadline, and gives advice on missing ones."""

import asyncio
import os
import re
import shutil
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import TypeVar

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow, WorkflowExecutionStatus
from temporalio.service import RPCError

from threadline.cases.store.lists import CaseLists
from threadline.db import migrate
from threadline.db.agent_role import agent_database, excess_privileges
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.forge import remotes
from threadline.forge.branches import BRANCHES, look
from threadline.forge.faults import in_the_way
from threadline.forge.git import Git
from threadline.forge.remotes import Remote
from threadline.investigator.sandbox import find_cli
from threadline.settings import (
    AccessSettings,
    AgentSettings,
    ApprovalSettings,
    ChannelSettings,
    DatabaseSettings,
    ModelSettings,
    PayloadSettings,
    RepositorySettings,
    SlackSettings,
    WorkerSettings,
)
from threadline.slack.client import SlackClient, open_web_client
from threadline.slack.errors import translated
from threadline.threads.catch_up import unstored_messages
from threadline.threads.catch_up_store import CatchUpStore, FollowedChannel
from threadline.threads.contract import CATCH_UP_ID, LOOK_BACK, SWEEP_ID
from threadline.threads.model import AGENTS_QUEUE, CORE_QUEUE
from threadline.threads.store import Quarantine
from threadline.tools.policy import BUILT_IN
from threadline.wiring import builds, model_keys, silent_faults
from threadline.wiring.temporal import (
    WORKFLOWS,
    check_search_attributes,
    live_pollers,
    temporal_client,
)
from threadline.wiring.threads import thread_sources
from threadline.wiring.toolsets import check_integrations, load_access

SCOPES = frozenset(
    (
        *("channels:history", "channels:read", "groups:history", "groups:read"),
        *("im:history", "im:read", "mpim:history", "mpim:read"),
        *("chat:write", "files:read", "files:write", "reactions:read", "reactions:write"),
        *("usergroups:read", "users:read", "users:read.email"),
    )
)
OLDEST_GIT = (2, 38)
"""The first version that merges trees without files, which pull requests need."""
OLDEST_POSTGRES = 17
"""The first version with `transaction_timeout`, which rolls a tool's change back together with its
call.
"""
SHORTEST_RETENTION = 24 * 3600
"""Seconds; below a day, an admin cannot see in the morning how a case ran at night."""
LARGEST_SKEW = 60.0
"""Seconds; posts are searched by Slack's clock, with five minutes of tolerance."""
LEAST_SPACE = 1 << 30
"""Bytes for a mirror and a few exports of an ordinary repository."""
_REPOSITORY_TIMEOUT = 20.0
_LATE = 3
"""Intervals after which a pass or a sweep that has not ended is reported."""
_SHOWN = 5
"""Most workflows, threads or messages that a finding names."""
_WORKFLOW = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW
_ACTIVITY = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
_NEEDED = (
    (CORE_QUEUE, "core", _WORKFLOW),
    (CORE_QUEUE, "core", _ACTIVITY),
    (AGENTS_QUEUE, "agents", _ACTIVITY),
)

_C = TypeVar("_C")


@dataclass(frozen=True)
class Check:
    """One finding. `advice` is a sentence on what to do; empty without a fault."""

    name: str
    ok: bool
    found: str
    advice: str = ""


async def run_checks() -> list[Check]:
    """Run every check, regardless of the others' results. The checks run concurrently, over one
    connection to each service.
    """
    async with AsyncExitStack() as opened:
        temporal = asyncio.create_task(temporal_client(tries=1))
        slack = asyncio.create_task(_slack_client(opened))
        identity = asyncio.create_task(_identify(slack))
        database = asyncio.create_task(_open_database(opened))
        checks: dict[str, Awaitable[str]] = {
            "database": _over(database, _database),
            "agents' database": _agents_database(),
            "temporal": _over(temporal, check_search_attributes),
            "workers": _over(
                temporal, lambda client: check_task_queues(client, partial(_turn_runs, database))
            ),
            "open workflows": _over(temporal, check_open_workflows),
            "reported problems": _over(temporal, silent_faults.check_reported_problems),
            "payload keys": _over(temporal, _payload_keys),
            "faults": _over(database, silent_faults.check_faults),
            "unposted": _over(database, silent_faults.check_unposted),
            "quarantine": _over(database, _quarantine),
            "slack": _over(identity, _slack),
            "channels": _over(slack, _channels),
            "catch-up": _catch_up(database, identity),
            "sweep": _over(
                temporal,
                lambda client: check_sweep(client, WorkerSettings.load().catch_up_interval),
            ),
            "repositories": _repositories(),
            "model": check_model(),
            "conversations' model": check_conversation_model(),
            "tools": check_integrations(),
            "approvals": _over(slack, check_approvers),
            "roles": _over(slack, check_access),
            "history": _over(temporal, _retention),
            "clocks": _over(slack, _clocks),
            "programs": _programs(),
            # The folder of the agents' files, if their worker runs on this machine.
            "workspaces": asyncio.to_thread(
                lambda: check_folder(RepositorySettings.load().workspace_root)
            ),
        }
        return await asyncio.gather(*(_checked(name, check) for name, check in checks.items()))


async def _over(connection: Awaitable[_C], check: Callable[[_C], Awaitable[str]]) -> str:
    return await check(await connection)


async def _checked(name: str, check: Awaitable[str]) -> Check:
    try:
        return Check(name, ok=True, found=await check)
    except (Permanent, Transient) as error:
        return Check(name, ok=False, found="needs attention", advice=str(error))
    except Exception as error:  # noqa: BLE001 - one check that breaks must not hide the others
        return Check(
            name,
            ok=False,
            found=f"the check itself failed: {type(error).__name__}",
            advice=str(error),
        )


async def _slack_client(opened: AsyncExitStack) -> AsyncWebClient:
    settings = SlackSettings.load()
    return await opened.enter_async_context(
        open_web_client(settings.bot_token.get_secret_value(), settings.api_url)
    )


async def _identify(slack: Awaitable[AsyncWebClient]) -> AsyncSlackResponse:
    """Return Slack's answer to `auth.test`, with its headers."""
    client = await slack
    async with translated("auth.test"):
        return await client.auth_test()


async def _open_database(opened: AsyncExitStack) -> Database:
    url = DatabaseSettings.load().url.get_secret_value()
    return await opened.enter_async_context(
        Database(url, pool_size=3, application="threadline-doctor")
    )


# ---- Databases


async def _database(database: Database) -> str:
    if not await asyncio.to_thread(
        migrate.is_current, DatabaseSettings.load().url.get_secret_value()
    ):
        raise Permanent(
            "The database schema does not match this code: run `threadline db upgrade`."
        )
    async with database.connect() as connection:
        version = str((await connection.exec_driver_sql("SHOW server_version")).scalar_one())
    return f"{check_postgres_version(version)}, with the newest schema"


def check_postgres_version(version: str) -> str:
    """Check that Postgres has `transaction_timeout`.

    Args:
        version: the result of `SHOW server_version`.

    Raises:
        Permanent: it does not have it.
    """
    found = re.match(r"\d+", version)
    if not found or int(found[0]) < OLDEST_POSTGRES:
        raise Permanent(
            f"Postgres {version} has no transaction_timeout, without which no tool can change a "
            f"record: use Postgres {OLDEST_POSTGRES} or newer."
        )
    return f"Postgres {version} is reachable"


async def _agents_database() -> str:
    async with agent_database(
        AgentSettings.load().agent_database_url.get_secret_value(), pool_size=1
    ) as database:
        if found := await excess_privileges(database):
            raise Permanent(
                f"The agents' login has rights that it must not have: {'; '.join(found)}. "
                "Revoke them."
            )
        return "reachable, with the restricted role and no extra rights"


async def _quarantine(database: Database) -> str:
    """Report the quarantine. A message that could not be read is no fault of the installation."""
    async with database.begin() as tx:
        count, newest = await Quarantine(tx).count()
    if not newest:
        return "empty"
    return (
        f"{count} messages, newest {newest:%Y-%m-%d %H:%M}; `threadline cases quarantine` shows "
        "them"
    )


# ---- Temporal


async def check_task_queues(client: Client, turn_runs: Callable[[], Awaitable[bool]]) -> str:
    """Check that workers serve both queues.

    Args:
        client: of the namespace.
        turn_runs: whether an agents' worker holds a turn. Such a worker does not poll Temporal
            while all its slots are in use.

    Raises:
        Permanent: no worker serves a queue, or only builds that get no work.
    """
    faults = []
    for queue, name, kind in _NEEDED:
        found, pollers = await live_pollers(client, queue, kind)
        if not pollers:
            if queue != AGENTS_QUEUE or not await turn_runs():
                faults.append(
                    f"No worker serves the queue {queue!r}: start `threadline worker --queue "
                    f"{name}`."
                )
            continue
        targets = builds.targets_of(found.versioning_info)
        served = builds.served_by(pollers)
        faults += builds.build_faults(
            queue, targets, await builds.without_replaced(client, served, targets)
        )
        if (queue, kind) == (CORE_QUEUE, _WORKFLOW):
            own = WorkerSettings.load()
            faults.append(builds.own_build_fault((own.deployment, own.build_id), targets))
    if told := " ".join(dict.fromkeys(filter(None, faults))):
        raise Permanent(told)
    return "both queues are served"


async def _turn_runs(database: Awaitable[Database]) -> bool:
    """Whether an agents' worker holds a turn; False while the database does not answer."""
    try:
        async with (await database).begin() as tx:
            return await CaseLists(tx).turn_runs()
    except (Permanent, Transient):
        return False  # the finding on the database has the reason


async def check_open_workflows(client: Client) -> str:
    """Check that Threadline's open workflows are on its queues.

    Raises:
        Permanent: some are on another queue, where they wait for ever.
    """
    types = ", ".join(f"'{each.__name__}'" for each in WORKFLOWS)
    query = f"ExecutionStatus = 'Running' AND WorkflowType IN ({types})"
    elsewhere = f"{query} AND TaskQueue != '{CORE_QUEUE}'"
    try:
        lost = (await client.count_workflows(elsewhere)).count
        if not lost:
            return f"{(await client.count_workflows(query)).count}, each on a queue of Threadline"
        named = [
            f"{found.id} on {found.task_queue!r}"
            async for found in client.list_workflows(elsewhere, limit=_SHOWN)
        ]
    except RPCError as error:
        raise Permanent(f"Temporal did not list the open workflows: {error.message}") from error
    more = f", and {lost - len(named)} more" if lost > len(named) else ""
    raise Permanent(
        f"No worker serves these workflows: {', '.join(named)}{more}. Their messages are kept "
        f"and not answered: reset or restart them on the queue {CORE_QUEUE!r}, or run a worker "
        "on their queue."
    )


async def _payload_keys(client: Client) -> str:
    return await silent_faults.check_payload_keys(client, PayloadSettings.load().payload_keys)


async def check_sweep(client: Client, interval: float) -> str:
    """Check the sweeps.

    Args:
        interval: of the schedule, in seconds.

    Raises:
        Permanent: no sweep has begun for long, or the last one to end failed in part.
    """
    try:
        recent = (await client.get_schedule_handle(CATCH_UP_ID).describe()).info.recent_actions
        if (
            not recent
            or time.time() - recent[-1].started_at.timestamp() > _LATE * interval + _LATE * 60
        ):
            raise Permanent(
                f"No sweep has begun for {_LATE} intervals: in Temporal's UI, see whether the "
                f"schedule {CATCH_UP_ID!r} is paused, or the last workflow {SWEEP_ID!r} does "
                "not end."
            )
        for each in reversed(recent):
            if isinstance(each.action, ScheduleActionExecutionStartWorkflow):
                handle = client.get_workflow_handle(each.action.workflow_id)
                if (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED:
                    result = str(await handle.result())
                    if "failed" in result or "not started" in result:
                        raise Permanent(
                            f"{handle.id} ended with {result!r}: see its failed activities "
                            "in Temporal's UI."
                        )
                    return f"the last one ended with {result!r}"
    except RPCError as error:
        raise Permanent(
            f"Temporal did not report the sweep ({error.message}): is a core worker started?"
        ) from error
    return "the first one has started"


async def _retention(client: Client) -> str:
    request = DescribeNamespaceRequest(namespace=client.namespace)
    kept = (
        await client.workflow_service.describe_namespace(request)
    ).config.workflow_execution_retention_ttl.seconds
    if kept < SHORTEST_RETENTION:
        raise Permanent(
            f"The namespace {client.namespace!r} deletes an ended run after {kept / 3600:.0f} h: "
            "set its retention to "
            "several days, so that its history can still be read."
        )
    return f"Temporal keeps the history of an ended run for {kept / 86400:.0f} days"


# ---- Slack


async def _slack(identity: AsyncSlackResponse) -> str:
    granted = {
        scope.strip()
        for scope in identity.headers.get("x-oauth-scopes", "").split(",")
        if scope.strip()
    }
    if granted and (missing := SCOPES - granted):
        raise Permanent(
            f"The app lacks the scopes {', '.join(sorted(missing))}: add them, and install "
            "it again."
        )
    return f"the bot is {identity['user']} in {identity['team']}"


async def _channels(slack: AsyncWebClient) -> str:
    channels = ChannelSettings.load()
    named = {
        "THREADLINE_REPORTS_CHANNEL": channels.reports_channel,
        "THREADLINE_SUMMARIES_CHANNEL": channels.summaries_channel,
        "THREADLINE_ESCALATION_CHANNEL": channels.escalation,
    }
    for variable, channel in named.items():
        shared = await _shared_channel_name(slack, variable, channel)
        if shared and channel not in channels.external_people:
            raise Permanent(
                f"#{shared} ({variable}) is shared with another company: use another channel, "
                "or name it in THREADLINE_EXTERNAL_PEOPLE if those people may take part."
            )
    for channel in channels.conversation_channels:
        await _shared_channel_name(slack, "THREADLINE_CONVERSATION_CHANNELS", channel)
    return "the bot is a member of each"


async def _shared_channel_name(slack: AsyncWebClient, variable: str, channel: str) -> str:
    """Return the name of a channel that is shared with another company; empty for any other
    channel.

    Raises:
        Permanent: the bot is not in it.
    """
    async with translated(channel):
        about = (await slack.conversations_info(channel=channel))["channel"]
    if not about.get("is_member"):
        raise Permanent(f"The bot is not in #{about.get('name')} ({variable}): invite it there.")
    return str(about.get("name") or channel) if about.get("is_ext_shared") else ""


async def check_approvers(web: AsyncWebClient) -> str:
    """Check that Slack knows the approvers of proposals as people. A missing list is reported, and
    is no fault.
    """
    slack = SlackClient(web)
    named = ApprovalSettings.load().approvers
    if not named:
        return (
            "no approvers: proposals of medium or high risk are refused until "
            "THREADLINE_APPROVERS names someone"
        )
    for user in named:
        known = await slack.user(user)
        if known is None or known.bot:
            raise Permanent(
                f"THREADLINE_APPROVERS names {user}, who is not a person in Slack: give the "
                "ids of people."
            )
    return f"{len(named)} may approve proposals"


async def check_access(web: AsyncWebClient) -> str:
    """Check that the files of policy and roles can be read, and that Slack shows the user groups.
    Missing files are no fault.
    """
    settings = AccessSettings.load()
    rules, roles = load_access(settings)
    own = len(rules.rules) - len(BUILT_IN)
    said = f"{own} rules of THREADLINE_POLICY" if settings.policy else "the built-in policy"
    if not roles.groups:
        who = "every member may see and change all records until THREADLINE_ROLES names groups"
        return f"{said}; no roles: {who}"
    slack = SlackClient(web)
    for each in sorted(
        frozenset[str]().union(*(group.user_groups for group in roles.groups.values()))
    ):
        if not await slack.user_group(each):
            raise Permanent(
                f"THREADLINE_ROLES names the user group {each}, which has no members in Slack."
            )
    return f"{said}; groups: {', '.join(sorted(roles.groups))}"


async def _catch_up(database: Awaitable[Database], identity: Awaitable[AsyncSlackResponse]) -> str:
    bot = await identity
    return await check_catch_up(await database, str(bot["team_id"]), str(bot["user_id"]))


async def check_catch_up(database: Database, team: str, bot_user_id: str) -> str:
    """Check the catch-up.

    Raises:
        Permanent: a channel cannot be read, no pass has ended for long, or findings stay
            unprocessed.
    """
    channels = ChannelSettings.load()
    interval = WorkerSettings.load().catch_up_interval
    async with database.begin() as tx:
        store = CatchUpStore(tx, team)
        followed = {each.channel: each for each in await store.channels()}
        failed = await store.failed_threads(time.time() - LOOK_BACK, _SHOWN)
        unstored = await unstored_messages(tx, team, thread_sources(bot_user_id), _SHOWN)
        unsaid = await CaseLists(tx).missing_answers(_LATE * interval, _SHOWN)
    _check_channels(followed, channels, interval)
    if failed:
        listed = ", ".join(f"{root} in {place} ({error})" for place, root, error in failed)
        raise Permanent(f"Threads could not be compared with the stored messages: {listed}")
    if unstored:
        raise Permanent(
            "Messages were sent to their workflows repeatedly and never stored: "
            f"{', '.join(unstored)}."
        )
    if unsaid:
        listed = ", ".join(f"{each.bug_id} (turn {each.turn}: {each.kind})" for each in unsaid)
        raise Permanent(
            f"Results were never posted: {listed}. `threadline cases show` prints them."
        )
    others = len(followed.keys() - channels.of_cases.keys())
    reach = (
        f"missed mentions and direct messages are found in {others} more channels, which are "
        "read in turn"
    )
    if channels.conversation_channels:
        reach = (
            "missed mentions are found only in THREADLINE_CONVERSATION_CHANNELS, and missed "
            "direct messages are not"
        )
    return f"every channel is compared with the stored messages, and nothing is missing; {reach}"


def _check_channels(
    followed: Mapping[str, FollowedChannel], channels: ChannelSettings, interval: float
) -> None:
    """Check the channels that the catch-up reads.

    Raises:
        Permanent: a channel cannot be read, or was not read for long.
    """
    for channel in channels.watched:
        known = followed.get(channel)
        if known is None or not known.read_at:
            raise Permanent(
                f"Slack's history of {channel} was never compared: start `threadline worker "
                "--queue core`."
            )
        if not known.error and time.time() - known.read_at > _LATE * interval + _LATE * 60:
            raise Permanent(
                f"Slack's history of {channel} was last compared "
                f"{int((time.time() - known.read_at) / 60)} minutes "
                f"ago: see the workflow {CATCH_UP_ID!r} and the schedule of that name in "
                "Temporal's UI."
            )
    for each in followed.values():
        if each.error:
            raise Permanent(f"Slack's history of {each.channel} cannot be compared: {each.error}")


# ---- Code, models and this machine


async def _repositories() -> str:
    return await check_repositories(remotes.repositories_by_name(RepositorySettings.load().repo))


async def check_repositories(named: Mapping[str, str]) -> str:
    """Check that each repository answers, with the credentials in its address, and accepts a
    case's branch.

    Args:
        named: addresses by name.

    Raises:
        Permanent: some cannot be used; the message has a sentence on each.
        Transient: some cannot be reached now, and the others can be used.
    """
    git = Git()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "look.git"
        await git.init(place)
        checks = (_check_repository(git, place, name, url) for name, url in named.items())
        faults = [
            found
            for found in await asyncio.gather(*checks, return_exceptions=True)
            if found is not None
        ]
    for fault in faults:
        if not isinstance(fault, Permanent | Transient):
            raise fault
    if faults:
        kind = Permanent if any(isinstance(fault, Permanent) for fault in faults) else Transient
        raise kind(" ".join(map(str, faults)))
    return f"{', '.join(named)}: reachable"


async def _check_repository(git: Git, place: Path, name: str, url: str) -> None:
    try:
        async with asyncio.timeout(_REPOSITORY_TIMEOUT):
            seen = await look(git, place, name, Remote.parse(url), BRANCHES)
    except TimeoutError as error:
        raise Transient(
            f"The repository {name} did not answer within {_REPOSITORY_TIMEOUT:.0f} s."
        ) from error
    branch = f"{BRANCHES}/bug-1"
    if obstacle := seen.obstacle_to(branch):
        raise Permanent(f"The repository {name} takes no fix: {in_the_way(branch, obstacle)}.")


async def check_model() -> str:
    settings = AgentSettings.load()
    if not settings.api_key.get_secret_value().strip():
        raise Permanent("ANTHROPIC_API_KEY is empty: without it no case is investigated.")
    return (
        f"{settings.investigator_model}: "
        f"{await model_keys.check_key(model_keys.anthropic_list(settings))}"
    )


async def check_conversation_model() -> str:
    settings = ModelSettings.load()
    if not settings.key:
        raise Permanent(
            "OPENAI_API_KEY is not set: the bot tells people who mention it that it cannot "
            "answer yet."
        )
    state = await model_keys.check_model_name(
        model_keys.openai_list(settings), settings.openai_model
    )
    return f"{settings.openai_model}: {state}"


async def _clocks(slack: AsyncWebClient) -> str:
    async with translated("auth.test"):
        date = (await slack.auth_test()).headers.get("date", "")
    ahead = {"Slack's": time.time() - parsedate_to_datetime(date).timestamp()} if date else {}
    async with (
        agent_database(
            AgentSettings.load().agent_database_url.get_secret_value(), pool_size=1
        ) as database,
        database.connect() as connection,
    ):
        now = await connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())")
        ahead["Postgres'"] = time.time() - float(now.scalar_one())
    return check_clocks(ahead)


def check_clocks(ahead: dict[str, float]) -> str:
    """Check that the clocks agree.

    Args:
        ahead: the seconds that this machine's clock is ahead, by the other clock's owner.

    Raises:
        Permanent: one is far off.
    """
    for whose, seconds in ahead.items():
        if abs(seconds) > LARGEST_SKEW:
            side = "ahead of" if seconds > 0 else "behind"
            raise Permanent(
                f"This machine's clock is {abs(seconds):.0f} s {side} {whose}: synchronise both "
                "with NTP, or Threadline searches for posts at the wrong time and posts them "
                "twice."
            )
    return ", ".join(
        f"within {max(1.0, abs(seconds)):.0f} s of {whose}" for whose, seconds in ahead.items()
    )


def check_folder(folder: Path, least: int = LEAST_SPACE) -> str:
    """Check the disk of a folder.

    Args:
        least: bytes that have to be free.

    Raises:
        Permanent: the folder is not writable, or too full.
    """
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise Permanent(
            f"{there} cannot be written to ({error.strerror}): give it to the account that the "
            "workers run as,"
            " or set THREADLINE_WORKSPACES."
        ) from error
    free = shutil.disk_usage(there).free
    if free < least:
        raise Permanent(
            f"Only {free >> 20} MiB are free in {there}: make room, or set THREADLINE_WORKSPACES."
        )
    return f"{folder} can be written to, {free >> 30} GiB free"


async def _programs() -> str:
    cli = find_cli()
    if not os.access(cli, os.X_OK):
        raise Permanent(f"{cli} is not executable: install claude-agent-sdk again.")
    with tempfile.TemporaryDirectory() as folder:
        told = (await Git().run("version", git_dir=Path(folder))).text
    return f"{check_git_version(told)}; the agent's CLI is installed"


def check_git_version(told: str) -> str:
    """Check that git is new enough.

    Args:
        told: the output of `git version`.

    Raises:
        Permanent: it is too old.
    """
    found = re.search(r"(\d+)\.(\d+)", told)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        raise Permanent(
            f"{told or 'This git'} is too old to make pull requests: install git {oldest} "
            "or newer."
        )
    return told
