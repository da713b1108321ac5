"""What is old in a conversation is told in a summary, which is extended and not made anew."""

import time
from dataclasses import dataclass

import structlog

from threadline.agents.copilot import context
from threadline.agents.copilot.context import Cut, Past
from threadline.agents.models.port import ChatModel
from threadline.db.engine import Database
from threadline.domain.addressing import Thread
from threadline.domain.answers import is_blank
from threadline.domain.errors import Permanent, Transient

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class At:
    """The call of the model that a summary is made for."""

    thread: Thread
    turn: int
    step: int


class Summaries:
    def __init__(self, database: Database, model: ChatModel | None) -> None:
        self._database = database
        self._model = model

    async def extended(self, at: At, past: Past, cut: Cut) -> Past:
        """What is left of the past once it is cut, with a summary that tells the rest too.

        When none can be had, the oldest messages are left out for this turn, which the log says; the next turn that
        has too much before it tries again.
        """
        if not cut.older:
            return past
        summary = await self._summary(at, past, cut)
        if not summary:
            _log.warning("summary_failed", slack_thread=at.thread.key, turn=at.turn, left_out=len(cut.older))
        return Past(summary or past.summary, cut.kept)

    async def _summary(self, at: At, past: Past, cut: Cut) -> str:
        if self._model is None:
            return ""
        begun = time.monotonic()
        try:
            answer = await self._model.ask(context.summary_prompt(past, cut.older))
        except (Permanent, Transient) as error:
            _log.warning("model_gave_no_summary", slack_thread=at.thread.key, turn=at.turn, reason=str(error))
            return ""
        took = round((time.monotonic() - begun) * 1000)
        summary = context.as_summary(answer.reply.text)
        async with self._database.begin() as work:
            await work.conversations.spent(at.thread, at.turn, at.step, "summarise", answer.usage, took)
            if is_blank(summary):
                return ""
            await work.transcripts.summarise(at.thread, summary, cut.until)
        return summary
