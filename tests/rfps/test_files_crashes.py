"""A file becomes one RFP, also when a worker dies between Slack and the record."""

import asyncio
import hashlib
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.rfps.file_scene import BRIEF, WORKER, FileScene, desk
from tests.support.recording import until_waited_for
from tests.support.tool_results import code_of
from tests.support.tool_store import change
from threadline.db.engine import Database
from threadline.errors import Transient
from threadline.rfps.model import RfpFacts, SourceFile
from threadline.rfps.store import RfpStore
from threadline.tools.model import ErrorCode
from threadline.tools.store import ToolLedger
from threadline_devstack.slack.identity import TEAM

pytestmark = pytest.mark.slow

__all__ = ["desk"]

_ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("method", ["files.info", "files.download"])
async def test_call_is_retried_while_slack_is_away(desk: FileScene, method: str) -> None:
    file = desk.upload(BRIEF)
    desk.sandbox.faults.fail_before(method, 2)
    with pytest.raises(Transient):
        await desk.ask(file.id, call_id="c", retries_left=1)
    assert code_of(await desk.ask(file.id, call_id="d")) is ErrorCode.SERVICE_UNAVAILABLE
    assert set((await desk.kept()).values()) == {0}
    assert (await desk.ask(file.id, call_id="c")).success
    assert (await desk.kept())["rfps"] == 1


async def test_retry_after_a_killed_worker_makes_one_rfp(
    desk: FileScene, database_url: str
) -> None:
    file = desk.upload(BRIEF)
    given = (database_url, desk.sandbox.api_url, desk.thread.channel, desk.thread.ts, file.id)
    async with _held(desk.database) as tx:
        worker = await asyncio.create_subprocess_exec(
            sys.executable, "-c", WORKER, *given, cwd=_ROOT
        )
        try:
            await until_waited_for(tx)  # loaded and read, and about to be stored
        finally:
            worker.kill()
            await worker.wait()
    result = await desk.ask(file.id, call_id="c", retries_left=1)
    assert result.success, result.error
    assert not result.data["existed_already"]
    assert await desk.kept() == {
        "rfps": 1,
        "opportunity_states": 1,
        "events": 1,
        "thread_bindings": 1,
    }


async def test_lost_result_is_found_without_a_download(
    desk: FileScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = desk.upload(BRIEF)

    async def lost(*_: object) -> None:
        raise Transient("The database went away.")

    with monkeypatch.context() as patched:
        patched.setattr(ToolLedger, "finish", lost)
        with pytest.raises(Transient):
            await desk.ask(file.id, call_id="c", retries_left=1)
    before = await desk.kept()
    desk.sandbox.faults.fail_before("files.info")
    result = await desk.ask(file.id, call_id="c")
    assert result.success, result.error
    assert not result.data["existed_already"]
    assert result.data["file"]["pages"] == 2
    assert result.data["file_begins"].startswith("A crane")
    assert await desk.kept() == before
    assert desk.sandbox.faults.ordered("files.info") == 1


@asynccontextmanager
async def _held(database: Database) -> AsyncIterator[Any]:
    """Make an RFP from the same file in another transaction, which is rolled back at the end."""
    digest = hashlib.sha256(BRIEF).hexdigest()
    async with database.begin() as tx, tx.begin_nested() as undone:
        source = SourceFile("x", digest, "x")
        await RfpStore(tx).create(change("other", team=TEAM), RfpFacts("x"), source=source)
        yield tx
        await undone.rollback()
