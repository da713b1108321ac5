"""Builds of GitHub: runs, the causes of failures, and reruns."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.faulty_sandboxes import EndpointFaultKind
from tests.support.remote_tools import Office, opened
from tests.support.tool_results import code_of
from threadline.errors import Permanent, Transient
from threadline.forge.actions import EACH_LOG, LOG_ROOM, LOGS, Actions
from threadline.tools.model import ErrorCode, ToolStatus
from threadline.tools.output import render_result
from threadline_devstack.trackers.github import FAILED, SLUG, WELL, CiRun

CODES = "Codes hold on their last day"


@pytest.fixture
async def office() -> AsyncIterator[Office]:
    async with opened() as office:
        yield office


def run_of(office: Office, title: str) -> CiRun:
    return next(
        each for each in office.sandbox.github.repository.runs.values() if each.title == title
    )


@pytest.fixture
def failed(office: Office) -> CiRun:
    return run_of(office, CODES)


@pytest.mark.parametrize(
    ("given", "titles"),
    [
        (
            {},
            [
                "Free shipping from 50 euros",
                "Release 1.4",
                CODES,
                "Show the bulk price in the cart",
            ],
        ),
        ({"branch": "codes"}, [CODES]),
        ({"status": "failure"}, ["Release 1.4", CODES]),
        ({"status": "failure", "limit": 1}, ["Release 1.4"]),
        ({"status": "in_progress"}, []),
    ],
)
async def test_newest_runs_come_first(
    office: Office, given: dict[str, Any], titles: list[str]
) -> None:
    result = await office.call("ci.recentRuns", **given)
    assert [each["title"] for each in result.data["runs"]] == titles
    assert [each["title"] for part in result.structured for each in part.records] == titles
    assert {part.kind for part in result.structured} == ({"builds"} if titles else set())


async def test_failed_job_has_the_end_of_its_log(office: Office, failed: CiRun) -> None:
    result = await office.call("ci.failedJobs", run_id=failed.id)
    (job,) = result.data["jobs"]
    assert (job["name"], job["steps"]) == ("unit", ["Run unit"])
    assert "SPRING is refused on its last day" in job["log"]
    assert "\x1b" not in job["log"]
    assert "2026-03-01T" not in job["log"]


async def test_newest_failed_run_is_read_by_default(office: Office) -> None:
    result = await office.call("ci.failedJobs")
    assert result.data["run"]["title"] == "Release 1.4"
    assert "it expired yesterday" in result.data["jobs"][0]["log"]
    for run in office.sandbox.github.repository.runs.values():
        run.conclusion = WELL
    assert "No run has failed" in (await office.call("ci.failedJobs", call_id="c2")).user_text


async def test_missing_log_is_reported(office: Office, failed: CiRun) -> None:
    failed.jobs[0].log = None
    result = await office.call("ci.failedJobs", run_id=failed.id)
    assert "no log" in result.data["jobs"][0]["log"]


async def test_many_long_logs_are_shown_by_their_ends(office: Office) -> None:
    lines = "".join(
        f"2026-03-01T09:00:00.0000000Z line {number} of \x1b[31mmany\x1b[0m\n"
        for number in range(40_000)
    )
    jobs = [
        (f"shard {number}", FAILED, f"{lines}the end of {number}\n") for number in range(LOGS + 3)
    ]
    run = office.sandbox.github.repository.add("tests", "A large one", "main", 1, jobs)
    result = await office.call("ci.failedJobs", run_id=run.id)
    shown = json.loads(render_result(result))
    assert [each["log"].splitlines()[-1] for each in shown["data"]["jobs"]] == [
        f"the end of {n}" for n in range(LOGS)
    ]
    assert "data_cut" not in shown
    assert shown["data"]["without_log"] == "3 more failed jobs are not shown"
    logs = [each["log"].encode() for each in result.data["jobs"]]
    assert max(map(len, logs)) <= EACH_LOG
    assert LOG_ROOM // 2 < sum(map(len, logs)) <= LOG_ROOM


async def test_failed_job_after_a_hundred_others_is_found(office: Office) -> None:
    jobs = [(f"shard {number}", WELL, "") for number in range(120)] + [
        ("the last", FAILED, "it failed\n")
    ]
    run = office.sandbox.github.repository.add("tests", "A wide one", "main", 1, jobs)
    (job,) = (await office.call("ci.failedJobs", run_id=run.id)).data["jobs"]
    assert (job["name"], job["log"]) == ("the last", "it failed")


async def test_failed_jobs_of_a_run_are_rerun(office: Office, failed: CiRun) -> None:
    result = await office.call("ci.rerun", run_id=failed.id, attempt=1)
    assert result.status is ToolStatus.OK
    assert (failed.attempt, failed.status) == (2, "queued")
    (record,) = result.structured[0].records
    assert (record["attempt"], record["status"], "conclusion" in record) == (2, "queued", False)
    assert [job.status for job in failed.jobs] == ["queued", "completed"]


async def test_all_jobs_of_a_run_are_rerun_when_asked(office: Office, failed: CiRun) -> None:
    await office.call("ci.rerun", run_id=failed.id, attempt=1, failed_only=False)
    assert [job.status for job in failed.jobs] == ["queued", "queued"]


@pytest.mark.parametrize("kind", [EndpointFaultKind.LOSE, EndpointFaultKind.GARBLE])
async def test_rerun_with_lost_answer_is_made_once(
    office: Office, failed: CiRun, kind: EndpointFaultKind
) -> None:
    office.sandbox.order("github", kind, method="POST", status=502)
    result = await office.persist("ci.rerun", run_id=failed.id, attempt=1)
    assert result.status is ToolStatus.OK
    assert failed.attempt == 2


async def test_ended_rerun_with_lost_record_is_made_once(office: Office, failed: CiRun) -> None:
    office.ledger.lost = Transient("The record cannot be reached.")
    with pytest.raises(Transient):
        await office.call("ci.rerun", retries_left=2, run_id=failed.id, attempt=1)
    office.sandbox.github.repository.finish(failed, FAILED, "")
    result = await office.call("ci.rerun", retries_left=1, run_id=failed.id, attempt=1)
    assert result.data["attempt"] == failed.attempt == 2


async def test_same_attempt_is_rerun_once(office: Office, failed: CiRun) -> None:
    for call_id in ("c1", "c2"):
        result = await office.call("ci.rerun", call_id=call_id, run_id=failed.id, attempt=1)
        assert result.status is ToolStatus.OK
    assert failed.attempt == 2
    assert "already" in result.user_text


@pytest.mark.parametrize("status", [429, 500])
async def test_failed_rerun_is_made_by_the_next_try(
    office: Office, failed: CiRun, status: int
) -> None:
    office.sandbox.order("github", method="POST", status=status)
    assert (await office.persist("ci.rerun", run_id=failed.id, attempt=1)).status is ToolStatus.OK
    assert failed.attempt == 2


async def test_rerun_that_failed_before_its_request_is_retried_at_once(
    office: Office, failed: CiRun
) -> None:
    office.sandbox.order("github", method="GET", status=500)
    result = await office.call("ci.rerun", run_id=failed.id, attempt=1)
    assert code_of(result) is ErrorCode.SERVICE_UNAVAILABLE
    office.sandbox.order("github", method="GET", status=500)
    began = office.clock()
    assert (
        await office.persist("ci.rerun", call_id="c2", run_id=failed.id, attempt=1)
    ).status is ToolStatus.OK
    assert (failed.attempt, (office.clock() - began).total_seconds()) == (2, 1)


async def test_running_run_is_not_rerun(office: Office, failed: CiRun) -> None:
    failed.status = "in_progress"
    failed.conclusion = None
    result = await office.call("ci.rerun", run_id=failed.id, attempt=1)
    assert "has not ended yet" in result.user_text
    assert failed.attempt == 1


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("ci.failedJobs", {"run_id": 12}, "Run 12 was not found at GitHub"),
        ("ci.rerun", {"run_id": 12, "attempt": 1}, "Run 12 was not found at GitHub"),
        ("ci.rerun", {"attempt": 2}, "last attempt of run"),
    ],
)
async def test_refusal_says_what_to_change(
    office: Office, failed: CiRun, name: str, given: dict[str, Any], said: str
) -> None:
    result = await office.call(name, **{"run_id": failed.id} | given)
    assert code_of(result) is ErrorCode.REFUSED
    assert said in result.user_text


async def test_reason_that_github_gives_only_in_its_errors_is_shown(
    office: Office, failed: CiRun
) -> None:
    office.sandbox.github.repository.refuses_reruns = (
        "Reruns are paused while the runners are updated."
    )
    result = await office.call("ci.rerun", run_id=failed.id, attempt=1)
    assert code_of(result) is ErrorCode.REFUSED
    assert "Reruns are paused while the runners are updated." in result.user_text


SPENT = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1"}


@pytest.mark.parametrize(
    ("fault", "side", "said", "pause"),
    [
        ({"kind": EndpointFaultKind.PAGE}, Permanent, "a web page", None),
        ({"kind": EndpointFaultKind.GARBLE}, Transient, "could not be read", None),
        (
            {"status": 500, "headers": {"X-RateLimit-Reset": "99999999999"}},
            Transient,
            "HTTP 500",
            None,
        ),
        ({"status": 503, "retry_after": 9}, Transient, "HTTP 503", 9.0),
        ({"status": 429, "retry_after": 7}, Transient, "rate limit is reached", 7.0),
        ({"status": 403, "retry_after": 7}, Transient, "rate limit is reached", 7.0),
        ({"status": 403, "headers": SPENT}, Transient, "rate limit is reached", 1.0),
        (
            {"status": 403, "words": "You have exceeded a secondary rate limit"},
            Transient,
            "rate limit is reached",
            None,
        ),
        (
            {"status": 403, "words": "Must have admin rights."},
            Permanent,
            "Must have admin rights.",
            None,
        ),
        (
            {"status": 403, "words": "See https://acme.example/x"},
            Permanent,
            "may not use the actions",
            None,
        ),
        ({"status": 401}, Permanent, "THREADLINE_GITHUB_TOKEN", None),
        ({"status": 404}, Permanent, "THREADLINE_GITHUB_REPOSITORY", None),
        ({"status": 422, "words": "No."}, Permanent, "HTTP 422", None),
    ],
)
async def test_fault_of_github_is_transient_or_permanent(
    office: Office,
    failed: CiRun,
    fault: dict[str, Any],
    side: type[Exception],
    said: str,
    pause: float | None,
) -> None:
    office.sandbox.order("github", **fault)
    with pytest.raises(side, match=said) as raised:
        await office.actions.build(failed.id)
    assert getattr(raised.value, "retry_after", None) == pause
    office.sandbox.order("github", **fault)
    with pytest.raises(side):
        await office.actions.recent("", "", 5)
    assert (await office.actions.build(failed.id)).id == failed.id, "the next call succeeds"


@pytest.mark.parametrize("kind", [EndpointFaultKind.REFUSE, EndpointFaultKind.LOSE])
async def test_failing_log_store_is_transient(
    office: Office, failed: CiRun, kind: EndpointFaultKind
) -> None:
    office.sandbox.order("logs", kind, status=503)
    with pytest.raises(Transient, match="HTTP 503"):
        await office.actions.failed_jobs(failed.id)


async def test_hanging_github_is_given_up_after_the_timeout() -> None:
    async with opened(patience=1) as office:
        run = run_of(office, "Release 1.4")
        for service in ("github", "logs"):
            office.sandbox.order(service, EndpointFaultKind.HANG)
            with pytest.raises(Transient):
                await office.actions.failed_jobs(run.id)


async def test_unreachable_github_is_transient() -> None:
    nowhere = Actions(SLUG, SecretStr("x"), "http://127.0.0.1:1/github")
    with pytest.raises(Transient, match="could not be reached"):
        await nowhere.recent("", "", 1)
