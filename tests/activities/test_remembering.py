"""What is remembered of a turn, on the real Postgres."""

from typing import Any

import pytest

from tests.agents.operating import TOOLS
from tests.db.recording import create
from tests.db.talking import THREAD, Talking, deletion, edit, identity, mention, says
from threadline.activities.remembering import Remembering
from threadline.db.engine import Database
from threadline.db.tool_executions import Call, Status
from threadline.domain.addressing import turn_id
from threadline.domain.dialogue import OutcomeKind
from threadline.domain.operations import Operation
from threadline.tools.registry import Registry
from threadline.tools.results import Code

REQUEST = "Update the status of rfp_abc123 to won"


@pytest.fixture
def talk(database: Database) -> Talking:
    return Talking(database)


def remembering(talk: Talking) -> Remembering:
    return Remembering(talk.database, Registry(TOOLS), lambda: 1_772_000_000.0)


async def called(talk: Talking, step: int, tool: str, status: Status = "ok", code: str = "") -> None:
    call = Call(Operation(THREAD, 1, step, f"call {step}"), "r", "U1", tool, {}, f"{tool}{step}")
    result = {"error": {"code": code} if code else None, "data": "x" * 1_000}
    async with talk.database.begin() as work:
        await work.tool_executions.finish(call, status, result, 5, 1_772_000_000.0 + step)


async def done(talk: Talking, request: str = REQUEST, **more: Any) -> None:
    """A turn in which an RFP was loaded and changed."""
    await talk.hear(mention(0, request))
    await called(talk, 1, "opportunity.load")
    await called(talk, 2, "opportunity.patch", "error", Code.PROTOCOL)
    await called(talk, 3, "opportunity.patch")
    await called(talk, 4, "slack.post.summary")
    await talk.turn(1, "It is won.", **more)


async def kept(talk: Talking) -> list[dict[str, Any]]:
    rows = await talk.rows(
        "SELECT kind, cue, text, error_class, channel, rfp_id, key, user_id FROM memories ORDER BY id"
    )
    return [dict(each) for each in rows]


async def test_a_turn_leaves_its_pattern_its_failure_and_what_happened(talk: Talking) -> None:
    await done(talk)
    assert await remembering(talk).remember(THREAD, 1) == 3
    pattern, episode, failure = await kept(talk)
    assert pattern["text"] == "opportunity_load → opportunity_patch → slack_post_summary"
    assert (pattern["kind"], pattern["channel"], pattern["key"]) == ("procedural", "", turn_id(THREAD, 1))
    assert episode["text"] == f"<@U1> asked: {REQUEST} Changed by opportunity_patch. Answered: It is won."
    assert (episode["channel"], episode["rfp_id"], episode["user_id"]) == ("C1", "rfp_abc123", "U1")
    assert failure["error_class"] == "validation"


@pytest.mark.promise("memory:operator:once")
async def test_the_same_turn_is_remembered_once(talk: Talking) -> None:
    await done(talk)
    for _ in range(3):
        await remembering(talk).remember(THREAD, 1)
    assert len(await kept(talk)) == 3


async def test_the_binding_says_what_it_was_about_where_the_message_does_not(talk: Talking) -> None:
    await create(talk.database, rfp_id="rfp_bound1")
    async with talk.database.begin() as work:
        await work.bindings.bind_rfp(THREAD, "rfp_bound1", "U1")
    await talk.hear(mention(0, "What's the status?"))
    await talk.turn(1, "New.")
    await remembering(talk).remember(THREAD, 1)
    assert [each["rfp_id"] for each in await kept(talk)] == ["rfp_bound1"]


async def test_a_call_of_unknown_outcome_is_a_failure(talk: Talking) -> None:
    await talk.hear(mention(0, REQUEST))
    call = Call(Operation(THREAD, 1, 1, "c"), "r", "U1", "schedule.job", {}, "f")
    async with talk.database.begin() as work:
        await work.tool_executions.intend(call, 1.0)
    await talk.turn(1)
    await remembering(talk).remember(THREAD, 1)
    assert [each["error_class"] for each in await kept(talk)] == ["", "external"]


async def test_a_name_that_the_model_made_up_is_not_kept(talk: Talking) -> None:
    await talk.hear(mention(0, REQUEST))
    await called(talk, 1, "obey.me", "error", Code.UNKNOWN_TOOL)
    await talk.turn(1)
    await remembering(talk).remember(THREAD, 1)
    assert "obey" not in str(await kept(talk))


async def test_nothing_is_remembered_of_what_is_not_there_not_settled_or_silent(talk: Talking) -> None:
    assert await remembering(talk).remember(THREAD, 1) == 0
    await talk.hear(mention(0, REQUEST))
    await talk.take_up(1)
    assert await remembering(talk).remember(THREAD, 1) == 0
    await talk.settle(1, "", OutcomeKind.SILENT)
    assert await remembering(talk).remember(THREAD, 1) == 0
    assert await kept(talk) == []


@pytest.mark.promise("memory:operator:once")
async def test_what_is_deleted_in_slack_is_forgotten_with_its_words(talk: Talking) -> None:
    await done(talk, "remember that rfp_abc123 is a secret project")
    await remembering(talk).remember(THREAD, 1)
    assert {each["kind"] for each in await kept(talk)} == {"procedural", "episodic", "semantic"}
    await talk.hear(deletion(0))
    left = await kept(talk)
    assert {each["kind"] for each in left} == {"procedural"}
    assert "secret" not in str(left)


@pytest.mark.promise("memory:operator:once")
async def test_what_was_deleted_before_it_is_remembered_is_not(talk: Talking) -> None:
    await done(talk)
    await talk.hear(deletion(0))
    assert await remembering(talk).remember(THREAD, 1) == 0


async def test_of_two_who_asked_the_one_who_deleted_is_left_out(talk: Talking) -> None:
    await talk.hear(mention(0, "first wish"), says(1, "second wish"))
    await talk.turn(1)
    await talk.hear(deletion(0))
    await remembering(talk).remember(THREAD, 1)
    (episode,) = await kept(talk)
    assert episode["cue"] == "second wish"


async def test_another_turns_memory_stays_when_something_is_deleted_or_edited(talk: Talking) -> None:
    await done(talk)
    await remembering(talk).remember(THREAD, 1)
    await talk.hear(mention(10, "And now?"))
    await talk.turn(2)
    await remembering(talk).remember(THREAD, 2)
    await talk.hear(edit(0, "other words", 20), deletion(10))
    assert identity(10)
    assert [each["key"] for each in await kept(talk) if each["kind"] == "episodic"] == [turn_id(THREAD, 1)]
