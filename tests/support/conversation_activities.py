"""A conversation on its real parts: Postgres, OpenAI's wire, Slack's. Only the model's words are
scripted.
"""

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, TypeVar

import aiohttp
import pytest
from sqlalchemy import text
from temporalio.testing import ActivityEnvironment

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.lone_turn import LoneTurn
from tests.support.role_fakes import with_roles
from tests.support.tool_fakes import unheld
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import (
    ActRequest,
    BegunTurn,
    FinishRequest,
    StoredMessages,
    StoreRequest,
    ThinkRequest,
    Thought,
)
from threadline.conversations.deps import ConversationDeps, DecisionDeps
from threadline.conversations.model.conversation import (
    ConversationOutcome,
    ConversationSnapshot,
    ConversationTurn,
    Execution,
)
from threadline.conversations.prompt import ContextBudget
from threadline.conversations.store.transcript import TranscriptStore
from threadline.db.engine import Database, Transaction
from threadline.errors import InternalError, Permanent, Transient
from threadline.knowledge.model import Retrieval, Source
from threadline.models.client import OpenAIConfig, OpenAIModel
from threadline.models.model import ChatModel, Message, ModelReply, ToolCall, ToolChoice, ToolKind
from threadline.operator.context import SlackContext
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.model import Thread, User
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.authors import AuthorPolicy
from threadline.threads.faults import InstallationFaults
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline.threads.outbox import Outbox
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import RecordGroup, ToolResult
from threadline.tools.registry import ToolRegistry, tool
from threadline.tools.store import ToolLedger
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import BOT_TOKEN, ESCALATIONS, GENERAL, REPORTER, TEAM
from threadline_devstack.slack.model import SandboxMessage as SlackMessage

KEY = "sk-proj-never-to-be-told-0123456789"
Result = TypeVar("Result")
RAN: list[str] = []
"""Changes that the tools below made during a test."""


@tool("lamps.list", "List the lamps.", remote=True)
async def list_lamps(context: ToolContext) -> ToolResult:
    RAN.append("list")
    return ToolResult(
        data={"lamps": [{"lamp_id": "N-1"}, {"lamp_id": "N-2"}]},
        display_text="There are two lamps.",
    )


@tool("lamps.create", "Create a lamp.", kind=ToolKind.CHANGE, remote=True)
async def create_lamp(context: ToolContext, *, title: str) -> ToolResult:
    RAN.append(f"create by {context.actor} for {context.user_id} at {context.operation_key}")
    record = {"id": "N-3", "title": title}
    return ToolResult(data=record, structured=(RecordGroup("appointments", (record,)),))


@tool("lamps.break", "Break the lamps.", remote=True)
async def break_lamps(context: ToolContext) -> None:
    RAN.append("break")
    raise RuntimeError("postgres://u:p@db.internal:5432/lamps")


@tool("lamps.dump", "Dump everything.", remote=True)
async def dump(context: ToolContext) -> str:
    return "x" * 2_000_000


async def answer_about_lamps(turn: ScriptTurn) -> None:
    """List and create lamps in the order that the newest message gives, and report each result."""
    done = []
    for verb in re.findall(r"\b(list|create)\b", turn.prompt.lower()):
        if f"lamps_{verb}" in turn.tools:
            await turn.call(f"lamps_{verb}", **({"title": "Milk"} if verb == "create" else {}))
            done.append(verb)
    await turn.text_only(f"Done: {', then '.join(done)}." if done else "I can help with lamps.")


REGISTRY = ToolRegistry([list_lamps, create_lamp, break_lamps, dump])


class _RecordingOutbox(Outbox):
    def __init__(self, slack: SlackClient, database: Database) -> None:
        super().__init__(slack, database)
        self.reacted: dict[str, str] = {}

    def add_reactions(self, name: str, items: Sequence[tuple[str, str]]) -> None:
        self.reacted |= {ts: name for _, ts in items}


@dataclass
class ConversationActivityScene:
    """`at` counts the messages, which come a minute apart: the guards let ten of them pass."""

    database: Database
    model: ModelSandbox
    slack: FaultySlack
    thread: Thread
    activities: LiveConversationActivities
    """Decides nothing: their decision engine has no model."""
    client: SlackClient
    env: ActivityEnvironment = field(default_factory=ActivityEnvironment)
    at: float = field(default_factory=time.time)
    scheduled_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    """The time at which the activity of the last first attempt was scheduled."""

    def message(self, text: str, **given: Any) -> IncomingMessage:
        self.at += 60
        ts = f"{self.at:.6f}"
        plain: dict[str, Any] = {
            "id": message_id(TEAM, self.thread.channel, ts),
            "kind": MessageKind.MESSAGE,
            "sender_type": SenderType.UNKNOWN,
            "sender_id": REPORTER,
            "text": text,
            "channel": self.thread.channel,
            "ts": ts,
            "addressed": True,
        }
        return IncomingMessage(**(plain | given))

    def deletion(self, said: IncomingMessage) -> IncomingMessage:
        return self.message(
            "", id=f"{said.id}:d", kind=MessageKind.DELETION, ts=said.ts, correction_of=said.id
        )

    def replies(self, *texts: str) -> None:
        """Script the texts that the model gives in one turn."""

        async def script(turn: ScriptTurn) -> None:
            for each in texts:
                await turn.text_only(each)

        self.model.script(script)

    async def run(
        self, method: Callable[..., Awaitable[Result]], *given: Any, attempt: int = 1
    ) -> Result:
        """Run one attempt at an activity, as a worker would."""
        begun = self.scheduled_at if attempt > 1 else datetime.now(UTC)
        self.scheduled_at = begun
        self.env.info = replace(self.env.info, attempt=attempt, scheduled_time=begun)
        result: Result = await self.env.run(method, *given)
        return result

    @property
    def reacted(self) -> dict[str, str]:
        """The emoji of messages, by their `ts`; a message gets one at most."""
        outbox = self.activities.deps.outbox
        assert isinstance(outbox, _RecordingOutbox)
        return outbox.reacted

    async def said(self, *texts: str | IncomingMessage) -> StoredMessages:
        batch = [
            each if isinstance(each, IncomingMessage) else self.message(each) for each in texts
        ]
        return await self.run(self.activities.store_messages, StoreRequest(self.thread, batch))

    async def opened(self) -> StoredMessages:
        """The input of a run that begins."""
        return await self.run(
            self.activities.store_messages, StoreRequest(self.thread, [], first=True)
        )

    async def begin(self, turn: int = 1) -> BegunTurn:
        return await self.run(self.activities.begin_turn, ConversationTurn(self.thread, turn))

    async def think(
        self, turn: int = 1, step: int = 1, choice: ToolChoice = ToolChoice.AUTO, attempt: int = 1
    ) -> Thought:
        request = ThinkRequest(self.thread, turn, step, choice)
        return await self.run(self.activities.think, request, attempt=attempt)

    async def act(
        self, call: ToolCall, turn: int = 1, step: int = 1, attempt: int = 1
    ) -> Execution:
        return (
            await self.run(
                self.activities.act, ActRequest(self.thread, turn, step, (call,)), attempt=attempt
            )
        )[0]

    async def settle(self, outcome: ConversationOutcome, turn: int = 1) -> ConversationSnapshot:
        """End the turn, and post its answer in Slack unless Slack refuses it."""
        request = FinishRequest(
            self.thread,
            turn,
            outcome.kind,
            outcome.text,
            answer_step=outcome.step,
            model_calls=outcome.model_calls,
        )
        finished = await self.run(self.activities.finish_turn, request)
        try:
            return await self.post(turn)
        except InternalError:
            raise
        except Permanent:  # the workflow goes on after a refused answer
            return finished.snapshot

    async def post(self, turn: int = 1) -> ConversationSnapshot:
        return await self.run(self.activities.post_answer, ConversationTurn(self.thread, turn))

    async def answer(self, turn: int = 1, *, may_be_silent: bool = False) -> ConversationOutcome:
        """Play a whole turn, as the workflow does."""
        played = _TalkTurn(self.thread, turn, may_be_silent=may_be_silent)
        played.talk = self
        outcome = await played.react()
        await self.settle(outcome, turn)
        return outcome

    async def transcript(self) -> list[tuple[str, Message]]:
        async with self.database.begin() as tx:
            return [
                (each.key, each.message)
                for each in (await TranscriptStore(tx).read(self.thread)).messages
            ]

    async def rows(self, query: str) -> list[dict[str, Any]]:
        async with self.database.begin() as tx:
            return [dict(row) for row in (await tx.execute(text(query))).mappings()]

    def posted(self, channel: str = GENERAL) -> list[SlackMessage]:
        return [
            each for each in self.slack.workspace.channel(channel).messages.values() if each.bot_id
        ]

    def sent(self, index: int = -1) -> list[dict[str, Any]]:
        """The messages of a request to the model."""
        return [dict(each) for each in self.model.log[index].conversation.messages]


class _TalkTurn(LoneTurn):
    """Runs the activities of a scene as its steps; a step with a transient fault is tried once
    more.
    """

    talk: ConversationActivityScene

    async def think(self, choice: ToolChoice) -> ModelReply:
        self.step += 1
        try:
            return (await self.talk.think(self.ref.turn, self.step, choice)).reply
        except Transient:
            return (await self.talk.think(self.ref.turn, self.step, choice, attempt=2)).reply

    async def act(self, calls: list[ToolCall]) -> list[Execution]:
        done = [await self.talk.act(each, self.ref.turn, self.step) for each in calls]
        self.executions += done
        return done


Make = Callable[..., ConversationActivityScene]


@pytest.fixture
async def make_talk(database: Database) -> AsyncIterator[Make]:
    """Makes the activities of workers that share a thread, a database, a model and a Slack."""
    RAN.clear()
    made: list[OpenAIModel] = []
    async with (
        ModelSandbox.running(api_key=KEY) as model,
        FaultySlack.running() as slack,
        aiohttp.ClientSession() as session,
    ):
        model.script(answer_about_lamps, when=lambda request: "lamps_list" in request.tools)
        root = slack.workspace.post(GENERAL, REPORTER, "Good morning")

        def model_with(key: str) -> OpenAIModel:
            made.append(OpenAIModel(OpenAIConfig("gpt-5.4-mini", key, f"{model.url}/v1")))
            return made[-1]

        def make(
            *,
            asks: ChatModel | None = None,
            with_model: bool = True,
            budget: ContextBudget | None = None,
            key: str = KEY,
            registry: ToolRegistry = REGISTRY,
            services: Services | None = None,
            ledger: ToolLedger | None = None,
        ) -> ConversationActivityScene:
            client = SlackClient(make_web_client(BOT_TOKEN, slack.api_url, session))
            outbox = _RecordingOutbox(client, database)
            users = UserDirectory(client.user)
            deps = ConversationDeps(
                database,
                client,
                outbox,
                users,
                FailureAlerts(outbox, ESCALATIONS),
                asks or (model_with(key) if with_model else None),
                registry,
                with_roles(services or unheld()),
                ledger or ToolLedger(database),
                DecisionDeps(None, _nobody, _no_documents),
                SlackContext(users, History(client), AuthorPolicy(users)),
                budget=budget or ContextBudget(),
                bot_name="polaris",
                report_fault=InstallationFaults(database, outbox, ESCALATIONS).report,
            )
            thread = Thread(TEAM, GENERAL, root.ts)
            return ConversationActivityScene(
                database, model, slack, thread, LiveConversationActivities(deps), client
            )

        yield make
        for each in made:
            await each.close()


async def _nobody(tx: Transaction, team: str, user_id: str, user: User | None) -> str:
    return ""


async def _no_documents(
    team: str, query: str, types: Sequence[str]
) -> tuple[Sequence[Source], Retrieval]:
    return (), Retrieval()


@pytest.fixture
async def talk(make_talk: Make) -> ConversationActivityScene:
    return make_talk()
