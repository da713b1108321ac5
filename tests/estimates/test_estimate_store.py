"""Projects and quotes in Postgres: exact, changed once per call, and unchanged while they are
locked.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from decimal import Decimal
from fractions import Fraction

import pytest
from sqlalchemy import insert

from tests.support.estimates import details_of
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.estimates.model import (
    NewWbsItem,
    Project,
    ProjectDetails,
    ProjectLocked,
    ProjectNotFound,
    ProjectRole,
    Quote,
    Totals,
    WbsItem,
    WbsItemChange,
)
from threadline.estimates.store import EstimateStore
from threadline.estimates.tables import estimate_quotes


def new_item(title: str, role: str, days: Decimal) -> NewWbsItem:
    """Unchecked: the store has its own bounds."""
    return NewWbsItem.model_construct(title=title, role=role, days=days)


DESIGN = new_item("Design", "designer", Decimal("2.5"))
BUILD = new_item("Build", "developer", Decimal(10))
ID = "PRJ-1"


@pytest.fixture(autouse=True)
async def project(database: Database) -> None:
    async with database.begin() as tx:
        await EstimateStore(tx).get_or_create_project("T1", "Web shop", "EUR")
        await EstimateStore(tx).save_role("T1", ID, ProjectRole("designer", Decimal("800.50")))
        await EstimateStore(tx).save_role("T1", ID, ProjectRole("developer", Decimal(900)))


async def create(database: Database, *items: NewWbsItem) -> list[WbsItem]:
    async with database.begin() as tx:
        return await EstimateStore(tx).create_items("T1", ID, items)


async def update(database: Database, *changes: WbsItemChange) -> list[WbsItem]:
    async with database.begin() as tx:
        return await EstimateStore(tx).update_items("T1", ID, changes)


async def update_totals(database: Database, number: int = 0, **percents: Decimal) -> Quote:
    async with database.begin() as tx:
        return await EstimateStore(tx).update_quote_totals("T1", ID, number, **percents)


async def set_locked(database: Database, *, locked: bool) -> None:
    async with database.begin() as tx:
        await EstimateStore(tx).set_locked("T1", ID, locked=locked)


async def details(database: Database) -> ProjectDetails:
    async with database.begin() as tx:
        return await details_of(tx, "T1", ID)


async def test_project_is_opened_once_and_found_by_id_or_name(database: Database) -> None:
    shop = Project(ID, "Web shop", "EUR", locked=False)
    async with database.begin() as tx:
        assert await EstimateStore(tx).get_or_create_project("T1", " WEB shop ", "USD") == shop
        for words in ("prj-1", ID, " web SHOP"):
            assert await EstimateStore(tx).project("T1", words) == shop
        for team, words in (
            ("T1", "PRJ-2"),
            ("T2", ID),
            ("T2", "Web shop"),
            ("T1", "\x00"),
            ("T1", ""),
        ):
            with pytest.raises(ProjectNotFound):
                await EstimateStore(tx).project(team, words)
        with pytest.raises(ProjectNotFound):
            await EstimateStore(tx).create_items("T2", ID, [DESIGN])
        other = await EstimateStore(tx).get_or_create_project("T2", "Web shop", "USD")
        assert (other.currency, other.project_id == ID) == ("USD", False)
        assert await EstimateStore(tx).projects("T1") == [shop]


async def test_projects_are_listed_up_to_a_limit_if_one_is_given(database: Database) -> None:
    async with database.begin() as tx:
        for number in range(60):
            await EstimateStore(tx).get_or_create_project("T1", f"Shop {number}", "EUR")
        assert len(await EstimateStore(tx).projects("T1")) == 61
        assert len(await EstimateStore(tx).projects("T1", 10)) == 10


async def test_concurrent_openings_give_one_project(database: Database) -> None:
    async def open_one(name: str) -> Project:
        async with database.begin() as tx:
            return await EstimateStore(tx).get_or_create_project("T1", name, "EUR")

    opened = await asyncio.gather(*(open_one(name) for name in ("App", "APP", "app") * 5))
    assert len(set(opened)) == 1
    async with database.begin() as tx:
        assert len((await details_of(tx, "T1", "app")).quotes) == 1


async def test_details_hold_roles_items_and_quotes(database: Database) -> None:
    await create(database, DESIGN, BUILD)
    found = await details(database)
    async with database.begin() as tx:
        assert found.roles == await EstimateStore(tx).roles("T1", ID)
    assert found.project.name == "Web shop"
    assert found.roles == [
        ProjectRole("designer", Decimal("800.50")),
        ProjectRole("developer", Decimal(900)),
    ]
    assert [item.title for item in found.items] == ["Design", "Build"]
    assert [(quote.number, quote.totals.total) for quote in found.quotes] == [(1, Decimal(0))]


async def test_items_are_numbered_on(database: Database) -> None:
    first = await create(database, DESIGN, BUILD)
    assert first == [
        WbsItem(1, "Design", "designer", Decimal("2.5")),
        WbsItem(2, "Build", "developer", Decimal(10)),
    ]
    assert [item.number for item in await create(database, BUILD)] == [3]
    assert len((await details(database)).items) == 3


async def test_concurrent_calls_add_items_with_numbers_of_their_own(database: Database) -> None:
    added = await asyncio.gather(*(create(database, DESIGN, BUILD) for _ in range(10)))
    assert sorted(item.number for answer in added for item in answer) == list(range(1, 21))


async def test_items_are_changed_all_or_none(database: Database) -> None:
    await create(database, DESIGN, BUILD)
    changes = (
        WbsItemChange(number=2, days=Decimal("0.25")),
        WbsItemChange(number=1, title=" Sketch ", role="developer"),
    )
    changed = await update(database, *changes)
    assert changed == [
        WbsItem(1, "Sketch", "developer", Decimal("2.5")),
        WbsItem(2, "Build", "developer", Decimal("0.25")),
    ]
    assert await update(database, WbsItemChange(number=2)) == changed[1:]
    with pytest.raises(Permanent, match="no item 3"):
        await update(
            database, WbsItemChange(number=1, title="x"), WbsItemChange(number=3, title="y")
        )
    assert (await details(database)).items == changed


@pytest.mark.parametrize(
    ("item", "says"),
    [
        (new_item("x", "pl\x00", Decimal(1)), "its roles: designer, developer"),
        (new_item(" \x00", "designer", Decimal(1)), "title"),
        (new_item("x", "designer", Decimal("-0.1")), "from 0 to 100,000"),
        (new_item("x", "designer", Decimal("100000.1")), "from 0 to 100,000"),
        (new_item("x", "designer", Decimal("0.00001")), "4 decimals"),
    ],
)
async def test_unfitting_item_is_refused_and_none_is_added(
    database: Database, item: NewWbsItem, says: str
) -> None:
    with pytest.raises(Permanent, match=says):
        await create(database, DESIGN, item)
    assert (await details(database)).items == []
    assert await create(database, DESIGN), "the call may be made again"


@pytest.mark.parametrize(("name", "currency"), [(" ", "EUR"), ("prj-7", "EUR"), ("New", "euro")])
async def test_project_without_a_name_or_currency_is_refused(
    database: Database, name: str, currency: str
) -> None:
    async with database.begin() as tx:
        with pytest.raises(Permanent, match=r"a project cannot be called|is not a currency"):
            await EstimateStore(tx).get_or_create_project("T1", name, currency)


async def test_totals_change_only_when_they_are_updated(database: Database) -> None:
    await create(database, DESIGN, BUILD)
    quote = await update_totals(database, discount_percent=Decimal(10), tax_percent=Decimal(19))
    # 11001.25, 1100.125, 1881.21375 and 11782.33875, each rounded separately
    assert quote.totals == Totals(
        Decimal("11001.25"), Decimal("1100.13"), Decimal("1881.21"), Decimal("11782.34")
    )
    async with database.begin() as tx:
        await EstimateStore(tx).save_role("T1", ID, ProjectRole("developer", Decimal(1000)))
    assert (await details(database)).quotes == [quote]
    later = await update_totals(database)
    assert later.totals.subtotal == Decimal("12001.25")
    assert (later.discount_percent, later.tax_percent) == (Decimal(10), Decimal(19))


async def test_newest_quote_is_used_unless_one_is_named(database: Database) -> None:
    async with database.begin() as tx:
        await tx.execute(insert(estimate_quotes).values(project_id=ID, number=2))
    assert (await update_totals(database)).number == 2
    assert (await update_totals(database, 1)).number == 1
    with pytest.raises(Permanent, match="no quote 9999999999"):
        await update_totals(database, 9_999_999_999)
    with pytest.raises(Permanent, match="percent"):
        await update_totals(database, discount_percent=Decimal("100.1"))


async def test_largest_sums_are_exact(database: Database) -> None:
    async with database.begin() as tx:
        await EstimateStore(tx).save_role("T1", ID, ProjectRole("king", Decimal("999999.9999")))
    await create(database, *[new_item("All", "king", Decimal("99999.9999"))] * 30)
    quote = await update_totals(database, tax_percent=Decimal("99.9999"))
    assert (await details(database)).quotes == [quote]
    exact = 30 * Fraction("999999.9999") * Fraction("99999.9999")
    cents = [
        math.floor(amount * 100 + Fraction(1, 2))
        for amount in (exact, exact * (1 + Fraction("0.999999")))
    ]
    assert [quote.totals.subtotal * 100, quote.totals.total * 100] == cents


CHANGES: dict[str, Callable[[Transaction], Awaitable[object]]] = {
    "create": lambda tx: EstimateStore(tx).create_items("T1", ID, [DESIGN]),
    "update": lambda tx: EstimateStore(tx).update_items(
        "T1", ID, [WbsItemChange(number=1, days=Decimal(1))]
    ),
    "totals": lambda tx: EstimateStore(tx).update_quote_totals("T1", ID),
}


@pytest.mark.parametrize("kind", CHANGES)
async def test_locked_project_is_read_but_not_changed(database: Database, kind: str) -> None:
    async def attempt() -> object:
        async with database.begin() as tx:
            return await CHANGES[kind](tx)

    await create(database, DESIGN)
    await set_locked(database, locked=True)
    before = await details(database)
    assert before.project.locked
    with pytest.raises(ProjectLocked, match="Web shop"):
        await attempt()
    assert await details(database) == before
    await set_locked(database, locked=False)
    await attempt()


async def test_lock_waits_for_a_change_under_way(database: Database) -> None:
    async with database.begin() as tx:
        await EstimateStore(tx).create_items("T1", ID, [DESIGN])
        locking = asyncio.create_task(set_locked(database, locked=True))
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "
            "'UPDATE est%'"
        )
        async with database.begin() as other:
            while not (await other.exec_driver_sql(waiting)).scalar_one():
                await other.exec_driver_sql("SELECT pg_stat_clear_snapshot()")
        assert not locking.done()
    await locking
    assert len((await details(database)).items) == 1
    with pytest.raises(ProjectLocked):
        await create(database, DESIGN)
