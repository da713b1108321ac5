"""What is old in a conversation is told in a summary, which is extended and not made anew."""

import time
from collections.abc import Sequence

import structlog

from threadline.conversations import context_window as context
from threadline.conversations import turn_note as briefing
from threadline.conversations.context_window import Budget, Past, Placed
from threadline.conversations.contract import TalkTurn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import Transcript, TranscriptStore
from threadline.db.engine import Database
from threadline.db.values import storable
from threadline.models.model import ChatModel
from threadline.slack.text import is_blank

_log = structlog.get_logger(__name__)


class Summaries:
    def __init__(self, database: Database, model: ChatModel | None, budget: Budget) -> None:
        self._database = database
        self._model = model
        self._budget = budget

    async def make(self, turn: TalkTurn) -> None:
        """Before a turn's first thought: leave of the past what fills half of the budget, so that it lasts for a while.

        What is to be told is told piece by piece, each kept at once, so that an attempt which is broken off is not in
        vain. Where a summary cannot be had, the next turn tries again.

        Raises:
            Permanent, Transient: as the model did.
        """
        while self._model and (asked := await self._older(turn)):
            past, older = asked
            piece = context.piece(older)
            if not await self._told(self._model, turn, past, piece) or len(piece) == len(older):
                return

    async def _older(self, turn: TalkTurn) -> tuple[Past, Sequence[Placed]] | None:
        """The past of a turn that has not begun, and what of it is for the summary; None when there is room for all."""
        async with self._database.begin() as tx:
            if briefing.read(await TranscriptStore(tx).get(turn.thread, f"c:{turn.turn}")):
                return None
            past = _past(await TranscriptStore(tx).read(turn.thread), turn.turn)
            unused = await MessageStore(tx).unused(turn.thread)
        fresh = context.from_people([("", each.text, each.files) for each in unused], self._budget)
        too_much = context.cut(past, fresh, self._budget).older
        half = context.cut(past, (), self._budget.halved()).older
        return (past, max(half, too_much, key=len)) if too_much else None

    async def _told(self, model: ChatModel, turn: TalkTurn, past: Past, piece: Sequence[Placed]) -> bool:
        """Have the summary extended by a piece; False when there are no words, or it tells what is there no more."""
        begun = time.monotonic()
        answer = await model.ask(context.summary_prompt(past, piece))
        took = round((time.monotonic() - begun) * 1000)
        summary = context.as_summary(storable(answer.reply.text))
        async with self._database.begin() as tx:
            await ConversationStore(tx).add_usage(turn.thread, turn.turn, 0, "summarise", answer.usage, took)
            now = _past(await TranscriptStore(tx).read(turn.thread), turn.turn)
            # Somebody may have deleted a message meanwhile, whose words the summary would keep.
            same = now.summary == past.summary and now.messages[: len(piece)] == tuple(piece)
            if is_blank(summary) or not same:
                _log.warning("summary_failed", slack_thread=turn.thread.key, turn=turn.turn, outdated=not same)
                return False
            await TranscriptStore(tx).replace_with_summary(turn.thread, summary, piece[-1][0])
        return True


def _past(transcript: Transcript, turn: int) -> Past:
    entries = [(each.position, each.message) for each in transcript.messages]
    return Past(transcript.summary, tuple(context.parted(entries, turn)[0]))
