"""Calls are executed: one through all policies, and those of one reply beside or behind each other."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from threadline.domain.dialogue import ToolCall
from threadline.domain.errors import Permanent, Transient, Undone
from threadline.domain.limits import RateExceeded
from threadline.tools import arguments, policies
from threadline.tools.access import Allowed
from threadline.tools.calls import Run, is_soon
from threadline.tools.context import ToolContext
from threadline.tools.ledger import ExecutionLog, audited, intended
from threadline.tools.registry import Registry, SideEffect, Success, Tool
from threadline.tools.results import Code, ToolResult, failure
from threadline.tools.words import sentence

MOST_CALLS = 20
"""Of one reply that are executed; the model is told that the others were not."""
_SIDE_EFFECT_TIMEOUT = 10.0
"""Seconds for one side effect."""


@dataclass(frozen=True)
class Guards:
    """The ports that policies ask. Without one, its policy is not there."""

    log: ExecutionLog | None = None
    limit: policies.MutationLimit | None = None
    cache: policies.ResultCache | None = None


def pipeline(registry: Registry, allowed: Allowed, guards: Guards) -> Run:
    """One call through everything.

    A recorded call runs no policy again; what is blocked, invalid or throttled leaves no intent; what is kept, cached
    or shown has passed the redaction.
    """
    run = policies.timed(performing(registry), registry)
    if guards.log:
        run = intended(run, registry, guards.log)
    run = policies.redacted(with_side_effects(run, registry))
    if guards.cache:
        run = policies.cached(run, registry, guards.cache)
    if guards.limit:
        run = policies.limited(run, registry, guards.limit)
    run = policies.known(policies.restricted(policies.validated(run, registry), registry, allowed), registry)
    return audited(run, registry, guards.log) if guards.log else run


def performing(registry: Registry) -> Run:
    """The tool itself; whatever it raises becomes a result.

    Raises:
        Transient: as the tool did, if the caller will try again, need not wait long for it, and nothing can come to be
            done twice by it.
    """

    async def perform(call: ToolCall, context: ToolContext) -> ToolResult:
        tool = registry.get(call.name)
        if tool is None:
            return failure(Code.UNKNOWN_TOOL)
        try:
            given = arguments.read(tool.parameters, tool.schema, call.arguments)
            answer = await tool.call(context, given)
        except Transient as fault:
            if context.retries_left > 0 and is_soon(fault) and (not tool.mutating or tool.look_up):
                raise
            return _unavailable(tool, fault)
        except RateExceeded as often:
            return failure(Code.TOO_MANY_CHANGES, str(often))
        except Permanent as refusal:
            return failure(Code.REFUSED, str(refusal))
        except Exception:  # noqa: BLE001 - logged; its text could hold what nobody may see
            structlog.get_logger().exception("tool_failed", tool=tool.name)
            return failure(Code.TOOL_EXECUTION_FAILED)
        return answer if isinstance(answer, ToolResult) else ToolResult(data=answer)

    return perform


def with_side_effects(run: Run, registry: Registry) -> Run:
    """After a success, also one that was found, each handler of the tool runs. What it says is noted, and that it
    failed is noted too."""

    async def followed(call: ToolCall, context: ToolContext) -> ToolResult:
        result = await run(call, context)
        tool = registry.get(call.name)
        if tool is None or not result.success:
            return result
        given = arguments.read(tool.parameters, tool.schema, call.arguments)
        notes = [await _note(handler, Success(tool.name, given, result, context)) for handler in tool.side_effects]
        return replace(result, notes=(*result.notes, *filter(None, notes)))

    return followed


async def execute(calls: Sequence[ToolCall], context: ToolContext, run: Run, registry: Registry) -> list[ToolResult]:
    """The calls of one reply, and their results in the same order.

    All at once when none of them changes anything, else one after the other: a later one may build on an earlier one.
    Of several with the same id only the first runs.

    Raises:
        Transient: from a call that may be tried again, once every other call that was begun had its end.
    """
    first = {call.id: index for index, call in reversed(list(enumerate(calls)))}

    async def one(index: int, call: ToolCall) -> ToolResult:
        if index >= MOST_CALLS:
            return failure(Code.TOO_MANY_CALLS, f"Only the first {MOST_CALLS} calls of a reply are made.")
        if first[call.id] != index:
            return failure(Code.REPEATED_CALL_ID)
        return await run(call, context.of_call(call.id))

    if any(_changes_something(registry, call) for call in calls):
        return [await one(index, call) for index, call in enumerate(calls)]
    ended = await asyncio.gather(*(one(index, call) for index, call in enumerate(calls)), return_exceptions=True)
    results = [each for each in ended if isinstance(each, ToolResult)]
    for each in ended:
        if isinstance(each, BaseException):
            raise each
    return results


def _changes_something(registry: Registry, call: ToolCall) -> bool:
    tool = registry.get(call.name)
    return tool is not None and tool.mutating


def _unavailable(tool: Tool, fault: Transient) -> ToolResult:
    if tool.mutating and not isinstance(fault, Undone):
        return failure(Code.OUTCOME_UNKNOWN, f"{fault} It is not known whether the change took effect.")
    wait = f"Try again in {fault.retry_after:.0f} seconds." if fault.retry_after else ""
    return failure(Code.SERVICE_UNAVAILABLE, str(fault), wait)


async def _note(handler: SideEffect, success: Success) -> str | None:
    try:
        async with asyncio.timeout(_SIDE_EFFECT_TIMEOUT):
            said = await handler(success)
    except (Permanent, Transient) as told:
        return f"[Side Effect Error] {sentence(str(told), _NO_SIDE_EFFECT)}"
    except Exception:  # noqa: BLE001 - logged; the call itself was a success and stays one
        structlog.get_logger().exception("side_effect_failed", tool=success.tool)
        return f"[Side Effect Error] {_NO_SIDE_EFFECT}"
    return f"[Side Effect] {said}" if said else None


_NO_SIDE_EFFECT = "What should have followed was not done; the call itself was."
