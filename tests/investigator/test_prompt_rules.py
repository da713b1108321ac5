"""The contents of a turn's prompt."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.investigator.investigator_scene import a_claim
from threadline.cases.model import Entry, WorkflowState
from threadline.investigator import prompt as prompts

CLAIM = a_claim(turn=3, state=WorkflowState.AWAITING_DEV)
FLAGS = (prompts.NO_QUESTION, prompts.NO_ANSWER, prompts.MAY_EDIT)


def _entries(count: int, size: int) -> list[Entry]:
    at = datetime(2026, 11, 21, tzinfo=UTC)
    return [
        Entry(seq, "reporter", "U1", "message", f"#{seq} " + "x" * size, at)
        for seq in range(1, count + 1)
    ]


def test_prompt_names_the_case_the_turn_and_the_tool_to_begin_with() -> None:
    for state in WorkflowState:
        prompt = prompts.turn_prompt(replace(CLAIM, state=state), may_ask=True)
        assert prompt.splitlines()[0] == f"Case BUG-12, turn 3 (continuation, state {state.value})"
        assert 'get_bug_conversations("BUG-12")' in prompt
        assert not {"$", "{"} & set(prompt)
    prompt = prompts.turn_prompt(a_claim(entries=_entries(1, 3)), may_ask=True)
    assert prompt.splitlines()[0] == "Case BUG-12, turn 1 (initial)"
    assert '<message number="1" from="reporter"' in prompt


def test_limits_of_a_turn_are_shown_only_where_they_apply() -> None:
    assert not any(flag in prompts.turn_prompt(CLAIM, may_ask=True) for flag in FLAGS)
    bound = prompts.turn_prompt(
        replace(CLAIM, fix_requested_by="m1"), may_ask=False, unanswered=True
    )
    assert all(f"\n{flag}\n" in bound for flag in FLAGS)


def test_batch_that_fits_is_shown_whole() -> None:
    prompt = prompts.turn_prompt(replace(CLAIM, entries=_entries(10, 5_000)), may_ask=True)
    assert prompt.count("x" * 5_000) == 10


@pytest.mark.parametrize(("count", "size"), [(2, 40_000), (100, 700), (500, 40_000)])
def test_long_batch_is_shortened_from_its_old_end(count: int, size: int) -> None:
    prompt = prompts.turn_prompt(replace(CLAIM, entries=_entries(count, size)), may_ask=True)
    shown = prompt.count("</message>")
    assert len(prompt.encode()) < prompts.LONGEST_BATCH + 3_000
    assert f"#{count} x" in prompt
    assert f"{count - shown} earlier" in prompt


def test_system_prompt_fits_a_process_argument_and_explains_every_action() -> None:
    assert len(prompts.system().encode()) < 10_000
    assert all(
        f"`{action}`" in prompts.system()
        for action in ("ask_reporter", "post_findings", "escalate", "resolved")
    )
