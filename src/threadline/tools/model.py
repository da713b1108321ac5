"""What came of a call: data for the model, words for a person, and errors that say what to do next."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from threadline.tools.public_text import sentence


class Status(StrEnum):
    OK = "ok"
    ERROR = "error"
    BLOCKED = "blocked"
    """Not allowed here, and so not executed."""
    CACHED = "cached"
    """An earlier execution's answer."""


class Category(StrEnum):
    """Whose fault it is, which decides what may help."""

    VALIDATION = "validation"
    EXTERNAL = "external"
    RATE_LIMIT = "rate_limit"
    INTERNAL = "internal"


class Code(StrEnum):
    """Stable names, for the model and for the log."""

    INVALID_ARGUMENTS = "INVALID_ARGUMENTS"
    UNKNOWN_TOOL = "UNKNOWN_TOOL"
    NOT_ALLOWED = "NOT_ALLOWED"
    REFUSED = "REFUSED"
    REPEATED_CALL_ID = "REPEATED_CALL_ID"
    PROTOCOL = "PROTOCOL"
    TOO_MANY_CHANGES = "TOO_MANY_CHANGES"
    SERVICE_UNAVAILABLE = "SERVICE_UNAVAILABLE"
    TOOL_TIMEOUT = "TOOL_TIMEOUT"
    OUTCOME_UNKNOWN = "OUTCOME_UNKNOWN"
    TOOL_EXECUTION_FAILED = "TOOL_EXECUTION_FAILED"

    @property
    def category(self) -> Category:
        return _MEANING[self][0]

    @property
    def breaks(self) -> bool:
        """Whether what was wanted could have been done, and something did not work; a refusal is an answer."""
        return self.category in (Category.EXTERNAL, Category.INTERNAL)


_MEANING: dict[Code, tuple[Category, str, str]] = {
    Code.INVALID_ARGUMENTS: (
        Category.VALIDATION,
        "The tool was called with arguments that do not fit.",
        "Call it again with arguments of the form that it describes.",
    ),
    Code.UNKNOWN_TOOL: (
        Category.VALIDATION,
        "There is no tool of this name.",
        "Use one of the tools on offer.",
    ),
    Code.NOT_ALLOWED: (
        Category.VALIDATION,
        "This is not allowed here.",
        "Say so, and offer what can be looked up instead.",
    ),
    Code.REFUSED: (
        Category.VALIDATION,
        "This cannot be done as asked.",
        "Check what was asked for, and change it.",
    ),
    Code.REPEATED_CALL_ID: (
        Category.VALIDATION,
        "Another call has the same id, so this one was not made.",
        "Ask again if it is still needed.",
    ),
    Code.PROTOCOL: (
        Category.VALIDATION,
        "Something has to be done before this, so this was not done.",
        "Load what it is about, and write down what was done; then make the call again.",
    ),
    Code.TOO_MANY_CHANGES: (
        Category.RATE_LIMIT,
        "This record was changed too often in a short time.",
        "Wait a minute, then try again.",
    ),
    Code.SERVICE_UNAVAILABLE: (
        Category.EXTERNAL,
        "The service behind this did not answer.",
        "Try again in a few minutes.",
    ),
    Code.TOOL_TIMEOUT: (
        Category.EXTERNAL,
        "There was no answer in time.",
        "Ask for less, or try again later.",
    ),
    Code.OUTCOME_UNKNOWN: (
        Category.EXTERNAL,
        "It is not known whether the change took effect.",
        "Check before repeating it.",
    ),
    Code.TOOL_EXECUTION_FAILED: (
        Category.INTERNAL,
        "Something went wrong on our side.",
        "Go on without it, or try again later; the operators can see what happened.",
    ),
}


@dataclass(frozen=True)
class ToolError:
    """`message` says what happened and `suggestion` what to try: neither is ever empty, and neither holds a stack
    trace, an exception, a path, a host or a key, whatever they were made from."""

    code: Code
    message: str = ""
    suggestion: str = ""

    def __post_init__(self) -> None:
        _, message, suggestion = _MEANING[self.code]
        object.__setattr__(self, "message", sentence(self.message, message))
        object.__setattr__(self, "suggestion", sentence(self.suggestion, suggestion))

    @property
    def words(self) -> str:
        return f"{self.message} {self.suggestion}"


@dataclass(frozen=True)
class Structured:
    """Records to be shown as blocks: `kind` says which blocks ("appointments", "tickets"), one mapping a record."""

    kind: str
    records: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class ToolResult:
    """`data` is what the model reads; `display_text` and `structured` are for the thread; `notes` tell of side effects;
    `sources` is what an answer that rests on this names.

    Raises:
        ValueError: a failure without an error, or a success with one.
    """

    status: Status = Status.OK
    data: Any = None
    display_text: str = ""
    structured: tuple[Structured, ...] = ()
    error: ToolError | None = None
    notes: tuple[str, ...] = field(default_factory=tuple)
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.success == (self.error is not None):
            raise ValueError("a failed result must have an error, and a success must have none")

    @property
    def success(self) -> bool:
        return self.status in (Status.OK, Status.CACHED)

    @property
    def text(self) -> str:
        """For a person; may be empty after a success."""
        return self.error.words if self.error else self.display_text


def failure(code: Code, message: str = "", suggestion: str = "") -> ToolResult:
    """A result that says what went wrong; the code's own words stand in for those that are left out."""
    status = Status.BLOCKED if code in (Code.NOT_ALLOWED, Code.PROTOCOL) else Status.ERROR
    return ToolResult(status=status, error=ToolError(code, message, suggestion))
