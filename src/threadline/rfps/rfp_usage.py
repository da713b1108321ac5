"""What is kept of a request, and what of it goes when it is deleted."""

from sqlalchemy import delete, func, select, text, update
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.jobs.model import FINISHED
from threadline.rfps import rfp_lookup as rfp_row
from threadline.rfps.model import BINDING, Traces
from threadline.rfps.tables import opportunity_states, rfps

_FOUND = text("""
SELECT
    (SELECT length(source_text) FROM rfps WHERE team = :team AND rfp_id = :rfp_id) AS characters,
    (SELECT version FROM opportunity_states WHERE team = :team AND rfp_id = :rfp_id) AS version,
    (SELECT count(*) FROM memories WHERE team = :team AND rfp_id = :rfp_id AND kind <> 'procedural') AS memories,
    (SELECT count(*) FROM journal_entries WHERE team = :team AND rfp_id = :rfp_id) AS entries,
    (SELECT count(*) FROM events WHERE team = :team AND rfp_id = :rfp_id) AS events,
    (SELECT array_agg(channel || '/' || thread_ts ORDER BY bound_at DESC) FROM thread_bindings
     WHERE team = :team AND kind = :binding AND record_id = :rfp_id) AS threads,
    (SELECT array_agg(job_id ORDER BY id) FROM agent_jobs
     WHERE team = :team AND rfp_id = :rfp_id AND status <> ALL(:over)) AS jobs,
    (SELECT array_agg(action_id ORDER BY id) FROM proposed_actions
     WHERE team = :team AND rfp_id = :rfp_id AND decision IS NULL) AS actions
""")
_FORGET = text("DELETE FROM memories WHERE team = :team AND rfp_id = :rfp_id AND kind <> 'procedural'")
"""How tools did holds no words of anybody, and names no request."""


async def traces(connection: AsyncConnection, team: str, rfp_id: str) -> Traces:
    """Of a request that is there. Raises `RfpNotFound`."""
    rfp = await rfp_row.rfp(connection, team, rfp_id)
    given = {"team": team, "rfp_id": rfp.rfp_id, "binding": BINDING, "over": list(FINISHED)}
    row = (await connection.execute(_FOUND, given)).one()
    lists = (tuple(each or ()) for each in (row.threads, row.jobs, row.actions))
    return Traces(rfp, row.characters, row.version or 0, row.memories, row.entries, row.events, *lists)


async def erase(connection: AsyncConnection, team: str, rfp_id: str) -> bool:
    """See `Rfps.delete`."""
    sought, state = rfp_row.plain(rfp_id), opportunity_states.c
    of_it = (state.team == team, state.rfp_id == sought)
    # A patch holds the state before it writes the request's row: in another order they would wait for each other.
    await connection.execute(select(state.version).where(*of_it).with_for_update())
    gone = update(rfps).where(*rfp_row.there(team), rfps.c.rfp_id == sought)
    bare = {"source_name": "", "source_hash": None, "source_text": "", "owner": "", "due_date": None}
    if not (await connection.execute(gone.values(deleted_at=func.now(), **bare))).rowcount:
        return False
    await connection.execute(delete(opportunity_states).where(*of_it))
    await connection.execute(_FORGET, {"team": team, "rfp_id": sought})
    return True
