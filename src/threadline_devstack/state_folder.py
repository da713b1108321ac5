"""The devstack's folder: one stack at a time uses it, and publishes in a file how to reach it."""

import contextlib
import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

from threadline.errors import Permanent

LOCK_TIMEOUT = 1.0
"""Seconds for which a starting stack tries to get the lock: a command that looks for a running
stack (see `read_settings`) holds it for a moment.
"""
LOCK_RETRY_DELAY = 0.02

_DATA = ("slack.db*", "postgres", "temporal", "workspaces", "sample-shop.git", "logs")
"""Names of the data that a stack keeps between its runs."""


class StateFolder:
    """A stack's folder. `root` is THREADLINE_HOME."""

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self.logs = self.root / "logs"
        self.repository = self.root / "sample-shop.git"
        self.slack = self.root / "slack.db"
        self._lock = self.root / "lock"
        self._running = self.root / "running.json"

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Keep every other stack out for as long as the block runs.

        Raises:
            Permanent: another stack uses the folder, or it cannot be created.
        """
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            lock = self._lock.open("a+")
        except OSError as exc:
            raise Permanent(
                f"{self.root} cannot be used: {exc}. Set THREADLINE_HOME to another folder."
            ) from exc
        with lock:
            try:
                _lock_alone(lock)
            except BlockingIOError:
                holder = self._lock.read_text().strip() or "unknown"
                raise Permanent(
                    f"Threadline already runs in {self.root} (process {holder}): use that one, "
                    "stop it with Ctrl-C there, or set THREADLINE_HOME to another folder."
                ) from None
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            try:
                yield
            finally:
                self._running.unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove the data of earlier stacks, and no other files in the folder. Requires the
        lock.
        """
        for name in _DATA:
            for path in self.root.glob(name):
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()
        self.logs.mkdir(parents=True, exist_ok=True)

    def write_settings(self, environment: Mapping[str, str]) -> None:
        """Write the settings by which other commands reach this stack; readable only by the owner,
        since they contain passwords.
        """
        self._running.unlink(missing_ok=True)
        with os.fdopen(
            os.open(self._running, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w"
        ) as file:
            json.dump(dict(environment), file)

    def read_settings(self) -> dict[str, str]:
        """Return the settings from `write_settings` while that stack runs; else none."""
        try:
            with self._lock.open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return {}
        except BlockingIOError:
            with contextlib.suppress(FileNotFoundError):
                return dict(json.loads(self._running.read_text()))
        return {}


def _lock_alone(lock: IO[str]) -> None:
    """Take the exclusive lock. Raises `BlockingIOError` if it is still taken after
    `LOCK_TIMEOUT`.
    """
    deadline = time.monotonic() + LOCK_TIMEOUT
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
            time.sleep(LOCK_RETRY_DELAY)
        else:
            return
