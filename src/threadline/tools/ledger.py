"""Every call is on record, and none is made twice: not by a retry, not after a crash."""

import asyncio
from dataclasses import dataclass, replace
from time import monotonic
from typing import Any, Protocol

import structlog

from threadline.errors import NotDone, Permanent, Transient
from threadline.models.model import ToolCall
from threadline.tools import arguments
from threadline.tools.calls import Run, is_soon
from threadline.tools.context import ToolContext
from threadline.tools.model import Code, Status, ToolResult, failure
from threadline.tools.output import fitted
from threadline.tools.policies import CallKey, key_of
from threadline.tools.registry import LONGEST_NAME, Registry, Tool

LARGEST_ARGUMENTS = 64 * 1024
"""Bytes of a call's arguments that are on record; the transcript has them whole."""


@dataclass(frozen=True)
class Entry:
    """One call as it is on record. `context` says whose it was and where; the key is its `operation_key`.

    `arguments` is JSON without secrets. `key` tells it from a call with other arguments, by its fingerprint. `result`
    and `milliseconds` are None as long as the call has not ended. `cacheable`: its result may answer the same call
    again, for a while.
    """

    context: ToolContext
    tool: str
    arguments: Any
    key: CallKey
    cacheable: bool = False
    result: ToolResult | None = None
    milliseconds: int | None = None

    @property
    def status(self) -> Status | None:
        return self.result.status if self.result else None


@dataclass(frozen=True)
class Intent:
    """That a change is about to be made, since `at` (seconds since 1970). `new`: it was not written down before."""

    at: float
    new: bool


class ExecutionLog(Protocol):
    """The record of executions, by operation key.

    Its methods raise `Transient` when it cannot be reached, and `Permanent` when the operation key stands for a call
    with another fingerprint.
    """

    async def recorded(self, entry: Entry) -> ToolResult | None:
        """The result of this very call, when an earlier try came that far."""
        ...

    async def intend(self, entry: Entry) -> Intent:
        """Write down that a change is about to be made, or learn since when another try has been about to."""
        ...

    async def withdraw(self, entry: Entry, intent: Intent) -> None:
        """The change was surely not made: strike this intent out, and none that another try wrote after it."""
        ...

    async def record(self, entry: Entry) -> None:
        """Write the result down, in the place of the intent if there is one."""
        ...


def audited(run: Run, registry: Registry, log: ExecutionLog) -> Run:
    """A call is recorded with its result and its time; asked again, the recorded result comes back and nothing runs."""

    async def on_record(call: ToolCall, context: ToolContext) -> ToolResult:
        entry = _entry(registry, call, context)
        try:
            if earlier := await log.recorded(entry):
                return earlier
        except Permanent:
            return failure(Code.REPEATED_CALL_ID)
        start = monotonic()
        result = await run(call, context)
        await log.record(replace(entry, result=result, milliseconds=round((monotonic() - start) * 1000)))
        return result

    return on_record


def intended(run: Run, registry: Registry, log: ExecutionLog) -> Run:
    """A change is written down before it is made.

    A try that finds an intent without a result looks the effect up where the tool knows how, else the outcome is
    unknown. It makes the change only when it certainly is not there, and then the intent is its own.
    """

    async def once(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = registry.get(call.name)
        if tool is None or not tool.mutating:
            return await run(call, context)
        entry = _entry(registry, call, context)
        intent = await log.intend(entry)
        if not intent.new:
            if found := await _looked_up(tool, call, context, intent):
                return found
            await log.withdraw(entry, intent)
            intent = await log.intend(entry)
            if not intent.new:
                raise Transient("Another try of this call is under way.")
        try:
            return await run(call, context)
        except NotDone:
            await log.withdraw(entry, intent)
            raise

    return once


async def _looked_up(tool: Tool, call: ToolCall, context: ToolContext, intent: Intent) -> ToolResult | None:
    """The effect of an earlier try, or that nobody knows; None when it certainly is not there.

    Raises:
        Transient: it cannot be looked up for now, or is not there yet and may be on its way.
    """
    rest = max(0.0, min(tool.settles, intent.at + tool.settles - context.clock().timestamp()))
    try:
        found = await _seen(tool, call, context)
    except Transient as fault:
        if is_soon(fault):
            raise Transient(str(fault), retry_after=max(rest, fault.retry_after or 0.0) or None) from fault
        return failure(Code.OUTCOME_UNKNOWN, f"{fault} It is not known whether the change took effect.")
    if not rest or (found and found.success):
        return found
    if context.retries_left > 0:
        raise Transient("An earlier try may still take effect.", retry_after=rest)
    return found or _interrupted()


async def _seen(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult | None:
    if tool.look_up is None:
        return _interrupted()
    given = arguments.read(tool.parameters, tool.schema, call.arguments)
    try:
        async with asyncio.timeout(tool.timeout):
            return await tool.look_up(context, given)
    except Transient:
        raise
    except TimeoutError:
        return _interrupted()
    except Exception:  # noqa: BLE001 - logged; what is not known must not be done again
        structlog.get_logger().exception("effect_lookup_failed", tool=tool.name)
        return failure(Code.OUTCOME_UNKNOWN)


def _interrupted() -> ToolResult:
    return failure(Code.OUTCOME_UNKNOWN, "An earlier try was interrupted: it may have taken effect or not.")


def _entry(registry: Registry, call: ToolCall, context: ToolContext) -> Entry:
    tool = registry.get(call.name)
    name = tool.name if tool else str(fitted(call.name, LONGEST_NAME).value)
    given = fitted(arguments.readable(call.arguments), LARGEST_ARGUMENTS).value
    return Entry(context, name, given, key_of(tool, call, context), cacheable=bool(tool and tool.cache))
