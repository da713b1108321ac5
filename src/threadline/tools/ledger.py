"""Every call is on record, and none is made twice: not by a retry, not after a crash."""

from dataclasses import dataclass
from time import monotonic
from typing import Any, Protocol

import structlog

from threadline.domain.errors import Transient
from threadline.tools import arguments
from threadline.tools.calls import Run, ToolCall
from threadline.tools.context import ToolContext
from threadline.tools.registry import LONGEST_NAME, Registry, Tool
from threadline.tools.rendering import fitted
from threadline.tools.results import Code, Status, ToolResult, failure

LARGEST_ARGUMENTS = 64 * 1024
"""Bytes of a call's arguments that are on record; the transcript has them whole."""


@dataclass(frozen=True)
class Entry:
    """One call as it is on record. `context` says whose it was and where; the key is its `operation_key`.

    `arguments` is JSON without secrets; `milliseconds` is None for an intent, whose `result` is None too.
    """

    context: ToolContext
    tool: str
    arguments: Any
    result: ToolResult | None = None
    milliseconds: int | None = None

    @property
    def status(self) -> Status | None:
        return self.result.status if self.result else None


class ExecutionLog(Protocol):
    """The record of executions, by operation key. Raises `Transient` when it cannot be reached."""

    async def recorded(self, context: ToolContext) -> ToolResult | None:
        """The result of this very call, when an earlier try came that far."""
        ...

    async def intend(self, entry: Entry) -> bool:
        """Write down that a change is about to be made; False when that was written before."""
        ...

    async def record(self, entry: Entry) -> None:
        """Write the result down, in the place of the intent if there is one."""
        ...


def audited(run: Run, registry: Registry, log: ExecutionLog) -> Run:
    """A call is recorded with its result and its time; asked again, the recorded result comes back and nothing runs."""

    async def on_record(call: ToolCall, context: ToolContext) -> ToolResult:
        if earlier := await log.recorded(context):
            return earlier
        start = monotonic()
        result = await run(call, context)
        await log.record(_entry(registry, call, context, result, round((monotonic() - start) * 1000)))
        return result

    return on_record


def intended(run: Run, registry: Registry, log: ExecutionLog) -> Run:
    """A change is written down before it is made. A try that finds an intent without a result does not call again:
    the effect is looked up where the tool knows how, else the outcome is unknown."""

    async def once(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = registry.get(call.name)
        if tool is None or not tool.mutating:
            return await run(call, context)
        if await log.intend(_entry(registry, call, context)):
            return await run(call, context)
        found = await _looked_up(tool, call, context)
        return await run(call, context) if found is None else found

    return once


async def _looked_up(tool: Tool, call: ToolCall, context: ToolContext) -> ToolResult | None:
    if tool.look_up is None:
        return failure(Code.OUTCOME_UNKNOWN, "An earlier try was interrupted: it may have taken effect or not.")
    given = arguments.read(tool.parameters, tool.schema, call.arguments)
    try:
        return await tool.look_up(context, given)
    except Transient:
        raise
    except Exception:  # noqa: BLE001 - logged; what is not known must not be done again
        structlog.get_logger().exception("look_up_failed", tool=tool.name)
        return failure(Code.OUTCOME_UNKNOWN)


def _entry(
    registry: Registry,
    call: ToolCall,
    context: ToolContext,
    result: ToolResult | None = None,
    milliseconds: int | None = None,
) -> Entry:
    tool = registry.get(call.name)
    name = tool.name if tool else str(fitted(call.name, LONGEST_NAME).value)
    given = fitted(arguments.readable(call.arguments), LARGEST_ARGUMENTS).value
    return Entry(context, name, given, result, milliseconds)
