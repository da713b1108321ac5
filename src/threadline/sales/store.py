"""LeadStore: customers, with an audit row for each changed field. EmailDraftStore: emails that are
sent at most once.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, Update, delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError

from threadline.db.engine import Store
from threadline.db.values import storable, storable_key
from threadline.errors import Permanent
from threadline.sales.model import (
    COMPANY_FIELDS,
    LEAD_FIELDS,
    MAX_SUMMARY,
    DraftStatus,
    EmailDraft,
    FieldChange,
    Interaction,
    InteractionKind,
    Lead,
    NewEmail,
    Stage,
    check_lead_fields,
    is_address,
)
from threadline.sales.tables import (
    crm_audit,
    crm_companies,
    crm_interactions,
    crm_leads,
    email_drafts,
)
from threadline.slack.model import Thread, User
from threadline.slack.text import parse_user_id
from threadline.tools.model import Change

_LEADS = select(
    crm_leads,
    crm_companies.c.name.label("company"),
    *(crm_companies.c[name] for name in COMPANY_FIELDS),
).select_from(
    crm_leads.outerjoin(crm_companies, crm_leads.c.company_id == crm_companies.c.company_id)
)


class LeadStore(Store):
    """Leads and companies; a team finds only its own."""

    async def find(self, team: str, words: str, limit: int) -> list[Lead]:
        """Return leads by id, by Slack id, or by a part of the name, the address or the company,
        in any case.
        """
        sought = " ".join(storable(words).split())
        row = crm_leads.c
        part = sought.lower()
        texts = (row.name, row.email, crm_companies.c.name)
        parts = [func.strpos(func.lower(func.coalesce(each, "")), part) > 0 for each in texts]
        ids = (row.lead_id == sought.upper(), row.user_id == (parse_user_id(sought) or sought))
        query = (
            _LEADS.where(row.team == team, or_(*ids, *parts))
            if sought
            else _LEADS.where(row.team == team)
        )
        found = await self._tx.execute(query.order_by(func.lower(row.name), row.id).limit(limit))
        return [_lead(each) for each in found]

    async def get(self, team: str, lead_id: str) -> Lead:
        """Return a lead. Raises `Permanent`: there is none with this id."""
        row = crm_leads.c
        found = await self._one(
            _LEADS.where(row.team == team, row.lead_id == storable(lead_id).strip().upper())
        )
        if found is None:
            raise Permanent(
                f"there is no lead {lead_id[:40]}: find it by its name, address or company"
            )
        return found

    async def find_by_contact(self, team: str, user_id: str, address: str = "") -> Lead | None:
        """Return a person's own lead: by their Slack id or, where no lead has it yet, by their
        mail address. Raises `Permanent` for an empty id.
        """
        if not user_id.strip():  # an empty id would match every lead who is not in Slack
            raise Permanent("the person asking is unknown: name the lead")
        row = crm_leads.c
        email = storable(address).strip().lower()
        mine = row.user_id == user_id
        who = or_(mine, (row.user_id == "") & (row.email == email)) if email else mine
        return await self._one(_LEADS.where(row.team == team, who).order_by(mine.desc()).limit(1))

    async def by_email(self, team: str, email: str) -> Lead | None:
        return await self._one(_LEADS.where(crm_leads.c.team == team, crm_leads.c.email == email))

    async def is_vouched_for(self, team: str, email: str, user_id: str) -> bool:
        """Return whether a lead has this address, and this user was not the last to enter it."""
        lead = await self.by_email(team, email)
        row = crm_audit.c
        if lead is None:
            return False
        entered = (row.lead_id == lead.lead_id, row.field == "email", row.new_value == lead.email)
        by = select(row.user_id).where(*entered).order_by(row.id.desc()).limit(1)
        return (await self._tx.execute(by)).scalar() != user_id

    async def interactions(self, lead_id: str, limit: int) -> list[Interaction]:
        """Return a lead's interactions, newest first."""
        row = crm_interactions.c
        query = select(row.kind, row.summary, row.at, row.user_id).where(row.lead_id == lead_id)
        rows = await self._tx.execute(query.order_by(row.id.desc()).limit(limit))
        return [
            Interaction(InteractionKind(each.kind), each.summary, each.at, each.user_id)
            for each in rows
        ]

    async def hold(
        self, team: str, lead_id: str, user_id: str, user: User | None, now: datetime
    ) -> tuple[Lead, bool]:
        """Lock a lead until the transaction ends. Return it, and whether it was created.

        Args:
            lead_id: empty for the lead of `user_id`, which is created if missing.
            user: that person, from Slack.

        Raises:
            Permanent: there is no such lead.
        """
        row = crm_leads.c
        address = user.email if user else ""
        created = False
        lead = (
            await self.get(team, lead_id)
            if lead_id
            else await self.find_by_contact(team, user_id, address)
        )
        # on concurrent creation, the second one waits and finds the first one's lead
        if lead is None:
            new = (
                insert(crm_leads)
                .values(team=team, user_id=user_id, created_at=now)
                .on_conflict_do_nothing()
            )
            created = (await self._tx.execute(new.returning(row.lead_id))).first() is not None
            lead = await self.find_by_contact(team, user_id)
        if lead is None:
            raise Permanent("the lead was deleted in the meantime: ask again")
        await self._tx.execute(
            select(row.id).where(row.lead_id == lead.lead_id).with_for_update(key_share=True)
        )
        if not lead_id and not lead.user_id:  # it was found by its address
            claim = update(crm_leads).where(row.lead_id == lead.lead_id, row.user_id == "")
            await self._tx.execute(claim.values(user_id=user_id))
        return await self.get(team, lead.lead_id), created

    async def update(
        self, change: Change, lead: Lead, fields: Mapping[str, str], made_for: User | None = None
    ) -> tuple[Lead, list[FieldChange]]:
        """Change a lead and its company. Return the lead and the fields whose value changed.

        Args:
            lead: locked by this transaction.
            made_for: the person whose lead was just created; their name and address are its first
                values.

        Raises:
            Permanent: a field cannot be stored, or another lead has the address.
        """
        team = change.team
        now = datetime.fromtimestamp(change.now, UTC)
        wanted = check_lead_fields({name: storable(value) for name, value in fields.items()})
        given = dict[str, str]()
        if made_for:
            given["name"] = " ".join(storable(made_for.name).split())[: LEAD_FIELDS["name"]]
            email = made_for.email.strip().lower()
            # an address that another lead has stays there
            if is_address(email) and await self.by_email(team, email) is None:
                given["email"] = email
        given |= wanted
        changes = await self._link_company(team, lead, given, now)
        lead = await self.get(team, lead.lead_id)
        changes += await self._write(team, lead, given)
        for each in changes:
            record = {
                "company_id" if each.record_id.startswith("CO-") else "lead_id": each.record_id
            }
            values = {
                "field": each.field,
                "old_value": each.old,
                "new_value": each.new,
                "changed_at": now,
            }
            by = vars(change.author)
            key = storable_key(change.operation.key)
            await self._tx.execute(
                insert(crm_audit).values(**record, **values, **by, operation_key=key)
            )
        return await self.get(team, lead.lead_id), changes

    async def add_interaction(self, lead_id: str, interaction: Interaction) -> None:
        """Add an interaction. Raises `Permanent`: the summary is empty or too long."""
        summary = storable(interaction.summary).strip()
        if not 0 < len(summary) <= MAX_SUMMARY:
            raise Permanent(
                f"the summary of an interaction has 1 to {MAX_SUMMARY} characters, not "
                f"{len(summary)}"
            )
        row = {
            "lead_id": lead_id,
            "kind": interaction.kind.value,
            "summary": summary,
            "at": interaction.at,
        }
        await self._tx.execute(insert(crm_interactions).values(**row, user_id=interaction.user_id))

    async def _link_company(
        self, team: str, lead: Lead, fields: Mapping[str, str], now: datetime
    ) -> list[FieldChange]:
        """Set the company of a lead; create it if the team does not have it."""
        name = fields.get("company")
        if name is None or name == lead.company:
            return []
        company_id = None
        stored_name = ""
        if name:
            row = crm_companies.c
            new = insert(crm_companies).values(team=team, name=name, created_at=now)
            await self._tx.execute(new.on_conflict_do_nothing())
            stored = select(row.company_id, row.name).where(
                row.team == team, func.lower(row.name) == func.lower(name)
            )
            company_id, stored_name = (await self._tx.execute(stored)).one()
        if stored_name == lead.company:
            return []
        moved = update(crm_leads).where(crm_leads.c.lead_id == lead.lead_id)
        await self._tx.execute(moved.values(company_id=company_id))
        return [FieldChange(lead.lead_id, "company", lead.company, stored_name)]

    async def _write(self, team: str, lead: Lead, fields: Mapping[str, str]) -> list[FieldChange]:
        changes = _changes(lead, lead.lead_id, fields, LEAD_FIELDS)
        if changes:
            changed = update(crm_leads).where(crm_leads.c.lead_id == lead.lead_id)
            try:
                await self._tx.execute(changed.values({each.field: each.new for each in changes}))
            except IntegrityError as taken:
                raise Permanent(
                    "another lead has this mail address: find that one, and change it"
                ) from taken
        if not fields.keys() & COMPANY_FIELDS.keys():
            return changes
        row = crm_leads.c
        company = crm_companies.c
        company_id = (
            await self._tx.execute(select(row.company_id).where(row.lead_id == lead.lead_id))
        ).scalar()
        if company_id is None:
            raise Permanent(f"{lead.lead_id} has no company yet: name one in company")
        held = select(company.id).where(company.company_id == company_id)
        await self._tx.execute(held.with_for_update(key_share=True))
        of_company = _changes(
            await self.get(team, lead.lead_id), company_id, fields, COMPANY_FIELDS
        )
        if of_company:
            changed = update(crm_companies).where(company.company_id == company_id)
            await self._tx.execute(changed.values({each.field: each.new for each in of_company}))
        return changes + of_company

    async def _one(self, query: Select[Any]) -> Lead | None:
        found = (await self._tx.execute(query)).one_or_none()
        return _lead(found) if found else None


class EmailDraftStore(Store):
    """Drafts of emails, whose text never changes. A draft belongs to its thread and is not found
    from others.
    """

    async def add(self, thread: Thread, user_id: str, new: NewEmail, now: datetime) -> EmailDraft:
        """Add a draft. `new`: a result of `check_email`."""
        place = {
            "team": thread.team,
            "channel": thread.channel,
            "thread_ts": thread.ts,
            "user_id": user_id,
        }
        texts = {name: storable(value) for name, value in vars(new).items()}
        row = insert(email_drafts).values(**place, **texts, created_at=now).returning(email_drafts)
        return _draft((await self._tx.execute(row)).one())

    async def get(self, thread: Thread, draft_id: str) -> EmailDraft:
        """Return a draft. Raises `Permanent`: the thread has none with this id."""
        found = (
            await self._tx.execute(select(email_drafts).where(*_is_draft(thread, draft_id)))
        ).one_or_none()
        if found is None:
            raise Permanent(f"this thread has no draft {draft_id[:40]}: draft the mail first")
        return _draft(found)

    async def claim(self, thread: Thread, draft_id: str, operation_key: str) -> None:
        """Claim a draft to send it; at most one operation succeeds. Raises `Permanent` if it was
        claimed before, also by the same operation.
        """
        claim = {"status": DraftStatus.SENDING.value, "operation_key": storable_key(operation_key)}
        is_free = email_drafts.c.status == DraftStatus.DRAFT.value
        free = update(email_drafts).where(*_is_draft(thread, draft_id), is_free)
        if (await self._tx.execute(free.values(**claim))).rowcount:
            return
        draft = await self.get(thread, draft_id)
        was = "was already sent" if draft.status is DraftStatus.SENT else "may have been sent"
        raise Permanent(
            f"{draft.draft_id} {was}, and a draft is sent only once. Draft another mail to "
            "send one"
        )

    async def release(self, operation_key: str) -> None:
        """Make a claimed email a draft again, which was certainly not sent."""
        free = {"status": DraftStatus.DRAFT.value, "operation_key": ""}
        await self._tx.execute(_claimed_by(operation_key).values(**free))

    async def mark_sent(self, operation_key: str, message_id: str, at: datetime) -> EmailDraft:
        """Record that the mail server has accepted the email."""
        sent = {"status": DraftStatus.SENT.value, "message_id": message_id, "sent_at": at}
        changed = _claimed_by(operation_key).values(**sent).returning(email_drafts)
        return _draft((await self._tx.execute(changed)).one())

    async def claimed_by(self, operation_key: str) -> EmailDraft | None:
        """Return the draft that an operation has sent, or has begun to send."""
        mine = select(email_drafts).where(
            email_drafts.c.operation_key == storable_key(operation_key)
        )
        found = (await self._tx.execute(mine)).one_or_none()
        return _draft(found) if found else None

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Delete at most `limit` drafts from before a moment (seconds since 1970). Return how
        many.
        """
        row = email_drafts.c
        old = (
            select(row.id).where(row.created_at < datetime.fromtimestamp(before, UTC)).limit(limit)
        )
        return (await self._tx.execute(delete(email_drafts).where(row.id.in_(old)))).rowcount


def _changes(
    lead: Lead, record_id: str, fields: Mapping[str, str], known: Mapping[str, int]
) -> list[FieldChange]:
    values = (
        (name, str(getattr(lead, name)), value) for name, value in fields.items() if name in known
    )
    return [FieldChange(record_id, name, old, new) for name, old, new in values if old != new]


def _lead(row: Row[Any]) -> Lead:
    company = {name: getattr(row, name) or "" for name in ("company", *COMPANY_FIELDS)}
    own = {name: getattr(row, name) for name in ("lead_id", "user_id", *LEAD_FIELDS)}
    return Lead(**{**own, **company, "stage": Stage(row.stage)})


def _is_draft(thread: Thread, draft_id: str) -> tuple[ColumnElement[bool], ...]:
    row = email_drafts.c
    here = (row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)
    return (*here, row.draft_id == storable(draft_id).strip().upper())


def _claimed_by(operation_key: str) -> Update:
    row = email_drafts.c
    mine = (
        row.operation_key == storable_key(operation_key),
        row.status == DraftStatus.SENDING.value,
    )
    return update(email_drafts).where(*mine)


def _draft(row: Row[Any]) -> EmailDraft:
    texts = (row.draft_id, row.user_id, row.recipient, row.subject, row.body)
    return EmailDraft(*texts, DraftStatus(row.status), row.message_id, row.sent_at)
