"""The port through which `ToolRunner` records a call that waits for an approval."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from threadline.db.engine import Transaction
from threadline.tools.model import Change, ToolResult
from threadline.tools.policy import Assessment


@dataclass(frozen=True)
class HeldCall:
    """A call that waits for an approval.

    Args:
        does: a description of the tool's action.
        arguments: parsed, as the model wrote them.
        actor: the name of the latest requester.
        co_requesters: the other requesters, id to label.
    """

    tool: str
    does: str
    arguments: Mapping[str, Any]
    assessed: Assessment
    reason: str = ""
    rfp_id: str = ""
    actor: str = ""
    co_requesters: Mapping[str, str] = field(default_factory=dict)


class Proposals(ABC):
    """Records calls that wait for an approval. The conversation starts their workflows after its
    turn has ended.
    """

    @abstractmethod
    async def propose(self, tx: Transaction, change: Change, call: HeldCall) -> ToolResult:
        """Record a call, in the transaction that records its execution.

        Returns:
            The pending result with its card; if the same call already waits in this thread, the
            pending result of that one.

        Raises:
            Permanent: no person may decide about the call here, or it is too large.
        """
