"""The effect of a message on its case: whether it belongs to the case, wants a turn, and closes
the case or keeps it open.

The gateway marks a message that consists of a closing phrase (`MessageKind.CLOSE`), since only the
event shows which words are the author's own. All other decisions are made here, once, when the
message is stored. The answers are columns, which the statements and database functions read.
"""

import re
from dataclasses import dataclass, replace
from decimal import Decimal

from threadline.cases.model import CaseStatus
from threadline.slack.model import is_app_id
from threadline.threads import phrases
from threadline.threads.message_table import seconds
from threadline.threads.model import IncomingMessage, MessageKind, SenderType

_WRITTEN = (MessageKind.REPORT, MessageKind.MESSAGE, MessageKind.CLOSE)
_DECIDES_THE_END = (SenderType.REPORTER, SenderType.ADMIN)
_THANKS = re.compile(r"\b(?:thanks?|thx|ty|cheers|appreciated)\b", re.IGNORECASE)
_NOD = re.compile(r"\b(?:ok(?:ay)?|works?)\b", re.IGNORECASE)
"""Words that may answer the agent, or say how the bug is."""
_ASKS_HOW = re.compile(r"\b(?:how|what'?s|sup|wie|ça va)\b|\?", re.IGNORECASE)
"""Small talk that asks for the state of a case."""
_MENTION = r"<@[UW][A-Z0-9]+(?:\|[^<>]*)?>"
_TO_COLLEAGUE = re.compile(
    rf"(?:(?:hi|hey|hello|cc)\b)?(?:[\s,:]*{_MENTION})+[\s,:]*", re.IGNORECASE
)
_ABOUT_COLLEAGUE = re.compile(
    r"(?:is|was|has|had|says?|said|thinks?|thought|told|tells|wants?|found|finds|suggests?|confirm"
    r"(?:s|ed)|reports?|reported|and|or)\b",
    re.IGNORECASE,
)
_ASKS_FOR_FIX = re.compile(r"\b(?:fix|patch|pull request|draft|PR)\b", re.IGNORECASE)


@dataclass(frozen=True)
class CaseFacts:
    """The facts of a case on which a message's effect depends.

    `has_asked`: the last question to the reporter may still be answered. `closed_until`: the time
    of the close that ended the case, which answers all earlier messages, including late arrivals;
    -1 for an open case.
    """

    status: CaseStatus
    reporter_id: str
    has_asked: bool = False
    closed_until: Decimal = Decimal(-1)


@dataclass(frozen=True)
class Effect:
    """The effect of a stored message; each field is a column.

    - `spoken`: see `is_spoken`;
    - `wants_turn`: it starts a turn, or closes the case;
    - `closes`: True closes the case, False keeps it open; the last one of a case decides. None:
      it decides neither;
    - `turn`: 0 when it is answered already, else None.
    """

    spoken: bool
    wants_turn: bool
    closes: bool | None
    turn: int | None


def belongs_to_case(message: IncomingMessage, reporter_id: str) -> bool:
    """Return whether the case stores the message.

    An author whose role is unknown must be the reporter. For an app's report anybody may answer,
    since the app cannot.
    """
    if message.sender_type != SenderType.UNKNOWN:
        return True
    return bool(reporter_id) and (message.sender_id == reporter_id or is_app_id(reporter_id))


def is_spoken(message: IncomingMessage) -> bool:
    """Return whether Slack shows the message in the thread as a person's message of its own."""
    return message.kind in _WRITTEN and message.sender_type != SenderType.ADMIN


def as_stored(message: IncomingMessage, case: CaseFacts) -> IncomingMessage | None:
    """Return the message with its sender's role and its kind in the case.

    Returns None for a third party's message, which is ignored.
    """
    if message.kind == MessageKind.QUARANTINED:
        return message
    if not belongs_to_case(message, case.reporter_id):
        return None
    if message.sender_type == SenderType.UNKNOWN:
        message = replace(message, sender_type=SenderType.REPORTER)
    if message.sender_type not in _DECIDES_THE_END and message.kind == MessageKind.CLOSE:
        return replace(message, kind=MessageKind.MESSAGE)
    return as_answer(message) if case.has_asked else message


def as_answer(message: IncomingMessage) -> IncomingMessage:
    """Turn a bare "cancel" into an answer, which the agent reads. An admin's close stays one."""
    if message.kind != MessageKind.CLOSE or message.sender_type == SenderType.ADMIN:
        return message
    if not phrases.is_bare_close(message.text):
        return message
    return replace(message, kind=MessageKind.MESSAGE)


def effect_of(message: IncomingMessage, case: CaseFacts) -> Effect:
    """Return the effect of a message that `as_stored` returned."""
    answered = seconds(message.ts) <= case.closed_until
    leaves = _leaves_closed(message, case.status) or _needs_no_answer(message, case)
    wants_turn = message.kind in _WRITTEN and not answered and not leaves
    decides = wants_turn and message.sender_type in _DECIDES_THE_END
    return Effect(
        spoken=is_spoken(message),
        wants_turn=wants_turn,
        closes=message.kind == MessageKind.CLOSE if decides else None,
        turn=0 if answered else None,
    )


def _needs_no_answer(message: IncomingMessage, case: CaseFacts) -> bool:
    """Return whether a message in an open case needs no turn of its own: thanks, an emoji, or a
    developer's words to a colleague. The next turn reads it along with the others.

    Every word of a reporter whom the bot has asked something counts.
    """
    if message.kind != MessageKind.MESSAGE or case.status is CaseStatus.RESOLVED:
        return False
    if message.addressed or message.files or message.forwarded:
        return False
    if case.has_asked and message.sender_type == SenderType.REPORTER:
        return False
    if _is_polite(message.text):
        return True
    return message.sender_type == SenderType.DEVELOPER and _is_for_colleague(message.text)


def _is_polite(text: str) -> bool:
    """Return whether a text is only an emoji, a greeting or thanks. A nod such as "ok" may answer
    the agent, and "how is it going?" asks for the state of the case.
    """
    if _ASKS_HOW.search(text) or _NOD.search(text):
        return False
    if phrases.is_small_talk(text) or phrases.is_wordless(text):
        return True
    return phrases.is_thanks(text) and _THANKS.search(text) is not None


def _is_for_colleague(text: str) -> bool:
    """Return whether a text begins with mentions of people, speaks to them and not about them, and
    asks for no fix.
    """
    begin = _TO_COLLEAGUE.match(text.lstrip())
    if begin is None:
        return False
    rest = text.lstrip()[begin.end() :]
    return not (_ABOUT_COLLEAGUE.match(rest) or _ASKS_FOR_FIX.search(rest))


def _leaves_closed(message: IncomingMessage, status: CaseStatus) -> bool:
    """Return whether the case has ended, and the message does not reopen it: thanks, emoji, or a
    late "never mind".
    """
    if status is not CaseStatus.RESOLVED or message.files or message.forwarded:
        return False
    return (
        message.kind == MessageKind.CLOSE
        or phrases.is_close(message.text)
        or phrases.is_thanks(message.text)
        or phrases.is_wordless(message.text)
    )
