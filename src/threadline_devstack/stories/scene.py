"""People's actions in the sandboxes of a running stack, and waits for their results: for stories
and for journey tests.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import text
from temporalio.client import Client, WorkflowExecutionStatus

from threadline.cases.model import CaseRecord, CaseStatus, Entry, Reason, bug_workflow_id
from threadline.cases.store.case import CaseStore, TurnRecord
from threadline.cases.store.lists import CaseLists, Transition
from threadline.cases.store.messages import CaseMessageStore
from threadline.conversations.store.turns import TurnPlan, TurnStore
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.forge.model import PullRequest
from threadline.handovers.model import REPLY, UNDO
from threadline.rfps import model as rfps
from threadline.rfps.model import JournalEntry, OpportunityState
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.threads.store import ThreadBindingStore
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.processes import poll
from threadline_devstack.slack.identity import (
    BOT_USER,
    ESCALATIONS,
    GENERAL,
    REPORTER,
    REPORTS,
    SUMMARIES,
    TEAM,
)
from threadline_devstack.slack.model import Json
from threadline_devstack.stack import Stack

STEP_TIMEOUT = 60.0
"""Seconds of a wait before it fails: far more than an expected event takes on a busy laptop."""
CONVERSING = "conversing"
"""The hold at which replies over OpenAI's APIs wait."""

Seen = TypeVar("Seen")
OnMessage = Callable[[Json], None]
"""Gets each message of a scene once, by any author, as Slack's JSON with its `channel`."""


class StepTimedOut(Permanent):
    """An expected event was not seen in time."""


class Scene:
    """One bug case, and conversations in `channel`, each identified by the `ts` of its root.

    `report` is the `ts` of the case's report; `bug_id` and `summary` are known once they exist.
    """

    def __init__(self, stack: Stack, database: Database, on_message: OnMessage) -> None:
        self.stack = stack
        self.slack = stack.slack
        self.channel = GENERAL
        self.report = ""
        self.summary = ""
        self.bug_id = ""
        self._database = database
        self._on_message = on_message
        self._roots: list[str] = []
        self._told: set[tuple[str, str]] = set()

    @classmethod
    @asynccontextmanager
    async def on(
        cls, stack: Stack, on_message: OnMessage = lambda message: None, *, pool_size: int = 2
    ) -> AsyncIterator[Self]:
        database = Database(stack.database_url, pool_size=pool_size, application="scene")
        try:
            yield cls(stack, database, on_message)
        finally:
            await database.dispose()

    @property
    def model(self) -> ModelSandbox:
        """The model sandbox. Raises `Permanent` on a stack with a real model."""
        return self.stack.model

    # Waiting

    async def until(
        self, what: str, look: Callable[[], Awaitable[Seen | None]], seconds: float = STEP_TIMEOUT
    ) -> Seen:
        """Call `look` repeatedly until it returns a value, and return that.

        Raises:
            StepTimedOut: it returned none in time; `what` describes the expected event.
        """
        async for _ in poll(seconds):
            await self._listen()
            if seen := await look():
                await self._listen()
                return seen
        raise StepTimedOut(f"this was not seen within {seconds:.0f} s: {what}")

    async def until_delivered(self) -> None:
        """Wait until the gateway has acknowledged all events."""

        async def look() -> bool:
            return self.slack.deliveries.pending == 0

        await self.until("every event is acknowledged", look)

    async def until_post(
        self, channel: str, root: str, words: Sequence[str], after: str = ""
    ) -> Json:
        """Return a post of the bot's in a thread that contains all the words, in any case."""

        async def look() -> Json | None:
            said = [message for message in self.posts(channel, root) if message["ts"] > after]
            return next((message for message in said if contains_all(message, words)), None)

        return await self.until(f"the bot says {' … '.join(words) or 'something'}", look)

    def posts(self, channel: str, root: str) -> list[Json]:
        """Return the bot's posts in a thread, oldest first; none before the thread exists."""
        shown = self.slack.thread(channel, root) if root else []
        return [message for message in shown if message.get("user") == BOT_USER]

    async def has_reaction(self, channel: str, ts: str, name: str) -> bool:
        return name in self.slack.workspace.message(channel, ts).reactions

    async def _listen(self) -> None:
        if self.bug_id and not self.summary:
            summary = (await self.case()).summary
            self.summary = summary.ts if summary else ""
        places = [(self.channel, root) for root in self._roots]
        places += [
            (channel, root)
            for channel, root in ((REPORTS, self.report), (SUMMARIES, self.summary))
            if root
        ]
        for channel, root in places:
            for message in self.slack.thread(channel, root):
                if (channel, message["ts"]) not in self._told:
                    self._told.add((channel, message["ts"]))
                    self._on_message({**message, "channel": channel})

    # The bug case

    async def write_report(self, text: str, **more: Any) -> None:
        """Write in the reports channel, as the reporter, and wait until the case has its
        number.
        """
        self.report = self.slack.say(REPORTER, REPORTS, text, **more)
        self.bug_id = await self.until("the report becomes a case", self.find_case)

    async def until_status(
        self, status: CaseStatus, what: str = "", seconds: float = STEP_TIMEOUT
    ) -> CaseRecord:
        async def look() -> CaseRecord | None:
            case = await self.case()
            return case if case.status is status else None

        return await self.until(what or f"{self.bug_id} is {status}", look, seconds)

    async def until_stored(self, text: str, sender: str) -> None:
        """Wait until a message is in the conversation, as a `reporter`'s or a `developer`'s."""

        async def look() -> bool:
            return any(
                entry.text == text and entry.sender_type == sender
                for entry in await self.conversation()
            )

        await self.until(f"“{text}” is stored as the {sender}'s", look)

    async def until_used(self, *sent: str) -> None:
        """Wait until ended turns were about these messages, given by their `ts`."""

        async def look() -> bool:
            done = (await self.case()).turn
            async with self._database.begin() as tx:
                posts = [
                    await CaseStore(tx).for_post(self.bug_id, turn) for turn in range(1, done + 1)
                ]
            return set(sent) <= {ts for post in posts for _, ts in post.used}

        await self.until("the agent has taken up what was written", look)

    async def until_transition(self, reason: Reason) -> None:
        async def look() -> bool:
            return any(step.reason == reason for step in await self.transitions())

        await self.until(f"the case has the transition {reason}", look)

    async def until_workflow_ended(self) -> None:
        client = await Client.connect(
            self.stack.temporal_address, namespace=self.stack.temporal_namespace
        )

        async def look() -> bool:
            found = await client.get_workflow_handle(self.workflow_id).describe()
            return found.status is WorkflowExecutionStatus.COMPLETED

        await self.until("the workflow has ended", look)

    async def until_no_workspace(self) -> None:
        async def look() -> bool:
            return not self.workspaces

        await self.until("the agent's files are gone", look)

    async def find_case(self) -> str:
        """Return the number of the report's case; empty as long as there is none."""
        async with self._database.begin() as tx:
            found = await CaseStore(tx).snapshot_of(Thread(TEAM, REPORTS, self.report))
        return found.bug_id

    async def case(self) -> CaseRecord:
        async with self._database.begin() as tx:
            return await CaseStore(tx).get(self.bug_id)

    async def transitions(self) -> Sequence[Transition]:
        async with self._database.begin() as tx:
            return await CaseLists(tx).transitions(self.bug_id)

    async def conversation(self) -> list[Entry]:
        async with self._database.begin() as tx:
            return list((await CaseMessageStore(tx).page(self.bug_id, limit=1000)).entries)

    async def turns(self) -> list[TurnRecord]:
        async with self._database.begin() as tx:
            return await CaseStore(tx).turns(self.bug_id)

    async def pull_request(self) -> PullRequest | None:
        async with self._database.begin() as tx:
            return await CaseStore(tx).pull_request(self.bug_id)

    @property
    def workflow_id(self) -> str:
        return bug_workflow_id(Thread(TEAM, REPORTS, self.report))

    @property
    def workflow_url(self) -> str:
        namespace = f"{self.stack.ui_url}/namespaces/{self.stack.temporal_namespace}"
        return f"{namespace}/workflows/{self.workflow_id}"

    @property
    def workspaces(self) -> list[Path]:
        """Folders that the agent still has for this case."""
        cases = self.stack.home.root / "workspaces" / "cases"
        return [path for path in cases.glob(f"{self.bug_id}*") if path.is_dir()]

    # Conversations

    async def mention(self, user: str, text: str, **more: Any) -> str:
        """Mention the bot in a new thread, as a person. Return the root's `ts`. `more`: as for
        `SlackSandbox.say`.
        """
        root = self.slack.say(user, self.channel, f"<@{BOT_USER}> {text}", **more)
        self._roots.append(root)
        return root

    async def model_waits_at(self, hold: str) -> None:
        async def look() -> bool:
            return self.model.holds.waiting(hold)

        await self.until(f"the model waits at {hold}", look)

    def answers(self, root: str) -> list[Json]:
        """Return the bot's posts in a conversation, oldest first."""
        return self.posts(self.channel, root)

    async def until_turn_ended(self, root: str, turn: int = 1) -> TurnPlan:
        """Wait until a turn has ended. Return its route and result."""

        async def look() -> TurnPlan | None:
            async with self._database.begin() as tx:
                plan = await TurnStore(tx).plan(self.slack_thread(root), turn)
            return plan if plan and plan.result else None

        return await self.until(f"turn {turn} is over", look)

    async def until_card(self, root: str) -> Json:
        """Return the card that asks people to take a conversation over."""

        async def look() -> Json | None:
            shown = self.slack.messages(ESCALATIONS)
            keys = [
                (message, message.get("metadata", {}).get("event_payload", {}).get("key", ""))
                for message in shown
            ]
            return next(
                (message for message, key in keys if f":{root}:" in key and key.endswith(":card")),
                None,
            )

        return await self.until("people are asked to take it over", look)

    async def press(self, user: str, card: Json, button: str) -> None:
        await self.slack.click(user, ESCALATIONS, card["ts"], button)

    async def decide(self, user: str, root: str, button: str) -> None:
        """Press a button of the card of a proposed action in a conversation."""

        async def look() -> Json | None:
            said = self.posts(self.channel, root)
            return next((each for each in said if has_buttons(each)), None)

        card = await self.until("an action waits for its approval", look)
        await self.slack.click(user, self.channel, card["ts"], button)

    async def reply_by_button(self, user: str, card: Json, text: str) -> Json:
        """Send a reply by the card's button and its modal. Return its preview under the card."""
        await self.slack.click(user, ESCALATIONS, card["ts"], REPLY)
        view = self.slack.workspace.view_of(user)
        if view is None:
            raise StepTimedOut("the button has opened no modal")
        await self.slack.submit(user, view.id, {REPLY: text})
        return await self.until_preview(card["ts"], text)

    async def until_preview(self, root: str, text: str) -> Json:
        """Return the message under a card that shows a waiting reply."""

        async def look() -> Json | None:
            shown = (post for post in self.posts(ESCALATIONS, root) if contains_all(post, [text]))
            return next((post for post in shown if UNDO in str(post.get("blocks"))), None)

        return await self.until(f"the reply “{text}” waits under the card", look)

    async def state(self, rfp_id: str) -> OpportunityState:
        async with self._database.begin() as tx:
            return await RfpStore(tx).ensure_state_exists(TEAM, rfp_id)

    async def written(self, root: str, turn: int) -> list[JournalEntry]:
        """Return the journal entries of one turn, in order."""
        async with self._database.begin() as tx:
            return await RfpStore(tx).journal_of_turn(TEAM, turn_id(self.slack_thread(root), turn))

    async def bound(self, root: str) -> str:
        """Return the RFP that a conversation is about; empty for none."""
        async with self._database.begin() as tx:
            return (await ThreadBindingStore(tx).of(self.slack_thread(root))).get(rfps.BINDING, "")

    @asynccontextmanager
    async def without_table(self, name: str) -> AsyncIterator[None]:
        """Make a table unavailable to the product for as long as the block runs."""
        away = f"{name}_away"
        async with self._database.begin() as tx:
            await tx.execute(text(f"ALTER TABLE {name} RENAME TO {away}"))
        try:
            yield
        finally:
            async with self._database.begin() as tx:
                await tx.execute(text(f"ALTER TABLE {away} RENAME TO {name}"))

    def slack_thread(self, root: str) -> Thread:
        return Thread(TEAM, self.channel, root)


def message_text(message: Json) -> str:
    """Return the whole text of a message: its text, and its blocks' further texts."""
    blocks = [block.get("text", "") for block in message.get("blocks", [])]
    texts = [text if isinstance(text, str) else str(text.get("text", "")) for text in blocks]
    return "\n".join(dict.fromkeys((message.get("text", ""), *texts)))


def has_buttons(message: Json) -> bool:
    return any(block.get("type") == "actions" for block in message.get("blocks", []))


def contains_all(message: Json, words: Sequence[str]) -> bool:
    """Return whether a message has all the words, in any case."""
    said = message_text(message).lower()
    return all(word.lower() in said for word in words)
