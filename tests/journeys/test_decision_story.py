"""The fourth scene of `threadline demo`, chapter by chapter: decisions and a hand-over, on all the real parts."""

import pytest

from threadline_devstack.stack import Stack
from threadline_devstack.stories.case_story import Chapter
from threadline_devstack.stories.handover_story import DECISION_CHAPTERS, DecisionScene

pytestmark = [pytest.mark.journey, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


@pytest.mark.parametrize("chapter", DECISION_CHAPTERS, ids=lambda chapter: chapter.play.__name__)
async def test_a_question_is_decided_and_a_person_takes_over(stack: Stack, chapter: Chapter[DecisionScene]) -> None:
    await chapter.play(DecisionScene(stack))
