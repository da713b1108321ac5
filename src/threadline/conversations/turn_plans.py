"""The way of each turn, what the operator was told for it, and what it came to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, and_, select, text, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations import conversation_row
from threadline.conversations import open_questions as pending_requests
from threadline.conversations.tables import conversations, turn_plans
from threadline.operator.model.routing import TurnRoute
from threadline.slack.model import Thread
from threadline.tools.store import ToolExecutionStore

_ROUTE = TypeAdapter(TurnRoute)
_SPENT = text("""
SELECT coalesce(sum(input_tokens + output_tokens), 0) AS tokens, coalesce(sum(cost_usd), 0) AS cost_usd,
       count(*) FILTER (WHERE purpose = 'think') AS calls
FROM model_calls WHERE conversation_id = :id AND turn = :turn
""")
_LASTED = text("""
SELECT extract(epoch FROM clock_timestamp() - created_at) FROM turn_plans WHERE conversation_id = :id AND turn = :turn
""")
_TOLD_NOTHING: dict[str, Any] = {"context": "", "patterns": "", "analysis": ""}

_SAID = text("""
WITH mine AS (
    SELECT * FROM conversation_messages WHERE conversation_id = :id AND turn = :turn AND message_type = 'message'
)
SELECT m.message_text FROM mine m
WHERE m.redacted_at IS NULL AND (m.addressed OR position('<@' IN m.message_text) = 0 AND m.sender_id IN (
    SELECT sender_id FROM mine WHERE addressed
    UNION ALL
    SELECT sender_id FROM mine WHERE step = 1 AND NOT EXISTS (SELECT FROM mine WHERE addressed)))
ORDER BY m.said_at, m.seq
""")
"""Where nobody called the bot, whoever was alone with it when the turn began has spoken to it."""


@dataclass(frozen=True)
class Plan:
    """A turn's way. `context`, `patterns` and `analysis` are empty once it is settled; `layers` say what was gathered.

    `result` is what it came to; None while it runs.
    """

    route: TurnRoute
    context: str = ""
    patterns: str = ""
    analysis: str = ""
    layers: tuple[Mapping[str, Any], ...] = ()
    result: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Spent:
    """What a turn took so far. `seconds` since its way was found; `tools` by their own names, in order."""

    model_calls: int
    tokens: int
    cost_usd: float
    seconds: float
    tools: tuple[str, ...]


class TurnPlans:
    """What changes a plan holds its conversation's row until the transaction ends; a settled turn's plan stays."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of(self, thread: Thread, turn: int) -> Plan | None:
        """A turn's plan; None where its way was not found yet."""
        query = select(turn_plans).join(conversations).where(conversation_row.here(thread), turn_plans.c.turn == turn)
        row = (await self._connection.execute(query)).one_or_none()
        if row is None:
            return None
        route, layers = _ROUTE.validate_python(row.route), tuple(row.layers)
        return Plan(route, row.context, row.patterns, row.analysis, layers, row.result)

    async def keep(self, thread: Thread, turn: int, route: TurnRoute) -> None:
        """Write down a turn's way; the first one stands."""
        row = await conversation_row.locked(self._connection, thread)
        written = _ROUTE.dump_python(route, mode="json")
        new = insert(turn_plans).values(conversation_id=row.id, turn=turn, route=written)
        await self._connection.execute(new.on_conflict_do_nothing())

    async def reroute(self, thread: Thread, turn: int, route: TurnRoute) -> None:
        """The turn goes another way from now on: the operator goes on where the conversational agent has failed."""
        written = _ROUTE.dump_python(route, mode="json")
        await self._write(thread, turn, route=written)

    async def prepared(
        self, thread: Thread, turn: int, context: str, patterns: str, layers: Sequence[Mapping[str, Any]]
    ) -> None:
        """What the operator is told in this turn: what was gathered first stands, so that no step is told more."""
        told = {"context": context, "patterns": patterns, "layers": list(layers)}
        await self._write(thread, turn, turn_plans.c.context == "", **told)

    async def analysed(self, thread: Thread, turn: int, analysis: str) -> None:
        """What the model made of the request; the first word stands."""
        await self._write(thread, turn, turn_plans.c.analysis == "", analysis=analysis)

    async def finish(self, thread: Thread, turn: int, result: Mapping[str, Any]) -> None:
        """What the turn came to; what it was told goes."""
        await self._write(thread, turn, result=dict(result), **_TOLD_NOTHING)

    async def forget_told(self, conversation_id: int) -> None:
        """Somebody has deleted words that the operator may have been told: all that it was told goes."""
        mine = update(turn_plans).where(turn_plans.c.conversation_id == conversation_id)
        await self._connection.execute(mine.values(**_TOLD_NOTHING))

    async def spent(self, thread: Thread, turn: int) -> Spent:
        row = await conversation_row.locked(self._connection, thread)
        which = {"id": row.id, "turn": turn}
        used = (await self._connection.execute(_SPENT, which)).one()
        seconds = (await self._connection.execute(_LASTED, which)).scalar_one_or_none()
        tools = tuple(await ToolExecutionStore(self._connection).tool_names(thread, turn))
        return Spent(used.calls, used.tokens, float(used.cost_usd), float(seconds or 0), tools)

    async def awaiting(self, thread: Thread, user_id: str) -> int:
        """The turn with which the bot has asked somebody something that nobody has answered; 0 for none.

        What was told by rule since then, such as that there is no such RFP, leaves it open, and so does a silent turn.
        """
        row = await conversation_row.locked(self._connection, thread)
        found = (await pending_requests.pending(self._connection, row.id)).get(user_id)
        return found.turn if found else 0

    async def said_in(self, thread: Thread, turn: int) -> list[str]:
        """What was said to the bot that a turn has used, as it reads now, without what was deleted: what is addressed
        to it, and what its askers wrote besides and called nobody with."""
        row = await conversation_row.locked(self._connection, thread)
        return list((await self._connection.execute(_SAID, {"id": row.id, "turn": turn})).scalars())

    async def _write(self, thread: Thread, turn: int, where: ColumnElement[bool] | None = None, **values: Any) -> None:
        row = await conversation_row.locked(self._connection, thread)
        open_ = turn_plans.c.result.is_(None)
        mine = and_(turn_plans.c.conversation_id == row.id, turn_plans.c.turn == turn, open_)
        which = mine if where is None else and_(mine, where)
        await self._connection.execute(update(turn_plans).where(which).values(**values))
