"""The records of requests as the operator's tools need them, on Postgres: each call is one unit of work."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.db.unit_of_work import Work
from threadline.errors import NotDone
from threadline.operator.model.memory import Memory, MemoryKind
from threadline.rfps.journal_entries import Event, JournalEntry, NewEntry, NewEvent
from threadline.rfps.model import Rfp
from threadline.rfps.opportunity_state import OpportunityState, StateMoved
from threadline.rfps.record_ports import MemoryBook, Opportunity, OpportunityBook, RfpBook, RfpFile, RfpQuery, TeamBook
from threadline.rfps.team_members import TeamMember
from threadline.tools.context import Services
from threadline.tools.model import Author, Change, Effect, Operation

TRIES = 5
"""Of one patch whose race was lost; then the call itself is tried again, some seconds later."""


def postgres_ports(
    database: Database,
    rate: Rate | None = None,
    services: Services | None = None,
) -> Services:
    """The services of the toolsets that reach their records through ports.

    Args:
        rate: how often one record may be changed; None for as often as one likes.
        services: what there is besides.
    """
    return (
        (services or Services())
        .with_service(RfpBook, PostgresRfps(database))
        .with_service(OpportunityBook, PostgresOpportunities(database, rate))
        .with_service(TeamBook, PostgresTeam(database))
        .with_service(MemoryBook, PostgresMemories(database))
    )


class PostgresRfps(RfpBook):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self, team: str, query: RfpQuery, limit: int) -> Sequence[Rfp]:
        async with self._database.begin() as work:
            return await work.rfps.listed(team, **vars(query), limit=limit)

    async def search(self, team: str, words: str, limit: int) -> Sequence[Rfp]:
        async with self._database.begin() as work:
            return await work.rfps.search(team, words, limit)

    async def get(self, team: str, rfp_id: str, start: int, length: int) -> RfpFile:
        async with self._database.begin() as work:
            rfp = await work.rfps.get(team, rfp_id)
            text, characters = await work.rfps.part_of_text(team, rfp.rfp_id, start, length)
            return RfpFile(rfp, text, characters)


class PostgresOpportunities(OpportunityBook):
    """Args: `rate`, how often one record may be changed; None for as often as one likes."""

    def __init__(self, database: Database, rate: Rate | None = None) -> None:
        self._database = database
        self._rate = rate

    async def load(self, team: str, rfp_id: str, recent: int) -> Opportunity:
        async with self._database.begin() as work:
            state = await work.opportunities.ensure_state_exists(team, rfp_id)
            rfp = await work.rfps.get(team, state.rfp_id)
            journal = await work.journal.of(team, rfp.rfp_id, recent)
            return Opportunity(rfp, state, journal, await work.events.of(team, rfp.rfp_id, recent))

    async def patch(
        self, change: Change, rfp_id: str, patch: Mapping[str, Any], author: Author, version: int | None
    ) -> OpportunityState:
        limited = self._limited(change)
        for _ in range(TRIES):
            try:
                async with self._database.begin() as work:
                    based_on = version or await _newest(work, limited, rfp_id)
                    return await work.opportunities.patch(limited, rfp_id, patch, based_on, author)
            except StateMoved:
                if version:
                    raise
        raise NotDone(f"Others keep changing the state of {rfp_id}, so nothing was changed.")

    async def append(self, change: Change, rfp_id: str, new: NewEntry, author: Author) -> JournalEntry:
        async with self._database.begin() as work:
            return await work.journal.append(self._limited(change), rfp_id, new, author)

    async def log(self, change: Change, rfp_id: str, new: NewEvent, author: Author) -> Event:
        async with self._database.begin() as work:
            return await work.events.append(self._limited(change), rfp_id, new, author)

    async def journal(self, team: str, rfp_id: str, limit: int, before: int | None) -> Sequence[JournalEntry]:
        async with self._database.begin() as work:
            rfp = await work.rfps.get(team, rfp_id)
            return await work.journal.of(team, rfp.rfp_id, limit, before)

    async def events(self, team: str, rfp_id: str, limit: int, before: int | None) -> Sequence[Event]:
        async with self._database.begin() as work:
            rfp = await work.rfps.get(team, rfp_id)
            return await work.events.of(team, rfp.rfp_id, limit, before)

    async def effect(self, operation: Operation) -> Effect | None:
        async with self._database.begin() as work:
            return await work.operations.effect(operation)

    def _limited(self, change: Change) -> Change:
        return replace(change, rate=self._rate)


async def _newest(work: Work, change: Change, rfp_id: str) -> int:
    """The version to patch; a change that was made before answers what it did, also when its request is gone."""
    if await work.operations.effect(change.operation):
        return 0
    return (await work.opportunities.ensure_state_exists(change.team, rfp_id)).version


class PostgresTeam(TeamBook):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def listed(self, team: str, skill: str, limit: int) -> Sequence[TeamMember]:
        async with self._database.begin() as work:
            return await work.team.listed(team, skill, limit)

    async def named(self, team: str, words: str) -> Sequence[TeamMember]:
        async with self._database.begin() as work:
            return await work.team.named(team, words)


class PostgresMemories(MemoryBook):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def recall(
        self, team: str, channel: str, question: str, kinds: Collection[MemoryKind], limit: int
    ) -> Mapping[MemoryKind, Sequence[Memory]]:
        async with self._database.begin() as work:
            return await work.memories.recall(team, question, kinds, channel=channel, limit=limit)
