"""One call of a tool as the memory knows it, so that a call which is repeated changes nothing twice."""

from dataclasses import dataclass

from threadline.db.rate_limit_rules import Rate
from threadline.errors import Permanent
from threadline.slack.model import Thread


@dataclass(frozen=True)
class Operation:
    """Where a call stands in its conversation.

    `step` counts the model's replies of a turn; `call_id` tells the calls of one reply apart.
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
    """What every change of a record says of itself.

    Args:
        now: seconds since 1970.
        rate: how often one record may be changed; None for as often as one likes.
    """

    operation: Operation
    now: float
    rate: Rate | None = None

    @property
    def team(self) -> str:
        return self.operation.thread.team


@dataclass(frozen=True)
class Effect:
    """What an operation did: `kind` names the change, `record` what was changed, `result` is what it answered."""

    kind: str
    record: str
    result: object


class OperationReused(Permanent):
    """One key was used for two different changes."""
