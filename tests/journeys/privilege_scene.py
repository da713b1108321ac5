"""Two cases on the running product, one of which tries to reach the other, and a code host that
requires a login.
"""

import asyncio
import base64
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest_asyncio
from aiohttp import web

from tests.support.journey_scene import JourneyScene
from threadline_devstack import environment
from threadline_devstack.models.request import RecordedResult
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.stack import Stack, StackOptions

CANARY = "canary-of-another-case"
TOKEN = "token-that-may-push"
ANSWER: dict[str, Any] = {
    "title": "t",
    "summary": "s",
    "root_cause": "",
    "evidence": [],
    "severity": "S3",
    "confidence": 0.5,
    "clarification_question": "",
    "reply": "",
    "for_reporter": "",
    "recommended_actions": [],
    "affected_components": [],
    "fix_requested": False,
}
Attempt = tuple[str, dict[str, Any]]


@dataclass
class PrivilegeScene:
    """Two cases: the agent of `victim` is held in mid-turn; that of `intruder` tries `attempts` in
    its second turn.
    """

    stack: Stack
    victim: JourneyScene
    intruder: JourneyScene
    attempts: list[Attempt] = field(default_factory=list)
    answers: list[RecordedResult] = field(default_factory=list)

    @property
    def workspaces(self) -> Path:
        return self.stack.home.root / "workspaces"

    @property
    def worker(self) -> psutil.Process:
        return psutil.Process(self.stack.processes.pid("agents"))

    @property
    def cli(self) -> psutil.Process:
        """The process of the agent in the victim's turn."""
        [found] = [
            child
            for child in self.worker.children(recursive=True)
            if "--session-id" in str(child.cmdline())
        ]
        return found

    def environment(self) -> dict[str, str]:
        """The environment that the agent worker was started with. For accounts other than root the
        kernel may refuse even that.
        """
        try:
            raw = Path(f"/proc/{self.worker.pid}/environ").read_text()
        except (OSError, UnicodeError):
            given = environment.pick(self.stack.settings, environment.AGENTS)
            return environment.pick(os.environ, environment.MACHINE) | given
        return dict(line.split("=", 1) for line in raw.split("\0") if "=" in line)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def trial() -> AsyncIterator[PrivilegeScene]:
    folder = Path(tempfile.mkdtemp(prefix="threadline-journey-"))
    found: list[PrivilegeScene] = []

    async def script(turn: ScriptTurn) -> None:
        if turn.bug_id == "BUG-1":
            await turn.call("mcp__bug__get_bug", bug_id="BUG-1")
            await turn.hold("victim")
        elif "Edit" in turn.tools:
            found[0].answers = list(await turn.call_together(*found[0].attempts))
        await turn.finish(action="post_findings", **ANSWER)

    async with ModelSandbox.running() as model:
        model.script(script)
        key = {"ANTHROPIC_API_KEY": "sk-ant-journey", "ANTHROPIC_BASE_URL": model.url}
        wishes = StackOptions(given=environment.pick(os.environ, environment.MACHINE) | key)
        async with (
            Stack.running(folder, wishes) as stack,
            JourneyScene.on(stack) as victim,
            JourneyScene.on(stack) as intruder,
        ):
            trial = PrivilegeScene(stack, victim, intruder)
            found.append(trial)
            await victim.write_report("The first case.")
            assert victim.bug_id == "BUG-1"
            await model.holds.reached("victim")
            (trial.workspaces / "cases" / "BUG-1" / "sample-shop" / "canary.txt").write_text(
                CANARY
            )
            yield trial
            await model.holds.release("victim")
    await asyncio.to_thread(shutil.rmtree, folder)


@pytest_asyncio.fixture(loop_scope="module")
async def code_host(tmp_path: Path) -> AsyncIterator[tuple[str, list[str]]]:
    """A code host that accepts a push with `TOKEN`; yields its URL and the logins that it
    received.
    """
    sent: list[str] = []
    repository = tmp_path / "acme" / "sample-shop.git"
    await _made(repository)

    async def answer(request: web.Request) -> web.Response:
        login = request.headers.get("Authorization", "")
        if login:
            sent.append(login)
        if login != f"Basic {base64.b64encode(f'x-access-token:{TOKEN}'.encode()).decode()}":
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="git"'})
        return await _served(request, tmp_path)

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("*", "/{rest:.*}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    yield f"http://127.0.0.1:{port}/acme/sample-shop.git", sent
    await runner.cleanup()


async def _made(repository: Path) -> None:
    for words in (
        ("init", "--bare", "--quiet", str(repository)),
        ("-C", str(repository), *_RECEIVES),
    ):
        process = await asyncio.create_subprocess_exec("git", *words)
        assert await process.wait() == 0


_RECEIVES = ("config", "http.receivepack", "true")


async def _served(request: web.Request, root: Path) -> web.Response:
    """The response of git's own server (https://git-scm.com/docs/git-http-backend), by CGI."""
    body = await request.read()
    process = await asyncio.create_subprocess_exec(
        *("git", "http-backend"),
        env={
            "PATH": os.environ["PATH"],
            "GIT_PROJECT_ROOT": str(root),
            "GIT_HTTP_EXPORT_ALL": "1",
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query_string,
            "REQUEST_METHOD": request.method,
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": "",  # aiohttp has unpacked it
        },
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    told, _ = await process.communicate(body)
    head, _, content = told.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n"))
    status = int(headers.pop("Status", "200").split()[0])
    return web.Response(status=status, headers=headers, body=content)
