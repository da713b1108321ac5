"""Confines the agent's process: its folder, its launcher, its environment, and the last resort to
end it. Only this file knows them. `policy.py` limits the agent's tools.
"""

import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import claude_agent_sdk

from threadline.errors import INVESTIGATION, Mendable, Transient
from threadline.forge import locks
from threadline.investigator import sandbox_exec

_INHERITED = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
    *("HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"),
)
_FROM_SDK = (
    "PWD",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_AGENT_SDK_VERSION",
    "CLAUDE_CODE_SDK_READS_SESSION_STATE",
)


class Sandbox:
    """The temporary folder of one CLI process: its configuration, transcripts and scratch files.

    Args:
        cli: The program.
        settings: Variables of the CLI besides the few that it may inherit; it gets no other.

    Raises:
        OSError: The folder cannot be made; nothing of it is left.
    """

    def __init__(self, cli: Path, settings: Mapping[str, str]) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="threadline-turn-"))
        self._pid_file = self._folder / "pid"
        config = self._folder / "config"
        scratch = self._folder / "tmp"
        self.environment = {
            **settings,
            "HOME": str(self._folder),
            "TMPDIR": str(scratch),
            "CLAUDE_CONFIG_DIR": str(config),
            "CLAUDE_CODE_TMPDIR": str(scratch),
        }
        self.launcher = self._folder / "claude"
        try:
            config.mkdir()
            scratch.mkdir()
            self.launcher.write_text(self._script(cli))
            self.launcher.chmod(0o700)
        except OSError:
            # Otherwise every attempt on a full disk would leave a folder.
            self.remove()
            raise

    def _script(self, cli: Path) -> str:
        """Return the launcher, a shell script.

        A `#!` line with the interpreter's path breaks on blanks and long paths.
        """
        names = ",".join(sorted({*_INHERITED, *_FROM_SDK, *self.environment}))
        program = (sys.executable, "-I", "-S", sandbox_exec.__file__)
        words = shlex.join([*program, str(cli), str(os.getpid()), str(self._pid_file), names])
        return f'#!/bin/sh\nexec {words} -- "$@"\n'

    def kill(self) -> None:
        """End the CLI at once, if it has started and has not ended."""
        try:
            pid = int(self._pid_file.read_text())
            if sys.platform == "linux":  # raises unless the id is our child's
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ValueError, ProcessLookupError, ChildProcessError):
            return

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def find_cli() -> Path:
    """Return the CLI to run: the one inside the SDK's wheel, else `claude` on the PATH.

    Raises:
        Mendable: There is none.
    """
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    found = bundled if bundled.is_file() else shutil.which("claude")
    if found is None:
        said = (
            "The agent's CLI is missing: install claude-agent-sdk from a wheel for this "
            "platform, or put it on PATH."
        )
        raise Mendable(said, kind=INVESTIGATION, subject="cli")
    return Path(found)


@asynccontextmanager
async def own_temporary_folder(root: Path) -> AsyncIterator[None]:
    """Make this process's temporary files below `root`, and remove those of killed workers.

    It sets the folder of the whole process, since the SDK, too, writes a resumed transcript to a
    temporary folder, which a killed worker leaves.
    """
    shelf = root / "tmp"
    shelf.mkdir(parents=True, exist_ok=True)
    for lock in shelf.glob("*.lock"):
        with contextlib.suppress(Transient):  # its worker lives
            async with locks.file_lock(lock, wait=0, message="in use"):
                shutil.rmtree(lock.with_suffix(""), ignore_errors=True)
                lock.unlink(missing_ok=True)
    folder = shelf / uuid.uuid4().hex
    before = tempfile.tempdir
    async with locks.file_lock(folder.with_suffix(".lock"), wait=0, message="in use"):
        folder.mkdir()
        tempfile.tempdir = str(folder)
        try:
            yield
        finally:
            tempfile.tempdir = before
            shutil.rmtree(folder, ignore_errors=True)
            folder.with_suffix(".lock").unlink(missing_ok=True)
