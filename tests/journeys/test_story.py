"""The stories of `threadline demo`, asserted: the first as a whole, the others chapter by
chapter.
"""

import pytest

from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus, Reason
from threadline_devstack.stories.player import Chapter, play, stories

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]


async def test_the_story_from_a_vague_report_to_its_end(scene: JourneyScene) -> None:
    await play(scene, *stories()[0].chapters)
    case = await scene.case()
    assert case.status is CaseStatus.RESOLVED
    assert case.closings == 2
    reasons = [step.reason for step in await scene.transitions()]
    assert reasons[0] == Reason.REPORTED
    assert reasons.count(Reason.REOPENED) == 1
    assert reasons[-1] == Reason.REPORTER_CLOSED
    said = [entry.text for entry in await scene.conversation()]
    assert said.count("The fix is merged and verified: it works.") == said.count("never mind") == 1
    assert case.cost_usd


@pytest.mark.parametrize(
    "chapter",
    [each for story in stories()[1:] for each in story.chapters],
    ids=lambda chapter: chapter.name,
)
async def test_conversations_records_and_handovers(scene: JourneyScene, chapter: Chapter) -> None:
    await play(scene, chapter)
