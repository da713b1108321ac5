"""Runs a command of `threadline` in the test's process, with only the environment that the test
provides.
"""

import contextlib
import io
import os
import subprocess
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

from tests.support.patience import patient
from threadline.cli import main, output, process

MACHINE = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


def run_command(
    arguments: tuple[str, ...], environment: Mapping[str, str], folder: Path
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in a thread with its own event loop: the test may already run
    one.
    """
    out = io.StringIO()
    err = io.StringIO()
    with (
        mock.patch.dict(os.environ, MACHINE | dict(environment), clear=True),
        mock.patch.object(
            output.console, "_width", 200
        ),  # made at import, with the width of that time
        mock.patch.object(process, "_STOP_SIGNALS", ()),  # only the main thread gets signals
        contextlib.chdir(folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        ThreadPoolExecutor(1) as thread,
    ):
        code = thread.submit(main.run_command, arguments).result(timeout=patient(60))
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


class Command:
    """A subcommand that runs in `folder`, for the team T1."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self._name = name
        self._url = url
        self.folder = folder

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_command(
            (self._name, *arguments, "--team", "T1"), {"DATABASE_URL": self._url}, self.folder
        )
