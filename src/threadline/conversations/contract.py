"""The activities of a conversation: signatures without bodies, and values of bounded size.

The transcript and the output of tools stay in the database, so that a turn adds little to the
workflow's history, however long that output is. Every method is idempotent: a repeated call finds
the recorded result by its key (turn, step, call).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    ConversationInput,
    ConversationLimits,
    ConversationSnapshot,
    ConversationTurn,
    Execution,
    NoticeReason,
    OutcomeKind,
    Refusal,
    conversation_workflow_id,
)
from threadline.conversations.model.turn_route import Agent
from threadline.decisions.model import EscalationReason, NextStep
from threadline.models.model import ModelReply, ToolCall, ToolChoice
from threadline.operator.model.protocol import ProtocolState
from threadline.slack.model import Thread
from threadline.threads.activity_options import (
    POST,
    STORE,
    ActivityOptions,
    activity_options,
    retry_policy,
)
from threadline.threads.model import INCOMING_MESSAGE, IncomingMessage
from threadline.threads.workflow_client import WorkflowStart

THINK = replace(
    POST, start_to_close=740, retry=retry_policy(2, 60, attempts=4), long_wait_in_workflow=True
)
"""Longer than two calls of the model (150 s each) after a summary and the operator's context (260
s); an error's `retry_after` counts. After these attempts the workflow waits.
"""
DECIDE = ActivityOptions(
    start_to_close=1020,
    retry=retry_policy(2, 20, attempts=3),
    schedule_to_close=1320,
    heartbeat=20,
    long_wait_in_workflow=True,
)
"""Longer than two rounds may take, each with six answers of the model (75 s) and a search. The
turn does not wait for a model that is unavailable: after these attempts it goes on without a
decision.
"""
LONGEST_THINKING = 4 * 740.0 + 14
"""Seconds that all attempts at one `think` may take, with the waits between them."""
LONGEST_DECIDING = 1320.0 + LONGEST_THINKING
"""The same for a turn that is decided first."""
THINKING = "thinking"
"""Slack's status during a model call."""
ACT = ActivityOptions(start_to_close=90, retry=retry_policy(1, 20, attempts=3), heartbeat=20)
"""Longer than any tool's own limit, and than `ACT_CALL`."""
SPEAK = replace(STORE, start_to_close=ACT.start_to_close, heartbeat=ACT.heartbeat)
"""Options of a call that speaks the turn's last words: it is only checked and stored, so it is
retried for as long as a step that stores.
"""
ACT_CALL = 75.0
"""Seconds for one of several calls of an `ActRequest`: a hanging call ends, and the others keep
their results.
"""
RELAY = replace(POST, start_to_close=600)
"""Also downloads and uploads files; claims each file's key again right before Slack shows it."""
FETCH_ATTEMPTS = 3
FETCH_FILES = ActivityOptions(
    start_to_close=100, heartbeat=20, retry=retry_policy(1, 5, attempts=FETCH_ATTEMPTS)
)
"""Longer than `files.LONGEST_FETCH`. After these attempts a turn goes on without the files."""


@dataclass(frozen=True)
class StoreRequest:
    """A batch of at most 100 messages and 256 KiB; empty if a run begins without messages.
    `first`: the first request of a run.
    """

    thread: Thread
    messages: list[IncomingMessage]
    first: bool = False


@dataclass(frozen=True)
class RefusedMessage:
    channel: str
    ts: str
    why: Refusal


@dataclass(frozen=True)
class StoredMessages:
    """Result of a `StoreRequest`.

    - `refused`: messages that the guards keep from the model;
    - `turns_to_show_again`: turns with edits or deletions that the person who has the thread has
      not seen yet.
    """

    snapshot: ConversationSnapshot
    refused: tuple[RefusedMessage, ...] = ()
    turns_to_show_again: tuple[int, ...] = ()
    limits: ConversationLimits | None = None
    """The limits in force; only in the result of a run's first request."""


@dataclass(frozen=True)
class DecideRequest(ConversationTurn):
    """A turn that has begun. `status`: the status under the thread during the decision; empty for
    none.
    """

    status: str = ""


@dataclass(frozen=True)
class TurnDecision:
    """A decision about a turn. `made`: whether the engine decides about this turn, which takes a
    model and text. `about`: a description for the UI, without user text.
    """

    course: NextStep = NextStep.PROCEED
    made: bool = True
    about: str = ""


@dataclass(frozen=True)
class FinishRequest(ConversationTurn):
    """The end of a turn. `text` counts only for an answer that no model wrote (`answer_step` is
    0).
    """

    kind: OutcomeKind
    text: str = ""
    answer_step: int = 0
    """The step whose reply is or holds the answer, whole in the transcript."""
    model_calls: int = 0
    speech: str = ""
    """Id of the call in that reply that holds the answer's words: the operator speaks by a tool.
    """
    protocol: ProtocolState | None = None
    """The operator's state after its last call."""
    failures: str = ""
    """Text about the failed changes of an operator's turn, for an answer to a request that changed
    nothing.
    """
    changed_something: bool = False
    """Its tools have changed something, or may have."""
    escalate: EscalationReason | None = None
    """Why a person takes over a turn that the bot would have answered."""
    status_shown: bool = False
    """A status may be shown under the thread; the post of the answer removes it."""
    listed_calls: tuple[str, ...] = ()
    """Ids of the calls that the text lists; `finish_turn` adds the other recorded ones."""


@dataclass(frozen=True)
class FinishedTurn:
    """`summary`: the figures of a turn for Temporal's UI, without user text."""

    snapshot: ConversationSnapshot
    summary: str = ""
    handover: bool = False
    """The turn waits for a person."""
    left_to_person: bool = False
    """The answer is not posted, since a person has the thread."""
    approvals: tuple[str, ...] = ()
    """Ids of the turn's proposed actions that are not decided yet."""


@dataclass(frozen=True)
class ThinkRequest(ConversationTurn):
    """One call of the model. `step` counts the calls of the turn from 1; each takes up the unused
    messages. `since`: the first step without a reply in the workflow, lower than `step` after a
    failed call; 0 for this step.
    """

    step: int
    choice: ToolChoice
    agent: Agent = Agent.ASSISTANT
    status: str = ""
    """As in `DecideRequest`."""
    since: int = 0


@dataclass(frozen=True)
class Thought:
    """A reply of the model.

    - `reply`: the beginning of its text, and its calls without their arguments;
    - `step`: the step that has it on record: an earlier one if that call's result was lost, a
      later one if an earlier run waited for the model; 0 if it is not on record.
    """

    reply: ModelReply
    snapshot: ConversationSnapshot
    step: int = 0


@dataclass(frozen=True)
class ActRequest(ConversationTurn):
    """At most ten tool calls. Several calls run concurrently, and then all of them only read.
    Their arguments are in the reply of this step. `protocol`: the operator's state before them.
    """

    step: int
    calls: tuple[ToolCall, ...]
    protocol: ProtocolState | None = None
    status: str = ""


@dataclass(frozen=True)
class ThreadNotice:
    """A short text in the thread; `about` (a turn's number, a message's ts) makes its key
    unique.
    """

    thread: Thread
    kind: NoticeReason
    about: str
    until: float = 0.0
    """Seconds since 1970, if the text names a time."""


@dataclass(frozen=True)
class BegunTurn:
    """The route of a turn.

    - `ends`: the turn ends with the stored answer, without a model call;
    - `falls_through`: the operator takes over if the assistant fails;
    - `about`: the route in a few words.
    """

    snapshot: ConversationSnapshot
    agent: Agent = Agent.ASSISTANT
    protocol: ProtocolState | None = None
    ends: OutcomeKind | None = None
    falls_through: bool = False
    about: str = ""
    correlation_id: str = ""
    max_steps: int = 0
    """Model calls that may use tools; 0 for the limit of every conversation."""
    prior_steps: int = 0
    """Steps that another agent took before this one."""
    relays_to_person: bool = False
    """A person has taken the thread over, or may, and is shown the messages."""
    not_addressed: bool = False
    """No message that it began with was addressed to the bot; later messages to the bot get a
    separate turn.
    """


@dataclass(frozen=True)
class PassToOperator(ConversationTurn):
    """A turn that the operator continues after `step`."""

    step: int


class ConversationActivities(ABC):
    """The activities of a conversation: its records, its model, its tools and its posts in Slack.
    They run in the core worker.
    """

    @activity_options(STORE)
    @abstractmethod
    async def store_messages(self, request: StoreRequest) -> StoredMessages:
        """Store a batch, and have the guards judge each message; a verdict is final. The first
        request of a run also judges stored messages that have no verdict yet.
        """

    @activity_options(STORE)
    @abstractmethod
    async def begin_turn(self, turn: ConversationTurn) -> BegunTurn:
        """Take up the unused messages, and choose the turn's route by their words. First write
        wins.
        """

    @activity_options(FETCH_FILES)
    @abstractmethod
    async def fetch_files(self, turn: ConversationTurn) -> ConversationSnapshot:
        """Fetch the texts of files that are attached to unanswered messages, each once. A file
        that cannot be fetched is recorded with the reason.

        Raises:
            Transient: Slack may provide a file later.
        """

    @activity_options(STORE)
    @abstractmethod
    async def pass_to_operator(self, request: PassToOperator) -> BegunTurn:
        """Continue the turn with the operator, without an RFP, after the assistant has failed."""

    @activity_options(DECIDE)
    @abstractmethod
    async def decide(self, request: DecideRequest) -> TurnDecision:
        """Have the model decide about the turn's messages, search for what it needs, and judge the
        evidence. Recorded steps are not repeated.

        Raises:
            Permanent, Transient: The model's errors.
        """

    @activity_options(STORE)
    @abstractmethod
    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        """Complete the decision by rule after the model could not be asked. Without a recorded
        round, only a sensitive word escalates, and anything else is left to the agent.
        """

    @activity_options(THINK)
    @abstractmethod
    async def think(self, request: ThinkRequest) -> Thought:
        """Ask the model once about the transcript with the unused messages. A recorded reply is
        returned without a call.

        Before a turn's first call, the model summarises the old part of a transcript that is too
        long, the operator's context is gathered, and the request is analysed. The call is made
        even if one of these fails.

        Raises:
            Permanent: There is no reply to be had; the message is a sentence for the asker.
            Transient: A reply may be possible later.
        """

    @activity_options(ACT)
    @abstractmethod
    async def act(self, request: ActRequest) -> list[Execution]:
        """Run the calls, in their order. A call that was made before returns its recorded result.
        Of several calls each fails alone; a single call raises its error. Once the turn has ended
        or a stop was requested, nothing runs, and the result is empty.
        """

    @activity_options(replace(STORE, heartbeat=POST.heartbeat))
    @abstractmethod
    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        """Store the end of a turn, and its memories. The end answers every message that the turn
        used. First write wins.
        """

    @activity_options(replace(POST, start_to_close=120))
    @abstractmethod
    async def post_answer(self, turn: ConversationTurn) -> ConversationSnapshot:
        """Post the answer of a settled turn once, with the records that its tools show."""

    @activity_options(replace(POST, schedule_to_close=600))
    @abstractmethod
    async def post_thread_notice(self, word: ThreadNotice) -> None:
        """Post a short notice once."""


class RelayActivities(ABC):
    """Show the messages of a turn to the person who has the thread. `handovers/activities.py`
    implements them; they run in the core worker.
    """

    @activity_options(RELAY)
    @abstractmethod
    async def relay_to_person(self, turn: ConversationTurn) -> bool:
        """Show the messages of a turn, with their files, to the person who has taken the thread
        over, or to those who may. Update earlier messages to their current text, also under the
        card of a closed handover.

        Returns:
            Whether a message reached no person, since the newest handover was closed before.
        """

    @activity_options(replace(RELAY, waits_until_mended=True))
    @abstractmethod
    async def relay_until_mended(self, turn: ConversationTurn) -> bool:
        """Relay as `relay_to_person` does, in the background, with retries until the admin has
        mended the cause of Slack's refusal.
        """


def conversation_start(thread: Thread, message: IncomingMessage | None = None) -> WorkflowStart:
    """Return the start of the thread's conversation workflow.

    Args:
        message: A new message, or a change of one; None to continue from the database.
    """
    identity = conversation_workflow_id(thread)
    state = ConversationInput(thread=thread)
    signal, given = ("", ()) if message is None else (INCOMING_MESSAGE, (message,))
    return WorkflowStart(CONVERSATION_WORKFLOW, identity, state, signal, given, thread.channel)
