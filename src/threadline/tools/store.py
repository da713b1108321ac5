"""The calls of tools: what was about to be done, what came of it, and for how long that is remembered."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, FromClause, Row, and_, delete, exists, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Database, Store, Transaction, savepoint
from threadline.db.rate_limits import MUTATION_RATE, Rate, RateLimits
from threadline.db.values import storable, storable_key
from threadline.errors import Transient
from threadline.slack.model import Thread
from threadline.tools.model import CallIdReused, ErrorCode, Operation, ToolResult, ToolStatus, error_result
from threadline.tools.tables import agent_tool_executions

_MAX_NAME = 100
_OPEN_INTENT = 3600.0
"""Seconds for which a change without a result keeps its toolset's answers from being given again."""


@dataclass(frozen=True)
class LoggedCall:
    """A call of a tool as it is recorded.

    Args:
        parameters: JSON without secrets.
        fingerprint: of the question with its unredacted arguments; equal for equal questions of the same person.
        now: seconds since 1970.
        voids_answers: whether its toolset has answers that may be given again, until it has changed something.
        rate_key: the record whose changes are counted when the call begins; empty where none is.
        waits_for_rate: whether the call is tried again, rather than refused, where that was changed too often.
        cache_seconds: for how long its answer may be given to the same question again; 0 for never.
        keep_result: whether the result of a success is kept. Without it, a repeated call runs again.
        has_side_effects: whether something is to be done once its success is recorded.
    """

    operation: Operation
    request_id: str
    user_id: str
    tool_name: str
    parameters: object
    fingerprint: str
    now: float
    changes: bool = False
    voids_answers: bool = False
    rate_key: str = ""
    waits_for_rate: bool = False
    cache_seconds: float = 0.0
    keep_result: bool = True
    has_side_effects: bool = False

    @property
    def toolset(self) -> str:
        return self.tool_name.split(".", 1)[0]


@dataclass(frozen=True)
class ToolExecution:
    """A call as it is on record. `status` is None as long as nobody knows what came of it, `finished_at` also while
    side effects may not have run."""

    status: ToolStatus | None
    result: Any
    created_at: datetime
    finished_at: datetime | None

    @property
    def tool_result(self) -> ToolResult | None:
        """None as long as there is none, and where a success was not kept."""
        return None if self.result is None else _RESULT.validate_python(self.result)


@dataclass(frozen=True)
class ToolOutcome:
    """How a call ended; `code` is its error's, empty without one. `status`: as of a `ToolExecution`."""

    call_id: str
    tool_name: str
    status: ToolStatus | None
    code: str


class ToolExecutionStore(Store):
    """`now` and `before` are in seconds since 1970."""

    async def intend(self, call: LoggedCall, seconds: float | None = None) -> ToolExecution | None:
        """Write down that a call which changes something is about to be made; commit that before it is made. Returns
        None where nobody has tried, so make it; else do not: it is on record. Raises `CallIdReused`: the operation
        stands for a call of another tool or with other arguments. `seconds`: after which Postgres ends the transaction
        that makes the call; None for no such limit."""
        new = insert(agent_tool_executions).values(_values(call)).on_conflict_do_nothing()
        if (await self._tx.execute(new.returning(agent_tool_executions.c.id, *_transaction_limit(seconds)))).first():
            return None
        found = await self._row(call.operation, seconds)
        # Another attempt may have withdrawn its intent between the two statements.
        return _record(_same(found, call)) if found else await self.intend(call, seconds)

    async def get(self, operation: Operation) -> ToolExecution | None:
        """The call as it is on record; None when there is nothing."""
        row = await self._row(operation)
        return _record(row) if row else None

    async def of_call(self, call: LoggedCall, seconds: float | None = None) -> ToolExecution | None:
        """This very call as it is on record; None when there is nothing. `seconds` and errors: as in `intend`."""
        row = await self._row(call.operation, seconds)
        return _record(_same(row, call)) if row else None

    async def finish(
        self,
        call: LoggedCall,
        status: ToolStatus,
        result: object,
        execution_time_ms: int | None,
        now: float,
        *,
        over_intent: bool = True,
        done: bool = True,
    ) -> ToolExecution | None:
        """Keep what came of a call. The first word stands: returns None, or what another attempt has recorded before.
        `over_intent`: in the place of an intent, if there is one. `done`: whether no side effect is left to run. Raises
        `CallIdReused`: as in `intend`."""
        outcome = {
            "status": status,
            "result": result,
            "execution_time_ms": execution_time_ms,
            "finished_at": _moment(now) if done else None,
        }
        row = agent_tool_executions.c
        kept = insert(agent_tool_executions).values(**_values(call), **outcome)
        if over_intent:
            kept = kept.on_conflict_do_update(
                index_elements=[row.team, row.channel, row.thread_ts, row.turn, row.step, row.call_id],
                set_=outcome,
                where=and_(row.status.is_(None), row.fingerprint == call.fingerprint),
            )
        else:
            kept = kept.on_conflict_do_nothing()
        if (await self._tx.execute(kept.returning(row.id))).first():
            return None
        if found := await self._row(call.operation):
            return _record(_same(found, call))
        return await self.finish(call, status, result, execution_time_ms, now, over_intent=over_intent, done=done)

    async def record_groups(self, thread: Thread, turn: int) -> list[Any]:
        """What the calls of a turn that went well have for people, as JSON, in the order in which they were begun."""
        return await self._parts(thread, turn, "structured")

    async def sources(self, thread: Thread, turn: int) -> list[str]:
        """What the answer of a turn names that rests on its calls, each once, in the order in which it was found."""
        parts = await self._parts(thread, turn, "sources")
        return list(dict.fromkeys(source for part in parts for source in part or ()))

    async def outcomes(self, thread: Thread, turn: int, limit: int = 200) -> list[ToolOutcome]:
        """How the calls of a turn ended, in the order in which they were begun, without what they returned."""
        row = agent_tool_executions.c
        code = row.result["error"]["code"].astext.label("code")
        query = select(row.call_id, row.tool_name, row.status, code).where(_in(thread), row.turn == turn).limit(limit)
        rows = await self._tx.execute(query.order_by(row.step, row.created_at, row.call_id))
        return [ToolOutcome(each.call_id, each.tool_name, each.status, each.code or "") for each in rows]

    async def count_outcomes(self, thread: Thread, broken: Collection[str]) -> tuple[int, int]:
        """How many calls of a thread went well, and how many ended with an error of these codes."""
        row = agent_tool_executions.c
        went = select(
            func.count().filter(row.status.in_(("ok", "cached"))),
            func.count().filter(row.status == "error", row.result["error"]["code"].astext.in_(broken)),
        ).where(_in(thread))
        well, ill = (await self._tx.execute(went)).one()
        return int(well), int(ill)

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget at most `limit` calls from before a moment; returns how many, so that 0 means none is left."""
        row = agent_tool_executions.c
        old = select(row.id).where(row.created_at < _moment(before)).limit(limit)
        return (await self._tx.execute(delete(agent_tool_executions).where(row.id.in_(old)))).rowcount

    async def _parts(self, thread: Thread, turn: int, name: str) -> list[Any]:
        """One part of the results of the calls that went well: a turn may have a hundred results of two megabytes. None
        where a result has none."""
        row = agent_tool_executions.c
        part = select(row.result[name]).where(_in(thread), row.turn == turn, row.success)
        return list((await self._tx.execute(part.order_by(row.step, row.created_at, row.call_id))).scalars())

    async def _row(self, operation: Operation, seconds: float | None = None) -> Row[Any] | None:
        one = select(literal(1).label("one")).subquery()  # the limit is set also where there is no record
        found = one.outerjoin(agent_tool_executions, and_(*_place(operation)))
        query = select(agent_tool_executions, *_transaction_limit(seconds)).select_from(found)
        row = (await self._tx.execute(query)).one()
        return None if row.id is None else row


def _transaction_limit(seconds: float | None) -> list[ColumnElement[str]]:
    """A column that has Postgres end the transaction after so many seconds; none without a limit."""
    if seconds is None:
        return []
    return [func.set_config("transaction_timeout", f"{seconds * 1000:.0f}", True).label("transaction_limit")]


def _same(row: Row[Any], call: LoggedCall) -> Row[Any]:
    if row.fingerprint != call.fingerprint:
        raise CallIdReused(f"{call.operation.key} belongs to another call: a call needs its own id")
    return row


def _in(thread: Thread) -> ColumnElement[bool]:
    row = agent_tool_executions.c
    return and_(row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)


def _place(operation: Operation) -> tuple[ColumnElement[bool], ...]:
    row = agent_tool_executions.c
    call = (row.turn == operation.turn, row.step == operation.step, row.call_id == storable_key(operation.call_id))
    return _in(operation.thread), *call


def _of_toolset(executions: FromClause, call: LoggedCall) -> tuple[ColumnElement[bool], ...]:
    row = executions.c
    return row.team == call.operation.thread.team, func.split_part(row.tool_name, ".", 1) == call.toolset


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def _values(call: LoggedCall) -> dict[str, object]:
    thread = call.operation.thread
    return {
        "team": thread.team,
        "channel": thread.channel,
        "thread_ts": thread.ts,
        "turn": call.operation.turn,
        "step": call.operation.step,
        "call_id": storable_key(call.operation.call_id),
        "request_id": call.request_id,
        "user_id": call.user_id,
        # A model may make a name up, of any length.
        "tool_name": storable(call.tool_name)[:_MAX_NAME],
        "fingerprint": call.fingerprint,
        "cacheable": call.cache_seconds > 0,
        "parameters": call.parameters,
        "created_at": _moment(call.now),
    }


def _record(row: Row[Any]) -> ToolExecution:
    return ToolExecution(*(getattr(row, each.name) for each in fields(ToolExecution)))


_RESULT = TypeAdapter(ToolResult)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class CallIntent:
    """The call is to be made. `at`: seconds since 1970, since when; `new`: no earlier attempt was about to make it.
    With a `result`, the call was made, and only its side effects are to be run."""

    at: float
    new: bool
    result: ToolResult | None = None


def too_many_changes(call: LoggedCall, rate: Rate) -> ToolResult:
    """The refusal of a change whose record has reached its rate. Raises `Transient`: the call waits. Nothing of it is
    recorded, since its transaction is rolled back."""
    if call.waits_for_rate:
        raise Transient("This record was changed too often in a short time.", retry_after=rate.seconds)
    return error_result(ErrorCode.TOO_MANY_CHANGES)


class ToolLedger:
    """Its methods raise `Transient` when Postgres cannot be reached, and `CallIdReused` when the operation stands for a
    call of another tool or with other arguments. `rate`: how often one record may be changed, in all threads of a team
    together; None for as often as one likes."""

    def __init__(self, database: Database, rate: Rate | None = MUTATION_RATE) -> None:
        self._database = database
        self.rate = rate

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open the transaction of a call: all of it is kept, or, when the block raises, nothing."""
        return self._database.begin()

    async def begin(
        self, tx: Transaction, call: LoggedCall, refusal: ToolResult | None, seconds: float | None = None
    ) -> ToolResult | CallIntent:
        """Return the result that the call has already, or the intent to make it.

        Args:
            refusal: why the call may not be made, None if it may.
            seconds: after which Postgres ends the transaction, so that nothing is committed once the call is given up.
                None: the transaction makes no call.

        The first that applies:

        1. The result on record is returned, as an intent while its side effects may not have run. Another attempt
           whose transaction makes the call is waited for.
        2. A change that an earlier attempt was about to make has that attempt's intent.
        3. `refusal` is recorded and returned, and so is one where the record of `rate_key` has reached its rate, unless
           the call waits for it: then `Transient` is raised. When that cannot be counted, the call goes on.
        4. A success of the same question is recorded again as cached, if it is recent and its toolset changed nothing
           since then.
        5. A change is recorded as an intent; a read needs none.
        """
        executions = ToolExecutionStore(tx)
        intends = call.changes and refusal is None
        known = await executions.intend(call, seconds) if intends else await executions.of_call(call, seconds)
        result = None if known else refusal or await self._rate_refusal(tx, call) or await _cached(tx, call)
        if result:
            known = await executions.finish(call, result.status, asdict(result), 0, call.now, over_intent=intends)
        if known is None:
            return result or CallIntent(call.now, new=True)
        if known.status is None:
            return CallIntent(known.created_at.timestamp(), new=False)
        if known.result is None:  # it was not kept
            return refusal or CallIntent(call.now, new=True)
        recorded = known.tool_result
        if recorded and known.finished_at:
            return recorded
        return CallIntent(known.created_at.timestamp(), new=False, result=recorded)

    async def withdraw(self, tx: Transaction, call: LoggedCall, intent: CallIntent) -> None:
        """Remove this intent, since its change was not made, and none that another attempt recorded after it."""
        row = agent_tool_executions.c
        mine = (*_place(call.operation), row.status.is_(None), row.created_at == _moment(intent.at))
        await tx.execute(delete(agent_tool_executions).where(*mine))

    async def finish(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
    ) -> ToolResult:
        """Record the result, and void the cached answers of a toolset that may have changed something. A success of a
        call with side effects stays open until `complete`. Returns the result on record: that of another attempt, if it
        was first."""
        kept = asdict(result) if call.keep_result or not result.success else None
        done = not (call.has_side_effects and result.made)
        earlier = await ToolExecutionStore(tx).finish(call, result.status, kept, milliseconds, now, done=done)
        if call.voids_answers:
            answers = (agent_tool_executions.c.cacheable, *_of_toolset(agent_tool_executions, call))
            await tx.execute(update(agent_tool_executions).where(*answers).values(cacheable=False))
        return (earlier and earlier.tool_result) or result

    async def complete(self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float) -> None:
        """Record that the side effects of a call have run, with what they said."""
        row = agent_tool_executions.c
        mine = (*_place(call.operation), row.fingerprint == call.fingerprint, row.finished_at.is_(None))
        done = update(agent_tool_executions).where(*mine)
        await tx.execute(done.values(result=asdict(result), finished_at=_moment(now)))

    async def _rate_refusal(self, tx: Transaction, call: LoggedCall) -> ToolResult | None:
        """Counts in the scope in which `context.count_change` counts."""
        if not call.rate_key or self.rate is None:
            return None
        scope, event = f"{call.operation.thread.team}:{call.rate_key}", call.operation.key
        try:
            async with savepoint(tx):
                limits = RateLimits(tx)
                allowed = await limits.allows_change(storable_key(scope), storable_key(event), call.now, self.rate)
        except Exception:  # noqa: BLE001 - better a change too many than none
            _log.exception("rate_limit_unavailable", tool=call.tool_name)
            return None
        return None if allowed else too_many_changes(call, self.rate)


async def _cached(tx: Transaction, call: LoggedCall) -> ToolResult | None:
    """Return the newest success of the same question, None when it is older than `cache_seconds`, or its toolset may
    have changed something since then."""
    if not call.cache_seconds:
        return None
    row, intents = agent_tool_executions.c, agent_tool_executions.alias()
    open_intent = (intents.c.status.is_(None), intents.c.created_at > _moment(call.now - _OPEN_INTENT))
    changing = exists().where(*_of_toolset(intents, call), *open_intent)
    same = (row.fingerprint == call.fingerprint, row.cacheable, row.status == ToolStatus.OK)
    recent = row.finished_at > _moment(call.now - call.cache_seconds)
    query = select(row.result).where(*same, recent, ~changing).order_by(row.finished_at.desc()).limit(1)
    try:
        async with savepoint(tx):
            found = (await tx.execute(query)).scalar_one_or_none()
        return None if found is None else replace(_RESULT.validate_python(found), status=ToolStatus.CACHED)
    except Exception:  # noqa: BLE001 - the tool answers instead
        _log.exception("cached_answer_unavailable", tool=call.tool_name)
        return None
