"""The story that `threadline demo` plays, asserted."""

import pytest

from threadline.cases.model import CaseStatus, Reason
from threadline_devstack.stories.case_scene import Scene
from threadline_devstack.stories.case_story import CHAPTERS, NEVER_MIND, VERDICT

pytestmark = [pytest.mark.journey, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


async def test_the_story_from_a_vague_report_to_its_end(scene: Scene) -> None:
    for chapter in CHAPTERS:
        await chapter.play(scene)
    case = await scene.case()
    assert case.status is CaseStatus.RESOLVED
    assert case.closings == 2
    reasons = [step.reason for step in await scene.transitions()]
    assert reasons[0] == Reason.REPORTED
    assert reasons.count(Reason.REOPENED) == 1
    assert reasons[-1] == Reason.REPORTER_CLOSED
    said = [entry.text for entry in await scene.conversation()]
    assert said.count(VERDICT) == said.count(NEVER_MIND) == 1
    assert case.cost_usd > 0
