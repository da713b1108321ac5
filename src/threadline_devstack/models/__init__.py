"""A model for laptops and tests, with scripted words: Anthropic's API for the Claude Code CLI, OpenAI's for its SDK."""

from threadline_devstack.models.request import ToolResult
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import Turn

__all__ = ["ModelSandbox", "ToolResult", "Turn"]
