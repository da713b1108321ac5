"""Property 13: whoever has asked more than ten times within the last 60 seconds is throttled."""

import itertools

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Verdict

NOW = 1_772_000_000.0
WINDOW, MOST = 60, 10
_examples = itertools.count(1)
"""Examples share a database, so each has a team of its own."""

gaps = st.one_of(st.just(0.0), st.integers(0, 20).map(lambda halves: halves / 2), st.integers(0, 2 * WINDOW).map(float))
requests = st.lists(st.tuples(st.integers(1, 2), gaps), min_size=1, max_size=30)
of_many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


def expected(times: list[float], told: list[float]) -> Verdict:
    """By counting: `times` are all of a person's requests, the one that is judged last."""
    now = times[-1]
    if sum(now - at < WINDOW for at in times) <= MOST:
        return Verdict.OK
    return Verdict.THROTTLED if any(now - at < WINDOW for at in told) else Verdict.THROTTLED_FIRST


@of_many
@given(requests)
@example([(1, 0.0)] * 10)
@example([(1, 0.0)] * 11)
@example([(1, 0.0)] * 10 + [(1, WINDOW - 0.5)])
@example([(1, 0.0)] * 10 + [(1, float(WINDOW))])
async def test_property_13_more_than_ten_within_a_minute_are_throttled_and_told_once(
    database: Database, asked: list[tuple[int, float]]
) -> None:
    """Property 13: user abuse throttling, for two people at once, with every question repeated."""
    team = f"T{next(_examples)}"
    times: dict[int, list[float]] = {1: [], 2: []}
    told: dict[int, list[float]] = {1: [], 2: []}
    verdicts = list[Verdict]()
    now = NOW
    async with database.begin() as work:
        for number, (person, gap) in enumerate(asked):
            now += gap
            times[person].append(now)
            verdicts.append(await work.limits.of_user(team, f"U{person}", f"{team}:{number}", now))
            assert verdicts[-1] is expected(times[person], told[person])
            if verdicts[-1] is Verdict.THROTTLED_FIRST:
                told[person].append(now)
        for number, (person, _) in enumerate(asked):
            again = await work.limits.of_user(team, f"U{person}", f"{team}:{number}", now + 7)
            assert again is verdicts[number]
