"""The policies around a call, each a wrapper of one `Run` that gives another; `execution.pipeline` puts them in order.

Behind `known`, a call bears its tool's own name, and behind `validated` its arguments fit.
"""

import asyncio
import hashlib
import json
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import structlog
from pydantic import BaseModel

from threadline.models.model import ToolCall
from threadline.tools import arguments
from threadline.tools.access import Allowed
from threadline.tools.calls import Run
from threadline.tools.context import ToolContext
from threadline.tools.model import Code, Status, Structured, ToolResult, failure
from threadline.tools.output import LARGEST_KEPT, fitted
from threadline.tools.registry import Registry, Tool

T = TypeVar("T")


class MutationLimit(Protocol):
    """How often a record may be changed, in all threads together."""

    async def admit(self, team: str, record: str, operation_key: str, now: float) -> bool:
        """Count one change, the same key once, and give the same verdict for it; `now` in seconds since 1970."""
        ...


@dataclass(frozen=True)
class CallKey:
    """Equal for equal questions, however their arguments were written.

    `scope` is whose the answer is: `team/`, or `team/thread key/user`. `arguments` are the canonical ones with nothing
    redacted, so of this only the fingerprint is kept.
    """

    tool: str
    arguments: str
    scope: str

    @property
    def toolset(self) -> str:
        return self.tool.split(".", 1)[0]

    @property
    def fingerprint(self) -> str:
        whole = json.dumps([self.scope, self.tool, self.arguments])
        return hashlib.sha256(whole.encode()).hexdigest()


def key_of(tool: Tool | None, call: ToolCall, context: ToolContext) -> CallKey:
    """The key of a call, be it known and valid or not."""
    shared = tool and tool.cache and tool.cache.shared
    scope = f"{context.team}/" if shared else f"{context.team}/{context.thread.key}/{context.user_id}"
    if tool is None:
        return CallKey(call.name, call.arguments, scope)
    try:
        return CallKey(tool.name, arguments.canonical(_given(tool, call)), scope)
    except arguments.InvalidArguments:
        return CallKey(tool.name, call.arguments, scope)


class ResultCache(Protocol):
    """Answers of read-only tools, for a while. `now` and `until` are in seconds since 1970."""

    async def get(self, key: CallKey, now: float) -> ToolResult | None: ...

    async def put(self, key: CallKey, result: ToolResult, until: float) -> None: ...

    async def forget(self, team: str, toolset: str) -> None:
        """Nothing that a toolset answered before may be given again in this team: something was changed through it."""
        ...


def known(run: Run, registry: Registry) -> Run:
    """Names are the tools' own behind this; a name that nobody registered is an error, and nothing runs."""

    async def with_known_name(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = registry.get(call.name)
        if tool is None:
            return failure(Code.UNKNOWN_TOOL)
        return await run(replace(call, name=tool.name), context)

    return with_known_name


def restricted(run: Run, registry: Registry, allowed: Allowed) -> Run:
    """What is not in the allowed set does not run, whatever the model was shown."""

    async def if_allowed(call: ToolCall, context: ToolContext) -> ToolResult:
        if call.name in allowed.names:
            return await run(call, context)
        if _tool(registry, call).mutating:
            return failure(Code.NOT_ALLOWED, f"This would change something, and here {allowed.because}.")
        return failure(Code.NOT_ALLOWED, "This is not set up here.")

    return if_allowed


def validated(run: Run, registry: Registry) -> Run:
    """Arguments that do not fit are told field by field, and nothing runs."""

    async def if_valid(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = _tool(registry, call)
        try:
            _given(tool, call)
        except arguments.InvalidArguments as invalid:
            return ToolResult(status=Status.ERROR, error=invalid.error)
        return await run(call, context)

    return if_valid


def limited(run: Run, registry: Registry, limit: MutationLimit) -> Run:
    """A record is changed only so often. Open when the limit cannot be asked: better a change too many than none."""

    async def if_admitted(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = _tool(registry, call)
        if not tool.mutating:
            return await run(call, context)
        named = tool.record(_given(tool, call)) if tool.record else ""
        record = named or f"thread:{context.thread.key}"
        now = context.clock().timestamp()
        admitted = await _or_else(True, limit.admit(context.team, record, context.operation_key, now), "mutation_limit")
        return await run(call, context) if admitted else failure(Code.TOO_MANY_CHANGES)

    return if_admitted


def cached(run: Run, registry: Registry, cache: ResultCache) -> Run:
    """An answer within its time is given again without running the tool; a change makes its toolset's answers void.

    Without the cache everything still runs. Only successes are kept.
    """

    async def or_run(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = _tool(registry, call)
        if tool.mutating:
            try:
                return await run(call, context)
            finally:  # whatever came of it, it may have changed something
                await _or_else(None, cache.forget(context.team, tool.toolset), "result_cache")
        if tool.cache is None:
            return await run(call, context)
        key, now = key_of(tool, call, context), context.clock().timestamp()
        if found := await _or_else(None, cache.get(key, now), "result_cache"):
            return replace(found, status=Status.CACHED)
        result = await run(call, context)
        if result.success:
            await _or_else(None, cache.put(key, result, now + tool.cache.seconds), "result_cache")
        return result

    return or_run


def redacted(run: Run, largest: int = LARGEST_KEPT) -> Run:
    """What passes is JSON of at most about `largest` bytes, without secrets, and says in a note what was cut."""

    async def cleaned(call: ToolCall, context: ToolContext) -> ToolResult:
        # In a thread: a large result takes seconds, in which others are to be served.
        return await asyncio.to_thread(_clean, await run(call, context), largest)

    return cleaned


def timed(run: Run, registry: Registry) -> Run:
    """A tool that gives no answer in time is left alone, and the loop goes on."""

    async def in_time(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = _tool(registry, call)
        limit = asyncio.timeout(tool.timeout)
        try:
            async with limit:
                return await run(call, context)
        except TimeoutError:
            if not limit.expired():
                raise
        said = f"There was no answer within {tool.timeout:g} seconds."
        if tool.mutating:
            return failure(Code.OUTCOME_UNKNOWN, f"{said} It is not known whether the change took effect.")
        return failure(Code.TOOL_TIMEOUT, said)

    return in_time


def _clean(result: ToolResult, largest: int) -> ToolResult:
    data, text = fitted(result.data, largest - largest // 8), fitted(result.display_text, largest // 8)
    records = fitted([[each.kind, each.records] for each in result.structured], largest // 8)
    notes, sources = fitted(list(result.notes), largest // 8), fitted(list(result.sources), largest // 8)
    cuts = [*data.cuts, *text.cuts, *records.cuts, *notes.cuts, *sources.cuts]
    told = [f"[Cut] The result was too large to keep whole: {'; '.join(cuts)}. Ask for less at once."] if cuts else []
    kept = (each for each in records.value if len(each) == 2)
    return replace(
        result,
        data=data.value,
        display_text=text.value,
        structured=tuple(Structured(kind, tuple(rows)) for kind, rows in kept),
        notes=(*notes.value, *told),
        sources=tuple(sources.value),
    )


def _tool(registry: Registry, call: ToolCall) -> Tool:
    tool = registry.get(call.name)
    if tool is None:
        raise LookupError("a policy got a call with an unknown tool name")
    return tool


def _given(tool: Tool, call: ToolCall) -> BaseModel:
    return arguments.read(tool.parameters, tool.schema, call.arguments)


async def _or_else(otherwise: T, asked: Awaitable[T], port: str) -> T:
    """What a port answers; `otherwise` when it fails, which the log counts."""
    try:
        return await asked
    except Exception:  # noqa: BLE001 - whatever a port may raise, the tool's own work does not hang on it
        structlog.get_logger().exception("tool_policy_failed_open", port=port)
        return otherwise
