"""The core worker ends in the middle of a conversation's turn: only the step in progress is
lost.
"""

import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from decimal import Decimal

import pytest
import pytest_asyncio
from sqlalchemy import text

from tests.journeys.crashes import CrashScene, statuses
from tests.support.estimates import details_of
from tests.support.faulty_sandboxes import EndpointFaultKind, FaultyTrackers
from threadline.estimates.model import ProjectRole
from threadline.estimates.store import EstimateStore
from threadline_devstack.slack.identity import DEVELOPER, SECOND_DEVELOPER, TEAM
from threadline_devstack.stack import Stack
from threadline_devstack.stories.scene import CONVERSING, message_text

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

ORDER = "show the project {}, then create one wbs item"
COMMENT = "Seen again in the night"
CONVERSATION = text("SELECT 1 FROM conversations WHERE thread_ts = :name FOR UPDATE")
PROJECT = text("SELECT 1 FROM estimate_projects WHERE project_id = :name FOR UPDATE")


@pytest_asyncio.fixture(loop_scope="session")
async def talk(stack: Stack) -> AsyncIterator["ProjectScene"]:
    async with ProjectScene.ready(stack) as scene:
        yield scene


class ProjectScene(CrashScene):
    """A thread in which somebody works on a project that no other test uses."""

    async def begin_project(self) -> str:
        """Returns its id; it has one role and no item."""
        async with self._database.begin() as tx:
            project = await EstimateStore(tx).get_or_create_project(
                TEAM, f"Crash {time.time_ns()}", "EUR"
            )
            await EstimateStore(tx).save_role(
                TEAM, project.project_id, ProjectRole("tester", Decimal(650))
            )
        return project.project_id

    async def items(self, project: str) -> list[str]:
        async with self._database.begin() as tx:
            return [item.title for item in (await details_of(tx, TEAM, project)).items]

    async def only_answer(self, root: str) -> str:
        [answer] = await self.answered(root)
        return message_text(answer)


async def test_a_worker_that_is_killed_while_the_model_thinks_costs_that_call_of_it_alone(
    talk: ProjectScene, stack: Stack
) -> None:
    project = await talk.begin_project()
    async with talk.held(PROJECT, project) as holder:
        root = await talk.mention(DEVELOPER, ORDER.format(project))
        await talk.until_waited_for(holder)
        talk.model.holds.arm(CONVERSING)
    await talk.model_waits_at(CONVERSING)
    before = await talk.executions(root)
    done = [("estimates.getProjectDetails", "ok"), ("estimates.createWbsItems", "ok")]
    assert statuses(before) == done
    await stack.processes.kill("core")
    await talk.model.holds.release(CONVERSING)
    await stack.processes.restart("core")
    assert "Done: get project details, then create wbs items." in await talk.only_answer(root)
    assert await talk.asked(project) == {0: 1, 1: 1, 2: 2}, "no recorded reply was requested again"
    assert await talk.paid(root) == [(1, 0), (1, 1), (1, 2), (1, 3)], "the decision, and each step"
    assert await talk.executions(root) == before, "no completed call ran again"
    assert await talk.items(project) == ["wbs item 1"]


async def test_a_worker_that_is_killed_between_a_change_and_its_commit_has_changed_nothing(
    talk: ProjectScene, stack: Stack
) -> None:
    project = await talk.begin_project()
    async with AsyncExitStack() as until_killed:
        async with talk.held(PROJECT, project) as holder:
            root = await talk.mention(SECOND_DEVELOPER, ORDER.format(project))
            await talk.until_waited_for(holder)
            committing = await until_killed.enter_async_context(talk.held(CONVERSATION, root))
        # The item is added, and its result goes into the transcript.
        await talk.until_waited_for(committing)
        await stack.processes.kill("core")
    assert await talk.items(project) == []
    assert statuses(await talk.executions(root))[1:] == []
    await stack.processes.restart("core")
    assert "Done: get project details, then create wbs items." in await talk.only_answer(root)
    assert await talk.items(project) == ["wbs item 1"]
    assert statuses(await talk.executions(root))[1:] == [("estimates.createWbsItems", "ok")]
    assert await talk.asked(project) == {0: 1, 1: 1, 2: 1}


async def test_a_change_outside_whose_answer_was_lost_with_the_worker_is_looked_up(
    talk: ProjectScene, stack: Stack
) -> None:
    async def comments() -> list[str]:
        bodies = (
            each.body
            for issue in stack.trackers.jira.site.issues.values()
            for each in issue.comments
        )
        return [each for each in bodies if each.startswith(COMMENT)]

    assert isinstance(stack.trackers, FaultyTrackers)
    stack.trackers.order("jira", EndpointFaultKind.HANG, method="POST")
    root = await talk.mention(DEVELOPER, f"comment “{COMMENT}” on the jira ticket SHOP-2")
    await talk.until("the comment is in Jira", comments)
    assert statuses(await talk.executions(root)) == [("jira.comment", None)]
    await stack.processes.kill("core")
    await stack.processes.restart("core")
    assert "Done: comment." in await talk.only_answer(root)
    assert len(await comments()) == 1
    assert statuses(await talk.executions(root)) == [("jira.comment", "ok")]
