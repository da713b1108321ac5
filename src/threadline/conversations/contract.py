"""What a conversation's workflow may ask for: signatures without bodies, and values without text of any length.

The transcript and the output of tools lie in the database. What travels is bounded, so that a turn adds little to the
history however much its tools have said. Every method is safe to repeat: what was done under a key (turn, step, call)
is found again by it, and not done twice.
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
from threadline.decisions.model import EscalationReason, NextStep
from threadline.models.model import ModelReply, ToolCall, ToolChoice
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent
from threadline.slack.model import Thread
from threadline.threads.activity_options import POST, STORE, ActivityOptions, activity_options, retry_policy
from threadline.threads.model import INCOMING_MESSAGE, IncomingMessage
from threadline.threads.workflow_client import WorkflowStart

_THINKS = replace(POST, long_wait_in_workflow=True, ends_itself=True)
THINK = replace(_THINKS, start_to_close=740, retry=retry_policy(2, 60, attempts=4))
"""Longer than two calls of the model (150 s each) behind a summary and the operator's context (260 s), before an answer
is posted or tools are run; an error's `retry_after` counts. After these the workflow waits."""
DECIDE = ActivityOptions(
    start_to_close=1020,
    retry=retry_policy(2, 20, attempts=3),
    schedule_to_close=1320,
    heartbeat=20,
    long_wait_in_workflow=True,
)
"""Longer than two rounds may take, each with six answers of the model (75 s) and a search. A model that is away is not
waited for: after the try of `begin_turn` and these, the turn goes on without a decision."""
THINKING = "thinking"
"""The status while a model is asked."""
ACT = ActivityOptions(start_to_close=90, retry=retry_policy(1, 20, attempts=3), heartbeat=20)
"""Longer than any tool's own limit, and than `ACT_CALL`."""
ACT_CALL = 75.0
"""Seconds for one of several calls of an `ActRequest`: one that hangs ends, and the others keep their results."""

FINISH = replace(STORE, start_to_close=180, heartbeat=POST.heartbeat)
"""It posts, after it has stored."""


@dataclass(frozen=True)
class StoreRequest:
    """At most 100 messages, 256 KiB; none where a run begins without any. `first`: of its run."""

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
    """`refused` are those of the request that the guards keep from the model. `turns_to_show_again`: turns of which a
    person who has the thread is to see something as it reads now."""

    snapshot: ConversationSnapshot
    refused: tuple[RefusedMessage, ...] = ()
    turns_to_show_again: tuple[int, ...] = ()
    limits: ConversationLimits | None = None
    """Those in force; told to the first request of a run."""


@dataclass(frozen=True)
class BeginRequest(ConversationTurn):
    """`decide`: also decide what to do, where nothing comes before that."""

    decide: bool = False


@dataclass(frozen=True)
class DecideRequest(ConversationTurn):
    """A turn that has begun. `status`: what Slack shows under the thread meanwhile; empty for nothing."""

    status: str = ""


@dataclass(frozen=True)
class TurnDecision:
    """`made`: the engine has a say in this turn: there is a model, and words. `about`: nobody's words, for the UI."""

    course: NextStep = NextStep.PROCEED
    made: bool = True
    about: str = ""


@dataclass(frozen=True)
class FinishRequest(ConversationTurn):
    """The end of a turn. `text` counts only where it is no model's (`answer_step` is 0). `final`: the call in that
    reply which has the answer's words, where the operator speaks by a tool. It is run with the end of the turn, and
    where it is refused, the turn goes on."""

    kind: OutcomeKind
    text: str = ""
    answer_step: int = 0
    """The step whose reply is the answer, or holds it, whole in the transcript."""
    model_calls: int = 0
    final: ToolCall | None = None
    protocol: ProtocolState | None = None
    """The operator's, behind its last call, and before `final`."""
    failures: str = ""
    """What of an operator's turn has failed, in words, for an answer to a request of which nothing was changed."""
    changed_something: bool = False
    """Its tools have changed something, or may have."""
    escalate: EscalationReason | None = None
    """Why a person takes over a turn that was to be answered."""
    post: bool = True
    """Post the answer; else the workflow does, once what comes before it is posted."""
    status_shown: bool = False
    """A status may stand under the thread, which nothing takes away where nothing is posted."""
    told: tuple[str, ...] = ()
    """Ids of the calls that the text tells of; `finish_turn` adds the others that are on record."""


@dataclass(frozen=True)
class FinishedTurn:
    """`summary`: what a turn came to, without anybody's words, for Temporal's UI. `posted`: its answer is in Slack."""

    snapshot: ConversationSnapshot
    summary: str = ""
    posted: bool = False
    post_error: str = ""
    waits_until_mended: bool = False
    """With `post_error`: Slack may take the answer once the admin has mended something."""
    """Why Slack refuses the answer for good."""
    handover: bool = False
    """The turn waits for a person: the answer is to be posted once that has begun."""
    left_to_person: bool = False
    """The answer is not said, since a person has the thread."""
    approvals: tuple[str, ...] = ()
    """Ids of what the turn has proposed and nobody has decided."""
    final: Execution | None = None
    """What the request's `final` came to; where it does not end the turn, the turn has not ended."""


@dataclass(frozen=True)
class ThinkRequest(ConversationTurn):
    """One call of the model. `step` counts the calls of the turn from 1; each takes up what is unused by then. `since`
    is the first step of which the workflow has no reply: another where an earlier call failed. 0: this step. `act`: run
    what the reply asks for first (`call_groups`); the activity `act` runs the rest, and repeats what fails of it."""

    step: int
    choice: ToolChoice
    agent: Agent = Agent.COPILOT
    status: str = ""
    """As in `DecideRequest`."""
    since: int = 0
    act: bool = False
    protocol: ProtocolState | None = None
    finish: FinishRequest | None = None
    """The turn's end if the reply is its answer: said at once; `finish_turn` repeats what fails of it."""


@dataclass(frozen=True)
class Thought:
    """`reply` holds the beginning of its text and calls without their arguments. `step`: where it is recorded, earlier
    where that call's result was lost, later where an earlier run waited for the model; 0 where it is not. `ran`: what
    the calls came to that were run."""

    reply: ModelReply
    snapshot: ConversationSnapshot
    step: int = 0
    ran: tuple[Execution, ...] = ()
    finished: FinishedTurn | None = None


@dataclass(frozen=True)
class ActRequest(ConversationTurn):
    """Calls of tools, side by side where there are several: then all of them only read. At most ten. Their arguments
    are in the reply of this step. `protocol`: the operator's state before them."""

    step: int
    calls: tuple[ToolCall, ...]
    protocol: ProtocolState | None = None
    status: str = ""
    unless_stopped: bool = False
    """Nothing is run in a turn that has ended, or that somebody has said to stop."""


@dataclass(frozen=True)
class ThreadNotice:
    """A short text in the thread; `about` (a turn's number, a message's ts) makes its key unique."""

    thread: Thread
    kind: NoticeReason
    about: str
    until: float = 0.0
    """Seconds since 1970, where the text names a time."""


@dataclass(frozen=True)
class BegunTurn:
    """The way of a turn. `ends`: it is over with words that are kept with it, and no model is asked. `falls_through`:
    when the conversational agent fails, the operator goes on. `about`: the way in a few words."""

    snapshot: ConversationSnapshot
    agent: Agent = Agent.COPILOT
    protocol: ProtocolState | None = None
    ends: OutcomeKind | None = None
    falls_through: bool = False
    about: str = ""
    correlation_id: str = ""
    max_steps: int = 0
    """Model calls that may ask for tools; 0: as every conversation."""
    behind: int = 0
    """Steps that another agent took before this one went on."""
    relays_to_person: bool = False
    """A person has taken the thread over, or may: they are shown what was said."""
    not_addressed: bool = False
    """Nothing that it was begun with was addressed to the bot; what is, from then on, gets a turn of its own."""
    decision: TurnDecision | None = None
    """What was decided at once; None where `decide` is to be asked, if at all."""

    @property
    def can_be_decided(self) -> bool:
        """Somebody waits for the conversational agent, and nothing comes before the decision."""
        is_open = bool(self.correlation_id) and self.agent is Agent.COPILOT
        waits = self.snapshot.addressed_due and not (self.not_addressed or self.snapshot.stop_due)
        return is_open and waits and not (self.ends or self.relays_to_person)


@dataclass(frozen=True)
class PassToOperator(ConversationTurn):
    """The operator goes on with a turn, behind the step that was the last one."""

    step: int


class ConversationActivities(ABC):
    """The conversation in the database, its model, its tools, and what it says in Slack. Run in the core worker."""

    @activity_options(STORE)
    @abstractmethod
    async def store_messages(self, request: StoreRequest) -> StoredMessages:
        """Store a batch, and let the guards judge each message, whose verdict stays for ever. The first request of a
        run also judges what was stored before and is not judged yet."""

    @activity_options(replace(STORE, start_to_close=DECIDE.start_to_close, heartbeat=DECIDE.heartbeat))
    @abstractmethod
    async def begin_turn(self, request: BeginRequest) -> BegunTurn:
        """Take up what is unused, and find the turn's way by its words; found once, and the same when asked again.
        Where people wait for the conversational agent, the first try goes on to decide; `decide` repeats what fails."""

    @activity_options(STORE)
    @abstractmethod
    async def pass_to_operator(self, request: PassToOperator) -> BegunTurn:
        """The conversational agent has failed: the operator goes on with the turn, about no RFP."""

    @activity_options(DECIDE)
    @abstractmethod
    async def decide(self, request: DecideRequest) -> TurnDecision:
        """Have the model decide what to do with what the turn has taken up, look up what it wants to know, and judge
        the evidence. What is on record is not done again. Raises Permanent or Transient as the model does."""

    @activity_options(STORE)
    @abstractmethod
    async def decide_without_model(self, request: DecideRequest) -> TurnDecision:
        """The model could not be asked: a sensitive word alone escalates, and anything else is left to the agent."""

    @activity_options(THINK)
    @abstractmethod
    async def think(self, request: ThinkRequest) -> Thought:
        """Ask the model once about the transcript with what is unused by now; a recorded reply is not asked for again.

        Before a turn's first call, what is old in a transcript that is too long is summarised by the model, and what
        the operator is to know is gathered and the request analysed. The call is made also where one of these fails.
        The first try goes on to what the reply asks for: it says an answer, and so ends the turn, or runs tools. Who
        cancels it meanwhile gets what was run.
        Raises Permanent, with a sentence for the person, where there is no reply to be had; Transient: later, maybe.
        """

    @activity_options(ACT)
    @abstractmethod
    async def act(self, request: ActRequest) -> list[Execution]:
        """Run the calls, in their order; of one that was made before, return what it came to. Of several calls each
        fails for itself; of a single one the error is raised."""

    @activity_options(FINISH)
    @abstractmethod
    async def finish_turn(self, request: FinishRequest) -> FinishedTurn:
        """Write down how a turn ended, with which everything it has used is answered; post the answer, and remember
        what the turn has shown. The answer of a turn that waits for a person is left to `post_answer`. A final call,
        its result and the end of the turn are one transaction."""

    @activity_options(replace(POST, start_to_close=120))
    @abstractmethod
    async def post_answer(self, turn: ConversationTurn) -> ConversationSnapshot:
        """Post a settled turn's answer, once, with what its tools have to show: one that `finish_turn` did not post."""

    @activity_options(replace(POST, schedule_to_close=600))
    @abstractmethod
    async def post_thread_notice(self, word: ThreadNotice) -> None:
        """Post a short text, once."""


def conversation_start(thread: Thread, message: IncomingMessage | None = None) -> WorkflowStart:
    """The workflow of the conversation in `thread`, with something that was said in it or done to a message of it;
    without it, the conversation carries on from the database."""
    identity, state = conversation_workflow_id(thread), ConversationInput(thread=thread)
    signal, given = ("", ()) if message is None else (INCOMING_MESSAGE, (message,))
    return WorkflowStart(CONVERSATION_WORKFLOW, identity, state, signal, given, thread.channel)
