"""A model for laptops and tests, with scripted words: Anthropic's API for the Claude Code CLI, OpenAI's for its SDK."""

from threadline.devstack.model_sandbox.conversation import ToolResult
from threadline.devstack.model_sandbox.sandbox import ModelSandbox
from threadline.devstack.model_sandbox.turn import Turn

__all__ = ["ModelSandbox", "ToolResult", "Turn"]
