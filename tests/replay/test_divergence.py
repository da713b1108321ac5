"""A divergence names the event, the code's command instead of it, and a remedy."""

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest
from temporalio.client import WorkflowHistory
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, UnsandboxedWorkflowRunner

from tests.replay import diverging, histories
from tests.support.temporal import sandbox_runner
from threadline.cases.workflow import BugInvestigationWorkflow
from threadline.wiring.replay import replay_one
from threadline.wiring.temporal import WORKFLOWS

Json = dict[str, Any]


def _judge(*changed: type) -> Replayer:
    kept = [each for each in WORKFLOWS if each is not BugInvestigationWorkflow]
    return Replayer(
        workflows=[*changed, *kept],
        data_converter=pydantic_data_converter,
        workflow_runner=sandbox_runner(),
    )


def _recorded(
    name: str, edit: Callable[[list[Json]], None] = lambda events: None
) -> WorkflowHistory:
    recorded = json.loads(histories.files(name)[0].read_text(encoding="utf-8"))
    edit(recorded["events"])
    return WorkflowHistory.from_json(name, recorded)


async def _found(judge: Replayer, history: WorkflowHistory) -> str:
    found = await replay_one(judge, history)
    assert found
    return found


def _ids(history: WorkflowHistory, words: str) -> list[int]:
    """Return the ids of the events of an activity or of a kind."""
    return [event.event_id for event in history.events if words in str(event)]


@pytest.mark.parametrize(
    ("changed", "recorded", "instead"),
    [
        (diverging.OneActivityMore, "flush_messages", "fetch_report"),
        (diverging.AnotherOrder, "post_notice", "Timer machine"),  # the turn's watch of its worker
    ],
)
async def test_changed_step_is_named_with_its_event(
    changed: type, recorded: str, instead: str
) -> None:
    history = _recorded("question_answered")
    found = await _found(_judge(changed), history)
    assert found.startswith(
        f"at event {_ids(history, recorded)[0]} (ActivityTaskScheduled {recorded}): "
    )
    assert instead in found
    assert "workflow.patched" in found


async def test_diverging_one_of_equal_events_is_named() -> None:
    history = _recorded("question_answered")
    flushes = _ids(history, "flush_messages")
    assert len(flushes) > 1
    found = await _found(_judge(diverging.OneActivityMoreLater), history)
    assert found.startswith(f"at event {flushes[1]} (ActivityTaskScheduled flush_messages): ")


async def test_end_that_the_code_does_not_reach_is_named() -> None:
    history = _recorded("strangers_reply")
    found = await _found(_judge(diverging.NeverEnds), history)
    assert found.startswith(
        f"at event {history.events[-1].event_id} (WorkflowExecutionCompleted): "
    )
    assert "workflow.patched" in found


async def test_unregistered_workflow_is_named() -> None:
    found = await _found(_judge(), _recorded("agent_resolved"))
    assert found.startswith("at event 1 (WorkflowExecutionStarted BugInvestigationWorkflow): ")
    assert "not registered" in found
    assert "keep a workflow's code" in found


def _first_result(events: list[Json]) -> Json:
    ended = (event.get("activityTaskCompletedEventAttributes", {}) for event in events)
    return next(each["result"]["payloads"][0] for each in ended if each.get("result"))


def _encrypt(payload: Json) -> None:
    payload["metadata"]["encoding"] = base64.b64encode(b"binary/encrypted").decode()


def _encrypted_start(events: list[Json]) -> None:
    _encrypt(events[0]["workflowExecutionStartedEventAttributes"]["input"]["payloads"][0])


def _encrypted_result(events: list[Json]) -> None:
    _encrypt(_first_result(events))


@pytest.mark.parametrize(
    ("edit", "event"),
    [
        (_encrypted_start, "(WorkflowExecutionStarted BugInvestigationWorkflow)"),
        (_encrypted_result, "(ActivityTask"),
    ],
)
async def test_payload_without_its_key_is_named(
    edit: Callable[[list[Json]], None], event: str
) -> None:
    found = await _found(_judge(BugInvestigationWorkflow), _recorded("agent_resolved", edit))
    assert event in found.partition(": ")[0]
    assert "binary/encrypted" in found
    assert "a key is missing" in found


async def test_result_with_other_fields_is_named() -> None:
    def another_shape(events: list[Json]) -> None:
        _first_result(events)["data"] = base64.b64encode(b'{"other": 1}').decode()

    found = await _found(
        _judge(BugInvestigationWorkflow), _recorded("agent_resolved", another_shape)
    )
    assert "a field was removed" in found


async def test_code_that_raises_is_named() -> None:
    found = await _found(_judge(diverging.Raises), _recorded("agent_resolved"))
    assert "the snapshot is of another version" in found
    assert "fix the code" in found


@pytest.mark.filterwarnings(
    # the SDK drops the delayed run with its signals
    "ignore:.*run_signal:RuntimeWarning",
    "ignore:.*run_signal:pytest.PytestUnraisableExceptionWarning",
)
async def test_task_that_a_busy_machine_delays_is_replayed_again() -> None:
    diverging.Delayed.blocked[:] = [True]
    judge = Replayer(
        workflows=[diverging.Delayed],
        data_converter=pydantic_data_converter,
        workflow_runner=UnsandboxedWorkflowRunner(),  # a sandbox has a list of its own
    )
    assert await replay_one(judge, _recorded("agent_resolved")) == ""
    assert not diverging.Delayed.blocked, "the first replay was delayed"


async def test_unfinished_history_does_not_diverge() -> None:
    judge = _judge(BugInvestigationWorkflow)
    whole = _recorded("question_answered")
    starts = _ids(whole, "workflow_task_started_event_attributes")
    for length in (1, 2, *starts, *(start + 1 for start in starts), len(whole.events)):
        assert await replay_one(judge, WorkflowHistory("w", whole.events[:length])) == "", length
