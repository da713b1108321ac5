"""Two audiences on the whole product: a case's reporter can read nothing internal of its turns."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.support.journey_scene import JourneyScene
from threadline.cases.model import CaseStatus
from threadline_devstack.slack.identity import BOT_USER, REPORTER, REPORTS, SUMMARIES
from threadline_devstack.slack.model import Json
from threadline_devstack.stack import Stack
from threadline_devstack.stories.player import play
from threadline_devstack.stories.scene import message_text

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

TO_REPORTERS = ("clarification_question", "for_reporter")


async def test_nothing_internal_of_any_turn_reaches_the_reports_channel(
    scene: JourneyScene, stack: Stack
) -> None:
    await play(scene, "vague_report")
    await scene.reply(
        REPORTER,
        "The cart's total is too high with twelve notebooks and the discount code SAVE10.",
    )
    await scene.until_bot_says("the developers have it before them")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    await play(scene, "fix")
    await scene.until_bot_says("I have proposed a fix")
    await play(scene, "verdict")
    said = [
        _whole(message) for message in scene.thread(REPORTS) if message.get("user") == BOT_USER
    ]
    known = "\n".join([_whole(message) for message in scene.thread(SUMMARIES)])
    internal = {text for turn in await scene.turns() for text in _internal(turn.result)}
    request = await scene.until("the fix is on record", scene.pull_request)
    internal |= {
        request.url,
        request.branch,
        request.repository,
        stack.settings["THREADLINE_REPO"],
    }
    assert len(internal) > 10
    for text in internal:
        assert not [post for post in said if text in post], f"the reporter could read {text!r}"
    assert "Cart.total()" in known, "the control: developers read it"


def _internal(result: Mapping[str, Any]) -> Iterator[str]:
    """The texts of every internal field, and the names of files in any form."""
    for name, value in result.items():
        if name in TO_REPORTERS or not value:
            continue
        if isinstance(value, str) and len(value) > 12:  # no action's or severity's name
            yield value
        for item in value if isinstance(value, list) else ():
            texts = item.values() if isinstance(item, dict) else [item]
            yield from (text for text in texts if isinstance(text, str) and len(text) > 8)
    for item in result.get("evidence", ()):
        yield item["file"].rpartition("/")[2]


def _whole(message: Json) -> str:
    """All of a message's text, in any field that people can read."""
    return message_text(message) + json.dumps(message.get("blocks", ""), ensure_ascii=False)
