"""The labelled queries, decided by the product's own engine: with the configured model, or with
the devstack's script.

Each decision is written to a real Postgres and read back, as a turn's is.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from tests.evals.labelled import Example
from tests.support.conversation_store import THREAD, StoredConversation, mention
from threadline.conversations.store.conversation import ConversationStore
from threadline.db.engine import Database
from threadline.decisions import engine
from threadline.decisions.model import Decision, DecisionRound, DecisionType, Thresholds
from threadline.decisions.store import DecisionStore
from threadline.errors import Transient
from threadline.models.client import OpenAIConfig, OpenAIModel, ask_structured
from threadline.models.model import ChatModel
from threadline.settings import ModelSettings
from threadline_devstack.models.sandbox import ModelSandbox

AT_ONCE = 4
"""Concurrent queries to a model: more would exceed its rate limits."""
TRIES = 4
"""Calls for a query whose model is unavailable or overloaded; after them the measurement ends."""

Pause = Callable[[float], Awaitable[None]]


@dataclass(frozen=True)
class Judge:
    """A model that decides; `scripted` if it is the devstack's stand-in."""

    model: ChatModel
    name: str
    scripted: bool


@dataclass(frozen=True)
class Made:
    """`kept`: the decision as read back. `problems`: the errors of the model's last answer."""

    example: Example
    decision: Decision
    problems: tuple[str, ...]
    kept: Decision | None

    @property
    def pair(self) -> tuple[DecisionType, DecisionType]:
        """Return the right decision, and the actual one."""
        return self.example.right, self.decision.type

    @property
    def valid(self) -> bool:
        """Return whether the answer had the required form, without a problem, and the decision was
        stored unchanged.
        """
        return not self.problems and self.kept == self.decision


@asynccontextmanager
async def judge(settings: ModelSettings) -> AsyncIterator[Judge]:
    """The configured model, or, without a key, the devstack's script on a server of its own."""
    if key := settings.key:
        config = OpenAIConfig(
            settings.openai_model,
            key,
            settings.base_url,
            settings.openai_api,
            settings.openai_timeout,
            settings.openai_prices,
        )
        async with _closing(OpenAIModel(config)) as model:
            yield Judge(model, settings.openai_model, scripted=False)
        return
    async with ModelSandbox.running() as sandbox:
        config = OpenAIConfig(settings.openai_model, "any", f"{sandbox.url}/v1")
        async with _closing(OpenAIModel(config)) as model:
            yield Judge(model, "the devstack's script", scripted=True)


@asynccontextmanager
async def _closing(model: OpenAIModel) -> AsyncIterator[OpenAIModel]:
    try:
        yield model
    finally:
        await model.close()


async def decide_all(
    examples: Sequence[Example], model: ChatModel, database: Database, pause: Pause = asyncio.sleep
) -> list[Made]:
    """Decide each query, and store it as a turn of one conversation.

    Args:
        pause: waits this many seconds before an unavailable model is called again.

    Raises:
        Permanent: the model refuses the request.
        Transient: the model was unavailable for all `TRIES`.
    """
    few = asyncio.Semaphore(AT_ONCE)

    async def one(example: Example) -> tuple[Decision, tuple[str, ...]]:
        async with few:
            return await _patiently(example, model, pause)

    decisions = await asyncio.gather(*map(one, examples))
    await StoredConversation(database).hear(
        mention(0, "The first word of the conversation that the decisions are kept in.")
    )
    return [
        Made(example, decision, problems, await _kept(database, turn, example, decision))
        for turn, (example, (decision, problems)) in enumerate(
            zip(examples, decisions, strict=True), 1
        )
    ]


async def _patiently(
    example: Example, model: ChatModel, pause: Pause
) -> tuple[Decision, tuple[str, ...]]:
    for attempt in range(1, TRIES):
        try:
            return await engine.decide(example.situation, ask_structured(model, [], attempt))
        except Transient as fault:
            await pause(fault.retry_after or 2**attempt)
    return await engine.decide(example.situation, ask_structured(model, [], TRIES))


async def _kept(
    database: Database, turn: int, example: Example, decided: Decision
) -> Decision | None:
    version = engine.prompt_version(engine.prompt("decide"))
    made = DecisionRound(1, decided, Thresholds(), example.situation.hash, version)
    async with database.begin() as tx:
        row = await ConversationStore(tx).lock(THREAD)
        await DecisionStore(tx).add(row.id, turn, made)
    async with database.begin() as tx:
        rounds = await DecisionStore(tx).rounds(row.id, turn)
    return rounds[0].decision if rounds == [made] else None
