"""How a turn fails, on the real CLI: on which side each failure lands, and what it tells."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from threadline.errors import Permanent, Transient
from threadline.investigator.errors import TurnBroken, TurnRefused
from threadline_devstack.models import Turn

if TYPE_CHECKING:
    from tests.investigator.conftest import Bench

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_busy_api_is_transient(bench: "Bench") -> None:
    bench.model.fail_next(50, status=529)
    with pytest.raises(Transient, match="HTTP 529"):
        await bench.first_turn()


async def test_rate_limit_is_transient_and_the_wait_that_it_names_is_passed_on(bench: "Bench") -> None:
    bench.model.fail_next(50, status=429, retry_after=1)
    with pytest.raises(Transient, match="HTTP 429") as failed:
        await bench.first_turn()
    assert failed.value.retry_after is not None
    assert failed.value.retry_after >= 1


@pytest.mark.parametrize(("status", "told"), [(403, "refused the key"), (404, "model"), (400, "refused the turn")])
async def test_refusing_api_is_permanent(bench: "Bench", status: int, told: str) -> None:
    bench.model.fail_next(50, status=status)
    with pytest.raises(Permanent, match=told):
        await bench.first_turn()


async def test_api_that_is_not_there_is_transient(bench: "Bench") -> None:
    bench.config = replace(bench.config, base_url="http://127.0.0.1:9")
    with pytest.raises(Transient, match="did not answer"):
        await bench.first_turn()


@pytest.mark.parametrize("event", [False, True])
async def test_reply_that_breaks_off_each_time_is_transient(bench: "Bench", event: bool) -> None:
    async def script(turn: Turn) -> None:
        await (turn.sse_error() if event else turn.break_off())

    bench.model.script(script)
    with pytest.raises(Transient, match="did not answer"):
        await bench.first_turn()


async def test_agent_that_never_ends_is_stopped_at_its_limit_of_steps(bench: "Bench") -> None:
    async def script(turn: Turn) -> None:
        while True:
            await turn.call("mcp__bug__get_bug", bug_id="BUG-12")

    bench.config = replace(bench.config, max_turns=4)
    bench.model.script(script)
    with pytest.raises(TurnRefused, match="used up its steps") as failed:
        await bench.first_turn()
    assert len(bench.model.log) == 4
    assert failed.value.spend.input_tokens > 0


async def test_agent_is_stopped_at_its_budget(bench: "Bench") -> None:
    async def script(turn: Turn) -> None:
        while True:
            await turn.call("mcp__bug__get_bug", bug_id="BUG-12")

    bench.model.script(script)
    with pytest.raises(TurnRefused, match="used up its budget"):
        await bench.first_turn(budget_usd=0.01)


async def test_turn_that_takes_too_long_is_stopped_for_good(bench: "Bench") -> None:
    async def script(turn: Turn) -> None:
        await turn.call("mcp__bug__get_bug", bug_id="BUG-12")
        await turn.hold("for ever")

    bench.model.script(script)
    with pytest.raises(TurnRefused, match="took longer than 4 s") as failed:
        await bench.first_turn(timeout=4.0)
    assert failed.value.spend.cost_usd > 0
    assert bench.running() == []


async def test_silent_agent_is_broken_off(bench: "Bench") -> None:
    async def script(turn: Turn) -> None:
        await turn.hold("for ever")

    bench.config = replace(bench.config, stale_after=2.0)
    bench.model.script(script)
    with pytest.raises(TurnBroken, match="silent for 2 s"):
        await bench.first_turn()
    assert bench.running() == []


async def test_error_of_whoever_counts_the_pulse_stops_the_turn_as_it_is(bench: "Bench") -> None:
    class ClaimGone(Exception):
        pass

    def pulse() -> None:
        raise ClaimGone

    async def script(turn: Turn) -> None:
        await turn.call("mcp__bug__get_bug", bug_id="BUG-12")
        await turn.hold("for ever")

    bench.model.script(script)
    started = time.monotonic()
    with pytest.raises(ClaimGone):
        await bench.investigator.run_investigation(bench.brief(), bench.case, bench.store, pulse=pulse)
    assert time.monotonic() - started < 4
    assert bench.running() == []


async def test_missing_workspace_is_permanent_and_says_so(bench: "Bench") -> None:
    with pytest.raises(Permanent, match="Working directory does not exist"):
        await bench.first_turn(workspace=bench.workspace / "gone")
