"""Recorded histories as files: removed fields, file names, and facts."""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowHistory

FOLDER = Path(__file__).parent / "histories"

_LEFT_OUT = {
    *(
        "identity",
        "stackTrace",
        "binaryChecksum",
        "workerVersion",
        "taskId",
        "requestId",
        "requestReferences",
        "namespaceId",
    ),
    *(
        "retryPolicy",
        "scheduleToCloseTimeout",
        "scheduleToStartTimeout",
        "startToCloseTimeout",
        "heartbeatTimeout",
    ),
    *("header", "priority", "meteringMetadata", "userMetadata"),
}
"""Fields that replay does not read: they would reveal the machine, make two recordings differ, or
fill the file.
"""
_KINDS = ("reason", "kind", "name")
"""Fields of an activity's argument that identify its use."""
_RESULTS = ("closing_unposted",)
"""Fields of an activity's result that decide whether another activity follows."""
_ENDINGS = {
    "ACTIVITY_TASK_COMPLETED": "",
    "ACTIVITY_TASK_FAILED": "failed ",
    "ACTIVITY_TASK_CANCELED": "cancelled ",
    "ACTIVITY_TASK_TIMED_OUT": "timed out ",
    "ACTIVITY_TASK_CANCEL_REQUESTED": "cancelled ",
}

Json = dict[str, Any]


def files(name: str) -> list[Path]:
    """Return the runs of one recording, oldest first."""
    return sorted(FOLDER.glob(f"{name}.*.json"))


def files_of(workflow: str) -> list[Path]:
    """Return the runs of one type of workflow."""
    start = "workflowExecutionStartedEventAttributes"
    return [
        file
        for file in sorted(FOLDER.iterdir())
        if events(file)[0][start]["workflowType"]["name"] == workflow
    ]


def read(file: Path) -> WorkflowHistory:
    return WorkflowHistory.from_json(file.stem, file.read_text(encoding="utf-8"))


def events(file: Path) -> list[Json]:
    found: list[Json] = json.loads(file.read_text(encoding="utf-8"))["events"]
    return found


def write(name: str, runs: Sequence[WorkflowHistory]) -> None:
    """Replace a recording; each event has a line, so that a change can be read."""
    for file in files(name):
        file.unlink()
    for number, run in enumerate(runs, start=1):
        events = [
            json.dumps(_anonymous(event), separators=(",", ":"))
            for event in json.loads(run.to_json())["events"]
        ]
        text = '{"events":[\n' + ",\n".join(events) + "\n]}\n"
        (FOLDER / f"{name}.{number}.json").write_text(text, encoding="utf-8")


def _anonymous(value: Any) -> Any:
    if isinstance(value, list):
        return [_anonymous(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.get("kind") == "TASK_QUEUE_KIND_STICKY":
        return {**value, "name": "sticky"}
    if "namespace" in value:
        value = {**value, "namespace": "default"}
    return {name: _anonymous(each) for name, each in value.items() if name not in _LEFT_OUT}


def payloads(value: Any) -> Iterator[str]:
    """Return the contents of all payloads inside, as text."""
    if isinstance(value, list):
        for each in value:
            yield from payloads(each)
    elif isinstance(value, dict):
        if isinstance(value.get("data"), str):
            yield base64.b64decode(value["data"]).decode()
        for each in value.values():
            yield from payloads(each)


def facts(file: Path) -> Iterator[str]:
    """Return the facts of a run: activities with their use and their end, signals, timers, the
    result.
    """
    scheduled: dict[str, Json] = {}
    for event in events(file):
        kind = str(event["eventType"]).removeprefix("EVENT_TYPE_")
        told: Json = next(
            (value for name, value in event.items() if name.endswith("EventAttributes")), {}
        )
        if kind == "ACTIVITY_TASK_SCHEDULED":
            scheduled[event["eventId"]] = told
        elif kind in _ENDINGS:
            yield from _activity(_ENDINGS[kind], scheduled[told["scheduledEventId"]], told)
        else:
            yield from _other(kind, told)


def _activity(how: str, scheduled: Json, told: Json) -> Iterator[str]:
    name = f"{how}{scheduled['activityType']['name']}"
    yield name
    argument = next(map(json.loads, payloads(scheduled.get("input", {}))), None)
    if isinstance(argument, dict):
        yield from (f"{name} {argument[field]}" for field in _KINDS if field in argument)
        yield f"{name} attempt {argument.get('attempt', 1)}"
    result = next(map(json.loads, payloads(told.get("result", {}))), None)
    if isinstance(result, dict):
        yield from (f"{name} {field}" for field in _RESULTS if result.get(field))
    cause = told.get("failure", {}).get("applicationFailureInfo", {})
    yield f"{name} {cause.get('type', '')}"


def _other(kind: str, told: Json) -> Iterator[str]:
    if kind == "WORKFLOW_EXECUTION_SIGNALED":
        yield f"signal {told['signalName']}"
    elif kind == "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED":
        yield f"external signal {told['signalName']}"
    elif kind == "CHILD_WORKFLOW_EXECUTION_STARTED":
        yield f"child started {told['workflowType']['name']}"
    elif kind == "WORKFLOW_EXECUTION_COMPLETED":
        yield from (f"result {json.loads(each)}" for each in payloads(told))
    else:
        yield {
            "TIMER_FIRED": "timer fired",
            "WORKFLOW_EXECUTION_CONTINUED_AS_NEW": "continued as new",
            "WORKFLOW_EXECUTION_CANCEL_REQUESTED": "cancel requested",
        }.get(kind, kind)
