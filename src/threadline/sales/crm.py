"""The customers as the tools and the decision engine need them, on Postgres: each call is one unit of work."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.db.unit_of_work import Work
from threadline.errors import Permanent, before_a_change
from threadline.sales import model as crm
from threadline.sales.model import Contact, InteractionKind, Lead, LeadNotFound, LeadRefused, Updated
from threadline.sales.tools import Asker, CrmBook, Dossier
from threadline.slack.model import User, refusal_of
from threadline.slack.users import UserDirectory
from threadline.tools.model import Author, Change, Effect, Operation

TOLD = 3
"""Interactions of which the decision engine is told."""
_NOT_THEIRS = (
    "only members of the workspace can change the record of a company: leave out {fields}, and keep the rest of the "
    "call"
)
_NOT_YOURS = "people outside the workspace can see and change only their own record: leave lead_id out"


class PostgresCrm(CrmBook):
    """Whoever is no full member of the workspace has their own lead, and no other is there for them; of the company
    that they say they belong to, they see and change nothing.

    Args:
        users: who somebody is in Slack; whom it does not know counts as from outside.
        rate: how often one record may be changed; None for as often as one likes.
    """

    def __init__(self, database: Database, users: UserDirectory, rate: Rate | None = None) -> None:
        self._database = database
        self._users = users
        self._rate = rate

    async def find(self, team: str, asker: Asker, words: str, limit: int) -> Sequence[Lead]:
        user, inside = await self._who(team, asker)
        async with self._database.begin() as work:
            if inside:
                return await work.crm.find(team, words, limit)
            own = await work.crm.known(team, _contact(asker.user_id, user))
            return [crm.from_outside(own)] if own and not asker.others else []

    async def get(self, team: str, asker: Asker, lead_id: str, recent: int) -> Dossier:
        user, inside = await self._who(team, asker)
        contact = _contact(asker.user_id, user)
        async with self._database.begin() as work:
            await _allow(work, team, contact, lead_id, inside=inside)
            lead = await work.crm.lead(team, lead_id) if lead_id else await work.crm.known(team, contact)
            if lead is None:
                raise LeadNotFound("the person who asks has no record yet: find a lead by name, or change a field")
            shown = lead if inside else crm.from_outside(lead)
            return Dossier(shown, await work.crm.interactions(lead.lead_id, recent))

    async def update(
        self, change: Change, asker: Asker, correlation_id: str, lead_id: str, fields: Mapping[str, str]
    ) -> Updated:
        with before_a_change():
            user, inside = await self._who(change.team, asker)
        contact, author = _contact(asker.user_id, user), Author(asker.user_id, correlation_id)
        if not inside and (of_company := sorted(fields.keys() & crm.COMPANY_FIELDS.keys())):
            raise LeadRefused(_NOT_THEIRS.format(fields=", ".join(of_company)))
        async with self._database.begin() as work:
            await _allow(work, change.team, contact, lead_id, inside=inside)
            done = await work.crm.update(self._limited(change), lead_id, contact, fields, author)
        return done if inside else replace(done, lead=crm.from_outside(done.lead))

    async def log(self, change: Change, asker: Asker, lead_id: str, kind: InteractionKind, summary: str) -> Lead:
        with before_a_change():
            user, inside = await self._who(change.team, asker)
        contact = _contact(asker.user_id, user)
        async with self._database.begin() as work:
            await _allow(work, change.team, contact, lead_id, inside=inside)
            return await work.crm.log(self._limited(change), lead_id, contact, kind, summary)

    async def effect(self, operation: Operation) -> Effect | None:
        async with self._database.begin() as work:
            return await work.operations.effect(operation)

    async def context_of(self, team: str, user_id: str) -> str:
        """What is on record of somebody, in at most `crm.LONGEST_CONTEXT` characters; empty for nobody."""
        user = await self._users.get(user_id)
        async with self._database.begin() as work:
            lead = await work.crm.known(team, _contact(user_id, user))
            if lead is None:
                return ""
            told = lead if refusal_of(user, team) is None else crm.from_outside(lead)
            return crm.context_lines(told, await work.crm.interactions(lead.lead_id, TOLD))

    async def _who(self, team: str, asker: Asker) -> tuple[User | None, bool]:
        """Who asks, and whether all who do are of the workspace."""
        user = await self._users.get(asker.user_id)
        return user, await self._users.are_full_members(team, (asker.user_id, *asker.others))

    def _limited(self, change: Change) -> Change:
        return replace(change, rate=self._rate)


async def _allow(work: Work, team: str, contact: Contact, lead_id: str, *, inside: bool) -> None:
    """Raises `LeadNotFound`."""
    if inside or not lead_id:
        return
    own = await work.crm.known(team, contact)
    if own is None or own.lead_id != lead_id.strip().upper():
        raise LeadNotFound(_NOT_YOURS)


def _contact(user_id: str, user: User | None) -> Contact:
    if not user_id.strip():
        raise Permanent("the person who asks is unknown: name the lead")
    return Contact(user_id, user.name, user.email) if user else Contact(user_id)
