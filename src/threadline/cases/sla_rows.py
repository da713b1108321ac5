"""What happened on the clocks of escalations."""

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.cases.sla import SlaEventKind, is_breach
from threadline.cases.tables import sla_events


class SlaEvents:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def record(self, bug_id: str, escalation: int, ordinal: int, kind: SlaEventKind, tier: int) -> bool:
        """Keep an event once; False when it was there already."""
        row = {"bug_id": bug_id, "escalation": escalation, "ordinal": ordinal, "kind": kind, "tier": tier}
        kept = insert(sla_events).values(row).on_conflict_do_nothing().returning(sla_events.c.ordinal)
        return (await self._connection.execute(kept)).first() is not None

    async def breaches(self, bug_id: str, escalation: int) -> int:
        """How many targets of an escalation were missed."""
        missed = [kind for kind in SlaEventKind if is_breach(kind)]
        query = (
            select(func.count())
            .select_from(sla_events)
            .where(sla_events.c.bug_id == bug_id, sla_events.c.escalation == escalation, sla_events.c.kind.in_(missed))
        )
        return int((await self._connection.execute(query)).scalar_one())
