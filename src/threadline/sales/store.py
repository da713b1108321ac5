"""Customers on record: found by a few words, changed with a row of the audit for each field, all in one transaction."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable, storable_key
from threadline.sales import model as crm
from threadline.sales.model import (
    COMPANY_FIELDS,
    LEAD_FIELDS,
    LONGEST_SUMMARY,
    Contact,
    FieldChange,
    Interaction,
    InteractionKind,
    Lead,
    LeadNotFound,
    LeadRefused,
    Stage,
    Updated,
)
from threadline.sales.tables import crm_audit, crm_companies, crm_interactions, crm_leads
from threadline.tools.model import Author, Change
from threadline.tools.operation_store import Operations

_UPDATED = TypeAdapter(Updated)
_LEAD = TypeAdapter(Lead)
_LEADS = select(
    crm_leads,
    crm_companies.c.name.label("company"),
    *(crm_companies.c[name] for name in COMPANY_FIELDS),
).select_from(crm_leads.outerjoin(crm_companies, crm_leads.c.company_id == crm_companies.c.company_id))


class Crm:
    """To a team, leads of another are not there."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def find(self, team: str, words: str, limit: int) -> list[Lead]:
        """By id, by Slack id, or by a part of the name, the address or the company, whatever its letters' case."""
        sought = " ".join(storable(words).split())
        row, part = crm_leads.c, sought.lower()
        texts = (row.name, row.email, crm_companies.c.name)
        named = [func.strpos(func.lower(func.coalesce(each, "")), part) > 0 for each in texts]
        exact = (row.lead_id == sought.upper(), row.user_id == sought.removeprefix("<@").removesuffix(">"))
        query = _LEADS.where(row.team == team, or_(*exact, *named)) if sought else _LEADS.where(row.team == team)
        found = await self._connection.execute(query.order_by(func.lower(row.name), row.id).limit(limit))
        return [_lead(each) for each in found]

    async def lead(self, team: str, lead_id: str) -> Lead:
        """Raises `LeadNotFound`."""
        found = await self._one(_of(team, lead_id))
        if found is None:
            raise LeadNotFound(f"there is no lead {lead_id[:40]}: find it by its name, address or company")
        return found

    async def known(self, team: str, contact: Contact) -> Lead | None:
        """Somebody's own lead: by their Slack id or, where nobody has it yet, by their address."""
        row, email = crm_leads.c, storable(contact.email).strip().lower()
        mine = row.user_id == contact.user_id
        who = or_(mine, (row.user_id == "") & (row.email == email)) if email else mine
        return await self._one(_LEADS.where(row.team == team, who).order_by(mine.desc()).limit(1))

    async def at_address(self, team: str, email: str) -> Lead | None:
        return await self._one(_LEADS.where(crm_leads.c.team == team, crm_leads.c.email == email))

    async def vouched(self, team: str, email: str, user_id: str) -> bool:
        """Whether a lead has this address by somebody else's word than this user's, or by nobody's in the audit."""
        lead, row = await self.at_address(team, email), crm_audit.c
        if lead is None:
            return False
        said = (row.lead_id == lead.lead_id, row.field == "email", row.became == lead.email)
        by = select(row.user_id).where(*said).order_by(row.id.desc()).limit(1)
        return (await self._connection.execute(by)).scalar() != user_id

    async def interactions(self, lead_id: str, limit: int) -> list[Interaction]:
        """The newest first."""
        row = crm_interactions.c
        query = select(row.kind, row.summary, row.at, row.by_user).where(row.lead_id == lead_id)
        rows = await self._connection.execute(query.order_by(row.id.desc()).limit(limit))
        return [Interaction(InteractionKind(each.kind), each.summary, each.at, each.by_user) for each in rows]

    async def update(
        self, change: Change, lead_id: str, contact: Contact, fields: Mapping[str, str], author: Author
    ) -> Updated:
        """Change a lead and its company, once for each operation; what a field said already is no change.

        Args:
            lead_id: empty for the one of `contact`, which is made where there is none.

        Raises:
            LeadNotFound, LeadRefused, RateExceeded: nothing was changed; the message says why.
        """
        wanted = crm.checked({name: storable(value) for name, value in fields.items()})

        async def act() -> Updated:
            lead, created = await self._held(change, lead_id, contact)
            given = (await self._profile(change.team, contact) if created else {}) | wanted
            changes = await self._link(change, lead, given)
            lead = await self.lead(change.team, lead.lead_id)
            changes += await self._write(change.team, lead, given)
            await self._audit(change, changes, author)
            return Updated(await self.lead(change.team, lead.lead_id), tuple(changes), created)

        return await self._operations.once(change, "crm_update", lead_id or contact.user_id, _UPDATED, act)

    async def log(self, change: Change, lead_id: str, contact: Contact, kind: InteractionKind, summary: str) -> Lead:
        """Put down what passed between us, once for each operation. Arguments and errors as of `update`."""
        told = storable(summary).strip()
        if not 0 < len(told) <= LONGEST_SUMMARY:
            raise LeadRefused(f"the summary of an interaction has 1 to {LONGEST_SUMMARY} characters, not {len(told)}")

        async def act() -> Lead:
            lead, _ = await self._held(change, lead_id, contact)
            await self.add(lead.lead_id, Interaction(kind, told, _moment(change), contact.user_id))
            return lead

        return await self._operations.once(change, "crm_log", lead_id or contact.user_id, _LEAD, act)

    async def add(self, lead_id: str, interaction: Interaction) -> None:
        """Put an interaction down, as part of another change."""
        values = {"lead_id": lead_id, "kind": interaction.kind.value, "summary": interaction.summary}
        new = insert(crm_interactions).values(**values, at=interaction.at, by_user=interaction.by)
        await self._connection.execute(new)

    async def _held(self, change: Change, lead_id: str, contact: Contact) -> tuple[Lead, bool]:
        """The lead, locked until the transaction ends; whether it was made for this."""
        if lead_id:
            lead, created = await self.lead(change.team, lead_id), False
        elif known := await self.known(change.team, contact):
            lead, created = known, False
        else:
            lead, created = await self._made(change, contact)
        await self._operations.spend(change, f"lead:{lead.lead_id}")
        await self._connection.execute(_locked(lead.lead_id))
        mine = not lead_id and not lead.user_id
        if mine:
            claimed = update(crm_leads).where(crm_leads.c.lead_id == lead.lead_id, crm_leads.c.user_id == "")
            await self._connection.execute(claimed.values(user_id=contact.user_id))
        return await self.lead(change.team, lead.lead_id), created

    async def _made(self, change: Change, contact: Contact) -> tuple[Lead, bool]:
        """Of two who make the same lead at once, the second waits and finds the first one's."""
        row = {"team": change.team, "user_id": contact.user_id, "created_at": _moment(change)}
        new = insert(crm_leads).values(**row).on_conflict_do_nothing().returning(crm_leads.c.lead_id)
        created = (await self._connection.execute(new)).first() is not None
        lead = await self.known(change.team, Contact(contact.user_id))
        if lead is None:
            raise LeadNotFound("the lead was deleted meanwhile: ask again")
        return lead, created

    async def _profile(self, team: str, contact: Contact) -> dict[str, str]:
        """What a new lead begins with; an address that is another lead's is left to that one."""
        email = contact.email.strip().lower()
        free = crm.is_address(email) and await self.at_address(team, email) is None
        name = " ".join(storable(contact.name).split())[: LEAD_FIELDS["name"]]
        return {"name": name} | ({"email": email} if free else {})

    async def _link(self, change: Change, lead: Lead, fields: Mapping[str, str]) -> list[FieldChange]:
        """The company that a lead belongs to, made where the team knows none of this name."""
        name = fields.get("company")
        if name is None or name == lead.company:
            return []
        company_id, called = await self._company(change, name) if name else (None, "")
        if called == lead.company:
            return []
        moved = update(crm_leads).where(crm_leads.c.lead_id == lead.lead_id)
        await self._connection.execute(moved.values(company_id=company_id))
        return [FieldChange(lead.lead_id, "company", lead.company, called)]

    async def _company(self, change: Change, name: str) -> tuple[str, str]:
        """Its id, and its name as it is written there."""
        row = crm_companies.c
        new = insert(crm_companies).values(team=change.team, name=name, created_at=_moment(change))
        await self._connection.execute(new.on_conflict_do_nothing())
        there = select(row.company_id, row.name).where(
            row.team == change.team, func.lower(row.name) == func.lower(name)
        )
        found = (await self._connection.execute(there)).one()
        return found.company_id, found.name

    async def _write(self, team: str, lead: Lead, fields: Mapping[str, str]) -> list[FieldChange]:
        own = _differing(lead, lead.lead_id, fields, LEAD_FIELDS)
        if own:
            mended = update(crm_leads).where(crm_leads.c.lead_id == lead.lead_id)
            try:
                await self._connection.execute(mended.values({each.field: each.became for each in own}))
            except IntegrityError as taken:
                raise LeadRefused("another lead has this mail address: find that one, and change it") from taken
        if not fields.keys() & COMPANY_FIELDS.keys():
            return own
        company_id = await self._locked_company(lead)
        firm = _differing(await self.lead(team, lead.lead_id), company_id, fields, COMPANY_FIELDS)
        if firm:
            mended = update(crm_companies).where(crm_companies.c.company_id == company_id)
            await self._connection.execute(mended.values({each.field: each.became for each in firm}))
        return own + firm

    async def _locked_company(self, lead: Lead) -> str:
        row = crm_leads.c
        company_id = (
            await self._connection.execute(select(row.company_id).where(row.lead_id == lead.lead_id))
        ).scalar()
        if company_id is None:
            raise LeadRefused(f"{lead.lead_id} has no company yet: name one in company")
        held = (
            select(crm_companies.c.id).where(crm_companies.c.company_id == company_id).with_for_update(key_share=True)
        )
        await self._connection.execute(held)
        return str(company_id)

    async def _audit(self, change: Change, changes: list[FieldChange], author: Author) -> None:
        for each in changes:
            whose = {"company_id": each.of} if each.of.startswith("CO-") else {"lead_id": each.of}
            values = {"field": each.field, "was": each.was, "became": each.became, "at": _moment(change)}
            by = {"user_id": author.user_id, "correlation_id": author.correlation_id}
            key = storable_key(change.operation.key)
            await self._connection.execute(insert(crm_audit).values(**whose, **values, **by, operation_key=key))

    async def _one(self, query: Select[Any]) -> Lead | None:
        found = (await self._connection.execute(query)).one_or_none()
        return _lead(found) if found else None


def _of(team: str, lead_id: str) -> Select[Any]:
    return _LEADS.where(crm_leads.c.team == team, crm_leads.c.lead_id == storable(lead_id).strip().upper())


def _locked(lead_id: str) -> Select[Any]:
    return select(crm_leads.c.id).where(crm_leads.c.lead_id == lead_id).with_for_update(key_share=True)


def _differing(lead: Lead, of: str, fields: Mapping[str, str], known: Mapping[str, int]) -> list[FieldChange]:
    given = ((name, str(getattr(lead, name)), value) for name, value in fields.items() if name in known)
    return [FieldChange(of, name, was, value) for name, was, value in given if was != value]


def _lead(row: Row[Any]) -> Lead:
    firm = {name: getattr(row, name) or "" for name in ("company", *COMPANY_FIELDS)}
    own = {name: getattr(row, name) for name in ("lead_id", "user_id", *LEAD_FIELDS)}
    return Lead(**{**own, **firm, "stage": Stage(row.stage)})


def _moment(change: Change) -> datetime:
    return datetime.fromtimestamp(change.now, UTC)
