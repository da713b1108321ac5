"""Estimates as tests read them."""

from threadline.db.engine import Transaction
from threadline.estimates.model import ProjectDetails
from threadline.estimates.store import EstimateStore


async def details_of(tx: Transaction, team: str, project: str) -> ProjectDetails:
    """Return a project, by its id or name, with all its parts."""
    store = EstimateStore(tx)
    return await store.details(await store.project(team, project))
