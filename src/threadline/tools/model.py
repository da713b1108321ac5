"""Values of tools: a call's place and author, its risk, its result, and errors that say what to do next."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from threadline.errors import Permanent
from threadline.slack.model import Thread
from threadline.tools.public_text import public_sentence


class ToolStatus(StrEnum):
    OK = "ok"
    ERROR = "error"
    BLOCKED = "blocked"
    """Not allowed here, and so not executed."""
    CACHED = "cached"
    """An earlier execution's answer."""
    PENDING = "pending"
    """Not executed: it waits for an approval."""


class ErrorCategory(StrEnum):
    """Whose fault it is, which decides what may help."""

    VALIDATION = "validation"
    EXTERNAL = "external"
    RATE_LIMIT = "rate_limit"
    INTERNAL = "internal"


class ErrorCode(StrEnum):
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
    def category(self) -> ErrorCategory:
        return _OTHER_CATEGORIES.get(self, ErrorCategory.VALIDATION)

    @property
    def is_fault(self) -> bool:
        """Whether what was wanted could have been done, and something did not work; a refusal is an answer."""
        return self.category in (ErrorCategory.EXTERNAL, ErrorCategory.INTERNAL)


_OTHER_CATEGORIES = {
    ErrorCode.TOO_MANY_CHANGES: ErrorCategory.RATE_LIMIT,
    ErrorCode.SERVICE_UNAVAILABLE: ErrorCategory.EXTERNAL,
    ErrorCode.TOOL_TIMEOUT: ErrorCategory.EXTERNAL,
    ErrorCode.OUTCOME_UNKNOWN: ErrorCategory.EXTERNAL,
    ErrorCode.TOOL_EXECUTION_FAILED: ErrorCategory.INTERNAL,
}
"""Of the codes that do not stand for a mistake of whoever calls."""
_MEANING: dict[ErrorCode, tuple[str, str]] = {
    ErrorCode.INVALID_ARGUMENTS: (
        "The tool was called with arguments that do not fit.",
        "Call it again with arguments of the form that it describes.",
    ),
    ErrorCode.UNKNOWN_TOOL: ("There is no tool of this name.", "Use one of the tools on offer."),
    ErrorCode.NOT_ALLOWED: ("This is not allowed here.", "Say so, and offer what can be looked up instead."),
    ErrorCode.REFUSED: ("This cannot be done as asked.", "Check what was asked for, and change it."),
    ErrorCode.REPEATED_CALL_ID: (
        "Another call has the same id, so this one was not made.",
        "Ask again if it is still needed.",
    ),
    ErrorCode.PROTOCOL: (
        "Something has to be done before this, so this was not done.",
        "Load what it is about, and write down what was done; then make the call again.",
    ),
    ErrorCode.TOO_MANY_CHANGES: (
        "This record was changed too often in a short time.",
        "Wait a minute, then try again.",
    ),
    ErrorCode.SERVICE_UNAVAILABLE: ("The service behind this did not answer.", "Try again in a few minutes."),
    ErrorCode.TOOL_TIMEOUT: ("There was no answer in time.", "Ask for less, or try again later."),
    ErrorCode.OUTCOME_UNKNOWN: ("It is not known whether the change took effect.", "Check before repeating it."),
    ErrorCode.TOOL_EXECUTION_FAILED: (
        "Something went wrong on our side.",
        "Go on without it, or try again later; the admin can see what happened.",
    ),
}


@dataclass(frozen=True)
class ToolError:
    """`message` says what happened and `suggestion` what to try: neither is ever empty, and neither holds a stack
    trace, an exception, a path, a host or a key, whatever they were made from."""

    code: ErrorCode
    message: str = ""
    suggestion: str = ""

    def __post_init__(self) -> None:
        message, suggestion = _MEANING[self.code]
        object.__setattr__(self, "message", public_sentence(self.message, message))
        object.__setattr__(self, "suggestion", public_sentence(self.suggestion, suggestion))

    @property
    def text(self) -> str:
        return f"{self.message} {self.suggestion}"


@dataclass(frozen=True)
class RecordGroup:
    """Records to be shown as blocks: `kind` says which blocks ("appointments", "tickets"), one mapping a record."""

    kind: str
    records: tuple[dict[str, Any], ...]


def record_group(kind: str, records: Iterable[dict[str, Any]]) -> tuple[RecordGroup, ...]:
    """Return the records as `ToolResult.structured` takes them; nothing where there are none."""
    rows = tuple(records)
    return (RecordGroup(kind, rows),) if rows else ()


@dataclass(frozen=True)
class ToolResult:
    """`data` is what the model reads; `display_text` and `structured` are for the thread; `notes` tell of side effects;
    `sources` is what an answer that rests on this names. Raises `ValueError`: a failure without an error, or a success
    with one."""

    status: ToolStatus = ToolStatus.OK
    data: Any = None
    display_text: str = ""
    structured: tuple[RecordGroup, ...] = ()
    error: ToolError | None = None
    notes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.success == (self.error is not None):
            raise ValueError("a failed result must have an error, and a success must have none")

    @property
    def success(self) -> bool:
        """Whether there is no error. A call that waits for an approval has none."""
        return self.made or self.status is ToolStatus.PENDING

    @property
    def made(self) -> bool:
        return self.status in (ToolStatus.OK, ToolStatus.CACHED)

    @property
    def user_text(self) -> str:
        """For a person; may be empty after a success."""
        return self.error.text if self.error else self.display_text


def error_result(code: ErrorCode, message: str = "", suggestion: str = "") -> ToolResult:
    """A result that says what went wrong; the code's own words stand in for those that are left out."""
    status = ToolStatus.BLOCKED if code in (ErrorCode.NOT_ALLOWED, ErrorCode.PROTOCOL) else ToolStatus.ERROR
    return ToolResult(status=status, error=ToolError(code, message, suggestion))


class Risk(StrEnum):
    """Of a change. `policy.decide` makes a verdict of it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    """Never decided by who asked."""

    def exceeds(self, limit: "Risk") -> bool:
        order = list(Risk)
        return order.index(self) > order.index(limit)


@dataclass(frozen=True)
class FieldChange:
    """A field that a call changes. None: the field is not there, before or after."""

    field: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Author:
    """`correlation_id` is the same in all that one turn wrote, in the log and in the reply's metadata."""

    user_id: str
    correlation_id: str


@dataclass(frozen=True)
class Operation:
    """Where a call stands in its conversation. `step` counts the model's replies of a turn, and `call_id` is the
    model's own name of the call."""

    thread: Thread
    turn: int
    step: int
    call_id: str

    @property
    def key(self) -> str:
        return f"{self.thread.key}:{self.turn}:{self.step}:{self.call_id}"


@dataclass(frozen=True)
class Change:
    """What every change of a record says of itself. `now`: seconds since 1970."""

    operation: Operation
    author: Author
    now: float

    @property
    def team(self) -> str:
        return self.operation.thread.team


class CallIdReused(Permanent):
    """One key was used for two different changes."""
