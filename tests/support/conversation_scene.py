"""A conversation's workflow on its real parts: Temporal, Postgres, the Slack sandbox; a scripted
model and tools.
"""

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import aiohttp
from sqlalchemy import text as sql
from temporalio import activity
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.client import WorkflowHandle
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from tests.support.decision_activities import Documents
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.scripted_model import REQUEST, Reply, ScriptedModel
from tests.support.slack import Clock
from tests.support.temporal import deliver, real_time, skip, until, worker
from tests.support.tool_fakes import unheld
from tests.support.unhurried import unhurried
from threadline.cases.model import CaseReaders
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import ActRequest, FinishedTurn, FinishRequest, ThinkRequest
from threadline.conversations.deps import ConversationDeps, DecisionDeps
from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    ConversationInput,
    ConversationLimits,
    ConversationSnapshot,
    ConversationTurn,
    Execution,
    conversation_workflow_id,
)
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.transcript import TranscriptStore, decode_message
from threadline.conversations.store.turns import SettledTurn, TurnStore
from threadline.db.engine import Database, Transaction
from threadline.handovers.activities import HandoverSettings, LiveHandoverActivities
from threadline.models.model import Message, Role, ToolKind
from threadline.operator.context import SlackContext
from threadline.rfps.model import RfpFacts
from threadline.rfps.store import RfpStore
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.model import Thread, User
from threadline.slack.users import UserDirectory
from threadline.threads.activity_options import activities_of
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.model import (
    INCOMING_MESSAGE,
    IncomingMessage,
    MessageKind,
    SenderType,
    edit_id,
    message_id,
)
from threadline.threads.outbox import Outbox
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import ToolContext
from threadline.tools.model import Author, Change, Operation, ToolResult
from threadline.tools.registry import Tool, ToolRegistry, tool
from threadline.tools.store import ToolLedger
from threadline.wiring.temporal import WORKFLOWS
from threadline.wiring.toolsets import TOOLS
from threadline_devstack.slack.identity import (
    BOT_TOKEN,
    DEVELOPER,
    ESCALATIONS,
    GENERAL,
    REPORTER,
    SUMMARIES,
    TEAM,
)

ANNA = REPORTER
BEN = DEVELOPER
HANDOVERS = SUMMARIES
"""The channel in which people take over threads."""
APART = 150.0
"""Seconds between two messages, so that the guards see neither a repetition nor a rate above the
limit.
"""
Result = TypeVar("Result")
Hook = Callable[[], Awaitable[object]]
Use = Exception | Callable[[ToolContext], Awaitable[object]]
"""The behaviour of a scripted tool; its result is the text that people see."""

READING = (
    "look",
    "read",
    "rfp.get",
    "opportunity.load",
    "estimates.getProjectDetails",
    "estimates.listRoles",
)
BINDING = ("use",)
CRITICAL = ("calendar.book", "crm.update")
CHANGING = (
    *("create", "update", "ci.rerun", "estimates.createWbsItems", *CRITICAL),
    *("opportunity.patch", "journal.append", "slack.post.summary", "propose.action"),
)
_KINDS = {each.name: each.kind for each in TOOLS}


class Steps(Interceptor):
    """Gives tests a hook in every activity and in the functions that `think` calls next, and keeps
    the request of each attempt.
    """

    def __init__(self) -> None:
        self.before: dict[str, list[Hook]] = {}
        """By an activity's name: hooks that run before it, once each."""
        self.after: dict[str, list[Hook]] = {}
        """By an activity's name: hooks that run after its write and before its return, once each.
        """
        self.asked: list[tuple[str, Any]] = []

    def intercept_activity(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
    ) -> ActivityInboundInterceptor:
        return _Step(next, self)

    async def run(self, name: str, request: Any, work: Callable[[], Awaitable[Result]]) -> Result:
        self.asked.append((name, request))
        await _next(self.before.get(name))
        result = await work()
        await _next(self.after.get(name))
        return result


class _Activities(LiveConversationActivities):
    """Makes steps of the functions that `think` calls next, too."""

    def __init__(self, deps: ConversationDeps, steps: Steps) -> None:
        super().__init__(deps)
        self._steps = steps

    async def act(self, request: ActRequest) -> list[Execution]:
        return await self._step("act", request, partial(super().act, request))

    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        return await self._step("finish_turn", request, partial(super().finish_turn, request))

    async def _step(
        self, name: str, request: Any, work: Callable[[], Awaitable[Result]]
    ) -> Result:
        own = activity.info().activity_type == name
        return await (work() if own else self._steps.run(name, request, work))


class _Step(ActivityInboundInterceptor):
    def __init__(
        self,
        next: ActivityInboundInterceptor,  # noqa: A002 - Temporal's name
        steps: Steps,
    ) -> None:
        super().__init__(next)
        self._steps = steps

    async def execute_activity(
        self,
        input: ExecuteActivityInput,  # noqa: A002 - Temporal's name
    ) -> Any:
        name = activity.info().activity_type
        request = input.args[0]
        REQUEST.set(request)
        return await self._steps.run(name, request, partial(super().execute_activity, input))


async def _next(hooks: list[Hook] | None) -> None:
    if hooks:
        await hooks.pop(0)()


@dataclass
class ConversationScene:
    """A thread without a conversation yet, and the people in it."""

    environment: WorkflowEnvironment
    database: Database
    slack: FaultySlack
    thread: Thread
    model: ScriptedModel
    steps: Steps
    clock: Clock
    """Slack's clock, which each message of a person moves on."""
    tools: dict[str, Use]
    """By a tool's name: its behaviour; any other tool answers that it is done."""
    documents: Documents = field(default_factory=Documents)
    activities: Sequence[Callable[..., Any]] = ()
    ran: list[str] = field(default_factory=list)
    """The id of a call, for each time that a tool itself ran."""
    under_way: int = 0
    most_under_way: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    # -- people's actions

    def message(
        self,
        text: str,
        user: str = ANNA,
        kind: MessageKind = MessageKind.MESSAGE,
        *,
        addressed: bool = True,
        apart: float = APART,
    ) -> IncomingMessage:
        """Post a message in Slack now, after all earlier ones."""
        self.clock.now += apart
        ts = self.slack.workspace.post(
            self.thread.channel, user, text, thread_ts=self.thread.ts
        ).ts
        identity = message_id(self.thread.team, self.thread.channel, ts)
        return IncomingMessage(
            identity,
            kind,
            SenderType.UNKNOWN,
            user,
            text,
            self.thread.channel,
            ts,
            addressed=addressed,
        )

    def edit(self, original: IncomingMessage, text: str) -> IncomingMessage:
        version = f"{float(original.ts) + 1:.6f}"
        identity = edit_id(self.thread.team, self.thread.channel, original.ts, version)
        return replace(
            original,
            id=identity,
            kind=MessageKind.EDIT,
            text=text,
            correction_of=original.id,
            version=version,
        )

    async def send(self, message: IncomingMessage) -> None:
        """Send it as the gateway does."""
        state = ConversationInput(self.thread)
        identity = conversation_workflow_id(self.thread)
        client = self.environment.client
        signal = INCOMING_MESSAGE
        await deliver(client, CONVERSATION_WORKFLOW, state, identity, signal, message)

    async def say(self, text: str, user: str = ANNA, *, addressed: bool = True) -> IncomingMessage:
        message = self.message(text, user, addressed=addressed)
        await self.send(message)
        return message

    async def ask(self, text: str, user: str = ANNA) -> str:
        """Post a message to the bot, and wait for the answer of the next turn."""
        turn = (await self.snapshot()).turn + 1
        await self.say(text, user)
        return await self.until_said(turn)

    async def settled_unposted(self, text: str, turn: int) -> None:
        """Post a message to the bot, and settle its answer without a post in Slack: the answer
        wants no post for ten minutes.
        """
        self.slack.faults.rate_limit("chat.postMessage", retry_after=600)
        await self.say(text)
        await self.until_settled(turn)
        await self.until(
            lambda: not self.slack.faults.ordered("chat.postMessage"),
            "Slack has put the answer off",
        )

    async def stop(self) -> None:
        await self.send(self.message("stop", kind=MessageKind.STOP))

    async def stop_heard(self) -> None:
        """Say to stop, and wait until the workflow has received it."""
        stored = await self.stored()
        await self.stop()
        await self.until_stored(stored + 1)

    async def thumb(
        self, reaction: str, user: str, kind: MessageKind = MessageKind.REACTION_ADDED
    ) -> None:
        """Add a thumb to the first answer, or remove it."""
        answer = next(
            each for each in self.slack.workspace.channel(GENERAL).messages.values() if each.bot_id
        )
        about = message_id(TEAM, GENERAL, answer.ts)
        await self.send(
            replace(self.message(reaction, user, kind, addressed=False), correction_of=about)
        )

    async def hand_over(self) -> None:
        """Hand the last turn over to a person."""
        async with self.database.begin() as tx:
            await HandoverStore(tx).open(
                self.thread, (await ConversationStore(tx).snapshot(self.thread)).turn, ANNA
            )

    async def take_over(self) -> None:
        """Let Ben take the open handover, or the last turn without one."""
        await self.hand_over()
        async with self.database.begin() as tx:
            await HandoverStore(tx).take(await self._open_handover(tx), BEN)

    async def close_handover(self) -> None:
        async with self.database.begin() as tx:
            await HandoverStore(tx).close(await self._open_handover(tx), BEN)

    async def _open_handover(self, tx: Transaction) -> ConversationTurn:
        handover = await HandoverStore(tx).open_for(self.thread)
        assert handover, "no turn asks for a person"
        return handover.ref

    async def rfp(self) -> str:
        """Create an RFP, and return its id."""
        change = Change(Operation(self.thread, 1, 1, "rfp"), Author(ANNA, "corr-1"), time.time())
        async with self.database.begin() as tx:
            made = await RfpStore(tx).create(change, RfpFacts("A crane", "Harbour"))
        return made.rfp.rfp_id

    async def crowd(self) -> None:
        """Fill the first turn's transcript with more than fits into the prompt."""
        entries = [(f"t:1:9:{number}", Message(Role.USER, f"{number}.")) for number in range(30)]
        async with self.database.begin() as tx:
            await TranscriptStore(tx).append(self.thread, 1, 9, entries)

    async def forever(self) -> Any:
        """Hang until the scene is over."""
        await self.over.wait()
        raise asyncio.CancelledError

    async def hang(self, *_: object) -> Any:
        """Make a reply, a tool or a hook that reports its start and hangs until the scene is
        over.
        """
        self.hanging.set()
        return await self.forever()

    # -- posts that Slack shows

    @property
    def said(self) -> dict[int, str]:
        """The answers that Slack shows, by turn, in the order of posting."""
        parts: dict[int, str] = {}
        for key, text in self.conversation_posts():
            kind, about = key
            if kind == "turn":
                parts[int(about)] = parts.get(int(about), "") + text
        return parts

    @property
    def words(self) -> list[tuple[str, str]]:
        """Short texts beside the answers: each text's kind and subject."""
        return [key for key, _ in self.conversation_posts() if key[0] != "turn"]

    def conversation_posts(self) -> list[tuple[tuple[str, str], str]]:
        """The posts of the conversation in its thread: kind, subject and text."""
        start = f"conversation:{self.thread.key}:"
        found = []
        for each in self.slack.workspace.channel(self.thread.channel).messages.values():
            key = str((each.metadata or {}).get("event_payload", {}).get("key", ""))
            if key.startswith(start):
                kind, _, about = key.removeprefix(start).partition(":")
                found.append(((kind, about.partition("#")[0]), each.text))
        return found

    @property
    def marked(self) -> dict[str, list[str]]:
        """The reactions that Slack shows, each with the `ts` of its messages."""
        found: dict[str, list[str]] = {}
        for each in self.slack.workspace.channel(self.thread.channel).messages.values():
            for name in each.reactions:
                found.setdefault(name, []).append(each.ts)
        return found

    def posted(self, channel: str) -> list[str]:
        """The bot's posts in a channel and its threads, oldest first."""
        return [
            each.text
            for each in self.slack.workspace.channel(channel).messages.values()
            if each.bot_id
        ]

    # -- requests to activities

    @property
    def asked(self) -> list[ThinkRequest]:
        """Each request to think."""
        return self.model.asked

    def requests(self, *names: str) -> list[Any]:
        """The request of each attempt at these activities."""
        return [request for name, request in self.steps.asked if name in names]

    def names(self, *names: str) -> list[str]:
        """The names of these activities, one for each attempt, in order."""
        return [name for name, _ in self.steps.asked if name in names]

    @property
    def status(self) -> str:
        """The status that Slack shows under the thread."""
        return self.slack.workspace.status(self.thread.channel, self.thread.ts)

    @property
    def statuses(self) -> list[str]:
        """The statuses that the steps asked for."""
        return [each.status for each in self.requests("decide", "think", "act") if each.status]

    def settlement(self, turn: int) -> FinishRequest:
        """The first settlement of a turn."""
        found: FinishRequest = next(
            each for each in self.requests("finish_turn") if each.turn == turn
        )
        return found

    # -- rows in the database

    async def rows(self, query: str) -> Sequence[Any]:
        async with self.database.begin() as tx:
            return (await tx.execute(sql(query))).all()

    async def snapshot(self) -> ConversationSnapshot:
        async with self.database.begin() as tx:
            return await ConversationStore(tx).snapshot(self.thread)

    async def stored(self) -> int:
        """Count the stored messages, corrections and words to stop of people."""
        return len(await self.rows("SELECT 1 FROM conversation_messages"))

    async def prompts(self) -> list[tuple[int, str]]:
        """People's words in the model's transcript, each with the turn that took it up."""
        rows = await self.rows(
            "SELECT turn, body FROM transcript_entries WHERE key LIKE 'u:%' AND step > 0 "
            "ORDER BY position"
        )
        return [(each.turn, decode_message(each.body).content) for each in rows]

    async def settled(self, turn: int) -> SettledTurn | None:
        async with self.database.begin() as tx:
            return await TurnStore(tx).settled(self.thread, turn)

    async def answers(self) -> dict[int, str]:
        """The posted answers as they are stored, by turn and in the order of posting."""
        rows = await self.rows(
            "SELECT turn, answer FROM conversation_turns WHERE posted_at IS NOT NULL ORDER "
            "BY posted_at"
        )
        return {each.turn: each.answer for each in rows if each.answer}

    async def costs(self, purpose: str) -> list[int]:
        """The turns in which a model call was paid for, one entry for each call."""
        rows = await self.rows("SELECT turn, purpose FROM model_calls ORDER BY id")
        return [each.turn for each in rows if each.purpose == purpose]

    async def handovers(self) -> list[tuple[int, str]]:
        """Turns that wait for a person, and the person who took each."""
        return [
            tuple(each)
            for each in await self.rows("SELECT turn, taken_by FROM handovers ORDER BY turn")
        ]

    # -- waiting

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition, which may be asynchronous."""

        async def holds() -> bool:
            found = condition()
            return bool(await found if inspect.isawaitable(found) else found)

        await until(holds, what)

    async def until_said(self, turn: int) -> str:
        """Wait for the answer of a turn, and until its workflow can know of the post."""

        async def said() -> bool:
            settled = await self.settled(turn) if turn in self.said else None
            return settled is not None and settled.posted_at is not None

        await self.until(said, f"turn {turn} is answered")
        return self.said[turn]

    async def until_settled(self, turn: int) -> SettledTurn:
        await self.until(lambda: self.settled(turn), f"turn {turn} is settled")
        settled = await self.settled(turn)
        assert settled
        return settled

    async def until_stored(self, count: int) -> None:
        """Wait until so many messages are stored, and until the workflow knows it."""

        async def there() -> bool:
            return await self.stored() == count

        async def known() -> bool:
            return int((await self.handle.query("state"))["pending"]) == 0

        await self.until(there, f"{count} messages are stored")
        await self.until(known, "the workflow knows that they are stored")

    async def until_known(self, words: str) -> None:
        """Wait until Temporal's UI shows a text."""

        async def shown() -> bool:
            return words in await self.details()

        await until(shown, f"the UI says {words!r}")

    async def until_idle(self) -> None:
        await self.until_known("Idle since ")

    # -- Temporal

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.environment.client.get_workflow_handle(conversation_workflow_id(self.thread))

    async def details(self) -> str:
        answer: WorkflowMetadata = await self.handle.query(
            "__temporal_workflow_metadata", result_type=WorkflowMetadata
        )
        return answer.current_details

    async def events(self) -> list[Any]:
        return list((await self.handle.fetch_history()).events)

    async def later(self, **duration: float) -> None:
        await skip(self.environment, timedelta(**duration))

    def working(self) -> AbstractAsyncContextManager[None]:
        """Run a worker for as long as the block lasts."""
        return worker(self.environment, WORKFLOWS, self.activities, interceptors=[self.steps])

    # -- the scripted tools

    def registry(self) -> ToolRegistry:
        return ToolRegistry(self._tool(name) for name in (*READING, *BINDING, *CHANGING))

    def _tool(self, name: str) -> Tool:
        async def run(context: ToolContext, *, rfp_id: str = "", text: str = "") -> object:
            self.ran.append(context.call_id)
            self.under_way += 1
            self.most_under_way = max(self.most_under_way, self.under_way)
            try:
                told = await self._use(self.tools.get(name), context)
            finally:
                self.under_way -= 1
            return told if isinstance(told, ToolResult) else ToolResult(display_text=str(told))

        kind = _KINDS.get(name, ToolKind.CHANGE if name in CHANGING else ToolKind.READ)
        binds = name in BINDING
        critical = name in CRITICAL
        return tool(
            name,
            f"Does {name}.",
            kind=kind,
            binds_record=binds,
            critical=critical,
            remote=True,
        )(run)

    async def _use(self, use: Use | None, context: ToolContext) -> object:
        if isinstance(use, Exception):
            raise use
        return await use(context) if use else "done"


@asynccontextmanager
async def conversation(
    database: Database,
    *replies: Reply,
    limits: ConversationLimits | None = None,
    tools: Mapping[str, Use] | None = None,
    decides: bool = False,
    server: Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]] = real_time,
    working: bool = True,
) -> AsyncIterator[ConversationScene]:
    """A conversation with a worker; the model gives these replies, and then answers that it is
    done.

    Args:
        decides: the decision engine decides; without it, each turn goes straight to its agent.
        working: run a worker from the start.
    """
    clock = Clock()
    clock.now = time.time()
    with unhurried():
        async with (
            server() as environment,
            FaultySlack.running(clock=clock) as slack,
            aiohttp.ClientSession() as session,
        ):
            root = slack.workspace.post(GENERAL, ANNA, "Good morning")
            thread = Thread(TEAM, GENERAL, root.ts)
            model = ScriptedModel(list(replies))
            scene = ConversationScene(
                environment, database, slack, thread, model, Steps(), clock, dict(tools or {})
            )
            client = SlackClient(make_web_client(BOT_TOKEN, slack.api_url, session))
            scene.activities = _activities(scene, client, limits or ConversationLimits(), decides)
            async with scene.working() if working else contextlib.nullcontext():
                try:
                    yield scene
                finally:
                    scene.over.set()


def _activities(
    scene: ConversationScene, slack: SlackClient, limits: ConversationLimits, decides: bool
) -> list[Callable[..., Any]]:
    """The product's activities over the scene's model and tools; see
    `threadline.wiring.workers`.
    """
    database = scene.database
    outbox = Outbox(slack, database)
    users = UserDirectory(slack.user)
    authors = AuthorPolicy(users)
    deps = ConversationDeps(
        database,
        slack,
        outbox,
        users,
        FailureAlerts(outbox, ESCALATIONS),
        scene.model,
        scene.registry(),
        unheld(),
        ToolLedger(database),
        DecisionDeps(scene.model if decides else None, _lead, scene.documents),
        SlackContext(users, History(slack), authors),
        limits=limits,
        bot_name="polaris",
    )
    workflows = WorkflowClient(scene.environment.client)
    settings = HandoverSettings(HANDOVERS, CaseReaders((), ""))
    handovers = LiveHandoverActivities(database, slack, outbox, authors, workflows, settings)
    return [
        *activities_of(_Activities(deps, scene.steps)),
        *activities_of(handovers),
    ]


async def _lead(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    return f"Somebody ({user_id})"
