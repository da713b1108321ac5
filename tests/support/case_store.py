"""A case played on the real database: messages of people, commits of the agent, requests of the
workflow.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from threadline.cases.model import Action, CaseSnapshot, CaseStatus, Reason, Settled, session_id
from threadline.cases.store.case import CaseStore
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.investigator.store import AgentStore, TurnClaim, TurnOutcome
from threadline.slack.model import Thread
from threadline.threads.model import (
    IncomingMessage,
    MessageKind,
    SenderType,
    deletion_id,
    edit_id,
    message_id,
)

THREAD = Thread("T1", "C1", "1700000000.000000")
REPORTER = "U1"
DEVELOPER = "U2"
STRANGER = "U3"


def ts(at: float) -> str:
    return f"{1_700_000_000 + at:.6f}"


def identity(at: float) -> str:
    return message_id(THREAD.team, THREAD.channel, ts(at))


def said(
    at: float,
    words: str = "any news",
    *,
    kind: MessageKind = MessageKind.MESSAGE,
    by: SenderType = SenderType.REPORTER,
    **more: Any,
) -> IncomingMessage:
    """A message sent `at` seconds after the report."""
    sender = {SenderType.REPORTER: REPORTER, SenderType.DEVELOPER: DEVELOPER}.get(by, STRANGER)
    given = {"id": identity(at), "sender_id": sender, "channel": THREAD.channel, **more}
    return IncomingMessage(kind=kind, sender_type=by, text=words, ts=ts(at), **given)


def report(words: str = "The cart total is wrong", **more: Any) -> IncomingMessage:
    return said(0, words, kind=MessageKind.REPORT, **more)


def close(at: float) -> IncomingMessage:
    return said(at, "never mind", kind=MessageKind.CLOSE)


def edit(at: float, words: str, version: float, **more: Any) -> IncomingMessage:
    key = edit_id(THREAD.team, THREAD.channel, ts(at), ts(version))
    return said(
        at,
        words,
        kind=MessageKind.EDIT,
        id=key,
        correction_of=identity(at),
        version=ts(version),
        **more,
    )


def deletion(at: float) -> IncomingMessage:
    key = deletion_id(THREAD.team, THREAD.channel, ts(at))
    return said(at, "", kind=MessageKind.DELETION, id=key, correction_of=identity(at))


class Scene:
    bug_id = "BUG-1"

    def __init__(self, database: Database, agent: AgentStore) -> None:
        self.database = database
        self.agent = agent

    async def flush(self, *batch: IncomingMessage, thread: Thread = THREAD) -> CaseSnapshot:
        async with self.database.begin() as tx:
            return (await CaseMessageStore(tx).flush(thread, batch)).case

    async def snapshot(self, thread: Thread = THREAD) -> CaseSnapshot:
        async with self.database.begin() as tx:
            return await CaseStore(tx).snapshot_of(thread)

    async def become(
        self, to: CaseStatus, reason: Reason = Reason.NEW_MESSAGES, wait_until: float = 0.0
    ) -> CaseSnapshot:
        async with self.database.begin() as tx:
            return await CaseStore(tx).transition(self.bug_id, to, reason, wait_until=wait_until)

    async def end(self, reason: Reason) -> CaseSnapshot:
        async with self.database.begin() as tx:
            return await CaseStore(tx).end(self.bug_id, reason)

    async def settle(self, turn: int, failure: str = "") -> Settled:
        async with self.database.begin() as tx:
            return await CaseStore(tx).settle(self.bug_id, turn, failure)

    async def claim(self, turn: int, attempt: int = 1, lease_s: float = 60.0) -> TurnClaim:
        session = session_id(self.bug_id, turn, attempt)
        claim = await self.agent.claim(self.bug_id, turn, attempt, session, lease_s)
        assert isinstance(claim, TurnClaim)
        return claim

    async def opened(self, *batch: IncomingMessage) -> CaseSnapshot:
        """Return the case with its report, under investigation."""
        await self.flush(report(), *batch)
        return await self.become(CaseStatus.INVESTIGATING, Reason.REPORTED)

    async def turn(
        self,
        turn: int,
        action: Action = Action.POST_FINDINGS,
        read: Collection[int] = (),
        **outcome: Any,
    ) -> Settled:
        """Play a whole turn: claimed, finished, settled."""
        claim = await self.claim(turn)
        await self.agent.finish(claim, replace(TurnOutcome(action), read=read, **outcome))
        return await self.settle(turn)

    async def texts(self) -> list[str]:
        async with self.database.begin() as tx:
            return [entry.text for entry in (await CaseMessageStore(tx).page(self.bug_id)).entries]

    async def rows(self, query: str, **given: object) -> list[dict[str, Any]]:
        """Run any query as the database's owner."""
        async with self.database.begin() as tx:
            return [dict(row) for row in (await tx.execute(text(query), given)).mappings()]


@pytest.fixture
def scene(database: Database, agent_database: Database) -> Scene:
    return Scene(database, AgentStore(agent_database))
