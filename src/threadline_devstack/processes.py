"""Child processes: started in order, awaited until ready, and ended however the parent ends; and
their ports.
"""

import asyncio
import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from threadline.errors import Permanent

ReadyFields = Mapping[str, Any]
Ready = Callable[["ChildProcess"], Awaitable[ReadyFields | None]]
"""Called repeatedly: returns facts about a process once it is ready, None until then."""

TAIL = 15
"""Lines of a log in a failure's message."""

HOST = "127.0.0.1"
BELOW_EPHEMERAL = range(20_000, 32_768)
"""Ports that Linux and macOS do not hand out by default (Linux begins at 32,768): between the
choice of a port and listening on it, neither a connection nor a program that takes any port, such
as Temporal's, can take it.
"""

_SHARES = 64
"""Each process picks ports from its own share: two stacks that start concurrently would see the
same port free.
"""

_TETHER = Path(__file__).with_name("tether.py")
_POLL = 0.05


@dataclass(frozen=True)
class ChildCommand:
    """The command and the limits of one process.

    `within` and `grace` are seconds: until it must be ready, and between `stop_with` and SIGKILL.
    `account` is a user and a group id to run as, which needs root.
    """

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    ready: Ready
    within: float = 30.0
    grace: float = 15.0
    stop_with: signal.Signals = signal.SIGTERM
    account: tuple[int, int] | None = None
    folder: Path | None = None


class ChildProcess:
    """A process in its own session, so that Ctrl-C in the terminal reaches only its parent."""

    def __init__(self, command: ChildCommand, log: Path) -> None:
        self.command = command
        self.log = log
        account = ":".join(map(str, command.account)) if command.account else "-"
        with log.open("ab") as output:
            self._begin = output.tell()
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-I",
                    "-S",
                    str(_TETHER),
                    str(os.getpid()),
                    account,
                    "--",
                    *command.arguments,
                ],
                env=dict(command.environment),
                cwd=command.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code; None as long as it runs."""
        return self._process.poll()

    def output(self) -> str:
        """Return the output since the start of the process."""
        with self.log.open("rb") as file:
            file.seek(self._begin)
            return file.read().decode(errors="replace")

    async def ready(self) -> ReadyFields:
        """Wait until the process is ready.

        Raises:
            Permanent: it ended, or took too long; with the end of its log.
        """
        deadline = time.monotonic() + self.command.within
        while (facts := await self.command.ready(self)) is None:
            if self.exit_code is not None:
                raise self.failure(f"ended with exit code {self.exit_code} before it was ready")
            if time.monotonic() > deadline:
                raise self.failure(f"was not ready within {self.command.within:.0f} s")
            await asyncio.sleep(_POLL)
        return facts

    async def finished(self) -> None:
        """Wait for the end of a process that does one thing.

        Raises:
            Permanent: it failed, or took too long; with the end of its log.
        """
        if not await self._ends_within(self.command.within):
            raise self.failure(f"was not done within {self.command.within:.0f} s")
        if self.exit_code:
            raise self.failure(f"failed with exit code {self.exit_code}")

    def failure(self, what: str) -> Permanent:
        told = "\n".join(f"  {line}" for line in self.output().splitlines()[-TAIL:])
        return Permanent(
            f"{self.command.name} {what}. The end of {self.log}:\n{told or '  (empty)'}"
        )

    async def stop(self) -> None:
        """Signal the process to end, and kill it after `grace`."""
        if self.exit_code is None:
            self._process.send_signal(self.command.stop_with)
            await self._ends_within(self.command.grace)
        await self.kill()

    async def kill(self) -> None:
        """End it at once, with all processes in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):  # the session is empty
            os.killpg(self.pid, signal.SIGKILL)
        await self._ends_within(self.command.grace)

    async def _ends_within(self, seconds: float) -> bool:
        async for _ in poll(seconds, _POLL):
            if self.exit_code is not None:
                return True
        return self.exit_code is not None


class ProcessGroup:
    """The children of one devstack, by name, in the order in which they were started."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._children: dict[str, ChildProcess] = {}

    async def run(self, command: ChildCommand) -> None:
        """Run a process to its end."""
        await self._spawn(command).finished()
        del self._children[command.name]

    async def start(self, command: ChildCommand) -> ReadyFields:
        """Start a service process, and wait until it is ready."""
        return await self._spawn(command).ready()

    async def restart(self, name: str) -> ReadyFields:
        child = self._child(name)
        await child.stop()
        return await self._spawn(child.command).ready()

    async def stop(self, name: str) -> None:
        await self._child(name).stop()

    async def kill(self, name: str) -> None:
        await self._child(name).kill()

    def pid(self, name: str) -> int:
        return self._child(name).pid

    def names(self) -> list[str]:
        """Return the names of processes that were started and not removed, whether alive or
        not.
        """
        return list(self._children)

    async def until_one_ends(self) -> ChildProcess:
        """Wait until a child ends, and return it."""
        while True:
            for child in self._children.values():
                if child.exit_code is not None:
                    return child
            await asyncio.sleep(_POLL)

    async def stop_all(self, tiers: Iterable[Iterable[str]]) -> None:
        """Stop all processes: tier after tier, those of one tier concurrently, then the rest, last
        started first.
        """
        for tier in tiers:
            await asyncio.gather(
                *(self._children.pop(name).stop() for name in tier if name in self._children)
            )
        while self._children:
            await self._children.popitem()[1].stop()

    def _spawn(self, command: ChildCommand) -> ChildProcess:
        log = self._logs / f"{command.name}.log"
        if command.name not in self._children and log.exists():
            log.replace(log.with_suffix(".log.1"))
        child = self._children[command.name] = ChildProcess(command, log)
        return child

    def _child(self, name: str) -> ChildProcess:
        if name not in self._children:
            raise Permanent(
                f"The devstack has no process {name}; it has {', '.join(self._children)}."
            )
        return self._children[name]


def ready_on_event(event: str) -> Ready:
    """Return a check that waits for a line of output which is a JSON object with this `event`; the
    object has the facts.
    """

    async def ready(child: ChildProcess) -> ReadyFields | None:
        for line in child.output().splitlines():
            if event in line and line.startswith("{"):
                with contextlib.suppress(ValueError):
                    said = json.loads(line)
                    if said.get("event") == event:
                        return dict(said)
        return None

    return ready


async def poll(seconds: float, every: float = 0.1) -> AsyncIterator[None]:
    """Iterate over attempts to find a condition true; stop when the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        await asyncio.sleep(every)


class FreePorts:
    """Hands out free ports: each a different one, and the usual one if wanted and free."""

    def __init__(self, *, usual: bool) -> None:
        self._usual = usual
        self._given: set[int] = set()

    def take(self, usual: int) -> int:
        port = (
            usual if self._usual and usual not in self._given and _is_free(usual) else self._any()
        )
        self._given.add(port)
        return port

    def _any(self) -> int:
        own = BELOW_EPHEMERAL[os.getpid() % _SHARES :: _SHARES]
        for attempt in count():
            port = secrets.choice(own if attempt < len(own) else BELOW_EPHEMERAL)
            if port not in self._given and _is_free(port):
                return port
        raise AssertionError("unreachable")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        # As for servers: a port with old connections in TIME_WAIT is free.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
