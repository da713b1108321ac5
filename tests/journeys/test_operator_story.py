"""The third scene of `threadline demo`, chapter by chapter: people read and change records, on all the real parts."""

import pytest

from threadline_devstack.stack import Stack
from threadline_devstack.stories.case_story import Chapter
from threadline_devstack.stories.operator_scene import OperatorScene
from threadline_devstack.stories.rfp_story import OPERATOR_CHAPTERS

pytestmark = [pytest.mark.journey, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


@pytest.mark.parametrize("chapter", OPERATOR_CHAPTERS, ids=lambda chapter: chapter.play.__name__)
async def test_records_are_read_and_changed(stack: Stack, chapter: Chapter[OperatorScene]) -> None:
    async with OperatorScene.on(stack) as scene:
        await chapter.play(scene)
