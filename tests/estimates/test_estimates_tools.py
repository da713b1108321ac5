"""Estimate tools in a thread: bound to its project, exact, refused while it is locked, and rate
limited.
"""

import asyncio
from decimal import Decimal
from typing import Any

import pytest

from tests.support.tool_scene import ToolScene
from threadline.conversations.blocks import answer_of
from threadline.db.engine import Database
from threadline.db.rate_limits import Rate
from threadline.estimates import tools as estimates
from threadline.estimates.model import ProjectRole
from threadline.estimates.store import EstimateStore
from threadline.tools.model import ErrorCode, ToolResult, ToolStatus
from threadline.tools.output import render_result

DESIGN = {"title": "Design", "role": "designer", "days": 2.5}
BUILD = {"title": "Build", "role": "developer", "days": "10"}


@pytest.fixture(autouse=True)
async def projects(database: Database) -> None:
    async with database.begin() as tx:
        for team in ("T1", "T2"):
            for name in ("Web shop", "App"):
                project = await EstimateStore(tx).get_or_create_project(team, name, "EUR")
                await EstimateStore(tx).save_role(
                    team, project.project_id, ProjectRole("designer", Decimal("800.50"))
                )
                await EstimateStore(tx).save_role(
                    team, project.project_id, ProjectRole("developer", Decimal(900))
                )


@pytest.fixture
def desk(database: Database) -> ToolScene:
    return ToolScene(database, estimates.TOOLS)


async def create(
    desk: ToolScene, *items: dict[str, Any], project_id: str = "PRJ-1", **more: Any
) -> Any:
    return await desk.done(
        "estimates.createWbsItems", project_id=project_id, items=list(items), **more
    )


def message(result: ToolResult) -> str:
    assert result.error
    return result.error.message


async def test_projects_of_the_team_are_listed(desk: ToolScene) -> None:
    result = await desk.ask("estimates.listProjects")
    assert [each["project_id"] for each in result.data["projects"]] == ["PRJ-2", "PRJ-1"]
    assert [each.kind for each in result.structured] == ["projects"]
    assert not result.data["more"]
    assert (await desk.done("estimates.listProjects", team="T3"))["projects"] == []


async def test_first_opened_project_is_bound_to_the_thread(desk: ToolScene) -> None:
    for tool in ("getProjectDetails", "listRoles", "listWbsItems"):
        nothing = await desk.refused(f"estimates.{tool}", thread_ts=f"{tool}.1")
        assert nothing.error
        assert nothing.error.code is ErrorCode.REFUSED
        assert "has no project yet" in message(nothing)
    assert (await desk.done("estimates.getProjectDetails", project_id="web SHOP"))[
        "project_id"
    ] == "PRJ-1"
    await desk.done("estimates.listRoles", project_id="PRJ-2")
    assert (await desk.done("estimates.listRoles"))["project_id"] == "PRJ-1", (
        "a second project binds nothing"
    )
    assert (await desk.done("estimates.useProject", project_id="app"))["project_id"] == "PRJ-2"
    assert (await desk.done("estimates.getProjectDetails"))["project_id"] == "PRJ-2"


async def test_change_that_names_a_project_binds_it(desk: ToolScene) -> None:
    await create(desk, BUILD, project_id="prj-2")
    assert [each["title"] for each in (await desk.done("estimates.listWbsItems"))["items"]] == [
        "Build"
    ]


async def test_changed_items_make_the_quote_outdated(desk: ToolScene) -> None:
    result = await desk.ask("estimates.createWbsItems", project_id="PRJ-1", items=[DESIGN, BUILD])
    assert result.data["items"] == [
        {"number": 1, "title": "Design", "role": "designer", "days": "2.5"},
        {"number": 2, "title": "Build", "role": "developer", "days": "10"},
    ]
    assert "2 items added to PRJ-1" in result.display_text
    [note] = result.notes
    assert note.startswith("[Side Effect] The totals of quote 1 of PRJ-1 are out of date")
    assert not (await desk.done("estimates.getProjectDetails"))["quotes"][0]["up_to_date"]
    await desk.done("estimates.updateQuoteTotals")
    assert (await desk.done("estimates.getProjectDetails"))["quotes"][0]["up_to_date"]
    renamed = await desk.ask("estimates.updateWbsItems", items=[{"number": 1, "title": "Sketch"}])
    assert renamed.data["items"][0] == {
        "number": 1,
        "title": "Sketch",
        "role": "designer",
        "days": "2.5",
    }
    assert renamed.notes == (), "a new title does not change the sum"
    assert (await desk.ask("estimates.updateWbsItems", items=[{"number": 1, "days": 3}])).notes


async def test_totals_are_exact_to_the_cent(desk: ToolScene) -> None:
    await create(desk, DESIGN, BUILD, {"title": "Rest", "role": "designer", "days": "0.0001"})
    result = await desk.ask("estimates.updateQuoteTotals", discount_percent=10, tax_percent="19")
    [quote] = result.data["quotes"]
    # 11001.33005, 1100.133005, 1881.2274 and 11782.4245
    figures = [quote[name] for name in ("subtotal", "discount", "tax", "total")]
    assert figures == ["11001.33", "1100.13", "1881.23", "11782.42"]
    assert '"total": "11782.42"' in render_result(result)
    assert "11782.42 EUR" in result.display_text
    kept = await desk.done("estimates.updateQuoteTotals", quote=1)
    assert (kept["quotes"][0]["discount_percent"], kept["quotes"][0]["tax_percent"]) == (
        "10",
        "19",
    )


@pytest.mark.parametrize("days", [0.1, 99999.9999, "99999.9999", 100000])
async def test_days_come_back_as_they_were_given(desk: ToolScene, days: Any) -> None:
    made = await create(desk, {**DESIGN, "days": days})
    assert made["items"][0]["days"] == str(days)


async def test_details_show_a_project_as_tables(desk: ToolScene) -> None:
    await create(desk, DESIGN)
    result = await desk.ask("estimates.getProjectDetails")
    assert [each.kind for each in result.structured] == [
        "projects",
        "roles",
        "wbs_items",
        "quotes",
    ]
    assert result.data["roles"][0] == {"role": "designer", "day_rate": "800.50"}
    assert "PRJ-1 (Web shop): 2 roles, 1 item, quote 1" in result.display_text


async def test_answer_shows_each_record_once_in_its_last_state(desk: ToolScene) -> None:
    await create(desk, DESIGN, BUILD)
    await create(desk, DESIGN, project_id="PRJ-2")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("getProjectDetails", {}),
        ("listRoles", {}),
        ("updateWbsItems", {"items": [{"number": 2, "days": 4}]}),
        ("updateQuoteTotals", {"tax_percent": 50}),
        ("listWbsItems", {"project_id": "PRJ-2"}),
    ]
    results = [
        await desk.ask(f"estimates.{tool}", **({"project_id": "PRJ-1"} | given))
        for tool, given in calls
    ]
    shown = [(part.kind, part.records) for result in results for part in result.structured]
    answer = "\n".join(post.text for post in answer_of("Done.", shown))
    assert [
        answer.count(title) for title in ("Project\n", "Roles (2)", "Work items (3)", "Quote\n")
    ] == [1, 1, 1, 1]
    assert "2 · Build · developer · 4 · PRJ-1" in answer
    assert answer.count("Build") == 1
    assert answer.count("1 · Design · designer · 2.5 · ") == 2, "one entry per project"


async def test_items_come_in_pages_and_by_role(desk: ToolScene) -> None:
    for _ in range(3):
        await create(desk, *[DESIGN] * 40, BUILD)
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
async def test_repeated_call_changes_nothing_twice_and_a_lock_blocks_new_ones(
    desk: ToolScene, database: Database, tool: str, arguments: dict[str, Any]
) -> None:
    await create(desk, BUILD)
    done, same = await asyncio.gather(*(desk.ask(tool, "once", **arguments) for _ in range(2)))
    assert done.success
    assert same == done
    async with database.begin() as tx:
        await EstimateStore(tx).set_locked("T1", "PRJ-1", locked=True)
    before = await desk.done("estimates.getProjectDetails")
    await desk.done("estimates.useProject", project_id="PRJ-2")
    assert await desk.ask(tool, "once", **arguments) == done
    for thread in ("1760000000.000100", "1760000000.777777"):
        refused = await desk.refused(tool, thread_ts=thread, project_id="PRJ-1", **arguments)
        assert refused.status is ToolStatus.BLOCKED
        assert "PRJ-1 (Web shop) is locked" in message(refused)
    assert before["locked"]
    assert await desk.done("estimates.getProjectDetails", project_id="PRJ-1") == before


@pytest.mark.parametrize(("tool", "arguments"), CHANGES)
async def test_change_of_a_lost_worker_is_absent_and_the_next_attempt_makes_it(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    await create(desk, BUILD)
    before = await desk.done("estimates.getProjectDetails")
    desk.ledger.lost = RuntimeError("the worker died")
    with pytest.raises(RuntimeError):
        await desk.ask(tool, "lost", **arguments)
    assert await desk.done("estimates.getProjectDetails") == before
    assert (await desk.ask(tool, "lost", **arguments)).success
    assert await desk.done("estimates.getProjectDetails") != before


async def test_changes_of_one_project_are_rate_limited_across_threads(database: Database) -> None:
    desk = ToolScene(database, estimates.TOOLS, Rate(2, 60))
    for number in range(2):
        await create(desk, DESIGN, project_id="web shop", thread_ts=f"{number}.1")
    result = await desk.refused(
        "estimates.createWbsItems", thread_ts="3.1", project_id="PRJ-1", items=[DESIGN]
    )
    assert result.error
    assert result.error.code is ErrorCode.TOO_MANY_CHANGES
    assert "2 changes in 60 seconds" in message(result)
    await create(desk, DESIGN, project_id="PRJ-2")
    desk.clock.advance(60)
    await create(desk, DESIGN, thread_ts="3.1")


@pytest.mark.parametrize(
    ("tool", "arguments", "says"),
    [
        ("createWbsItems", {}, "`items` is missing"),
        ("createWbsItems", {"items": []}, "at least 1 item"),
        ("createWbsItems", {"items": [{**DESIGN, "days": "many"}]}, "`items/0/days`"),
        ("createWbsItems", {"items": [{**DESIGN, "days": "NaN"}]}, "`items/0/days`"),
        ("createWbsItems", {"items": [{**DESIGN, "days": -1}]}, "`items/0/days`"),
        ("createWbsItems", {"items": [{**DESIGN, "title": ""}]}, "`items/0/title`"),
        ("createWbsItems", {"items": [{**DESIGN, "cost": 1}]}, "`items/0/cost` is unknown"),
        ("createWbsItems", {"items": [{**DESIGN, "role": "plumber"}]}, "designer, developer"),
        ("updateWbsItems", {"items": [{"number": 0}]}, "`items/0/number`"),
        ("updateWbsItems", {"items": [{"number": 7}]}, "no item 7"),
        ("updateQuoteTotals", {"tax_percent": 101}, "`tax_percent`"),
        ("updateQuoteTotals", {"quote": 9}, "no quote 9"),
        ("useProject", {}, "`project_id` is missing"),
        ("useProject", {"project_id": "nowhere"}, "no project 'nowhere'"),
    ],
)
async def test_unfitting_argument_is_named_and_nothing_is_changed(
    desk: ToolScene, tool: str, arguments: dict[str, Any], says: str
) -> None:
    await desk.done("estimates.getProjectDetails", project_id="PRJ-1")
    assert says in message(await desk.refused(f"estimates.{tool}", **arguments))
    details = await desk.done("estimates.getProjectDetails")
    assert (details["items"], details["quotes"][0]["total"]) == ([], "0.00")


@pytest.mark.parametrize(("tool", "arguments"), [("estimates.getProjectDetails", {}), *CHANGES])
async def test_project_of_another_team_is_not_found(
    desk: ToolScene, tool: str, arguments: dict[str, Any]
) -> None:
    for named in ("PRJ-3", "prj-4"):
        assert "no project" in message(await desk.refused(tool, project_id=named, **arguments))
    shop = await desk.done("estimates.getProjectDetails", project_id="Web shop", team="T2")
    assert shop["project_id"] == "PRJ-3"
