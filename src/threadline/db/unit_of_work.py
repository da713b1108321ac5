"""The unit of work: every repository over one connection, and so over one transaction."""

from functools import cached_property

from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.conversations.catch_up_store import Talked
from threadline.conversations.conversation_store import Conversations
from threadline.conversations.trace_store import TurnTraces
from threadline.conversations.transcript_store import BYTES, Transcripts
from threadline.conversations.turn_plans import TurnPlans
from threadline.db.rate_limits import Limits
from threadline.estimates.store import EstimateStore
from threadline.operator.store import MemoryStore
from threadline.threads.store import ThreadBindings
from threadline.tools.store import ToolExecutionStore


class Work:
    def __init__(self, tx: AsyncConnection, context_bytes: int | None = None) -> None:
        self.tx = tx
        self._context_bytes = BYTES if context_bytes is None else context_bytes

    @cached_property
    def bindings(self) -> ThreadBindings:
        return ThreadBindings(self.tx)

    @cached_property
    def estimates(self) -> EstimateStore:
        return EstimateStore(self.tx)

    @cached_property
    def limits(self) -> Limits:
        return Limits(self.tx)

    @cached_property
    def talked(self) -> Talked:
        return Talked(self.tx)

    @cached_property
    def tool_executions(self) -> ToolExecutionStore:
        return ToolExecutionStore(self.tx)

    @cached_property
    def conversations(self) -> Conversations:
        return Conversations(self.tx, self._context_bytes)

    @cached_property
    def transcripts(self) -> Transcripts:
        return Transcripts(self.tx)

    @cached_property
    def memories(self) -> MemoryStore:
        return MemoryStore(self.tx)

    @cached_property
    def turn_plans(self) -> TurnPlans:
        return TurnPlans(self.tx)

    @cached_property
    def turn_traces(self) -> TurnTraces:
        return TurnTraces(self.tx)
