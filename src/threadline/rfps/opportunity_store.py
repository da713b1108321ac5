"""The states of opportunities: made once, and changed by whoever has seen the newest version."""

from datetime import UTC, datetime
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import Row, Select, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.values import storable_json
from threadline.rfps import model as rfps
from threadline.rfps import opportunity_state as opportunity
from threadline.rfps import rfp_lookup as rfp_row
from threadline.rfps.json_documents import same
from threadline.rfps.opportunity_state import OpportunityState, StateMoved
from threadline.rfps.tables import opportunity_states
from threadline.tools.model import Author, Change
from threadline.tools.operation_store import Operations

_STATE = TypeAdapter(OpportunityState)


class Opportunities:
    """A state belongs to its request's team: to the others there is no such request."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._operations = Operations(connection)

    async def ensure_state_exists(self, team: str, rfp_id: str) -> OpportunityState:
        """The state, begun from what is known of the request where there is none yet. Raises `RfpNotFound`."""
        rfp = await rfp_row.rfp(self._connection, team, rfp_id)
        query = _of(team, rfp.rfp_id)
        if found := (await self._connection.execute(query)).one_or_none():
            return _state(found)
        await rfp_row.rfp(self._connection, team, rfp.rfp_id, hold=True)
        new = insert(opportunity_states).values(team=team, rfp_id=rfp.rfp_id, document=rfps.in_document(rfp))
        await self._connection.execute(new.on_conflict_do_nothing())
        return _state((await self._connection.execute(query)).one())

    async def patch(
        self, change: Change, rfp_id: str, patch: object, based_on: int, author: Author
    ) -> OpportunityState:
        """Apply a JSON merge patch, once for each operation; the request's lists show the facts that it changes.

        A patch that says what the document says already is applied, and leaves the version as it is.

        Args:
            based_on: the version of the state that the patch was made from.

        Raises:
            StateMoved: that is not the newest. Whoever applies it again does so in another transaction.
            RfpNotFound, PatchRefused, RfpRefused, RateExceeded: nothing was changed; the message says why.
        """
        given = storable_json(opportunity.checked(patch))
        rfp_id = rfp_row.plain(rfp_id)

        async def act() -> OpportunityState:
            await self.ensure_state_exists(change.team, rfp_id)
            state = await self._newest(change.team, rfp_id)
            if state.version != based_on:
                raise StateMoved(rfp_id, based_on, state.version)
            await self._operations.spend(change, f"rfp:{rfp_id}")
            return await self._apply(change, state, given, author)

        return await self._operations.once(change, "opportunity_patch", rfp_id, _STATE, act)

    async def _newest(self, team: str, rfp_id: str) -> OpportunityState:
        """As it is when whoever holds it has committed; held until the transaction ends. Raises `RfpNotFound`."""
        found = (await self._connection.execute(_of(team, rfp_id).with_for_update())).one_or_none()
        # Whoever held it may have deleted the request.
        return _state(found) if found else await self.ensure_state_exists(team, rfp_id)

    async def _apply(self, change: Change, state: OpportunityState, patch: object, author: Author) -> OpportunityState:
        document = opportunity.patched(state.document, patch)
        facts = rfps.facts_of(document)
        document = {name: each for name, each in document.items() if name not in rfps.FACTS} | rfps.in_document(facts)
        if same(document, state.document):
            return state
        row = opportunity_states.c
        here = update(opportunity_states).where(row.team == change.team, row.rfp_id == state.rfp_id)
        changed = here.values(
            version=state.version + 1,
            document=document,
            updated_by=author.user_id,
            correlation_id=author.correlation_id,
            updated_at=datetime.fromtimestamp(change.now, UTC),
        )
        await rfp_row.write(self._connection, state.rfp_id, facts)
        return _state((await self._connection.execute(changed.returning(opportunity_states))).one())


def _of(team: str, rfp_id: str) -> Select[Any]:
    row = opportunity_states.c
    return select(opportunity_states).where(row.team == team, row.rfp_id == rfp_id)


def _state(row: Row[Any]) -> OpportunityState:
    return OpportunityState(
        rfp_id=row.rfp_id,
        version=row.version,
        document=row.document,
        updated_by=row.updated_by,
        correlation_id=row.correlation_id,
        updated_at=row.updated_at,
    )
