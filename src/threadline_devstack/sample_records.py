"""Loads sample_records.yaml: records on a laptop that people can ask the bot about, and change."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import yaml

from threadline.appointments.model import Resource
from threadline.appointments.store import AppointmentStore
from threadline.db.engine import Database, Transaction
from threadline.estimates.model import NewWbsItem, ProjectRole
from threadline.estimates.store import EstimateStore
from threadline.knowledge.documents import parse_document, split_document
from threadline.knowledge.model import Document
from threadline.knowledge.store import KnowledgeStore
from threadline.rfps.model import RfpFacts, RfpNotFound, RfpStatus, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.slack.model import Thread
from threadline.tools.model import Author, Change, Operation

_SAMPLES: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_name("sample_records.yaml").read_text("utf-8")
)
_DOCUMENTS = Path(__file__).with_name("sample_documents")


async def load_sample_records(url: str, team: str) -> None:
    """Fill a database whose team has no such records yet; people's changes since then stay."""
    database = Database(url, pool_size=1, application="threadline-devstack")
    try:
        async with database.begin() as tx:
            await _load_what_is_booked_and_read(tx, team)
            await _load_proposals(tx, team)
    finally:
        await database.dispose()


async def _load_what_is_booked_and_read(tx: Transaction, team: str) -> None:
    known = {project.name for project in await EstimateStore(tx).projects(team)}
    for given in _SAMPLES["projects"]:
        if given["name"] not in known:
            await _load_project(tx, team, **given)
    appointments = AppointmentStore(tx)
    if not await appointments.resources(team):
        for name, time_zone, opens, closes in _SAMPLES["resources"]:
            resource = Resource(
                name, time_zone, time.fromisoformat(opens), time.fromisoformat(closes)
            )
            await appointments.save_resource(team, resource)
    knowledge = KnowledgeStore(tx)
    if not await knowledge.documents(team):
        for document in sample_documents():
            await knowledge.save(team, document, split_document(document))


async def _load_proposals(tx: Transaction, team: str) -> None:
    for given in _SAMPLES["rfps"]:
        rfp_id = given["rfp_id"]
        try:
            await RfpStore(tx).get(team, rfp_id)
        except RfpNotFound as missing:
            if not missing.deleted:  # do not restore RFPs that people have deleted
                await _load_rfp(tx, team, **given)
    if not await TeamMemberStore(tx).listed(team, limit=1):
        for given in _SAMPLES["team"]:
            await TeamMemberStore(tx).save(
                team, TeamMember(**given | {"skills": tuple(given["skills"])})
            )


def sample_documents() -> Iterator[Document]:
    for path in sorted(_DOCUMENTS.glob("*.md")):
        yield parse_document(f"handbook/{path.name}", path.read_bytes()).document


async def _load_project(tx: Transaction, team: str, name: str, *, locked: bool) -> None:
    plan = _SAMPLES["estimate"]
    project = await EstimateStore(tx).get_or_create_project(team, name, "EUR")
    for role, day_rate in plan["roles"]:
        await EstimateStore(tx).save_role(
            team, project.project_id, ProjectRole(role, Decimal(day_rate))
        )
    items = [
        NewWbsItem(title=title, role=role, days=Decimal(days))
        for title, role, days in plan["items"]
    ]
    await EstimateStore(tx).create_items(team, project.project_id, items)
    await EstimateStore(tx).update_quote_totals(
        team, project.project_id, tax_percent=Decimal(plan["tax_percent"])
    )
    await EstimateStore(tx).set_locked(team, project.project_id, locked=locked)


async def _load_rfp(
    tx: Transaction,
    team: str,
    rfp_id: str,
    title: str,
    client: str,
    status: str,
    owner: str,
    due_in_days: int,
    journal: str,
) -> None:
    due = datetime.now(UTC).date() + timedelta(due_in_days)
    facts = RfpFacts(title, client, status=RfpStatus(status), owner=owner, due_date=due)
    await RfpStore(tx).create(_change(team, rfp_id, 1), facts, rfp_id)
    await RfpStore(tx).append_entry(_change(team, rfp_id, 2), rfp_id, journal)


def _change(team: str, name: str, step: int) -> Change:
    """Return a change with a unique key: no conversation has this name."""
    operation = Operation(Thread(team, "sample", name), 0, step, "sample")
    return Change(operation, Author("", "sample"), datetime.now(UTC).timestamp())
