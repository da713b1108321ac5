"""Jobs about RFPs in a team where only some people may see RFPs."""

from datetime import date
from typing import Any

import pytest

from tests.jobs.test_job_tools import BERLIN, WEEKLY, Runner, services
from tests.support.recording import create
from tests.support.role_fakes import SELLER, directory, sellers
from tests.support.tool_results import code_of, message_of
from tests.support.tool_scene import ToolScene
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.jobs import tools as jobs
from threadline.jobs.store import JobStore
from threadline.slack.user_groups import UserGroups
from threadline.tools.model import ErrorCode
from threadline.tools.roles import Group, RecordKind, RoleDirectory, Roles

WHO_MAY = "Only people of the group sales may see rfps. Please ask one of them."
REMINDER: dict[str, Any] = {
    "job_type": "deadline_reminder",
    "arguments": {"rfp_id": "rfp_abc123"},
    "time_zone": BERLIN,
}
QUESTION: dict[str, Any] = {"job_type": "follow_up", "after_minutes": 30}
OPEN_TO_ALL = QUESTION | {"arguments": {"question": "Is the coffee back?"}}
ABOUT_RFPS = [
    REMINDER,
    WEEKLY,
    QUESTION | {"arguments": {"question": "How far is it?", "rfp_id": "rfp_abc123"}},
    QUESTION | {"arguments": {"question": "How far is RFP_abc123?"}},
]
SECRETS = ("rfp_abc123", "2026-03-29", "2026-04-01", "Posted")


@pytest.fixture
async def desk(database: Database) -> ToolScene:
    await create(database, rfp_id="rfp_abc123", due_date=date(2026, 4, 1))
    with_roles = services(Runner()).with_service(RoleDirectory, sellers(RecordKind.RFPS))
    return ToolScene(database, jobs.TOOLS, services=with_roles)


@pytest.mark.parametrize("tool", ["job.plan", "schedule.job"])
@pytest.mark.parametrize("given", ABOUT_RFPS)
async def test_job_about_rfps_is_planned_and_scheduled_by_people_of_the_role_alone(
    desk: ToolScene, database: Database, tool: str, given: dict[str, Any]
) -> None:
    refused = await desk.refused(tool, **given)
    assert (code_of(refused), message_of(refused)) == (ErrorCode.NOT_ALLOWED, WHO_MAY)
    async with database.begin() as tx:
        assert await JobStore(tx).search("T1") == []
    assert (await desk.ask(tool, user_id=SELLER, **given)).made


@pytest.mark.parametrize("tool", ["job.plan", "schedule.job"])
async def test_job_that_is_not_about_rfps_is_for_everybody(desk: ToolScene, tool: str) -> None:
    assert (await desk.ask(tool, **OPEN_TO_ALL)).made


async def test_refusal_does_not_reveal_whether_an_rfp_exists(desk: ToolScene) -> None:
    unknown = REMINDER | {"arguments": {"rfp_id": "rfp_none"}}
    assert message_of(await desk.refused("schedule.job", **unknown)) == WHO_MAY


@pytest.mark.parametrize("tool", ["agent.job.list", "agent.job.query"])
async def test_lists_say_how_many_jobs_are_hidden_and_who_may_see_them(
    desk: ToolScene, tool: str
) -> None:
    for given in ABOUT_RFPS:
        await desk.done("schedule.job", user_id=SELLER, **given)
    await desk.done("schedule.job", **OPEN_TO_ALL)
    result = await desk.ask(tool)
    assert [each["job_id"] for each in result.data["jobs"]] == ["JOB-5"]
    assert result.data["hidden"] == f"4 jobs about RFPs are not shown. {WHO_MAY}"
    assert result.data["hidden"] in result.display_text
    assert not [each for each in SECRETS if each in repr(result)]
    seen = await desk.ask(tool, user_id=SELLER)
    assert (len(seen.data["jobs"]), "hidden" in seen.data) == (5, False)


@pytest.mark.parametrize(
    "search",
    [
        {"until": "2026-01-01T00:00:00Z"},
        {"since": "2030-01-01T00:00:00Z"},
        {"job_type": "status_digest"},
        {"status": "done"},
    ],
)
async def test_number_of_hidden_jobs_does_not_reveal_them(
    desk: ToolScene, search: dict[str, Any]
) -> None:
    await desk.done("schedule.job", user_id=SELLER, **REMINDER)
    assert (await desk.done("agent.job.query", **search))["hidden"].startswith(
        "1 job about RFPs is not shown."
    )


async def test_lost_schedule_is_found_while_slack_does_not_say_who_may_see_rfps(
    desk: ToolScene, database: Database
) -> None:
    async def away(_: str) -> frozenset[str]:
        raise Transient("Slack did not answer.")

    desk.ledger.lost = RuntimeError("the worker is gone")
    with pytest.raises(RuntimeError):
        await desk.ask("schedule.job", "s1", retries_left=2, user_id=SELLER, **REMINDER)
    only = {RecordKind.RFPS: frozenset({"sales"})}
    roles = RoleDirectory(
        Roles({"sales": Group(user_groups=frozenset({"S1"}))}, see=only), UserGroups(away)
    )
    later = ToolScene(
        database, jobs.TOOLS, services=services(Runner()).with_service(RoleDirectory, roles)
    )
    again = await later.ask("schedule.job", "s1", user_id=SELLER, **REMINDER)
    assert again.data["job_id"] == "JOB-1"
    assert "rfp_abc123" not in repr(again)


async def test_hidden_jobs_take_no_place_of_others(
    desk: ToolScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "MAX_LISTED", 1)
    await desk.done("schedule.job", **OPEN_TO_ALL)
    for _ in range(3):
        await desk.done("schedule.job", user_id=SELLER, **WEEKLY)
    listed = await desk.done("agent.job.list")
    assert ([each["job_id"] for each in listed["jobs"]], listed["more"]) == (["JOB-1"], False)
    assert listed["hidden"].startswith("3 jobs about RFPs")


async def test_query_by_rfp_is_refused_with_the_names_of_those_who_may(desk: ToolScene) -> None:
    await desk.done("schedule.job", user_id=SELLER, **REMINDER)
    for rfp_id in ("rfp_abc123", "rfp_none"):
        refused = await desk.refused("agent.job.query", rfp_id=rfp_id)
        assert (code_of(refused), message_of(refused)) == (ErrorCode.NOT_ALLOWED, WHO_MAY)
    assert (
        len((await desk.done("agent.job.query", user_id=SELLER, rfp_id="rfp_abc123"))["jobs"]) == 1
    )


@pytest.mark.parametrize("given", ABOUT_RFPS[:3])
async def test_status_and_cancellation_reveal_nothing_of_the_rfp(
    desk: ToolScene, database: Database, given: dict[str, Any]
) -> None:
    """The id of the job is in its posts, so the people who read them can end it."""
    await desk.done("schedule.job", user_id=SELLER, **given)
    async with database.begin() as tx:
        await JobStore(tx).begin("T1", "JOB-1", "run-1", 0.0)
    cancelled = await desk.ask("agent.job.cancel", job_id="JOB-1")
    async with database.begin() as tx:
        said = {"said": "Posted a reminder: rfp_abc123 is due on 2026-04-01."}
        await JobStore(tx).finish(
            "T1", "JOB-1", "run-1", 0.0, result=said, error="rfp_abc123 is due on 2026-04-01."
        )
    status = await desk.ask("agent.job.status", job_id="JOB-1")
    for result in (cancelled, status):
        assert (result.data["status"], result.data["hidden"]) == ("cancelled", WHO_MAY)
        assert not [each for each in SECRETS if each in repr(result)]


async def test_everybody_who_asks_needs_the_role_to_see_jobs_about_rfps(desk: ToolScene) -> None:
    await desk.done("schedule.job", user_id=SELLER, **REMINDER)
    together = await desk.done("agent.job.list", user_id=SELLER, co_requesters={"U1": "Ana (U1)"})
    assert together["jobs"] == []
    assert together["hidden"].startswith("1 job about RFPs is not shown.")


@pytest.mark.parametrize("loses_role", [False, True])
async def test_lost_schedule_is_found_and_shows_the_rfp_only_with_the_role(
    desk: ToolScene, database: Database, loses_role: bool
) -> None:
    desk.ledger.lost = RuntimeError("the worker is gone")
    with pytest.raises(RuntimeError):
        await desk.ask("schedule.job", "s1", retries_left=2, user_id=SELLER, **REMINDER)
    nobody = directory(Roles(see={RecordKind.RFPS: frozenset()}))
    roles = nobody if loses_role else sellers(RecordKind.RFPS)
    later = ToolScene(
        database, jobs.TOOLS, services=services(Runner()).with_service(RoleDirectory, roles)
    )
    again = await later.ask("schedule.job", "s1", user_id=SELLER, **REMINDER)
    assert again.data["job_id"] == "JOB-1"
    assert ("rfp_abc123" in repr(again)) is not loses_role
