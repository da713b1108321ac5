"""A conversation's workflow on its real parts: Temporal, Postgres, the Slack sandbox; a scripted model and tools."""

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
from threadline.conversations.store.transcript import TranscriptStore, decode_message
from threadline.conversations.store.turns import SettledTurn, TurnStore
from threadline.db.engine import Database, Transaction
from threadline.handovers.activities import HandoverSettings, LiveHandoverActivities
from threadline.handovers.store import HandoverStore
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
from threadline.threads.model import INCOMING_MESSAGE, IncomingMessage, MessageKind, SenderType, edit_id, message_id
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

ANNA, BEN = REPORTER, DEVELOPER
HANDOVERS = SUMMARIES
"""The channel in which people take threads over."""
APART = 150.0
"""Seconds between two messages: the guards take neither for a repetition nor for too much."""
Result = TypeVar("Result")
Hook = Callable[[], Awaitable[object]]
Use = Exception | Callable[[ToolContext], Awaitable[object]]
"""What a scripted tool does; what it returns is what people are told of it."""

READING = ("look", "read", "rfp.get", "opportunity.load", "estimates.getProjectDetails", "estimates.listRoles")
BINDING = ("use",)
CRITICAL = ("calendar.book", "crm.update")
CHANGING = (
    *("create", "update", "ci.rerun", "estimates.createWbsItems", *CRITICAL),
    *("opportunity.patch", "journal.append", "slack.post.summary", "propose.action"),
)
_KINDS = {each.name: each.kind for each in TOOLS}


class Steps(Interceptor):
    """Gives tests a hand in every activity, and in what `think` goes on to, and keeps what each attempt was asked."""

    def __init__(self) -> None:
        self.before: dict[str, list[Hook]] = {}
        """By an activity's name: what happens before it runs, once each."""
        self.after: dict[str, list[Hook]] = {}
        """What happens after it has written and before it answers, once each."""
        self.asked: list[tuple[str, Any]] = []

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 - Temporal's name
        return _Step(next, self)

    async def run(self, name: str, request: Any, work: Callable[[], Awaitable[Result]]) -> Result:
        self.asked.append((name, request))
        await _next(self.before.get(name))
        result = await work()
        await _next(self.after.get(name))
        return result


class _Activities(LiveConversationActivities):
    """What `think` goes on to is a step as well."""

    def __init__(self, deps: ConversationDeps, steps: Steps) -> None:
        super().__init__(deps)
        self._steps = steps

    async def act(self, request: ActRequest) -> list[Execution]:
        return await self._step("act", request, partial(super().act, request))

    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        return await self._step("finish_turn", request, partial(super().finish_turn, request))

    async def _step(self, name: str, request: Any, work: Callable[[], Awaitable[Result]]) -> Result:
        own = activity.info().activity_type == name
        return await (work() if own else self._steps.run(name, request, work))


class _Step(ActivityInboundInterceptor):
    def __init__(self, next: ActivityInboundInterceptor, steps: Steps) -> None:  # noqa: A002 - Temporal's name
        super().__init__(next)
        self._steps = steps

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 - Temporal's name
        name, request = activity.info().activity_type, input.args[0]
        REQUEST.set(request)
        return await self._steps.run(name, request, partial(super().execute_activity, input))


async def _next(hooks: list[Hook] | None) -> None:
    if hooks:
        await hooks.pop(0)()


@dataclass
class ConversationScene:
    """A thread whose conversation nobody has begun yet, and the people in it."""

    environment: WorkflowEnvironment
    database: Database
    slack: FaultySlack
    thread: Thread
    model: ScriptedModel
    steps: Steps
    clock: Clock
    """Slack's, which goes on with each message of a person."""
    tools: dict[str, Use]
    """By a tool's name: what it does; any other says that it is done."""
    documents: Documents = field(default_factory=Documents)
    activities: Sequence[Callable[..., Any]] = ()
    ran: list[str] = field(default_factory=list)
    """Ids of calls, each time a tool itself ran."""
    under_way: int = 0
    most_under_way: int = 0
    hanging: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    # -- what people do ----------------------------------------------------------------------------------------------

    def message(
        self,
        text: str,
        user: str = ANNA,
        kind: MessageKind = MessageKind.MESSAGE,
        *,
        addressed: bool = True,
        apart: float = APART,
    ) -> IncomingMessage:
        """Posted in Slack now, after whatever was said before."""
        self.clock.now += apart
        ts = self.slack.workspace.post(self.thread.channel, user, text, thread_ts=self.thread.ts).ts
        identity = message_id(self.thread.team, self.thread.channel, ts)
        return IncomingMessage(
            identity, kind, SenderType.UNKNOWN, user, text, self.thread.channel, ts, addressed=addressed
        )

    def edit(self, original: IncomingMessage, text: str) -> IncomingMessage:
        version = f"{float(original.ts) + 1:.6f}"
        identity = edit_id(self.thread.team, self.thread.channel, original.ts, version)
        return replace(
            original, id=identity, kind=MessageKind.EDIT, text=text, correction_of=original.id, version=version
        )

    async def send(self, message: IncomingMessage) -> None:
        """As the gateway does."""
        state, identity = ConversationInput(self.thread), conversation_workflow_id(self.thread)
        client, signal = self.environment.client, INCOMING_MESSAGE
        await deliver(client, CONVERSATION_WORKFLOW, state, identity, signal, message)

    async def say(self, text: str, user: str = ANNA, *, addressed: bool = True) -> IncomingMessage:
        message = self.message(text, user, addressed=addressed)
        await self.send(message)
        return message

    async def ask(self, text: str, user: str = ANNA) -> str:
        """Say something to the bot, and wait for the answer of the next turn."""
        turn = (await self.snapshot()).turn + 1
        await self.say(text, user)
        return await self.until_said(turn)

    async def settled_unposted(self, text: str, turn: int) -> None:
        """Say something to the bot whose answer is settled and not in Slack yet: it wants no post for ten minutes."""
        self.slack.faults.rate_limit("chat.postMessage", retry_after=600)
        await self.say(text)
        await self.until_settled(turn)
        await self.until(lambda: not self.slack.faults.ordered("chat.postMessage"), "Slack has put the answer off")

    async def stop(self) -> None:
        await self.send(self.message("stop", kind=MessageKind.STOP))

    async def stop_heard(self) -> None:
        """Say to stop, and wait until the workflow has heard it."""
        stored = await self.stored()
        await self.stop()
        await self.until_stored(stored + 1)

    async def thumb(self, reaction: str, user: str, kind: MessageKind = MessageKind.REACTION_ADDED) -> None:
        """Somebody puts a thumb on the first answer, or takes it away."""
        answer = next(each for each in self.slack.workspace.channel(GENERAL).messages.values() if each.bot_id)
        about = message_id(TEAM, GENERAL, answer.ts)
        await self.send(replace(self.message(reaction, user, kind, addressed=False), correction_of=about))

    async def hand_over(self) -> None:
        """The last turn is given to a person."""
        async with self.database.begin() as tx:
            await HandoverStore(tx).open(self.thread, (await ConversationStore(tx).snapshot(self.thread)).turn, ANNA)

    async def take_over(self) -> None:
        """Ben takes the open handover, or the last turn without one."""
        await self.hand_over()
        async with self.database.begin() as tx:
            await HandoverStore(tx).take(await self._open_handover(tx), BEN)

    async def close_handover(self) -> None:
        async with self.database.begin() as tx:
            await HandoverStore(tx).close(await self._open_handover(tx), BEN)

    async def _open_handover(self, tx: Transaction) -> ConversationTurn:
        handover = await HandoverStore(tx).open_for(self.thread)
        assert handover, "nobody has asked for a person"
        return handover.ref

    async def rfp(self) -> str:
        """The id of a new RFP."""
        change = Change(Operation(self.thread, 1, 1, "rfp"), Author(ANNA, "corr-1"), time.time())
        async with self.database.begin() as tx:
            made = await RfpStore(tx).create(change, RfpFacts("A crane", "Harbour"))
        return made.rfp.rfp_id

    async def crowd(self) -> None:
        """Fill the first turn's transcript with more than the model is to read."""
        entries = [(f"t:1:9:{number}", Message(Role.USER, f"{number}.")) for number in range(30)]
        async with self.database.begin() as tx:
            await TranscriptStore(tx).append(self.thread, 1, 9, entries)

    async def forever(self) -> Any:
        """Hang until the scene is over."""
        await self.over.wait()
        raise asyncio.CancelledError

    async def hang(self, *_: object) -> Any:
        """A reply, a tool or a hook that says it has begun and hangs until the scene is over."""
        self.hanging.set()
        return await self.forever()

    # -- what Slack shows --------------------------------------------------------------------------------------------

    @property
    def said(self) -> dict[int, str]:
        """The answers that Slack shows, by turn, in the order in which they were posted."""
        parts: dict[int, str] = {}
        for key, text in self.conversation_posts():
            kind, about = key
            if kind == "turn":
                parts[int(about)] = parts.get(int(about), "") + text
        return parts

    @property
    def words(self) -> list[tuple[str, str]]:
        """Short texts beside the answers: their kind, and what each is about."""
        return [key for key, _ in self.conversation_posts() if key[0] != "turn"]

    def conversation_posts(self) -> list[tuple[tuple[str, str], str]]:
        """What the conversation has posted in its thread: the kind, what it is about, and the text."""
        start, found = f"conversation:{self.thread.key}:", []
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
        """What the bot has posted in a channel and its threads, oldest first."""
        return [each.text for each in self.slack.workspace.channel(channel).messages.values() if each.bot_id]

    # -- what was asked for ------------------------------------------------------------------------------------------

    @property
    def asked(self) -> list[ThinkRequest]:
        """Each time the model was asked to think."""
        return self.model.asked

    def requests(self, *names: str) -> list[Any]:
        """What each attempt at these activities was asked."""
        return [request for name, request in self.steps.asked if name in names]

    def names(self, *names: str) -> list[str]:
        """Which of these activities ran, each attempt, in order."""
        return [name for name, _ in self.steps.asked if name in names]

    @property
    def status(self) -> str:
        """What Slack shows under the thread."""
        return self.slack.workspace.status(self.thread.channel, self.thread.ts)

    @property
    def statuses(self) -> list[str]:
        """What each step was to show."""
        return [each.status for each in self.requests("decide", "think", "act") if each.status]

    def settlement(self, turn: int) -> FinishRequest:
        """With what a turn was settled first."""
        found: FinishRequest = next(each for each in self.requests("finish_turn") if each.turn == turn)
        return found

    # -- what is on record -------------------------------------------------------------------------------------------

    async def rows(self, query: str) -> Sequence[Any]:
        async with self.database.begin() as tx:
            return (await tx.execute(sql(query))).all()

    async def snapshot(self) -> ConversationSnapshot:
        async with self.database.begin() as tx:
            return await ConversationStore(tx).snapshot(self.thread)

    async def stored(self) -> int:
        """How many messages of people, corrections and words to stop are stored."""
        return len(await self.rows("SELECT 1 FROM conversation_messages"))

    async def prompts(self) -> list[tuple[int, str]]:
        """What the model was shown of people, with the turn that took it up."""
        rows = await self.rows(
            "SELECT turn, body FROM transcript_entries WHERE key LIKE 'u:%' AND step > 0 ORDER BY position"
        )
        return [(each.turn, decode_message(each.body).content) for each in rows]

    async def settled(self, turn: int) -> SettledTurn | None:
        async with self.database.begin() as tx:
            return await TurnStore(tx).settled(self.thread, turn)

    async def answers(self) -> dict[int, str]:
        """The answers that were posted, as they are stored, by turn and in the order of posting."""
        rows = await self.rows(
            "SELECT turn, answer FROM conversation_turns WHERE posted_at IS NOT NULL ORDER BY posted_at"
        )
        return {each.turn: each.answer for each in rows if each.answer}

    async def costs(self, purpose: str) -> list[int]:
        """The turns in which the model was paid for something, each call of it."""
        rows = await self.rows("SELECT turn, purpose FROM model_calls ORDER BY id")
        return [each.turn for each in rows if each.purpose == purpose]

    async def handovers(self) -> list[tuple[int, str]]:
        """Turns that a person is to take over, and who has."""
        return [tuple(each) for each in await self.rows("SELECT turn, taken_by FROM handovers ORDER BY turn")]

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition, which may be asynchronous."""

        async def holds() -> bool:
            found = condition()
            return bool(await found if inspect.isawaitable(found) else found)

        await until(holds, what)

    async def until_said(self, turn: int) -> str:
        """Wait for the answer of a turn, and until its workflow can know that it was posted."""

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
        """Wait until Temporal's UI shows something."""

        async def shown() -> bool:
            return words in await self.details()

        await until(shown, f"the UI says {words!r}")

    async def until_idle(self) -> None:
        await self.until_known("Idle since ")

    # -- Temporal ----------------------------------------------------------------------------------------------------

    @property
    def handle(self) -> WorkflowHandle[Any, Any]:
        return self.environment.client.get_workflow_handle(conversation_workflow_id(self.thread))

    async def details(self) -> str:
        answer: WorkflowMetadata = await self.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
        return answer.current_details

    async def events(self) -> list[Any]:
        return list((await self.handle.fetch_history()).events)

    async def later(self, **duration: float) -> None:
        await skip(self.environment, timedelta(**duration))

    def working(self) -> AbstractAsyncContextManager[None]:
        """A worker for as long as the block lasts."""
        return worker(self.environment, WORKFLOWS, self.activities, interceptors=[self.steps])

    # -- the scripted tools ------------------------------------------------------------------------------------------

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
        binds, critical = name in BINDING, name in CRITICAL
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
    """A conversation with a worker; the model gives these replies, and after them says that it is done.

    Args:
        decides: the decision engine has a say; without, each turn goes on to its agent.
        working: have a worker from the start.
    """
    clock = Clock()
    clock.now = time.time()
    async with server() as environment, FaultySlack.running(clock=clock) as slack, aiohttp.ClientSession() as session:
        root = slack.workspace.post(GENERAL, ANNA, "Good morning")
        thread, model = Thread(TEAM, GENERAL, root.ts), ScriptedModel(list(replies))
        scene = ConversationScene(environment, database, slack, thread, model, Steps(), clock, dict(tools or {}))
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
    """Those of the product over the scene's model and tools; see `threadline.wiring.workers`."""
    database = scene.database
    outbox, users = Outbox(slack, database), UserDirectory(slack.user)
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
