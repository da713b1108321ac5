"""The toolsets: one file each, with what it needs as a port and its tools in a list `TOOLS`."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from threadline.tools.registry import Tool

TOOLS: Sequence[Tool] = tuple(
    each
    for module in sorted(found.name for found in iter_modules(__path__))
    for each in getattr(import_module(f"{__name__}.{module}"), "TOOLS", ())
)
"""All of them, whether they are configured or not: whatever lies in this package is gathered."""
