"""Before the operator's first thought: what it is to know of who asks and what about, and what the request means."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.models.chat_model import ChatModel
from threadline.operator import memory
from threadline.operator import request_analysis as analysis
from threadline.operator import tool_patterns as patterns
from threadline.operator.context import PATIENCE, TOKENS, LayerReport, build_comprehensive_context
from threadline.operator.context_sources import Request, Sources
from threadline.operator.model.memory import Memory, MemoryKind
from threadline.slack.model import Thread
from threadline.tools.registry import Tool

_RECALLED = 20
"""Memories among which the same pattern may be more than once."""
_KINDS = (MemoryKind.PROCEDURAL,)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Prepared:
    """`text`: the layers in their fences; `patterns`: past tool patterns, a line each. Either may be empty."""

    text: str
    layers: tuple[LayerReport, ...]
    patterns: str = ""


class Preparing:
    """Args: `tools` are those on offer; `tokens` bound the context."""

    def __init__(
        self,
        database: Database,
        sources: Sources,
        model: ChatModel | None,
        tools: Sequence[Tool],
        tokens: int = TOKENS,
    ) -> None:
        self._database = database
        self._sources = sources
        self._model = model
        self._tools = tools
        self._tokens = tokens

    async def context(self, thread: Thread, turn: int, user_id: str, question: str, rfp_id: str = "") -> Prepared:
        """Gather what the turn is to know; an RFP's layer makes sure that it has a state. Safe to repeat.

        Returns:
            always something: a layer that cannot be had is named in the text and in the report.
        """
        request = Request(thread, user_id, question, rfp_id)
        built, told = await asyncio.gather(
            build_comprehensive_context(self._sources, request, self._tokens), self._patterns(request)
        )
        sizes = {each.name: each.tokens for each in built.layers if not each.missing}
        _log.info("context_built", slack_thread=thread.key, turn=turn, layers=sizes, tokens=sum(sizes.values()))
        return Prepared(built.text, built.layers, told)

    async def analyse(self, thread: Thread, turn: int, question: str, context: str) -> str:
        """What the request means, in a few sentences; empty where nobody can say. What it cost is accounted."""
        made = await analysis.generate_metaprompt(self._model, question, context, self._tools)
        if made.usage:
            try:
                async with self._database.begin() as work:
                    await work.conversations.spent(thread, turn, 0, "analyse", made.usage, made.milliseconds)
            except (Permanent, Transient) as error:
                _log.warning("analysis_cost_not_stored", slack_thread=thread.key, turn=turn, reason=str(error))
        return made.text

    async def _patterns(self, request: Request) -> str:
        try:
            async with asyncio.timeout(PATIENCE):
                own, others = await asyncio.gather(self._recall(request, request.user_id), self._recall(request, ""))
        except (Permanent, Transient, TimeoutError) as error:
            _log.warning("tool_patterns_unavailable", slack_thread=request.thread.key, reason=str(error))
            return ""
        return patterns.told(own, others, {each.wire_name for each in self._tools})

    async def _recall(self, request: Request, user_id: str) -> Sequence[Memory]:
        """What succeeded before, by relevance; `user_id` empty: for anybody of the team."""
        where = request.thread
        async with self._database.begin() as work:
            found = await work.memories.recall(
                where.team,
                memory.asked(request.question),
                _KINDS,
                channel=where.channel,
                user_id=user_id,
                with_failures=False,
                limit=_RECALLED,
            )
        return found[MemoryKind.PROCEDURAL]
