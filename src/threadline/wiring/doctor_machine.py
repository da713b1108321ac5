"""Doctor's looks at what is around the product: this machine, the clocks, the code host, what Temporal keeps."""

import asyncio
import os
import re
import shutil
import tempfile
import time
from email.utils import parsedate_to_datetime
from pathlib import Path

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest

from threadline.db.agent_role import agent_database
from threadline.errors import Permanent, Transient
from threadline.forge import remotes
from threadline.forge.git import Git
from threadline.forge.remotes import Remote
from threadline.investigator.sandbox import find_cli
from threadline.settings import AgentSettings, ApprovalSettings, OpenAISettings, RepositorySettings, SlackSettings
from threadline.slack.client import Slack
from threadline.slack.errors import calling
from threadline.wiring.gateway import slack_client
from threadline.wiring.temporal import temporal_client

OLDEST_GIT = (2, 38)
"""The first that merges trees without files, as pull requests are made."""
OLDEST_POSTGRES = 17
"""The first with `transaction_timeout`, by which a tool's change is given up together with its call."""
SHORTEST_RETENTION = 24 * 3600
"""Seconds; below a day, nobody who looks in the morning sees what a case did at night."""
LARGEST_SKEW = 60.0
"""Seconds; posts are looked for by Slack's clock, with five minutes to spare."""
LEAST_SPACE = 1 << 30
"""Bytes; a mirror and a few exports of an ordinary repository."""
_PATIENCE = 20.0


async def retention() -> str:
    """How long Temporal keeps the history of a run that has ended."""
    client = await temporal_client(tries=1)
    request = DescribeNamespaceRequest(namespace=client.namespace)
    kept = (await client.workflow_service.describe_namespace(request)).config.workflow_execution_retention_ttl.seconds
    if kept < SHORTEST_RETENTION:
        raise Permanent(
            f"The namespace {client.namespace!r} deletes an ended run after {kept / 3600:.0f} h: set its retention to"
            " some days, so that its history can still be read."
        )
    return f"Temporal keeps the history of an ended run for {kept / 86400:.0f} days"


async def clocks() -> str:
    """This machine's clock against Slack's and Postgres'."""
    async with slack_client(SlackSettings.read()) as web, calling("auth.test"):
        date = (await web.auth_test()).headers.get("date", "")
    ahead = {"Slack's": time.time() - parsedate_to_datetime(date).timestamp()} if date else {}
    async with (
        agent_database(AgentSettings.read().database_url.get_secret_value(), pool_size=1) as database,
        database.connect() as connection,
    ):
        now = await connection.exec_driver_sql("SELECT extract(epoch FROM clock_timestamp())")
        ahead["Postgres'"] = time.time() - float(now.scalar_one())
    return judge_clocks(ahead)


def judge_clocks(ahead: dict[str, float]) -> str:
    """Args: `ahead`, by how many seconds our clock is ahead of whose. Raises `Permanent` when one is far off."""
    for whose, seconds in ahead.items():
        if abs(seconds) > LARGEST_SKEW:
            side = "ahead of" if seconds > 0 else "behind"
            raise Permanent(
                f"This machine's clock is {abs(seconds):.0f} s {side} {whose}: synchronise both with NTP, or posts are"
                " searched for at the wrong time and appear twice."
            )
    return ", ".join(f"within {max(1.0, abs(seconds)):.0f} s of {whose}" for whose, seconds in ahead.items())


def judge_postgres(version: str) -> str:
    """Args: `version`, what `SHOW server_version` says. Raises `Permanent` when it has no `transaction_timeout`."""
    found = re.match(r"\d+", version)
    if not found or int(found[0]) < OLDEST_POSTGRES:
        raise Permanent(
            f"Postgres {version} has no transaction_timeout, without which no tool can change a record: use Postgres "
            f"{OLDEST_POSTGRES} or newer."
        )
    return f"Postgres {version} is reachable"


async def workspaces() -> str:
    """The folder of the agents' files, when its worker runs on this machine."""
    return await asyncio.to_thread(judge_folder, RepositorySettings.read().workspace_root)


def judge_folder(folder: Path, least: int = LEAST_SPACE) -> str:
    """Raises `Permanent` when nothing can be written there, or less than `least` bytes are free."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise Permanent(
            f"{there} cannot be written to ({error.strerror}): give it to the account that the workers run as,"
            " or set THREADLINE_WORKSPACES."
        ) from error
    free = shutil.disk_usage(there).free
    if free < least:
        raise Permanent(f"Only {free >> 20} MiB are free in {there}: make room, or set THREADLINE_WORKSPACES.")
    return f"{folder} can be written to, {free >> 30} GiB free"


async def programs() -> str:
    """Git, and the agent's CLI."""
    cli = find_cli(None)
    if not os.access(cli, os.X_OK):
        raise Permanent(f"{cli} is not executable: install claude-agent-sdk again.")
    with tempfile.TemporaryDirectory() as folder:
        told = (await Git().run("version", git_dir=Path(folder))).text
    return f"{judge_git(told)}; the agent's CLI is installed"


def judge_git(told: str) -> str:
    """Args: `told`, what `git version` prints. Raises `Permanent` when it is too old."""
    found = re.search(r"(\d+)\.(\d+)", told)
    if not found or (int(found[1]), int(found[2])) < OLDEST_GIT:
        oldest = ".".join(map(str, OLDEST_GIT))
        raise Permanent(f"{told or 'This git'} is too old to make pull requests: install git {oldest} or newer.")
    return told


async def model() -> str:
    """The key alone: a call would cost something."""
    settings = AgentSettings.read()
    if not settings.api_key.get_secret_value().strip():
        raise Permanent("ANTHROPIC_API_KEY is empty: without it no case is investigated.")
    return f"{settings.model}, with a key (not tested, since a call costs money)"


async def conversation_model() -> str:
    """Of the model that answers mentions; the key alone, as above."""
    settings = OpenAISettings.read()
    if settings.api_key is None or not settings.api_key.get_secret_value().strip():
        raise Permanent("OPENAI_API_KEY is not set: the bot tells people who mention it that it cannot answer yet.")
    return f"{settings.model}, with a key (not tested, since a call costs money)"


async def approvers() -> str:
    """Those who may approve proposals are people whom Slack knows. That there are none is said, and no fault."""
    named = ApprovalSettings.read().approvers
    if not named:
        return "no approvers: proposals of medium or high risk are refused until THREADLINE_APPROVERS names someone"
    async with slack_client(SlackSettings.read()) as web:
        for user in named:
            known = await Slack(web).user(user)
            if known is None or known.bot:
                raise Permanent(
                    f"THREADLINE_APPROVERS names {user}, who is not a person in Slack: give the ids of people."
                )
    return f"{len(named)} may approve proposals"


async def repositories() -> str:
    """Each of them answers, with the credentials in its address."""
    named = remotes.repositories_by_name(RepositorySettings.read().repo)
    git = Git()
    with tempfile.TemporaryDirectory() as folder:
        await git.init(Path(folder) / "look.git")
        for name, url in named.items():
            remote, failure = Remote.parse(url), f"the repository {name} cannot be read: {{reason}}"
            try:
                async with asyncio.timeout(_PATIENCE):
                    await git.run(
                        "ls-remote", "--quiet", "--", remote.url, "HEAD",
                        git_dir=Path(folder) / "look.git", remote=remote, failure=failure,
                    )  # fmt: skip
            except TimeoutError as error:
                raise Transient(f"the repository {name} did not answer within {_PATIENCE:.0f} s") from error
    return f"{', '.join(named)}: reachable"
