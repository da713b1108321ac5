"""The arithmetic of the SLA clock."""

from hypothesis import given
from hypothesis import strategies as st

from threadline.cases.model import (
    DAY,
    DEFAULT_TARGETS,
    HOUR,
    MINUTE,
    Severity,
    SlaEventKind,
    SlaTarget,
)
from threadline.cases.sla import BREACHES, next_event, tier_for

S1 = DEFAULT_TARGETS[Severity.S1]


def test_default_targets() -> None:
    assert {
        Severity.S1: SlaTarget(15 * MINUTE, 4 * HOUR),
        Severity.S2: SlaTarget(1 * HOUR, 24 * HOUR),
        Severity.S3: SlaTarget(8 * HOUR, 5 * DAY),
        Severity.S4: SlaTarget(24 * HOUR, 14 * DAY),
    } == DEFAULT_TARGETS


def test_reminder_at_half_breach_at_full_then_once_a_day() -> None:
    fired = 0
    last = 1000.0
    plan = []
    for _ in range(6):
        event = next_event(1000.0, S1, fired, last, acknowledged=False)
        plan.append((event.kind, event.at - 1000.0))
        fired = event.ordinal
        last = event.at
    assert plan == [
        (SlaEventKind.ACKNOWLEDGE_REMINDER, 7.5 * MINUTE),
        (SlaEventKind.ACKNOWLEDGE_BREACH, 15 * MINUTE),
        (SlaEventKind.RESOLVE_REMINDER, 2 * HOUR),
        (SlaEventKind.RESOLVE_BREACH, 4 * HOUR),
        (SlaEventKind.DAILY_REMINDER, 4 * HOUR + DAY),
        (SlaEventKind.DAILY_REMINDER, 4 * HOUR + 2 * DAY),
    ]


def test_acknowledged_escalation_is_only_measured_by_its_resolution() -> None:
    assert next_event(0.0, S1, 0, 0.0, acknowledged=True).kind is SlaEventKind.RESOLVE_REMINDER


@given(st.floats(1, 1e6), st.floats(1, 1e7), st.integers(0, 12), st.floats(0, 1e8), st.booleans())
def test_next_event_is_never_one_that_has_fired(
    acknowledge: float, resolve: float, fired: int, last: float, acknowledged: bool
) -> None:
    event = next_event(
        0.0, SlaTarget(acknowledge, resolve), fired, last, acknowledged=acknowledged
    )
    assert event.ordinal > fired


def test_second_breach_calls_the_next_tier_and_the_last_is_kept() -> None:
    breach = SlaEventKind.RESOLVE_BREACH
    assert [tier_for(breach, breaches, 3) for breaches in (1, 2, 3, 9)] == [0, 1, 2, 2]
    assert tier_for(SlaEventKind.ACKNOWLEDGE_REMINDER, 0, 3) == 0
    assert tier_for(breach, 2, 0) == 0
    assert breach in BREACHES
    assert SlaEventKind.DAILY_REMINDER not in BREACHES
