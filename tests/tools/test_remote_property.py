"""No error names a place or a secret, for any answer of a remote service."""

import asyncio
import re
from contextlib import AsyncExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from tests.properties.internals import INTERNALS, WORD
from tests.support.examples import examples
from tests.support.faulty_sandboxes import EndpointFaultKind, Service
from tests.support.remote_tools import Office, opened
from threadline.errors import Permanent, Transient
from threadline.tools.output import render_result
from threadline_devstack.trackers import github as github_api
from threadline_devstack.trackers import jira as jira_api

WORDS = st.one_of(
    INTERNALS, st.builds("{} {} {}".format, WORD, INTERNALS, WORD), st.text(max_size=400)
)
HEADER = st.text("0123456789abcXYZ :,.-", max_size=30).map(str.strip)
HEADERS = st.dictionaries(
    st.sampled_from(["Retry-After", "X-RateLimit-Remaining", "X-RateLimit-Reset"]), HEADER
)
FAULTS = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(
            [
                EndpointFaultKind.REFUSE,
                EndpointFaultKind.LOSE,
                EndpointFaultKind.PAGE,
                EndpointFaultKind.GARBLE,
            ]
        ),
        "status": st.integers(400, 599),
        "words": WORDS,
        "headers": HEADERS,
    }
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("jira.search", {"words": "code"}),
    ("jira.get", {"key": "SHOP-1"}),
    ("jira.create", {"project": "SHOP", "type": "Bug", "summary": "x"}),
    ("jira.comment", {"key": "SHOP-1", "text": "x"}),
    ("jira.transition", {"key": "SHOP-1", "status": "Nowhere"}),
    ("ci.recentRuns", {}),
    ("ci.failedJobs", {}),
    ("ci.rerun", {"run_id": 7_000_000_004, "attempt": 1}),
]
PLACE = re.compile(
    r"[\\@]|(?<!\w)/\w|://|\w/[\w.-]+/|\b[a-zA-Z]\w*:\d\d|\b\d+\.\d+\.\d+\.\d+|localhost"
    r"|Traceback|\b0x[0-9a-f]"
)


def _is_clean(said: str, office: Office) -> None:
    assert said.strip()
    assert not PLACE.search(said), said
    for secret in (
        office.sandbox.url.removeprefix("http://"),
        jira_api.TOKEN,
        jira_api.EMAIL,
        github_api.TOKEN,
    ):
        assert secret not in said


async def _raised(office: Office, name: str) -> str:
    """The client's own error, before any policy."""
    try:
        await (
            office.jira.ticket("SHOP-1")
            if name.startswith("jira")
            else office.actions.build(7_000_000_004)
        )
    except (Permanent, Transient) as fault:
        return f"{fault} {fault.__cause__ or ''}"
    return "nothing went wrong"


@pytest.mark.hypothesis
def test_no_error_of_a_service_names_a_place_or_a_secret() -> None:
    with asyncio.Runner() as runner:
        opening = AsyncExitStack()
        office = runner.run(opening.enter_async_context(opened()))
        count = iter(range(10**6))

        @examples(0.6)
        @given(FAULTS, st.sampled_from(CALLS))
        def holds(fault: dict[str, Any], call: tuple[str, dict[str, Any]]) -> None:
            name, arguments = call
            service: Service = "jira" if name.startswith("jira") else "github"
            office.sandbox.clear_faults()
            office.sandbox.order(service, **fault, count=1)
            with capture_logs():
                result = runner.run(office.call(name, call_id=f"c{next(count)}", **arguments))
                assert result.error
                _is_clean(result.error.text, office)
                assert render_result(result)
                office.sandbox.clear_faults()
                office.sandbox.order(service, **fault, count=1)
                _is_clean(runner.run(_raised(office, name)), office)

        try:
            holds()
        finally:
            runner.run(opening.aclose())
