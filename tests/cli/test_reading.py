"""Commands that only read: they load no service client, take little CPU, and report an unavailable
database.
"""

import json
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
import typer
from rich.cells import cell_len
from typer.core import TyperCommand

from tests.cli.command import MACHINE, run_command
from tests.cli.test_decisions import decided
from tests.cli.test_explain import answer_of, asked, make_talk, talk
from tests.docs.generate import ROOT
from tests.support.case_store import Scene, report, said
from tests.support.conversation_activities import ConversationActivityScene
from tests.support.conversation_store import StoredConversation, mention
from tests.support.patience import patient
from tests.support.postgres import Postgres
from threadline.cli import main
from threadline.cli.connections import temporal_namespace
from threadline.threads.model import IncomingMessage
from threadline_devstack.slack.identity import GENERAL

__all__ = ["asked", "make_talk", "talk"]

NOT_READING = {
    "up": "starts the whole product",
    "demo": "starts the whole product",
    "gateway": "serves",
    "worker": "serves",
    "codec": "serves",
    "doctor": "asks Temporal, Slack and each other service whether they answer",
    "replay": "reads histories from Temporal, and replays them with its worker",
    "db upgrade": "changes the schema",
    "db restored": "records that the database was restored",
    "cases resolve": "signals a workflow",
    "knowledge ingest": "writes documents",
    "knowledge remove": "deletes a document",
    "messages restore": "writes messages",
    "records load": "writes records",
    "records lock": "writes a record",
    "records unlock": "writes a record",
    "tools policy": "reads no database, and loads every tool",
}
"""Commands that do more than read the database, or read something else, each with its reason."""
HISTORY = ROOT / "tests" / "replay" / "histories" / "agent_resolved.1.json"
ARGUMENTS = {
    "cases show": ("BUG-1",),
    "explain": (),  # the address of a message, which a test stores first
    "knowledge list": ("--team", "T1"),  # without a team, the bot token's is asked for in Slack
    "messages list": ("--team", "T1"),
    "records list": ("--team", "T1"),
    "records delete": (
        "rfp_abc123",
        "--team",
        "T1",
    ),  # shows what would be deleted; only --yes changes data
    "records forget-person": ("Ida", "--team", "T1"),
}
READ_ELSEWHERE = {
    "doctor": (),
    "replay": (str(HISTORY),),
    "tools policy": (),
}
"""Commands that read something else than the database, with their arguments."""
WITHOUT_JSON = NOT_READING.keys() - READ_ELSEWHERE.keys()
CLIENTS = ("temporalio", "openai", "claude_agent_sdk", "slack_sdk", "slack_bolt", "aiohttp")
"""Clients of services that none of these commands calls."""
SLOW = ("structlog", "psycopg", "pydantic_settings", "rich.traceback", "rich.progress")
"""Modules that take a tenth of a second or more to load, and that these commands do not need."""
RECORDS = """
[[project]]
name = "Web shop"
currency = "EUR"
roles = {designer = 800}
[[resource]]
name = "Meeting room"
time_zone = "Europe/Berlin"
opens = 09:00:00
closes = 17:00:00
[[rfp]]
id = "rfp_abc123"
title = "Website relaunch"
[[member]]
user_id = "U024BE7LH"
name = "Ida"
role = "Bid writer"
"""
_MEASURED = """
import json, os, resource, sys
from threadline.cli import main

def report(code):
    used = resource.getrusage(resource.RUSAGE_SELF)
    sys.stdout.flush()
    cpu = used.ru_utime + used.ru_stime
    modules = sorted(sys.modules)
    print("\\n" + json.dumps({"code": code, "cpu": cpu, "modules": modules}), flush=True)
    os._exit(0)

main.exit_now = report
main.main()
"""
_LIBRARIES = """
import asyncio, resource
import asyncpg, rich.console, rich.markup, rich.table, typer
import sqlalchemy.dialects.postgresql, sqlalchemy.ext.asyncio
from pydantic import BaseModel, TypeAdapter

used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime + used.ru_stime)
"""
MOST = 1.3
MOST_OF = {"explain": 1.8}
"""The largest allowed CPU time of a command, as a multiple of the CPU time that importing its
libraries takes. `explain` redacts its output: it loads the rules for secrets.
"""


def all_commands() -> dict[str, TyperCommand]:
    """Return each command of the program by its words."""
    group = typer.main.get_command(main.app)
    assert isinstance(group, typer.core.TyperGroup)
    return {
        name if each is command else f"{name} {each.name}": each
        for name, command in group.commands.items()
        for each in getattr(command, "commands", {name: command}).values()
    }


def reading_commands() -> list[str]:
    """Return each command of the program that is not listed above."""
    found = all_commands()
    assert set(NOT_READING) <= set(found)
    return [name for name in found if name not in NOT_READING]


@dataclass(frozen=True)
class Ran:
    """`cpu`: seconds of the whole process, user and system time."""

    code: int
    cpu: float
    modules: frozenset[str]
    shown: str


def run(url: str, folder: Path, *arguments: str) -> Ran:
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *arguments],
        env=MACHINE | {"DATABASE_URL": url, "COLUMNS": "200"},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patient(100),
        check=True,
    )
    shown, _, last = done.stdout.rstrip().rpartition("\n")
    told = json.loads(last)
    return Ran(told["code"], told["cpu"], frozenset(told["modules"]), shown + done.stderr)


def cpu_of_libraries() -> float:
    """CPU seconds of a process that imports what every command needs, and does nothing."""
    command = [sys.executable, "-c", _LIBRARIES]
    done = subprocess.run(
        command, env=MACHINE, capture_output=True, text=True, timeout=patient(100), check=True
    )
    return float(done.stdout)


@pytest.fixture
async def commands(
    talk: ConversationActivityScene,
    asked: IncomingMessage,
    scene: Scene,
    database_url: str,
    tmp_path: Path,
) -> dict[str, tuple[str, ...]]:
    """Every command that reads, with its arguments, on a database where each finds something."""
    await scene.flush(report())
    conversation = StoredConversation(talk.database)
    await conversation.hear(mention(0, "What does Starter cost?"))
    await decided(conversation, 1, 0.9, "+1")
    (tmp_path / "records.toml").write_text(RECORDS)
    (tmp_path / "leave.md").write_text("# Days off\n\nAsk the office for a day off.\n")
    for words in ("records load records.toml", "knowledge ingest leave.md"):
        done = run_command(
            (*words.split(), "--team", "T1"), {"DATABASE_URL": database_url}, tmp_path
        )
        assert done.returncode == 0, done.stderr
    arguments = ARGUMENTS | {"explain": (f"{GENERAL}/{answer_of(talk)}",)}
    return {name: (*name.split(), *arguments.get(name, ())) for name in reading_commands()}


async def test_command_that_reads_loads_no_client_of_another_service(
    commands: dict[str, tuple[str, ...]], database_url: str, tmp_path: Path
) -> None:
    for name, arguments in commands.items():
        ran = run(database_url, tmp_path, *arguments)
        assert ran.code == 0, (name, ran.shown)
        loaded = [each for each in (*CLIENTS, *SLOW) if each in ran.modules]
        assert not loaded, f"{name} loads {', '.join(loaded)}"


@pytest.mark.alone
async def test_command_that_reads_takes_little_more_cpu_than_its_libraries(
    commands: dict[str, tuple[str, ...]], database_url: str, tmp_path: Path
) -> None:
    """A command over the limit is measured again beside its libraries, since the machine may be
    busy.
    """
    late = dict.fromkeys(commands, 0.0)
    for _ in range(4):
        libraries = cpu_of_libraries()
        ratios = {
            name: run(database_url, tmp_path, *commands[name]).cpu / libraries for name in late
        }
        late = {name: ratio for name, ratio in ratios.items() if ratio > MOST_OF.get(name, MOST)}
    assert not late


async def test_command_that_reads_writes_nothing(
    commands: dict[str, tuple[str, ...]], database_url: str, tmp_path: Path
) -> None:
    with psycopg.connect(database_url, autocommit=True) as connection:
        of_it = f'ALTER DATABASE "{connection.info.dbname}"'
        connection.execute(
            f"{of_it} SET default_transaction_read_only = on"
        )  # for sessions that begin from now on
        try:
            given = {"DATABASE_URL": database_url}
            refused = run_command(("records", "lock", "Web shop", "--team", "T1"), given, tmp_path)
            assert "read-only transaction" in refused.stderr
            for name, arguments in commands.items():
                done = run_command(arguments, given, tmp_path)
                assert done.returncode == 0, (name, done.stderr)
        finally:
            connection.execute(f"{of_it} RESET default_transaction_read_only")


@pytest.mark.parametrize("name", all_commands())
def test_command_has_json_unless_it_serves_or_writes(name: str) -> None:
    """A command that neither has `--json` nor a reason in NOT_READING fails here."""
    options = {option for each in all_commands()[name].params for option in each.opts}
    assert ("--json" in options) is (name not in WITHOUT_JSON)


TIME = re.compile(r"at|.*_at|effective|expires|due_date")
"""Names of the fields that hold a moment or a day."""


def check_document(told: str, name: str) -> None:
    """Check that a text is one JSON object whose moments are ISO 8601 with their offset."""
    document = json.loads(told, parse_constant=lambda constant: pytest.fail(constant))
    assert isinstance(document, dict), name

    def walk(value: Any, path: str, *, is_own: bool) -> None:
        if isinstance(value, dict):
            for key, each in value.items():
                assert re.fullmatch(r"[a-z0-9_]+", key), f"{name}: {path}.{key}"
                # the contents of these fields are as their authors wrote them
                own = is_own and key not in ("what", "parameters", "layers")
                walk(each, f"{path}.{key}", is_own=own)
        elif isinstance(value, list):
            for each in value:
                walk(each, path, is_own=is_own)
        elif is_own and value and TIME.fullmatch(path.rpartition(".")[2]):
            moment = datetime.fromisoformat(value)
            assert moment.tzinfo or len(value) == len("2026-01-31"), f"{name}: {path}"
        else:
            is_moment = isinstance(value, float | int) and value > 1_000_000_000
            assert not is_moment, f"{name}: {path} is seconds since 1970"

    walk(document, "", is_own=True)


@pytest.mark.parametrize("name", reading_commands())
async def test_command_that_reads_prints_one_json_document(
    name: str, commands: dict[str, tuple[str, ...]], database_url: str, tmp_path: Path
) -> None:
    done = run_command((*commands[name], "--json"), {"DATABASE_URL": database_url}, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    check_document(done.stdout, name)


@pytest.mark.parametrize(("name", "arguments"), READ_ELSEWHERE.items())
def test_command_that_reads_elsewhere_prints_one_json_document(
    name: str, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    text = run_command((*name.split(), *arguments), {}, tmp_path)
    done = run_command((*name.split(), *arguments, "--json"), {}, tmp_path)
    assert (done.returncode, done.stderr) == (text.returncode, text.stderr)
    check_document(done.stdout, name)


@pytest.mark.parametrize(
    "command", ["cases list", "cases show 1", "records list --team T1", "decisions report"]
)
def test_json_of_a_failed_command_is_empty_and_the_error_is_the_same(
    command: str, tmp_path: Path
) -> None:
    given = {"DATABASE_URL": "postgresql://a@127.0.0.1:1/x"}
    text = run_command(tuple(command.split()), given, tmp_path)
    done = run_command((*command.split(), "--json"), given, tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == text.stderr != ""


async def test_no_table_of_a_command_is_wider_than_80_columns(
    commands: dict[str, tuple[str, ...]], scene: Scene, database_url: str, tmp_path: Path
) -> None:
    """A line of a table differs from the line in a pipe; all other lines are the same."""
    await scene.flush(said(1, "The total is wrong with each code that I have tried. " * 9))
    given = {"DATABASE_URL": database_url}
    for name, arguments in (commands | {"tools policy": ("tools", "policy")}).items():
        piped = run_command(arguments, given, tmp_path).stdout.splitlines()
        narrow = run_command(arguments, given | {"COLUMNS": "80"}, tmp_path).stdout.splitlines()
        too_wide = [line for line in narrow if cell_len(line) > 80 and line not in piped]
        assert not too_wide, name


@pytest.mark.parametrize(
    "variable", ["", "TEMPORAL_NAMESPACE", "TEMPORAL_CONFIG_FILE", "XDG_CONFIG_HOME"]
)
def test_namespace_comes_from_temporals_own_configuration(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TEMPORAL_NAMESPACE", "TEMPORAL_CONFIG_FILE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    file = tmp_path / "temporalio" / "temporal.toml"
    file.parent.mkdir()
    file.write_text('[profile.default]\nnamespace = "shop"\n')
    if variable:
        values = {
            "TEMPORAL_NAMESPACE": "shop",
            "TEMPORAL_CONFIG_FILE": str(file),
            "XDG_CONFIG_HOME": str(tmp_path),
        }
        monkeypatch.setenv(variable, values[variable])
    assert temporal_namespace() == ("shop" if variable else "default")


@pytest.fixture
def stranger(postgres: Postgres, database_url: str) -> Iterator[str]:
    """The database's address for a role that needs a password, with a wrong one."""
    address = database_url.replace("postgres:@", "stranger:wrong-password@")
    with psycopg.connect(database_url, autocommit=True) as connection:
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        file = Path(row[0])
        rules = file.read_text()
        file.write_text("local all stranger scram-sha-256\n" + rules)
        connection.execute("SELECT pg_reload_conf()")
        try:
            for _ in range(200):  # the file is read a moment later
                with pytest.raises(psycopg.OperationalError) as refused:
                    psycopg.connect(address)
                if "password authentication failed" in str(refused.value):
                    break
                time.sleep(0.02)
            yield address
        finally:
            file.write_text(rules)
            connection.execute("SELECT pg_reload_conf()")


def refusal(url: str, folder: Path, *arguments: str) -> str:
    """Run the command, and return the one sentence that it prints on standard error."""
    environment = MACHINE | ({"DATABASE_URL": url} if url else {})
    command = [sys.executable, "-m", "threadline", *(arguments or ("cases", "list"))]
    done = subprocess.run(
        command,
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=patient(60),
        check=False,
    )
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1), done.stderr
    assert "wrong-password" not in done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("", "DATABASE_URL is not set"),
        (
            "postgresql://a:wrong-password@127.0.0.1:1/x",
            "Connect call failed ('127.0.0.1', 1). Start Postgres, or",
        ),
        (
            "postgresql://a:wrong-password@nowhere.invalid/x",
            "Start Postgres, or correct DATABASE_URL.",
        ),
        (
            "postgresql:///x?host=/nowhere",
            "No such file or directory. Start Postgres, or correct DATABASE_URL.",
        ),
        (
            "postgresql://a:wrong-password@host:port/x",
            "write it as postgresql://user:password@host:port/name",
        ),
        (
            "postgresql://a:wrong-password@127.0.0.1/x?sslmode=require",
            "argument 'sslmode'): write it as postgresql://",
        ),
        (
            "postgresql://a:wrong-password@127.0.0.1/x?connect_timeout=3",
            "argument 'connect_timeout'): write it as",
        ),
        (
            "postgresql://a:wrong-password@127.0.0.1:99999/x",
            "port must be 0-65535.): write it as postgresql://",
        ),
        (
            "postgresql://a:wrong-password@127.0.0.1/x?ssl=no",
            "disable, allow, prefer, require, verify-ca, verify-full):",
        ),
        (
            "postgresql://a:wrong-password@127.0.0.1/x?port=none",
            "port arguments: ('none',)): write it as",
        ),
    ],
)
def test_unavailable_database_is_reported_in_one_sentence(
    url: str, told: str, tmp_path: Path
) -> None:
    assert told in refusal(url, tmp_path)


def test_refused_login_is_reported_in_one_sentence(
    stranger: str, database_url: str, tmp_path: Path
) -> None:
    told = refusal(stranger, tmp_path)
    assert (
        'password authentication failed for user "stranger"; correct the URL of the database'
        in told
    )
    named = database_url.rpartition("/")[0] + "/nowhere?" + database_url.partition("?")[2]
    assert 'database "nowhere" does not exist; correct the URL' in refusal(named, tmp_path)


def test_full_database_is_reported_as_full_and_not_as_down(
    database_url: str, tmp_path: Path
) -> None:
    role = f"full_{uuid4().hex}"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {role} LOGIN CONNECTION LIMIT 0")
        try:
            told = refusal(database_url.replace("postgres:@", f"{role}@"), tmp_path)
        finally:
            connection.execute(f"DROP ROLE {role}")
    assert (
        told
        == f'threadline: the database is not available: too many connections for role "{role}"\n'
    )


def test_database_is_asked_before_slack(tmp_path: Path) -> None:
    told = refusal("postgresql://a@127.0.0.1:1/x", tmp_path, "knowledge", "list")
    assert "the database is not available" in told


@contextmanager
def silent_server() -> Iterator[int]:
    """A port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def test_silent_host_is_given_up_within_the_connect_timeout(tmp_path: Path) -> None:
    with silent_server() as port:
        begun = time.monotonic()
        done = run_command(
            ("cases", "list"), {"DATABASE_URL": f"postgresql://a@127.0.0.1:{port}/x"}, tmp_path
        )
        took = time.monotonic() - begun
    assert done.returncode == 1
    assert done.stderr == (
        "threadline: the database is not available: TimeoutError. Start Postgres, or correct "
        "DATABASE_URL.\n"
    )
    assert 4 < took < patient(20)
