"""A model's queries: one reading statement, by a login that may only read."""

import contextlib
from collections.abc import Iterator

import psycopg
import pytest
from sqlalchemy import make_url

from tests.support.postgres import Postgres
from threadline.errors import Permanent, Transient
from threadline.investigator import queries as read_only_queries
from threadline.investigator.queries import ReadOnlyQueries

PASSWORD = "hunter2secret"


@contextlib.contextmanager
def made(postgres: Postgres, name: str, role: str) -> Iterator[str]:
    """An external database with one view for this role; the URL is its owner's."""
    url = postgres.create(name)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE TABLE orders (id int, secret text)")
        connection.execute("INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 1000) n")
        connection.execute(
            "CREATE VIEW open_orders AS SELECT id, repeat('y', 3000) AS note FROM orders"
        )
        connection.execute(f"CREATE ROLE {role} LOGIN".encode())
        connection.execute(f"GRANT SELECT ON open_orders TO {role}".encode())
    yield url
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP OWNED BY {role}".encode())
        connection.execute(f"DROP ROLE {role}".encode())
    postgres.drop(url)


def login(url: str, role: str) -> str:
    return (
        make_url(url).set(username=role, password=PASSWORD).render_as_string(hide_password=False)
    )


@pytest.fixture(scope="module")
def shop(postgres: Postgres) -> Iterator[str]:
    """One database for the tests that only read."""
    with made(postgres, "shop", "reader") as url:
        yield url


@pytest.fixture(scope="module")
def as_reader(shop: str) -> str:
    return login(shop, "reader")


def queries_of(dsn: str, *, own: str = "postgresql://elsewhere/threadline") -> ReadOnlyQueries:
    return ReadOnlyQueries({"shop": dsn}, views=["open_orders"], own=[own])


async def test_named_view_is_read_and_further_rows_are_announced(as_reader: str) -> None:
    queries = queries_of(as_reader)
    await queries.check()
    assert queries.names == ["shop"]
    table = await queries.query("shop", "SELECT id, note FROM open_orders ORDER BY id", 3)
    assert (table.columns, [row[0] for row in table.rows], table.truncated) == (
        ["id", "note"],
        [1, 2, 3],
        True,
    )
    assert len(str(table.rows[0][1])) == 2000
    table = await queries.query(
        "shop", "SELECT id FROM open_orders WHERE id < 3 AND '%' <> '{}';", 3
    )
    assert (len(table.rows), table.truncated) == (2, False)


@pytest.mark.parametrize(
    "statement",
    [
        "create table pwn()",
        "select set_config('transaction_read_only', 'off', true)",
        "select secret from orders",
        "select pg_read_file('/etc/passwd')",
        "copy (select 1) to program 'true'",
        "nonsense",
        "half \ud800 pair",
    ],
)
async def test_statement_that_does_more_than_read_is_refused(
    shop: str, as_reader: str, statement: str
) -> None:
    with pytest.raises(Permanent) as refused:
        await queries_of(as_reader).query("shop", statement, 10)
    assert PASSWORD not in str(refused.value)
    with psycopg.connect(shop) as connection:
        assert connection.execute("SELECT to_regclass('pwn')").fetchone() == (None,)


@pytest.mark.parametrize("statement", ["commit", "set transaction read write", ""])
async def test_transaction_stays_read_only(as_reader: str, statement: str) -> None:
    queries = queries_of(as_reader)
    with contextlib.suppress(Permanent):
        assert (await queries.query("shop", statement, 10)).rows == []
    assert (await queries.query("shop", "show transaction_read_only", 1)).rows == [["on"]]


async def test_value_of_many_megabytes_is_cut_before_it_is_sent(
    as_reader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[int] = []

    def shown(value: object) -> object:
        received.append(len(str(value)))
        return value

    monkeypatch.setattr(read_only_queries, "_shown", shown)
    statement = (
        "SELECT 7 AS n, repeat('x', 100000000) AS big, ARRAY[repeat('y', 5000)], NULL, 1.5 -- a "
        "comment"
    )
    table = await queries_of(as_reader).query("shop", statement, 1)
    assert max(received) == 2000, "the length that came over the wire"
    assert list(table.columns) == ["n", "big", "array", "?column?", "?column?"]
    assert table.rows[0][0] == 7
    assert table.rows[0][3:] == [None, "1.5"]


@pytest.mark.parametrize(
    ("statement", "why"),
    [
        ("EXPLAIN VERBOSE SELECT repeat('x', 30000000)", "only SELECT, WITH"),
        ("SELECT '') q(c0) UNION ALL SELECT repeat('x', 30000000) FROM (SELECT 1", "syntax error"),
        ("SELECT 1) q(c0) CROSS JOIN (SELECT 2", "syntax error"),
        ("select 1; commit; create table pwn()", "multiple commands|syntax error"),
        ("show port; commit", "multiple commands|syntax error"),
        ("select 1) q; commit; select (2", "multiple commands|syntax error"),
        ("SELECT 1 /*", "unterminated"),
        ("SELECT repeat('x', 3000000)::int", "invalid input syntax for type integer"),
    ],
)
async def test_second_statement_or_a_way_around_the_bound_is_refused(
    shop: str, as_reader: str, statement: str, why: str
) -> None:
    with pytest.raises(Permanent, match=why) as refused:
        await queries_of(as_reader).query("shop", statement, 10)
    assert len(str(refused.value)) < 2100
    with psycopg.connect(shop) as connection:
        assert connection.execute("SELECT to_regclass('pwn')").fetchone() == (None,)


@pytest.mark.parametrize(
    "statement",
    [
        "  -- why\n /* of it */ (SELECT 1 AS n)",
        "WITH a AS (SELECT 1 AS n) SELECT n FROM a ;",
        "VALUES (1), (2)",
        "TABLE open_orders",
        "SHOW server_version",
    ],
)
async def test_every_form_of_reading_is_accepted(as_reader: str, statement: str) -> None:
    assert (await queries_of(as_reader).query("shop", statement, 1)).rows


async def test_superuser_is_no_source(shop: str) -> None:
    with pytest.raises(Permanent, match="too many rights"):
        await queries_of(shop).check()


@pytest.mark.parametrize(
    ("grant", "word"),
    [
        ("GRANT SELECT ON orders TO visitor", "read public.orders"),
        ("GRANT SELECT (secret) ON orders TO visitor", "read public.orders"),
        ("GRANT INSERT ON orders TO visitor", "write to public.orders"),
        ("GRANT UPDATE (note) ON open_orders TO visitor", "write to public.open_orders"),
        ("GRANT CREATE ON SCHEMA public TO visitor", "too many rights"),
        (
            "CREATE ROLE boss SUPERUSER; GRANT boss TO visitor WITH INHERIT FALSE",
            "too many rights",
        ),
        (
            (
                "CREATE FUNCTION peek() RETURNS text LANGUAGE sql SECURITY DEFINER AS $$ SELECT "
                "'secret' $$"
            ),
            "too many rights",
        ),
        ("GRANT pg_read_all_data TO visitor", "too many rights"),
        ("GRANT pg_read_server_files TO visitor", "too many rights"),
        ("ALTER ROLE visitor CREATEROLE", "too many rights"),
    ],
)
async def test_login_with_more_rights_is_no_source(
    postgres: Postgres, grant: str, word: str
) -> None:
    with made(postgres, "shop_of_another", "visitor") as url:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(grant.encode())
        with pytest.raises(Permanent, match=word):
            await queries_of(login(url, "visitor")).check()


async def test_own_database_is_no_source_under_any_name(as_reader: str, agent_url: str) -> None:
    with pytest.raises(Permanent, match="own database"):
        await queries_of(as_reader, own=as_reader.replace("reader", "somebody")).check()
    with pytest.raises(Permanent, match="own database"):
        await queries_of(agent_url).check()


async def test_unreachable_source_is_reported_without_its_address(as_reader: str) -> None:
    away = as_reader.replace("host=", "host=%2Fnowhere")
    with pytest.raises(Transient) as caught:
        await queries_of(away).query("shop", "select 1", 1)
    assert PASSWORD not in str(caught.value)
    assert "nowhere" not in str(caught.value)


async def test_unknown_source_is_refused_with_the_known_ones(as_reader: str) -> None:
    with pytest.raises(Permanent, match="shop"):
        await queries_of(as_reader).query("prod", "select 1", 1)
