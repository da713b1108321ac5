"""A few seeds of the chaos; `make chaos RUNS=200` runs many, and docs/guarantees.md has their figures."""

import pytest

from tests.chaos.plan import plan_of
from tests.chaos.run import evidence_of, play
from tests.chaos.stage import Stage

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

DROPS = "slack gives up"
CANCEL, TERMINATE = ("cancel", "cancel a talk"), ("terminate", "terminate a talk")
ALWAYS = {"reopened", "closed", "continued", "answered", "items", "relayed"}
DUE = {"disk full": "interrupted", DROPS: "caught_up"}
DUE |= {"cancel a talk": "talks_cancelled", "terminate a talk": "talks_terminated"}
"""What happens in every run that is a storm at all, and what else by the faults that it has."""


@pytest.mark.parametrize(
    ("seed", "kinds"),
    [
        pytest.param(1, ("kill core in a post", "duplicates", "results late and lost", *TERMINATE), id="core"),
        pytest.param(2, ("kill agents in a turn", "kill gateway", DROPS, "rate limits", *CANCEL), id="edges"),
        pytest.param(3, ("kill postgres", "kill temporal", "late and out of order", "disk full"), id="servers"),
    ],
)
async def test_nothing_is_lost_and_nothing_is_answered_twice(stage: Stage, seed: int, kinds: tuple[str, ...]) -> None:
    outcome = await play(stage, plan_of(seed, kinds=kinds))
    assert not outcome.faults, evidence_of(outcome)
    due = ALWAYS | {DUE[kind] for kind in kinds if kind in DUE}
    calm = [what for what in due if not outcome.happened[what]]
    assert not calm, f"seed {seed} was no storm: nothing was {' or '.join(calm)}"
