"""ToolLedger: the record of every call, by which a retry neither makes a change twice nor asks a service again."""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import asdict, dataclass, replace

import structlog
from pydantic import TypeAdapter

from threadline.db.engine import Database, Transaction
from threadline.db.rate_limit_rules import MUTATION_RATE, Rate
from threadline.db.rate_limits import Limits
from threadline.db.values import storable_key
from threadline.errors import Transient
from threadline.tools.model import ErrorCode, Operation, ToolResult, ToolStatus, error_result
from threadline.tools.store import LoggedCall, ToolExecutionStore

_RESULT = TypeAdapter(ToolResult)
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Intent:
    """The call is to be made. `at`: seconds since 1970, since when; `new`: no earlier attempt was about to make it.

    With a `result`, the call was made, and only its side effects are to be run.
    """

    at: float
    new: bool
    result: ToolResult | None = None


class ToolLedger(ABC):
    """Its methods raise `Transient` when the ledger cannot be reached, and `CallIdReused` when the operation stands
    for a call of another tool or with other arguments."""

    rate: Rate | None = None
    """How often one record may be changed, in all threads of a team together; None for as often as one likes."""

    @abstractmethod
    def transaction(self) -> AbstractAsyncContextManager[Transaction]:
        """Open the transaction of a call: all of it is kept, or, when the block raises, nothing."""

    @abstractmethod
    async def begin(
        self, tx: Transaction, call: LoggedCall, refusal: ToolResult | None, seconds: float | None = None
    ) -> ToolResult | Intent:
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

    @abstractmethod
    async def withdraw(self, tx: Transaction, call: LoggedCall, intent: Intent) -> None:
        """Remove this intent, since its change was not made, and none that another attempt recorded after it."""

    @abstractmethod
    async def finish(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
    ) -> ToolResult:
        """Record the result, and void the cached answers of a toolset that may have changed something.

        A success of a call with side effects stays open until `complete`.

        Returns:
            the result on record: that of another attempt, if it was first.
        """

    @abstractmethod
    async def complete(self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float) -> None:
        """Record that the side effects of a call have run, with what they said."""


def too_many_changes(call: LoggedCall, rate: Rate) -> ToolResult:
    """The refusal of a change whose record has reached its rate.

    Raises:
        Transient: the call waits. Nothing of it is recorded, since its transaction is rolled back.
    """
    if call.waits_for_rate:
        raise Transient("This record was changed too often in a short time.", retry_after=rate.seconds)
    return error_result(ErrorCode.TOO_MANY_CHANGES)


class PostgresToolLedger(ToolLedger):
    def __init__(self, database: Database, rate: Rate = MUTATION_RATE) -> None:
        self._database = database
        self.rate: Rate = rate

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Transaction]:
        async with self._database.begin() as tx:
            yield tx

    async def begin(
        self, tx: Transaction, call: LoggedCall, refusal: ToolResult | None, seconds: float | None = None
    ) -> ToolResult | Intent:
        executions = ToolExecutionStore(tx)
        intends = call.changes and refusal is None
        known = await executions.intend(call, seconds) if intends else await executions.of_call(call, seconds)
        result = None if known else refusal or await self._rate_refusal(tx, call) or await _cached(tx, call)
        if result:
            known = await executions.finish(call, result.status, asdict(result), 0, call.now, over_intent=intends)
        if known is None:
            return result or Intent(call.now, new=True)
        if known.status is None:
            return Intent(known.created_at.timestamp(), new=False)
        if known.result is None:  # it was not kept
            return refusal or Intent(call.now, new=True)
        recorded = _RESULT.validate_python(known.result)
        return recorded if known.finished_at else Intent(known.created_at.timestamp(), new=False, result=recorded)

    async def withdraw(self, tx: Transaction, call: LoggedCall, intent: Intent) -> None:
        await ToolExecutionStore(tx).withdraw(call.operation, intent.at)

    async def finish(
        self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float, milliseconds: int
    ) -> ToolResult:
        executions = ToolExecutionStore(tx)
        kept = asdict(result) if call.keep_result or not result.success else None
        done = not (call.has_side_effects and result.success)
        earlier = await executions.finish(call, result.status, kept, milliseconds, now, done=done)
        if call.voids_answers:
            await executions.void_answers(call.operation.thread.team, call.toolset)
        return _RESULT.validate_python(earlier.result) if earlier and earlier.result is not None else result

    async def complete(self, tx: Transaction, call: LoggedCall, result: ToolResult, now: float) -> None:
        await ToolExecutionStore(tx).complete(call, asdict(result), now)

    async def _rate_refusal(self, tx: Transaction, call: LoggedCall) -> ToolResult | None:
        """Counts in the scope in which `context.count_change` counts."""
        if not call.rate_key:
            return None
        scope, event = f"{call.operation.thread.team}:{call.rate_key}", call.operation.key
        try:
            async with tx.begin_nested():
                limits = Limits(tx)
                allowed = await limits.allows_mutation(storable_key(scope), storable_key(event), call.now, self.rate)
        except Exception:  # noqa: BLE001 - better a change too many than none
            _log.exception("rate_limit_unavailable", tool=call.tool_name)
            return None
        return None if allowed else too_many_changes(call, self.rate)


async def recorded_result(tx: Transaction, operation: Operation) -> ToolResult | None:
    """What came of a call, as far as it is on record."""
    known = await ToolExecutionStore(tx).get(operation)
    return None if known is None or known.result is None else _RESULT.validate_python(known.result)


async def _cached(tx: Transaction, call: LoggedCall) -> ToolResult | None:
    if not call.cache_seconds:
        return None
    try:
        async with tx.begin_nested():
            found = await ToolExecutionStore(tx).answer(call)
        return None if found is None else replace(_RESULT.validate_python(found), status=ToolStatus.CACHED)
    except Exception:  # noqa: BLE001 - the tool answers instead
        _log.exception("cached_answer_unavailable", tool=call.tool_name)
        return None
