"""The record of tool calls: intents and results, and the time for which an answer may
be repeated.
"""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict, dataclass, fields, replace
from datetime import UTC, datetime
from typing import Any

import structlog
from pydantic import TypeAdapter
from sqlalchemy import (
    ColumnElement,
    FromClause,
    Row,
    and_,
    delete,
    exists,
    func,
    literal,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from threadline.db.engine import Database, Store, Transaction, savepoint
from threadline.db.rate_limits import MUTATION_RATE, Rate, RateLimits
from threadline.db.values import storable, storable_key
from threadline.errors import Transient
from threadline.slack.model import Thread
from threadline.tools.model import (
    CallIdReused,
    ErrorCode,
    Operation,
    ToolResult,
    ToolStatus,
    error_result,
)
from threadline.tools.tables import agent_tool_executions

_MAX_NAME = 100
_OPEN_INTENT = 3600.0
"""Seconds for which a change without a result stops its toolset's cached answers."""


@dataclass(frozen=True)
class LoggedCall:
    """A tool call in the form in which it is recorded.

    Args:
        parameters: JSON without secrets.
        fingerprint: a hash of the question with its unredacted arguments; equal for equal
            questions of the same person.
        now: seconds since 1970.
        changes: an intent is recorded before the call is made.
        voids_answers: the call voids its toolset's cached answers.
        rate_key: the record whose changes are counted when the call begins; empty for none.
        waits_for_rate: at the limit the call is retried rather than refused.
        cache_seconds: the time for which its answer may be given to the same question again; 0 for
            never.
        keep_result: the result of a success is stored. Without it, a repeated call runs again.
        has_side_effects: side effects follow after its success is recorded.
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
    """A recorded call. `status` is None while the outcome is unknown; `finished_at` is also None
    while side effects may not have run.
    """

    status: ToolStatus | None
    result: Any
    created_at: datetime
    finished_at: datetime | None

    @property
    def tool_result(self) -> ToolResult | None:
        """The result; None while there is none, and for a success that was not stored."""
        return None if self.result is None else _RESULT.validate_python(self.result)


@dataclass(frozen=True)
class ToolOutcome:
    """The outcome of a call. `status`: as in `ToolExecution`. `code`: the error's
    code, or empty.
    """

    call_id: str
    tool_name: str
    status: ToolStatus | None
    code: str


class ToolExecutionStore(Store):
    """`now` and `before` are in seconds since 1970."""

    async def intend(self, call: LoggedCall, seconds: float | None = None) -> ToolExecution | None:
        """Record the intent to make a change; commit it before the change.

        Args:
            seconds: the time after which Postgres ends the transaction that makes the call; None
                for no limit.

        Returns:
            None if this is the first attempt, which must make the call; else the call on record,
            which must not be made again.

        Raises:
            CallIdReused: the operation belongs to a call of another tool or with other arguments.
        """
        new = insert(agent_tool_executions).values(_values(call)).on_conflict_do_nothing()
        if (
            await self._tx.execute(
                new.returning(agent_tool_executions.c.id, *_transaction_limit(seconds))
            )
        ).first():
            return None
        found = await self._row(call.operation, seconds)
        # Another attempt may have withdrawn its intent between the two statements.
        return _record(_same(found, call)) if found else await self.intend(call, seconds)

    async def get(self, operation: Operation) -> ToolExecution | None:
        """Return the call on record, or None."""
        row = await self._row(operation)
        return _record(row) if row else None

    async def of_call(
        self, call: LoggedCall, seconds: float | None = None
    ) -> ToolExecution | None:
        """Return this same call on record, or None. `seconds` and errors: as in `intend`."""
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
        """Record the outcome of a call; first write wins.

        Args:
            over_intent: replace an intent, if there is one.
            done: no side effect is left to run.

        Returns:
            None, or the outcome that another attempt recorded first.

        Raises:
            CallIdReused: as in `intend`.
        """
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
                index_elements=[
                    row.team,
                    row.channel,
                    row.thread_ts,
                    row.turn,
                    row.step,
                    row.call_id,
                ],
                set_=outcome,
                where=and_(row.status.is_(None), row.fingerprint == call.fingerprint),
            )
        else:
            kept = kept.on_conflict_do_nothing()
        if (await self._tx.execute(kept.returning(row.id))).first():
            return None
        if found := await self._row(call.operation):
            return _record(_same(found, call))
        return await self.finish(
            call, status, result, execution_time_ms, now, over_intent=over_intent, done=done
        )

    async def record_groups(self, thread: Thread, turn: int) -> list[Any]:
        """Return the records that a turn's successful calls show to people, as JSON, in the order
        in which the calls began.
        """
        return await self._parts(thread, turn, "structured")

    async def sources(self, thread: Thread, turn: int) -> list[str]:
        """Return the sources that a turn's answer must name, each once, in the order in which they
        were found.
        """
        parts = await self._parts(thread, turn, "sources")
        return list(dict.fromkeys(source for part in parts for source in part or ()))

    async def outcomes(self, thread: Thread, turn: int, limit: int = 200) -> list[ToolOutcome]:
        """Return the outcomes of a turn's calls, in the order in which they began, without their
        results.
        """
        row = agent_tool_executions.c
        code = row.result["error"]["code"].astext.label("code")
        query = (
            select(row.call_id, row.tool_name, row.status, code)
            .where(_in(thread), row.turn == turn)
            .limit(limit)
        )
        rows = await self._tx.execute(query.order_by(row.step, row.created_at, row.call_id))
        return [
            ToolOutcome(each.call_id, each.tool_name, each.status, each.code or "")
            for each in rows
        ]

    async def count_outcomes(self, thread: Thread, broken: Collection[str]) -> tuple[int, int]:
        """Return the number of a thread's successful calls, and of those with an error of these
        codes.
        """
        row = agent_tool_executions.c
        went = select(
            func.count().filter(row.status.in_(("ok", "cached"))),
            func.count().filter(
                row.status == "error", row.result["error"]["code"].astext.in_(broken)
            ),
        ).where(_in(thread))
        well, ill = (await self._tx.execute(went)).one()
        return int(well), int(ill)

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Delete at most `limit` calls from before a moment and return their number; 0 means that
        none are left.
        """
        row = agent_tool_executions.c
        old = select(row.id).where(row.created_at < _moment(before)).limit(limit)
        return (
            await self._tx.execute(delete(agent_tool_executions).where(row.id.in_(old)))
        ).rowcount

    async def _parts(self, thread: Thread, turn: int, name: str) -> list[Any]:
        """Return one part of each successful call's result, since a turn may have a hundred
        results of two megabytes. An entry is None if its result lacks the part.
        """
        row = agent_tool_executions.c
        part = select(row.result[name]).where(_in(thread), row.turn == turn, row.success)
        return list(
            (
                await self._tx.execute(part.order_by(row.step, row.created_at, row.call_id))
            ).scalars()
        )

    async def _row(self, operation: Operation, seconds: float | None = None) -> Row[Any] | None:
        # joined to one row, so that the limit is set even without a record
        one = select(literal(1).label("one")).subquery()
        found = one.outerjoin(agent_tool_executions, and_(*_place(operation)))
        query = select(agent_tool_executions, *_transaction_limit(seconds)).select_from(found)
        row = (await self._tx.execute(query)).one()
        return None if row.id is None else row


def _transaction_limit(seconds: float | None) -> list[ColumnElement[str]]:
    """Return a column that makes Postgres end the transaction after so many seconds; none without
    a limit.
    """
    if seconds is None:
        return []
    return [
        func.set_config("transaction_timeout", f"{seconds * 1000:.0f}", True).label(
            "transaction_limit"
        )
    ]


def _same(row: Row[Any], call: LoggedCall) -> Row[Any]:
    if row.fingerprint != call.fingerprint:
        raise CallIdReused(
            f"{call.operation.key} belongs to another call: a call needs its own id"
        )
    return row


def _in(thread: Thread) -> ColumnElement[bool]:
    row = agent_tool_executions.c
    return and_(row.team == thread.team, row.channel == thread.channel, row.thread_ts == thread.ts)


def _place(operation: Operation) -> tuple[ColumnElement[bool], ...]:
    row = agent_tool_executions.c
    call = (
        row.turn == operation.turn,
        row.step == operation.step,
        row.call_id == storable_key(operation.call_id),
    )
    return _in(operation.thread), *call


def _of_toolset(executions: FromClause, call: LoggedCall) -> tuple[ColumnElement[bool], ...]:
    row = executions.c
    return row.team == call.operation.thread.team, func.split_part(
        row.tool_name, ".", 1
    ) == call.toolset


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
        # A model may invent a name, of any length.
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
    """The call must be made. `at`: the time of this intent, in seconds since 1970."""

    at: float


@dataclass(frozen=True)
class EarlierIntent:
    """An earlier attempt has recorded this intent and no result, so it may have made the call."""

    at: float


@dataclass(frozen=True)
class OpenResult:
    """The call was made, and its side effects may not have run."""

    result: ToolResult


def too_many_changes(call: LoggedCall, rate: Rate) -> ToolResult:
    """Return the refusal of a change whose record has reached its rate.

    Raises:
        Transient: the call waits. Its transaction is rolled back, so nothing of it is recorded.
    """
    if call.waits_for_rate:
        raise Transient(
            "This record was changed too often in a short time.", retry_after=rate.seconds
        )
    return error_result(ErrorCode.TOO_MANY_CHANGES)


class ToolLedger:
    """Records the calls of a turn, each at most once.

    Its methods raise `Transient` if Postgres is unreachable, and `CallIdReused` if the operation
    belongs to a call of another tool or with other arguments.

    Args:
        rate: the limit on changes of one record, over all threads of a team; None for no limit.
    """

    def __init__(self, database: Database, rate: Rate | None = MUTATION_RATE) -> None:
        self._database = database
        self.rate = rate

    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open the transaction of a call: it commits when the block ends, and rolls back when the
        block raises.
        """
        return self._database.begin()

    async def begin(
        self, tx: Transaction, call: LoggedCall, seconds: float | None = None
    ) -> ToolResult | OpenResult | EarlierIntent | CallIntent:
        """Return the result that the call already has, or the intent to make it.

        The first case that applies decides:

        1. The result on record is returned, as an `OpenResult` while its side effects may not have
           run. Another attempt whose transaction makes the call is waited for.
        2. A change that an earlier attempt was about to make gets that attempt's intent.
        3. A refusal is recorded and returned if the record of `rate_key` has reached its rate,
           unless the call waits for it: then `Transient` is raised. If the rate limit fails, the
           call continues.
        4. A recent success of the same question is recorded again as cached, unless its toolset
           has changed something since.
        5. A change is recorded as an intent; a read needs none.

        Args:
            seconds: the time after which Postgres ends the transaction, so that nothing is
                committed after the call is given up. None: the transaction makes no call.
        """
        executions = ToolExecutionStore(tx)
        known = (
            await executions.intend(call, seconds)
            if call.changes
            else await executions.of_call(call, seconds)
        )
        if known is None:
            result = await self._rate_refusal(tx, call) or await _cached(tx, call)
            if result is None:
                return CallIntent(call.now)
            known = await executions.finish(
                call, result.status, asdict(result), 0, call.now, over_intent=call.changes
            )
            if known is None:
                return result
        return _earlier(known) or CallIntent(call.now)

    async def refuse(
        self, tx: Transaction, call: LoggedCall, refusal: ToolResult
    ) -> ToolResult | OpenResult | EarlierIntent:
        """Record the refusal of a call and return it, unless an earlier attempt has made the call
        or was about to make it: then return as `begin` does.
        """
        executions = ToolExecutionStore(tx)
        known = await executions.of_call(call)
        if known is None:
            known = await executions.finish(
                call, refusal.status, asdict(refusal), 0, call.now, over_intent=False
            )
        earlier = None if known is None else _earlier(known)
        return refusal if earlier is None else earlier

    async def withdraw(
        self, tx: Transaction, call: LoggedCall, intent: CallIntent | EarlierIntent
    ) -> None:
        """Remove this intent, whose change was not made; a later one of another attempt stays."""
        row = agent_tool_executions.c
        mine = (
            *_place(call.operation),
            row.status.is_(None),
            row.created_at == _moment(intent.at),
        )
        await tx.execute(delete(agent_tool_executions).where(*mine))

    async def finish(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
    ) -> ToolResult:
        """Record the result, and void the cached answers of a toolset that may have changed
        something. A success of a call with side effects stays open until `complete`.

        Returns:
            The result on record: that of another attempt, if it was first.
        """
        kept = asdict(result) if call.keep_result or not result.success else None
        done = not (call.has_side_effects and result.made)
        earlier = await ToolExecutionStore(tx).finish(
            call, result.status, kept, milliseconds, now, done=done
        )
        if call.voids_answers:
            answers = (
                agent_tool_executions.c.cacheable,
                *_of_toolset(agent_tool_executions, call),
            )
            await tx.execute(update(agent_tool_executions).where(*answers).values(cacheable=False))
        return (earlier and earlier.tool_result) or result

    async def complete(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float
    ) -> None:
        """Record that the side effects of a call have run, with their notes."""
        row = agent_tool_executions.c
        mine = (
            *_place(call.operation),
            row.fingerprint == call.fingerprint,
            row.finished_at.is_(None),
        )
        done = update(agent_tool_executions).where(*mine)
        await tx.execute(done.values(result=asdict(result), finished_at=_moment(now)))

    async def _rate_refusal(self, tx: Transaction, call: LoggedCall) -> ToolResult | None:
        """Count the change in the scope of `context.count_change`."""
        if not call.rate_key or self.rate is None:
            return None
        scope = f"{call.operation.thread.team}:{call.rate_key}"
        event = call.operation.key
        try:
            async with savepoint(tx):
                limits = RateLimits(tx)
                allowed = await limits.allows_change(
                    storable_key(scope), storable_key(event), call.now, self.rate
                )
        except Exception:  # noqa: BLE001 - better a change too many than none
            _log.exception("rate_limit_unavailable", tool=call.tool_name)
            return None
        return None if allowed else too_many_changes(call, self.rate)


def _earlier(known: ToolExecution) -> ToolResult | OpenResult | EarlierIntent | None:
    """Return the result or the intent of an earlier attempt; None for a success whose result was
    not stored.
    """
    if known.status is None:
        return EarlierIntent(known.created_at.timestamp())
    recorded = known.tool_result
    if recorded is None or known.finished_at:
        return recorded
    return OpenResult(recorded)


async def _cached(tx: Transaction, call: LoggedCall) -> ToolResult | None:
    """Return the newest success of the same question; None if it is older than `cache_seconds`, or
    its toolset may have changed something since.
    """
    if not call.cache_seconds:
        return None
    row = agent_tool_executions.c
    intents = agent_tool_executions.alias()
    open_intent = (
        intents.c.status.is_(None),
        intents.c.created_at > _moment(call.now - _OPEN_INTENT),
    )
    changing = exists().where(*_of_toolset(intents, call), *open_intent)
    same = (row.fingerprint == call.fingerprint, row.cacheable, row.status == ToolStatus.OK)
    recent = row.finished_at > _moment(call.now - call.cache_seconds)
    query = (
        select(row.result)
        .where(*same, recent, ~changing)
        .order_by(row.finished_at.desc())
        .limit(1)
    )
    try:
        async with savepoint(tx):
            found = (await tx.execute(query)).scalar_one_or_none()
        return (
            None
            if found is None
            else replace(_RESULT.validate_python(found), status=ToolStatus.CACHED)
        )
    except Exception:  # noqa: BLE001 - the tool answers instead
        _log.exception("cached_answer_unavailable", tool=call.tool_name)
        return None
