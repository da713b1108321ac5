"""A decision engine in memory: what it comes to is given, and what it was asked is kept."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from temporalio import activity

from threadline.conversations.contract import TalkTurn
from threadline.conversations.decision_contract import DecisionActivities, Escalate, Round, Step
from threadline.decisions.model import Course
from threadline.handovers.contract import HandoverActivities, HandoverState, HandoverWhisper, PressRequest, Reminder
from threadline.handovers.model import HandoverRef

Hook = Callable[[], Awaitable[None]]
ENGINE = (DecisionActivities, HandoverActivities)


@dataclass(kw_only=True)
class EngineDesk(DecisionActivities, HandoverActivities):
    decided: dict[tuple[int, int], list[Step]] = field(default_factory=dict)
    """What a round comes to, by turn and round: after each of its steps. The engine has no say in other turns."""
    decisions: list[str] = field(default_factory=list)
    """What was asked for, with the turn and the round."""
    undecided: Step = field(default_factory=lambda: Step(Course.PROCEED, about="no decision"))
    escalations: list[Escalate] = field(default_factory=list)
    handed: list[str] = field(default_factory=list)
    """Turns that a person was to take over, or to be shown."""
    closed_at: set[int] = field(default_factory=set)
    """Which entries of `handed` found that the hand-over was closed before somebody was shown it."""
    left: set[int] = field(default_factory=set)
    """Turns whose answer is left to the person who has the thread."""
    troubles: dict[str, list[Hook]] = field(default_factory=dict)
    """By the name of an activity: what happens in it, once each."""

    @activity.defn
    async def decide(self, asked: Round) -> Step:
        return await self._step("decide", asked)

    @activity.defn
    async def look_up(self, asked: Round) -> str:
        await self._asked("look_up", asked)
        return "2 passages"

    @activity.defn
    async def weigh(self, asked: Round) -> Step:
        return await self._step("weigh", asked)

    @activity.defn
    async def give_up_deciding(self, asked: Round) -> Step:
        await self._asked("give_up_deciding", asked)
        return self.undecided

    @activity.defn
    async def escalate(self, request: Escalate) -> None:
        self.escalations.append(request)

    @activity.defn
    async def open_handover(self, ref: HandoverRef) -> HandoverState:
        self.handed.append(f"open {ref.turn}")
        return HandoverState(open=False)

    @activity.defn
    async def press_handover(self, request: PressRequest) -> HandoverState:
        raise AssertionError("nobody presses a button here")

    @activity.defn
    async def show_handover(self, ref: HandoverRef) -> None:
        raise AssertionError("nobody has taken it")

    @activity.defn
    async def whisper_handover(self, whisper: HandoverWhisper) -> None:
        raise AssertionError("nobody is told anything")

    @activity.defn
    async def remind_handover(self, reminder: Reminder) -> HandoverState:
        raise AssertionError("it was closed at once")

    @activity.defn
    async def relay_to_person(self, turn: TalkTurn) -> bool:
        self.handed.append(f"relay {turn.turn}")
        if hooks := self.troubles.get("relay_to_person"):
            await hooks.pop(0)()
        return len(self.handed) in self.closed_at

    async def _asked(self, name: str, asked: Round) -> None:
        self.decisions.append(f"{name} {asked.turn}.{asked.round}")
        if hooks := self.troubles.get(name):
            await hooks.pop(0)()

    async def _step(self, name: str, asked: Round) -> Step:
        await self._asked(name, asked)
        steps = self.decided.get((asked.turn, asked.round))
        if not steps:
            return Step(Course.PROCEED, decides=False)
        return steps[0] if name == "decide" else steps[-1]
