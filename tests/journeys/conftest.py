"""One stack for all journeys, and a scene of its own for each."""

import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.support.faulty_sandboxes import FaultySlack, FaultyTrackers
from tests.support.journey_scene import JourneyScene
from threadline_devstack import environment
from threadline_devstack.stack import Stack, StackOptions


@pytest_asyncio.fixture(scope="package", loop_scope="session")
async def stack(request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    """Ends with the last journey. Its folder, with the logs, stays when a test has failed."""
    folder = Path(tempfile.mkdtemp(prefix="threadline-journey-"))
    wishes = StackOptions(
        given=environment.pick(os.environ, environment.MACHINE),
        slack=FaultySlack,
        trackers=FaultyTrackers,
    )
    async with Stack.running(folder, wishes) as stack:
        yield stack
    if not request.session.testsfailed:
        shutil.rmtree(folder)


@pytest_asyncio.fixture(loop_scope="session")
async def scene(stack: Stack) -> AsyncIterator[JourneyScene]:
    async with JourneyScene.on(stack) as scene:
        yield scene
