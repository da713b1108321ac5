"""The time for which a chaos run waits for its threads to end."""

from tests.chaos.run import Patience


def test_run_waits_only_while_the_number_of_threads_falls() -> None:
    patience = Patience(75.0)
    looks = [(3, 0.0), (4, 74.0), (2, 75.0), (3, 149.0), (2, 150.0), (2, 151.0)]
    assert [patience.is_over(left, now) for left, now in looks] == [False] * 5 + [True]
