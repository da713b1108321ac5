"""HandoverActivities: the activities of a handover's workflow. Each is safe to repeat."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from threadline.conversations.contract import RELAY
from threadline.conversations.model.conversation import ConversationTurn
from threadline.conversations.model.handover import (
    HANDOVER_WORKFLOW,
    HandoverInput,
    handover_workflow_id,
)
from threadline.handovers.model import parse_value
from threadline.threads.activity_options import POST, STORE, activity_options
from threadline.threads.model import BUTTON_PRESSED, ButtonPress
from threadline.threads.workflow_client import WorkflowStart


@dataclass(frozen=True)
class HandoverState:
    """The state of a handover.

    - `open`: such a handover exists and is not closed;
    - `taken_by`: a user's id; empty before it is taken;
    - `remind_every`: seconds;
    - `reply`: private text for the person who pressed;
    - `reminded`: the number of reminders so far;
    - `send_in`: seconds until the next reply is due in the asker's thread; None while none is
      held;
    - `asked_with_files`: people attached files to the messages that were handed over; set only by
      `open_handover`.
    """

    open: bool
    taken_by: str = ""
    remind_every: float = 0.0
    reply: str = ""
    reminded: int = 0
    send_in: float | None = None
    asked_with_files: bool = False


@dataclass(frozen=True)
class Reminder:
    """`number` counts from 1."""

    ref: ConversationTurn
    number: int


class HandoverActivities(ABC):
    """A handover in the database, and its posts in both threads. Run in the core worker."""

    @activity_options(replace(POST, never_gives_up=True))
    @abstractmethod
    async def open_handover(self, ref: ConversationTurn) -> HandoverState:
        """Post the card once: question, context, reason, sources, confidence. Update a posted
        card, and the held replies that are not shown yet.
        """

    @activity_options(replace(RELAY, waits_until_mended=True))
    @abstractmethod
    async def show_question_files(self, ref: ConversationTurn) -> None:
        """Show the files of the handed-over messages under the card, each once, and remove deleted
        ones. Name the files that cannot be shown there, and notify their author of the reason.
        """

    @activity_options(STORE)
    @abstractmethod
    async def press_handover(self, press: ButtonPress) -> HandoverState:
        """Apply a press: take, close, reply or undo a reply. If two people take it, the first one
        has it.
        """

    @activity_options(POST)
    @abstractmethod
    async def show_handover(self, ref: ConversationTurn) -> None:
        """Post in both threads that a person has taken or closed it, each once."""

    @activity_options(RELAY)
    @abstractmethod
    async def show_reply(self, press: ButtonPress) -> HandoverState:
        """Show a reply's state under the card, and in the asker's thread a correction of a sent
        reply. The time in which a reply can be undone begins when it is shown.
        """

    @activity_options(RELAY)
    @abstractmethod
    async def send_replies(self, ref: ConversationTurn) -> HandoverState:
        """Post the replies whose undo time is over in the asker's thread with their files, each
        once and in order.
        """

    @activity_options(POST)
    @abstractmethod
    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        """Post a reminder that the handover is not taken, unless it was taken meanwhile."""


def handover_start(ref: ConversationTurn, press: ButtonPress | None = None) -> WorkflowStart:
    """Return the workflow of a turn that a person should take over, with a press of one of its
    buttons, if there was one.
    """
    identity = handover_workflow_id(ref.thread, ref.turn)
    given = () if press is None else (press,)
    return WorkflowStart(
        HANDOVER_WORKFLOW, identity, HandoverInput(ref), BUTTON_PRESSED if given else "", given
    )


def handover_pressed(team: str, press: ButtonPress) -> WorkflowStart | None:
    """Return the workflow of a press; None if the button was made for no handover of this team."""
    ref = parse_value(press.value)
    return handover_start(ref, press) if ref and ref.thread.team == team else None
