"""HandoverActivities: what the workflow of a handover calls, and a conversation. Each is safe to repeat."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from threadline.conversations.model.conversation import ConversationTurn
from threadline.handovers.model import HANDOVER_WORKFLOW, HandoverInput, handover_workflow_id, parse_value
from threadline.threads.activity_options import POST, STORE, activity_options
from threadline.threads.model import BUTTON_PRESSED, ButtonPress
from threadline.threads.workflow_client import WorkflowStart

RELAY = replace(POST, start_to_close=600)
"""Also downloads and uploads files; each claims its key anew right before Slack shows it."""


@dataclass(frozen=True)
class HandoverState:
    """`open`: there is such a handover, and nobody has closed it. `taken_by`: a user's id; empty for nobody yet.
    `remind_every`: seconds. `reply`: what only the person who pressed is told. `reminded`: how often people were.
    `send_in`: seconds until the next reply is to be posted in the asker's thread; None while none is held."""

    open: bool
    taken_by: str = ""
    remind_every: float = 0.0
    reply: str = ""
    reminded: int = 0
    send_in: float | None = None


@dataclass(frozen=True)
class Reminder:
    """`number` counts from 1."""

    ref: ConversationTurn
    number: int


class HandoverActivities(ABC):
    """A handover in the database, and what is said of it in both threads. Run in the core worker."""

    @activity_options(replace(POST, never_gives_up=True))
    @abstractmethod
    async def open_handover(self, ref: ConversationTurn) -> HandoverState:
        """Post the card once: question, context, reason, sources, confidence. A posted one is brought up to date, and
        so are replies that are held and not shown yet."""

    @activity_options(STORE)
    @abstractmethod
    async def press_handover(self, press: ButtonPress) -> HandoverState:
        """Let a press take it, close it, reply or undo a reply; of two who take it the first one has it."""

    @activity_options(POST)
    @abstractmethod
    async def show_handover(self, ref: ConversationTurn) -> None:
        """Say in both threads who has taken it, or closed it, each once."""

    @activity_options(RELAY)
    @abstractmethod
    async def show_reply(self, press: ButtonPress) -> HandoverState:
        """Show under the card how a reply stands, and in the asker's thread a correction of one that was sent. The time
        in which a reply can be undone begins when it is shown."""

    @activity_options(RELAY)
    @abstractmethod
    async def send_replies(self, ref: ConversationTurn) -> HandoverState:
        """Post the replies whose time to undo them is over in the asker's thread with their files, each once and in
        their order."""

    @activity_options(POST)
    @abstractmethod
    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        """Say once more that nobody has taken it, unless somebody has."""

    @activity_options(RELAY)
    @abstractmethod
    async def relay_to_person(self, turn: ConversationTurn) -> bool:
        """Show what was said in a turn, with its files, to the person who has taken the thread over, or may. What was
        shown before reads as it does now, also under the card of what is closed. Returns whether something is shown to
        nobody, since the newest handover was closed before it could be."""

    @activity_options(replace(RELAY, waits_until_mended=True))
    @abstractmethod
    async def relay_until_mended(self, turn: ConversationTurn) -> bool:
        """Do the same in the background, and try it again until the admin has mended what Slack refuses."""


def handover_start(ref: ConversationTurn, press: ButtonPress | None = None) -> WorkflowStart:
    """The workflow of a turn that a person is to take over, with a press of one of its buttons, if there was one."""
    identity, given = handover_workflow_id(ref.thread, ref.turn), () if press is None else (press,)
    return WorkflowStart(HANDOVER_WORKFLOW, identity, HandoverInput(ref), BUTTON_PRESSED if given else "", given)


def handover_pressed(team: str, press: ButtonPress) -> WorkflowStart | None:
    """The workflow that a press is for; None where the button was made for no handover of this team."""
    ref = parse_value(press.value)
    return handover_start(ref, press) if ref and ref.thread.team == team else None
