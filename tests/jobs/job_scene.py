"""Jobs on their real parts: Postgres, the Slack sandbox, Temporal; a conversation with a scripted model."""

import itertools
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from typing import Any

import aiohttp
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.testing import WorkflowEnvironment

from tests.support.conversation_scene import ConversationScene, conversation
from tests.support.temporal import activities_of, skipping_time, until, worker
from threadline.db.engine import Database
from threadline.gateway.dispatcher import Dispatcher
from threadline.jobs.contract import AgentJobActivities
from threadline.jobs.model import AgentJob, JobStatus, WantedJob, When
from threadline.jobs.schedules import Jobs, live_jobs
from threadline.rfps.model import Facts, NewRfp, RfpStatus
from threadline.slack.client import Slack, make_client
from threadline.threads.addressing import Thread
from threadline.threads.outbox_posts import Claim, Posts
from threadline.threads.post_ledger import PostLedger
from threadline.tools.author import Author
from threadline.tools.operations import Change, Operation
from threadline.wiring.gateway import CaseThreads
from threadline.wiring.temporal import WORKFLOWS
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BOT_TOKEN, DEVELOPER, GENERAL, TEAM

AUTHOR = Author(DEVELOPER, "corr-1")
DIGEST = "status_digest"


@dataclass
class Jobbing:
    """A thread in which jobs are asked for, and its conversation."""

    conversation: ConversationScene
    jobs: Jobs
    _calls: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def environment(self) -> WorkflowEnvironment:
        return self.conversation.environment

    @property
    def database(self) -> Database:
        return self.conversation.database

    @property
    def slack(self) -> SlackSandbox:
        return self.conversation.slack

    @property
    def thread(self) -> Thread:
        return self.conversation.thread

    def change(self, call_id: str = "") -> Change:
        operation = Operation(self.thread, 1, 1, call_id or f"call_{next(self._calls)}")
        return Change(operation, time.time())

    async def schedule(self, job_type: str = DIGEST, call_id: str = "", **given: Any) -> AgentJob:
        return await self.jobs.desk.schedule(self.change(call_id), AUTHOR, wanted(job_type, **given))

    async def rfp(self, due: date | None = None, status: RfpStatus = RfpStatus.NEW, title: str = "A crane") -> str:
        new = NewRfp(Facts(title, "Harbour", due, status))
        async with self.database.begin() as work:
            return (await work.rfps.create(self.change(), new, AUTHOR)).rfp.rfp_id

    async def job(self, job_id: str = "JOB-1") -> AgentJob:
        async with self.database.begin() as work:
            return await work.agent_jobs.get(TEAM, job_id)

    async def result(self, job: AgentJob) -> str:
        """What a job's workflow says in the end; a clock that skips time goes there."""
        handle = self.environment.client.get_workflow_handle(job.workflow_id)
        if not self.environment.supports_time_skipping:
            return str(await handle.result())
        environment: Any = self.environment
        async with environment.time_skipping_unlocked():
            return str(await handle.result())

    async def until_status(self, status: JobStatus, job_id: str = "JOB-1") -> AgentJob:
        async def there() -> bool:
            return (await self.job(job_id)).status is status

        await until(there, f"{job_id} is {status}")
        return await self.job(job_id)

    async def until_run(self, number: int, job_id: str = "JOB-1") -> AgentJob:
        """A cron's run is over."""

        async def there() -> bool:
            job = await self.job(job_id)
            return job.runs == number and not job.at_work

        await until(there, f"run {number} of {job_id} is over")
        return await self.job(job_id)

    async def until_waiting(self, job: AgentJob) -> None:
        """Temporal's UI shows that a job waits."""

        async def there() -> bool:
            handle = self.environment.client.get_workflow_handle(job.workflow_id)
            told = await handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
            return "Waiting until" in told.current_details

        await until(there, "the UI says what it waits for")

    async def until_answered(self) -> None:
        await self.conversation.until(lambda: self.conversation.said, "the conversation answers")

    async def asked(self) -> Sequence[Any]:
        """The questions that reached the conversation."""
        return await self.conversation.rows(
            "SELECT sender_id, message_text, addressed, slack_ts FROM conversation_messages ORDER BY seq"
        )

    def said(self, channel: str = GENERAL) -> list[str]:
        """What jobs have posted in a channel and its threads, oldest first."""
        answers = [text for _, text in self.conversation.conversation_posts()]
        return [text for text in self.conversation.posted(channel) if text not in answers]

    def working(self) -> AbstractAsyncContextManager[None]:
        """A worker for as long as the block lasts."""
        served = [*activities_of(self.jobs.activities, AgentJobActivities), *self.conversation.activities]
        return worker(self.environment, WORKFLOWS, served, interceptors=[self.conversation.steps])


def wanted(job_type: str = DIGEST, **given: Any) -> WantedJob:
    """`given` are the arguments, and those of `When`."""
    names = ("after_minutes", "at", "cron", "time_zone")
    return WantedJob(job_type, given, When(**{name: given.pop(name) for name in names if name in given}))


@asynccontextmanager
async def jobbing(
    database: Database, server: Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]] = skipping_time
) -> AsyncIterator[Jobbing]:
    """No worker runs yet."""
    async with conversation(database, server=server, working=False) as scene, aiohttp.ClientSession() as session:
        client = Slack(make_client(BOT_TOKEN, scene.slack.api_url, session))
        posts = Posts(client, PostLedger(database, Claim))
        temporal = scene.environment.client
        dispatcher = Dispatcher(temporal, CaseThreads(database))
        yield Jobbing(scene, live_jobs(temporal, database, client, posts, dispatcher))


def at(moment: datetime) -> dict[str, str]:
    """As one says a moment."""
    return {"at": moment.astimezone(UTC).isoformat()}


async def patch(talk: Jobbing, rfp_id: str, **facts: str | None) -> None:
    """Change what is known of an RFP, as the operator does."""
    async with talk.database.begin() as work:
        state = await work.opportunities.ensure_state_exists(TEAM, rfp_id)
        await work.opportunities.patch(talk.change(), rfp_id, facts, state.version, AUTHOR)
