"""The memories that a turn leaves, on the real Postgres."""

from typing import Any

import pytest

from tests.operator.operating import TOOLS
from tests.support.conversation_store import (
    THREAD,
    StoredConversation,
    deletion,
    edit,
    mention,
    says,
)
from tests.support.recording import create
from threadline.conversations.memories import remember_turn
from threadline.conversations.model.conversation import ConversationTurn, OutcomeKind
from threadline.conversations.model.turn_route import Agent, Branch, TurnRoute
from threadline.conversations.store.transcript import REMOVED, TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.models.model import Message, Role, ToolCall
from threadline.rfps.model import Scope, ScopeSource
from threadline.rfps.store import RfpStore
from threadline.threads.model import IncomingMessage, turn_id
from threadline.tools.model import ErrorCode, Operation, ToolStatus
from threadline.tools.registry import ToolRegistry
from threadline.tools.store import LoggedCall, ToolExecutionStore

REQUEST = "Update the status of rfp_abc123 to won"


@pytest.fixture
def talk(database: Database) -> StoredConversation:
    return StoredConversation(database)


async def remember(talk: StoredConversation, turn: int = 1) -> int:
    async with talk.database.begin() as tx:
        return await remember_turn(
            tx, ConversationTurn(THREAD, turn), ToolRegistry(TOOLS), 1_772_000_000.0
        )


async def called(
    talk: StoredConversation,
    step: int,
    tool: str,
    status: ToolStatus = ToolStatus.OK,
    code: str = "",
) -> None:
    at = 1_772_000_000.0 + step
    call = LoggedCall(
        Operation(THREAD, 1, step, f"call {step}"), "r", "U1", tool, {}, f"{tool}{step}", at
    )
    result = {"error": {"code": code} if code else None, "data": "x" * 1_000}
    async with talk.database.begin() as tx:
        await ToolExecutionStore(tx).finish(call, status, result, 5, at)


async def done(talk: StoredConversation, request: str = REQUEST, *others: IncomingMessage) -> None:
    """A turn in which an RFP was loaded and changed."""
    await talk.hear(mention(0, request), *others)
    await called(talk, 1, "opportunity.load")
    await called(talk, 2, "opportunity.patch", ToolStatus.ERROR, ErrorCode.PROTOCOL)
    await called(talk, 3, "opportunity.patch")
    await called(talk, 4, "slack.post.summary")
    await talk.turn(1, "It is won.")


async def kept(talk: StoredConversation) -> list[dict[str, Any]]:
    rows = await talk.rows(
        "SELECT kind, search_text, text, error_class, channel, rfp_id, key, user_id FROM "
        "memories ORDER BY id"
    )
    return [dict(each) for each in rows]


async def test_conversational_agents_turn_leaves_only_the_fact(talk: StoredConversation) -> None:
    await talk.hear(mention(0, "Remember that Riga wants everything as PDF"))
    async with talk.database.begin() as tx:
        await TurnStore(tx).begin(
            THREAD, 1, TurnRoute(Agent.ASSISTANT, Branch.A, has_fact_to_remember=True)
        )
    await called(talk, 1, "opportunity.load", ToolStatus.ERROR, ErrorCode.PROTOCOL)
    await called(talk, 2, "opportunity.load")
    await talk.turn(1, "Noted.")
    assert await remember(talk) == 1
    (fact,) = await kept(talk)
    assert (fact["kind"], fact["text"]) == ("semantic", "<@U1> said: Riga wants everything as PDF")


async def test_turn_leaves_its_pattern_failure_and_episode_once(talk: StoredConversation) -> None:
    await done(talk)
    assert await remember(talk) == 3
    await remember(talk)
    pattern, episode, failure = await kept(talk)
    assert pattern["text"] == "opportunity_load → opportunity_patch → slack_post_summary"
    assert (pattern["kind"], pattern["channel"], pattern["key"]) == (
        "procedural",
        "",
        turn_id(THREAD, 1),
    )
    assert REQUEST in episode["text"]
    assert "It is won." in episode["text"]
    assert (episode["channel"], episode["rfp_id"], episode["user_id"]) == (
        "C1",
        "rfp_abc123",
        "U1",
    )
    assert failure["error_class"] == "validation"


async def test_turn_was_about_its_scope_or_else_the_rfp_of_its_thread(
    talk: StoredConversation,
) -> None:
    await create(talk.database, rfp_id="rfp_bound1")
    async with talk.database.begin() as tx:
        await RfpStore(tx).bind(THREAD, "rfp_bound1", "U1")
    await talk.hear(mention(0, "What's the status?"))
    await talk.turn(1, "New.")
    await talk.hear(mention(10, "March 5"))
    async with talk.database.begin() as tx:
        await TurnStore(tx).begin(
            THREAD,
            2,
            TurnRoute(Agent.OPERATOR, Branch.D, Scope("rfp_abc123", ScopeSource.MESSAGE)),
        )
    await talk.turn(2)
    for turn in (1, 2):
        await remember(talk, turn)
    assert [each["rfp_id"] for each in await kept(talk)] == ["rfp_bound1", "rfp_abc123"]


async def test_turn_about_a_deleted_rfp_leaves_only_tool_patterns(
    talk: StoredConversation,
) -> None:
    await create(talk.database, rfp_id="rfp_abc123")
    await done(talk, "remember that rfp_abc123 needs two cranes")
    async with talk.database.begin() as tx:
        await RfpStore(tx).delete(THREAD.team, "rfp_abc123")
    assert await remember(talk) == 2
    assert [each["kind"] for each in await kept(talk)] == ["procedural", "procedural"]


async def test_call_without_outcome_is_a_failure_and_a_made_up_name_is_not_kept(
    talk: StoredConversation,
) -> None:
    await talk.hear(mention(0, REQUEST))
    async with talk.database.begin() as tx:
        await ToolExecutionStore(tx).intend(
            LoggedCall(Operation(THREAD, 1, 1, "c"), "r", "U1", "schedule.job", {}, "f", 1.0)
        )
    await called(talk, 2, "obey.me", ToolStatus.ERROR, ErrorCode.UNKNOWN_TOOL)
    await talk.turn(1)
    await remember(talk)
    made = await kept(talk)
    assert [each["error_class"] for each in made] == ["", "external", "validation"]
    assert "obey" not in str(made)


async def test_unsettled_or_silent_turn_leaves_nothing(talk: StoredConversation) -> None:
    assert await remember(talk) == 0
    await talk.hear(mention(0, REQUEST))
    await talk.take_up(1)
    assert await remember(talk) == 0
    await talk.settle(1, "", OutcomeKind.SILENT)
    assert await remember(talk) == 0
    assert await kept(talk) == []


@pytest.mark.parametrize("which", [0, 1])
async def test_deleted_message_is_forgotten_with_all_words_of_its_turn(
    talk: StoredConversation, which: int
) -> None:
    await done(
        talk,
        "remember that rfp_abc123 is a secret project",
        says(1, "remember: secretly", sender_id="U2"),
    )
    await remember(talk)
    assert {each["kind"] for each in await kept(talk)} == {"procedural", "episodic", "semantic"}
    assert {each["user_id"] for each in await kept(talk) if each["kind"] == "semantic"} == {
        "U1",
        "U2",
    }
    await talk.hear(deletion(which))
    left = await kept(talk)
    assert {each["kind"] for each in left} == {"procedural"}
    assert "secret" not in str(left)


async def test_deletion_by_one_of_two_forgets_the_answer_as_well(
    talk: StoredConversation,
) -> None:
    await talk.hear(
        mention(0, "my salary is 90k"), says(1, "remember that Acme wants PDF", sender_id="U2")
    )
    await talk.turn(1, "Noted; your salary is 90k.")
    await talk.hear(deletion(0))
    await remember(talk)
    (fact,) = await kept(talk)
    assert (fact["text"], fact["user_id"]) == ("<@U2> said: Acme wants PDF", "U2")


async def read_the_thread(talk: StoredConversation) -> None:
    """A turn that has read messages in Slack that the bot never received."""
    asks = Message(
        Role.ASSISTANT, calls=(ToolCall("c1", "slack.get.thread"), ToolCall("c2", "team.list"))
    )
    words = [
        (f"t:1:1:{each}", Message(Role.TOOL, f"salary in {each}", call_id=each))
        for each in ("c1", "c2")
    ]
    await talk.append(("a:1:1", asks), *words)
    result = {
        "status": "ok",
        "data": {"messages": [{"text": "salary"}]},
        "display_text": "1 message.",
    }
    async with talk.database.begin() as tx:
        for call, tool in (("c1", "slack.get.thread"), ("c2", "team.list")):
            made = LoggedCall(
                Operation(THREAD, 1, 1, call), "r", "U1", tool, {}, call, 1_772_000_000.0
            )
            kept = None if tool == "slack.get.thread" else result
            await ToolExecutionStore(tx).finish(made, ToolStatus.OK, kept, 5, made.now)


@pytest.mark.parametrize("which", [0, -60], ids=["stored", "never stored"])
async def test_deletion_removes_the_results_of_tools_that_read_the_thread(
    talk: StoredConversation, which: int
) -> None:
    await talk.hear(mention(0, "what is said here?"), mention(1, "and since?"))
    await talk.take_up(1)
    await read_the_thread(talk)
    await talk.settle(1, "It is about a salary.")
    await remember(talk)
    async with talk.database.begin() as tx:
        await TranscriptStore(tx).replace_with_summary(THREAD, "There is a salary.", 4)
    await talk.hear(deletion(which))
    read = await talk.read()
    assert (read.summary, read.summary_until) == ("", 0)
    results = {
        each.key: each.message.content for each in read.messages if each.key.startswith("t:")
    }
    assert results == {"t:1:1:c1": REMOVED, "t:1:1:c2": "salary in c2"}
    rows = await talk.rows(
        "SELECT result->>'data' AS data FROM agent_tool_executions ORDER BY call_id"
    )
    assert rows[0]["data"] is None, "the result of a reading is never on record"
    assert "salary" in rows[1]["data"]
    assert [each["kind"] for each in await kept(talk)] == ["procedural"]
    await talk.do("DELETE FROM memories")
    await remember(talk)
    assert [each["kind"] for each in await kept(talk)] == ["procedural"]


async def test_memory_of_another_turn_stays_after_a_deletion_or_edit(
    talk: StoredConversation,
) -> None:
    await done(talk)
    await remember(talk)
    await talk.hear(mention(10, "And now?"))
    await talk.turn(2)
    await remember(talk, 2)
    await talk.hear(edit(0, "other words", 20), deletion(10))
    assert [each["key"] for each in await kept(talk) if each["kind"] == "episodic"] == [
        turn_id(THREAD, 1)
    ]
