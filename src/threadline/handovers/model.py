"""Handover: a person takes a thread over from the agent, by a button of a card, until they close it."""

import re
from dataclasses import dataclass, field

from threadline.conversations.model.conversation import ConversationTurn
from threadline.slack.model import Thread
from threadline.threads.model import ButtonPress, ButtonState, ThreadOwner

HANDOVER_WORKFLOW = "HandoverWorkflow"
HANDOVER = "handover"
"""The kind of the thread under a card; see `threads.model.ThreadOwner`."""
TAKE, CLOSE = "handover_take", "handover_close"
REPLY, UNDO = "handover_reply", "handover_undo"
"""The buttons' ids (`action_id` in Slack's words). *Reply* opens a modal of the same id (`callback_id`), and what a
person sends with it is a press of it with a text."""
WRITTEN = "handover_written"
"""No button: somebody has written, edited or deleted a message under the card that concerns the asker."""
WRITTEN_KEY = "answer:"
"""How the key of a press begins that a message under the card makes for its author; the message's id follows."""
HOLD = 10.0
"""Seconds for which a reply can be undone, from the moment on when it is shown under the card."""
SEND_AGAIN = 60.0
"""Seconds until replies are tried again that could not be posted for a reason that nobody foresaw."""
MAX_REMINDERS = 5
"""Until somebody has taken it."""
LOOK_EVERY = 86_400.0
"""Seconds between two looks at the record while no reminder is due: a conversation is deleted with its handovers, and
nobody tells their workflows."""
CARD = "card"
"""The card's own post among those of its handover; see `post_key`."""

_VALUE = re.compile(r"([A-Z0-9]{2,30}):([A-Z0-9]{2,30}):([0-9]{1,12}\.[0-9]{1,8}):([1-9][0-9]{0,8})(?: (\S{1,150}))?")


@dataclass(frozen=True)
class Handover:
    """`ref`: the turn that was given to a person; `user_id`: who asked. `channel` and `card_ts` are empty until the
    card is posted; `closed_by` while it is open. `closed_at`: when that was pressed, in seconds since 1970. `reminded`:
    how often people were. `id` is the conversation's, of which one handover at most is open."""

    id: int
    ref: ConversationTurn
    user_id: str
    channel: str = ""
    card_ts: str = ""
    taken_by: str = ""
    closed_by: str = ""
    closed_at: float = 0.0
    reminded: int = 0

    @property
    def card(self) -> Thread:
        """The thread under the card."""
        return Thread(self.ref.thread.team, self.channel, self.card_ts)

    @property
    def open(self) -> bool:
        return not self.closed_by

    def closed_before(self, at: float) -> bool:
        """Whether it was closed at a moment, in seconds since 1970: earlier words count, whenever they arrive."""
        return not self.open and self.closed_at <= at


@dataclass(frozen=True)
class UnshownFile:
    """A file that the other thread does not show. `link` is empty where Slack tells none. `reason` is a sentence."""

    name: str
    link: str
    reason: str


@dataclass
class HandoverInput(ButtonState):
    """What the workflow of a handover starts with, and what it carries into its next run.

    Args:
        reminded: how often people were reminded.
        unshown: the card or a note in the asker's thread is still to be shown; Slack refused it.
        unanswered: presses and messages about replies whose outcome is still to be shown, in their order.
    """

    ref: ConversationTurn
    reminded: int = 0
    unshown: bool = False
    unanswered: list[ButtonPress] = field(default_factory=list)


def post_key(ref: ConversationTurn, what: str) -> str:
    """The key of a post of a handover, in either thread."""
    return f"handover:{ref.key}:{what}"


def parse_value(value: str) -> ConversationTurn | None:
    """The handover whose button carries this value; None for another button."""
    found = _VALUE.fullmatch(value)
    return ConversationTurn(Thread(found[1], found[2], found[3]), int(found[4])) if found else None


def reply_value(ref: ConversationTurn, message_id: str) -> str:
    """The value of a button, or of a press without one, that is about one message under the card."""
    return f"{ref.key} {message_id}"


def message_of(value: str) -> str:
    """The message under the card that a button's value names; empty for none."""
    found = _VALUE.fullmatch(value)
    return (found[5] or "") if found else ""


def ref_of(owner: ThreadOwner) -> ConversationTurn:
    """The handover that owns a thread, read from its workflow's id: `handover:<team>:<channel>:<ts>:<turn>`."""
    return ConversationTurn(owner.thread, int(owner.workflow_id.rpartition(":")[2]))


def handover_workflow_id(thread: Thread, turn: int) -> str:
    """The workflow in which a turn waits for a person to take it over, and to close it."""
    return f"handover:{thread.key}:{turn}"
