"""A turn fails on the real CLI: for good, or so that it may be tried again."""

from dataclasses import replace

import pytest

from tests.investigator.investigator_scene import InvestigatorScene, running_agents
from threadline.cases.model import WorkflowState
from threadline.errors import Permanent, Transient
from threadline_devstack.models.script import ScriptTurn

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.mark.parametrize(
    ("status", "error", "told"),
    [
        (529, Transient, "HTTP 529"),
        (403, Permanent, "refused the key"),
        (404, Permanent, "model"),
        (400, Permanent, "refused the turn"),
    ],
)
async def test_error_of_the_api_is_permanent_or_transient(
    bench: InvestigatorScene, status: int, error: type[Exception], told: str
) -> None:
    bench.model.fail_next(50, status=status)
    with pytest.raises(error, match=told):
        await bench.run()


async def test_rate_limit_is_transient_and_passes_its_wait_on(bench: InvestigatorScene) -> None:
    bench.model.fail_next(50, status=429, retry_after=1)
    with pytest.raises(Transient, match="HTTP 429") as failed:
        await bench.run()
    assert failed.value.retry_after is not None
    assert failed.value.retry_after >= 1


async def test_unreachable_api_is_transient(bench: InvestigatorScene) -> None:
    bench.config = replace(bench.config, base_url="http://127.0.0.1:9")
    with pytest.raises(Transient, match="did not answer"):
        await bench.run()


@pytest.mark.parametrize("event", [False, True])
async def test_reply_that_breaks_off_each_time_is_transient(
    bench: InvestigatorScene, event: bool
) -> None:
    async def script(turn: ScriptTurn) -> None:
        await (turn.sse_error() if event else turn.disconnect())

    bench.model.script(script)
    with pytest.raises(Transient, match="did not answer"):
        await bench.run()


async def _calls_tools_for_ever(turn: ScriptTurn) -> None:
    while True:
        await turn.call("mcp__bug__get_bug", bug_id="BUG-12")


async def _thinks_for_ever(turn: ScriptTurn) -> None:
    await turn.hold("for ever")


async def _thinks_for_ever_after_a_tool(turn: ScriptTurn) -> None:
    await turn.call("mcp__bug__get_bug", bug_id="BUG-12")
    await turn.hold("for ever")


async def test_agent_is_stopped_at_its_limit_of_steps(bench: InvestigatorScene) -> None:
    bench.config = replace(bench.config, max_turns=4)
    bench.model.script(_calls_tools_for_ever)
    with pytest.raises(Permanent, match="used up its steps"):
        await bench.run()
    assert len(bench.model.log) == 4
    assert bench.usage.input_tokens > 0


async def test_agent_is_stopped_at_its_budget(bench: InvestigatorScene) -> None:
    bench.model.script(_calls_tools_for_ever)
    with pytest.raises(Permanent, match="used up its budget"):
        await bench.run(budget_usd=0.01)


async def test_turn_that_takes_too_long_is_stopped_for_good(bench: InvestigatorScene) -> None:
    bench.model.script(_thinks_for_ever_after_a_tool)
    with pytest.raises(Permanent, match="longer than 8 s"):
        await bench.run(timeout=8.0)
    assert bench.usage.cost_usd > 0
    assert running_agents() == []


async def test_silent_agent_is_broken_off(bench: InvestigatorScene) -> None:
    bench.config = replace(bench.config, stale_after=2.0)
    bench.model.script(_thinks_for_ever)
    with pytest.raises(Transient, match="silent for 2 s"):
        await bench.run()
    assert running_agents() == []


async def test_missing_workspace_is_permanent(bench: InvestigatorScene) -> None:
    with pytest.raises(Permanent, match="Working directory does not exist"):
        await bench.run(workspace=bench.workspace / "gone")


REFUSALS = [
    (400, "unknown"),
    (413, "too large"),
    (422, "odd role"),
    (403, "refused by a filter"),
    (404, "no such block"),
]


def _poison(bench: InvestigatorScene, status: int) -> None:
    """Refuse each request that continues the first turn, as an API does with a transcript that it
    cannot take.
    """

    async def script(turn: ScriptTurn) -> None:
        if len(turn.prompts) > 1 and "turn 1 (initial)" in turn.prompts[0]:
            await turn.error(status)
        await turn.finish(**bench.outcome(summary="A fresh answer"))

    bench.model.script(script)


@pytest.mark.parametrize(("status", "_why"), REFUSALS)
async def test_transcript_that_the_api_refuses_ends_no_case(
    bench: InvestigatorScene, status: int, _why: str
) -> None:
    bench.answers(summary="The answer that nobody takes")
    first = bench.turn()
    await bench.investigator.run(first, bench.usage)
    _poison(bench, status)
    parent = first.claim.session_id
    for number in (2, 3, 4):
        turn = bench.turn(number=number, parent_session=parent, state=WorkflowState.AWAITING_DEV)
        outcome = await bench.investigator.run(turn, bench.usage)
        assert outcome.result["summary"] == "A fresh answer"
        told = [prompt.splitlines()[0] for prompt in bench.model.log[-1].conversation.prompts]
        assert len(told) == number - 1, "the refused transcript is not resumed again"
        assert told[0].startswith("Case BUG-12, turn 2")
        parent = turn.claim.session_id
    assert "Your memory of the earlier turns" in bench.model.log[-1].conversation.prompts[0]
    assert running_agents() == []


async def test_refusal_after_a_reply_is_no_lost_session(bench: InvestigatorScene) -> None:
    bench.answers()
    first = bench.turn()
    await bench.investigator.run(first, bench.usage)
    asked = len(bench.model.log)

    async def script(turn: ScriptTurn) -> None:
        await turn.call("mcp__bug__get_bug", bug_id="BUG-12")
        await turn.error(400)

    bench.model.script(script)
    with pytest.raises(Permanent, match="refused the turn"):
        await bench.run(
            number=2, parent_session=first.claim.session_id, state=WorkflowState.AWAITING_DEV
        )
    assert not any(
        "Your memory" in each.conversation.prompt for each in list(bench.model.log)[asked:]
    )


async def test_refusal_without_the_transcript_too_is_permanent(bench: InvestigatorScene) -> None:
    bench.answers()
    first = bench.turn()
    await bench.investigator.run(first, bench.usage)
    bench.model.fail_next(50, status=400)
    with pytest.raises(Permanent, match="refused the turn"):
        await bench.run(
            number=2, parent_session=first.claim.session_id, state=WorkflowState.AWAITING_DEV
        )
