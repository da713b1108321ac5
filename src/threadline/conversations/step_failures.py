"""What a step that failed for good is to its turn: words for the person, or a call of which nobody knows the end."""

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from threadline.conversations.model.conversation import Execution, ExecutionStatus
    from threadline.models.model import StepFailed, ToolCall
    from threadline.threads.retrying import FaultKind

from threadline.threads.calls import fault_of, public_message

AWAY = "My language model is not answering, and I have stopped waiting for it. Please ask me again later."
_BROKE_OFF = "It was interrupted before it reported a result."


def no_reply(error: FailureError) -> StepFailed:
    """The end of a turn whose model is not asked any more."""
    return StepFailed(AWAY if fault_of(error).kind is FaultKind.TRANSIENT else public_message(error))


def broken_off(asked: ToolCall, error: FailureError) -> Execution:
    """What became of a call. Of one whose worker was lost on its last try, nobody knows what it changed."""
    status = ExecutionStatus.ERROR if asked.read_only else ExecutionStatus.UNKNOWN
    note = public_message(error) or _BROKE_OFF
    return Execution(asked.id, asked.name, status, note, kind=asked.kind, critical=asked.critical)
