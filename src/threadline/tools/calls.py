"""The one interface that everything around a tool has."""

from collections.abc import Awaitable, Callable

from threadline.errors import Transient
from threadline.models.model import ToolCall
from threadline.tools.context import ToolContext
from threadline.tools.model import ToolResult

Run = Callable[[ToolCall, ToolContext], Awaitable[ToolResult]]
"""A policy takes one and gives one. What the model said is unread: the call's name is the provider's or the tool's own,
its arguments are meant to be JSON. What went wrong with the call is in the result.

Raises:
    Transient: only where trying the whole call again is safe; Temporal does so.
"""

LONGEST_WAIT = 60.0
"""Seconds that a service may ask to wait before the call is tried again; of a longer wait the model is told instead."""


def is_soon(fault: Transient) -> bool:
    """Whether a person who waits for the answer can wait for another try as well."""
    return (fault.retry_after or 0.0) <= LONGEST_WAIT
