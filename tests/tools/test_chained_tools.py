"""The toolsets together: the tools that are offered, and calls that follow from one another."""

from typing import Any

import pytest

from tests.support.tool_scene import ToolScene
from threadline.appointments import tools as appointments
from threadline.cases import tools as cases
from threadline.db.engine import Database
from threadline.estimates import tools as estimates
from threadline.estimates.store import bound_project
from threadline.knowledge import tools as qa
from threadline.slack.model import Thread
from threadline.tools.context import Services, setup_hint
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline_devstack.sample_records import load_sample_records

TOOLS = [*estimates.TOOLS, *appointments.TOOLS, *qa.TOOLS, *cases.TOOLS]
REGISTRY = ToolRegistry(TOOLS)
CHANGING = {
    "estimates.createWbsItems",
    "estimates.updateWbsItems",
    "estimates.updateQuoteTotals",
    "calendar.book",
    "appointments.move",
    "appointments.cancel",
}


def test_every_remote_change_has_a_look_up_and_a_record() -> None:
    changing = [each for each in TOOLS if each.mutating]
    assert {each.name for each in changing} == CHANGING
    assert all(each.look_up and each.rate_limit_key for each in changing if each.remote)


def test_tool_without_its_service_is_not_offered() -> None:
    on_postgres_alone = {each.name for each in TOOLS if not (each.needs or each.identifies)}
    assert allowed_tools(REGISTRY, Services(), read_only=False).names == on_postgres_alone
    assert all(setup_hint(kind) for each in TOOLS for kind in each.needs)


async def test_project_can_be_switched_in_read_only(desk: ToolScene) -> None:
    assert desk.names(read_only=True) == {each.name for each in TOOLS} - CHANGING
    assert "estimates.useProject" not in CHANGING


def test_time_is_text_in_definitions_and_null_where_optional() -> None:
    [book] = REGISTRY.definitions(["calendar.book"])
    assert book["parameters"]["properties"]["starts_at"]["type"] == "string"
    [free] = REGISTRY.definitions(["calendar.free"])
    assert [each["type"] for each in free["parameters"]["properties"]["after"]["anyOf"]] == [
        "string",
        "null",
    ]


@pytest.fixture
async def desk(database: Database, database_url: str) -> ToolScene:
    await load_sample_records(database_url, "T1")
    return ToolScene(database, TOOLS)


async def play(desk: ToolScene, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Make the calls in turn, as a model would by the definitions of the offered tools, and return
    the users' text of each result.
    """
    offered = {each["name"]: each["parameters"] for each in REGISTRY.definitions(desk.names())}
    told = []
    for name, given in calls:
        whole = dict.fromkeys(offered[name]["required"]) | given
        told.append((await desk.ask(name, **whole)).user_text)
    return told


def items(project: str | None, count: int) -> dict[str, Any]:
    new = [
        {"title": f"item {number}", "role": "designer", "days": 1}
        for number in range(1, count + 1)
    ]
    return {"project_id": project, "items": new}


async def test_mention_chains_three_tools(desk: ToolScene) -> None:
    details, added, quote = await play(
        desk,
        ("estimates_getProjectDetails", {"project_id": "PRJ-1"}),
        ("estimates_createWbsItems", items("PRJ-1", 3)),
        ("estimates_updateQuoteTotals", {"project_id": "PRJ-1"}),
    )
    assert "14165.46 EUR" in details
    assert "3 items" in added
    assert "17021.46 EUR" in quote


async def test_thread_keeps_its_project(desk: ToolScene, database: Database) -> None:
    await play(desk, ("estimates_useProject", {"project_id": "Web shop"}))
    here = Thread("T1", "C1", "1760000000.000100")
    async with database.begin() as tx:
        project = await bound_project(tx, here)
        assert await bound_project(tx, Thread("T2", here.channel, here.ts)) is None
    assert project
    assert (project.project_id, project.locked) == ("PRJ-1", False)
    told, added = await play(
        desk, ("estimates_listRoles", {}), ("estimates_createWbsItems", items(None, 1))
    )
    assert "PRJ-1" in told
    assert "PRJ-1" in added


async def test_locked_project_is_reported(desk: ToolScene) -> None:
    [told] = await play(desk, ("estimates_createWbsItems", items("PRJ-2", 1)))
    assert "PRJ-2 (Mobile app) is locked" in told


async def test_free_time_is_found_and_booked(desk: ToolScene) -> None:
    free, booked = await play(
        desk,
        ("calendar_free", {"resource": "Meeting room", "minutes": 30, "days": 7}),
        (
            "calendar_book",
            {"resource": "Meeting room", "starts_at": "2026-03-02T09:00", "minutes": 30},
        ),
    )
    assert "2026-03-02 09:00 (Europe/Berlin)" in free
    assert "APT-1: Meeting room, 2026-03-02 09:00 (Europe/Berlin)" in booked
