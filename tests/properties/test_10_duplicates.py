"""Property 10: whoever says the same in the same thread within 120 seconds is told apart from who does not."""

import itertools

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from threadline.db.engine import Database
from threadline.threads.addressing import Thread

NOW = 1_772_000_000.0
WINDOW = 120
_examples = itertools.count(1)
"""Examples share a database, so each has a team of its own."""

any_text = st.text(st.characters(), max_size=40)
gaps = st.integers(0, 4 * WINDOW).map(lambda halves: halves / 2)
utterances = st.lists(st.tuples(st.integers(0, 2), gaps), min_size=2, max_size=8)
of_many = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])


@of_many
@given(user=any_text, channel=any_text, root=any_text, text=any_text, gap=gaps)
@example(user="U1", channel="C1", root="1", text="hello", gap=WINDOW - 0.5)
@example(user="U1", channel="C1", root="1", text="hello", gap=WINDOW)
async def test_property_10_the_second_of_two_within_the_window_is_a_duplicate(
    database: Database, user: str, channel: str, root: str, text: str, gap: float
) -> None:
    """Property 10: duplicate message detection."""
    team = f"T{next(_examples)}"
    thread = Thread(team, channel, root)
    async with database.begin() as work:
        judge = work.limits.is_duplicate
        assert not await judge(thread, user, text, f"{team}:1", NOW)
        second = await judge(thread, user, text, f"{team}:2", NOW + gap)
        assert second == (gap < WINDOW)
        assert await judge(thread, user, text, f"{team}:2", NOW + 10 * gap) == second


@of_many
@given(utterances)
async def test_property_10_holds_for_any_sequence_and_for_every_repeated_question(
    database: Database, said: list[tuple[int, float]]
) -> None:
    """Property 10: duplicate message detection, against a model that remembers when each text was last said."""
    thread = Thread(f"T{next(_examples)}", "C1", "1")
    last: dict[int, float] = {}
    now, verdicts = NOW, list[bool]()
    async with database.begin() as work:
        for number, (words, gap) in enumerate(said):
            now += gap
            verdicts.append(await work.limits.is_duplicate(thread, "U1", str(words), f"{thread.team}:{number}", now))
            assert verdicts[-1] == (words in last and now - last[words] < WINDOW)
            last[words] = now
        for number, (words, _) in enumerate(said):
            again = await work.limits.is_duplicate(thread, "U1", str(words), f"{thread.team}:{number}", now)
            assert again == verdicts[number]
