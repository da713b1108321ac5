"""What a core worker serves: cases, conversations, catch-up, jobs; over Postgres, Slack and the code host."""

import asyncio
import tomllib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slack_sdk.web.async_slack_response import AsyncSlackResponse
from temporalio.client import Client

from threadline.approvals.contract import ApprovalActivities
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.contract import CaseActivities, CasePostActivities, case_start
from threadline.cases.model import CaseLimits, CaseReaders, Service
from threadline.cases.posts import CaseChannels, LiveCasePostActivities
from threadline.cases.store.case import CaseStore
from threadline.conversations.contract import ConversationActivities, SpeakingActivities
from threadline.conversations.decision_contract import DecisionActivities
from threadline.conversations.operator_contract import OperatorActivities
from threadline.db import migrate
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.forge import remotes
from threadline.forge.pull_requests import PullRequests
from threadline.gateway.dispatcher import Dispatcher
from threadline.handovers.activities import Reception
from threadline.handovers.contract import HandoverActivities
from threadline.handovers.relay import Relaying
from threadline.jobs.contract import AgentJobActivities
from threadline.jobs.schedules import Jobs, live_jobs
from threadline.settings import (
    CaseSettings,
    CatchUpSettings,
    ChannelSettings,
    DatabaseSettings,
    DeploymentSettings,
    ForgeSettings,
    RepositorySettings,
    SlackSettings,
    WorkerSettings,
)
from threadline.slack.client import Slack
from threadline.slack.errors import calling
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.contract import CatchUpActivities, RouteReplyActivities, SweepActivities, ThreadActivities
from threadline.threads.outbox import Outbox
from threadline.threads.private_replies import LiveThreadActivities
from threadline.threads.route_reply import LiveRouteReplyActivities
from threadline.threads.sweep import LiveSweepActivities
from threadline.threads.workflow_client import WorkflowClient
from threadline.wiring.catch_up import all_sweeps, live_catch_up, mark_installation
from threadline.wiring.conversations import Conversing, Host, TalkSettings, conversing
from threadline.wiring.gateway import DatabaseThreadLookup, slack_client
from threadline.wiring.temporal import registered

Activities = list[Callable[..., Any]]


@dataclass(frozen=True)
class CoreSettings:
    """Read before anything is connected to, so that what is missing is said at once."""

    stored: DatabaseSettings = field(default_factory=DatabaseSettings.read)
    slack: SlackSettings = field(default_factory=SlackSettings.read)
    channels: ChannelSettings = field(default_factory=ChannelSettings.read)
    case: CaseSettings = field(default_factory=CaseSettings.read)
    catch_up: CatchUpSettings = field(default_factory=CatchUpSettings.read)
    repository: RepositorySettings = field(default_factory=RepositorySettings.read)
    forge: ForgeSettings = field(default_factory=ForgeSettings.read)
    worker: WorkerSettings = field(default_factory=WorkerSettings.read)
    deployment: DeploymentSettings = field(default_factory=DeploymentSettings.read)
    talk: TalkSettings = field(default_factory=TalkSettings)


@dataclass(frozen=True)
class _Connected:
    """What every activity may need. `identity` is Slack's answer to who we are."""

    database: Database
    client: Client
    slack: Slack
    users: UserDirectory
    outbox: Outbox
    dispatcher: Dispatcher
    identity: AsyncSlackResponse
    case_channels: CaseChannels


@dataclass(frozen=True)
class CoreActivities:
    """`alerts` tells people of what keeps failing among the activities; `sweeps` are the names of what they sweep."""

    activities: Activities
    alerts: FailureAlerts
    sweeps: Sequence[str]


@asynccontextmanager
async def core_activities(settings: CoreSettings, client: Client) -> AsyncIterator[CoreActivities]:
    """What a core worker serves.

    Raises:
        Permanent: the database has another schema, or Slack does not know us.
    """
    async with _connected(settings, client) as parts:
        alerts = FailureAlerts(parts.outbox, parts.case_channels.escalations)
        approvers = settings.talk.approval.approvers
        jobs = live_jobs(client, parts.database, parts.slack, parts.outbox, parts.dispatcher, approvers)
        host = _host(settings, parts, alerts, jobs)
        speaking = LiveCasePostActivities(parts.database, parts.slack, parts.outbox, parts.case_channels)
        quiet = settings.talk.conversation.conversation_quiet
        sweeps = all_sweeps(parts.database, WorkflowClient(client), parts.case_channels, speaking, jobs.desk, quiet)
        async with conversing(settings.talk, parts.database, parts.slack, parts.users, parts.outbox, host) as talk:
            served = [
                *_of_cases(settings, parts, speaking),
                *_of_looking_again(settings, parts),
                *registered(LiveSweepActivities(parts.database, sweeps), SweepActivities),
                *registered(LiveThreadActivities(parts.slack), ThreadActivities),
                *_of_talk(talk, jobs),
            ]
            yield CoreActivities(served, alerts, [each.name for each in sweeps])


@asynccontextmanager
async def _connected(settings: CoreSettings, client: Client) -> AsyncIterator[_Connected]:
    stored = settings.stored.url.get_secret_value()
    if not await asyncio.to_thread(migrate.is_current, stored):
        raise Permanent("The database schema does not match this code: run `threadline db upgrade`.")
    context = settings.talk.conversation.context_bytes
    database = Database(stored, pool_size=20, application="threadline-core", context_bytes=context)
    try:
        await _store_services(database, settings.case.services)
        async with slack_client(settings.slack) as web:
            slack = Slack(web)
            async with calling("auth.test"):
                identity = await web.auth_test()
            await mark_installation(database, str(identity["team_id"]), settings.channels)
            users = UserDirectory(slack.user)
            authors = AuthorPolicy(users, settings.channels.external_people)
            yield _Connected(
                database,
                client,
                slack,
                users,
                Outbox(slack, database),
                Dispatcher(client, DatabaseThreadLookup(database), authors),
                identity,
                _case_channels(identity, settings.channels, settings.case),
            )
    finally:
        await database.dispose()


def _host(settings: CoreSettings, parts: _Connected, alerts: FailureAlerts, jobs: Jobs) -> Host:
    channels, identity = parts.case_channels, parts.identity
    return Host(
        alerts,
        CaseReaders({channels.summaries, channels.escalations}, str(identity.get("url", ""))),
        str(identity.get("user") or "threadline"),
        settings.channels.external_people,
        WorkflowClient(parts.client),
        jobs.ports,
        Reception(channels.escalations, settings.talk.decision.handover_reminder),
    )


def _of_cases(settings: CoreSettings, parts: _Connected, speaking: LiveCasePostActivities) -> Activities:
    database, slack, outbox, channels = parts.database, parts.slack, parts.outbox, parts.case_channels
    forge, limits = settings.forge, _limits(settings.case)
    pull_requests = PullRequests(remotes.repositories_by_name(settings.repository.repo), forge.token, forge.api_url)
    cases = LiveCaseActivities(database, slack, speaking, pull_requests, limits=limits, bot_user=channels.bot_user)
    relay = Relaying(database, slack, outbox, channels.bot_user).relay
    workflows, starts = WorkflowClient(parts.client), {"case": case_start}
    replies = LiveRouteReplyActivities(database, slack, channels.bot_user, workflows, starts, relay)
    return [
        *registered(cases, CaseActivities),
        *registered(speaking, CasePostActivities),
        *registered(replies, RouteReplyActivities),
    ]


def _of_looking_again(settings: CoreSettings, parts: _Connected) -> Activities:
    catch_up = live_catch_up(parts.database, parts.slack, parts.dispatcher, settings.channels, parts.identity)
    return registered(catch_up, CatchUpActivities)


def _of_talk(talk: Conversing, jobs: Jobs) -> Activities:
    return [
        *registered(talk.thinking, ConversationActivities),
        *registered(talk.speaking, SpeakingActivities),
        *registered(talk.operator, OperatorActivities),
        *registered(talk.deciding, DecisionActivities),
        *registered(talk.handing, HandoverActivities),
        *registered(talk.approving, ApprovalActivities),
        *registered(jobs.activities, AgentJobActivities),
    ]


def _case_channels(identity: AsyncSlackResponse, channels: ChannelSettings, case: CaseSettings) -> CaseChannels:
    return CaseChannels(
        team=str(identity["team_id"]),
        bot_user=str(identity["user_id"]),
        summaries=channels.summaries_channel,
        escalations=channels.escalation,
        tiers=case.oncall,
        targets=case.sla,
    )


async def _store_services(database: Database, directory: Path | None) -> None:
    """Make the directory of services what the file says; without a file it stays as it is."""
    if directory is None:
        return
    try:
        listed = tomllib.loads(directory.read_text(encoding="utf-8"))["service"]
        services = [Service(**{"description": "", "channel": "", "repository": "", **each}) for each in listed]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError) as error:
        raise Permanent(
            f"THREADLINE_SERVICES is {str(directory)!r}, which cannot be read: {error}. "
            "It must contain [[service]] tables with name, owner, and optionally description, channel and repository."
        ) from error
    async with database.begin() as work:
        await CaseStore(work.tx).replace_services(services)


def _limits(case: CaseSettings) -> CaseLimits:
    return CaseLimits(
        reporter_timeout=case.reporter_timeout,
        developer_timeout=case.developer_timeout,
        turn_timeout=case.turn_timeout,
        max_questions=case.max_questions,
        turn_budget_usd=case.turn_budget_usd,
        case_budget_usd=case.case_budget_usd,
        pull_request_poll=case.pull_request_poll,
    )
