"""Locks between processes of one machine: an flock on a file, which the kernel releases when its
holder dies.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from threadline.errors import Transient

_POLL = 0.05
"""Seconds between two attempts: a blocking flock in a thread could not be cancelled."""


@asynccontextmanager
async def file_lock(path: Path, *, wait: float, message: str) -> AsyncIterator[None]:
    """Hold the lock of the file `path`, which is created when missing, and which the holder may
    delete.

    Args:
        wait: seconds to wait for another holder.
        message: the text of the error.

    Raises:
        Transient: another holder still has the lock after `wait` seconds.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + wait
    while (descriptor := _try(path)) is None:
        if time.monotonic() >= deadline:
            raise Transient(message, retry_after=max(wait, 1.0))
        await asyncio.sleep(_POLL)
    try:
        yield
    finally:
        os.close(descriptor)


def _try(path: Path) -> int | None:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # A holder may have deleted the file in between: then no other process can find the file of
        # this lock.
        if os.fstat(descriptor).st_ino == path.stat(follow_symlinks=False).st_ino:
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    os.close(descriptor)
    return None
