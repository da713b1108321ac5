"""The toolsets together: what is offered where, and whether a model that fills in schemas gets along with them."""

import json
from typing import Any

import pytest

from tests.support.tool_desk import Desk
from threadline.appointments import tools as appointments
from threadline.cases import case_tools as cases
from threadline.db.engine import Database
from threadline.estimates import tools as estimates
from threadline.estimates.toolset_adapters import bound_project
from threadline.knowledge import tools as qa
from threadline.threads.addressing import Thread
from threadline.tools.access import allowed
from threadline.tools.context import Ports
from threadline.tools.output import rendered
from threadline.tools.registry import Registry
from threadline_devstack.models.copilot_arguments import Filler, Known
from threadline_devstack.models.copilot_plan import plan
from threadline_devstack.sample_records import lay_sample_records

TOOLS = [*estimates.TOOLS, *appointments.TOOLS, *qa.TOOLS, *cases.TOOLS]
REGISTRY = Registry(TOOLS)
CHANGING = {
    "estimates.createWbsItems",
    "estimates.updateWbsItems",
    "estimates.updateQuoteTotals",
    "appointments.book",
    "appointments.move",
    "appointments.cancel",
}


def test_every_change_can_be_looked_up_and_names_its_record() -> None:
    changing = [each for each in TOOLS if each.mutating]
    assert {each.name for each in changing} == CHANGING
    assert all(each.look_up and each.record for each in changing)


def test_a_toolset_without_its_port_is_not_offered_and_says_what_brings_it() -> None:
    assert allowed(REGISTRY, Ports(), read_only=False).names == frozenset()
    assert all(port.help for each in TOOLS for port in each.needs)


async def test_where_nothing_may_be_changed_a_thread_can_still_turn_to_another_project(desk: Desk) -> None:
    names = desk.names(read_only=True)
    assert names == {each.name for each in TOOLS} - CHANGING
    assert "estimates.useProject" in names


def test_a_time_is_any_text_to_the_provider_and_null_where_it_may_be_left_out() -> None:
    [book] = REGISTRY.definitions(["appointments.book"])
    assert book["parameters"]["properties"]["starts_at"]["type"] == "string"
    [free] = REGISTRY.definitions(["appointments.freeSlots"])
    assert [each["type"] for each in free["parameters"]["properties"]["after"]["anyOf"]] == ["string", "null"]


@pytest.fixture
async def desk(database: Database, database_url: str) -> Desk:
    await lay_sample_records(database_url, "T1")
    return Desk(database, TOOLS)


async def play(desk: Desk, words: str) -> list[tuple[str, str]]:
    """What the scripted model does with a person's words, on the sample records: each call and what people are told."""
    offered = {each["name"]: each for each in REGISTRY.definitions(desk.names())}
    known, told = Known(), []
    for step in plan(words, {name: each["description"] for name, each in offered.items()}):
        for planned in step:
            schema: dict[str, Any] = offered[planned.tool]["parameters"]
            given = Filler(schema, planned, words, known).arguments()
            result = await desk.ask(planned.tool, **json.loads(json.dumps(given)))
            known.add(rendered(result))
            told.append((planned.tool, result.text))
    return told


async def test_a_mention_chains_three_tools(desk: Desk) -> None:
    words = "Show the details of PRJ-1, create three WBS items and then update the quote totals."
    assert await play(desk, words) == [
        (
            "estimates_getProjectDetails",
            "PRJ-1 (Web shop): 3 roles, 3 items, quote 1 comes to 14165.46 EUR.",
        ),
        ("estimates_createWbsItems", "3 items added to PRJ-1 (Web shop)."),
        ("estimates_updateQuoteTotals", "Quote 1 of PRJ-1 (Web shop) comes to 16962.56 EUR."),
    ]


async def test_a_thread_keeps_its_project_for_what_is_said_later(desk: Desk, database: Database) -> None:
    await play(desk, 'Use the project "Web shop"')
    here = Thread("T1", "C1", "1760000000.000100")
    async with database.begin() as work:
        project = await bound_project(work, here)
        assert await bound_project(work, Thread("T2", here.channel, here.ts)) is None
    assert project
    assert (project.project_id, project.locked) == ("PRJ-1", False)
    [(_, told), (_, added)] = await play(desk, "List the roles, then create a WBS item")
    assert (told, added) == ("PRJ-1 (Web shop) has 3 roles.", "1 item added to PRJ-1 (Web shop).")


async def test_a_locked_project_is_told_of(desk: Desk) -> None:
    [_, (tool, told)] = await play(desk, "Show the details of PRJ-2 and create an item")
    assert tool == "estimates_createWbsItems"
    assert told.startswith("PRJ-2 (Mobile app) is locked: it can be read, but nothing in it can be changed.")


async def test_a_free_time_is_looked_for_and_booked(desk: Desk) -> None:
    [(_, free), (_, booked)] = await play(desk, 'Look for free slots of the "Meeting room", then book an appointment')
    assert free == "The next free time is 2026-03-02 09:00 (Europe/Berlin)."
    assert booked == "Booked APT-1: Meeting room, 2026-03-02 09:00 (Europe/Berlin)."
