"""A hand-over: a person is to take a thread over from the agent, by a button, until they close it."""

import re
from dataclasses import dataclass, field

from threadline.slack.model import Thread
from threadline.threads.model import ThreadOwner, is_new

TAKE, CLOSE = "handover_take", "handover_close"
"""The buttons' ids (`action_id` in Slack's words)."""
REMEMBERED = 500
"""Clicks whose keys are kept, to drop what is delivered again; the record is changed once in any case."""
MOST_REMINDERS = 5
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


@dataclass(frozen=True)
class HandoverClick:
    """Somebody pressed one of the two buttons.

    `key` is the same when the click is delivered again. `at`: when, in seconds since 1970; 0 where that was not to be
    read. `channel` and `thread_ts` say where whoever clicked is answered.
    """

    user_id: str
    close: bool
    key: str
    at: float = 0.0
    channel: str = ""
    thread_ts: str = ""


@dataclass
class Handing:
    """What the workflow of a hand-over starts with, and carries into its next run.

    `clicks` are those that nobody has looked at, `seen` the keys of the last ones, `reminded` how often somebody was.
    """

    ref: HandoverRef
    clicks: list[HandoverClick] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)
    reminded: int = 0

    def take(self, click: HandoverClick) -> None:
        """Keep a click unless it was delivered before."""
        if is_new(self.seen, click.key, REMEMBERED):
            self.clicks.append(click)


CARD = "card"
HANDOVER = "handover"
"""The kind of the thread under a card; see `threads.model.ThreadOwner`."""
"""What the card's own post is called among those of its hand-over."""


def post_key(ref: HandoverRef, what: str) -> str:
    """Of what is posted for a hand-over, in either thread."""
    return f"handover:{ref.key}:{what}"


def card_of(key: str) -> HandoverRef | None:
    """The hand-over whose card has this key; None for what is none."""
    return button_read(key.removeprefix("handover:").removesuffix(f":{CARD}"))


def ref_of(owner: ThreadOwner) -> HandoverRef:
    """The hand-over that owns a thread, read from its workflow's id: `handover:<team>:<channel>:<ts>:<turn>`."""
    return HandoverRef(owner.thread, int(owner.workflow_id.rpartition(":")[2]))


def button_value(ref: HandoverRef) -> str:
    """What a button carries."""
    return ref.key


def button_read(value: str) -> HandoverRef | None:
    """None for what is no button of a hand-over."""
    found = _VALUE.fullmatch(value)
    return HandoverRef(Thread(found[1], found[2], found[3]), int(found[4])) if found else None
