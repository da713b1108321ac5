"""Requests for proposals: made once from a file, listed by when they are due, and found by words."""

import secrets
from datetime import UTC, datetime

from pydantic import TypeAdapter
from sqlalchemy import func, select, text
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.text_search import any_word, words_shared
from threadline.db.values import storable
from threadline.rfps import rfp_lookup as rfp_row
from threadline.rfps import rfp_usage as rfp_traces
from threadline.rfps.model import (
    OPEN,
    Created,
    Facts,
    NewRfp,
    Rfp,
    RfpNotFound,
    RfpRefused,
    RfpStatus,
    Traces,
    checked,
    is_rfp_id,
)
from threadline.rfps.opportunity_store import Opportunities
from threadline.rfps.tables import rfps
from threadline.tools.model import Author, Change
from threadline.tools.operation_store import Operations

LONGEST_TEXT = 1_000_000
"""Characters of a file's text that are kept; of these the first 200,000 are searched."""

_CREATED = TypeAdapter(Created)
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
"""No two that are read for each other, and no vowels, which would make words."""
_LENGTH = 8
_TRIES = 5
_ASKED = any_word(":words")
_SEARCH = text(f"""
WITH found AS (
    SELECT r.rfp_id FROM rfps r WHERE r.words @@ {_ASKED} AND r.team = :team AND r.deleted_at IS NULL
    UNION
    SELECT r.rfp_id FROM rfps r WHERE r.title % left(:words, 300) AND r.team = :team AND r.deleted_at IS NULL
    UNION
    SELECT r.rfp_id FROM rfps r WHERE r.rfp_id = lower(:words) AND r.team = :team AND r.deleted_at IS NULL
)
SELECT r.rfp_id, r.title, r.client, r.due_date, r.status, r.owner, r.source_name, r.created_by, r.created_at
FROM found JOIN rfps r USING (rfp_id)
ORDER BY r.rfp_id = lower(:words) DESC, {words_shared("r.words", ":words")} DESC, ts_rank(r.words, {_ASKED}, 1) DESC,
         similarity(r.title, left(:words, 300)) DESC, r.rfp_id
LIMIT :limit
""")  # noqa: S608 - both parts are written in this package
"""The more of the words a request has, the sooner it comes; a title may also be misspelt."""
_RELATED = text("""
SELECT r.rfp_id, r.title, r.client, r.due_date, r.status, r.owner, r.source_name, r.created_by, r.created_at
FROM rfps r
WHERE r.team = :team AND r.deleted_at IS NULL AND r.rfp_id <> :rfp_id
  AND (r.title % :title OR :client <> '' AND lower(r.client) = lower(:client))
ORDER BY lower(r.client) = lower(:client) AND :client <> '' DESC, similarity(r.title, :title) DESC, r.rfp_id
LIMIT :limit
""")


class Rfps:
    """A request belongs to its team: the others' is not found. What is deleted is not found either."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def create(self, change: Change, new: NewRfp, author: Author, rfp_id: str = "") -> Created:
        """Make a request and its state, once for each operation, and once in a team for each file.

        Args:
            rfp_id: its id, where it is to have a given one.

        Raises:
            RfpRefused: a field does not have its form, or the id is none or is taken.
        """
        if rfp_id and not is_rfp_id(rfp_id):
            raise RfpRefused(f"{rfp_id!r} is not an RFP id: write rfp_ with lower-case letters and digits")
        facts = new.facts
        title, client, owner = (storable(each) for each in (facts.title, facts.client, facts.owner))
        plain = checked(Facts(title, client, facts.due_date, facts.status, owner))

        async def act() -> Created:
            created = await self._made(change, NewRfp(plain, new.source), author, rfp_id)
            await Opportunities(self._connection).ensure_state_exists(change.team, created.rfp.rfp_id)
            return created

        record = new.source.sha256 if new.source else plain.title
        return await self._operations.once(change, "rfp_create", record, _CREATED, act)

    async def get(self, team: str, rfp_id: str) -> Rfp:
        """Raises `RfpNotFound`, which names the nearest ids."""
        return await rfp_row.rfp(self._connection, team, rfp_id)

    async def text_of(self, team: str, rfp_id: str) -> str:
        """What could be read in the file that it was made from. Raises `RfpNotFound`."""
        found = await self.get(team, rfp_id)
        query = select(rfps.c.source_text).where(rfps.c.rfp_id == found.rfp_id)
        return str((await self._connection.execute(query)).scalar_one())

    async def part_of_text(self, team: str, rfp_id: str, start: int, length: int) -> tuple[str, int]:
        """`length` characters of it from `start` on, and how many it has. Raises `RfpNotFound`."""
        found = await self.get(team, rfp_id)
        part = func.substr(rfps.c.source_text, start + 1, length)
        query = select(part, func.length(rfps.c.source_text)).where(rfps.c.rfp_id == found.rfp_id)
        text_there, characters = (await self._connection.execute(query)).one()
        return str(text_there), int(characters)

    async def listed(
        self, team: str, *, open_only: bool = False, status: RfpStatus | None = None, owner: str = "", limit: int = 50
    ) -> list[Rfp]:
        """By when they are due, those without a date last; `owner` in letters of any case."""
        query = select(*rfp_row.COLUMNS).where(*rfp_row.there(team))
        if open_only:
            query = query.where(rfps.c.status.in_(OPEN))
        if status:
            query = query.where(rfps.c.status == status)
        if owner:
            query = query.where(func.lower(rfps.c.owner) == func.lower(storable(owner).strip()))
        due = query.order_by(rfps.c.due_date.asc().nulls_last(), rfps.c.rfp_id).limit(limit)
        return [rfp_row.told(row) for row in await self._connection.execute(due)]

    async def called(self, team: str, title: str, client: str) -> list[Rfp]:
        """Those of exactly this title and client, in letters of any case."""
        names = ((rfps.c.title, title), (rfps.c.client, client))
        same = (func.lower(column) == func.lower(" ".join(storable(name).split())) for column, name in names)
        query = select(*rfp_row.COLUMNS).where(*rfp_row.there(team), *same).order_by(rfps.c.rfp_id)
        return [rfp_row.told(row) for row in await self._connection.execute(query)]

    async def search(self, team: str, words: str, limit: int = 10) -> list[Rfp]:
        """What has these words in its title, its client's name or its file, the likest first."""
        given = {"team": team, "words": storable(words).strip(), "limit": limit}
        return [rfp_row.told(row) for row in await self._connection.execute(_SEARCH, given)]

    async def related(self, team: str, rfp_id: str, limit: int = 5) -> list[Rfp]:
        """Others of the same client, and others with a title like it. Raises `RfpNotFound`."""
        rfp = await self.get(team, rfp_id)
        given = {"team": team, "rfp_id": rfp.rfp_id, "title": rfp.title, "client": rfp.client, "limit": limit}
        return [rfp_row.told(row) for row in await self._connection.execute(_RELATED, given)]

    async def delete(self, team: str, rfp_id: str) -> bool:
        """Whether there was one; it is not found any more.

        The text of its file, its state and what is remembered of turns about it go. Its journal and events stay, under
        its id, its title and its client, and so do the bindings of threads, which are told that it was deleted.
        """
        return await rfp_traces.erase(self._connection, team, rfp_id)

    async def traces(self, team: str, rfp_id: str) -> Traces:
        """What is kept of it. Raises `RfpNotFound`."""
        return await rfp_traces.traces(self._connection, team, rfp_id)

    async def was_deleted(self, team: str, rfp_id: str) -> bool:
        """Whether there was such a request, and is no more; one that is there is held until the transaction ends."""
        try:
            await rfp_row.rfp(self._connection, team, rfp_id, hold=True)
        except RfpNotFound as missing:
            return missing.deleted
        return False

    async def _made(self, change: Change, new: NewRfp, author: Author, rfp_id: str) -> Created:
        source = new.source
        row = {
            "team": change.team,
            **vars(new.facts),
            "source_name": source.name if source else "",
            "source_hash": source.sha256 if source else None,
            "source_text": storable(source.text)[:LONGEST_TEXT] if source else "",
            "created_by": author.user_id,
            "created_at": datetime.fromtimestamp(change.now, UTC),
        }
        for _ in range(_TRIES):
            identity = rfp_id or f"rfp_{''.join(secrets.choice(_LETTERS) for _ in range(_LENGTH))}"
            kept = insert(rfps).values(**row, rfp_id=identity).on_conflict_do_nothing().returning(*rfp_row.COLUMNS)
            if made := (await self._connection.execute(kept)).one_or_none():
                return Created(rfp_row.told(made), new=True)
            if source and (known := await self._of_file(change.team, source.sha256)):
                return Created(known, new=False)
        raise RfpRefused(f"the id {rfp_id} is taken")

    async def _of_file(self, team: str, sha256: str) -> Rfp | None:
        query = select(*rfp_row.COLUMNS).where(*rfp_row.there(team), rfps.c.source_hash == sha256)
        row = (await self._connection.execute(query)).one_or_none()
        return rfp_row.told(row) if row else None
