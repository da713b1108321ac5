"""Both stand-ins on one port, and a control API for tests and demos from other processes."""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Self

from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from threadline_devstack.server import HOST, bound, guarded, serving
from threadline_devstack.trackers import github as github_api
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.faults import EndpointFault, EndpointFaultKind, EndpointFaults
from threadline_devstack.trackers.github import SLUG, CiRepository, CiRun, GitHubApi
from threadline_devstack.trackers.jira import JiraApi, JiraSite


class TrackerSandbox:
    """A Jira at `<url>/jira` and a GitHub at `<url>/github`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._faults = EndpointFaults()
        self.jira = JiraApi(JiraSite(), self._faults)
        self.github = GitHubApi(CiRepository(), self._faults)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, port: int = 0) -> AsyncIterator[Self]:
        """Serve on 127.0.0.1 until the block ends; 0 takes a free port. Raises `OSError` when the port is taken."""
        with bound(port) as listener:
            services = cls(f"http://{HOST}:{listener.getsockname()[1]}")
            async with serving(services._app(), listener):
                try:
                    yield services
                finally:
                    services._faults.over.set()

    @property
    def settings(self) -> dict[str, str]:
        """By which the product finds them."""
        return {
            "THREADLINE_JIRA_URL": f"{self.url}/jira",
            "THREADLINE_JIRA_EMAIL": jira_api.EMAIL,
            "THREADLINE_JIRA_TOKEN": jira_api.TOKEN,
            "THREADLINE_GITHUB_REPOSITORY": SLUG,
            "THREADLINE_GITHUB_TOKEN": github_api.TOKEN,
            "THREADLINE_GITHUB_API_URL": f"{self.url}/github",
        }

    @property
    def hanging(self) -> int:
        """Requests that are kept without an answer now, and whose callers still wait."""
        return self._faults.hanging

    def order(self, service: str, kind: EndpointFaultKind = EndpointFaultKind.REFUSE, **more: Any) -> EndpointFault:
        """Let the next requests to a service go wrong; `more` are the other fields of `EndpointFault`."""
        fault = EndpointFault.model_validate({"service": service, "kind": kind, **more})
        self._faults.orders.append(fault)
        return fault

    def forgive(self) -> None:
        """Forget the faults that were ordered and not met."""
        self._faults.orders.clear()

    def _app(self) -> Starlette:
        control = [
            Route("/control/state", self._state),
            Route("/control/faults", self._order, methods=["POST"]),
            Route("/control/runs/{run:int}/finish", self._finish, methods=["POST"]),
        ]
        return guarded([*self.jira.routes(), *self.github.routes(), *control])

    async def _state(self, request: Request) -> Response:
        issues, runs = self.jira.site.issues.values(), self.github.repository.runs.values()
        return JSONResponse(
            {
                "tickets": [
                    {"key": each.key, "summary": each.summary, "status": each.status}
                    | {"comments": [comment.body for comment in each.comments]}
                    for each in issues
                ],
                "runs": [_told(each) for each in runs],
            }
        )

    async def _order(self, request: Request) -> Response:
        """Body: the fields of `EndpointFault`, such as `{"service": "jira", "kind": "lose", "method": "POST"}`."""
        try:
            self._faults.orders.append(EndpointFault.model_validate_json(await request.body()))
        except ValidationError as wrong:
            return JSONResponse({"error": f"Send some of {', '.join(EndpointFault.model_fields)}: {wrong}"}, 400)
        return Response(status_code=204)

    async def _finish(self, request: Request) -> Response:
        """Body: `{"conclusion": "success"}`, and perhaps the `log` of what was queued."""
        run = self.github.repository.runs.get(request.path_params["run"])
        if run is None:
            return JSONResponse({"error": "There is no such run."}, 404)
        given = await request.json()
        self.github.repository.finish(run, given.get("conclusion", "success"), given.get("log", ""))
        return JSONResponse(_told(run))


def _told(run: CiRun) -> dict[str, Any]:
    return {
        "id": run.id,
        "title": run.title,
        "attempt": run.attempt,
        "status": run.status,
        "conclusion": run.conclusion,
    }
