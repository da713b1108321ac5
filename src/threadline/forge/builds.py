"""Runs of continuous integration, as tools show them; times in ISO 8601."""

import re
from dataclasses import dataclass

_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ?", re.MULTILINE)


@dataclass(frozen=True)
class Build:
    """One run of a workflow. `attempt` counts from 1; `conclusion` is empty until its `status` is `completed`."""

    id: int
    attempt: int
    workflow: str
    title: str
    branch: str
    event: str
    status: str
    conclusion: str
    actor: str
    started: str
    url: str

    @property
    def ended(self) -> bool:
        return self.status == "completed"


@dataclass(frozen=True)
class FailedJob:
    """`steps` are the names of those that failed. `log` is the end of its log, or a sentence on why there is none."""

    id: int
    name: str
    conclusion: str
    steps: tuple[str, ...]
    url: str
    log: str


@dataclass(frozen=True)
class FailedJobs:
    """The failed jobs of a build's latest attempt, the first of them with their logs; `count` is of all that failed."""

    build: Build
    jobs: tuple[FailedJob, ...]
    count: int


def tail(log: str, room: int) -> str:
    """The last whole lines of a log within `room` bytes of UTF-8, without colours and the stamp before each line.

    Of a last line that is longer than that, its end.
    """
    clean = _STAMP.sub("", _COLOURS.sub("", log)).rstrip()
    kept: list[str] = []
    left = room
    for line in reversed(clean.splitlines()):
        left -= len(line.encode("utf-8", "replace")) + 1
        if left < 0:
            break
        kept.append(line.rstrip())
    if not kept:
        return clean.encode("utf-8", "replace")[-room:].decode("utf-8", "ignore")
    return "\n".join(reversed(kept)).strip("\n")
