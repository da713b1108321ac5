"""The agent's transcripts in Postgres, so that any worker on any machine resumes any session."""

import json
from typing import ClassVar, cast

import asyncpg
from claude_agent_sdk.types import (
    SessionKey,
    SessionListSubkeysKey,
    SessionStore,
    SessionStoreEntry,
    SessionStoreListEntry,
)

from threadline.db.errors import translate_errors
from threadline.db.values import storable
from threadline.investigator.store import Claim

_WHERE = "WHERE project_key = $1 AND session_id = $2"


class PostgresSessionStore(SessionStore):
    """The SDK's session store; it passes `claude_agent_sdk.testing.run_session_store_conformance`.

    Args:
        pool: connections of the agent's role, which needs a claim to write; or of the owner, who does not.
        claim: entries are kept only for the claim's own session, and only while it is held: an attempt that was
            overtaken fails to append, and so ends.
    """

    project: ClassVar[str] = "threadline"
    """Stands for every project: the SDK's keys name a folder, and would tie a session to one machine's paths. Empty:
    the given keys count."""

    list_session_summaries = SessionStore.list_session_summaries
    """Absent, in the SDK's way of saying so: nobody lists these sessions by their summaries."""

    def __init__(self, pool: asyncpg.Pool, claim: Claim | None = None) -> None:
        self._pool = pool
        self._claim = claim

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Keep a batch whole and in order; an entry whose `uuid` is there already is not kept again.

        Raises:
            ClaimLost: the turn is another's by now.
        """
        if not entries:
            return
        where = (*self._where(key), key.get("subpath", ""))
        uuids = [storable(entry["uuid"]) if "uuid" in entry else None for entry in entries]
        lines = [json.dumps(entry) for entry in entries]
        with translate_errors():
            if self._claim is None:
                await self._pool.execute("SELECT append_entries($1, $2, $3, $4, $5)", *where, uuids, lines)
            else:
                held = (self._claim.bug_id, self._claim.turn, self._claim.token)
                await self._pool.execute(
                    "SELECT agent_append_entries($1, $2, $3, $4, $5, $6, $7, $8)", *held, *where, uuids, lines
                )

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """All entries in the order of their appending; None when there never was one."""
        query = f"SELECT entry FROM agent_transcripts {_WHERE} AND subpath = $3 ORDER BY id"  # noqa: S608 # constants
        with translate_errors():
            rows = await self._pool.fetch(query, *self._where(key), key.get("subpath", ""))
        return [cast("SessionStoreEntry", json.loads(row["entry"])) for row in rows] or None

    async def list_sessions(self, project_key: str) -> list[SessionStoreListEntry]:
        query = (
            "SELECT session_id, (extract(epoch FROM modified_at) * 1000)::bigint AS mtime FROM agent_transcript_keys"
            " WHERE project_key = $1 AND subpath = ''"
        )
        with translate_errors():
            rows = await self._pool.fetch(query, self.project or project_key)
        return [{"session_id": row["session_id"], "mtime": row["mtime"]} for row in rows]

    async def list_subkeys(self, key: SessionListSubkeysKey) -> list[str]:
        query = f"SELECT subpath FROM agent_transcript_keys {_WHERE} AND subpath <> ''"  # noqa: S608 # constants
        with translate_errors():
            rows = await self._pool.fetch(query, self.project or key["project_key"], key["session_id"])
        return [row["subpath"] for row in rows]

    async def delete(self, key: SessionKey) -> None:
        """Forget a transcript, and a main one with all that belongs to it. The agent's role may not."""
        query = f"DELETE FROM agent_sessions {_WHERE} AND ($3 = '' OR subpath = $3)"  # noqa: S608 # constants
        with translate_errors():
            await self._pool.execute(query, *self._where(key), key.get("subpath", ""))

    def _where(self, key: SessionKey) -> tuple[str, str]:
        return self.project or key["project_key"], key["session_id"]
