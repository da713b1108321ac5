"""The case's records as the agent's tools read them: bound to one case, as the restricted role, within seconds."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, LiteralString

import psycopg
from psycopg.rows import DictRow, dict_row

from threadline.cases import conversation_pages as pages
from threadline.cases.model import CaseNotFound
from threadline.cases.records import CaseFacts, ConversationPage, Finding, Service, SimilarCase
from threadline.db.errors import translate_errors
from threadline.db.values import storable
from threadline.investigator.store import Claim

_PAGE: LiteralString = """
SELECT * FROM agent_conversations
WHERE bug_id = %s AND message_type <> 'edit' AND (said_at, id) > (%s, %s)
ORDER BY said_at, id LIMIT %s
"""
_SERVICES: LiteralString = "SELECT name, description, owner, channel, repository FROM agent_services"


class AgentReader:
    """Args: `conninfo`, an address or a connection string of the restricted role; `claim`, whose case this reads."""

    def __init__(self, conninfo: str, claim: Claim) -> None:
        self._conninfo = conninfo
        self._claim = claim

    async def conversation(self, cursor: str | None, limit: int) -> ConversationPage:
        """Raises `Permanent` for a cursor that no page named."""
        said_at, identity = pages.position(cursor)
        rows = await self._rows(_PAGE, self._claim.bug_id, said_at, identity, limit + 1)
        return pages.page(rows, limit)

    async def case(self) -> CaseFacts:
        rows = await self._rows("SELECT * FROM agent_cases WHERE bug_id = %s", self._claim.bug_id)
        found = await self._rows(
            "SELECT title, detail, file, line FROM agent_findings WHERE bug_id = %s ORDER BY id", self._claim.bug_id
        )
        if not rows:
            raise CaseNotFound(f"there is no case {self._claim.bug_id}")
        case = rows[0]
        return CaseFacts(
            bug_id=case["bug_id"],
            title=case["title"],
            status=case["status"],
            severity=case["severity"],
            components=case["components"],
            reporter_id=case["reporter_id"],
            opened_at=case["created_at"],
            questions_asked=case["questions"],
            findings=[_sentence(row) for row in found],
            pull_request=case["pull_request"],
        )

    async def similar(self, text: str, limit: int) -> Sequence[SimilarCase]:
        """Other cases whose reporters used these words, or whose titles look like them; the likest first."""
        rows = await self._rows(
            "SELECT * FROM agent_similar_cases(%s, %s, %s)", self._claim.bug_id, storable(text), limit
        )
        return [SimilarCase(**row) for row in rows]

    async def record_finding(self, finding: Finding) -> None:
        """Keep a finding once in a turn, however often its attempts record it.

        Raises:
            ClaimLost: the turn is another's by now.
        """
        held = (self._claim.bug_id, self._claim.turn, self._claim.token)
        words = (storable(finding.title), storable(finding.detail), storable(finding.file))
        await self._rows(
            "SELECT agent_record_finding(%s, %s, %s, %s, %s, %s, %s::int, %s)",
            *held,
            *words,
            finding.line,
            storable(finding.severity),
        )

    async def services(self) -> Sequence[Service]:
        return [Service(**row) for row in await self._rows(_SERVICES + " ORDER BY name")]

    async def service(self, name: str) -> Service | None:
        """By its name, whatever its case."""
        rows = await self._rows(_SERVICES + " WHERE lower(name) = lower(%s)", storable(name))
        return Service(**rows[0]) if rows else None

    async def _rows(self, query: LiteralString, *given: object) -> list[DictRow]:
        async with self._connected() as connection:
            return await (await connection.execute(query, given)).fetchall()

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[psycopg.AsyncConnection[dict[str, Any]]]:
        with translate_errors():
            connection = await psycopg.AsyncConnection.connect(
                self._conninfo,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=5,
                application_name="threadline-agent-tools",
                options="-c statement_timeout=5000 -c lock_timeout=3000",
            )
            async with connection:
                yield connection


def _sentence(row: DictRow) -> str:
    place = (
        f" ({row['file']}:{row['line']})" if row["file"] and row["line"] else f" ({row['file']})" * bool(row["file"])
    )
    return f"{row['title']}{place}: {row['detail']}" if row["detail"] else f"{row['title']}{place}"
