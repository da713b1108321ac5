"""Column types that clean their values when they are bound: Postgres accepts the value, and a
query with the original value finds the row.
"""

import importlib
import pkgutil
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import (
    ARRAY,
    Column,
    ColumnElement,
    Integer,
    MetaData,
    Table,
    Text,
    any_,
    null,
    or_,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.ext.asyncio import AsyncConnection

import threadline
from threadline.db.columns import JSON, JSON_OR_NULL, TEXT, metadata
from threadline.db.engine import Database

REFUSED = "a\x00b\ud800c"
CLEAN = "ab?c"
DOCUMENT = {
    REFUSED: [REFUSED, 1e17, float("nan"), {"in": (REFUSED, float("-inf"))}, 0.5, None, True]
}
CLEANED = {CLEAN: [CLEAN, 10**17, "nan", {"in": [CLEAN, "-inf"]}, 0.5, None, True]}

bound = Table(
    "bound",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("words", TEXT, unique=True),
    Column("parts", ARRAY(TEXT)),
    Column("document", JSON),
    Column("maybe", JSON_OR_NULL),
    prefixes=["TEMPORARY"],
)
row = bound.c
GIVEN: dict[str, Any] = {
    "words": REFUSED,
    "parts": [REFUSED],
    "document": DOCUMENT,
    "maybe": DOCUMENT,
}
KEPT = (CLEAN, [CLEAN], CLEANED, CLEANED)


@pytest.fixture
async def tx(database: Database) -> AsyncIterator[AsyncConnection]:
    async with database.begin() as tx:
        await tx.run_sync(bound.create)
        yield tx
        await tx.run_sync(bound.drop)


async def kept(tx: AsyncConnection) -> list[tuple[Any, ...]]:
    return [
        tuple(each)
        for each in await tx.execute(select(row.words, row.parts, row.document, row.maybe))
    ]


async def test_values_that_postgres_refuses_are_cleaned_when_inserted(tx: AsyncConnection) -> None:
    await tx.execute(insert(bound).values(id=1, **GIVEN))
    assert await kept(tx) == [KEPT]


async def test_values_that_postgres_refuses_are_cleaned_in_an_update_and_in_a_conflict(
    tx: AsyncConnection,
) -> None:
    await tx.execute(insert(bound).values(id=1, words="", parts=[], document={}, maybe={}))
    await tx.execute(update(bound).values(GIVEN))
    assert await kept(tx) == [KEPT]
    again = insert(bound).values(id=2, words=REFUSED, document={})
    await tx.execute(
        again.on_conflict_do_update(
            index_elements=["words"], set_={**GIVEN, "parts": [REFUSED] * 2}
        )
    )
    assert await kept(tx) == [(CLEAN, [CLEAN] * 2, CLEANED, CLEANED)]


@pytest.mark.parametrize(
    "condition",
    [
        row.words == REFUSED,
        row.words.in_([REFUSED, "another"]),
        row.words.not_in(["other", f"{REFUSED} "]),
        row.words.startswith(REFUSED, autoescape=True),
        row.parts == [REFUSED],
        any_(row.parts) == REFUSED,
        row.document == DOCUMENT,
        row.document.in_([DOCUMENT]),
        row.document.contains({REFUSED: [1e17]}),
        row.maybe == DOCUMENT,
    ],
    ids=str,
)
async def test_row_is_found_by_the_value_it_was_stored_with(
    tx: AsyncConnection, condition: ColumnElement[bool]
) -> None:
    await tx.execute(insert(bound).values(id=1, **GIVEN))
    await tx.execute(insert(bound).values(id=2, words="other", parts=[], document={}, maybe={}))
    found = await tx.execute(select(row.id).where(condition).order_by(row.id))
    assert list(found.scalars()) == [1]


async def test_operators_of_json_accept_their_own_operands(tx: AsyncConnection) -> None:
    await tx.execute(insert(bound).values(id=1, document={"a": {"b": [1, "c"]}}))
    one = row.document["a"]["b"]
    found = select(row.document["a"], one[1].astext, row.document[("a", "b", "0")].as_integer())
    has = (row.document.has_key("a"), row.document["a"].has_key("b"), one.contains(["c"]))
    assert tuple((await tx.execute(found.where(*has))).one()) == ({"b": [1, "c"]}, "c", 1)
    await tx.execute(update(bound).values(document=row.document.op("||")(DOCUMENT)))
    assert (await tx.execute(select(row.document))).scalar_one() == {
        "a": {"b": [1, "c"]},
        **CLEANED,
    }


async def test_none_becomes_the_null_of_sql_or_json_by_column(tx: AsyncConnection) -> None:
    await tx.execute(insert(bound).values(id=1, words=None, document=None, maybe=None))
    await tx.execute(insert(bound).values(id=2, document=null(), maybe=null()))
    of_sql = select(row.words.is_(None), row.document.is_(None), row.maybe.is_(None)).order_by(
        row.id
    )
    assert [tuple(each) for each in await tx.execute(of_sql)] == [
        (True, False, True),
        (True, True, True),
    ]
    assert (
        await tx.execute(select(row.id).where(or_(row.words.is_not(None), row.maybe.is_not(None))))
    ).all() == []


def test_columns_of_the_product_clean_all_but_messages_from_slack() -> None:
    for module in pkgutil.walk_packages(threadline.__path__, "threadline."):
        if module.name.endswith(".tables"):
            importlib.import_module(module.name)
    columns = [column for table in metadata.tables.values() for column in table.columns]
    plain = {
        str(each.table)
        for each in columns
        if type(each.type) in (Text, JSONB) or _of_plain_texts(each.type)
    }
    assert plain == {"bug_conversations", "conversation_messages", "attachments"}


def _of_plain_texts(kind: object) -> bool:
    return isinstance(kind, ARRAY) and type(kind.item_type) is Text
