"""Handover: the record that a person answers a thread instead of the agent, from a turn on, until
they close it. `handovers/` has its card and its workflow.
"""

from dataclasses import dataclass, field

from threadline.conversations.model.conversation import ConversationTurn
from threadline.slack.model import Thread
from threadline.threads.model import ButtonPress, ButtonState

HANDOVER_WORKFLOW = "HandoverWorkflow"


@dataclass(frozen=True)
class Handover:
    """A handover of a turn to a person.

    - `id`: that of the conversation, of which at most one handover is open;
    - `ref`: the turn that was handed over;
    - `user_id`: the asker;
    - `channel` and `card_ts`: empty until the card is posted;
    - `closed_by`: empty while it is open;
    - `closed_at`: the time of the press, in seconds since 1970;
    - `reminded`: the number of reminders so far.
    """

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
        """Return whether it was closed at a moment, in seconds since 1970: messages from before
        the close count, even if they arrive later.
        """
        return not self.open and self.closed_at <= at


@dataclass
class HandoverInput(ButtonState):
    """The input of a handover's workflow, also passed to its next run.

    Args:
        reminded: the number of reminders so far.
        unshown: Slack refused the card or a note in the asker's thread, which must still be shown.
        unanswered: presses and messages about replies whose outcome must still be shown, in order.
    """

    ref: ConversationTurn
    reminded: int = 0
    unshown: bool = False
    unanswered: list[ButtonPress] = field(default_factory=list)


def handover_workflow_id(thread: Thread, turn: int) -> str:
    """Return the id of the workflow in which a turn waits for a person to take it over and close
    it.
    """
    return f"handover:{thread.key}:{turn}"
