"""A worker that is killed while it posts: Temporal gives the post to another worker, and Slack has
one message.
"""

import asyncio
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.temporal import real_time, worker
from tests.threads.posting_worker import READY, WORKER, PostingWorkflow
from threadline.threads.activity_options import HEARTBEAT
from threadline_devstack.processes import poll
from threadline_devstack.slack.identity import DEVELOPER, SUMMARIES

pytestmark = [pytest.mark.alone, pytest.mark.timeout(180)]

SEND = "chat.postMessage"
_ROOT = Path(__file__).parents[2]


@dataclass
class Recovery:
    """`seconds` from the kill until the workflow knew the `result`, the post's `ts`; `posts` are
    all posts in Slack.
    """

    seconds: float
    result: str
    posts: list[str]


@pytest.fixture
async def sandbox() -> AsyncIterator[FaultySlack]:
    """Runs on this machine's clock, as the workers do."""
    async with FaultySlack.running() as running:
        yield running


@asynccontextmanager
async def waiting_worker(*given: str) -> AsyncIterator[Process]:
    """A worker that has loaded all modules, and takes tasks after `begin`."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WORKER, *given, cwd=_ROOT, stdin=PIPE, stdout=PIPE
    )
    try:
        assert process.stdout
        assert await process.stdout.readline() == READY
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def begin(process: Process) -> None:
    assert process.stdin
    process.stdin.write(b"begin\n")


async def recovered(
    sandbox: FaultySlack, database_url: str, resend_after: float = 45.0
) -> Recovery:
    """Kill a worker whose call Slack keeps waiting, and let another one begin at once."""
    root = sandbox.workspace.post(SUMMARIES, DEVELOPER, "the thread").ts
    async with real_time() as environment:
        client = environment.client
        temporal = (client.service_client.config.target_host, client.namespace)
        given = (database_url, sandbox.api_url, *temporal, str(resend_after))
        async with (
            worker(environment, [PostingWorkflow], [], queue="workflows"),
            waiting_worker(*given) as first,
            waiting_worker(*given) as second,
        ):
            begin(first)
            place = [SUMMARIES, root]
            handle = await client.start_workflow(
                PostingWorkflow.run, place, id="post", task_queue="workflows"
            )
            async for _ in poll(60):
                if not sandbox.faults.ordered(SEND):
                    break
            first.kill()
            killed = time.monotonic()
            begin(second)
            result = await handle.result()
            seconds = time.monotonic() - killed
    said = sandbox.workspace.channel(SUMMARIES).messages.values()
    return Recovery(seconds, result, [each.ts for each in said if each.bot_id])


async def test_post_that_slack_has_is_found_within_seconds(
    sandbox: FaultySlack, database_url: str
) -> None:
    sandbox.faults.slow(SEND, 5)
    recovery = await recovered(sandbox, database_url)
    assert recovery.posts == [recovery.result]
    assert HEARTBEAT - 1 < recovery.seconds < 10


async def test_post_that_slack_does_not_have_is_sent_once_and_not_early(
    sandbox: FaultySlack, database_url: str
) -> None:
    sandbox.faults.fail_before(SEND, seconds=5)
    recovery = await recovered(sandbox, database_url, resend_after=12)
    assert recovery.posts == [recovery.result]
    assert 11 < recovery.seconds < 20
