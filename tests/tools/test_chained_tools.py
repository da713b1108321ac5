"""The toolsets together: what is offered where, and calls that follow from one another."""

import json
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
from threadline.tools.output import render_result
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline_devstack.models.copilot_arguments import Filler, Known
from threadline_devstack.models.copilot_plan import plan
from threadline_devstack.sample_records import lay_sample_records

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
    assert [each["type"] for each in free["parameters"]["properties"]["after"]["anyOf"]] == ["string", "null"]


@pytest.fixture
async def desk(database: Database, database_url: str) -> ToolScene:
    await lay_sample_records(database_url, "T1")
    return ToolScene(database, TOOLS)


async def play(desk: ToolScene, words: str) -> list[tuple[str, str]]:
    """The calls that the scripted model makes of a person's words, each with its tool and text."""
    offered = {each["name"]: each for each in REGISTRY.definitions(desk.names())}
    known, told = Known(), []
    for step in plan(words, {name: each["description"] for name, each in offered.items()}):
        for planned in step:
            schema: dict[str, Any] = offered[planned.tool]["parameters"]
            given = Filler(schema, planned, words, known).arguments()
            result = await desk.ask(planned.tool, **json.loads(json.dumps(given)))
            known.add(render_result(result))
            told.append((planned.tool, result.user_text))
    return told


async def test_mention_chains_three_tools(desk: ToolScene) -> None:
    words = "Show the details of PRJ-1, create three WBS items and then update the quote totals."
    [(tool, details), (then, added), (last, quote)] = await play(desk, words)
    assert (tool, then) == ("estimates_getProjectDetails", "estimates_createWbsItems")
    assert last == "estimates_updateQuoteTotals"
    assert "14165.46 EUR" in details
    assert "3 items" in added
    assert "16962.56 EUR" in quote


async def test_thread_keeps_its_project(desk: ToolScene, database: Database) -> None:
    await play(desk, 'Use the project "Web shop"')
    here = Thread("T1", "C1", "1760000000.000100")
    async with database.begin() as work:
        project = await bound_project(work.tx, here)
        assert await bound_project(work.tx, Thread("T2", here.channel, here.ts)) is None
    assert project
    assert (project.project_id, project.locked) == ("PRJ-1", False)
    [(_, told), (_, added)] = await play(desk, "List the roles, then create a WBS item")
    assert "PRJ-1" in told
    assert "PRJ-1" in added


async def test_locked_project_is_told(desk: ToolScene) -> None:
    [_, (tool, told)] = await play(desk, "Show the details of PRJ-2 and create an item")
    assert tool == "estimates_createWbsItems"
    assert "PRJ-2 (Mobile app) is locked" in told


async def test_free_time_is_found_and_booked(desk: ToolScene) -> None:
    [(_, free), (_, booked)] = await play(desk, 'Look for free slots of the "Meeting room", then book a meeting')
    assert "2026-03-02 09:00 (Europe/Berlin)" in free
    assert "APT-1: Meeting room, 2026-03-02 09:00 (Europe/Berlin)" in booked
