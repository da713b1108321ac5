"""Sample records for the conversation's tools: what one can ask about on a laptop, and change."""

from collections.abc import Iterator
from datetime import UTC, datetime, time
from decimal import Decimal
from pathlib import Path

from threadline.db.engine import Database
from threadline.db.work import Work
from threadline.domain.addressing import Thread
from threadline.domain.appointments import Resource
from threadline.domain.estimates import NewItem, Role
from threadline.domain.operations import Change, Operation
from threadline.domain.records import Document

PROJECT = "Web shop"
"""Work under way: it can be changed."""
LOCKED_PROJECT = "Mobile app"
"""An offer that is out: it can be read."""
RESOURCES = (
    Resource("Meeting room", "Europe/Berlin", time(9), time(17)),
    Resource("Support engineer", "America/New_York", time(8), time(16)),
)
_ROLES = (Role("designer", Decimal(800)), Role("developer", Decimal("900.50")), Role("tester", Decimal(650)))
_ITEMS = (
    NewItem("Design of the checkout", "designer", Decimal(4)),
    NewItem("Checkout with discount codes", "developer", Decimal("7.5")),
    NewItem("Tests of prices and taxes", "tester", Decimal(3)),
)
_TAX = Decimal(19)
_DOCUMENTS = Path(__file__).with_name("sample_documents")


async def lay_sample_records(url: str, team: str) -> None:
    """Fill a database whose team has no such records yet; what people made of them since stays."""
    database = Database(url, pool_size=1, application="threadline-devstack")
    try:
        async with database.begin() as work:
            known = {project.name for project in await work.estimates.projects(team)}
            for name in (PROJECT, LOCKED_PROJECT):
                if name not in known:
                    await _lay_project(work, team, name, locked=name == LOCKED_PROJECT)
            if not await work.appointments.resources(team):
                for resource in RESOURCES:
                    await work.appointments.save_resource(team, resource)
            if not await work.knowledge.documents(team):
                for document in sample_documents():
                    await work.knowledge.save(team, document)
    finally:
        await database.dispose()


def sample_documents() -> Iterator[Document]:
    for path in sorted(_DOCUMENTS.glob("*.md")):
        heading, _, body = path.read_text(encoding="utf-8").partition("\n")
        yield Document(heading.removeprefix("# "), f"handbook/{path.name}", body)


async def _lay_project(work: Work, team: str, name: str, *, locked: bool) -> None:
    project = await work.estimates.open_project(team, name, "EUR")
    for role in _ROLES:
        await work.estimates.save_role(team, project.project_id, role)
    await work.estimates.create_items(_change(team, name, 1), project.project_id, _ITEMS)
    await work.estimates.update_quote_totals(_change(team, name, 2), project.project_id, tax_percent=_TAX)
    await work.estimates.set_locked(team, project.project_id, locked=locked)


def _change(team: str, name: str, step: int) -> Change:
    """No conversation is so called, so that the key is this change's alone."""
    return Change(Operation(Thread(team, "sample", name), 0, step, "sample"), datetime.now(UTC).timestamp())
