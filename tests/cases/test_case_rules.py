"""The life of a case: every status leads to another, and a resolved case can be reopened."""

from threadline.cases.model import STATE_OF, TRANSITIONS, CaseStatus, WorkflowState


def test_every_status_has_its_steps_and_its_state() -> None:
    assert set(TRANSITIONS) == set(CaseStatus) == set(STATE_OF)
    assert set(STATE_OF.values()) == set(WorkflowState)


def test_every_status_can_be_reached_and_left() -> None:
    reached = {CaseStatus.NEW} | {to for steps in TRANSITIONS.values() for to in steps}
    assert reached == set(CaseStatus)
    assert all(TRANSITIONS.values())


def test_every_case_can_be_closed_and_reopened_only_by_looking_again() -> None:
    assert all(
        CaseStatus.RESOLVED in steps
        for status, steps in TRANSITIONS.items()
        if status is not CaseStatus.RESOLVED
    )
    assert TRANSITIONS[CaseStatus.RESOLVED] == {CaseStatus.INVESTIGATING}
