"""The agent's sessions in Postgres, so that any worker on any machine can resume them."""

import json
from typing import cast

from claude_agent_sdk import SessionKey, SessionStoreEntry

from threadline.db.engine import Database
from threadline.db.values import storable
from threadline.investigator.store import TurnClaim, agent_rows

PROJECT = "threadline"
"""The project key of every session, instead of the SDK's.

Those name a folder, and would bind a session to one machine's paths.
"""
_DISCARDED = "threadline-discarded"
"""The type of our own entry that voids all entries before it."""


class TurnSessionStore:
    """The transcripts of one turn; remembers entries that could not be stored.

    Entries are stored only for the claim's own session and while the claim is held: an attempt
    that was overtaken fails to append, and so ends. The SDK retries a failed append and then goes
    on without it, and reports no failure after the turn's result. A turn whose transcript has a
    hole cannot be resumed, so it must not count as done.
    `claude_agent_sdk.testing.run_session_store_conformance` passes.
    """

    _key: SessionKey | None = None
    """The key of the turn's session, once a part of it is stored."""

    def __init__(self, database: Database, claim: TurnClaim) -> None:
        self._database = database
        self._claim = claim
        self._failed: list[SessionStoreEntry] | None = None
        self._dropped = False

    def begin(self) -> None:
        """Begin a session: failed appends of the turn's earlier sessions do not count."""
        self._failed = None
        self._dropped = False

    async def discard(self) -> None:
        """Void the entries that the turn has stored so far.

        A session that is started again under the same id would otherwise lead on to the copy of
        its parent.

        Raises:
            ClaimLost: Another attempt holds the turn.
        """
        if self._key is not None:
            await self._write(self._key, [{"type": _DISCARDED}])

    @property
    def incomplete(self) -> bool:
        return self._dropped or self._failed is not None

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        """Store a batch whole and in order; an entry whose `uuid` is stored already is skipped.

        Raises:
            ClaimLost: Another attempt holds the turn.
        """
        # Not a retry of the failed entries: the SDK gave those up.
        if self._failed is not None and entries != self._failed:
            self._dropped = True
        self._failed = entries
        if not key.get("subpath"):
            self._key = key
        await self._write(key, entries)
        self._failed = None

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        """Return all entries in the order of their appends; None when there are none.

        Discarded entries are left out, and so is the running total of costs: with it, a resumed
        turn reports the cost of the whole session.
        """
        kept = list[SessionStoreEntry]()
        for entry in await self._read(key) or ():
            if entry.get("type") == _DISCARDED:
                kept.clear()
            elif entry.get("type") != "cost-state":
                kept.append(entry)
        return kept or None

    async def _write(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        if not entries:
            return
        uuids = [storable(entry["uuid"]) if "uuid" in entry else None for entry in entries]
        await agent_rows(
            self._database,
            "SELECT agent_append_entries($1, $2, $3, $4, $5, $6, $7, $8)",
            *(self._claim.bug_id, self._claim.turn, self._claim.token),
            *(
                PROJECT,
                key["session_id"],
                key.get("subpath", ""),
                uuids,
                [json.dumps(entry) for entry in entries],
            ),
        )

    async def _read(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        query = (
            "SELECT entry FROM agent_transcripts WHERE project_key = $1 AND session_id = $2 AND "
            "subpath = $3"
        )
        where = (PROJECT, key["session_id"], key.get("subpath", ""))
        rows = await agent_rows(self._database, f"{query} ORDER BY id", *where)
        return [cast("SessionStoreEntry", json.loads(row["entry"])) for row in rows] or None
