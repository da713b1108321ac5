"""Readers of the result of a tool that refused or failed."""

from threadline.tools.model import ErrorCode, ToolError, ToolResult


def error_of(result: ToolResult) -> ToolError:
    assert result.error, result.data
    return result.error


def code_of(result: ToolResult) -> ErrorCode:
    return error_of(result).code


def message_of(result: ToolResult) -> str:
    return error_of(result).message
