"""ThreadAttention: the rule for silence over a batch, under the lock of the conversation's row."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import text

from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.model.listening import (
    Attention,
    Heard,
    Listen,
    Listening,
    attention,
    leads_with_other,
)
from threadline.conversations.model.quiet import Quiet, QuietOrder, parse_quiet_order
from threadline.conversations.store.conversation import Conversation
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.turns import OpenQuestion, TurnStore
from threadline.db.engine import Store
from threadline.jobs.model import is_job_question
from threadline.slack.model import Thread
from threadline.slack.text import mentions_in
from threadline.threads import phrases
from threadline.threads.message_table import seconds
from threadline.threads.model import IncomingMessage, MessageKind

_QUESTIONS = (OutcomeKind.ASKED, OutcomeKind.CLARIFIED)
_LAST_SAID = text("""
SELECT m.sender_id, m.addressed,
       EXISTS (SELECT FROM conversation_turns t
               WHERE t.conversation_id = m.conversation_id AND t.turn = m.turn
                 AND t.posted_at IS NOT NULL AND t.answer <> '') AS answered
FROM conversation_messages m
WHERE m.conversation_id = :id AND m.message_type = 'message' AND m.said_at < :before
ORDER BY m.said_at DESC, m.seq DESC LIMIT 1
""")


@dataclass(frozen=True)
class Attended:
    """A batch after the rule.

    - `messages`: in their order, with those that the bot answers marked as addressed;
    - `only_stored`: the ids of those that start no turn;
    - `quiet`: the thread's quiet after them.
    """

    messages: tuple[IncomingMessage, ...]
    only_stored: frozenset[str]
    quiet: Quiet


@dataclass(frozen=True)
class _LastSaid:
    """The message before another one. `answered`: the bot's answer to it is in Slack."""

    sender_id: str
    addressed: bool
    answered: bool = False


class ThreadAttention(Store):
    """Applies `model.listening.attention` to the messages of a thread."""

    async def attend(
        self,
        thread: Thread,
        row: Conversation,
        messages: Sequence[IncomingMessage],
        listening: Listening,
        *,
        several: bool,
    ) -> Attended:
        """Decide about each message: an order to be quiet counts for the later ones.

        Args:
            messages: in the order in which they were sent.
            several: several people write in the thread.
        """
        listen = listening.of(thread.channel)
        quiet = Quiet(row.quiet_until, row.quiet_changed_at)
        said = [each for each in messages if each.kind == MessageKind.MESSAGE]
        asked = await self._questions(thread, said, listen)
        last = await self._last_said(row, said) if listen is Listen.EVERY and several else None
        decided = dict[str, Attention]()
        for each in said:
            order = _order(each, listen, several=several)
            after = _after_order(quiet, each, order, listening.quiet_for)
            if after is not None:
                quiet = after
                decided[each.id] = Attention.ANSWER
            else:
                heard = _heard(each, asked, quiet, last)
                decided[each.id] = await self._decide(thread, listen, heard)
                quiet = _after_mention(quiet, each, decided[each.id])
            addressed = decided[each.id] is Attention.ANSWER
            last = _LastSaid(each.sender_id, addressed) if listen is Listen.EVERY else None
        return Attended(
            tuple(
                replace(each, addressed=True) if decided.get(each.id) is Attention.ANSWER else each
                for each in messages
            ),
            frozenset(name for name, what in decided.items() if what is Attention.STORE),
            quiet,
        )

    async def _questions(
        self, thread: Thread, said: Sequence[IncomingMessage], listen: Listen
    ) -> Mapping[str, OpenQuestion]:
        """Return the bot's open questions, where an answer counts without a mention."""
        if listen is Listen.MENTIONED or all(each.addressed for each in said):
            return {}
        return await TurnStore(self._tx).open_questions(thread, _QUESTIONS)

    async def _last_said(
        self, row: Conversation, said: Sequence[IncomingMessage]
    ) -> _LastSaid | None:
        if not said:
            return None
        given = {"id": row.id, "before": seconds(said[0].ts)}
        found = (await self._tx.execute(_LAST_SAID, given)).one_or_none()
        return _LastSaid(*found) if found else None

    async def _decide(self, thread: Thread, listen: Listen, heard: Heard) -> Attention:
        """Decide about a message. Most messages need no look for the person who has the thread."""
        what = attention(listen, heard)
        if what is not Attention.STORE:
            return what
        has_person = await HandoverStore(self._tx).open_for(thread) is not None
        return attention(listen, replace(heard, has_person=has_person))


def _heard(
    message: IncomingMessage,
    asked: Mapping[str, OpenQuestion],
    quiet: Quiet,
    last: _LastSaid | None,
) -> Heard:
    question = asked.get(message.sender_id)
    at = seconds(message.ts)
    return Heard(
        calls_bot=message.addressed,
        is_request=_is_request(message),
        leads_with_other=leads_with_other(message.text),
        answers_question=question is not None
        and not mentions_in(message.text)
        and at > question.said_at,
        follows_people=last is not None
        and not last.answered
        and (last.sender_id != message.sender_id or not last.addressed),
        is_muted=quiet.holds(at),
    )


def _is_request(message: IncomingMessage) -> bool:
    """Return whether a message has more than thanks, a greeting or an emoji."""
    said = message.text
    if message.files or message.forwarded:
        return True
    return not (
        phrases.is_wordless(said) or phrases.is_small_talk(said) or phrases.is_thanks(said)
    )


def _order(message: IncomingMessage, listen: Listen, *, several: bool) -> QuietOrder | None:
    """Return a message's order to be quiet, or to end that. Without a mention it counts from a
    person who is alone with the bot.
    """
    alone = not several and listen is not Listen.MENTIONED
    if message.files or message.forwarded or not (message.addressed or alone):
        return None
    return parse_quiet_order(message.text)


def _after_order(
    quiet: Quiet, message: IncomingMessage, order: QuietOrder | None, quiet_for: float
) -> Quiet | None:
    """Return the thread's quiet after an order; None if the message changes nothing."""
    at = seconds(message.ts)
    if order is None or at <= quiet.changed_at:
        return None
    if not order.wakes:
        return quiet.begin(at, order.seconds or quiet_for)
    return quiet.end(at) if quiet.holds(at) else None


def _after_mention(quiet: Quiet, message: IncomingMessage, decided: Attention) -> Quiet:
    """Return the thread's quiet after a message: a person's request with a mention ends it. A
    job's question does not.
    """
    at = seconds(message.ts)
    ends = decided is Attention.ANSWER and not is_job_question(message.id)
    return quiet.end(at) if ends and quiet.holds(at) and at > quiet.changed_at else quiet
