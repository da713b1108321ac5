"""One stack for all tests of a module."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.chaos.stack import ChaosStack


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack() -> AsyncIterator[ChaosStack]:
    folder = Path(tempfile.mkdtemp(prefix="threadline-chaos-"))
    async with ChaosStack.running(folder) as stack:
        yield stack
    shutil.rmtree(folder, ignore_errors=True)
