"""Somebody cancels a hand-over in Temporal's UI while it waits for Slack: what was pressed is answered all the same."""

from collections.abc import Awaitable, Callable

import pytest

from tests.handovers.test_handover_workflow import PERSON, House, handover_house, house
from tests.support.conversation_activities import make_talk
from tests.support.temporal import until
from threadline.handovers.model import CLOSE, TAKE

__all__ = ["handover_house", "house", "make_talk"]

pytestmark = pytest.mark.timeout(120)
PAUSE = 15.0
"""Seconds for which Slack wants no more posts."""


def failing(house: House, activity: str) -> Callable[[], Awaitable[bool]]:
    """Whether an activity waits to be tried again."""

    async def waits() -> bool:
        pending = (await house.handle.describe()).raw_description.pending_activities
        return any(each.activity_type.name == activity and each.attempt > 1 for each in pending)

    return waits


async def test_a_cancel_while_people_are_told_drops_no_click(house: House) -> None:
    async with house.working():
        await house.escalated()
        card = await house.card()
        house.talk.slack.faults.rate_limit("chat.postMessage", retry_after=PAUSE)
        await house.press(card, PERSON, TAKE)
        await until(failing(house, "show_handover"), "it is not said who has taken it")
        await house.press(card, PERSON, CLOSE)
        await house.handle.cancel()
        assert await house.ended() == PERSON
    assert any("has closed the handover" in each for each in house.said())


async def test_a_cancel_while_people_are_reminded_ends_nothing(house: House) -> None:
    house.remind_every = 1.0
    async with house.working():
        await house.escalated()
        card = await house.card()
        house.talk.slack.faults.rate_limit("chat.postMessage", retry_after=PAUSE)
        await until(failing(house, "remind_handover"), "nobody can be reminded")
        await house.press(card, PERSON, TAKE)
        await house.handle.cancel()
        await house.press(card, PERSON, CLOSE)
        assert await house.ended() == PERSON
