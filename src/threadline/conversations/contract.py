"""What a conversation's workflow may ask for: signatures without bodies, and values without text of any length.

The transcript and the output of tools lie in the database. What travels is bounded, so that a turn adds little to the
history however much its tools have said. Every method is safe to repeat: what was done under a key (turn, step, call)
is found again by it, and not done twice.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from temporalio import activity

from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    ConversationLimits,
    ConversationSnapshot,
    Execution,
    OutcomeKind,
    Refusal,
    Talk,
    WordKind,
    conversation_workflow_id,
)
from threadline.decisions.model import EscalationReason, NextStep
from threadline.models.model import ModelReply, ToolCall, ToolChoice
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent
from threadline.slack.model import Thread
from threadline.threads.activity_options import COSMETIC, POST, STORE, ActivityOptions, activity_options, retry_policy
from threadline.threads.model import INCOMING_MESSAGE, IncomingMessage
from threadline.threads.workflow_client import WorkflowStart

THINK = ActivityOptions(
    start_to_close=180, retry=retry_policy(2, 60, attempts=4), heartbeat=20, long_wait_in_workflow=True
)
"""Longer than the model's own limit (120 s); an error's `retry_after` counts. After these the workflow waits."""
SUMMARISE = replace(THINK, retry=retry_policy(2, 60, attempts=2), schedule_to_close=240)
"""A turn waits for it, and can do without."""
DECIDE = ActivityOptions(
    start_to_close=1020,
    retry=retry_policy(2, 20, attempts=3),
    schedule_to_close=1320,
    heartbeat=20,
    long_wait_in_workflow=True,
)
"""Longer than two rounds may take, each with six answers of the model (75 s) and a search. A model that is away is not
waited for: the turn goes on without a decision."""
ACT = ActivityOptions(start_to_close=90, retry=retry_policy(1, 20, attempts=3), heartbeat=20)
"""Longer than any tool's own limit."""

FINISH = replace(STORE, start_to_close=180, heartbeat=20)
"""It posts, after it has stored."""


@dataclass(frozen=True)
class StoreRequest:
    """At most 100 messages, 256 KiB; none where a run begins without any. `first`: of its run."""

    thread: Thread
    messages: list[IncomingMessage]
    first: bool = False


@dataclass(frozen=True)
class Refused:
    channel: str
    ts: str
    user_id: str
    why: Refusal


@dataclass(frozen=True)
class Stored:
    """`refused` are those of the request that the guards keep from the model: each gets a reaction.

    `overheard`: ids of those that people have said to each other. They are read, and nobody is to notice. `passed_on`:
    ids of words to stop that go to the person who has the thread, as any other message does. `reworded`: turns of which
    such a person is to see something as it reads now.
    """

    marks: ConversationSnapshot
    refused: tuple[Refused, ...] = ()
    overheard: tuple[str, ...] = ()
    passed_on: tuple[str, ...] = ()
    reworded: tuple[int, ...] = ()
    limits: ConversationLimits | None = None
    """Those in force; told to the first request of a run."""


@dataclass(frozen=True)
class TalkTurn:
    """One turn of a thread's conversation; `turn` counts from 1."""

    thread: Thread
    turn: int


@dataclass(frozen=True)
class DecideRequest:
    """A turn that has begun. `status`: what Slack shows under the thread meanwhile; empty for nothing."""

    thread: Thread
    turn: int
    status: str = ""


@dataclass(frozen=True)
class TurnDecision:
    """What a turn's decision came to.

    `made`: the engine has a say in this turn; without a model, or without words, it has none.
    `about`: the decision in a few words without anybody's, for Temporal's UI.
    """

    course: NextStep = NextStep.PROCEED
    made: bool = True
    about: str = ""


@dataclass(frozen=True)
class ThinkRequest:
    """One call of the model. `step` counts the calls of the turn from 1; each takes up what is unused by then."""

    thread: Thread
    turn: int
    step: int
    choice: ToolChoice
    agent: Agent = Agent.COPILOT
    status: str = ""
    """As in `DecideRequest`."""


@dataclass(frozen=True)
class Thought:
    """What a call of the model came to. `reply` holds the beginning of its text and calls without their arguments.

    `step` is the one under which it is recorded: a later one where an earlier run waited for the model; 0: as asked.
    """

    reply: ModelReply
    marks: ConversationSnapshot
    step: int = 0


@dataclass(frozen=True)
class ActRequest:
    """One call of a tool. Its arguments are in the reply of this step. `protocol`: the operator's state before it."""

    thread: Thread
    turn: int
    step: int
    call: ToolCall
    protocol: ProtocolState | None = None
    status: str = ""


@dataclass(frozen=True)
class FinishRequest:
    """The end of a turn. `text` counts only where it is no model's (`answered_at` is 0)."""

    thread: Thread
    turn: int
    kind: OutcomeKind
    text: str = ""
    answered_at: int = 0
    """The step whose reply is the answer, or holds it, whole in the transcript."""
    model_calls: int = 0
    spoken_by: str = ""
    """The id of the call in that reply which has the answer's words: the operator spoke by a tool."""
    protocol: ProtocolState | None = None
    """The operator's, behind its last call."""
    failures: str = ""
    """What of an operator's turn has failed, in words, for an answer to a request of which nothing was changed."""
    touched: bool = False
    """Its tools have changed something, or may have."""
    escalate: EscalationReason | None = None
    """Why a person takes over a turn that was to be answered."""
    post: bool = True
    """Post the answer; else the workflow does, once what comes before it is posted."""
    status_shown: bool = False
    """A status may stand under the thread, which nothing takes away where nothing is posted."""


@dataclass(frozen=True)
class FinishedTurn:
    """What became of a turn.

    `summary`: what it came to, in words without anybody's, for Temporal's UI. `posted`: its answer is in Slack.
    """

    marks: ConversationSnapshot
    summary: str = ""
    posted: bool = False
    post_error: str = ""
    """Why Slack refuses the answer for good."""
    handover: bool = False
    """The turn waits for a person: the answer is to be posted once that has begun."""
    left_to_person: bool = False
    """The answer is not said, since a person has the thread."""


@dataclass(frozen=True)
class Word:
    """A short text in the thread; `about` (a turn's number, a message's ts) makes its key unique."""

    thread: Thread
    kind: WordKind
    about: str
    until: float = 0.0
    """Seconds since 1970, where the text names a time."""


@dataclass(frozen=True)
class Marker:
    """A reaction on messages of the thread: `items` are (channel, ts) pairs."""

    name: str
    items: tuple[tuple[str, str], ...]


class ConversationActivities(ABC):
    """The conversation in the database, its model and its tools. Run in the core worker."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def store_messages(self, request: StoreRequest) -> Stored:
        """Store a batch, and let the guards judge each message, whose verdict stays for ever.

        The first request of a run also judges what was stored before and is not judged yet.
        """

    @activity_options(SUMMARISE)
    @activity.defn
    @abstractmethod
    async def summarise(self, turn: TalkTurn) -> ConversationSnapshot:
        """Before the first thought of a turn: have what is old in a crowded transcript summarised by the model.

        Where this fails, the oldest messages are left out of what the model reads.
        """

    @activity_options(DECIDE)
    @activity.defn
    @abstractmethod
    async def decide(self, request: DecideRequest) -> TurnDecision:
        """Have the model decide what to do with what the turn has taken up, look up what it wants to know, and judge
        the evidence. What is on record of it is not done again.

        Raises:
            Permanent | Transient: the model has nothing to say, or cannot be asked now.
        """

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        """The model could not be asked: a sensitive word alone escalates, and anything else is left to the agent."""

    @activity_options(THINK)
    @activity.defn
    @abstractmethod
    async def think(self, request: ThinkRequest) -> Thought:
        """Ask the model once about the transcript with what is unused by now; a recorded reply is not asked for again.

        Raises:
            Permanent: there is no reply to be had; the message is a sentence for the person.
            Transient: there may be one later.
        """

    @activity_options(ACT)
    @activity.defn
    @abstractmethod
    async def act(self, request: ActRequest) -> Execution:
        """Run one call, or return what it came to before."""

    @activity_options(FINISH)
    @activity.defn
    @abstractmethod
    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        """Write down how a turn ended, with which everything it has used is answered; post the answer, and remember
        what the turn has shown. The answer of a turn that waits for a person is left to `post_answer`."""


class SpeakingActivities(ABC):
    """What a conversation says in Slack. Run in the core worker."""

    @activity_options(replace(POST, start_to_close=120))
    @activity.defn
    @abstractmethod
    async def post_answer(self, turn: TalkTurn) -> ConversationSnapshot:
        """Post a settled turn's answer, once, with what its tools have to show: one that `finish_turn` did not post."""

    @activity_options(replace(POST, schedule_to_close=600))
    @activity.defn
    @abstractmethod
    async def post_word(self, word: Word) -> None:
        """Post a short text, once."""

    @activity_options(COSMETIC)
    @activity.defn
    @abstractmethod
    async def mark_messages(self, marker: Marker) -> None:
        """Cosmetic: may come late or never."""


def conversation_start(thread: Thread, message: IncomingMessage | None = None) -> WorkflowStart:
    """The workflow of the conversation in `thread`, with something that was said in it or done to a message of it;
    without it, the conversation carries on from the database."""
    identity, state = conversation_workflow_id(thread), Talk(thread=thread)
    if message is None:
        return WorkflowStart(CONVERSATION_WORKFLOW, identity, state, channel=thread.channel)
    given = (INCOMING_MESSAGE, (message,))
    return WorkflowStart(CONVERSATION_WORKFLOW, identity, state, *given, thread.channel)
