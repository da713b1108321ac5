"""What a conversation's workflow may ask for around the loop: which way a turn goes, with what, and what is learnt."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from temporalio import activity

from threadline.conversations.contract import TalkTurn
from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent
from threadline.slack.model import Thread
from threadline.threads.activity_options import STORE, ActivityOptions, activity_options, retry_policy

PREPARE = ActivityOptions(start_to_close=30, retry=retry_policy(0.5, 5, attempts=2), schedule_to_close=45, heartbeat=20)
ANALYSE = ActivityOptions(start_to_close=20, retry=retry_policy(1, 1, attempts=1), schedule_to_close=30, heartbeat=20)


@dataclass(frozen=True)
class Begun:
    """The way of a turn. `ends`: it is over with words that are kept with it, and no model is asked.

    `falls_through`: when the conversational agent fails, the operator goes on. `about`: the way in a few words.
    """

    marks: ConversationSnapshot
    agent: Agent = Agent.COPILOT
    protocol: ProtocolState | None = None
    ends: OutcomeKind | None = None
    falls_through: bool = False
    about: str = ""
    correlation_id: str = ""
    max_turns: int = 0
    """Model calls that may ask for tools; 0: as every conversation."""
    behind: int = 0
    """Steps that another agent took before this one went on."""
    relays: bool = False
    """A person has taken the thread over, or may: they are shown what was said."""
    overhears: bool = False
    """Nothing that it was begun with was addressed to the bot; what is, from then on, gets a turn of its own."""


@dataclass(frozen=True)
class PassOn:
    """The operator goes on with a turn, behind the step that was the last one."""

    thread: Thread
    turn: int
    step: int


class OperatorActivities(ABC):
    """The way of a turn, what the operator is told for it, and what is kept of it. Run in the core worker."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def begin_turn(self, turn: TalkTurn) -> Begun:
        """Take up what is unused, and find the turn's way by its words; found once, and the same when asked again."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def pass_on(self, request: PassOn) -> Begun:
        """The conversational agent has failed: the operator goes on with the turn, about no RFP."""

    @activity_options(PREPARE)
    @activity.defn
    @abstractmethod
    async def prepare_turn(self, turn: TalkTurn) -> str:
        """Gather what the operator is to know, with what worked before; returns what was gathered, in a few words.

        Where this fails, the operator goes on with its tools alone.
        """

    @activity_options(ANALYSE)
    @activity.defn
    @abstractmethod
    async def analyse_request(self, turn: TalkTurn) -> ConversationSnapshot:
        """Have the model say what is asked for, before it is asked to do it. Where this fails, it does without."""
