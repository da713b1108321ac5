"""Estimates from a thread: bound to its project, exact, locked, limited, and never changed twice by one call."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from tests.support.tool_desk import Desk
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.errors import Transient
from threadline.estimates import tools as estimates
from threadline.estimates.model import Role
from threadline.tools.model import Code, Status, ToolResult
from threadline.tools.output import rendered

DESIGN = {"title": "Design", "role": "designer", "days": 2.5}
BUILD = {"title": "Build", "role": "developer", "days": "10"}


@pytest.fixture(autouse=True)
async def projects(database: Database) -> None:
    async with database.begin() as work:
        for team in ("T1", "T2"):
            for name in ("Web shop", "App"):
                project = await work.estimates.open_project(team, name, "EUR")
                await work.estimates.save_role(team, project.project_id, Role("designer", Decimal("800.50")))
                await work.estimates.save_role(team, project.project_id, Role("developer", Decimal(900)))


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database, estimates.TOOLS)


async def lock(database: Database, project_id: str) -> None:
    async with database.begin() as work:
        await work.estimates.set_locked("T1", project_id, locked=True)


def told(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def test_projects_of_the_team_are_listed_and_no_others(desk: Desk) -> None:
    result = await desk.ask("estimates.listProjects")
    ids = [each["project_id"] for each in result.data["projects"]]
    assert ids == ["PRJ-2", "PRJ-1"]
    assert [each.kind for each in result.structured] == ["projects"]
    assert not result.data["more"]
    assert (await desk.done("estimates.listProjects", team="T3"))["projects"] == []


async def test_the_thread_becomes_about_the_first_project_that_is_opened(desk: Desk) -> None:
    for tool in ("getProjectDetails", "listRoles", "listWbsItems"):
        nothing = await desk.refused(f"estimates.{tool}", thread_ts=f"{tool}.1")
        assert "has no project yet" in told(nothing)
    assert (await desk.done("estimates.getProjectDetails", project_id="web SHOP"))["project_id"] == "PRJ-1"
    await desk.done("estimates.listRoles", project_id="PRJ-2")
    assert (await desk.done("estimates.listRoles"))["project_id"] == "PRJ-1", "a second one is looked at in passing"
    assert (await desk.done("estimates.useProject", project_id="app"))["project_id"] == "PRJ-2"
    assert (await desk.done("estimates.getProjectDetails"))["project_id"] == "PRJ-2"
    nothing = await desk.refused("estimates.getProjectDetails", thread_ts="1760000000.999999")
    assert nothing.error
    assert nothing.error.code is Code.REFUSED


async def test_a_change_that_names_the_project_makes_it_the_threads(desk: Desk) -> None:
    await desk.done("estimates.createWbsItems", project_id="prj-2", items=[BUILD])
    assert [each["title"] for each in (await desk.done("estimates.listWbsItems"))["items"]] == ["Build"]


async def test_items_are_added_and_the_model_is_told_that_quotes_are_out_of_date(desk: Desk) -> None:
    result = await desk.ask("estimates.createWbsItems", project_id="PRJ-1", items=[DESIGN, BUILD])
    assert result.data["items"] == [
        {"number": 1, "title": "Design", "role": "designer", "days": "2.5"},
        {"number": 2, "title": "Build", "role": "developer", "days": "10"},
    ]
    assert result.display_text == "2 items added to PRJ-1 (Web shop)."
    [note] = result.notes
    assert note.startswith("[Side Effect] The totals of quote 1 of PRJ-1 are out of date")
    assert not (await desk.done("estimates.getProjectDetails"))["quotes"][0]["up_to_date"]
    await desk.done("estimates.updateQuoteTotals")
    assert (await desk.done("estimates.getProjectDetails"))["quotes"][0]["up_to_date"]
    renamed = await desk.ask("estimates.updateWbsItems", items=[{"number": 1, "title": "Sketch"}])
    assert renamed.data["items"][0] == {"number": 1, "title": "Sketch", "role": "designer", "days": "2.5"}
    assert renamed.notes == (), "a title costs nothing"
    assert (await desk.ask("estimates.updateWbsItems", items=[{"number": 1, "days": 3}])).notes


async def test_totals_are_exact_decimals_to_the_last_cent(desk: Desk) -> None:
    items = [DESIGN, BUILD, {"title": "Rest", "role": "designer", "days": "0.0001"}]
    await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=items)
    result = await desk.ask("estimates.updateQuoteTotals", discount_percent=10, tax_percent="19")
    [quote] = result.data["quotes"]
    assert {name: quote[name] for name in ("subtotal", "discount", "tax", "total")} == {
        "subtotal": "11001.33",  # 11001.33005
        "discount": "1100.13",  # 1100.133005
        "tax": "1881.23",  # 1881.2274
        "total": "11782.42",  # 11782.4245
    }
    assert '"total": "11782.42"' in rendered(result)
    assert result.display_text == "Quote 1 of PRJ-1 (Web shop) comes to 11782.42 EUR."
    kept = await desk.done("estimates.updateQuoteTotals", quote=1)
    assert (kept["quotes"][0]["discount_percent"], kept["quotes"][0]["tax_percent"]) == ("10", "19")


@pytest.mark.parametrize("days", ["0.1", 0.1, 99999.9999, "99999.9999", 100000])
async def test_days_come_back_as_they_were_given(desk: Desk, days: Any) -> None:
    made = await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=[{**DESIGN, "days": days}])
    assert made["items"][0]["days"] == str(days)


async def test_details_show_all_of_a_project_as_tables(desk: Desk) -> None:
    await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=[DESIGN])
    result = await desk.ask("estimates.getProjectDetails")
    assert [each.kind for each in result.structured] == ["projects", "roles", "wbs_items", "quotes"]
    assert result.data["roles"][0] == {"role": "designer", "day_rate": "800.50"}
    assert result.display_text == "PRJ-1 (Web shop): 2 roles, 1 item, quote 1 comes to 0.00 EUR."


async def test_what_was_changed_after_it_was_looked_at_is_shown_in_its_last_state(desk: Desk) -> None:
    await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=[DESIGN, BUILD])
    await desk.done("estimates.createWbsItems", project_id="PRJ-2", items=[DESIGN])
    calls: list[tuple[str, dict[str, Any]]] = [
        ("getProjectDetails", {}),
        ("listRoles", {}),
        ("updateWbsItems", {"items": [{"number": 2, "days": 4}]}),
        ("updateQuoteTotals", {"tax_percent": 50}),
        ("listWbsItems", {"project_id": "PRJ-2"}),
    ]
    results = [await desk.ask(f"estimates.{tool}", **({"project_id": "PRJ-1"} | given)) for tool, given in calls]
    shown = [(part.kind, part.records) for result in results for part in result.structured]
    told = "\n".join(message.text for message in answer_of("Done.", shown))
    assert [told.count(title) for title in ("Project\n", "Roles (2)", "Work items (3)", "Quote\n")] == [1, 1, 1, 1]
    assert "2 · Build · developer · 4 · PRJ-1" in told
    assert told.count("Build") == 1
    assert told.count("1 · Design · designer · 2.5 · ") == 2, "one of each project"


async def test_items_come_in_pages_and_by_role(desk: Desk) -> None:
    for _ in range(3):
        await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=[DESIGN] * 40 + [BUILD])
    first = await desk.done("estimates.listWbsItems")
    assert (len(first["items"]), first["item_count"], first["after"]) == (100, 123, 100)
    rest = await desk.done("estimates.listWbsItems", after=first["after"])
    assert [each["number"] for each in rest["items"]] == list(range(101, 124))
    builds = await desk.done("estimates.listWbsItems", role="developer")
    assert [each["number"] for each in builds["items"]] == [41, 82, 123]


CHANGES: list[tuple[str, dict[str, Any]]] = [
    ("estimates.createWbsItems", {"items": [DESIGN]}),
    ("estimates.updateWbsItems", {"items": [{"number": 1, "days": 4}]}),
    ("estimates.updateQuoteTotals", {"tax_percent": 7}),
]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_a_locked_project_is_told_of_in_a_sentence_and_stays_as_it_is(
    desk: Desk, database: Database, tool: str, arguments: dict[str, Any]
) -> None:
    await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=[BUILD])
    await lock(database, "PRJ-1")
    before = await desk.done("estimates.getProjectDetails")
    result = await desk.refused(tool, project_id="PRJ-1", **arguments)
    assert result.status is Status.BLOCKED
    assert told(result) == "PRJ-1 (Web shop) is locked: it can be read, but nothing in it can be changed."
    assert before["locked"]
    assert await desk.done("estimates.getProjectDetails") == before
    elsewhere = await desk.ask(tool, thread_ts="1760000000.777777", project_id="PRJ-1", **arguments)
    assert elsewhere.status is Status.BLOCKED, "also from a thread that is about nothing"


async def test_what_is_asked_again_after_the_lock_was_done_before_it(desk: Desk, database: Database) -> None:
    desk.log.lost = Transient("crash")
    with pytest.raises(Transient):
        await desk.ask("estimates.createWbsItems", "c1", project_id="PRJ-1", items=[DESIGN])
    await lock(database, "PRJ-1")
    again = await desk.ask("estimates.createWbsItems", "c1", project_id="PRJ-1", items=[DESIGN])
    assert [each["number"] for each in again.data["items"]] == [1]


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_a_call_whose_result_was_lost_is_found_by_its_operation_and_not_made_again(
    desk: Desk, tool: str, arguments: dict[str, Any]
) -> None:
    await desk.done("estimates.createWbsItems", project_id="PRJ-1", items=[BUILD])
    desk.log.lost = Transient("the worker has gone")
    with pytest.raises(Transient):
        await desk.ask(tool, "lost", **arguments)
    after = await desk.done("estimates.getProjectDetails")
    await desk.done("estimates.useProject", project_id="PRJ-2")
    again = await desk.ask(tool, "lost", **arguments)
    assert again.success
    assert again.data["project_id"] == "PRJ-1", "the one that the call has changed"
    assert await desk.ask(tool, "lost", **arguments) == again
    assert await desk.done("estimates.getProjectDetails", project_id="PRJ-1") == after


async def test_a_call_that_was_lost_before_it_did_anything_is_made(desk: Desk) -> None:
    desk.log.lost = Transient("the worker has gone")
    with pytest.raises(Transient):
        await desk.ask("estimates.createWbsItems", "lost", project_id="PRJ-9", items=[DESIGN])
    again = await desk.ask("estimates.createWbsItems", "lost", project_id="PRJ-9", items=[DESIGN])
    assert told(again) == "there is no project 'PRJ-9': give a project's name or id, such as PRJ-1"


async def test_many_that_make_the_same_call_at_once_add_it_once(desk: Desk) -> None:
    await asyncio.gather(
        *(desk.ask("estimates.createWbsItems", "same", project_id="PRJ-1", items=[DESIGN]) for _ in range(10))
    )
    assert len((await desk.done("estimates.listWbsItems"))["items"]) == 1


async def test_one_project_is_changed_no_faster_than_its_rate_from_whatever_thread(database: Database) -> None:
    desk = Desk(database, estimates.TOOLS, Rate(2, 60))
    for number in range(2):
        await desk.done("estimates.createWbsItems", thread_ts=f"{number}.1", project_id="web shop", items=[DESIGN])
    result = await desk.refused("estimates.createWbsItems", thread_ts="3.1", project_id="PRJ-1", items=[DESIGN])
    assert result.error
    assert result.error.code is Code.TOO_MANY_CHANGES
    assert "2 changes in 60 seconds" in told(result)
    await desk.done("estimates.createWbsItems", project_id="PRJ-2", items=[DESIGN])
    desk.clock.advance(60)
    await desk.done("estimates.createWbsItems", thread_ts="3.1", project_id="PRJ-1", items=[DESIGN])


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("createWbsItems", {}, "`items` is missing"),
        ("createWbsItems", {"items": []}, "`items` does not fit: expected a list of 1 to 50 entries"),
        ("createWbsItems", {"items": [{**DESIGN, "days": "many"}]}, "`items/0/days` does not fit: expected a number"),
        ("createWbsItems", {"items": [{**DESIGN, "days": "NaN"}]}, "`items/0/days` does not fit"),
        ("createWbsItems", {"items": [{**DESIGN, "days": -1}]}, "`items/0/days` does not fit"),
        ("createWbsItems", {"items": [{**DESIGN, "title": ""}]}, "`items/0/title` does not fit"),
        ("createWbsItems", {"items": [{**DESIGN, "cost": 1}]}, "`items/0/cost` is unknown"),
        ("createWbsItems", {"items": [{**DESIGN, "days": "0.00001"}]}, "the days of an item must be a number"),
        ("createWbsItems", {"items": [{**DESIGN, "role": "plumber"}]}, "its roles: designer, developer"),
        ("updateWbsItems", {"items": [{"number": 0}]}, "`items/0/number` does not fit"),
        ("updateWbsItems", {"items": [{"number": 7}]}, "has no item 7"),
        ("updateQuoteTotals", {"tax_percent": 101}, "`tax_percent` does not fit"),
        ("updateQuoteTotals", {"quote": 9}, "has no quote 9"),
        ("useProject", {}, "`project_id` is missing"),
        ("useProject", {"project_id": "nowhere"}, "there is no project 'nowhere'"),
    ],
)
async def test_what_does_not_fit_is_named_and_nothing_is_changed(
    desk: Desk, tool: str, arguments: dict[str, Any], says: str
) -> None:
    await desk.done("estimates.getProjectDetails", project_id="PRJ-1")
    assert says in told(await desk.refused(f"estimates.{tool}", **arguments))
    details = await desk.done("estimates.getProjectDetails")
    assert (details["items"], details["quotes"][0]["total"]) == ([], "0.00")


@pytest.mark.parametrize(("tool", "arguments"), [("estimates.getProjectDetails", {}), *CHANGES])
async def test_another_teams_project_is_not_there(desk: Desk, tool: str, arguments: dict[str, Any]) -> None:
    for named in ("PRJ-3", "prj-4"):
        assert "there is no project" in told(await desk.refused(tool, project_id=named, **arguments))
    shop = await desk.done("estimates.getProjectDetails", project_id="Web shop", team="T2")
    assert shop["project_id"] == "PRJ-3", "each team has its own of that name"
