"""One call that a model asks for, and the one interface that everything around a tool has."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from threadline.tools.context import ToolContext
from threadline.tools.results import ToolResult


@dataclass(frozen=True)
class ToolCall:
    """What the model said, unread: `name` is the provider's or the tool's own, `arguments` is meant to be JSON."""

    id: str
    name: str
    arguments: str


Run = Callable[[ToolCall, ToolContext], Awaitable[ToolResult]]
"""A policy takes one and gives one. What went wrong with the call is in the result.

Raises:
    Transient: only where trying the whole call again is safe; Temporal does so.
"""
