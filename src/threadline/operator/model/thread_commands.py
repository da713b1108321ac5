"""What can be said about a thread itself and is done without a model: `link rfp_…`, `bind rfp_…`, `where`.

Each counts only when it is the whole message: "link rfp_7 to the board meeting" is a request like any other.
"""

import re
from dataclasses import dataclass

from threadline.rfps.model import find_rfp_ids, parse_rfp_id
from threadline.slack.text import mentions_in, plain_words, remove_mention

_LINK = re.compile(r"(?:link|bind) _*(rfp_\S{0,200})[ .,!?]*")
_LINK_BY_ADDRESS = re.compile(r"\W*(?:link|bind)\s+<https?:[^<>\s]*>\W*", re.IGNORECASE)
_WHERE = re.compile(r"where[?!. ]*")
_EDGES = "_ .,;:!?…"


@dataclass(frozen=True)
class Link:
    """Bind the thread to an RFP. `rfp_id` is empty when what was named cannot be one, such as `rfp_...`."""

    rfp_id: str


@dataclass(frozen=True)
class Where:
    """Say what the thread is bound to."""


ThreadCommand = Link | Where


def thread_command(text: str, bot: str = "") -> ThreadCommand | None:
    """What a message says about its thread; None when it says anything else.

    Args:
        text: of a `questions.Question`.
        bot: the bot's own user id; a mention of it does not count as something else. With a mention of anybody else,
            or of a group, the message is for them.
    """
    said = remove_mention(text, bot) if bot else text
    if mentions_in(said) or "<!" in said:
        return None
    words = plain_words(said).lstrip("_ ")
    if _WHERE.fullmatch(words.rstrip("_ ")):
        return Where()
    if found := _LINK.fullmatch(words):
        return Link(parse_rfp_id(found[1].rstrip(_EDGES)))
    named = find_rfp_ids(said) if _LINK_BY_ADDRESS.fullmatch(said) else ()
    return Link(named[0]) if len(named) == 1 else None
