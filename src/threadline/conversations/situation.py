"""What a decision is made with: the words of the turn, what was said before, who asks, and what could be done."""

from collections.abc import Awaitable, Callable

import structlog

from threadline.conversations import conversation_row
from threadline.conversations.decision_contract import Round
from threadline.conversations.prompt_building import bound_to
from threadline.conversations.request_texts import asked_in
from threadline.conversations.think import Mind
from threadline.db.engine import Database
from threadline.decisions.engine import OfferedTool, Situation
from threadline.decisions.model import RECENT_MESSAGES, sensitive_topics
from threadline.decisions.store import DecisionStore
from threadline.errors import InternalError, Permanent, Transient
from threadline.knowledge import tools as qa
from threadline.knowledge.model import DocumentType
from threadline.models.model import Message
from threadline.sales.model import MAX_CONTEXT
from threadline.tools.registry import allowed_tools

Lead = Callable[[str, str], Awaitable[str]]
"""What is known of who asks (team, Slack id), on record or in Slack, in a few lines, of which `MAX_CONTEXT`
characters are told; empty for somebody unknown."""

_LONGEST_DESCRIPTION = 300
_log = structlog.get_logger(__name__)


class Situations:
    def __init__(self, database: Database, mind: Mind, lead: Lead) -> None:
        self._database = database
        self._mind = mind
        self._lead = lead

    async def of(self, asked: Round) -> Situation:
        """The situation of a round; its query is empty where nothing was said, or all of it was deleted."""
        thread, turn = asked.thread, asked.turn
        async with self._database.begin() as work:
            query = "\n".join(await asked_in(work, thread, turn, whole=True)).strip()
            askers = await work.conversations.askers(thread, turn, 1)
            transcript = await work.transcripts.read(thread)
            conversation, decisions = await conversation_row.id_of(work.tx, thread), DecisionStore(work.tx)
            before = await decisions.recent_sources(conversation, turn)
            rounds = await decisions.rounds(conversation, turn)
            about = await bound_to(work, thread)
        found = [source for each in rounds if each.round < asked.round for source in each.sources]
        return Situation(
            query,
            tuple(_said(each.message) for each in transcript.messages if each.message.spoken)[-RECENT_MESSAGES:],
            await self._who(thread.team, askers[-1].user_id) if askers else "",
            (*before, *found),
            self._tools(read_only=about.read_only),
            sensitive_topics(query, self._mind.sensitive_words),
            tuple(DocumentType),
        )

    async def sensitive_words(self, asked: Round) -> tuple[str, ...]:
        """The sensitive topics that the turn's words name."""
        async with self._database.begin() as work:
            query = "\n".join(await asked_in(work, asked.thread, asked.turn, whole=True))
        return sensitive_topics(query, self._mind.sensitive_words)

    async def _who(self, team: str, user_id: str) -> str:
        """Empty where Slack does not say it now: a decision that knows less of who asks is better than none."""
        try:
            return (await self._lead(team, user_id))[:MAX_CONTEXT]
        except InternalError:
            raise
        except (Permanent, Transient) as error:
            _log.warning("asker_lookup_failed", user=user_id, reason=str(error))
            return ""

    def _tools(self, *, read_only: bool) -> tuple[OfferedTool, ...]:
        """Those that the turn may use; what looks into the documents is an action of its own."""
        allowed = allowed_tools(self._mind.registry, self._mind.services, read_only=read_only)
        definitions = self._mind.registry.definitions(allowed.names - {qa.answer.name})
        return tuple(OfferedTool(each["name"], each["description"][:_LONGEST_DESCRIPTION]) for each in definitions)


def _said(message: Message) -> str:
    return f"{message.author or message.role.value}: {message.content}"
