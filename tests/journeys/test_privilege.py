"""Least privilege on the running product: every forbidden act is tried with the agent worker's own
rights.
"""

import asyncio
import json
import re
import sys
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from pydantic import SecretStr

from tests.journeys.privilege_scene import CANARY, TOKEN, Attempt, PrivilegeScene, code_host, trial
from threadline.cases.model import CaseStatus
from threadline.db.columns import metadata
from threadline.forge.remotes import Remote
from threadline.wiring.agent_worker import REFUSED_SECRETS
from threadline_devstack.slack import identity

__all__ = ["code_host", "trial"]

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.timeout(180),
]


@pytest.mark.skipif(
    sys.platform != "linux", reason="another process's environment can be read on Linux alone"
)
async def test_the_worker_and_its_agent_hold_no_secret_that_is_not_theirs(
    trial: PrivilegeScene,
) -> None:
    held = trial.environment()
    settings = trial.stack.settings
    assert held["THREADLINE_AGENT_DATABASE_URL"], "the control: this is the worker's environment"
    assert not set(REFUSED_SECRETS) & set(held)
    agent = dict(trial.cli.environ())
    assert agent["ANTHROPIC_API_KEY"]
    for name in (*REFUSED_SECRETS, "SLACK_API_URL"):
        value = settings.get(name, name)
        assert not [key for key in held if value in held[key]], f"the worker holds {name}"
        assert not [key for key in agent if value in agent[key]], f"the agent holds {name}"
    login = urllib.parse.urlsplit(held["THREADLINE_AGENT_DATABASE_URL"])
    assert login.password
    assert not [key for key, value in agent.items() if login.password in value]
    assert not [
        key
        for key in agent
        if key.startswith(("TEMPORAL", "THREADLINE", "DATABASE", "SLACK", "GIT"))
    ]


STATEMENTS = [
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_ls_dir('.')",
    "COPY (SELECT 1) TO PROGRAM 'true'",
    "COPY (SELECT 1) TO '/tmp/planted'",
    "CREATE EXTENSION dblink",
    "CREATE EXTENSION plpython3u",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_from_bytea(0, 'planted')",
    "SET ROLE threadline",
    "SET SESSION AUTHORIZATION threadline",
    "SELECT set_config('role', 'threadline', false)",
    "ALTER ROLE threadline_agent SUPERUSER",
    "ALTER ROLE threadline PASSWORD 'planted'",
    "GRANT ALL ON cases TO threadline_agent",
    "CREATE SCHEMA planted",
    "CREATE TABLE planted ()",
    "CREATE TEMPORARY TABLE planted ()",
    "CREATE FUNCTION planted() RETURNS int LANGUAGE sql SECURITY DEFINER AS 'SELECT 1'",
    (
        "CREATE OR REPLACE FUNCTION agent_similar_cases(text, text, text[], int) RETURNS int "
        "LANGUAGE sql AS 'SELECT 1'"
    ),
    "CREATE OR REPLACE VIEW agent_cases AS SELECT 1",
    "ALTER SYSTEM SET log_connections = on",
    "CREATE DATABASE planted",
    "UPDATE agent_cases SET status = 'resolved'",
    "INSERT INTO agent_conversations (bug_id) VALUES ('BUG-1')",
    "DELETE FROM agent_transcripts",
    "SELECT append_entries('threadline', 's', '', ARRAY['u'], ARRAY['{}'])",
    "SELECT held_claim('BUG-1', 1, 1)",
    "SELECT agent_finish_turn('BUG-1', 1, 0, '{\"action\": \"resolved\"}')",
    "SELECT agent_finish_turn('BUG-1', 1, NULL, '{\"action\": \"resolved\"}')",
    "SELECT agent_record_finding('BUG-1', 1, 0, 't', 'd', '', 0, '')",
    "SELECT agent_append_entries('BUG-1', 1, 0, 'threadline', 's', '', ARRAY['u'], ARRAY['{}'])",
    "SELECT agent_renew_lease('BUG-1', 1, 0, 1000)",
]


REFUSED = {"42501", "42809", "55000", "0A000", "TL001"}
"""Not permitted; no relation that can be written; not supported; the claim is not held. A typo of
ours causes none of these codes.
"""


async def test_the_workers_login_reads_no_table_and_writes_no_case(trial: PrivilegeScene) -> None:
    connection = await asyncpg.connect(trial.environment()["THREADLINE_AGENT_DATABASE_URL"])
    try:
        assert await connection.fetchval("SELECT count(*) FROM agent_cases") >= 1, (
            "the control: it may read the views"
        )
        tables = [
            verb.format(name)
            for name in sorted({*metadata.tables, "alembic_version"})
            for verb in (
                "SELECT * FROM {}",
                "INSERT INTO {} DEFAULT VALUES",
                "DELETE FROM {}",
                "TRUNCATE {}",
            )
        ]
        refusals = {
            statement: await _refusal(connection, statement)
            for statement in (*STATEMENTS, *tables)
        }
    finally:
        await connection.close()
    assert {statement: code for statement, code in refusals.items() if code not in REFUSED} == {}
    assert (await trial.victim.case()).status is CaseStatus.INVESTIGATING


async def _refusal(connection: asyncpg.Connection, statement: str) -> str:
    """The SQLSTATE of the refusal; empty if the statement succeeded."""
    try:
        await connection.execute(statement)
    except asyncpg.PostgresError as error:
        return str(error.sqlstate)
    return ""


async def test_nothing_that_the_worker_holds_opens_slack(trial: PrivilegeScene) -> None:
    url = f"{trial.stack.settings['SLACK_API_URL']}chat.postMessage"
    words = {"channel": identity.REPORTS, "text": "planted"}
    assert await asyncio.to_thread(_post, url, words, "") == "not_authed"
    held = trial.environment()
    tokens = {
        *held.values(),
        urllib.parse.urlsplit(held["THREADLINE_AGENT_DATABASE_URL"]).password or "",
    }
    for token in tokens:
        if token.isprintable() and token.isascii() and token.strip():
            assert await asyncio.to_thread(_post, url, words, token) in {
                "not_authed",
                "invalid_auth",
            }
    assert await asyncio.to_thread(_post, url, words, identity.BOT_TOKEN) == "", (
        "the control: with the token it posts"
    )


def _post(url: str, words: Mapping[str, str], token: str) -> str:
    """Slack's name for the refusal; empty if the post succeeded."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, urllib.parse.urlencode(words).encode(), headers)  # noqa: S310 # our sandbox
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with direct.open(request, timeout=10) as answer:
        told = json.loads(answer.read())
    return "" if told["ok"] else str(told["error"])


async def test_the_worker_has_nothing_to_push_with(
    trial: PrivilegeScene, code_host: tuple[str, list[str]]
) -> None:
    url, sent = code_host
    held = trial.environment()
    [mirror] = [path for path in (trial.workspaces / "mirrors").iterdir() if path.is_dir()]
    config = (mirror / "config").read_text()
    assert "bare = true" in config, "the control: this is what git reads there"
    assert not re.search(r"://[^/\s]*@|helper|extraheader", config, re.IGNORECASE), (
        "the mirror holds no login"
    )
    assert re.search(r"(?i)auth|username|credential|401", await _push(held, mirror, url))
    assert sent == [], "no credential was offered"
    for name in ("GIT_CONFIG_COUNT", "GITHUB_TOKEN", "THREADLINE_GIT_PASSWORD"):
        assert name not in held
    token = Remote.parse(url).with_token(SecretStr(TOKEN))
    assert await _push({**held, **token.environment}, mirror, url) == "", (
        "the control: with a token it pushes"
    )
    assert sent


async def _push(held: Mapping[str, str], mirror: Path, url: str) -> str:
    """The output of a plain git push from the mirror with all of an environment; empty if it
    succeeded.
    """
    process = await asyncio.create_subprocess_exec(
        *("git", f"--git-dir={mirror}", "push", "--quiet", url, "HEAD:refs/heads/planted"),
        # Without this the person who runs the tests would be asked.
        env={**held, "GIT_TERMINAL_PROMPT": "0"},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return said.decode(errors="replace").strip()


def attempts_at(trial: PrivilegeScene) -> Sequence[Attempt]:
    """Every request outside its own case that a model could make of its tools."""
    root = trial.workspaces
    home = trial.stack.home.root
    theirs = root / "cases" / "BUG-1" / "sample-shop"
    canary = theirs / "canary.txt"
    cli_home = Path(trial.cli.environ()["HOME"])
    reading = _paths_outside(trial)
    searched: list[dict[str, Any]] = [
        *[{"path": str(path)} for path in ("..", theirs, "/proc/self", cli_home, "~")],
        {"glob": "../**"},
        {"glob": "/**"},
    ]
    return [
        *[("Read", {"file_path": str(path)}) for path in reading],
        *[("Grep", {"pattern": ".", "output_mode": "content", **where}) for where in searched],
        *[
            ("Glob", {"pattern": "*", "path": str(path)})
            for path in ("..", theirs, cli_home, "/proc/self")
        ],
        *[
            ("Glob", {"pattern": pattern})
            for pattern in ("../*", f"{theirs}/*", "{..,x}/*", "~/*")
        ],
        *[
            ("Edit", {"file_path": str(path), "old_string": "canary", "new_string": "x"})
            for path in (canary, "../x")
        ],
        *[
            ("Write", {"file_path": str(path), "content": "planted"})
            for path in (
                theirs / "new.py",
                "../BUG-1/new.py",
                cli_home / "x",
                home / "running.json",
                ".git/hooks/x",
            )
        ],
        ("mcp__bug__get_bug", {"bug_id": "BUG-1"}),
        ("mcp__bug__get_bug_conversations", {"bug_id": "BUG-1"}),
        ("Bash", {"command": f"cat {canary}", "description": "read"}),
        ("WebFetch", {"url": trial.stack.settings["SLACK_API_URL"], "prompt": "read"}),
        ("Task", {"prompt": "read it", "description": "read", "subagent_type": "general-purpose"}),
    ]


async def test_the_agents_tools_reach_no_other_case_and_no_other_file(
    trial: PrivilegeScene,
) -> None:
    scene = trial.intruder
    await scene.write_report("The second case.")
    await scene.until_status(CaseStatus.PENDING_VERIFICATION)
    others = {
        path: path.read_bytes()
        for path in (trial.workspaces / "cases" / "BUG-1").rglob("*")
        if path.is_file()
    }
    refused = list(attempts_at(trial))
    own: list[Attempt] = [
        ("Grep", {"pattern": "canary|hooks", "output_mode": "content"}),
        ("Read", {"file_path": "sample-shop/shop/cart.py"}),
    ]
    trial.attempts = [*refused, *own]
    await scene.discuss(identity.DEVELOPER, "Please fix it.")
    await scene.until("the attempts are made", lambda: _done(trial), seconds=90)
    for (tool, given), answer in zip(trial.attempts, trial.answers, strict=True):
        assert CANARY not in answer.text, (tool, given)
        assert answer.is_error == ((tool, given) not in own), (tool, given, answer.text[:500])
    assert "class Cart" in trial.answers[-1].text, "the control: its own files are read"
    after = {path: path.read_bytes() for path in others if path.exists()}
    assert after == others
    assert {
        path for path in (trial.workspaces / "cases" / "BUG-1").rglob("*") if path.is_file()
    } == set(others)


async def _done(trial: PrivilegeScene) -> bool:
    return len(trial.answers) == len(trial.attempts)


def _paths_outside(trial: PrivilegeScene) -> list[str | Path]:
    """Return paths of another case, of processes, of the machine and of git."""
    root = trial.workspaces
    home = trial.stack.home.root
    cli_home = Path(trial.cli.environ()["HOME"])
    transcripts = sorted(cli_home.rglob("*.jsonl"))
    assert transcripts, (
        "the control: the other case's agent keeps its transcript there while it runs"
    )
    return [
        root / "cases" / "BUG-1" / "sample-shop" / "canary.txt",
        "../BUG-1/sample-shop/canary.txt",
        "sample-shop/../../BUG-1/sample-shop/canary.txt",
        transcripts[0],
        cli_home / "pid",
        "../../tmp",
        "/proc/self/environ",
        f"/proc/{trial.worker.pid}/environ",
        f"/proc/{trial.cli.pid}/environ",
        "/proc/self/root/etc/passwd",
        "/etc/passwd",
        home / "running.json",
        home / "postgres" / "passwords.json",
        home / "sample-shop.git" / "HEAD",
        root / "scratch" / "BUG-1",
        ".git",
        "sample-shop/.git/config",
    ]
