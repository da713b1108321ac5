"""What an earlier try of a call did, where its records remember changes by their operation."""

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar

from threadline.tools.context import ToolContext
from threadline.tools.model import Effect, Operation, ToolResult
from threadline.tools.registry import FindEffect


class RemembersEffects(Protocol):
    async def effect(self, operation: Operation) -> Effect | None:
        """What the operation did; None when it certainly did nothing."""
        ...


R = TypeVar("R", bound=RemembersEffects)


def by_effect(service: type[R], act: Callable[[ToolContext, Any], Awaitable[ToolResult]]) -> FindEffect:
    """How to find the effect of `act`, which changes nothing when it is repeated, but answers as it did at first."""

    async def look_up(context: ToolContext, given: Any) -> ToolResult | None:
        if await context.services[service].effect(context.operation) is None:
            return None
        return await act(context, given)

    return look_up
