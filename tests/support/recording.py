"""Shared parts of the tests of the operator's records: requests, authors, and query plans of a
repository.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event, text

from tests.support.patience import patient
from tests.support.tool_store import AUTHOR, NOW, change
from threadline.db.engine import Database, Transaction
from threadline.rfps.model import CreatedRfp, Rfp, RfpFacts, SourceFile
from threadline.rfps.store import RfpStore

HASH = "0123456789abcdef" * 4


async def create(
    database: Database,
    call_id: str = "create",
    *,
    team: str = "T1",
    rfp_id: str = "",
    **facts: Any,
) -> Rfp:
    """Create a request, in a call of its own."""
    new = RfpFacts(**({"title": "Website relaunch", "client": "Acme"} | facts))
    async with database.begin() as tx:
        return (await RfpStore(tx).create(change(call_id, team=team), new, rfp_id)).rfp


async def create_from(
    database: Database, call_id: str, sha256: str = HASH, *, team: str = "T1"
) -> CreatedRfp:
    """Create a request from a file."""
    source = SourceFile("brief.pdf", sha256, "A crane for the harbour.")
    async with database.begin() as tx:
        return await RfpStore(tx).create(
            change(call_id, team=team), RfpFacts("From a file"), source=source
        )


async def until_waited_for(tx: Transaction) -> None:
    """Wait until another transaction waits for a lock, which this transaction holds."""
    waits = text("SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted) FROM pg_sleep(0.005)")
    async with asyncio.timeout(patient(10)):
        while not (await tx.execute(waits)).scalar_one():
            pass


class Asked:
    """The statements that ran inside `plans`, explained when it ends."""

    def __init__(self) -> None:
        self.plans: list[str] = []


@asynccontextmanager
async def explained(database: Database) -> AsyncIterator[tuple[Transaction, Asked]]:
    """A unit of work whose SELECTs are explained afterwards, with their arguments."""
    asked = Asked()
    run = list[tuple[str, Any]]()

    def keep(_: object, __: object, statement: str, parameters: Any, *___: object) -> None:
        run.append((statement, parameters))

    async with database.begin() as tx:
        engine = tx.sync_connection
        event.listen(engine, "before_cursor_execute", keep)
        yield tx, asked
        event.remove(engine, "before_cursor_execute", keep)
        for statement, parameters in run:
            rows = await tx.exec_driver_sql(f"EXPLAIN {statement}", parameters)
            asked.plans.append("\n".join(rows.scalars()))


__all__ = [
    "AUTHOR",
    "HASH",
    "NOW",
    "Asked",
    "create",
    "create_from",
    "explained",
    "until_waited_for",
]
