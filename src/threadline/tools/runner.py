"""A call is executed: through all policies, and followed by what it brings about."""

import asyncio
from dataclasses import dataclass, replace

import structlog

from threadline.db.rate_limit_rules import RateExceeded
from threadline.errors import InternalError, NotDone, Permanent, Transient
from threadline.models.model import ToolCall
from threadline.operator import enforcement as protocol
from threadline.tools import arguments, policies
from threadline.tools.access import Allowed
from threadline.tools.calls import Run, is_soon
from threadline.tools.context import ToolContext
from threadline.tools.ledger import ExecutionLog, audited, intended
from threadline.tools.model import Code, ToolResult, failure
from threadline.tools.public_text import sentence
from threadline.tools.registry import Registry, SideEffect, Success, Tool

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


def pipeline(registry: Registry, allowed: Allowed, guards: Guards, rules: protocol.Rules | None = None) -> Run:
    """One call through everything; `rules`: the operator's protocol, where it holds.

    A recorded call runs no policy again; what is blocked, out of order, invalid or throttled leaves no intent; what is
    kept, cached or shown has passed the redaction.
    """
    run = policies.timed(performing(registry), registry)
    if rules:
        run = protocol.written_down(run, registry, rules)
    if guards.log:
        run = intended(run, registry, guards.log)
    run = policies.redacted(with_side_effects(run, registry))
    if guards.cache:
        run = policies.cached(run, registry, guards.cache)
    if guards.limit:
        run = policies.limited(run, registry, guards.limit)
    if rules:
        run = protocol.enforced(run, registry, rules.state)
    run = policies.known(policies.restricted(policies.validated(run, registry), registry, allowed), registry)
    if guards.log:
        run = audited(run, registry, guards.log)
    return protocol.traced(run, registry)


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
        except Exception as error:  # noqa: BLE001 - whatever it is, the turn goes on
            return _failed(tool, error)
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


def _failed(tool: Tool, error: Exception) -> ToolResult:
    """A refusal in its words; those of anything else could hold what nobody may see, and go to the log alone."""
    if isinstance(error, Permanent) and not isinstance(error, InternalError):
        return failure(Code.REFUSED, str(error))
    structlog.get_logger().error("tool_failed", tool=tool.name, exc_info=error)
    return failure(Code.TOOL_EXECUTION_FAILED)


def _unavailable(tool: Tool, fault: Transient) -> ToolResult:
    if tool.mutating and not isinstance(fault, NotDone):
        return failure(Code.OUTCOME_UNKNOWN, f"{fault} It is not known whether the change took effect.")
    wait = f"Try again in {fault.retry_after:.0f} seconds." if fault.retry_after else ""
    return failure(Code.SERVICE_UNAVAILABLE, str(fault), wait)


async def _note(handler: SideEffect, success: Success) -> str | None:
    try:
        async with asyncio.timeout(_SIDE_EFFECT_TIMEOUT):
            said = await handler(success)
    except Exception as error:  # noqa: BLE001 - the call itself was a success and stays one
        if isinstance(error, Permanent | Transient) and not isinstance(error, InternalError):
            return f"[Side Effect Error] {sentence(str(error), _NO_SIDE_EFFECT)}"
        structlog.get_logger().error("side_effect_failed", tool=success.tool, exc_info=error)
        return f"[Side Effect Error] {_NO_SIDE_EFFECT}"
    return f"[Side Effect] {said}" if said else None


_NO_SIDE_EFFECT = "What should have followed was not done; the call itself was."
