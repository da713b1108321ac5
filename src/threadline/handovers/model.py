"""A hand-over: a person is to take a thread over from the agent, by a button, until they close it."""

import re
from dataclasses import dataclass

from threadline.slack.model import Thread
from threadline.threads.model import ButtonState, ThreadOwner

HANDOVER_WORKFLOW = "HandoverWorkflow"

TAKE, CLOSE = "handover_take", "handover_close"
"""The buttons' ids (`action_id` in Slack's words)."""
MAX_REMINDERS = 5
"""Until somebody has taken it; after these it waits in silence."""

_VALUE = re.compile(r"([A-Z0-9]{2,30}):([A-Z0-9]{2,30}):([0-9]{1,12}\.[0-9]{1,8}):([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class HandoverRef:
    """The turn of a conversation that was given to a person."""

    thread: Thread
    turn: int

    @property
    def key(self) -> str:
        return f"{self.thread.key}:{self.turn}"


@dataclass
class HandoverInput(ButtonState):
    """What the workflow of a hand-over starts with. `reminded`: how often people were, carried into its next run."""

    ref: HandoverRef
    reminded: int = 0


CARD = "card"
"""What the card's own post is called among those of its hand-over."""
HANDOVER = "handover"
"""The kind of the thread under a card; see `threads.model.ThreadOwner`."""


def post_key(ref: HandoverRef, what: str) -> str:
    """Of what is posted for a hand-over, in either thread."""
    return f"handover:{ref.key}:{what}"


def parse_card_key(key: str) -> HandoverRef | None:
    """The hand-over whose card has this key; None for what is none."""
    return parse_button(key.removeprefix("handover:").removesuffix(f":{CARD}"))


def ref_of(owner: ThreadOwner) -> HandoverRef:
    """The hand-over that owns a thread, read from its workflow's id: `handover:<team>:<channel>:<ts>:<turn>`."""
    return HandoverRef(owner.thread, int(owner.workflow_id.rpartition(":")[2]))


def button_value(ref: HandoverRef) -> str:
    """What a button carries."""
    return ref.key


def parse_button(value: str) -> HandoverRef | None:
    """None for what is no button of a hand-over."""
    found = _VALUE.fullmatch(value)
    return HandoverRef(Thread(found[1], found[2], found[3]), int(found[4])) if found else None


def handover_workflow_id(thread: Thread, turn: int) -> str:
    """The workflow in which a turn waits for a person to take it over, and to close it."""
    return f"handover:{thread.key}:{turn}"
