"""Retries of an interrupted turn: their number and their delays."""

from threadline.threads.model import GIVE_UP_AFTER, MAX_LOST_WORKERS, Fault, FaultKind, RetryBudget

LOST = Fault(FaultKind.LOST, "lost")
OVERLOADED = Fault(FaultKind.TRANSIENT, "overloaded")


def test_lost_worker_costs_no_patience_but_not_for_ever() -> None:
    budget = RetryBudget()
    assert [budget.next_delay(LOST, 0.0) for _ in range(MAX_LOST_WORKERS)] == [
        1.0
    ] * MAX_LOST_WORKERS
    assert budget.next_delay(LOST, 0.0) is None


def test_transient_faults_back_off_from_ten_seconds_to_ten_minutes_for_an_hour() -> None:
    budget = RetryBudget()
    now = 0.0
    delays = []
    while (delay := budget.next_delay(OVERLOADED, now)) is not None:
        delays.append(delay)
        now += delay
    assert delays[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert set(delays[7:]) == {600.0}
    assert GIVE_UP_AFTER <= now <= GIVE_UP_AFTER + 600


def test_retry_after_lengthens_the_delay() -> None:
    assert (
        RetryBudget().next_delay(Fault(FaultKind.TRANSIENT, "wait", retry_after=45.0), 0.0) == 45.0
    )


def test_permanent_fault_is_not_retried() -> None:
    assert RetryBudget().next_delay(Fault(FaultKind.PERMANENT, "bad request"), 0.0) is None
