"""RFPs with their states, journals and events, and the team that answers them.

Every record belongs to a workspace ("team" in every method): another team's records are not found,
nor are deleted ones.
"""

import asyncio
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    Column,
    ColumnElement,
    Row,
    Select,
    Table,
    and_,
    delete,
    func,
    literal,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Store
from threadline.db.values import any_word, storable, storable_json, storable_key, words_shared
from threadline.db.words import asked_words, stored_words
from threadline.rfps.model import (
    BINDING,
    FACTS,
    MAX_ENTRY,
    MAX_EVENT_TYPE,
    MAX_SOURCE_TEXT,
    OPEN,
    CreatedRfp,
    EntryKind,
    Event,
    FileText,
    JournalEntry,
    JsonObject,
    MemberNotFound,
    OpportunityState,
    Rfp,
    RfpFacts,
    RfpNotFound,
    RfpRefused,
    RfpStatus,
    RfpUsage,
    SourceFile,
    TeamMember,
    apply_patch,
    facts_to_document,
    is_rfp_id,
    same_json,
    validate_facts,
    validate_patch,
    validate_payload,
)
from threadline.rfps.tables import events, journal_entries, opportunity_states, rfps, team_members
from threadline.slack.model import Thread
from threadline.threads.store import ThreadBindingStore
from threadline.threads.tables import thread_bindings
from threadline.tools.model import Author, CallIdReused, Change, Operation

_COLUMNS: tuple[Column[Any], ...] = tuple(
    rfps.c[name] for name in (*FACTS, "rfp_id", "source_name", "created_by", "created_at")
)
"""The columns of an RFP without its file's text, which may be long."""
_MAX_SOUGHT_ID = 60
# no two that look alike, and no vowels, which would make words
_LETTERS = "bcdfghjkmnpqrstvwxz23456789"
_ID_LENGTH = 8
_ID_TRIES = 5
_ASKED = any_word(":asked")
_NEAREST = text("""
SELECT rfp_id FROM rfps
WHERE team = :team AND deleted_at IS NULL AND similarity(substr(rfp_id, 5), :sought) > 0.2
ORDER BY similarity(substr(rfp_id, 5), :sought) DESC, rfp_id LIMIT :limit
""")
"""All ids begin alike, so the beginning is left out of the comparison."""
_SEARCH = text(f"""
WITH found AS (
    SELECT r.rfp_id FROM rfps r
    WHERE r.search_vector @@ {_ASKED} AND r.team = :team AND r.deleted_at IS NULL
    UNION
    SELECT r.rfp_id FROM rfps r
    WHERE r.title % left(:words, 300) AND r.team = :team AND r.deleted_at IS NULL
    UNION
    SELECT r.rfp_id FROM rfps r
    WHERE r.rfp_id = lower(:words) AND r.team = :team AND r.deleted_at IS NULL
)
SELECT r.rfp_id, r.title, r.client, r.due_date, r.status, r.owner, r.source_name, r.created_by,
       r.created_at
FROM found JOIN rfps r ON r.team = :team AND r.rfp_id = found.rfp_id
ORDER BY r.rfp_id = lower(:words) DESC, {words_shared("r.search_vector", ":asked")} DESC,
         ts_rank(r.search_vector, (SELECT {_ASKED}), 1) DESC,
         similarity(r.title, left(:words, 300)) DESC, r.rfp_id
LIMIT :limit
""")  # noqa: S608 - both parts are written in this package
"""RFPs that contain more of the words come first; a title may also be misspelt."""
_RELATED = text("""
SELECT r.rfp_id, r.title, r.client, r.due_date, r.status, r.owner, r.source_name, r.created_by,
       r.created_at
FROM rfps r
WHERE r.team = :team AND r.deleted_at IS NULL AND r.rfp_id <> :rfp_id
  AND (r.title % :title OR :client <> '' AND lower(r.client) = lower(:client))
ORDER BY lower(r.client) = lower(:client) AND :client <> '' DESC,
         similarity(r.title, :title) DESC, r.rfp_id
LIMIT :limit
""")
_USAGE = text("""
SELECT
    (SELECT length(source_text) FROM rfps WHERE team = :team AND rfp_id = :rfp_id) AS characters,
    (SELECT version FROM opportunity_states WHERE team = :team AND rfp_id = :rfp_id) AS version,
    (SELECT count(*) FROM journal_entries
     WHERE team = :team AND rfp_id = :rfp_id AND kind <> 'unchecked') AS entries,
    (SELECT count(*) FROM events WHERE team = :team AND rfp_id = :rfp_id) AS events
""")
_INDEXED = 200_000
"""Characters of a file's text that a search reads; `rfps.search_vector` has the same number."""
_HOURS_OF_A_WEEK = 168
_MAX_LINE = 300
_MAX_BIOGRAPHY = 10_000
_MAX_SKILLS = 100


class RfpStore(Store):
    async def create(
        self,
        change: Change,
        facts: RfpFacts,
        rfp_id: str = "",
        *,
        source: SourceFile | None = None,
    ) -> CreatedRfp:
        """Make an RFP and its state; a file yields one RFP in a team.

        Args:
            change: the author, the time and the operation.
            facts: the RFP's facts.
            rfp_id: the id to use; empty for a random one.
            source: the file that it is made from.

        Raises:
            RfpRefused: a field is malformed, or the id is invalid or taken.
        """
        if rfp_id and not is_rfp_id(rfp_id):
            raise RfpRefused(
                f"{rfp_id!r} is not an RFP id: write rfp_ with lower-case letters and digits"
            )
        title, client, owner = (
            storable(each) for each in (facts.title, facts.client, facts.owner)
        )
        row = {
            "team": change.team,
            **_columns(
                validate_facts(RfpFacts(title, client, facts.due_date, facts.status, owner))
            ),
            **(await _source_columns(source) if source else _NO_SOURCE),
            "created_by": change.author.user_id,
            "created_at": _time(change),
        }
        generated = (
            f"rfp_{''.join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))}"
            for _ in range(_ID_TRIES)
        )
        for identity in [rfp_id] if rfp_id else generated:
            kept = (
                insert(rfps)
                .values(**row, rfp_id=identity)
                .on_conflict_do_nothing()
                .returning(*_COLUMNS)
            )
            if made := (await self._tx.execute(kept)).one_or_none():
                await self.ensure_state_exists(change.team, identity)
                return CreatedRfp(_rfp(made), new=True)
            if source:
                of_file = select(*_COLUMNS).where(
                    *_not_deleted(change.team), rfps.c.source_hash == source.sha256
                )
                if known := (await self._tx.execute(of_file)).one_or_none():
                    return CreatedRfp(_rfp(known), new=False)
        raise RfpRefused(f"the id {identity} is taken")

    async def get(self, team: str, rfp_id: str, *, hold: bool = False) -> Rfp:
        """Return the RFP of this id, in any case.

        `hold`: lock the RFP, so that it cannot be deleted before the transaction ends.

        Raises:
            RfpNotFound: there is none; the error names the nearest ids.
        """
        sought = normalise_id(rfp_id)
        query: Select[Any] = select(*_COLUMNS, rfps.c.deleted_at).where(*_is(rfps, team, sought))
        if hold:
            query = query.with_for_update(key_share=True)
        row = (await self._tx.execute(query)).one_or_none()
        if row is None or row.deleted_at:
            given = {"team": team, "sought": sought.removeprefix("rfp_"), "limit": 3}
            nearest = (await self._tx.execute(_NEAREST, given)).scalars()
            raise RfpNotFound(sought, list(nearest), deleted=row is not None)
        return _rfp(row)

    async def of_thread(self, thread: Thread) -> Rfp | None:
        """Return the RFP that a thread is bound to; None without a binding. Raises `RfpNotFound`
        if it was deleted.
        """
        bound = thread_bindings.c
        row = rfps.c
        same = and_(
            row.team == bound.team, row.rfp_id == bound.record_id, row.deleted_at.is_(None)
        )
        query: Select[Any] = select(*_COLUMNS, bound.record_id).select_from(
            thread_bindings.outerjoin(rfps, same)
        )
        here = (
            bound.team == thread.team,
            bound.channel == thread.channel,
            bound.thread_ts == thread.ts,
        )
        found = (await self._tx.execute(query.where(*here, bound.kind == BINDING))).one_or_none()
        if found is None:
            return None
        return _rfp(found) if found.rfp_id else await self.get(thread.team, found.record_id)

    async def is_deleted(self, team: str, rfp_id: str) -> bool:
        """Return whether the RFP was deleted; an existing one is locked until the transaction
        ends.
        """
        try:
            await self.get(team, rfp_id, hold=True)
        except RfpNotFound as missing:
            return missing.deleted
        return False

    async def part_of_text(self, team: str, rfp_id: str, start: int, length: int) -> FileText:
        """Return `length` characters of the file's text from `start` on. Raises `RfpNotFound`."""
        found = await self.get(team, rfp_id)
        written = rfps.c.source_text
        part = select(
            func.substr(written, start + 1, length), func.length(written), rfps.c.source_unread
        )
        text_part, characters, unread = (
            await self._tx.execute(part.where(*_is(rfps, team, found.rfp_id)))
        ).one()
        return FileText(text_part, characters, tuple(unread))

    async def with_beginning(self, team: str, rfp_id: str, length: int) -> tuple[Rfp, str]:
        """Return the RFP, also a deleted one, and the first `length` characters of its text."""
        beginning = func.left(rfps.c.source_text, length).label("beginning")
        query: Select[Any] = select(*_COLUMNS, beginning).where(
            *_is(rfps, team, normalise_id(rfp_id))
        )
        row: Row[Any] = (await self._tx.execute(query)).one()
        return _rfp(row), str(row.beginning)

    async def listed(
        self,
        team: str,
        *,
        open_only: bool = False,
        status: RfpStatus | None = None,
        owner: str = "",
        limit: int = 50,
    ) -> list[Rfp]:
        """Return RFPs by due date, those without one last; `owner` matches in any case."""
        query = select(*_COLUMNS).where(*_not_deleted(team))
        if open_only:
            query = query.where(rfps.c.status.in_(OPEN))
        if status:
            query = query.where(rfps.c.status == status)
        if owner:
            query = query.where(func.lower(rfps.c.owner) == func.lower(storable(owner).strip()))
        due = query.order_by(rfps.c.due_date.asc().nulls_last(), rfps.c.rfp_id).limit(limit)
        return [_rfp(row) for row in await self._tx.execute(due)]

    async def find_by_title(self, team: str, title: str, client: str) -> list[Rfp]:
        """Return the RFPs of exactly this title and client, in any case."""
        names = ((rfps.c.title, title), (rfps.c.client, client))
        same = (
            func.lower(column) == func.lower(" ".join(storable(name).split()))
            for column, name in names
        )
        query = select(*_COLUMNS).where(*_not_deleted(team), *same).order_by(rfps.c.rfp_id)
        return [_rfp(row) for row in await self._tx.execute(query)]

    async def search(self, team: str, words: str, limit: int = 10) -> list[Rfp]:
        """Return RFPs with these words in the title, the client's name or the file, best matches
        first.
        """
        given = {
            "team": team,
            "words": storable(words).strip(),
            "asked": asked_words(words),
            "limit": limit,
        }
        return [_rfp(row) for row in await self._tx.execute(_SEARCH, given)]

    async def related(self, team: str, rfp_id: str, facts: RfpFacts, limit: int = 5) -> list[Rfp]:
        """Return other RFPs of the same client or with a similar title."""
        given = {
            "team": team,
            "rfp_id": rfp_id,
            "title": facts.title,
            "client": facts.client,
            "limit": limit,
        }
        return [_rfp(row) for row in await self._tx.execute(_RELATED, given)]

    async def bind(self, thread: Thread, rfp_id: str, user_id: str) -> tuple[Rfp, str | None]:
        """Bind the thread to this RFP; return the RFP, and the id that the thread was bound to
        before, if any.

        Raises:
            RfpNotFound: nothing was bound; the error names the nearest ids.
        """
        rfp = await self.get(thread.team, rfp_id)
        return rfp, await ThreadBindingStore(self._tx).bind(thread, BINDING, rfp.rfp_id, user_id)

    async def usage(self, team: str, rfp_id: str) -> RfpUsage:
        """Return the amount of data of an RFP. Raises `RfpNotFound`."""
        rfp = await self.get(team, rfp_id)
        row = (await self._tx.execute(_USAGE, {"team": team, "rfp_id": rfp.rfp_id})).one()
        return RfpUsage(rfp, row.characters, row.version or 0, row.entries, row.events)

    async def delete(self, team: str, rfp_id: str) -> bool:
        """Delete an RFP with its state and the text of its file; return whether it existed.

        Its journal and events stay, under its id, title and client. So do the bindings of threads,
        in which the bot answers that it was deleted. See also `MemoryStore.forget_rfp`.
        """
        sought = normalise_id(rfp_id)
        # A patch locks the state before the RFP's row: any other order here would deadlock.
        held = (
            select(opportunity_states.c.version)
            .where(*_is(opportunity_states, team, sought))
            .with_for_update()
        )
        await self._tx.execute(held)
        bare = {**_NO_SOURCE, "owner": "", "due_date": None}
        gone = update(rfps).where(*_not_deleted(team), rfps.c.rfp_id == sought)
        if not (await self._tx.execute(gone.values(deleted_at=func.now(), **bare))).rowcount:
            return False
        await self._tx.execute(
            delete(opportunity_states).where(*_is(opportunity_states, team, sought))
        )
        return True

    # ---- The state ----

    async def ensure_state_exists(self, team: str, rfp_id: str) -> OpportunityState:
        """Return the state; create it from the RFP's facts if there is none yet. Raises
        `RfpNotFound`.
        """
        query = _select_state(team, normalise_id(rfp_id))  # a deleted RFP has no state
        if found := (await self._tx.execute(query)).one_or_none():
            return _state(found)
        rfp = await self.get(team, rfp_id, hold=True)
        new = insert(opportunity_states).values(
            team=team, rfp_id=rfp.rfp_id, document=facts_to_document(rfp)
        )
        await self._tx.execute(new.on_conflict_do_nothing())
        return _state((await self._tx.execute(query)).one())

    async def patch_state(
        self, change: Change, rfp_id: str, patch: object, expected_version: int | None = None
    ) -> OpportunityState:
        """Apply a JSON merge patch to the newest state, and its facts to the RFP's row, which
        lists read.

        A patch that changes nothing keeps the version.

        Args:
            change: the author, the time and the operation.
            rfp_id: the RFP.
            patch: the merge patch.
            expected_version: refuse the patch unless this is the newest version.

        Raises:
            RfpNotFound, RfpRefused: nothing was changed.
        """
        given = storable_json(validate_patch(patch))
        team = change.team
        sought = normalise_id(rfp_id)
        held = _select_state(team, sought).with_for_update()
        found = (await self._tx.execute(held)).one_or_none()
        if found is None:  # there is none yet, or a concurrent transaction has deleted the RFP
            await self.ensure_state_exists(team, sought)
            found = (await self._tx.execute(held)).one()
        state = _state(found)
        if expected_version not in (None, state.version):
            raise RfpRefused(
                f"the state of {sought} is at version {state.version}, and the patch was made "
                f"from {expected_version}: nothing was changed; load it again and patch the "
                "newest version"
            )
        document, facts = apply_patch(state.document, given)
        if same_json(document, state.document):
            return state
        changed = update(opportunity_states).where(*_is(opportunity_states, team, sought))
        changed = changed.values(
            version=state.version + 1,
            document=document,
            updated_by=change.author.user_id,
            correlation_id=change.author.correlation_id,
            updated_at=_time(change),
        )
        await self._tx.execute(
            update(rfps).where(*_is(rfps, team, sought)).values(_columns(facts))
        )
        return _state((await self._tx.execute(changed.returning(opportunity_states))).one())

    # ---- Journal and events: the database refuses to change or to delete any of it ----

    async def append_entry(
        self, change: Change, rfp_id: str, words: str, kind: EntryKind = EntryKind.NOTE
    ) -> JournalEntry:
        """Append an immutable journal entry, once for each operation. Raises `RfpNotFound`,
        `RfpRefused`.
        """
        written = storable(words).strip()
        if not written:
            raise RfpRefused("a journal entry needs a text")
        if len(written) > MAX_ENTRY:
            raise RfpRefused(
                f"a journal entry has at most {MAX_ENTRY:,} characters, and this has "
                f"{len(written):,}"
            )
        return _entry(await self._append(journal_entries, change, rfp_id, kind=kind, text=written))

    async def journal(
        self, team: str, rfp_id: str, limit: int = 20, before: int | None = None
    ) -> list[JournalEntry]:
        """Return the entries, newest first, without unchecked answers.

        Args:
            team: the Slack team.
            rfp_id: the RFP.
            limit: entries at most.
            before: only entries older than this id.
        """
        facts = journal_entries.c.kind != EntryKind.UNCHECKED
        return [
            _entry(row)
            for row in await self._newest(journal_entries, team, rfp_id, limit, before, facts)
        ]

    async def journal_of_turn(self, team: str, correlation_id: str) -> list[JournalEntry]:
        """Return the entries of one turn, in order."""
        return [_entry(row) for row in await self._of_turn(journal_entries, team, correlation_id)]

    async def append_event(
        self, change: Change, rfp_id: str, event_type: str, payload: JsonObject
    ) -> Event:
        """Log an immutable event, once for each operation. Raises `RfpNotFound`, `RfpRefused`."""
        named = " ".join(storable(event_type).split())
        if not named or len(named) > MAX_EVENT_TYPE:
            raise RfpRefused(f"an event needs a type of at most {MAX_EVENT_TYPE} characters")
        validate_payload(payload)
        return _event(
            await self._append(events, change, rfp_id, event_type=named, payload=payload)
        )

    async def events(
        self, team: str, rfp_id: str, limit: int = 20, before: int | None = None
    ) -> list[Event]:
        """Return the events, newest first; `before`: only events older than this id."""
        return [_event(row) for row in await self._newest(events, team, rfp_id, limit, before)]

    async def events_of_turn(self, team: str, correlation_id: str) -> list[Event]:
        """Return the events of one turn, in order."""
        return [_event(row) for row in await self._of_turn(events, team, correlation_id)]

    async def event_of(self, operation: Operation) -> Event | None:
        """Return the event that an operation has logged; None without one."""
        row = await self._of_operation(events, operation)
        return _event(row) if row else None

    async def _append(self, table: Table, change: Change, rfp_id: str, **values: Any) -> Row[Any]:
        """Return the row of an operation, written now or earlier; an earlier row counts even if
        its RFP was deleted since.
        """
        sought = normalise_id(rfp_id)
        row = audit_values(change) | {"rfp_id": sought, "user_id": change.author.user_id} | values
        columns = [literal(value, table.c[name].type) for name, value in row.items()]
        of_rfp = select(*columns).where(
            *_is(rfps, change.team, sought), rfps.c.deleted_at.is_(None)
        )
        new = (
            insert(table).from_select(list(row), of_rfp).on_conflict_do_nothing().returning(table)
        )
        written = (await self._tx.execute(new)).one_or_none() or await self._of_operation(
            table, change.operation
        )
        if written is None:
            await self.get(change.team, sought)
        if written is None or written.rfp_id != sought:
            raise CallIdReused(
                f"{change.operation.key} was used for another change: a new change needs its "
                "own call"
            )
        return written

    async def _of_operation(self, table: Table, operation: Operation) -> Row[Any] | None:
        return (
            await self._tx.execute(select(table).where(*operation_filter(table, operation)))
        ).one_or_none()

    async def _newest(
        self,
        table: Table,
        team: str,
        rfp_id: str,
        limit: int,
        before: int | None,
        *conditions: ColumnElement[bool],
    ) -> Sequence[Row[Any]]:
        query = select(table).where(*_is(table, team, normalise_id(rfp_id)), *conditions)
        if before is not None:
            query = query.where(table.c.id < before)
        return (await self._tx.execute(query.order_by(table.c.id.desc()).limit(limit))).all()

    async def _of_turn(self, table: Table, team: str, correlation_id: str) -> Sequence[Row[Any]]:
        query = select(table).where(table.c.team == team, table.c.correlation_id == correlation_id)
        return (await self._tx.execute(query.order_by(table.c.id))).all()


class TeamMemberStore(Store):
    async def save(self, team: str, member: TeamMember) -> None:
        """Store a member, and replace earlier data.

        Raises:
            RfpRefused: the id or the name is missing, or the hours per week are below 0 or more
                than a week has.
        """
        user_id = _line(member.user_id)
        name = _line(member.name)
        if not (user_id and name):
            raise RfpRefused("a team member needs a Slack user id and a name")
        if not 0 <= member.hours_per_week <= _HOURS_OF_A_WEEK:
            raise RfpRefused(
                f"the hours per week of {name} must be a number from 0 to {_HOURS_OF_A_WEEK}"
            )
        row = {
            "name": name,
            "email": _line(member.email),
            "role": _line(member.role),
            "biography": storable(member.biography).strip()[:_MAX_BIOGRAPHY],
            "skills": [skill for skill in dict.fromkeys(map(_line, member.skills)) if skill][
                :_MAX_SKILLS
            ],
            "hours_per_week": member.hours_per_week,
            "updated_at": func.now(),
        }
        new = insert(team_members).values(team=team, user_id=user_id, **row)
        await self._tx.execute(
            new.on_conflict_do_update(index_elements=["team", "user_id"], set_=row)
        )

    async def listed(self, team: str, skill: str = "", limit: int = 100) -> list[TeamMember]:
        """Return members by name; with `skill`, only members with a skill that contains these
        words.
        """
        member = team_members.c
        query = (
            select(team_members)
            .where(member.team == team)
            .order_by(func.lower(member.name))
            .limit(limit)
        )
        if skill:
            each = func.unnest(member.skills).column_valued("skill")
            has = func.strpos(func.lower(each), func.lower(_line(skill))) > 0
            query = query.where(select(each).where(has).exists())
        return [_member(row) for row in await self._tx.execute(query)]

    async def named(self, team: str, words: str) -> list[TeamMember]:
        """Return all members of this Slack id or this name, in any case. Raises `MemberNotFound`
        without one.
        """
        member = team_members.c
        sought = _line(words).removeprefix("<@").removesuffix(">")
        named = or_(member.user_id == sought, func.lower(member.name) == func.lower(sought))
        query = select(team_members).where(member.team == team, named).order_by(member.user_id)
        found = [_member(row) for row in await self._tx.execute(query)]
        if not found:
            raise MemberNotFound(f"no team member is called {sought!r}: list the team")
        return found

    async def has_address(self, team: str, email: str) -> bool:
        """Return whether a member has this mail address, which is given in lower case."""
        member = team_members.c
        query = (
            select(member.user_id)
            .where(member.team == team, func.lower(member.email) == storable(email))
            .limit(1)
        )
        return (await self._tx.execute(query)).first() is not None

    async def get(self, team: str, user_id: str) -> TeamMember | None:
        """Return the member of this Slack id; None without one."""
        member = team_members.c
        query = select(team_members).where(member.team == team, member.user_id == _line(user_id))
        row = (await self._tx.execute(query)).one_or_none()
        return _member(row) if row else None

    async def forget(self, team: str, user_id: str) -> bool:
        """Delete the member of this id; return whether there was one."""
        member = team_members.c
        gone = delete(team_members).where(member.team == team, member.user_id == _line(user_id))
        return (await self._tx.execute(gone)).rowcount > 0


def audit_values(change: Change) -> dict[str, Any]:
    """Return the columns with a change's place, time, request and operation key."""
    thread = change.operation.thread
    key = storable_key(change.operation.key)
    place = {
        "team": thread.team,
        "channel": thread.channel,
        "thread_ts": thread.ts,
        "operation_key": key,
    }
    return place | {"correlation_id": change.author.correlation_id, "created_at": _time(change)}


def operation_filter(table: Table, operation: Operation) -> tuple[ColumnElement[bool], ...]:
    """Return the condition for the row that an operation has written, at any time."""
    return table.c.team == operation.thread.team, table.c.operation_key == storable_key(
        operation.key
    )


def normalise_id(rfp_id: str) -> str:
    """Return the id as it would be stored, from any spelling by a person or a model."""
    return storable(rfp_id).strip().lower()[:_MAX_SOUGHT_ID]


def _time(change: Change) -> datetime:
    return datetime.fromtimestamp(change.now, UTC)


def _is(table: Table, team: str, rfp_id: str) -> tuple[ColumnElement[bool], ...]:
    return table.c.team == team, table.c.rfp_id == rfp_id


def _not_deleted(team: str) -> tuple[ColumnElement[bool], ...]:
    return rfps.c.team == team, rfps.c.deleted_at.is_(None)


def _select_state(team: str, rfp_id: str) -> Select[Any]:
    return select(opportunity_states).where(*_is(opportunity_states, team, rfp_id))


_NO_SOURCE: dict[str, Any] = {
    "source_name": "",
    "source_hash": None,
    "source_text": "",
    "source_unread": [],
    "source_words": [],
}


async def _source_columns(source: SourceFile) -> dict[str, Any]:
    # Cutting a long text takes a second: in a thread, other activities go on.
    words = await asyncio.to_thread(stored_words, source.text[:_INDEXED])
    return {
        "source_name": source.name,
        "source_hash": source.sha256,
        "source_text": storable(source.text)[:MAX_SOURCE_TEXT],
        "source_unread": [storable(each) for each in source.unread],
        "source_words": words,
    }


def _columns(facts: RfpFacts) -> dict[str, Any]:
    """Return the columns of an RFP's facts, with the words of its title and client."""
    return {**vars(facts), "name_words": stored_words(facts.title, facts.client)}


def _rfp(row: Row[Any]) -> Rfp:
    return Rfp(
        **{column.name: getattr(row, column.name) for column in _COLUMNS}
        | {"status": RfpStatus(row.status)}
    )


def _state(row: Row[Any]) -> OpportunityState:
    return OpportunityState(
        row.rfp_id, row.version, row.document, row.updated_by, row.correlation_id, row.updated_at
    )


def _entry(row: Row[Any]) -> JournalEntry:
    author = Author(row.user_id, row.correlation_id)
    return JournalEntry(row.id, row.rfp_id, EntryKind(row.kind), row.text, author, row.created_at)


def _event(row: Row[Any]) -> Event:
    author = Author(row.user_id, row.correlation_id)
    return Event(row.id, row.rfp_id, row.event_type, row.payload, author, row.created_at)


def _line(words: str) -> str:
    return " ".join(storable(words).split())[:_MAX_LINE]


def _member(row: Row[Any]) -> TeamMember:
    skills = tuple(row.skills)
    return TeamMember(
        row.user_id, row.name, row.email, row.role, row.biography, skills, row.hours_per_week
    )
