"""The toolsets: each module here has a list `TOOLS`, and whatever is here is known to the model's registry."""

from collections.abc import Sequence
from importlib import import_module
from pkgutil import iter_modules

from threadline.tools.registry import Tool

TOOLS: Sequence[Tool] = tuple(
    each
    for module in sorted(found.name for found in iter_modules(__path__))
    for each in getattr(import_module(f"{__name__}.{module}"), "TOOLS", ())
)
