"""A model for laptops and tests: Anthropic Messages for the real Claude Code CLI, with scripted words."""

from threadline.devstack.model_sandbox.conversation import ToolResult
from threadline.devstack.model_sandbox.sandbox import ModelSandbox
from threadline.devstack.model_sandbox.turn import Turn

__all__ = ["ModelSandbox", "ToolResult", "Turn"]
