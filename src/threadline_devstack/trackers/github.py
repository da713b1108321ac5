"""GitHub Actions' REST API, as far as runs, jobs and logs are read and runs are started once more.

From https://docs.github.com/en/rest/actions/workflow-runs and https://docs.github.com/en/rest/actions/workflow-jobs;
not run beside the service.
"""

from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from threadline_devstack.trackers.faults import Endpoint, Faults
from threadline_devstack.trackers.github_records import NAME, OWNER, SLUG, Job, Repository, Run

TOKEN = "github-sandbox-token"  # noqa: S105  the stand-in's own
_PREFIX = "/github"
_ROOT = f"{_PREFIX}/repos/{{owner}}/{{name}}/actions"

Json = dict[str, Any]


class GitHubApi:
    """`requests` counts those that were let in, by method and path behind the repository."""

    def __init__(self, repository: Repository, faults: Faults) -> None:
        self.repository, self._faults = repository, faults
        self.requests: list[str] = []

    def routes(self) -> list[Route]:
        log = self._faults.guarding("logs", self._log)
        return [
            self._route("/runs", self._runs),
            self._route("/runs/{run:int}", self._run),
            self._route("/runs/{run:int}/jobs", self._jobs),
            self._route("/runs/{run:int}/rerun", self._rerun, "POST"),
            self._route("/runs/{run:int}/rerun-failed-jobs", self._rerun, "POST"),
            self._route("/jobs/{job:int}/logs", self._logs),
            Route("/logs/{job:int}", log),
            Route(f"{_PREFIX}/{SLUG}/actions/runs/{{run:int}}", self._browse),
        ]

    def _route(self, path: str, endpoint: Endpoint, method: str = "GET") -> Route:
        return Route(_ROOT + path, self._faults.guarding("github", self._let_in(endpoint)), methods=[method])

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
        self.repository.rerun(run, failed_only=request.url.path.endswith("failed-jobs"))
        return JSONResponse({}, 201)

    async def _logs(self, request: Request) -> Response:
        """A redirect to another host, as GitHub answers; the address there needs no token."""
        job = self.repository.job(request.path_params["job"])
        if job is None or job.log is None:
            return _refused(404, "Not Found")
        return RedirectResponse(f"http://localhost:{request.url.port}/logs/{job.id}?sig=once", 302)

    async def _log(self, request: Request) -> Response:
        """The store of logs refuses a request that brings credentials of its own, as the real one does."""
        job = self.repository.job(request.path_params["job"])
        if "Authorization" in request.headers or request.query_params.get("sig") != "once":
            return PlainTextResponse("InvalidAuthenticationInfo", 400)
        return PlainTextResponse(job.log) if job and job.log is not None else PlainTextResponse("BlobNotFound", 404)

    async def _browse(self, request: Request) -> Response:
        """What a person sees who follows a run's link."""
        run = self._asked_for(request)
        if run is None:
            return PlainTextResponse("Not Found", 404)
        logs = (f"{job.name}: {job.conclusion or job.status}\n{job.log or ''}" for job in run.jobs)
        return PlainTextResponse("\n".join((f"{run.workflow} #{run.number}: {run.title}", *logs)))

    def _asked_for(self, request: Request) -> Run | None:
        return self.repository.runs.get(request.path_params["run"])


def _page(request: Request, name: str, views: list[Json]) -> JSONResponse:
    """Pages with a `Link` header: https://docs.github.com/en/rest/using-the-rest-api/using-pagination-in-the-rest-api."""
    size = min(int(request.query_params.get("per_page", 30)), 100)
    page = max(int(request.query_params.get("page", 1)), 1)
    headers = {}
    if page * size < len(views):
        headers["Link"] = f'<{request.url.include_query_params(page=page + 1)}>; rel="next"'
    shown = views[(page - 1) * size : page * size]
    return JSONResponse({"total_count": len(views), name: shown}, headers=headers)


def _run_view(run: Run, request: Request) -> Json:
    api = f"{str(request.base_url).rstrip('/')}{_PREFIX}/repos/{SLUG}"
    url = f"{api}/actions/runs/{run.id}"
    links = {f"{name}_url": f"{url}/{name}" for name in ("jobs", "logs", "artifacts", "cancel", "rerun")}
    return links | {
        "id": run.id,
        "node_id": f"run-{run.id}",
        "name": run.workflow,
        "path": f".github/workflows/{run.workflow}.yml",
        "display_title": run.title,
        "head_branch": run.branch,
        "head_sha": run.commit,
        "run_number": run.number,
        "run_attempt": run.attempt,
        "event": run.event,
        "status": run.status,
        "conclusion": run.conclusion,
        "workflow_id": 1 + sum(map(ord, run.workflow)),
        "check_suite_id": run.id + 1,
        "check_suite_node_id": f"suite-{run.id}",
        "check_suite_url": f"{api}/check-suites/{run.id + 1}",
        "url": url,
        "html_url": f"{str(request.base_url).rstrip('/')}{_PREFIX}/{SLUG}/actions/runs/{run.id}",
        "workflow_url": f"{api}/actions/workflows/1",
        "previous_attempt_url": None,
        "pull_requests": [],
        "actor": _person(run.actor),
        "triggering_actor": _person(run.actor),
        "created_at": _moment(run.created),
        "updated_at": _moment(run.started),
        "run_started_at": _moment(run.started),
        "head_commit": {
            "id": run.commit,
            "tree_id": run.commit,
            "message": run.title,
            "timestamp": _moment(run.started),
        },
        "repository": {"id": 1, "name": NAME, "full_name": SLUG, "owner": _person(OWNER), "url": api},
        "head_repository": {"id": 1, "name": NAME, "full_name": SLUG, "owner": _person(OWNER), "url": api},
    }


def _job_view(job: Job, run: Run, request: Request) -> Json:
    api = f"{str(request.base_url).rstrip('/')}{_PREFIX}/repos/{SLUG}"
    ended = _moment(run.started) if job.status == "completed" else None
    return {
        "id": job.id,
        "run_id": run.id,
        "run_url": f"{api}/actions/runs/{run.id}",
        "run_attempt": run.attempt,
        "node_id": f"job-{job.id}",
        "head_sha": run.commit,
        "head_branch": run.branch,
        "workflow_name": run.workflow,
        "url": f"{api}/actions/jobs/{job.id}",
        "html_url": f"{str(request.base_url).rstrip('/')}{_PREFIX}/{SLUG}/actions/runs/{run.id}",
        "check_run_url": f"{api}/check-runs/{job.id}",
        "status": job.status,
        "conclusion": job.conclusion,
        "created_at": _moment(run.created),
        "started_at": _moment(run.started),
        "completed_at": ended,
        "name": job.name,
        "steps": [
            {
                "name": name,
                "status": "completed",
                "conclusion": conclusion,
                "number": number,
                "started_at": _moment(run.started),
                "completed_at": ended,
            }
            for number, (name, conclusion) in enumerate(job.steps, 1)
        ],
        "labels": ["ubuntu-latest"],
        "runner_id": 1,
        "runner_name": "runner 1",
        "runner_group_id": 1,
        "runner_group_name": "Default",
    }


def _person(login: str) -> Json:
    return {"login": login, "id": 1 + sum(map(ord, login)), "type": "User", "site_admin": False}


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _refused(status: int, message: str) -> JSONResponse:
    return JSONResponse({"message": message, "documentation_url": "https://docs.github.com/rest"}, status)
