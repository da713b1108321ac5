"""The second scene of `threadline demo`, chapter by chapter: people speak to the bot, on all the real parts."""

import pytest

from threadline_devstack.stack import Stack
from threadline_devstack.stories.case_story import Chapter
from threadline_devstack.stories.talk_scene import TalkScene
from threadline_devstack.stories.talk_story import TALK_CHAPTERS

pytestmark = [pytest.mark.journey, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]


@pytest.mark.parametrize("chapter", TALK_CHAPTERS, ids=lambda chapter: chapter.play.__name__)
async def test_a_conversation(stack: Stack, chapter: Chapter[TalkScene]) -> None:
    await chapter.play(TalkScene(stack))
