"""A case's workflow on Temporal, Postgres and the Slack sandbox, with a scripted agent."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import aiohttp
from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.testing import WorkflowEnvironment

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.temporal import deliver, real_time, skip, until, worker
from tests.support.unhurried import unhurried
from threadline.cases.contract import AgentActivities, TurnRequest, case_start
from threadline.cases.model import (
    BUG_WORKFLOW,
    Action,
    BugState,
    CaseLimits,
    CaseRecord,
    TurnEnded,
    bug_workflow_id,
    sla_workflow_id,
)
from threadline.cases.posts import CaseChannels
from threadline.cases.store.case import CaseStore
from threadline.cases.store.lists import CaseLists, Transition
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.forge.pull_requests import PullRequests
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline.investigator.store import AgentStore, TurnClaim, TurnOutcome
from threadline.jobs.schedules import JobSchedules
from threadline.slack.client import BotIdentity, SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.slack.users import UserDirectory
from threadline.threads.activities import LiveThreadActivities
from threadline.threads.activity_options import activities_of
from threadline.threads.authors import AuthorPolicy
from threadline.threads.catch_up import LiveCatchUpActivities
from threadline.threads.faults import InstallationFaults
from threadline.threads.model import (
    AGENTS_QUEUE,
    CLOSE_REQUESTED,
    INCOMING_MESSAGE,
    IncomingMessage,
    MessageKind,
    SenderType,
    message_id,
)
from threadline.threads.outbox import Outbox
from threadline.threads.sweep import LiveSweepActivities, WorkflowSweeps
from threadline.wiring import sweeps
from threadline.wiring.cases import cases
from threadline.wiring.core import CoreDeps
from threadline.wiring.temporal import WORKFLOWS
from threadline.wiring.threads import thread_sources
from threadline_devstack.slack import identity

Play = Callable[[TurnRequest, TurnClaim], Awaitable[TurnOutcome]]

REPORTER = identity.REPORTER
DEVELOPER = identity.DEVELOPER
CONVERSATION_IDLE_TIMEOUT = 24 * 3600.0
"""Seconds of silence after which the run of a conversation ends."""


def outcome(action: Action, summary: str = "found it", **more: Any) -> TurnOutcome:
    """The result that an agent hands over. `diffs` and `read` go to the turn, all other fields
    into its result.
    """
    turn = {name: more.pop(name) for name in ("diffs", "base", "has_fix", "read") if name in more}
    question = "Which browser?" if action is Action.ASK_REPORTER else ""
    result = {
        "summary": summary,
        "title": "Cart total",
        "severity": "S2",
        "clarification_question": question,
        **more,
    }
    return TurnOutcome(action, result=result, cost_usd=0.01, **turn)


@dataclass
class Agent(AgentActivities):
    """Plays one outcome after the other: raises an exception, or calls a function with the
    claim.
    """

    turns: AgentStore
    script: list[TurnOutcome | Exception | Play] = field(default_factory=list)
    requests: list[TurnRequest] = field(default_factory=list)
    batches: list[list[str]] = field(default_factory=list)
    cleaned: list[str] = field(default_factory=list)

    @activity.defn
    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        assert request.turn == 1
        return await self._play(request)

    @activity.defn
    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        assert request.turn > 1
        return await self._play(request)

    @activity.defn
    async def cleanup_workspace(self, bug_id: str) -> None:
        self.cleaned.append(bug_id)

    async def _play(self, request: TurnRequest) -> TurnEnded:
        claim = await self.turns.claim(
            request.bug_id, request.turn, request.attempt, request.session_id, 30
        )
        if isinstance(claim, TurnEnded):
            return claim
        self.requests.append(request)
        self.batches.append([entry.text for entry in claim.entries])
        step = self.script.pop(0) if self.script else outcome(Action.POST_FINDINGS)
        if isinstance(step, Exception):
            raise step
        played = step if isinstance(step, TurnOutcome) else await step(request, claim)
        await self.turns.finish(claim, played)
        assert played.action
        return TurnEnded(played.action)


@dataclass
class HeldTurn:
    """A turn that goes on until `finish` is set."""

    result: TurnOutcome = field(default_factory=lambda: outcome(Action.POST_FINDINGS))
    began: asyncio.Event = field(default_factory=asyncio.Event)
    finish: asyncio.Event = field(default_factory=asyncio.Event)
    claim: TurnClaim | None = None

    async def __call__(self, _: TurnRequest, claim: TurnClaim) -> TurnOutcome:
        self.claim = claim
        self.began.set()
        await self.finish.wait()
        return self.result


@dataclass
class CaseScene:
    environment: WorkflowEnvironment
    database: Database
    slack: FaultySlack
    agent: Agent
    thread: Thread
    agents_worker: Callable[[], AbstractAsyncContextManager[None]] = contextlib.nullcontext
    """Runs a worker of the agents' queue, for scenes that begin without one."""

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.environment.client.get_workflow_handle(bug_workflow_id(self.thread))

    async def result(self) -> Any:
        """Wait for the end of the case's run.

        The test server sometimes ends the wait without a result; then the wait begins again.

        Raises:
            RuntimeError: the server did so three times.
        """
        for _ in range(2):
            with contextlib.suppress(RuntimeError):  # "No completion event found"
                return await self.handle.result()
        return await self.handle.result()

    async def send(self, message: IncomingMessage) -> None:
        signal = CLOSE_REQUESTED if message.kind == MessageKind.CLOSE else INCOMING_MESSAGE
        state = BugState(thread=self.thread)
        workflow_id = bug_workflow_id(self.thread)
        await deliver(self.environment.client, BUG_WORKFLOW, state, workflow_id, signal, message)

    async def report(self, text: str = "The cart total is wrong") -> None:
        await self.send(
            self.message(MessageKind.REPORT, SenderType.REPORTER, REPORTER, text, self.thread.ts)
        )

    async def reporter(self, text: str, kind: MessageKind = MessageKind.MESSAGE) -> None:
        posted = self.slack.workspace.post(
            identity.REPORTS, REPORTER, text, thread_ts=self.thread.ts
        )
        await self.send(self.message(kind, SenderType.REPORTER, REPORTER, text, posted.ts))

    async def developer(self, text: str) -> None:
        case = await self.case()
        assert case.summary, "there is no summary thread to answer in"
        posted = self.slack.workspace.post(
            identity.SUMMARIES, DEVELOPER, text, thread_ts=case.summary.ts
        )
        await self.send(
            self.message(
                MessageKind.MESSAGE,
                SenderType.DEVELOPER,
                DEVELOPER,
                text,
                posted.ts,
                identity.SUMMARIES,
            )
        )

    async def on_call(self, text: str, number: int = 1) -> str:
        """Post as a developer under an escalation; returns the thread's `ts`."""
        channel = identity.ESCALATIONS
        roots = [
            each
            for each in self.slack.workspace.channel(channel).messages.values()
            if not each.thread_ts
        ]
        root = roots[number - 1].ts
        posted = self.slack.workspace.post(channel, DEVELOPER, text, thread_ts=root)
        await self.send(
            self.message(
                MessageKind.MESSAGE, SenderType.DEVELOPER, DEVELOPER, text, posted.ts, channel
            )
        )
        return root

    def said_under(self, root: str, channel: str = identity.ESCALATIONS) -> list[str]:
        """Return the bot's posts in a thread, oldest first: fallback text with blocks."""
        posts = self.slack.workspace.channel(channel).messages.values()
        return [
            f"{post.text} {post.blocks}"
            for post in posts
            if post.bot_id and post.thread_ts == root
        ]

    async def until_said_under(self, root: str, words: str) -> None:
        async def heard() -> bool:
            return any(words in each for each in self.said_under(root))

        await self.until(heard, f"the bot says {words!r} under the escalation")

    def message(
        self,
        kind: MessageKind,
        sender: SenderType,
        user: str,
        text: str,
        ts: str,
        channel: str = identity.REPORTS,
    ) -> IncomingMessage:
        return IncomingMessage(
            message_id(identity.TEAM, channel, ts), kind, sender, user, text, channel, ts
        )

    async def case(self) -> CaseRecord:
        async with self.database.begin() as tx:
            return await CaseStore(tx).get("BUG-1")

    async def transitions(self) -> Sequence[Transition]:
        async with self.database.begin() as tx:
            return await CaseLists(tx).transitions("BUG-1")

    async def statuses(self) -> list[str]:
        return [step.to for step in await self.transitions()]

    async def texts(self) -> list[str]:
        async with self.database.begin() as tx:
            return [
                entry.text
                for entry in (await CaseMessageStore(tx).page("BUG-1", None, 100)).entries
            ]

    def clock(self) -> WorkflowHandle[Any, Any]:
        """Return the clock of the first escalation."""
        return self.environment.client.get_workflow_handle(sla_workflow_id("BUG-1", 1))

    def times_said(self, words: str, *channels: str) -> int:
        """Count the bot's posts with these words in these channels, by default in the reports
        channel.
        """
        return sum(
            words in said
            for channel in channels or (identity.REPORTS,)
            for said in self.said(channel)
        )

    def said(self, channel: str = identity.REPORTS) -> list[str]:
        """Return the bot's posts in a channel and its threads, oldest first: fallback text with
        blocks.
        """
        posts = self.slack.workspace.channel(channel).messages.values()
        return [f"{post.text} {post.blocks}" for post in posts if post.bot_id]

    async def until(
        self, condition: Callable[[], Awaitable[bool]], what: str, seconds: float = 20
    ) -> None:
        """Wait for a condition, in real time."""
        await until(condition, what, seconds)

    async def until_only_the_turn_runs(self) -> None:
        async def alone() -> bool:
            described = (await self.handle.describe()).raw_description
            running = [each.activity_type.name for each in described.pending_activities]
            return running == ["run_agent_investigation"] and not described.HasField(
                "pending_workflow_task"
            )

        await self.until(alone, "nothing but the turn runs")

    async def until_quiet(self) -> None:
        """Wait until the workflow has nothing under way."""

        async def quiet() -> bool:
            described = (await self.handle.describe()).raw_description
            return not described.pending_activities and not described.HasField(
                "pending_workflow_task"
            )

        await self.until(quiet, "the workflow waits")

    async def until_status(self, *statuses: str) -> None:
        """Wait until the case's statuses end with these."""

        async def ends() -> bool:
            try:
                return tuple(await self.statuses())[-len(statuses) :] == statuses
            except Exception:  # noqa: BLE001 - there is no case yet
                return False

        await self.until(ends, f"the case becomes {' → '.join(statuses)}")

    async def until_said(self, words: str, channel: str = identity.REPORTS) -> None:
        async def heard() -> bool:
            return self.times_said(words, channel) > 0

        await self.until(heard, f"the bot says {words!r}")

    async def until_acknowledged(self) -> None:
        async def acknowledged() -> bool:
            return bool((await self.clock().query("state"))["acknowledged"])

        await self.until(acknowledged, "the clock hears of the developer")

    async def later(self, **duration: float) -> None:
        await skip(self.environment, timedelta(**duration))


def core_deps(
    database: Database,
    temporal: Client,
    slack: SlackClient,
    tiers: Sequence[Sequence[str]] = ((identity.ON_CALL,),),
    bot_name: str = "",
) -> CoreDeps:
    """The clients and stores of the core worker, against the sandbox."""
    users = UserDirectory(slack.user)
    return CoreDeps(
        database,
        temporal,
        slack,
        History(slack),
        users,
        AuthorPolicy(users),
        Outbox(slack, database),
        EventRouter(ROUTING, temporal, ThreadLookup(database)),
        CaseChannels(
            identity.TEAM, identity.BOT_USER, identity.SUMMARIES, identity.ESCALATIONS, tiers
        ),
        BotIdentity(
            identity.TEAM,
            identity.BOT_USER,
            identity.BOT_ID,
            bot_name,
            "https://sandbox.slack.com/",
        ),
        identity.ESCALATIONS,
        identity.REPORTS,
    )


def core_activities(
    database: Database,
    temporal: Client,
    slack: SlackClient,
    *,
    limits: CaseLimits | None = None,
    tiers: Sequence[Sequence[str]] = ((identity.ON_CALL,),),
    repositories: dict[str, str] | None = None,
) -> list[Callable[..., Any]]:
    """The activities that the core worker registers, against the sandbox."""
    deps = core_deps(database, temporal, slack, tiers)
    live, case_sweeps = cases(deps, limits or CaseLimits(), PullRequests(repositories or {}))
    threads = LiveThreadActivities(
        database, slack, identity.BOT_USER, deps.workflows, {"case": case_start}, {}
    )
    workflow_sweeps = WorkflowSweeps(database, deps.workflows)
    all_sweeps = [
        *case_sweeps,
        sweeps.waiting_conversations(workflow_sweeps, CONVERSATION_IDLE_TIMEOUT),
        sweeps.open_handovers(workflow_sweeps),
        sweeps.open_approvals(workflow_sweeps),
        sweeps.open_jobs(JobSchedules(temporal, database, deps.outbox)),
    ]
    sweeping = LiveSweepActivities(database, deps.workflows, all_sweeps)
    return activities_of(*live, threads, catch_up(database, slack, deps.router), sweeping)


ROUTING = RoutingConfig(
    identity.REPORTS,
    identity.SUMMARIES,
    identity.ESCALATIONS,
    identity.BOT_USER,
    identity.BOT_ID,
    team=identity.TEAM,
)
FOLLOWED = {identity.REPORTS: False, identity.SUMMARIES: True, identity.ESCALATIONS: True}


SETTLE_TIME = 0.0
"""Seconds for which the catch-up skips new messages: nothing else delivers them here."""


def catch_up(database: Database, slack: SlackClient, router: EventRouter) -> LiveCatchUpActivities:
    return LiveCatchUpActivities(
        database,
        History(slack),
        router.handle,
        thread_sources(identity.BOT_USER),
        FOLLOWED,
        team=identity.TEAM,
        bot_user_id=identity.BOT_USER,
        faults=InstallationFaults(database, Outbox(slack, database), identity.ESCALATIONS),
        settle_time=SETTLE_TIME,
    )


@asynccontextmanager
async def case_scene(
    database: Database,
    agent_database: Database,
    *script: TurnOutcome | Exception | Play,
    limits: CaseLimits | None = None,
    tiers: Sequence[Sequence[str]] = ((identity.ON_CALL,),),
    repositories: dict[str, str] | None = None,
    server: Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]] = real_time,
    agents_away: bool = False,
) -> AsyncIterator[CaseScene]:
    """A case scene with one report in its channel that is not delivered yet. `agents_away`: no
    worker serves the agents' queue until the test runs `agents_worker`.
    """
    with unhurried():
        async with (
            server() as environment,
            FaultySlack.running() as slack,
            aiohttp.ClientSession() as session,
        ):
            client = SlackClient(make_web_client(identity.BOT_TOKEN, slack.api_url, session))
            agent = Agent(AgentStore(agent_database), list(script))
            activities = core_activities(
                database,
                environment.client,
                client,
                limits=limits,
                tiers=tiers,
                repositories=repositories,
            )
            root = slack.workspace.post(identity.REPORTS, REPORTER, "The cart total is wrong")
            thread = Thread(identity.TEAM, identity.REPORTS, root.ts)

            def agents_worker() -> AbstractAsyncContextManager[None]:
                return worker(environment, [], activities_of(agent), AGENTS_QUEUE)

            async with (
                worker(environment, WORKFLOWS, activities),
                contextlib.nullcontext() if agents_away else agents_worker(),
            ):
                yield CaseScene(environment, database, slack, agent, thread, agents_worker)


StartCase = Callable[..., AbstractAsyncContextManager[CaseScene]]
"""`case_scene` on the test's database."""
