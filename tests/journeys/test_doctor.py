"""`threadline doctor` beside a running product: all is well, or it names each fault and its
remedy.
"""

import asyncio
import os
import re
import sys

import psycopg
import pytest
from aiohttp import ClientSession

from threadline_devstack.slack.identity import BOT_USER, SUMMARIES
from threadline_devstack.stack import Stack

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

LOOKED_AT = (
    "database",
    "agents' database",
    "temporal",
    "workers",
    "reported problems",
    "payload keys",
    "faults",
    "unposted",
    "slack",
    "channels",
    "sweep",
    "repositories",
    "model",
    "conversations' model",
    "tools",
    "history",
    "clocks",
    "programs",
    "workspaces",
)

ADD_LATE_POST = """
INSERT INTO posts (key, channel, claimed_at)
    VALUES ('late', 'C0LATE', extract(epoch FROM now()) - 400)
"""
ADD_FAULT = """
INSERT INTO installation_faults (kind, subject, text, first_seen, last_seen, told_open)
VALUES ('disk_full', '', 'The disk is full: make room.', now(), now(), true)
"""


async def doctor(stack: Stack) -> tuple[int, str]:
    """The exit code, and the output."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "threadline", "doctor"),
        env={"PATH": os.environ["PATH"], "THREADLINE_HOME": str(stack.home.root)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    told, _ = await process.communicate()
    return process.returncode or 0, told.decode()


async def test_doctor_finds_nothing_wrong_with_a_running_stack(stack: Stack) -> None:
    code, told = await doctor(stack)
    assert code == 0, told
    for name in LOOKED_AT:
        assert f"ok   {name}:" in told
    assert "s of Slack's" in told, "its clock was checked as well"
    assert told.count("the key is accepted") == 2


async def test_workers_of_a_running_stack_are_ready(stack: Stack) -> None:
    told = {}
    async with ClientSession() as http:
        for name, url in stack.health_urls.items():
            async with http.get(f"{url}/readyz") as answer:
                assert answer.status == 200, await answer.text()
                told[name] = await answer.json()
    assert told == {
        "core": {"database": True, "core_polls": True, "taking_work": True},
        "agents": {"agents_database": True, "agents_polls": True, "taking_work": True},
    }


async def test_doctor_fails_for_silent_faults(stack: Stack) -> None:
    _as_owner(stack, ADD_LATE_POST)
    _as_owner(stack, ADD_FAULT)
    try:
        code, told = await doctor(stack)
    finally:
        _as_owner(stack, "DELETE FROM posts WHERE key = 'late'")
        _as_owner(stack, "DELETE FROM installation_faults WHERE kind = 'disk_full'")
    assert code == 1
    assert "the post 'late' in C0LATE" in told
    assert "The disk is full: make room." in told
    assert set(re.findall(r"FAIL ([^:]+):", told)) == {"unposted", "faults"}, told


async def test_doctor_names_each_thing_that_a_deployment_lacks(stack: Stack) -> None:
    stack.slack.workspace.leave(SUMMARIES, BOT_USER)
    _as_owner(stack, "GRANT SELECT ON cases TO threadline_agent")
    try:
        code, told = await doctor(stack)
    finally:
        _as_owner(stack, "REVOKE SELECT ON cases FROM threadline_agent")
        stack.slack.workspace.join(SUMMARIES, BOT_USER)
    assert code == 1
    assert "it may read cases" in told
    assert "invite it there" in told
    failed = set(re.findall(r"FAIL ([^:]+):", told))
    # A pass of the catch-up in these seconds cannot read the channel either, and reports it.
    assert failed - {"catch-up"} == {"agents' database", "channels"}, told


def _as_owner(stack: Stack, statement: str) -> None:
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(statement.encode())
