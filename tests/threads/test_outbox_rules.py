"""The next step of an attempt to post, for each state of its claim."""

from typing import get_args

import pytest

from threadline.threads.outbox import STEPS, Moment, Step, next_step
from threadline.threads.store import ClaimState

CASES: list[tuple[Moment, ClaimState, Step]] = [
    (Moment.CLAIMED, "ours", Step.SEND),
    (Moment.CLAIMED, "pending", Step.SEARCH),
    (Moment.CLAIMED, "posted", Step.RETURN),
    (Moment.CLAIMED, "unrecorded", Step.RECORD),
    (Moment.CLAIMED, "invalid", Step.RETURN),
    (Moment.SEARCHED, "ours", Step.SEND),
    (Moment.SEARCHED, "pending", Step.WAIT),
    (Moment.SEARCHED, "posted", Step.RETURN),
    (Moment.SEARCHED, "unrecorded", Step.RECORD),
    (Moment.SEARCHED, "invalid", Step.RETURN),
    (Moment.SENDING, "ours", Step.SEND),
    (Moment.SENDING, "pending", Step.WAIT),
    (Moment.SENDING, "posted", Step.WAIT),
    (Moment.SENDING, "unrecorded", Step.WAIT),
    (Moment.SENDING, "invalid", Step.DROP),
]


@pytest.mark.parametrize(("moment", "state", "step"), CASES)
def test_attempt_takes_the_step_of_its_claim(
    moment: Moment, state: ClaimState, step: Step
) -> None:
    assert next_step(state, moment) is step


def test_table_has_a_step_for_each_state_and_moment() -> None:
    states = get_args(ClaimState)
    assert set(STEPS) == set(states)
    assert len(CASES) == len({case[:2] for case in CASES}) == len(states) * len(Moment)


def test_only_the_holder_of_a_claim_sends() -> None:
    senders = {
        state for state in STEPS for moment in Moment if next_step(state, moment) is Step.SEND
    }
    assert senders == {"ours"}
