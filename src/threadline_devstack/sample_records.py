"""Sample records for the conversation's tools: what one can ask about on a laptop, and change."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

from threadline.appointments.model import Resource
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.estimates.model import NewItem, Role
from threadline.knowledge.documents import parse_document, split_document
from threadline.knowledge.model import Document
from threadline.knowledge.store import KnowledgeStore
from threadline.rfps.model import NewEntry, NewRfp, RfpFacts, RfpNotFound, RfpStatus, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.slack.model import Thread
from threadline.tools.model import Author, Change, Operation
from threadline_devstack.slack import identity

PROJECT = "Web shop"
"""Work under way: it can be changed."""
LOCKED_PROJECT = "Mobile app"
"""An offer that is out: it can be read."""
RESOURCES = (
    Resource("Meeting room", "Europe/Berlin", time(9), time(17)),
    Resource("Support engineer", "America/New_York", time(8), time(16)),
)
RFPS = (
    ("rfp_abc123", 60, RfpFacts("Website relaunch", "Northwind", status=RfpStatus.IN_PROGRESS, owner="developer")),
    ("rfp_xyz789", 25, RfpFacts("Customer portal", "Northwind", status=RfpStatus.NEW, owner="reporter")),
    ("rfp_tix456", 10, RfpFacts("Mobile ticketing", "City Transit", status=RfpStatus.SHORTLISTED, owner="developer")),
)
"""Each with its id, and in how many days it is due."""
_JOURNALS = {
    "rfp_abc123": "We answer this one: the shop that they run is much like the one we built last year.",
    "rfp_xyz789": "The client answers questions for another two weeks. Nobody has begun to write.",
    "rfp_tix456": "We are among the last three, and present our proposal before the due date.",
}
MEMBERS = (
    TeamMember(
        identity.REPORTER,
        "reporter",
        "reporter@example.com",
        "Bid manager",
        "Has led public tenders for ten years, and knows their forms and their deadlines.",
        ("tenders", "contract law", "negotiation"),
        24,
    ),
    TeamMember(
        identity.DEVELOPER,
        "developer",
        "developer@example.com",
        "Solution architect",
        "Built web shops and ticketing systems; writes the technical part of proposals.",
        ("Python", "web architecture", "estimates"),
        16,
    ),
    TeamMember(
        identity.SECOND_DEVELOPER,
        "second developer",
        "second-developer@example.com",
        "Data engineer",
        "Works with sensors and time series, and has run two monitoring projects in ports.",
        ("data pipelines", "sensors", "Python"),
        8,
    ),
)
_ROLES = (Role("designer", Decimal(800)), Role("developer", Decimal("900.50")), Role("tester", Decimal(650)))
_ITEMS = (
    NewItem("Design of the checkout", "designer", Decimal(4)),
    NewItem("Checkout with discount codes", "developer", Decimal("7.5")),
    NewItem("Tests of prices and taxes", "tester", Decimal(3)),
)
_TAX = Decimal(19)
_DOCUMENTS = Path(__file__).with_name("sample_documents")


async def load_sample_records(url: str, team: str) -> None:
    """Fill a database whose team has no such records yet; what people made of them since stays."""
    database = Database(url, pool_size=1, application="threadline-devstack")
    try:
        async with database.begin() as work:
            await _lay_what_is_booked_and_read(work, team)
            await _lay_proposals(work, team)
    finally:
        await database.dispose()


async def _lay_what_is_booked_and_read(work: Work, team: str) -> None:
    known = {project.name for project in await work.estimates.projects(team)}
    for name in (PROJECT, LOCKED_PROJECT):
        if name not in known:
            await _lay_project(work, team, name, locked=name == LOCKED_PROJECT)
    appointments = AppointmentStore(work.tx)
    if not await appointments.resources(team):
        for resource in RESOURCES:
            await appointments.save_resource(team, resource)
    knowledge = KnowledgeStore(work.tx)
    if not await knowledge.documents(team):
        for document in sample_documents():
            await knowledge.save(team, document, split_document(document))


async def _lay_proposals(work: Work, team: str) -> None:
    for rfp_id, days, facts in RFPS:
        try:
            await RfpStore(work.tx).get(team, rfp_id)
        except RfpNotFound as missing:
            if not missing.deleted:  # what people have deleted does not come back
                await _lay_rfp(work, team, rfp_id, replace(facts, due_date=_today() + timedelta(days)))
    if not await TeamMemberStore(work.tx).listed(team, limit=1):
        for member in MEMBERS:
            await TeamMemberStore(work.tx).save(team, member)


def sample_documents() -> Iterator[Document]:
    for path in sorted(_DOCUMENTS.glob("*.md")):
        yield parse_document(f"handbook/{path.name}", path.read_bytes())


async def _lay_project(work: Work, team: str, name: str, *, locked: bool) -> None:
    project = await work.estimates.get_or_create_project(team, name, "EUR")
    for role in _ROLES:
        await work.estimates.save_role(team, project.project_id, role)
    await work.estimates.create_items(team, project.project_id, _ITEMS)
    await work.estimates.update_quote_totals(team, project.project_id, tax_percent=_TAX)
    await work.estimates.set_locked(team, project.project_id, locked=locked)


async def _lay_rfp(work: Work, team: str, rfp_id: str, facts: RfpFacts) -> None:
    author, said = Author("", "sample"), NewEntry(_JOURNALS[rfp_id])
    await RfpStore(work.tx).create(_change(team, rfp_id, 1), NewRfp(facts), author, rfp_id)
    await RfpStore(work.tx).append_entry(_change(team, rfp_id, 2), rfp_id, said, author)


def _today() -> date:
    return datetime.now(UTC).date()


def _change(team: str, name: str, step: int) -> Change:
    """No conversation is so called, so that the key is this change's alone."""
    return Change(Operation(Thread(team, "sample", name), 0, step, "sample"), datetime.now(UTC).timestamp())
