"""The core worker ends in the middle of a conversation's turn: the step under way is lost, and nothing else."""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import Row, TextClause, text

from threadline.db.engine import Database
from threadline.devstack.slack_sandbox.identity import DEVELOPER, GENERAL, SECOND_DEVELOPER, TEAM
from threadline.devstack.stack import Stack
from threadline.devstack.talk_scene import TalkScene
from threadline.devstack.watching import words_of
from threadline.domain.addressing import Thread
from threadline.domain.estimates import Role

pytestmark = [pytest.mark.journey, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(180)]

ORDER = "show the project {}, then create one wbs item"
COMMENT = "Seen again in the night"
AGAIN = 90.0
"""Seconds for a turn to go on: a lost worker is missed after a heartbeat's time."""

PROJECT = text("SELECT 1 FROM estimate_projects WHERE project_id = :name FOR UPDATE")
INTENT = text("SELECT 1 FROM agent_tool_executions WHERE thread_ts = :name AND status IS NULL FOR UPDATE")
_WAITING = text("SELECT count(*) FROM pg_stat_activity WHERE :holder = ANY(pg_blocking_pids(pid))")
_PAID = text("""
SELECT m.turn, m.step FROM model_calls m JOIN conversations c ON c.id = m.conversation_id
WHERE c.team = :team AND c.channel = :channel AND c.thread_ts = :root ORDER BY m.step
""")

_EXECUTIONS = text("""
SELECT tool_name, status, finished_at FROM agent_tool_executions WHERE thread_ts = :root ORDER BY turn, step
""")


@pytest_asyncio.fixture(loop_scope="session")
async def talk(stack: Stack) -> AsyncIterator["CrashScene"]:
    database = Database(stack.database_url, pool_size=4, application="scene")
    try:
        yield CrashScene(stack, database)
    finally:
        await database.dispose()


class CrashScene(TalkScene):
    """A thread in which somebody works on a project that nobody else knows."""

    def __init__(self, stack: Stack, database: Database) -> None:
        super().__init__(stack)
        self._database = database

    async def begin_project(self) -> str:
        """Its id; it has one role and no item."""
        async with self._database.begin() as work:
            project = await work.estimates.open_project(TEAM, f"Crash {time.time_ns()}", "EUR")
            await work.estimates.save_role(TEAM, project.project_id, Role("tester", Decimal(650)))
        return project.project_id

    async def items(self, project: str) -> list[str]:
        async with self._database.begin() as work:
            return [item.title for item in await work.estimates.items(TEAM, project)]

    async def executions(self, root: str) -> list[Row[Any]]:
        """The calls of tools that are on record, each with its status; None is that of an intent."""
        async with self._database.begin() as work:
            return list(await work.connection.execute(_EXECUTIONS, {"root": root}))

    async def paid(self, root: str) -> list[tuple[int, int]]:
        """The calls of the model that are on record, by turn and step."""
        where = {"team": TEAM, "channel": GENERAL, "root": root}
        async with self._database.begin() as work:
            return [tuple(row) for row in await work.connection.execute(_PAID, where)]

    async def asked(self, words: str) -> Counter[int]:
        """How often the model was asked in conversations that hold the words, by the replies that it had given."""
        requests = await self.model.requests("")
        return Counter(each["step"] for each in requests if words in json.dumps(each["messages"]))

    @asynccontextmanager
    async def held(self, row: TextClause, name: str) -> AsyncIterator[int]:
        """A row, which whoever wants to write it waits for; gives the holder, for `until_waited_for`."""
        async with self._database.begin() as work:
            (await work.connection.execute(row, {"name": name})).one()
            yield int(await work.connection.scalar(text("SELECT pg_backend_pid()")) or 0)

    async def until_waited_for(self, holder: int) -> None:
        async def look() -> bool:
            async with self._database.begin() as work:
                return bool(await work.connection.scalar(_WAITING, {"holder": holder}))

        await self.until("somebody waits for what is held", look)

    async def only_answer(self, root: str) -> str:
        """What the bot has said once the turn is over and said, which is one thing."""

        async def look() -> bool:
            async with self._database.begin() as work:
                settled = await work.conversations.settled(Thread(TEAM, GENERAL, root), 1)
            return settled is not None and settled.said

        await self.until("the turn is answered", look, AGAIN)
        [answer] = await self.answers(root)
        return words_of(answer)


def statuses(calls: Sequence[Row[Any]]) -> list[tuple[str, str | None]]:
    return [(each.tool_name, each.status) for each in calls]


@pytest.mark.promise("talk:step:once")
async def test_a_worker_that_is_killed_while_the_model_thinks_costs_that_call_of_it_alone(
    talk: CrashScene, stack: Stack
) -> None:
    project = await talk.begin_project()
    async with talk.held(PROJECT, project) as holder:
        root = await talk.mention(DEVELOPER, ORDER.format(project))
        await talk.until_waited_for(holder)
        await talk.hold_model()
    await talk.model_waits()
    before = await talk.executions(root)
    done = [("estimates.getProjectDetails", "ok"), ("estimates.createWbsItems", "ok")]
    assert statuses(before) == done
    await stack.kill("core")
    await talk.release_model()
    await stack.restart("core")
    assert "Done: get project details, then create wbs items." in await talk.only_answer(root)
    assert await talk.asked(project) == {0: 1, 1: 1, 2: 2}, "what it had answered it was not asked again"
    assert await talk.paid(root) == [(1, 1), (1, 2), (1, 3)]
    assert await talk.executions(root) == before, "what had run did not run again"
    assert await talk.items(project) == ["wbs item 1"]


@pytest.mark.promise("tool:change:once", "talk:step:once")
async def test_a_worker_that_is_killed_between_a_change_and_its_record_finds_the_change(
    talk: CrashScene, stack: Stack
) -> None:
    project = await talk.begin_project()
    async with AsyncExitStack() as until_killed:
        async with talk.held(PROJECT, project) as holder:
            root = await talk.mention(SECOND_DEVELOPER, ORDER.format(project))
            await talk.until_waited_for(holder)
            recording = await until_killed.enter_async_context(talk.held(INTENT, root))
        await talk.until_waited_for(recording)
        assert await talk.items(project) == ["wbs item 1"], "the change is made"
        assert statuses(await talk.executions(root))[1:] == [("estimates.createWbsItems", None)]
        await stack.kill("core")
    await stack.restart("core")
    assert "Done: get project details, then create wbs items." in await talk.only_answer(root)
    assert await talk.items(project) == ["wbs item 1"]
    assert statuses(await talk.executions(root))[1:] == [("estimates.createWbsItems", "ok")]
    assert await talk.asked(project) == {0: 1, 1: 1, 2: 1}


@pytest.mark.promise("tool:change:once")
async def test_a_change_outside_whose_answer_was_lost_with_the_worker_is_looked_up(
    talk: CrashScene, stack: Stack
) -> None:
    async def comments() -> list[str]:
        tickets = await stack.services.tickets()
        return [each for ticket in tickets for each in ticket["comments"] if each.startswith(COMMENT)]

    await stack.services.fault("jira", "hang", method="POST")
    root = await talk.mention(DEVELOPER, f"comment “{COMMENT}” on the jira ticket SHOP-2")
    await talk.until("the comment is in Jira", comments)
    assert statuses(await talk.executions(root)) == [("jira.comment", None)]
    await stack.kill("core")
    await stack.restart("core")
    assert "Done: comment." in await talk.only_answer(root)
    assert len(await comments()) == 1
    assert statuses(await talk.executions(root)) == [("jira.comment", "ok")]
