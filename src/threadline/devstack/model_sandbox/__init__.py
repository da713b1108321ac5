"""A model for laptops and tests: it speaks Anthropic Messages to the real Claude Code CLI; only its words are scripted."""

from threadline.devstack.model_sandbox.sandbox import ModelSandbox
from threadline.devstack.model_sandbox.turn import ToolResult, Turn

__all__ = ["ModelSandbox", "ToolResult", "Turn"]
