"""Threads in which people read and change records by the bot: what they claim is looked up in Postgres."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self

from threadline.conversations.turn_plans import Plan
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.rfps import model as rfps
from threadline.rfps.model import JournalEntry, OpportunityState
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline_devstack.slack.identity import TEAM
from threadline_devstack.stack import Stack
from threadline_devstack.stories.scene import Hear, words_of
from threadline_devstack.stories.talk_scene import TalkScene


class OperatorScene(TalkScene):
    def __init__(self, stack: Stack, database: Database, hear: Hear) -> None:
        super().__init__(stack, hear)
        self._database = database

    @classmethod
    @asynccontextmanager
    async def on(cls, stack: Stack, hear: Hear = lambda message: None) -> AsyncIterator[Self]:
        database = Database(stack.database_url, pool_size=2, application="scene")
        try:
            yield cls(stack, database, hear)
        finally:
            await database.dispose()

    def thread(self, root: str) -> Thread:
        return Thread(TEAM, self.channel, root)

    async def state(self, rfp_id: str) -> OpportunityState:
        async with self._database.begin() as work:
            return await RfpStore(work.tx).ensure_state_exists(TEAM, rfp_id)

    async def written(self, root: str, turn: int) -> list[JournalEntry]:
        """What one turn has written into journals, in its order."""
        async with self._database.begin() as work:
            return await RfpStore(work.tx).journal_of_turn(TEAM, turn_id(self.thread(root), turn))

    async def bound(self, root: str) -> str:
        """The RFP that a thread is about; empty for none."""
        async with self._database.begin() as work:
            return (await work.bindings.of(self.thread(root))).get(rfps.BINDING, "")

    async def until_over(self, root: str, turn: int = 1) -> Plan:
        """A turn's way, with what it came to."""

        async def look() -> Plan | None:
            async with self._database.begin() as work:
                plan = await work.turn_plans.of(self.thread(root), turn)
            return plan if plan and plan.result else None

        return await self.until(f"turn {turn} is over", look)

    async def said_once(self, root: str, messages: int = 1) -> str:
        """The bot's words in a thread, the newest alone. Raises `Permanent`: it has said more or less."""
        said = await self.answers(root)
        require(len(said) == messages, f"the bot has said {len(said)} things in place of {messages}")
        return words_of(said[-1])


def require(holds: object, otherwise: str) -> None:
    """Raises `Permanent` where something that must hold does not."""
    if not holds:
        raise Permanent(otherwise)
