"""A few seeds of the chaos; `make chaos RUNS=200` runs many, and docs/guarantees.md has their
figures.
"""

import pytest

from tests.chaos.plan import plan_of
from tests.chaos.run import play
from tests.chaos.stack import ChaosStack

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

CANCEL = ("cancel", "cancel a conversation")
TERMINATE = ("terminate", "terminate a conversation")
ALWAYS = {"reopened", "closed", "continued", "answered", "items", "relayed"}
"""Events that occur in every run that is hard enough."""
DUE = {
    "disk full": {"interrupted", "waits_for_mending", "installation_faults"},
    "slack gives up": {"caught_up"},
    "invalid auth": {"installation_faults"},
    "agents away": {"waits_for_worker", "installation_faults"},
    "cancel a conversation": {"conversations_cancelled"},
    "terminate a conversation": {"conversations_terminated"},
}
"""Additional events in a run with these faults."""


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        pytest.param(
            1,
            ("kill core in a post", "duplicates", "results late and lost", *TERMINATE),
            id="core",
        ),
        pytest.param(
            2,
            ("kill agents in a turn", "kill gateway", "slack gives up", "rate limits", *CANCEL),
            id="edges",
        ),
        pytest.param(
            3,
            ("kill postgres", "kill temporal", "late and out of order", "disk full"),
            id="servers",
        ),
        pytest.param(4, ("slack forgets", "kill core", "duplicates"), id="memory"),
        pytest.param(
            5, ("invalid auth", "agents away", "late and out of order"), id="installation"
        ),
    ],
)
async def test_nothing_is_lost_and_nothing_is_answered_twice(
    stack: ChaosStack, seed: int, kinds: tuple[str, ...]
) -> None:
    outcome = await play(stack, plan_of(seed, kinds=kinds))
    assert not outcome.faults, outcome.report
    due = ALWAYS.union(*(DUE.get(kind, set()) for kind in kinds))
    absent = [what for what in due if not outcome.counts[what]]
    assert not absent, f"seed {seed} was too easy: nothing was {' or '.join(absent)}"
