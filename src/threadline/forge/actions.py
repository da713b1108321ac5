"""GitHub Actions: runs, their failed jobs with the ends of the logs, and re-runs.

The API: https://docs.github.com/en/rest/actions/workflow-runs and https://docs.github.com/en/rest/actions/workflow-jobs.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import aiohttp
from github import Auth, Github
from github.GithubException import GithubException
from github.WorkflowJob import WorkflowJob
from github.WorkflowRun import WorkflowRun
from pydantic import SecretStr

from threadline.errors import Transient
from threadline.forge.action_failures import asking
from threadline.forge.builds import Build, FailedJob, FailedJobs, tail
from threadline.forge.pull_requests import GITHUB_API

T = TypeVar("T")

TIMEOUT = 8
"""Seconds for one answer; a tool's own limit has room for two."""
LOGS = 4
"""Jobs of one build whose logs are fetched."""
LOG_ROOM, EACH_LOG = 12_000, 8_000
"""Bytes of all ends of logs together, and of one: what a model is shown of one result has room for them."""
_THREADS = 8
"""Requests at once. A GitHub that hangs holds these threads, and no other part's."""
_JOBS = 200
"""Jobs of one build that are looked at."""
_LARGEST_LOG = 100 << 20
"""Bytes of a log that are read to come to its end, which can be had in no other way."""
_CHUNK = 1 << 16
_WELL = frozenset({"success", "skipped", "neutral", ""})
_NO_LOG = "(There is no log of this job any more, or not yet.)"
_LONG_LOG = "(The log is too long to be read here.)"


class Actions:
    """The workflow runs of one repository.

    Every method raises `Permanent` when GitHub refuses, and `Transient` when it is away or asks to wait.

    Args:
        slug: `owner/name`.
        token: may read actions, and write them for `rerun`.
        api_url: of a GitHub Enterprise, such as `https://github.acme.example/api/v3`.
        timeout: whole seconds to connect, and between two pieces of an answer.
    """

    def __init__(self, slug: str, token: SecretStr, api_url: str = "", *, timeout: int = TIMEOUT) -> None:
        self._slug = slug
        self._github = Github(
            auth=Auth.Token(token.get_secret_value()),
            base_url=(api_url or GITHUB_API).rstrip("/"),
            user_agent="threadline",
            timeout=timeout,
            retry=None,  # retrying belongs to whoever asks
            seconds_between_requests=None,
            seconds_between_writes=None,
            lazy=True,
        )
        self._patience = aiohttp.ClientTimeout(sock_connect=timeout, sock_read=timeout)
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="actions")

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._github.close()

    async def recent(self, branch: str, status: str, limit: int) -> list[Build]:
        """The newest runs first, 30 at most; an empty `branch` or `status` does not narrow them."""

        def listed() -> list[Build]:
            given: dict[str, Any] = {name: value for name, value in (("branch", branch), ("status", status)) if value}
            runs = self._github.get_repo(self._slug).get_workflow_runs(**given)
            return [_build(each) for each in runs.get_page(0)[:limit]]

        return await self._ask("The repository", listed)

    async def build(self, run_id: int) -> Build:
        return await self._ask(f"Run {run_id}", lambda: _build(self._run(run_id)))

    async def failed_jobs(self, run_id: int) -> FailedJobs:
        """Of a run's latest attempt; the first `LOGS` of them with the ends of their logs."""

        def found() -> tuple[Build, list[WorkflowJob]]:
            run = self._run(run_id)
            return _build(run), [each for each in islice(run.jobs("latest"), _JOBS) if _conclusion(each) not in _WELL]

        build, failed = await self._ask(f"Run {run_id}", found)
        shown = failed[:LOGS]
        room = min(EACH_LOG, LOG_ROOM // max(len(shown), 1))
        jobs = await asyncio.gather(*(self._failed_job(each, room) for each in shown))
        return FailedJobs(build, tuple(jobs), len(failed))

    async def rerun(self, run_id: int, *, failed_only: bool) -> None:
        """Start the next attempt of a run that has ended."""
        part = "rerun-failed-jobs" if failed_only else "rerun"
        path = f"/repos/{self._slug}/actions/runs/{run_id}/{part}"

        def ask() -> None:
            # The client's own methods for this say only that it went wrong, and neither why nor for how long.
            headers, _ = self._github.requester.requestJsonAndCheck("POST", path)
            if "html" in str(headers.get("content-type", "")):
                raise ValueError("a page for people")

        await self._ask(f"Run {run_id}", ask)

    async def _ask(self, about: str, question: Callable[[], T]) -> T:
        def asked() -> T:
            with asking(about):
                return question()

        return await asyncio.get_running_loop().run_in_executor(self._threads, asked)

    def _run(self, run_id: int) -> WorkflowRun:
        return self._github.get_repo(self._slug).get_workflow_run(run_id)

    async def _failed_job(self, job: WorkflowJob, room: int) -> FailedJob:
        def told() -> tuple[FailedJob, str]:
            steps = tuple(each.name for each in job.steps or () if (each.conclusion or "") not in _WELL)
            known = FailedJob(job.id, job.name, _conclusion(job), steps, job.html_url or "", _NO_LOG)
            try:
                return known, job.logs_url()
            except GithubException as error:
                if error.status in (404, 410):
                    return known, ""
                raise

        known, url = await self._ask("The job", told)
        return replace(known, log=await self._log_end(url, room)) if url else known

    async def _log_end(self, url: str, room: int) -> str:
        """The end of the log behind an address that holds for a minute, and wants no token."""
        end, read = b"", 0
        try:
            async with (
                aiohttp.ClientSession(timeout=self._patience, trust_env=True) as session,
                session.get(url) as response,
            ):
                if response.status >= 400:
                    return _missing_log(response.status)
                async for chunk in response.content.iter_chunked(_CHUNK):
                    read += len(chunk)
                    if read > _LARGEST_LOG:
                        return _LONG_LOG
                    end = (end + chunk)[-8 * room :]  # colours and stamps are taken out of it yet
        except (aiohttp.ClientError, TimeoutError, ValueError):
            raise Transient("The log could not be fetched from GitHub.") from None
        return tail(end.decode("utf-8", "replace"), room) or _NO_LOG


def _missing_log(status: int) -> str:
    if status in (403, 404, 410):
        return _NO_LOG
    raise Transient(f"GitHub's log storage failed (HTTP {status}).")


def _build(run: WorkflowRun) -> Build:
    """Raises `ValueError` when the answer is none of GitHub's."""
    if not run.run_attempt:
        raise ValueError("no run")
    started = run.run_started_at or run.created_at
    return Build(
        id=run.id,
        attempt=run.run_attempt,
        workflow=run.name or "",
        title=run.display_title or "",
        branch=run.head_branch or "",
        event=run.event or "",
        status=run.status or "",
        conclusion=run.conclusion or "",
        actor=run.actor.login if run.actor else "",
        started=started.isoformat() if started else "",
        url=run.html_url or "",
    )


def _conclusion(job: WorkflowJob) -> str:
    return job.conclusion or ""
