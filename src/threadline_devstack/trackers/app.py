"""The sandboxes of Jira and GitHub on one port, in this process."""

import contextlib
from collections.abc import AsyncIterator
from typing import Self

from threadline_devstack.processes import HOST
from threadline_devstack.server import Endpoint, bound, guarded, serving
from threadline_devstack.trackers import github as github_api
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.github import SLUG, CiRepository, GitHubApi
from threadline_devstack.trackers.jira import JiraApi, JiraSite


class TrackerSandbox:
    """A Jira at `<url>/jira` and a GitHub at `<url>/github`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.jira = JiraApi(JiraSite(), self.guard)
        self.github = GitHubApi(CiRepository(), self.guard)

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, port: int = 0) -> AsyncIterator[Self]:
        """Serve on 127.0.0.1 until the block ends; 0 takes a free port. Raises `OSError` if the
        port is taken.
        """
        with bound(port) as listener:
            services = cls(f"http://{HOST}:{listener.getsockname()[1]}")
            async with serving(
                guarded([*services.jira.routes(), *services.github.routes()]), listener
            ):
                yield services

    @property
    def settings(self) -> dict[str, str]:
        """The settings by which the product finds both."""
        return {
            "THREADLINE_JIRA_URL": f"{self.url}/jira",
            "THREADLINE_JIRA_EMAIL": jira_api.EMAIL,
            "THREADLINE_JIRA_TOKEN": jira_api.TOKEN,
            "THREADLINE_GITHUB_REPOSITORY": SLUG,
            "THREADLINE_GITHUB_TOKEN": github_api.TOKEN,
            "THREADLINE_GITHUB_API_URL": f"{self.url}/github",
        }

    def guard(self, service: str, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint of a service (`jira`, `github` or `logs`). Tests override this to
        inject faults.
        """
        return endpoint
