"""The toolsets: one file each, with what it needs as a port and its tools in a list `TOOLS`."""

from collections.abc import Sequence

from threadline.tools.registry import Tool

TOOLS: Sequence[Tool] = ()
"""All of them, whether they are configured or not."""
