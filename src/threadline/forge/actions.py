"""GitHub Actions: runs, their failed jobs with the ends of the logs, and re-runs.

The API: https://docs.github.com/en/rest/actions/workflow-runs and
https://docs.github.com/en/rest/actions/workflow-jobs.
"""

import asyncio
import re
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from pydantic import SecretStr

from threadline.errors import Transient
from threadline.forge.github import GITHUB_API, GitHub, GitHubAdvice

TIMEOUT = 8
"""Seconds to connect, and between two pieces of an answer; a tool's own limit covers two calls."""
LOGS = 4
"""Jobs of one build whose logs are fetched."""
LOG_ROOM = 12_000
EACH_LOG = 8_000
"""Bytes of all log ends together, and of one: they fit into the part of a result that a model
sees.
"""
_PAGE = 100
_JOBS = 200
"""Most jobs in one answer, and most jobs of one build that are examined."""
_LARGEST_LOG = 100 << 20
"""Most bytes of a log that are read: its end is only reachable through the whole log."""
_CHUNK = 1 << 16
_WELL = frozenset({"success", "skipped", "neutral", ""})
_NO_LOG = "(There is no log of this job any more, or not yet.)"
_LONG_LOG = "(The log is too long to be read here.)"
_ADVICE = GitHubAdvice(
    token="THREADLINE_GITHUB_TOKEN, or GITHUB_TOKEN",  # noqa: S106  names of settings
    repository="THREADLINE_GITHUB_REPOSITORY",
    api_url="THREADLINE_GITHUB_API_URL",
    right="the token may not use the actions of this repository",
)
_COLOURS = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z ?", re.MULTILINE)


@dataclass(frozen=True)
class Build:
    """One run of a workflow. `attempt` counts from 1; `conclusion` is empty until `status` is
    `completed`.
    """

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
    """A failed job. `steps` are the names of its failed steps. `log` is the end of its log, or a
    sentence on why there is none.
    """

    id: int
    name: str
    conclusion: str
    steps: tuple[str, ...]
    url: str
    log: str


@dataclass(frozen=True)
class FailedJobs:
    """The failed jobs of a build's latest attempt, the first of them with their logs; `count` is
    the number of all failed jobs.
    """

    build: Build
    jobs: tuple[FailedJob, ...]
    count: int


class Actions:
    """The workflow runs of one repository.

    Every method raises `Permanent` when GitHub refuses, and `Transient` when GitHub cannot be
    reached or asks to wait.

    Args:
        slug: the repository, as `owner/name`.
        token: may read actions, and write them for `rerun`.
        api_url: that of a GitHub Enterprise, such as `https://github.acme.example/api/v3`.
        timeout: seconds to connect, and between two pieces of an answer.
    """

    setup_hint = (
        "Set THREADLINE_GITHUB_REPOSITORY to owner/name, and THREADLINE_GITHUB_TOKEN to a token "
        "that may read and write its actions."
    )

    def __init__(
        self, slug: str, token: SecretStr, api_url: str = "", *, timeout: float = TIMEOUT
    ) -> None:
        self._timeout = aiohttp.ClientTimeout(sock_connect=timeout, sock_read=timeout)
        self._api_path = urlsplit(api_url or GITHUB_API).path.rstrip("/")
        self._github = GitHub(api_url or GITHUB_API, token, _ADVICE, self._timeout)
        self._path = f"/repos/{slug}/actions"

    async def recent(self, branch: str, status: str, limit: int) -> list[Build]:
        """Return the newest runs first, 30 at most; an empty `branch` or `status` does not
        filter.
        """
        asked = {"branch": branch, "status": status, "per_page": str(limit)}
        params = {name: value for name, value in asked.items() if value}

        def read(answer: Any) -> list[Build]:
            return [_build(run) for run in answer["workflow_runs"]]

        return await self._github.call(
            "GET", f"{self._path}/runs", "The repository", read, params=params
        )

    async def build(self, run_id: int) -> Build:
        return await self._github.call(
            "GET", f"{self._path}/runs/{run_id}", f"Run {run_id}", _build
        )

    async def failed_jobs(self, run_id: int) -> FailedJobs:
        """Return the failed jobs of a run's latest attempt; the first `LOGS` of them with the ends
        of their logs.
        """
        build = await self.build(run_id)
        failed: list[tuple[FailedJob, str]] = []

        def read(answer: Any) -> int:
            jobs = answer["jobs"]
            failed.extend(
                _failed_job(job) for job in jobs if (job["conclusion"] or "") not in _WELL
            )
            return len(jobs)

        for page in range(1, _JOBS // _PAGE + 1):
            params = {"filter": "latest", "per_page": str(_PAGE), "page": str(page)}
            path = f"{self._path}/runs/{run_id}/jobs"
            if await self._github.call("GET", path, f"Run {run_id}", read, params=params) < _PAGE:
                break
        shown = failed[:LOGS]
        room = min(EACH_LOG, LOG_ROOM // max(len(shown), 1))
        logs = await asyncio.gather(*(self._log_end(url, room) for _, url in shown))
        jobs = tuple(replace(job, log=log) for (job, _), log in zip(shown, logs, strict=True))
        return FailedJobs(build, jobs, len(failed))

    async def rerun(self, run_id: int, *, failed_only: bool) -> None:
        """Start the next attempt of a run that has ended."""
        part = "rerun-failed-jobs" if failed_only else "rerun"
        await self._github.call(
            "POST", f"{self._path}/runs/{run_id}/{part}", f"Run {run_id}", lambda _: None
        )

    async def _log_end(self, job_url: str, room: int) -> str:
        """Return the last `room` bytes of a job's log, or a sentence on why there is none. The
        job's own address, which GitHub returns, is valid even after the repository was renamed.
        """
        path = f"{urlsplit(job_url).path.removeprefix(self._api_path)}/logs"
        url = await self._github.call(
            "GET", path, "The job", lambda to: to or "", missing=(404, 410), follow=False
        )
        if not url:
            return _NO_LOG
        end = b""
        read = 0
        try:
            # The address is valid for a minute, and its host refuses a request with a token.
            async with (
                aiohttp.ClientSession(timeout=self._timeout, trust_env=True) as session,
                session.get(url) as response,
            ):
                if response.status in (403, 404, 410):
                    return _NO_LOG
                if response.status >= 400:
                    raise Transient(f"GitHub's log storage failed (HTTP {response.status}).")
                async for chunk in response.content.iter_chunked(_CHUNK):
                    read += len(chunk)
                    if read > _LARGEST_LOG:
                        return _LONG_LOG
                    # with reserve for colours and stamps, which are removed below
                    end = (end + chunk)[-8 * room :]
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise Transient("The log could not be fetched from GitHub.") from None
        return tail(end.decode("utf-8", "replace"), room) or _NO_LOG


def _build(run: Any) -> Build:
    if not run["run_attempt"]:
        raise ValueError("no run")
    started = run.get("run_started_at") or run.get("created_at")
    return Build(
        id=run["id"],
        attempt=run["run_attempt"],
        workflow=run.get("name") or "",
        title=run.get("display_title") or "",
        branch=run.get("head_branch") or "",
        event=run.get("event") or "",
        status=run.get("status") or "",
        conclusion=run.get("conclusion") or "",
        actor=(run.get("actor") or {}).get("login", ""),
        started=datetime.fromisoformat(started).isoformat() if started else "",
        url=run.get("html_url") or "",
    )


def _failed_job(job: Any) -> tuple[FailedJob, str]:
    """Return the job without its log, and its address at the API."""
    steps = tuple(
        step["name"] for step in job.get("steps") or () if (step["conclusion"] or "") not in _WELL
    )
    return FailedJob(
        job["id"], job["name"], job["conclusion"], steps, job.get("html_url") or "", _NO_LOG
    ), job["url"]


def tail(log: str, room: int) -> str:
    """Return the last whole lines of a log within `room` bytes of UTF-8, without colours and the
    stamp before each line. If the last line alone is longer, returns its end.
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
