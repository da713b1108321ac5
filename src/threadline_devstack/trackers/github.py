"""GitHub Actions' REST API, as far as the product uses it: it reads runs, jobs and logs, and
reruns runs. Runs are in memory.

From https://docs.github.com/en/rest/actions/workflow-runs and
https://docs.github.com/en/rest/actions/workflow-jobs; not compared with the real service.
github.yaml has the initial runs, and the fields that are the same in all answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from threadline_devstack.filling import fill
from threadline_devstack.server import Endpoint, Guard

TOKEN = "github-sandbox-token"  # noqa: S105  the sandbox's own
OWNER = "acme"
NAME = "shop"
SLUG = f"{OWNER}/{NAME}"
WELL = "success"
FAILED = "failure"
SEED: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("github.yaml").read_text("utf-8"))
_COMMIT = "4f9d2c7be0a14d7d9a55c1e02f7f0c6d8a1b3e5f"
_PREFIX = "/github"
_ROOT = f"{_PREFIX}/repos/{{owner}}/{{name}}/actions"

Json = dict[str, Any]


@dataclass
class CiJob:
    """A job of a run. `steps` are names with conclusions. `log` is None if there is none (not yet,
    or it was deleted).
    """

    id: int
    name: str
    status: str = "completed"
    conclusion: str | None = WELL
    steps: list[tuple[str, str]] = field(default_factory=list)
    log: str | None = ""


@dataclass
class CiRun:
    id: int
    number: int
    workflow: str
    title: str
    branch: str
    created: datetime
    started: datetime
    jobs: list[CiJob]
    event: str = "push"
    actor: str = "ada-park"
    attempt: int = 1
    status: str = "completed"
    conclusion: str | None = WELL
    commit: str = _COMMIT

    def matches(self, status: str) -> bool:
        return status in ("", self.status, self.conclusion)


class CiRepository:
    """Runs by id, and jobs by id with their run. `refuses_reruns`: the reason for which reruns are
    refused; empty to allow them.
    """

    def __init__(self) -> None:
        self.refuses_reruns = ""
        self.runs: dict[int, CiRun] = {}
        self._ids = 7_000_000_000
        for given in SEED["runs"]:
            self.add(**given)

    def add(
        self,
        workflow: str,
        title: str,
        branch: str,
        hours_ago: float,
        jobs: Sequence[Sequence[str]],
    ) -> CiRun:
        """Add a run. `jobs` are names, conclusions and logs."""
        bad = any(conclusion == FAILED for _, conclusion, _ in jobs)
        at = datetime.now(UTC) - timedelta(hours=hours_ago)
        run = CiRun(
            id=self._next_id(),
            number=len(self.runs) + 1,
            workflow=workflow,
            title=title,
            branch=branch,
            created=at,
            started=at,
            jobs=[
                CiJob(
                    self._next_id(),
                    name,
                    conclusion=end,
                    steps=[("Set up job", WELL), (f"Run {name}", end)],
                    log=log,
                )
                for name, end, log in jobs
            ],
            conclusion=FAILED if bad else WELL,
        )
        self.runs[run.id] = run
        return run

    def listed(self, branch: str, status: str) -> list[CiRun]:
        """Return matching runs, newest first."""
        fitting = (
            run for run in self.runs.values() if branch in ("", run.branch) and run.matches(status)
        )
        return sorted(fitting, key=lambda run: run.started, reverse=True)

    def job(self, id_: int) -> CiJob | None:
        return next((job for run in self.runs.values() for job in run.jobs if job.id == id_), None)

    def rerun(self, run: CiRun, *, failed_only: bool) -> None:
        """Start the next attempt, queued until it is finished."""
        again = [job for job in run.jobs if not failed_only or job.conclusion != WELL]
        fresh = {
            job.id: replace(
                job, id=self._next_id(), status="queued", conclusion=None, steps=[], log=None
            )
            for job in again
        }
        run.jobs = [fresh.get(job.id, job) for job in run.jobs]
        run.attempt += 1
        run.status = "queued"
        run.conclusion = None
        run.started = datetime.now(UTC)

    def finish(self, run: CiRun, conclusion: str, log: str) -> None:
        """End the queued jobs of a run."""
        for job in run.jobs:
            if job.status != "completed":
                job.status = "completed"
                job.conclusion = conclusion
                job.log = log
                job.steps = [(f"Run {job.name}", conclusion)]
        run.status = "completed"
        run.conclusion = conclusion

    def _next_id(self) -> int:
        self._ids += 1
        return self._ids


class GitHubApi:
    """The endpoints. `requests` lists authorised requests, by method and path after the
    repository's.
    """

    def __init__(self, repository: CiRepository, guard: Guard) -> None:
        self.repository = repository
        self._guard = guard
        self.requests: list[str] = []

    def routes(self) -> list[Route]:
        log = self._guard("logs", self._log)
        return [
            self._route("/runs", self._runs),
            self._route("/runs/{run:int}", self._run),
            self._route("/runs/{run:int}/jobs", self._jobs),
            self._route("/runs/{run:int}/rerun", self._rerun, "POST"),
            self._route("/runs/{run:int}/rerun-failed-jobs", self._rerun, "POST"),
            self._route("/jobs/{job:int}/logs", self._logs),
            Route("/logs/{job:int}", log),
        ]

    def _route(self, path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        return Route(_ROOT + path, self._guard("github", self._let_in(endpoint)), methods=[method])

    def _let_in(self, endpoint: Endpoint) -> Endpoint:
        async def entered(request: Request) -> Response:
            if request.headers.get("Authorization") not in (f"Bearer {TOKEN}", f"token {TOKEN}"):
                return _refused(401, "Bad credentials")
            if (request.path_params["owner"], request.path_params["name"]) != (OWNER, NAME):
                return _refused(404, "Not Found")
            self.requests.append(f"{request.method} {request.url.path.partition('/actions')[2]}")
            return await endpoint(request)

        return entered

    async def _runs(self, request: Request) -> Response:
        asked = request.query_params
        runs = self.repository.listed(asked.get("branch", ""), asked.get("status", ""))
        return _page(request, "workflow_runs", [_run_view(each, request) for each in runs])

    async def _run(self, request: Request) -> Response:
        run = self._asked_for(request)
        return JSONResponse(_run_view(run, request)) if run else _refused(404, "Not Found")

    async def _jobs(self, request: Request) -> Response:
        run = self._asked_for(request)
        if run is None:
            return _refused(404, "Not Found")
        return _page(request, "jobs", [_job_view(each, run, request) for each in run.jobs])

    async def _rerun(self, request: Request) -> Response:
        run = self._asked_for(request)
        if run is None:
            return _refused(404, "Not Found")
        if run.status != "completed":
            return _refused(403, "This workflow run is already running")
        if reason := self.repository.refuses_reruns:
            return _invalid("WorkflowRun", reason)
        self.repository.rerun(run, failed_only=request.url.path.endswith("failed-jobs"))
        return JSONResponse({}, 201)

    async def _logs(self, request: Request) -> Response:
        """Redirect to another host, as GitHub does; the address there needs no token."""
        job = self.repository.job(request.path_params["job"])
        if job is None or job.log is None:
            return _refused(404, "Not Found")
        return RedirectResponse(f"http://localhost:{request.url.port}/logs/{job.id}?sig=once", 302)

    async def _log(self, request: Request) -> Response:
        """Serve a log. The store of logs refuses a request with credentials, as the real one
        does.
        """
        job = self.repository.job(request.path_params["job"])
        if "Authorization" in request.headers or request.query_params.get("sig") != "once":
            return PlainTextResponse("InvalidAuthenticationInfo", 400)
        return (
            PlainTextResponse(job.log)
            if job and job.log is not None
            else PlainTextResponse("BlobNotFound", 404)
        )

    def _asked_for(self, request: Request) -> CiRun | None:
        return self.repository.runs.get(request.path_params["run"])


def _page(request: Request, name: str, views: list[Json]) -> JSONResponse:
    """Return a page with a `Link` header:
    https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api.
    """
    size = min(int(request.query_params.get("per_page", 30)), 100)
    page = max(int(request.query_params.get("page", 1)), 1)
    headers = {}
    if page * size < len(views):
        headers["Link"] = f'<{request.url.include_query_params(page=page + 1)}>; rel="next"'
    shown = views[(page - 1) * size : page * size]
    return JSONResponse({"total_count": len(views), name: shown}, headers=headers)


def _values(run: CiRun, request: Request) -> Json:
    """Return values for the shapes of github.yaml: among them `api`, the repository's address, and
    `page`, that of the run.
    """
    root = f"{str(request.base_url).rstrip('/')}{_PREFIX}"
    links = {"api": f"{root}/repos/{SLUG}", "page": f"{root}/{SLUG}/actions/runs/{run.id}"}
    return {
        **vars(run),
        **links,
        "created_at": _moment(run.created),
        "started_at": _moment(run.started),
    }


def _run_view(run: CiRun, request: Request) -> Json:
    view: Json = fill(SEED["run_shape"], _values(run, request))
    return view


def _job_view(job: CiJob, run: CiRun, request: Request) -> Json:
    values = _values(run, request) | {f"job_{name}": value for name, value in vars(job).items()}
    times = {
        "started_at": values["started_at"],
        "completed_at": values["started_at"] if job.status == "completed" else None,
    }
    steps = [
        {"name": name, "status": "completed", "conclusion": conclusion, "number": number, **times}
        for number, (name, conclusion) in enumerate(job.steps, 1)
    ]
    return {**fill(SEED["job_shape"], values), **times, "steps": steps}


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse(
        {"message": message, "documentation_url": "https://docs.github.com/rest"}, status
    )


def _invalid(resource: str, reason: str) -> JSONResponse:
    """Return a refusal whose reason is only in `errors`:
    https://docs.github.com/en/rest/using-the-rest-api/troubleshooting-the-rest-api.
    """
    errors = [{"resource": resource, "code": "custom", "message": reason}]
    return JSONResponse({"message": "Validation Failed", "errors": errors}, 422)
