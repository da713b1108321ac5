"""What the policies around tools ask for, answered by Postgres; each question is a unit of work of its own.

A port whose database is away raises `Transient`, and one whose operation key stands for another call raises
`OperationReused`, which is `Permanent`.
"""

from dataclasses import asdict

from pydantic import TypeAdapter

from threadline.conversations import thread_reads as threads_read
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import MUTATION_RATE, Rate
from threadline.db.values import storable_key
from threadline.tools.ledger import Entry, ExecutionLog, Intent
from threadline.tools.model import Status, ToolResult
from threadline.tools.operations import Operation
from threadline.tools.policies import CallKey, MutationLimit, ResultCache
from threadline.tools.store import Call
from threadline.tools.store import Status as Recorded

_RESULT = TypeAdapter(ToolResult)
_STATUS: dict[Status, Recorded] = {
    Status.OK: "ok",
    Status.ERROR: "error",
    Status.BLOCKED: "blocked",
    Status.CACHED: "cached",
}


class PostgresExecutionLog(ExecutionLog):
    """Keeps of the arguments what is free of secrets, and of the others the fingerprint alone."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def recorded(self, entry: Entry) -> ToolResult | None:
        async with self._database.begin() as work:
            known = await work.tool_executions.of_call(_call(entry))
        return _RESULT.validate_python(known.result) if known and known.status else None

    async def intend(self, entry: Entry) -> Intent:
        now = _now(entry)
        async with self._database.begin() as work:
            known = await work.tool_executions.intend(_call(entry), now)
        return Intent(known.created_at.timestamp(), new=False) if known else Intent(now, new=True)

    async def withdraw(self, entry: Entry, intent: Intent) -> None:
        async with self._database.begin() as work:
            await work.tool_executions.withdraw(_call(entry), intent.at)

    async def record(self, entry: Entry) -> None:
        if entry.result is None:
            raise ValueError("a call without a result cannot be recorded")
        status, result = _STATUS[entry.result.status], asdict(entry.result)
        reads_thread, thread = entry.tool in threads_read.TOOLS, entry.context.thread
        async with self._database.begin() as work:
            gone = reads_thread and await work.conversations.deletions(thread) != entry.context.deletions
            await work.tool_executions.finish(_call(entry), status, result, entry.milliseconds, _now(entry))
            if gone:
                await work.conversations.forget_read(thread)


class PostgresResultCache(ResultCache):
    def __init__(self, database: Database) -> None:
        self._database = database

    async def get(self, key: CallKey, now: float) -> ToolResult | None:
        async with self._database.begin() as work:
            known = await work.tool_results.get(key.fingerprint, now)
        return None if known is None else _RESULT.validate_python(known)

    async def put(self, key: CallKey, result: ToolResult, until: float) -> None:
        team = key.scope.split("/", 1)[0]
        async with self._database.begin() as work:
            await work.tool_results.put(team, key.toolset, key.fingerprint, asdict(result), until)

    async def forget(self, team: str, toolset: str) -> None:
        async with self._database.begin() as work:
            await work.tool_results.forget(team, toolset)


class PostgresMutationLimit(MutationLimit):
    """Counts in the scope in which `Operations.spend` counts, so that a change which asks both is one."""

    def __init__(self, database: Database, rate: Rate = MUTATION_RATE) -> None:
        self._database = database
        self._rate = rate

    async def admit(self, team: str, record: str, operation_key: str, now: float) -> bool:
        scope, event = storable_key(f"{team}:{record}"), storable_key(operation_key)
        async with self._database.begin() as work:
            return await work.limits.allows_mutation(scope, event, now, self._rate)


def _call(entry: Entry) -> Call:
    context = entry.context
    return Call(
        operation=Operation(context.thread, context.turn, context.step, storable_key(context.call_id)),
        request_id=context.request_id,
        user_id=context.user_id,
        tool_name=entry.tool,
        parameters=entry.arguments,
        fingerprint=entry.key.fingerprint,
        cacheable=entry.cacheable,
    )


def _now(entry: Entry) -> float:
    return entry.context.clock().timestamp()
