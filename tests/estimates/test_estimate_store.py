"""Projects and their quotes: exact, changed once for each call, and not at all while they are locked."""

import asyncio
import math
from collections.abc import Awaitable, Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from sqlalchemy import insert

from tests.support.tool_store import change
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.estimates.model import (
    EstimateRefused,
    ItemChange,
    NewItem,
    Project,
    ProjectLocked,
    ProjectNotFound,
    Role,
    Totals,
    WbsItem,
)
from threadline.tools.operations import Change
from threadline.tools.tables import estimate_quotes

DESIGN, BUILD = NewItem("Design", "designer", Decimal("2.5")), NewItem("Build", "developer", Decimal(10))
ID = "PRJ-1"


@pytest.fixture(autouse=True)
async def project(database: Database) -> None:
    async with database.begin() as work:
        await work.estimates.open_project("T1", "Web shop", "EUR")
        await work.estimates.save_role("T1", ID, Role("designer", Decimal("800.50")))
        await work.estimates.save_role("T1", ID, Role("developer", Decimal(900)))


async def create(database: Database, made: Change, *items: NewItem) -> list[WbsItem]:
    async with database.begin() as work:
        return await work.estimates.create_items(made, ID, items)


async def items(database: Database) -> list[WbsItem]:
    async with database.begin() as work:
        return await work.estimates.items("T1", ID)


async def test_a_project_is_opened_once_and_found_by_id_or_name(database: Database) -> None:
    shop = Project(ID, "Web shop", "EUR", locked=False)
    async with database.begin() as work:
        assert await work.estimates.open_project("T1", " WEB shop ", "USD") == shop
        for words in ("prj-1", "PRJ-1", " web SHOP", ID):
            assert await work.estimates.project("T1", words) == shop
        for team, words in (("T1", "PRJ-2"), ("T2", ID), ("T2", "Web shop"), ("T1", "\x00"), ("T1", "")):
            with pytest.raises(ProjectNotFound):
                await work.estimates.project(team, words)
        assert await work.estimates.projects("T1") == [shop]
        assert await work.estimates.projects("T2") == []


async def test_all_projects_are_listed_where_no_limit_is_given(database: Database) -> None:
    async with database.begin() as work:
        for number in range(60):
            await work.estimates.open_project("T1", f"Shop {number}", "EUR")
        assert len(await work.estimates.projects("T1")) == 61
        assert len(await work.estimates.projects("T1", 10)) == 10


async def test_teams_have_projects_of_the_same_name(database: Database) -> None:
    async with database.begin() as work:
        other = await work.estimates.open_project("T2", "Web shop", "USD")
    assert other.currency == "USD"
    assert other.project_id != ID


async def test_of_many_that_open_a_project_all_get_the_same(database: Database) -> None:
    async def open_one(name: str) -> Project:
        async with database.begin() as work:
            return await work.estimates.open_project("T1", name, "EUR")

    opened = await asyncio.gather(*(open_one(name) for name in ("App", "APP", "app") * 5))
    assert len(set(opened)) == 1
    async with database.begin() as work:
        assert len((await work.estimates.details("T1", "app")).quotes) == 1


async def test_details_hold_everything(database: Database) -> None:
    await create(database, change(), DESIGN, BUILD)
    async with database.begin() as work:
        details = await work.estimates.details("T1", "web shop")
        assert details.roles == await work.estimates.roles("T1", ID)
    assert details.project.name == "Web shop"
    assert details.roles == [Role("designer", Decimal("800.50")), Role("developer", Decimal(900))]
    assert [item.title for item in details.items] == ["Design", "Build"]
    assert [(quote.number, quote.totals.total) for quote in details.quotes] == [(1, Decimal(0))]


async def test_items_are_numbered_on_and_a_repeated_call_adds_none(database: Database) -> None:
    first = await create(database, change("c1"), DESIGN, BUILD)
    assert first == [
        WbsItem(1, "Design", "designer", Decimal("2.5")),
        WbsItem(2, "Build", "developer", Decimal(10)),
    ]
    assert await create(database, change("c1"), DESIGN, BUILD) == first
    assert [item.number for item in await create(database, change("c2"), BUILD)] == [3]
    assert len(await items(database)) == 3


async def test_of_many_that_make_the_same_call_at_once_one_adds(database: Database) -> None:
    answers = await asyncio.gather(*(create(database, change(), DESIGN) for _ in range(15)))
    assert all(answer == answers[0] for answer in answers)
    assert await items(database) == answers[0]


async def test_of_many_that_add_at_once_each_gets_numbers_of_its_own(database: Database) -> None:
    added = await asyncio.gather(*(create(database, change(f"c{n}"), DESIGN, BUILD) for n in range(10)))
    assert sorted(item.number for answer in added for item in answer) == list(range(1, 21))


async def test_items_are_changed_all_or_none(database: Database) -> None:
    await create(database, change("c1"), DESIGN, BUILD)

    async def update(made: Change, *changes: ItemChange) -> list[WbsItem]:
        async with database.begin() as work:
            return await work.estimates.update_items(made, ID, changes)

    changes = (ItemChange(2, days=Decimal("0.25")), ItemChange(1, title=" Sketch ", role="developer"))
    changed = await update(change("c2"), *changes)
    assert changed == [
        WbsItem(1, "Sketch", "developer", Decimal("2.5")),
        WbsItem(2, "Build", "developer", Decimal("0.25")),
    ]
    assert await update(change("c3"), ItemChange(2)) == changed[1:]
    with pytest.raises(EstimateRefused, match="no item 3"):
        await update(change("c4"), ItemChange(1, title="x"), ItemChange(3, title="y"))
    assert await items(database) == changed
    await update(change("c5"), ItemChange(1, title="Later"))
    assert await update(change("c2"), *changes) == changed, "a repetition hears what was answered then"
    assert (await items(database))[0].title == "Later", "and changes nothing"


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (NewItem("x", "plumber", Decimal(1)), "its roles: designer, developer"),
        (NewItem("x", "pl\x00", Decimal(1)), "its roles: designer, developer"),
        (NewItem(" \x00", "designer", Decimal(1)), "title"),
        (NewItem("x", "designer", Decimal("-0.1")), "from 0 to 100,000"),
        (NewItem("x", "designer", Decimal("100000.1")), "from 0 to 100,000"),
        (NewItem("x", "designer", Decimal("0.00001")), "four decimals|4 decimals"),
        (NewItem("x", "designer", Decimal("NaN")), "from 0 to 100,000"),
        (NewItem("x", "designer", Decimal("Infinity")), "from 0 to 100,000"),
    ],
)
async def test_an_item_that_does_not_fit_is_refused_in_plain_words_and_none_is_added(
    database: Database, item: NewItem, says: str
) -> None:
    with pytest.raises(EstimateRefused, match=says):
        await create(database, change(), DESIGN, item)
    assert await items(database) == []
    assert await create(database, change(), DESIGN), "the same call may be made again"


@pytest.mark.parametrize(("name", "currency"), [("", "EUR"), (" ", "EUR"), ("prj-7", "EUR"), ("New", "euro")])
async def test_a_project_without_a_name_of_its_own_or_a_currency_is_refused(
    database: Database, name: str, currency: str
) -> None:
    async with database.begin() as work:
        with pytest.raises(EstimateRefused):
            await work.estimates.open_project("T1", name, currency)


async def test_totals_follow_items_and_rates_when_they_are_updated(database: Database) -> None:
    await create(database, change("c1"), DESIGN, BUILD)
    async with database.begin() as work:
        quote = await work.estimates.update_quote_totals(
            change("c2"), ID, discount_percent=Decimal(10), tax_percent=Decimal(19)
        )
    assert quote.totals == Totals(Decimal("11001.25"), Decimal("1100.13"), Decimal("1881.21"), Decimal("11782.34")), (
        "11001.25, 1100.125, 1881.21375 and 11782.33875, each rounded by itself"
    )
    async with database.begin() as work:
        await work.estimates.save_role("T1", ID, Role("developer", Decimal(1000)))
        assert (await work.estimates.details("T1", ID)).quotes == [quote]
        assert await work.estimates.update_quote_totals(change("c2"), ID) == quote, "a repetition"
        later = await work.estimates.update_quote_totals(change("c3"), ID)
    assert later.totals.subtotal == Decimal("12001.25")
    assert (later.discount_percent, later.tax_percent) == (Decimal(10), Decimal(19))


async def test_the_newest_quote_is_meant_when_none_is_named(database: Database) -> None:
    await create(database, change("c1"), BUILD)
    async with database.begin() as work:
        await work.connection.execute(insert(estimate_quotes).values(project_id=ID, number=2))
        assert (await work.estimates.update_quote_totals(change("c3"), ID)).number == 2
        assert (await work.estimates.update_quote_totals(change("c4"), ID, 1)).number == 1
    async with database.begin() as work:
        with pytest.raises(EstimateRefused, match="no quote 9999999999"):
            await work.estimates.update_quote_totals(change("c5"), ID, 9_999_999_999)


@pytest.mark.parametrize("percent", ["-1", "100.1", "NaN"])
async def test_a_percentage_out_of_bounds_is_refused(database: Database, percent: str) -> None:
    async with database.begin() as work:
        with pytest.raises(EstimateRefused, match="percent"):
            await work.estimates.update_quote_totals(change(), ID, discount_percent=Decimal(percent))


async def test_the_largest_sums_are_exact(database: Database) -> None:
    async with database.begin() as work:
        await work.estimates.save_role("T1", ID, Role("king", Decimal("999999.9999")))
    most = NewItem("All", "king", Decimal("99999.9999"))
    await create(database, change("c1"), *[most] * 30)
    async with database.begin() as work:
        quote = await work.estimates.update_quote_totals(change("c2"), ID, tax_percent=Decimal("99.9999"))
        assert (await work.estimates.details("T1", ID)).quotes == [quote]
    exact = 30 * Fraction("999999.9999") * Fraction("99999.9999")
    cents = [math.floor(amount * 100 + Fraction(1, 2)) for amount in (exact, exact * (1 + Fraction("0.999999")))]
    assert [quote.totals.subtotal * 100, quote.totals.total * 100] == cents


Changing = Callable[[Work, Change], Awaitable[object]]
CHANGES: dict[str, Changing] = {
    "create": lambda work, made: work.estimates.create_items(made, ID, [DESIGN]),
    "update": lambda work, made: work.estimates.update_items(made, ID, [ItemChange(1, days=Decimal(1))]),
    "totals": lambda work, made: work.estimates.update_quote_totals(made, ID),
}


@pytest.mark.parametrize("kind", sorted(CHANGES))
async def test_a_locked_project_is_read_but_not_changed(database: Database, kind: str) -> None:
    await create(database, change("c0"), DESIGN)

    async def attempt(call_id: str) -> object:
        async with database.begin() as work:
            return await CHANGES[kind](work, change(call_id))

    done = await attempt("before")
    async with database.begin() as work:
        await work.estimates.set_locked("T1", ID, locked=True)
        details = await work.estimates.details("T1", ID)
    assert details.project.locked
    with pytest.raises(ProjectLocked, match="Web shop"):
        await attempt("c1")
    assert await attempt("before") == done, "what was done before it was locked was done"
    async with database.begin() as work:
        assert await work.estimates.details("T1", ID) == details
        await work.estimates.set_locked("T1", ID, locked=False)
    await attempt("c1")


@pytest.mark.parametrize("kind", sorted(CHANGES))
async def test_another_teams_project_is_not_found(database: Database, kind: str) -> None:
    async with database.begin() as work:
        with pytest.raises(ProjectNotFound):
            await CHANGES[kind](work, change(team="T2"))


async def test_locking_waits_for_the_change_that_is_under_way(database: Database) -> None:
    async def lock() -> None:
        async with database.begin() as work:
            await work.estimates.set_locked("T1", ID, locked=True)

    async with database.begin() as work:
        await work.estimates.create_items(change("c1"), ID, [DESIGN])
        locking = asyncio.create_task(lock())
        waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE 'UPDATE est%'"
        async with database.begin() as other:
            while not (await other.connection.exec_driver_sql(waiting)).scalar_one():
                await other.connection.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
        assert not locking.done()
    await locking
    assert len(await items(database)) == 1
    with pytest.raises(ProjectLocked):
        await create(database, change("c2"), DESIGN)
