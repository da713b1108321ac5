"""A thread whose worker is killed at a certain moment, while a lock holds its next step; then
Postgres is asked.
"""

import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any, Self

from sqlalchemy import Row, TextClause, text

from tests.support.journey_scene import JourneyScene
from threadline.conversations.store.turns import TurnStore
from threadline_devstack.slack.identity import REPORTER, TEAM
from threadline_devstack.slack.model import Json
from threadline_devstack.stack import Stack

AGAIN = 90.0
"""Seconds for a turn to go on: a lost worker is noticed after its heartbeat or a short step times
out.
"""

_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE :holder = ANY(pg_blocking_pids(pid))")
_PAID = text("""
SELECT m.turn, m.step FROM model_calls m JOIN conversations c ON c.id = m.conversation_id
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :root ORDER BY m.turn, m.step, m.id
""")
_EXECUTIONS = text("""
SELECT tool_name, status, finished_at FROM agent_tool_executions WHERE thread_ts = :root
  ORDER BY turn, step
""")


TURNS = text("LOCK TABLE conversation_turns IN EXCLUSIVE MODE")
"""The lock delays writes to the table, and no reads."""


class CrashScene(JourneyScene):
    @classmethod
    @asynccontextmanager
    async def ready(cls, stack: Stack) -> AsyncIterator[Self]:
        async with cls.on(stack, pool_size=4) as scene:
            yield scene

    async def ask(self, words: str) -> str:
        return await self.mention(REPORTER, words)

    @asynccontextmanager
    async def held_model(self, hold: str) -> AsyncIterator[None]:
        self.model.holds.arm(hold)
        try:
            yield
        finally:
            await self.model.holds.release(hold)

    async def executions(self, root: str) -> list[Row[Any]]:
        """The tool calls on record, each with its status; an intent has None."""
        async with self._database.begin() as tx:
            return list(await tx.execute(_EXECUTIONS, {"root": root}))

    async def paid(self, root: str) -> list[tuple[int, int]]:
        """The model calls on record, by turn and step."""
        where = {"team": TEAM, "channel": self.channel, "root": root}
        async with self._database.begin() as tx:
            return [tuple(row) for row in await tx.execute(_PAID, where)]

    async def asked(self, words: str) -> Counter[int]:
        """The number of the model's requests in conversations that hold the words, by the replies
        given before.
        """
        requests = self.model.requests()
        return Counter(len(each.steps) for each in requests if words in json.dumps(each.messages))

    @asynccontextmanager
    async def held(self, lock: TextClause, name: str = "") -> AsyncIterator[int]:
        """Hold the lock of a statement, on a row by its name or on a table; yields the holder, for
        `until_waited_for`.
        """
        async with self._database.begin() as tx:
            found = await tx.execute(lock, {"name": name} if name else {})
            if found.returns_rows:
                found.one()
            yield int(await tx.scalar(text("SELECT pg_backend_pid()")) or 0)

    async def until_waited_for(self, holder: int) -> None:
        async def look() -> bool:
            async with self._database.begin() as tx:
                return bool(await tx.scalar(_WAITING, {"holder": holder}))

        await self.until("somebody waits for what is held", look)

    async def answered(self, root: str, turns: int = 1) -> list[Json]:
        """The bot's messages in a thread once its last turn is over and posted: one message for
        each turn.
        """

        async def look() -> bool:
            async with self._database.begin() as tx:
                settled = await TurnStore(tx).settled(self.slack_thread(root), turns)
            return settled is not None and settled.posted_at is not None

        await self.until("the turn is answered", look, AGAIN)
        said = self.answers(root)
        assert len(said) == turns, f"the bot has said {len(said)} things in place of {turns}"
        return said


Reached = Callable[[CrashScene, str], AbstractAsyncContextManager[str]]
"""Bring a turn to a moment, and hold it there; yields the thread's root."""


def waiting_for(lock: TextClause) -> Reached:
    """The first step that needs the lock, which is held from the beginning."""

    @asynccontextmanager
    async def reached(scene: CrashScene, words: str) -> AsyncIterator[str]:
        async with scene.held(lock) as holder:
            root = await scene.ask(words)
            await scene.until_waited_for(holder)
            yield root

    return reached


def asking(hold: str) -> Reached:
    @asynccontextmanager
    async def reached(scene: CrashScene, words: str) -> AsyncIterator[str]:
        async with scene.held_model(hold):
            root = await scene.ask(words)
            await scene.model_waits_at(hold)
            yield root

    return reached


@asynccontextmanager
async def settling(scene: CrashScene, words: str) -> AsyncIterator[str]:
    async with AsyncExitStack() as until_killed:
        async with asking("conversing")(scene, words) as root:
            holder = await until_killed.enter_async_context(scene.held(TURNS))
        await scene.until_waited_for(holder)
        yield root


def statuses(calls: Sequence[Row[Any]]) -> list[tuple[str, str | None]]:
    return [(each.tool_name, each.status) for each in calls]
