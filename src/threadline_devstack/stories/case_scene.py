"""One case as people live it: they write in the Slack sandbox, and look until they see what must come of it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

from temporalio.client import Client, WorkflowExecutionStatus

from threadline.cases.model import CaseStatus, Entry, bug_workflow_id
from threadline.cases.store.case import CaseRecord, CaseStore, PullRequest, TurnRecord
from threadline.cases.store.lists import CaseLists, Transition
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.slack.model import Thread
from threadline_devstack.clients import Json
from threadline_devstack.slack.identity import REPORTER, REPORTS, SUMMARIES, TEAM
from threadline_devstack.stack import Stack
from threadline_devstack.stories.scene import PATIENCE, Hear, Watching, holds, is_by_bot, workflow_url


class Scene(Watching):
    """The places of one case. `report` is the report's `ts`; `bug_id` and `summary` are known once they exist."""

    def __init__(self, stack: Stack, database: Database, hear: Hear) -> None:
        super().__init__(stack, hear)
        self.report, self.summary, self.bug_id = "", "", ""
        self._database = database

    @classmethod
    @asynccontextmanager
    async def on(cls, stack: Stack, hear: Hear = lambda message: None) -> AsyncIterator[Self]:
        database = Database(stack.database_url, pool_size=2, application="scene")
        try:
            yield cls(stack, database, hear)
        finally:
            await database.dispose()

    # People

    async def write_report(self, text: str, **more: Any) -> None:
        """The reporter writes in the reports channel, and the case gets its number."""
        self.report = await self.slack.say(REPORTER, REPORTS, text, **more)
        self.bug_id = await self.until("the report becomes a case", self.find_case)

    async def reply(self, user: str, text: str) -> str:
        """Somebody writes in the report's thread."""
        return await self.slack.say(user, REPORTS, text, thread=self.report)

    async def discuss(self, user: str, text: str) -> str:
        """Somebody writes in the case's summary thread."""
        return await self.slack.say(user, SUMMARIES, text, thread=self.summary)

    async def hold_agent(self) -> None:
        """From now on the agent waits before it looks into the case, until `release_agent`."""
        await self.model.arm(self._hold)

    async def agent_waits(self) -> None:
        await self.until("the agent is at work", lambda: self.model.waiting(self._hold))

    async def release_agent(self) -> None:
        await self.model.release(self._hold)

    # What must come

    async def until_status(self, status: CaseStatus, what: str = "", seconds: float = PATIENCE) -> CaseRecord:
        async def look() -> CaseRecord | None:
            case = await self.case()
            return case if case.status is status else None

        return await self.until(what or f"{self.bug_id} is {status}", look, seconds)

    async def until_bot_says(self, *words: str, channel: str = REPORTS, after: str = "") -> Json:
        """A post of the bot's in one of the case's threads that holds all the words, whatever their case."""

        async def look() -> Json | None:
            said = [message for message in await self.thread(channel) if message["ts"] > after]
            return next((message for message in said if is_by_bot(message) and holds(message, words)), None)

        place = "report" if channel == REPORTS else "summary"
        return await self.until(f"the bot says {' … '.join(words) or 'something'} in the {place} thread", look)

    async def until_stored(self, text: str, sender: str) -> None:
        """A message is in the conversation, as said by a `reporter` or a `developer`."""

        async def look() -> bool:
            return any(entry.text == text and entry.sender_type == sender for entry in await self.conversation())

        await self.until(f"“{text}” is stored as the {sender}'s", look)

    async def until_used(self, *sent: str) -> None:
        """Turns that have ended were about these messages, which are told by their `ts`."""

        async def look() -> bool:
            done = (await self.case()).turn
            async with self._database.begin() as work:
                used = [
                    await CaseMessageStore(work.tx).messages_of_turn(self.bug_id, turn) for turn in range(1, done + 1)
                ]
            return set(sent) <= {ts for messages in used for _, ts in messages}

        await self.until("the agent has taken up what was written", look)

    async def until_workflow_ended(self) -> None:
        client = await Client.connect(self.stack.temporal_address, namespace=self.stack.temporal_namespace)

        async def look() -> bool:
            found = await client.get_workflow_handle(self.workflow_id).describe()
            return found.status is WorkflowExecutionStatus.COMPLETED

        await self.until("the workflow has ended", look)

    # What is known

    async def thread(self, channel: str = REPORTS) -> list[Json]:
        """The root and its replies of the report's thread, or of the summary thread; empty before it exists."""
        root = self.report if channel == REPORTS else self.summary
        return await self.slack.thread(channel, root) if root else []

    async def find_case(self) -> str:
        """The number of the report's case; empty as long as there is none."""
        async with self._database.begin() as work:
            found = await CaseStore(work.tx).snapshot_of(Thread(TEAM, REPORTS, self.report))
        return found.bug_id

    async def case(self) -> CaseRecord:
        async with self._database.begin() as work:
            return await CaseStore(work.tx).get(self.bug_id)

    async def transitions(self) -> Sequence[Transition]:
        async with self._database.begin() as work:
            return await CaseLists(work.tx).transitions(self.bug_id)

    async def conversation(self) -> list[Entry]:
        async with self._database.begin() as work:
            return list((await CaseMessageStore(work.tx).page(self.bug_id, limit=1000)).entries)

    async def turns(self) -> list[TurnRecord]:
        async with self._database.begin() as work:
            return await CaseStore(work.tx).turns(self.bug_id)

    async def pull_request(self) -> PullRequest | None:
        async with self._database.begin() as work:
            return await CaseStore(work.tx).pull_request(self.bug_id)

    @property
    def workflow_id(self) -> str:
        return bug_workflow_id(Thread(TEAM, REPORTS, self.report))

    @property
    def workflow_url(self) -> str:
        return workflow_url(self.stack, self.workflow_id)

    @property
    def workspaces(self) -> list[Path]:
        """What the agent's files of this case still take up."""
        cases = self.stack.home.root / "workspaces" / "cases"
        return [path for path in cases.glob(f"{self.bug_id}*") if path.is_dir()]

    @property
    def _hold(self) -> str:
        return f"investigating:{self.bug_id}"

    async def places(self) -> list[tuple[str, str]]:
        if self.bug_id and not self.summary:
            summary = (await self.case()).summary
            self.summary = summary.ts if summary else ""
        return [(channel, root) for channel, root in ((REPORTS, self.report), (SUMMARIES, self.summary)) if root]
