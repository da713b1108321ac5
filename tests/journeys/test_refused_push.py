"""A host refuses the push of a fix: developers read its reason, and their next request opens the
pull request.
"""

import pytest

from tests.support.journey_scene import JourneyScene
from threadline_devstack.git_host import PushRefusal, allow_pushes, refuse_pushes
from threadline_devstack.slack.identity import DEVELOPER, REPORTER, SUMMARIES
from threadline_devstack.stack import Stack
from threadline_devstack.stories.player import play

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(120),
]

CLEAR = "The cart total is too high with the discount code SAVE10 and twelve notebooks."
WISH = "Please fix it and open a pull request."


@pytest.mark.parametrize(
    "refusal",
    [
        PushRefusal(says="GH006: Protected branch update failed."),
        PushRefusal(reason="repository rule violations"),
    ],
    ids=["hook", "reason"],
)
async def test_refused_push_is_reported_and_the_next_one_is_made(
    scene: JourneyScene, stack: Stack, refusal: PushRefusal
) -> None:
    await play(scene, "vague_report")
    await scene.reply(REPORTER, CLEAR)
    await scene.until_bot_says("SAVE10", channel=SUMMARIES)
    refuse_pushes(stack.home.repository, refusal)
    try:
        asked = await scene.discuss(DEVELOPER, WISH)
        await scene.until_bot_says(refusal.says or refusal.reason, channel=SUMMARIES, after=asked)
    finally:
        allow_pushes(stack.home.repository)
    again = await scene.discuss(DEVELOPER, WISH)
    await scene.until_bot_says("is proposed", channel=SUMMARIES, after=again)
