"""What a conversation's workflow may ask of the decision engine: one step at a time, each found again by its key."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

from temporalio import activity

from threadline.decisions.model import Course, Reason
from threadline.slack.model import Thread
from threadline.threads.activity_options import STORE, ActivityOptions, activity_options, retry_policy

DECIDE = ActivityOptions(start_to_close=180, retry=retry_policy(2, 20, attempts=3), schedule_to_close=240, heartbeat=20)
"""Longer than two answers of the model may take: see `models/client.py`. After that the turn goes on without."""
LOOK_UP = ActivityOptions(start_to_close=30, retry=retry_policy(0.5, 5, attempts=3), schedule_to_close=60, heartbeat=20)
WEIGH = replace(DECIDE, start_to_close=330, schedule_to_close=420)
"""For four answers of the model: see `decisions/conflicts.py`."""

ROUNDS = 2
"""Of a turn: more is retrieved once at most."""


@dataclass(frozen=True)
class Round:
    """One round of a turn's decision; it counts from 1."""

    thread: Thread
    turn: int
    round: int = 1
    status: str = ""


@dataclass(frozen=True)
class Step:
    """What a round came to. `course` is None where something is to be looked up before the evidence can be weighed.

    `decides`: the engine has a say in this turn; without a model, or without words, it has none.
    `about`: the decision in a few words without anybody's, for Temporal's UI.
    """

    course: Course | None = None
    decides: bool = True
    about: str = ""


@dataclass(frozen=True)
class Escalate:
    """A turn that was to be answered ends with a person after all."""

    thread: Thread
    turn: int
    reason: Reason


class DecisionActivities(ABC):
    """The decision engine in front of the conversational agent. Run in the core worker."""

    @activity_options(DECIDE)
    @activity.defn
    @abstractmethod
    async def decide(self, asked: Round) -> Step:
        """Have the model decide what to do with what the turn has taken up; decided once, and the same when asked
        again.

        Raises:
            Permanent | Transient: the model has nothing to say, or cannot be asked now.
        """

    @activity_options(LOOK_UP)
    @activity.defn
    @abstractmethod
    async def look_up(self, asked: Round) -> str:
        """Look up what the round's decision wants to know; returns what was found, in a few words. That the knowledge
        cannot be asked is a result, too."""

    @activity_options(WEIGH)
    @activity.defn
    @abstractmethod
    async def weigh(self, asked: Round) -> Step:
        """How sure the decision is with what was found, and what follows. Passages that may contradict each other are
        compared by the model.

        Raises:
            Permanent | Transient: as in `decide`.
        """

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def give_up_deciding(self, asked: Round) -> Step:
        """The model could not be asked: a sensitive word alone escalates, and anything else is left to the agent."""

    @activity_options(STORE)
    @activity.defn
    @abstractmethod
    async def escalate(self, request: Escalate) -> None:
        """Write down that a person takes over, with what that person is to know."""
