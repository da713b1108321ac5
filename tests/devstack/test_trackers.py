"""The stand-ins for Jira and GitHub."""

import asyncio
import json
import urllib.error
import urllib.request
from collections.abc import AsyncIterator

import pytest

from tests.support.faulty_sandboxes import EndpointFaultKind, FaultyTrackers
from tests.support.patience import patient
from threadline_devstack.trackers import github as github_api
from threadline_devstack.trackers import jira as jira_api
from threadline_devstack.trackers.jira import BadQuery, JiraSite


@pytest.fixture
async def services() -> AsyncIterator[FaultyTrackers]:
    async with FaultyTrackers.running() as services:
        yield services


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


async def fetch(url: str, **headers: str) -> tuple[int, dict[str, str], str]:
    """Return status, headers and body of a GET that follows no redirect."""

    def get() -> tuple[int, dict[str, str], str]:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310 - our own server
            with opener.open(request, timeout=patient(10)) as answer:
                return answer.status, dict(answer.headers), answer.read().decode()
        except urllib.error.HTTPError as refusal:
            with refusal:
                return refusal.code, dict(refusal.headers), refusal.read().decode()

    return await asyncio.to_thread(get)


async def test_a_fault_hits_one_request_and_a_restarted_run_ends(
    services: FaultyTrackers,
) -> None:
    assert {"SHOP-1", "OPS-1"} < set(services.jira.site.issues)
    ci = services.github.repository
    failed = next(each for each in ci.runs.values() if each.conclusion == "failure")
    ci.rerun(failed, failed_only=True)
    assert (failed.attempt, failed.status) == (2, "queued")
    ci.finish(failed, "success", "")
    assert (failed.status, failed.conclusion) == ("completed", "success")
    services.order("jira", EndpointFaultKind.REFUSE, status=503)
    assert (await fetch(f"{services.url}/jira/rest/api/2/myself"))[0] == 503
    assert (await fetch(f"{services.url}/jira/rest/api/2/myself"))[0] == 401, (
        "the fault was for one request"
    )


async def test_a_log_is_redirected_to_a_host_that_needs_no_token(
    services: FaultyTrackers,
) -> None:
    run = next(
        each for each in services.github.repository.runs.values() if each.conclusion == "failure"
    )
    api = f"{services.url}/github/repos/acme/shop/actions/jobs/{run.jobs[0].id}/logs"
    token = f"Bearer {github_api.TOKEN}"
    status, headers, _ = await fetch(api, Authorization=token)
    assert (status, headers["location"].startswith(services.url)) == (302, False)
    assert (await fetch(headers["location"]))[0] == 200
    assert (await fetch(headers["location"], Authorization=token))[0] == 400


async def test_runs_come_in_pages(services: FaultyTrackers) -> None:
    url = f"{services.url}/github/repos/acme/shop/actions/runs?per_page=3"
    token = f"Bearer {github_api.TOKEN}"
    _, headers, body = await fetch(url, Authorization=token)
    assert (json.loads(body)["total_count"], len(json.loads(body)["workflow_runs"])) == (4, 3)
    following = headers["link"].partition(">")[0].removeprefix("<")
    _, headers, body = await fetch(following, Authorization=token)
    assert len(json.loads(body)["workflow_runs"]) == 1
    assert "link" not in headers


@pytest.mark.parametrize(
    "jql", ["", "ORDER BY key", "colour = red", "project =", 'project = "SHOP" status = "Done"']
)
def test_a_query_that_jira_would_refuse_is_refused(jql: str) -> None:
    with pytest.raises(BadQuery):
        jira_api.found(JiraSite().issues.values(), jql)
