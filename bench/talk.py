"""Conversations through the whole path, from a mention to the answer in Slack: the product's, and
a floor's.
"""

import asyncio
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from decimal import Decimal

import aiohttp
from sqlalchemy import text

from bench.ground import Ground
from bench.parts import quiet_slack
from bench.parts.quiet_slack import QuietSlack
from bench.path import PATIENCE, Clock
from threadline.estimates.model import NewWbsItem, ProjectRole
from threadline.estimates.store import EstimateStore
from threadline.gateway.router import NotAccepted
from threadline.gateway.routes import Route, RouteTarget
from threadline.rfps.model import RfpFacts
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id
from threadline.tools.model import Author, Change, Operation
from threadline_devstack.models.request import ModelRequest
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptAnswer, ScriptTurn
from threadline_devstack.slack import identity

PLAIN = "We talked about the cart yesterday. What was the question that was still open?"
"""A decision, and then one call of the model."""
WORK = "Please look up what {project} holds, and then give its first item three days."
"""A decision, and then three calls of the model, one of a tool that reads, and one of a tool that
changes something.
"""
READ = "Please read me all that {project} holds, and then read it again, and once more."
"""A decision, and then four calls of the model, and three of the tool that reads."""
OPERATE = "Please set the status of {rfp} to proposal submitted, and write into its journal why."
"""A request for the operator, which loads, changes, writes the journal and posts: four tool calls.
The model is called once for each, and once before them, for the meaning of the request.
"""
LOOKED_UP = "What does the Starter plan cost?"
"""A decision, a search of the documents and its assessment, and then one call of the model."""
PAUSE = 0.5
"""Seconds after an answer until the next message, so that no work is under way."""

_APART = 61
"""Seconds between two messages of a thread by their timestamps: the guards allow a person ten
messages a minute.
"""
_SILENCE = 0.4
_PROJECT = re.compile(r"PRJ-\d+")
_RFP = re.compile(r"\brfp_\w+")
_PATCH = '{"status": "proposal submitted"}'
_NOT_SOUND = text("""
SELECT (SELECT count(*) FROM conversation_turns
        WHERE settled_at IS NOT NULL AND kind NOT IN ('answered', 'posted_by_tool'))
     + (SELECT count(*) FROM agent_tool_executions WHERE status IS DISTINCT FROM 'ok')
""")


@dataclass(repr=False)
class SwiftModel(ModelSandbox):
    """The sandbox with its OpenAI wire, and a model that answers at once.

    It does not compute the savings of a provider's cache, for which it would compare all requests.
    """

    asks: list[float] = field(default_factory=list, init=False)
    """Times at which requests were read, in seconds since 1970."""
    delay: float = field(default=0.0, init=False)
    """Seconds before each answer."""

    def cached(self, _: ModelRequest) -> int:
        return 0

    async def answer(self, conversation: ModelRequest) -> ScriptAnswer:
        self.asks.append(time.time())
        await asyncio.sleep(self.delay)
        return await super().answer(conversation)

    async def converse(self, turn: ScriptTurn) -> None:
        if "slack_post_summary" in turn.tools and (about := _RFP.search(turn.prompt)):
            await _operate(turn, about[0])
        # a summary is requested without tools
        named = _PROJECT.search(turn.prompt) if turn.tools else None
        if named:
            await turn.call("estimates_getProjectDetails", project_id=named[0])
            if "read it again" in turn.prompt:
                for _ in range(2):
                    await turn.call("estimates_getProjectDetails", project_id=named[0])
            else:
                item = {"number": 1, "title": None, "role": None, "days": 3}
                await turn.call("estimates_updateWbsItems", project_id=named[0], items=[item])
        await turn.text_only(
            "I have looked at it, and done what you asked for. Is there anything else?"
        )


async def _operate(turn: ScriptTurn, rfp_id: str) -> None:
    await turn.call("opportunity_load", rfp_id=rfp_id)
    await turn.call("opportunity_patch", rfp_id=rfp_id, patch=_PATCH, version=None)
    await turn.call(
        "journal_append", rfp_id=rfp_id, text="Submitted, as it was asked for.", kind="decision"
    )
    await turn.call(
        "slack_post_summary", text=f"The offer for `{rfp_id}` is submitted.", rfp_id=rfp_id
    )


@dataclass(frozen=True)
class Within:
    """Seconds within a turn that reports them: in the database, and in each of its steps by the
    activity's name.
    """

    database: float = 0.0
    steps: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Took:
    """Times of a turn, in seconds since 1970; `asked` and `asked_last`: the first and the last
    request to the model.
    """

    began: float
    asked: float
    asked_last: float
    answered: float
    within: Within

    @property
    def wall(self) -> float:
        return self.answered - self.began


@dataclass
class Talks:
    """One of the two ways. `deliver` hands a message over; `pids` are the processes whose CPU
    counts.

    Each thread has its own person and project, so that no turn waits for another's row.
    """

    ground: Ground
    model: SwiftModel
    slack: QuietSlack
    clock: Clock
    pids: tuple[int, ...]
    deliver: Callable[[Route], Awaitable[Within]]
    projects: dict[Thread, str] = field(default_factory=dict)
    rfps: dict[Thread, str] = field(default_factory=dict)
    _said: Counter[Thread] = field(default_factory=Counter)

    def new(self) -> Thread:
        return Thread(identity.TEAM, identity.GENERAL, self.clock.next())

    async def open(
        self, count: int, items: Sequence[str] = ("Checkout with discount codes",)
    ) -> list[Thread]:
        """Open threads with a first mention and its answer, each with a project of these items."""
        threads = [self.new() for _ in range(count)]
        for thread in threads:
            self.projects[thread] = await _project(self.ground, thread, items)
        await self.together(threads, PLAIN)
        await self.fall_silent()
        return threads

    async def open_rfps(self, count: int) -> list[Thread]:
        """Open such threads, each with an RFP that its people can ask about."""
        threads = await self.open(count)
        for thread in threads:
            self.rfps[thread] = await _rfp(self.ground, thread)
        return threads

    async def turn(self, thread: Thread, words: str) -> Took:
        """Run one turn from the message to the answer, and pause."""
        self.model.asks.clear()
        wanted = self._answers + 1
        began = time.time()
        within = await self._say(thread, words)
        await self._until(wanted)
        took = Took(began, self.model.asks[0], self.model.asks[-1], self.slack.last_post, within)
        await asyncio.sleep(PAUSE)
        return took

    async def together(self, threads: Sequence[Thread], words: str) -> float:
        """Run a turn in all threads concurrently. Return the seconds until the last answer."""
        wanted = self._answers + len(threads)
        began = time.time()
        await asyncio.gather(*(self._say(thread, words) for thread in threads))
        await self._until(wanted)
        return self.slack.last_post - began

    async def fall_silent(self) -> None:
        """Wait until no further calls to Slack come: background work would count as the next
        measurement's cost.
        """
        before = -1
        while before != self.slack.calls:
            before = self.slack.calls
            await asyncio.sleep(_SILENCE)

    @property
    def _answers(self) -> int:
        """Number of answers: their keys end in the turn's number, followed by another number for a
        second part of an answer.
        """
        return sum(count for key, count in self.slack.posts.items() if key.isdecimal())

    async def _until(self, answers: int) -> None:
        async with asyncio.timeout(PATIENCE):
            while self._answers < answers:  # noqa: ASYNC110 - the other side is other processes
                await asyncio.sleep(0.005)

    async def _say(self, thread: Thread, words: str) -> Within:
        number = self._said[thread]
        self._said[thread] += 1
        seconds, _, rest = thread.ts.partition(".")
        ts = f"{int(seconds) + number * _APART}.{rest}"
        asked = words.format(project=self.projects.get(thread), rfp=self.rfps.get(thread))
        message = IncomingMessage(
            id=message_id(thread.team, thread.channel, ts),
            kind=MessageKind.MESSAGE,
            sender_type=SenderType.UNKNOWN,
            sender_id=f"U{seconds}{rest}",
            text=f"{asked} (This is message {number}.)",
            channel=thread.channel,
            ts=ts,
            addressed=True,
        )
        return await self.deliver(Route(RouteTarget.CONVERSATION, thread, message))


@asynccontextmanager
async def talks(ground: Ground) -> AsyncIterator[tuple[Talks, Talks]]:
    """Run the product, and the same steps in one process without Temporal, with one model and one
    Slack for both.
    """
    async with (
        SwiftModel.running() as model,
        quiet_slack.serving() as slack,
        aiohttp.ClientSession() as session,
    ):
        model.script(model.converse)
        given = {
            "SLACK_API_URL": slack.api_url,
            "OPENAI_BASE_URL": f"{model.url}/v1",
            "OPENAI_API_KEY": "none",
            "THREADLINE_MUTATIONS_PER_MINUTE": "1000000",
        }
        async with (
            ground.product("core", "worker", "--queue", "core", **given),
            ground.product("one_process", module="bench.parts.one_process", **given) as alone,
        ):

            async def alone_in_a_process(route: Route) -> Within:
                async with session.post(str(alone["url"]), json=asdict(route)) as answer:
                    answer.raise_for_status()
                    return Within(**await answer.json())

            def way(deliver: Callable[[Route], Awaitable[Within]], *names: str) -> Talks:
                return Talks(
                    ground, model, slack, clock, tuple(ground.pid(name) for name in names), deliver
                )

            clock = Clock()
            yield (
                way(by_temporal(ground), "core", "temporal", "postgres"),
                way(alone_in_a_process, "one_process", "postgres"),
            )


def by_temporal(ground: Ground) -> Callable[[Route], Awaitable[Within]]:
    """Return a function that hands messages over as the gateway does."""

    async def deliver(route: Route) -> Within:
        while True:
            try:
                await ground.router.deliver(route)
            except NotAccepted:  # Slack retries as well
                await asyncio.sleep(0.1)
            else:
                return Within()

    return deliver


async def all_were_answered(ground: Ground) -> None:
    """Raise `RuntimeError` if a turn or a tool call failed: failed turns are fast."""
    async with ground.database.begin() as tx:
        if failed := (await tx.execute(_NOT_SOUND)).scalar_one():
            raise RuntimeError(f"{failed} turns or calls of tools did not end as they should")


async def _project(ground: Ground, thread: Thread, items: Sequence[str]) -> str:
    async with ground.database.begin() as tx:
        project = (
            await EstimateStore(tx).get_or_create_project(
                thread.team, f"Project of {thread.ts}", "EUR"
            )
        ).project_id
        await EstimateStore(tx).save_role(
            thread.team, project, ProjectRole("developer", Decimal(900))
        )
        new = [
            NewWbsItem.model_construct(title=title, role="developer", days=Decimal(2))
            for title in items
        ]
        await EstimateStore(tx).create_items(thread.team, project, new)
    return project


async def _rfp(ground: Ground, thread: Thread) -> str:
    """Create an RFP with a unique title, as titles are: each turn looks for similar ones."""
    facts = RfpFacts(title=thread.ts[::-1], client=f"Client {thread.ts[::-1]}")
    change = Change(Operation(thread, 0, 2, "bench"), Author("", "bench"), time.time())
    async with ground.database.begin() as tx:
        return (await RfpStore(tx).create(change, facts)).rfp.rfp_id
