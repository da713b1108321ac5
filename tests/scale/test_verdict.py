"""The verdict finds each fault that is planted in plain data, also beside other faults."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.client import WorkflowExecutionStatus, WorkflowHistory

from tests.chaos.evidence import Evidence
from tests.chaos.live_checks import judge_histories
from tests.chaos.oracle import Fault
from tests.chaos.scripted import words_of
from tests.replay import histories
from tests.scale import run
from tests.scale.run import TINY, Run, unrest
from tests.scale.stack import ScaleStack
from tests.scale.verdict import REPLAYED, Findings, judge, sample
from threadline.conversations.model.conversation import OutcomeKind
from threadline.errors import Transient
from threadline_devstack.slack.workspace import SlackWorkspace, populate

TALK = "T:C:1.1"


def _turn(kind: str) -> Any:
    ended = {
        "kind": kind,
        "answer": "I have read nothing.",
        "said": True,
        "agent": "assistant",
        "rfp_id": "",
        "entries": 0,
    }
    return SimpleNamespace(thread=TALK, turn=1, **ended)


def _case(status: str) -> Any:
    return SimpleNamespace(
        thread="BUG-1", place="C:1.1", status=status, closings=1, summary_channel=""
    )


def _broken(status: str, failure: str) -> Any:
    return SimpleNamespace(thread="BUG-1", turn=2, status=status, failure=failure)


def _run(
    status: WorkflowExecutionStatus, id_: str = "conversation:T:C:1.1", kind: str = "Conversation"
) -> Any:
    return SimpleNamespace(id=id_, run_id="r1", status=status, workflow_type=kind)


def _history(*, changed: bool = False, failed: int = 0) -> WorkflowHistory:
    """Return a recorded history. `changed`: with another activity; `failed`: until its first task,
    which failed with this error.
    """
    (file, *_) = histories.files("question_answered")
    told = file.read_text(encoding="utf-8")
    history = WorkflowHistory.from_json(
        file.stem, told.replace('"flush_messages"', '"flush_all"') if changed else told
    )
    if not failed:
        return history
    started = next(
        each
        for each in history.events
        if each.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
    )
    task = type(started)(
        event_id=started.event_id + 1, event_type=EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
    )
    task.workflow_task_failed_event_attributes.scheduled_event_id = started.event_id - 1
    task.workflow_task_failed_event_attributes.started_event_id = started.event_id
    task.workflow_task_failed_event_attributes.cause = WorkflowTaskFailedCause.ValueType(failed)
    return replace(history, events=[*history.events[: started.event_id], task])


WHOLE = Findings(
    Evidence({}, cases=[_case("pending_verification"), _case("awaiting_reporter")]),
    failed_tasks={"core-1": 0.0, "core-2": 0.0},
    runs=[
        _run(WorkflowExecutionStatus.RUNNING),
        _run(WorkflowExecutionStatus.RUNNING, "bug:T:C:1.1"),
        _run(WorkflowExecutionStatus.CONTINUED_AS_NEW),
        _run(WorkflowExecutionStatus.COMPLETED, "route:T:C:1.1"),
    ],
)
UNANSWERED = [kind for kind in OutcomeKind if kind is not OutcomeKind.ANSWERED]
ENDED_BADLY = ("FAILED", "CANCELED", "TERMINATED", "TIMED_OUT")
PLANTED: list[tuple[str, dict[str, Any]]] = [
    *(
        (f"did not answer, and is {kind}", {"evidence": Evidence({}, turns=[_turn(kind)])})
        for kind in UNANSWERED
    ),
    ("BUG-1: turn 2 of the agent is failed", {"broken_turns": [_broken("failed", "")]}),
    (
        "BUG-1: turn 2 of the agent is done: “The model is away.”",
        {"broken_turns": [_broken("done", "The model is away.")]},
    ),
    (
        "BUG-1: was closed, and nobody asked for that",
        {"evidence": Evidence({}, cases=[_case("resolved")])},
    ),
    ("BUG-1: was left escalated", {"evidence": Evidence({}, cases=[_case("escalated")])}),
    ("the post notice:1 is claimed and was never sent", {"unsent": ["notice:1"]}),
    ("the catch-up has given up on T:C:2.1", {"given_up": ["T:C:2.1"]}),
    ("never acknowledged the event C:2.1", {"undelivered": ["C:2.1"]}),
    ("core-2 has failed 3 workflow tasks", {"failed_tasks": {"core-1": 0.0, "core-2": 3.0}}),
    ("core-2 does not say how many", {"failed_tasks": {"core-1": 0.0, "core-2": None}}),
    *(
        (f"(r1) is {name}", {"runs": [_run(WorkflowExecutionStatus[name])]})
        for name in ENDED_BADLY
    ),
    (
        "handover:T:C:1.1 (r1) is RUNNING",
        {"runs": [_run(WorkflowExecutionStatus.RUNNING, "handover:T:C:1.1")]},
    ),
]


@pytest.mark.parametrize(("fault", "changes"), PLANTED, ids=[fault for fault, _ in PLANTED])
def test_verdict_finds_each_planted_fault(fault: str, changes: dict[str, Any]) -> None:
    assert any(fault in str(each) for each in judge(replace(WHOLE, **changes)))


def test_verdict_finds_no_fault_in_a_good_run() -> None:
    assert judge(WHOLE) == []


FAILURE = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_WORKFLOW_WORKER_UNHANDLED_FAILURE
REFUSED = WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_UNHANDLED_COMMAND


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        pytest.param({}, "", id="as it was recorded"),
        pytest.param({"failed": REFUSED}, "", id="a task that is done again"),
        pytest.param(
            {"failed": FAILURE},
            "failed a task: WORKFLOW_TASK_FAILED_CAUSE_WORK",
            id="a failed task",
        ),
        pytest.param({"changed": True}, "does not replay: ", id="another activity"),
    ],
)
async def test_histories_are_judged(given: dict[str, Any], fault: str) -> None:
    found = [str(each) for each in await judge_histories([_history(**given)])]
    assert len(found) == bool(fault), found
    assert all(fault in each for each in found)


def test_sample_has_runs_of_each_type() -> None:
    many = [
        _run(WorkflowExecutionStatus.RUNNING, kind=kind)
        for kind in ("Case", "Conversation")
        for _ in range(100)
    ]
    chosen = [
        each.workflow_type
        for each in sample([*many, _run(WorkflowExecutionStatus.COMPLETED, kind="Sweep")])
    ]
    assert len(chosen) == REPLAYED
    assert chosen.count("Sweep") == 1
    assert chosen.count("Case") >= 24 <= chosen.count("Conversation")


# -- the verdict of a run


def _run_of(said: list[str]) -> Run:
    workspace = SlackWorkspace(time.time, "http://sandbox.invalid")
    populate(workspace)
    stack: Any = SimpleNamespace(slack=SimpleNamespace(workspace=workspace))
    return Run(stack, TINY, said.append)


async def _well() -> list[Fault]:
    return []


async def _badly() -> list[Fault]:
    raise OSError("the database is away")


async def _lost() -> list[Fault]:
    return [Fault(TALK, "T:C:1.2 was never stored")]


STEPS = ("_open", "_load", "_rest", "_look", "_replay", "_read_figures")


@pytest.mark.parametrize("breaks_off", STEPS)
async def test_verdict_is_reported_after_any_broken_step(
    breaks_off: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    played = _run_of(said)
    for name in STEPS:
        monkeypatch.setattr(played, name, _badly if name == breaks_off else _well)
    monkeypatch.setattr(played, "_judge", _lost)
    outcome = await played.play()
    assert f"{TALK}: T:C:1.2 was never stored" in said
    assert min(map(str, outcome.faults)) == f"{TALK}: T:C:1.2 was never stored"
    assert "the database is away" in str(outcome.faults)


async def test_unfinished_work_is_reported_at_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    played = _run_of([])

    async def stands_still() -> tuple[int, str]:
        return 1, "3 messages are not stored"

    async def is_away() -> tuple[int, str]:
        raise Transient("the database is away")

    (late,) = await played._wait(stands_still, 0.05, every=0.01)
    assert str(late).startswith("3 messages are not stored after 0 s (of 0)")
    (away,) = await played._wait(is_away, 0.05, every=0.01)
    assert "the database is away" in str(away)
    monkeypatch.setattr(run, "PATIENCE", 0.05)
    (stuck,) = await played._wait(stands_still, 100.0, every=0.01)
    assert str(stuck) == "3 messages are not stored after 0 s (of 100), 0 of them without a change"


def test_each_kind_of_unfinished_work_is_named() -> None:
    left = dict.fromkeys(("posts", "cases", "turns", "unanswered", "unposted", "unsent"), 0)
    assert unrest(SimpleNamespace(stored=1200, **left), written=1200, pending=0) == ""
    everything = SimpleNamespace(
        stored=100,
        **left | dict.fromkeys(("cases", "turns", "unanswered", "unposted", "unsent"), 2),
    )
    told = unrest(everything, written=1200, pending=5)
    assert told.startswith(
        "1,100 messages are not stored, 5 events are not acknowledged, 2 cases are being "
        "investigated"
    )
    assert told.count(", ") == 6


def test_no_two_messages_share_a_word() -> None:
    crowd = _run_of([]).crowd
    for _ in range(40):
        crowd.open_next()
    for _ in range(400):
        crowd.write()
    texts = [each.text for each in crowd.written.values()]
    own = [word for text in texts for word in (words_of(text) or [text.split()[-1]])]
    assert len(own) == len(set(own)) == 440
    assert crowd.cases
    assert crowd.conversations


@pytest.mark.parametrize("faults", [(), (Fault("", "lost"),)], ids=["clean", "at fault"])
async def test_logs_are_kept_after_a_fault(
    faults: Sequence[Fault], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    said: list[str] = []

    @asynccontextmanager
    async def running(folder: Path) -> AsyncIterator[Any]:
        (folder / "core-1.log").write_text("…")
        yield SimpleNamespace(slack=SimpleNamespace(workspace=None))

    async def play(_: Run) -> run.Outcome:
        return run.Outcome({}, tuple(faults))

    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: str(tmp_path))
    monkeypatch.setattr(ScaleStack, "running", running)
    monkeypatch.setattr(Run, "play", play)
    await run.measure(TINY, said.append)
    assert tmp_path.exists() is bool(faults)
    assert said == ([f"Logs and data are in {tmp_path}."] if faults else [])
