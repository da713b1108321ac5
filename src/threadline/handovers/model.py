"""The card of a handover, its buttons and its posts: their ids, keys and limits. The handover
itself is in conversations/model/handover.py.
"""

import re
from dataclasses import dataclass

from threadline.conversations.model.conversation import ConversationTurn
from threadline.slack.model import Thread
from threadline.threads.model import ThreadOwner

HANDOVER = "handover"
"""The kind of the thread under a card; see `threads.model.ThreadOwner`."""
TAKE = "handover_take"
CLOSE = "handover_close"
REPLY = "handover_reply"
UNDO = "handover_undo"
"""The buttons' ids (Slack's `action_id`). *Reply* opens a modal of the same id (`callback_id`),
whose submission is a press of the button with a text.
"""
WRITTEN = "handover_written"
"""Not a button: a person has written, edited or deleted a message under the card that concerns the
asker.
"""
WRITTEN_KEY = "answer:"
"""The prefix of the key of a press that is made for a message under the card; the message's id
follows.
"""
HOLD = 10.0
"""Seconds for which a reply can be undone, counted from its display under the card."""
SEND_AGAIN = 60.0
"""Seconds until a retry of replies that could not be posted for an unforeseen reason."""
MAX_REMINDERS = 5
"""The maximum of reminders until the handover is taken."""
LOOK_EVERY = 86_400.0
"""Seconds between checks of the record while no reminder is due: a conversation is deleted with
its handovers, without a signal to their workflows.
"""
CARD = "card"
"""The `what` of the card's own post; see `post_key`."""

_VALUE = re.compile(
    r"([A-Z0-9]{2,30}):([A-Z0-9]{2,30}):([0-9]{1,12}\.[0-9]{1,8}):([1-9][0-9]{0,8})(?: "
    r"(\S{1,150}))?"
)


@dataclass(frozen=True)
class UnshownFile:
    """A file that the other thread does not show. `link` is empty where Slack provides none.
    `reason` is a sentence.
    """

    name: str
    link: str
    reason: str


def post_key(ref: ConversationTurn, what: str) -> str:
    """Return the key of a post of a handover, in either thread."""
    return f"handover:{ref.key}:{what}"


def parse_value(value: str) -> ConversationTurn | None:
    """Return the handover whose button has this value; None for another button."""
    found = _VALUE.fullmatch(value)
    return ConversationTurn(Thread(found[1], found[2], found[3]), int(found[4])) if found else None


def reply_value(ref: ConversationTurn, message_id: str) -> str:
    """Return the value of a button, or of a press without one, that is about one message under the
    card.
    """
    return f"{ref.key} {message_id}"


def message_of(value: str) -> str:
    """Return the message under the card that a button's value names; empty for none."""
    found = _VALUE.fullmatch(value)
    return (found[5] or "") if found else ""


def ref_of(owner: ThreadOwner) -> ConversationTurn:
    """Return the handover that owns a thread, read from its workflow's id:
    `handover:<team>:<channel>:<ts>:<turn>`.
    """
    return ConversationTurn(owner.thread, int(owner.workflow_id.rpartition(":")[2]))
