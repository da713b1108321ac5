"""Jobs of one thread on Postgres, the Slack sandbox and Temporal; the conversation's model is
scripted.
"""

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
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.role_fakes import directory
from tests.support.sweeps import repaired
from tests.support.temporal import skipping_time, until, worker
from tests.support.tool_scene import ToolScene
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.routes import RoutingConfig
from threadline.jobs import tools
from threadline.jobs.activities import LiveJobActivities
from threadline.jobs.model import AgentJob, ChannelAdmission, JobRunner, JobStatus
from threadline.jobs.schedules import JobSchedules
from threadline.jobs.store import JobStore
from threadline.rfps.model import RfpFacts, RfpStatus
from threadline.rfps.store import RfpStore
from threadline.slack.channels import ChannelAccess
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.model import Thread
from threadline.threads.activity_options import activities_of
from threadline.threads.outbox import Outbox
from threadline.tools.context import Services
from threadline.tools.model import Author, Change, Operation
from threadline.wiring.sweeps import open_jobs
from threadline.wiring.temporal import WORKFLOWS
from threadline_devstack.slack.identity import BOT_TOKEN, DEVELOPER, GENERAL, TEAM

AUTHOR = Author(DEVELOPER, "corr-1")
DIGEST = "status_digest"


@dataclass
class JobScene:
    conversation: ConversationScene
    activities: LiveJobActivities
    runner: JobSchedules
    desk: ToolScene
    _calls: "itertools.count[int]" = field(default_factory=lambda: itertools.count(1))

    @property
    def environment(self) -> WorkflowEnvironment:
        return self.conversation.environment

    @property
    def database(self) -> Database:
        return self.conversation.database

    @property
    def slack(self) -> FaultySlack:
        return self.conversation.slack

    @property
    def thread(self) -> Thread:
        return self.conversation.thread

    def change(self, call_id: str = "") -> Change:
        return Change(
            Operation(self.thread, 1, 1, call_id or f"call_{next(self._calls)}"),
            AUTHOR,
            time.time(),
        )

    async def schedule(
        self, job_type: str = DIGEST, call_id: str = "", retries_left: int = 0, **given: Any
    ) -> AgentJob:
        """Ask for a job as the operator does; `given` holds the job's arguments and its time."""
        names = ("after_minutes", "at", "cron", "time_zone")
        when = {name: given.pop(name) for name in names if name in given}
        asked = {"job_type": job_type, "arguments": given, **when}
        data = await self._done(
            "schedule.job", call_id, DEVELOPER, self.thread, retries_left, **asked
        )
        return await self.job(data["job_id"])

    async def cancel(
        self,
        job_id: str = "JOB-1",
        call_id: str = "",
        user_id: str = DEVELOPER,
        thread: Thread | None = None,
    ) -> AgentJob:
        await self._done(
            "agent.job.cancel", call_id, user_id, thread or self.thread, 0, job_id=job_id
        )
        return await self.job(job_id)

    async def _done(
        self,
        tool: str,
        call_id: str,
        user_id: str,
        thread: Thread,
        retries_left: int,
        **given: Any,
    ) -> dict[str, Any]:
        where = {
            "team": TEAM,
            "channel": thread.channel,
            "thread_ts": thread.ts,
            "user_id": user_id,
        }
        self.desk.clock.now = datetime.now(UTC)
        result = await self.desk.ask(tool, call_id, retries_left, **where, **given)
        if result.error:
            raise Permanent(result.error.message)
        return dict(result.data)

    async def sweep(self) -> int:
        """Sweep all jobs once; returns the number of repaired jobs."""
        return await repaired(self.database, open_jobs(self.runner))

    async def rfp(
        self, due: date | None = None, status: RfpStatus = RfpStatus.NEW, title: str = "A crane"
    ) -> str:
        new = RfpFacts(title, "Harbour", due, status)
        async with self.database.begin() as tx:
            return (await RfpStore(tx).create(self.change(), new)).rfp.rfp_id

    async def patch(self, rfp_id: str, **facts: str | None) -> None:
        """Change an RFP as the operator does."""
        async with self.database.begin() as tx:
            state = await RfpStore(tx).ensure_state_exists(TEAM, rfp_id)
            await RfpStore(tx).patch_state(self.change(), rfp_id, facts, state.version)

    async def job(self, job_id: str = "JOB-1") -> AgentJob:
        async with self.database.begin() as tx:
            return await JobStore(tx).get(TEAM, job_id)

    async def result(self, job: AgentJob) -> str:
        """The result of a job's workflow; on a clock that skips time, skip to it."""
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

    async def until_run(self, number: int) -> AgentJob:
        """Wait until a cron's run is over."""

        async def over() -> bool:
            job = await self.job()
            return job.runs == number and not job.is_running

        await until(over, f"run {number} is over")
        return await self.job()

    async def until_waiting(self, job: AgentJob) -> None:
        """Wait until Temporal's UI shows that a job waits."""

        async def shown() -> bool:
            handle = self.environment.client.get_workflow_handle(job.workflow_id)
            metadata = await handle.query(
                "__temporal_workflow_metadata", result_type=WorkflowMetadata
            )
            return "Waiting until" in metadata.current_details

        await until(shown, "the UI says what it waits for")

    async def until_answered(self) -> None:
        await self.conversation.until(lambda: self.conversation.said, "the conversation answers")

    async def asked(self) -> Sequence[Any]:
        """The questions that reached the conversation."""
        return await self.conversation.rows(
            "SELECT sender_id, message_text, addressed, slack_ts FROM conversation_messages "
            "ORDER BY seq"
        )

    def said(self, channel: str = GENERAL) -> list[str]:
        """The jobs' posts in a channel and its threads, oldest first."""
        answers = [text for _, text in self.conversation.conversation_posts()]
        return [text for text in self.conversation.posted(channel) if text not in answers]

    def working(self) -> AbstractAsyncContextManager[None]:
        """A worker for the length of the block."""
        served = [*activities_of(self.activities), *self.conversation.activities]
        return worker(self.environment, WORKFLOWS, served, interceptors=[self.conversation.steps])


@asynccontextmanager
async def job_scene(
    database: Database,
    server: Callable[[], AbstractAsyncContextManager[WorkflowEnvironment]] = skipping_time,
) -> AsyncIterator[JobScene]:
    """No worker runs yet."""
    async with (
        conversation(database, server=server, working=False) as scene,
        aiohttp.ClientSession() as session,
    ):
        client = SlackClient(make_web_client(BOT_TOKEN, scene.slack.api_url, session))
        outbox = Outbox(client, database)
        temporal = scene.environment.client
        router = EventRouter(RoutingConfig(), temporal, ThreadLookup(database))
        channels = ChannelAccess(client)
        runner = JobSchedules(temporal, database, outbox)
        services = (
            Services().with_service(ChannelAdmission, channels).with_service(JobRunner, runner)
        )
        live = LiveJobActivities(database, outbox, channels, router, runner, directory())
        yield JobScene(scene, live, runner, ToolScene(database, tools.TOOLS, services=services))
