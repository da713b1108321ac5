"""A turn of a conversation without a workflow around it: its test scripts the replies of the model
and the tools.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from threadline.conversations.contract import BegunTurn
from threadline.conversations.model.conversation import (
    ConversationInput,
    ConversationLimits,
    ConversationSnapshot,
    ConversationTurn,
    NoticeReason,
)
from threadline.conversations.turn import Turn
from threadline.slack.model import Thread

NOWHERE = Thread("T1", "C1", "1700000000.000100")


@dataclass
class LoneThread:
    """Calls `stops` whenever the turn checks for a word to stop."""

    state: ConversationInput
    stops: Callable[[], bool] = lambda: False
    snapshot: ConversationSnapshot = field(default_factory=ConversationSnapshot)

    @property
    def stop_requested(self) -> bool:
        return self.stops()

    def update(self, snapshot: ConversationSnapshot) -> None:
        self.snapshot = snapshot

    def show_activity(self, what: str) -> None:
        """Temporal's UI shows it."""

    def keep_summary(self, summary: str) -> None:
        """Temporal's UI shows it."""

    async def post_due_answer(self) -> None:
        raise NotImplementedError("a lone turn plays `react` alone: only `run` calls this")

    async def tell_author(self, turn: int, reason: NoticeReason) -> None:
        raise NotImplementedError("a lone turn plays `react` alone: only `run` calls this")

    def show_once_mended(self, turn: int, *, left_to_person: bool) -> None:
        raise NotImplementedError("a lone turn plays `react` alone: only `run` calls this")


class LoneTurn(Turn):
    """Override `think` and `act`; then `react` plays the turn."""

    def __init__(
        self,
        thread: Thread = NOWHERE,
        number: int = 1,
        *,
        max_steps: int = 5,
        stops: Callable[[], bool] = lambda: False,
        may_be_silent: bool = False,
    ) -> None:
        lone = LoneThread(
            ConversationInput(thread, limits=ConversationLimits(max_steps=max_steps)), stops
        )
        super().__init__(lone, ConversationTurn(thread, number), BegunTurn(lone.snapshot))
        self.addressed = not may_be_silent
