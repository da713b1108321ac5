"""The ways of a turn that is decided first: looked up, asked back about, left undecided, or given to a person."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from temporalio.client import WorkflowHistory

from tests.handovers.test_handover_workflow import PERSON, House
from tests.replay import conversation_paths
from tests.replay.conversation_paths import TalkStage
from tests.replay.stage import chain
from tests.support.scripted_model import calls
from tests.support.temporal import real_time
from threadline.decisions.model import Retrieval
from threadline.errors import Permanent
from threadline.handovers.model import CLOSE, TAKE
from threadline.models.model import ModelReply

_RETRIEVE = {"decision": "RETRIEVE", "retrieval_needed": True, "retrieval_query": "plans"}


@conversation_paths.path(
    *("decide", "look_up", "weigh", "settle_turn clarified", "settle_turn answered", "result quiet"), decides=True
)
async def decided_after_looking_twice(stage: TalkStage) -> None:
    talk = stage.talk
    talk.model.decisions |= {(1, 1): _RETRIEVE, (1, 2): _RETRIEVE, (2, 1): _RETRIEVE}
    talk.documents.retrieval = Retrieval(0.3)
    talk.model.replies = [ModelReply("It is 990 a month [1].")]
    await talk.say("what does it cost?")
    await talk.until_said(1)
    talk.documents.retrieval = Retrieval(0.9)
    await talk.say("the Enterprise plan")
    await talk.until_said(2)
    await stage.quiet()


@conversation_paths.path(
    *("give_up_deciding", "escalate", "settle_turn escalated", "relay_to_person", "settle_turn silent"),
    server=real_time,
    decides=True,
)
async def given_to_a_person(stage: TalkStage) -> None:
    """The first turn by a sensitive word alone, the third beside the answer; the second belongs to the person.

    In the third they read along.
    """
    talk = stage.talk
    talk.model.decisions[1, 1] = Permanent("The key is wrong.")
    await talk.say("I want a refund")
    await talk.until_said(1)
    await talk.take_over()
    await talk.say("to which account?")
    await talk.until_settled(2)
    await talk.close_handover()
    await talk.hand_over()
    talk.tools["calendar.book"] = RuntimeError("The calendar is away.")
    talk.model.replies = [calls("calendar.book:1"), ModelReply("That did not work.")]
    await talk.say("book a meeting with me")
    await talk.until_said(3)
    await talk.until_idle()
    await talk.handle.cancel()
    await stage.record()


@dataclass
class HandoverStage:
    house: House
    runs: list[WorkflowHistory] = field(default_factory=list)

    async def record(self) -> None:
        """Wait for the end of the hand-over, and keep its last run with those that it continues."""
        self.runs += await chain(self.house.environment.client, self.house.handle.id)


Play = Callable[[HandoverStage], Awaitable[None]]


@dataclass(frozen=True)
class HandoverPath:
    play: Play
    holds: tuple[str, ...]
    remind_every: float

    @property
    def name(self) -> str:
        return self.play.__name__


HANDOVERS: list[HandoverPath] = []


def path(*holds: str, remind_every: float = 3600.0) -> Callable[[Play], Play]:
    def listed(play: Play) -> Play:
        HANDOVERS.append(HandoverPath(play, holds, remind_every))
        return play

    return listed


@path("open_handover", "remind_handover", "press_handover", "show_handover", "timer fired", remind_every=0.5)
async def handover_taken_after_a_reminder(stage: HandoverStage) -> None:
    house = stage.house
    await house.escalated()
    card = await house.card()
    await house.until_said("Nobody has taken this over yet", card.channel)
    await house.press(card, PERSON, TAKE)
    await house.until_said("has taken this over")
    await house.press(card, PERSON, CLOSE)
    await stage.record()


@path("open_handover", "press_handover", "whisper_handover")
async def handover_closed_then_pressed(stage: HandoverStage) -> None:
    house = stage.house
    await house.escalated()
    card = await house.card()
    body = house.click(card, PERSON, TAKE)
    await house.press(card, PERSON, CLOSE)
    await stage.record()
    assert await house.gateway.take(body) == "click"
    await stage.record()
