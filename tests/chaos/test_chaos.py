"""A few seeds of the chaos; `make chaos RUNS=200` runs many, and docs/guarantees.md has their figures."""

import pytest

from tests.chaos.plan import plan_of
from tests.chaos.run import evidence_of, play
from tests.chaos.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

DROPS = "slack gives up"
ALWAYS = {"reopened", "closed", "continued", "answered", "items"}
"""What happens in every run that is a storm at all; more where the faults are such."""


@pytest.mark.promise("intake:storing:chaos", "turn:batch:chaos", "post:once:chaos", "case:ends:chaos")
@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        pytest.param(1, ("kill core in a post", "duplicates", "results late and lost", "terminate"), id="core"),
        pytest.param(2, ("kill agents in a turn", "kill gateway", DROPS, "rate limits", "cancel"), id="edges"),
        pytest.param(3, ("kill postgres", "kill temporal", "late and out of order", "disk full"), id="servers"),
    ],
)
async def test_nothing_is_lost_and_nothing_is_answered_twice(stage: Stage, seed: int, kinds: tuple[str, ...]) -> None:
    outcome = await play(stage, plan_of(seed, kinds=kinds))
    assert not outcome.faults, evidence_of(outcome)
    due = ALWAYS | ({"interrupted"} if "disk full" in kinds else set()) | ({"caught_up"} if DROPS in kinds else set())
    calm = [what for what in due if not outcome.happened[what]]
    assert not calm, f"seed {seed} was no storm: nothing was {' or '.join(calm)}"
