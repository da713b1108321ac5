"""A turn that waits for a person, without Temporal."""

from collections.abc import Iterator

import pytest

from tests.handovers.scene import HandoverScene
from tests.support.conversation_activities import Make, make_talk
from tests.support.decision_activities import engine_of
from tests.support.unhurried import unhurried

__all__ = ["make_talk"]


@pytest.fixture(autouse=True)
def unhurried_gateway() -> Iterator[None]:
    """A busy machine is no fault of the gateway."""
    with unhurried():
        yield


@pytest.fixture
async def waiting(make_talk: Make) -> HandoverScene:
    """The card is shown, and its handover is not taken."""
    scene = HandoverScene(engine_of(make_talk()))
    await scene.escalated()
    await scene.talk.run(scene.activities.open_handover, scene.ref)
    return scene


@pytest.fixture
async def taken(waiting: HandoverScene) -> HandoverScene:
    await waiting.taken()
    return waiting
