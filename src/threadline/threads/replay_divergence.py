"""Why a history does not replay: at which event, what the code did instead, and what to do about it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter
from temporalio.worker import Replayer

_MESSAGES = re.compile(r'Failure \{ message: "((?:[^"\\]|\\.)*)"')
_NAMED = re.compile(r"HistoryEvent\(id: (\d+)")
_QUOTED = re.compile(r"scheduled event '([^']+)'")

_GATE = "a step was added, removed, moved or changed: put it behind a gate (workflow.patched)"
_KEEP = "keep a workflow's code until its last run has ended; another product's workflows are left out by --query"
_READ = (
    "the recorded data cannot be read: a key is missing that the workers have, or a field was removed or renamed, or "
    "added without a default"
)
_MEND = "the code raises there, and the workflow would hang in the worker: fix the code"


@dataclass(frozen=True)
class Divergence:
    """`event` says which, with its number and type; `cause` is what replay said of it, `hint` what to do."""

    event: str
    cause: str
    hint: str

    def __str__(self) -> str:
        return f"at {self.event}: {self.cause} Likely cause: {self.hint}."


def has_decisions(history: WorkflowHistory) -> bool:
    """Whether a worker has decided anything yet: replaying what nobody has begun would wait for ever."""
    return any(event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED for event in history.events)


async def explain(replayer: Replayer, history: WorkflowHistory, failure: Exception) -> Divergence:
    """Find where a history and the code part, by replaying shorter and shorter parts of it.

    Args:
        failure: what the replay of the whole history gave.
    """
    words = _words(failure)
    after, begun = await _first_failing(replayer, history)
    heard = history.events[after:begun]
    if "TMPRL1100" in words or "ondeterminis" in words:
        return Divergence(_told(_decided(history, begun, words)), _sentence(words), _GATE)
    if "is not registered" in words:
        return Divergence(_told(history.events[0]), _sentence(words), _KEEP)
    converter = replayer.config()["data_converter"]
    for event in heard:
        if not await _readable(converter, event):
            return Divergence(_told(event), _sentence(words), _READ)
    return Divergence(_told(heard[-1]), _sentence(words), _READ if "decod" in words.lower() else _MEND)


async def _first_failing(replayer: Replayer, history: WorkflowHistory) -> tuple[int, int]:
    """The first workflow task that cannot be repeated: what it heard are the events between the two numbers.

    Of a history that ends with the start of a task, everything is replayed but that task.
    """
    starts = [
        index
        for index, event in enumerate(history.events, start=1)
        if event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
    ]
    cuts = [*starts, len(history.events)]
    good, bad = -1, len(cuts) - 1
    while bad - good > 1:
        middle = (good + bad) // 2
        part = WorkflowHistory(history.workflow_id, history.events[: cuts[middle]])
        result = await replayer.replay_workflow(part, raise_on_replay_failure=False)
        good, bad = (good, middle) if result.replay_failure else (middle, bad)
    return (cuts[bad - 2] if bad > 1 else 0), cuts[max(bad - 1, 0)]


def _decided(history: WorkflowHistory, begun: int, words: str) -> HistoryEvent:
    """The recorded event that the code does not repeat: named by replay, or the first that its task has led to."""
    if named := _NAMED.search(words):
        return history.events[int(named.group(1)) - 1]
    commands = [event for event in history.events[begun:] if _is_command(event)]
    name = quoted.group(1) if (quoted := _QUOTED.search(words)) else ""
    of_that_name = [event for event in commands if name and name in _details(event)]
    return next(iter([*of_that_name, *commands]), history.events[-1])


def _is_command(event: HistoryEvent) -> bool:
    attributes = getattr(event, event.WhichOneof("attributes") or "", None)
    return bool(getattr(attributes, "workflow_task_completed_event_id", 0))


def _told(event: HistoryEvent) -> str:
    kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_").title().replace("_", "")
    details = _details(event)
    return f"event {event.event_id} ({kind}{f' {details}' if details else ''})"


def _details(event: HistoryEvent) -> str:
    attributes = getattr(event, event.WhichOneof("attributes") or "", None)
    for name in ("activity_type", "workflow_type"):
        if hasattr(attributes, name):
            return str(getattr(attributes, name).name)
    return str(getattr(attributes, "signal_name", "") or getattr(attributes, "marker_name", ""))


async def _readable(converter: DataConverter, event: HistoryEvent) -> bool:
    """Whether what an event carries can be deciphered and decoded; of its shape nothing is known here."""
    try:
        await converter.decode(_payloads(event))
    except Exception:  # noqa: BLE001 - each converter has errors of its own
        return False
    return True


def _payloads(event: HistoryEvent) -> Sequence[Payload]:
    attributes = getattr(event, event.WhichOneof("attributes") or "", None)
    fields = (getattr(attributes, name, None) for name in ("input", "result"))
    return [payload for field in fields for payload in getattr(field, "payloads", ())]


def _words(failure: Exception) -> str:
    """What Temporal's core says, without the rest of the structure that it prints around it."""
    told = [found.replace('\\"', '"').replace("\\n", " ") for found in _MESSAGES.findall(str(failure))]
    return ": ".join(told[:3]) or f"{type(failure).__name__}: {failure}"


def _sentence(words: str) -> str:
    return words.removeprefix("[TMPRL1100] ").rstrip(". ") + "."
