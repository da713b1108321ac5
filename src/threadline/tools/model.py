"""Values of tools: a call's place and author, its risk, its result, and errors that name the next
step.
"""

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
    """Not executed: a policy refused it, such as a locked record, a rate or a tool that is not on
    offer.
    """
    CACHED = "cached"
    """An earlier execution's answer."""
    PENDING = "pending"
    """Not executed: it waits for an approval."""
    UNKNOWN = "unknown"
    """Started, and its outcome is unknown: its worker was lost, or the other system did not
    confirm it. No tool returns this.
    """


class ErrorCategory(StrEnum):
    """The party at fault, which decides what may help."""

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
        """Whether a possible action failed; a refusal is an answer, and no fault."""
        return self.category in (ErrorCategory.EXTERNAL, ErrorCategory.INTERNAL)


_OTHER_CATEGORIES = {
    ErrorCode.TOO_MANY_CHANGES: ErrorCategory.RATE_LIMIT,
    ErrorCode.SERVICE_UNAVAILABLE: ErrorCategory.EXTERNAL,
    ErrorCode.TOOL_TIMEOUT: ErrorCategory.EXTERNAL,
    ErrorCode.OUTCOME_UNKNOWN: ErrorCategory.EXTERNAL,
    ErrorCode.TOOL_EXECUTION_FAILED: ErrorCategory.INTERNAL,
}
"""The category of each code that is not the caller's mistake."""
_MEANING: dict[ErrorCode, tuple[str, str]] = {
    ErrorCode.INVALID_ARGUMENTS: (
        "The tool was called with arguments that do not fit.",
        "Call it again with arguments of the form that it describes.",
    ),
    ErrorCode.UNKNOWN_TOOL: ("There is no tool of this name.", "Use one of the tools on offer."),
    ErrorCode.NOT_ALLOWED: (
        "This is not allowed here.",
        "Say so, and offer what can be looked up instead.",
    ),
    ErrorCode.REFUSED: (
        "This cannot be done as asked.",
        "Check the request, and change it.",
    ),
    ErrorCode.REPEATED_CALL_ID: (
        "Another call has the same id, so this one was not made.",
        "Ask again if it is still needed.",
    ),
    ErrorCode.PROTOCOL: (
        "Another step must come first, so this was not done.",
        "Load the record, and write down the changes; then make the call again.",
    ),
    ErrorCode.TOO_MANY_CHANGES: (
        "This record was changed too often in a short time.",
        "Wait a minute, then try again.",
    ),
    ErrorCode.SERVICE_UNAVAILABLE: (
        "The service behind this did not answer.",
        "Try again in a few minutes.",
    ),
    ErrorCode.TOOL_TIMEOUT: ("There was no answer in time.", "Ask for less, or try again later."),
    ErrorCode.OUTCOME_UNKNOWN: (
        "It is not known whether the change took effect.",
        "Check before repeating it.",
    ),
    ErrorCode.TOOL_EXECUTION_FAILED: (
        "Something went wrong on our side.",
        "Go on without it, or try again later; the admin can see what happened.",
    ),
}


@dataclass(frozen=True)
class ToolError:
    """An error of a call. `message` names the problem and `suggestion` the next step: neither is
    empty, and neither contains a stack trace, an exception, a path, a host or a key, regardless of
    its source.
    """

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
    """Records to show as blocks. `kind` selects the blocks ("appointments", "tickets"); each
    record is one mapping.
    """

    kind: str
    records: tuple[dict[str, Any], ...]


def record_group(kind: str, records: Iterable[dict[str, Any]]) -> tuple[RecordGroup, ...]:
    """Return the records in the form of `ToolResult.structured`; empty without records."""
    rows = tuple(records)
    return (RecordGroup(kind, rows),) if rows else ()


@dataclass(frozen=True)
class ToolResult:
    """The result of a call.

    Args:
        data: the part for the model.
        display_text: the text for the thread.
        structured: the records for the thread.
        notes: the call's side effects.
        sources: the sources that an answer based on this result names.

    Raises:
        ValueError: a failure without an error, or a success with one.
    """

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
        """Whether there is no error; a call that waits for an approval has none."""
        return self.made or self.status is ToolStatus.PENDING

    @property
    def made(self) -> bool:
        return self.status in (ToolStatus.OK, ToolStatus.CACHED)

    @property
    def user_text(self) -> str:
        """The text for a person; may be empty after a success."""
        return self.error.text if self.error else self.display_text


def error_result(code: ErrorCode, message: str = "", suggestion: str = "") -> ToolResult:
    """Return a failed result; the code's standard words replace omitted ones."""
    status = (
        ToolStatus.BLOCKED
        if code in (ErrorCode.NOT_ALLOWED, ErrorCode.PROTOCOL)
        else ToolStatus.ERROR
    )
    return ToolResult(status=status, error=ToolError(code, message, suggestion))


class Risk(StrEnum):
    """The risk of a change; `policy.decide` turns it into a verdict."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    """Never approved by the requester."""

    def exceeds(self, limit: "Risk") -> bool:
        order = list(Risk)
        return order.index(self) > order.index(limit)


@dataclass(frozen=True)
class FieldChange:
    """A field that a call changes. `old` or `new` is None if the field is absent
    before or after.
    """

    field: str
    old: Any
    new: Any


@dataclass(frozen=True)
class Author:
    """The author of a change. `correlation_id` is the same in all records of one turn, in the log
    and in the reply's metadata.
    """

    user_id: str
    correlation_id: str


@dataclass(frozen=True)
class Operation:
    """The position of a call in its conversation. `step` counts the model's replies in a turn, and
    `call_id` is the model's own id of the call.
    """

    thread: Thread
    turn: int
    step: int
    call_id: str

    @property
    def key(self) -> str:
        return f"{self.thread.key}:{self.turn}:{self.step}:{self.call_id}"


@dataclass(frozen=True)
class Change:
    """The origin of a change of a record. `now`: seconds since 1970."""

    operation: Operation
    author: Author
    now: float

    @property
    def team(self) -> str:
        return self.operation.thread.team


class CallIdReused(Permanent):
    """One key was used for two different changes."""
