"""How often an interrupted turn is run again."""

from threadline.threads.retrying import LOST_WORKERS, PATIENCE, Attempts, Fault, FaultKind

LOST = Fault(FaultKind.LOST, "lost")
OVERLOADED = Fault(FaultKind.TRANSIENT, "overloaded")


def test_lost_worker_costs_no_patience_but_not_for_ever() -> None:
    attempts = Attempts()
    assert [attempts.delay(LOST, 0.0) for _ in range(LOST_WORKERS)] == [1.0] * LOST_WORKERS
    assert attempts.delay(LOST, 0.0) is None


def test_transient_faults_back_off_from_ten_seconds_to_ten_minutes_for_an_hour() -> None:
    attempts, now, delays = Attempts(), 0.0, []
    while (delay := attempts.delay(OVERLOADED, now)) is not None:
        delays.append(delay)
        now += delay
    assert delays[:7] == [10, 20, 40, 80, 160, 320, 600]
    assert set(delays[7:]) == {600.0}
    assert PATIENCE <= now <= PATIENCE + 600


def test_retry_after_lengthens_the_delay() -> None:
    assert Attempts().delay(Fault(FaultKind.TRANSIENT, "wait", retry_after=45.0), 0.0) == 45.0


def test_permanent_fault_is_not_retried() -> None:
    assert Attempts().delay(Fault(FaultKind.PERMANENT, "bad request"), 0.0) is None
