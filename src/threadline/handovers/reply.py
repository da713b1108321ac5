"""Rules for messages under a card: which are for the asker, and the states of a reply from held to
sent. Pure.

Messages under a card are internal. A message is a reply only if its author marks it: it begins
with `reply:` or with a mention of the asker. A reply is held for some seconds, in which any member
of the team can undo it, and is then posted.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from threadline.slack.model import FileRef
from threadline.slack.text import leading_quotes, quotes_in

REPLY_PREFIX = "reply:"
"""The beginning of a message that is posted in the asker's thread."""

_BLANK = r"[\s\u200b-\u200f\u2060\ufeff]*"
_MARK = r"[*_]*"
"""Bold and italic marks, which people put around the prefix."""
_PREFIX = re.compile(
    rf"{_BLANK}{_MARK}reply{_MARK}{_BLANK}[:\uff1a]{_MARK}{_BLANK}", re.IGNORECASE
)
_TAKE = re.compile(
    r"(?:(?:i|i'll|i will|let me)\s+)?take(?:\s+(?:it|this|over|it over|this over))?",
    re.IGNORECASE,
)
_AROUND = re.compile(r"^[\s*_~.!:]+|[\s*_~.!:]+$")


class ReplyState(StrEnum):
    """The states of a message under a card."""

    INTERNAL = ""
    """It stays among colleagues."""
    HELD = "held"
    """It is shown under the card, and can be undone."""
    SENDING = "sending"
    """Its undo time is over; it is being posted in the asker's thread."""
    SENT = "sent"
    UNDONE = "undone"
    """A person pressed Undo, or its author deleted it or made it internal while it was held."""
    LATE = "late"
    """It was written after the handover was closed."""
    REFUSED = "refused"
    """Slack did not accept it in the asker's thread."""


WAITING = (ReplyState.HELD, ReplyState.SENDING)


class Intent(StrEnum):
    """The intent of a message under a card."""

    INTERNAL = "internal"
    TAKE = "take"
    REPLY = "reply"


@dataclass(frozen=True)
class Words:
    """`text`: the asker's text of a reply; empty for other intents."""

    intent: Intent
    text: str = ""


_INTERNAL = Words(Intent.INTERNAL)


def read_words(text: str, asker: str, *, has_content: bool = False) -> Words:
    """Determine the intent of a message under a card.

    Args:
        text: decoded.
        asker: a user's id.
        has_content: it has files or quotes beside the text.
    """
    prefix = _PREFIX.match(text)
    rest = text[prefix.end() :] if prefix else text
    mention = (
        re.match(rf"{_BLANK}<@{re.escape(asker)}(?:\|[^<>]*)?>[\s,:]*", rest) if asker else None
    )
    rest = rest[mention.end() :] if mention else rest
    if prefix or mention:
        return Words(Intent.REPLY, rest.strip()) if rest.strip() or has_content else _INTERNAL
    return Words(Intent.TAKE) if _TAKE.fullmatch(_AROUND.sub("", text)) else _INTERNAL


def next_state(before: ReplyState, *, is_reply: bool, deleted: bool, late: bool) -> ReplyState:
    """Return the state of a message after it was written, edited or deleted. `late`: this happened
    after the handover was closed.

    Edits do not change a state after the hold: the asker's thread is corrected, and the reply is
    not sent again.
    """
    if before in (ReplyState.SENDING, ReplyState.SENT, ReplyState.REFUSED):
        return before
    if deleted or not is_reply:
        return (
            ReplyState.UNDONE
            if before in (ReplyState.HELD, ReplyState.UNDONE)
            else ReplyState.INTERNAL
        )
    return ReplyState.LATE if late else ReplyState.HELD


@dataclass(frozen=True)
class HandoverAnswer:
    """A message under a card with its current text; a deleted one has none.

    - `undone_by`: the user who pressed Undo; empty if the author withdrew the reply;
    - `is_shown_as_held`: its undo time has begun;
    - `forwarded`: its quotes and shared messages. The quotes of a reply belong to it; shared
      messages stay among colleagues;
    - `ts`: Slack's timestamp of the message;
    - `as_written`: its words with the quotes in their original places; see
      `slack.text.MessageText`.
    """

    message_id: str
    user_id: str
    text: str
    files: tuple[FileRef, ...]
    deleted: bool
    state: ReplyState
    undone_by: str
    is_shown_as_held: bool
    forwarded: str = ""
    ts: str = ""
    as_written: str = ""

    def words(self, asker: str) -> Words:
        """Return the intent and the asker's text of its current version."""
        quotes = quotes_in(self.forwarded)
        words = read_words(self.text, asker, has_content=bool(self.files or quotes))
        if words.intent is not Intent.REPLY or not quotes:
            return words
        before, rest = leading_quotes(self.as_written)
        if not rest.strip():
            return Words(Intent.REPLY, f"{quotes}\n{words.text}".strip())
        written = read_words(rest, asker, has_content=True)
        return Words(Intent.REPLY, f"{before}\n{written.text}".strip())

    def is_marked(self, asker: str) -> bool:
        """Return whether its author marks it as a reply, even if a sent reply is now empty."""
        return read_words(self.text, asker, has_content=True).intent is Intent.REPLY
