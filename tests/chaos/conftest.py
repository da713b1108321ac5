"""One stage for all the runs of a sitting."""

import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.chaos.stage import Stage


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage() -> AsyncIterator[Stage]:
    folder = Path(tempfile.mkdtemp(prefix="threadline-chaos-"))
    async with Stage.running(folder) as stage:
        yield stage
    shutil.rmtree(folder, ignore_errors=True)
