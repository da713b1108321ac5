"""The place of one CLI process: its folder, its launcher, its environment, and the last resort to end it."""

import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import claude_agent_sdk

from threadline.errors import Permanent
from threadline.investigator import cli_wrapper

_INHERITED = (
    *("PATH", "LANG", "LC_ALL", "TZ", "SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS"),
    *("HTTPS_PROXY", "NO_PROXY", "https_proxy", "no_proxy"),
)
_FROM_SDK = ("PWD", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_AGENT_SDK_VERSION", "CLAUDE_CODE_SDK_READS_SESSION_STATE")


class CliHome:
    """A temporary folder for one attempt: the CLI's configuration, transcripts and scratch files live and end here."""

    def __init__(self, cli: Path, settings: Mapping[str, str]) -> None:
        """Make the folder.

        Args:
            cli: the executable that is to run in the end.
            settings: variables that the CLI gets besides the few it may inherit; no other variable reaches it.
        """
        self._folder = Path(tempfile.mkdtemp(prefix="threadline-turn-"))
        self._pid_file = self._folder / "pid"
        config, scratch = self._folder / "config", self._folder / "tmp"
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
        except OSError:  # a full disk, on which each attempt of an hour would leave a folder
            self.remove()
            raise

    def _script(self, cli: Path) -> str:
        """A shell script, because a `#!` line with the interpreter's path breaks on blanks and long paths."""
        names = ",".join(sorted({*_INHERITED, *_FROM_SDK, *self.environment}))
        words = [
            sys.executable,
            "-I",
            "-S",
            cli_wrapper.__file__,
            str(cli),
            str(os.getpid()),
            str(self._pid_file),
            names,
        ]
        return f'#!/bin/sh\nexec {shlex.join(words)} -- "$@"\n'

    def kill(self) -> None:
        """End the CLI at once, if it has started and has not ended."""
        try:
            pid = int(self._pid_file.read_text())
            if sys.platform == "linux":  # raises when the id is no longer that of a child of ours
                os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ValueError, ProcessLookupError, ChildProcessError):
            return

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def find_cli(given: Path | None) -> Path:
    """The CLI to run: the one given, else the one inside the SDK's wheel, else `claude` on the PATH.

    Raises:
        Permanent: when there is none.
    """
    bundled = Path(claude_agent_sdk.__file__).parent / "_bundled" / "claude"
    found = given or (bundled if bundled.is_file() else None) or shutil.which("claude")
    if found is None or not Path(found).is_file():
        raise Permanent(
            "The agent's CLI is missing: install claude-agent-sdk from a wheel for this platform, or set its path."
        )
    return Path(found)
