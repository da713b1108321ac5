"""The port by which `ToolRunner` puts a call on record that waits for an approval."""

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

    `does`: what its tool does, in words. `arguments`: as the model wrote them, parsed. `actor`: the
    name of the person who asked last. `co_requesters`: everybody else who asked, id to label.
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
    """Puts calls on record that wait for an approval. The conversation starts their workflows once its turn has
    ended."""

    @abstractmethod
    async def propose(self, tx: Transaction, change: Change, call: HeldCall) -> ToolResult:
        """Put a call on record, in the transaction that records it. Returns the pending result with its card; for a
        call that waits in this thread already, the pending result of that one. Raises `Permanent`: nobody may decide
        it here, or it is too large."""
