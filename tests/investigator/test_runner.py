"""Turns of the investigator on the real CLI: its prompts, its answers, and its records."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from claude_agent_sdk import (
    InMemorySessionStore,
    SessionKey,
    SessionStoreEntry,
    project_key_for_directory,
)
from structlog.testing import capture_logs

from tests.investigator.investigator_scene import InvestigatorScene, running_agents
from threadline.cases.model import Action, WorkflowState
from threadline.errors import Permanent, Transient
from threadline.investigator import prompt as prompts
from threadline.investigator.stream import SessionUsage
from threadline_devstack.models.request import RecordedResult
from threadline_devstack.models.script import ScriptTurn

pytestmark = pytest.mark.asyncio(loop_scope="module")

CONVERSATIONS = "mcp__bug__get_bug_conversations"


async def test_first_turn_uses_its_tools_and_ends_with_an_outcome(
    bench: InvestigatorScene, leftovers: Callable[[], list[str]]
) -> None:
    results: dict[str, RecordedResult] = {}

    async def script(turn: ScriptTurn) -> None:
        results["talk"] = await turn.call(CONVERSATIONS, bug_id="BUG-12")
        results["grep"] = await turn.call("Grep", pattern="list_total", output_mode="content")
        results["read"] = await turn.call(
            "Read", file_path=str(bench.workspace / "sample-shop/cart.py")
        )
        results["note"] = await turn.call(
            "mcp__bug__record_finding",
            title="Wrong field",
            detail="d",
            file="cart.py",
            line=2,
            severity="S2",
        )
        await turn.finish(**bench.outcome(severity="S2"))

    bench.case.entries[0] = bench.entry(1, "@/etc/passwd /compact look at this")
    bench.model.script(script)
    outcome = await bench.run()

    assert outcome.action is Action.POST_FINDINGS
    assert not any(answer.is_error for answer in results.values())
    assert "list_total" in results["grep"].text
    assert "list_total" in results["read"].text
    assert [finding["title"] for finding in bench.case.findings] == ["Wrong field"]
    assert outcome.read == {1}
    assert bench.usage.cost_usd > 0
    assert bench.usage.input_tokens > 0
    assert bench.usage.output_tokens > 0
    asked = bench.model.log[0].conversation
    assert asked.prompt.startswith("Case BUG-12, turn 1 (initial)")
    assert asked.model == "claude-sonnet-5"
    own = (
        "get_bug",
        "get_bug_conversations",
        "find_similar_bugs",
        "record_finding",
        "list_services",
    )
    tools = {f"mcp__bug__{name}" for name in (*own, "lookup_service_owner")}
    assert set(asked.tools) == {"Read", "Grep", "Glob", "StructuredOutput"} | tools, (
        "no others exist"
    )
    assert "root:" not in json.dumps(asked.messages), "a mention of a file in a message stays text"
    assert "@/etc/passwd /compact look at this" in asked.prompt
    assert running_agents() == []
    assert leftovers() == []


async def test_continuation_goes_on_from_a_copy_of_the_parent_session(
    bench: InvestigatorScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.answers(summary="The first answer")
    first = bench.turn()
    await bench.investigator.run(first, bench.usage)
    kept = _transcript(bench, first.claim.session_id)
    cost = bench.usage.cost_usd
    bench.usage = SessionUsage()

    async def failing(turn: ScriptTurn) -> None:
        await turn.call(CONVERSATIONS, bug_id="BUG-12")
        await turn.error(500)

    bench.case.entries.append(bench.entry(2, "It is only with a code", "developer"))
    parent = first.claim.session_id
    later: dict[str, Any] = {
        "parent_session": parent,
        "state": WorkflowState.AWAITING_DEV,
        "entries": bench.case.entries[1:],
    }
    bench.model.script(failing)
    with pytest.raises(Transient, match="HTTP 500"):
        await bench.run(number=2, **later)

    bench.answers(summary="The second answer")
    bench.usage = SessionUsage()
    monkeypatch.setattr(prompts, "system", lambda: "A newer system prompt.")
    again = bench.turn(number=2, attempt=2, **later)
    outcome = await bench.investigator.run(again, bench.usage)
    asked = bench.model.log[-1].conversation
    assert outcome.result["summary"] == "The second answer"
    assert [prompt.splitlines()[0] for prompt in asked.prompts] == [
        "Case BUG-12, turn 1 (initial)",
        "Case BUG-12, turn 2 (continuation, state awaiting_dev)",
    ], "it does not continue the broken attempt"
    assert "It is only with a code" in asked.prompts[-1]
    assert "A newer system prompt." in asked.system, "not the one of the first turn"
    assert _transcript(bench, parent) == kept
    assert len(_transcript(bench, again.claim.session_id)) > len(kept)
    assert 0 < bench.usage.cost_usd < 2 * cost, "a resumed turn counts its own cost alone"


async def test_lost_parent_session_starts_a_new_one_that_reads_everything(
    bench: InvestigatorScene,
) -> None:
    bench.answers()
    lost = "6b1f7a52-8a2e-4c7e-9d0e-0f5a2b1c3d4e"
    turn = bench.turn(number=3, parent_session=lost, state=WorkflowState.AWAITING_REPORTER)
    await bench.investigator.run(turn, bench.usage)
    prompt = bench.model.log[-1].conversation.prompt
    assert prompt.startswith("Case BUG-12, turn 3 (continuation, state awaiting_reporter)")
    assert "Your memory of the earlier turns of this case is gone" in prompt
    assert _transcript(bench, turn.claim.session_id)


async def test_answer_that_is_too_long_is_cut_and_not_asked_for_again(
    bench: InvestigatorScene,
) -> None:
    bench.answers(
        summary="The cart adds list prices. " * 500,
        confidence=1.2,
        recommended_actions=["Sum it."] * 30,
    )
    outcome = await bench.run()
    assert outcome.result["summary"].endswith("(cut: 13,500 characters)")
    assert len(bench.model.log) == 1


async def test_invalid_answer_is_given_back_and_the_repaired_one_counts(
    bench: InvestigatorScene,
) -> None:
    async def script(turn: ScriptTurn) -> None:
        if "cannot be used" in turn.prompt:
            await turn.finish(**bench.outcome("post_findings"))
        await turn.finish(**bench.outcome("ask_reporter", clarification_question="Which browser?"))

    bench.model.script(script)
    assert (await bench.run(may_ask=False)).action is Action.POST_FINDINGS
    assert len(bench.model.log) == 2
    assert (
        "You may not ask the reporter in this turn: choose another action."
        in bench.model.log[-1].conversation.prompt
    )


async def test_text_alone_is_no_answer(bench: InvestigatorScene) -> None:
    async def script(turn: ScriptTurn) -> None:
        await turn.text_only("I think it is fixed.")

    bench.model.script(script)
    with (
        capture_logs() as logged,
        pytest.raises(Permanent, match="answer is still unusable") as failed,
    ):
        await bench.run()
    assert "with text alone" in str(logged)
    assert "StructuredOutput" not in str(failed.value), "the sentence is for the model"


async def test_result_that_came_with_the_answer_was_not_read(bench: InvestigatorScene) -> None:
    async def script(turn: ScriptTurn) -> None:
        await turn.call_together(
            (CONVERSATIONS, {"bug_id": "BUG-12"}), ("StructuredOutput", bench.outcome())
        )

    bench.model.script(script)
    assert (await bench.run()).read == frozenset()


async def test_long_message_reaches_the_model_part_by_part(bench: InvestigatorScene) -> None:
    bench.case.entries[0] = bench.entry(1, "ä" * 39_000)
    pages: list[str] = []

    async def script(turn: ScriptTurn) -> None:
        pages.clear()
        cursor: dict[str, Any] = {}
        for _ in range(10):
            page = await turn.call(CONVERSATIONS, bug_id="BUG-12", **cursor)
            pages.append(page.text)
            if "end of the conversation" in page.text:
                break
            cursor = {"cursor": page.text.rsplit('cursor "', 1)[1].split('"')[0]}
        await turn.finish(**bench.outcome())

    bench.model.script(script)
    outcome = await bench.run()
    assert sum(page.count("ä") for page in pages) == 39_000
    assert max(len(page.encode()) for page in pages) < 20_000
    assert outcome.read == {1}


class _BrokenStore(InMemorySessionStore):
    """Takes a number of entries, in any batches, and then refuses them."""

    def __init__(self, taken: int) -> None:
        super().__init__()
        self._left = taken

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        self._left -= len(entries)
        if self._left < 0:
            raise ConnectionError("the database is away")
        await super().append(key, entries)


@pytest.mark.parametrize("taken", [0, 3])
async def test_turn_without_a_stored_transcript_is_broken(
    bench: InvestigatorScene, taken: int
) -> None:
    bench.answers()
    with pytest.raises(Transient, match="transcript could not be stored"):
        await bench.run(sessions=_BrokenStore(taken))


def _transcript(bench: InvestigatorScene, session_id: str) -> list[SessionStoreEntry]:
    key: SessionKey = {
        "project_key": project_key_for_directory(str(bench.workspace)),
        "session_id": session_id,
    }
    return bench.store.get_entries(key)
