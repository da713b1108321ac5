"""A route becomes one signal-with-start: when it returns, Temporal has the message and Slack may forget it."""

import asyncio
from dataclasses import replace
from enum import StrEnum

import structlog
from temporalio.client import Client
from temporalio.service import RetryConfig

from threadline.cases.contract import case_start
from threadline.conversations.contract import conversation_start
from threadline.errors import Permanent, Transient
from threadline.gateway.routes import (
    Addressed,
    Close,
    Ignored,
    Lookup,
    Message,
    Overheard,
    Placed,
    Pressed,
    Route,
    Sign,
    Start,
    StopWord,
)
from threadline.gateway.thread_resolver import Placing, ThreadLookup
from threadline.slack.model import AuthorRefusal, Thread
from threadline.threads.authors import AuthorPolicy
from threadline.threads.contract import route_reply_start
from threadline.threads.model import REACTIONS, IncomingMessage, MessageKind
from threadline.threads.workflow_client import WorkflowClient

ACCEPTANCE = 2.2
"""Seconds in which Temporal has to accept an event: Slack waits three. The client's own timeout is for each attempt."""

RETRIES = RetryConfig(max_interval_millis=500, max_elapsed_time_millis=int(ACCEPTANCE * 1000))
"""For `Client.connect`: by default the client retries for ten seconds, long after Slack has given up on the attempt."""

_LOOKUP = 0.3
"""Seconds for the one indexed read; a slow database must not refuse what Temporal could keep."""

_REFUSED = "The person who asked is now a guest or from another company, so the bot does not answer there."

_log = structlog.stdlib.get_logger(__name__)


class NotAccepted(Transient):
    """The event is not safe, or nobody knows whose it is; it is not acknowledged, so that Slack delivers it again."""


class Outcome(StrEnum):
    """What became of an event that was not ignored."""

    REPORT = "report"
    MESSAGE = "message"
    CLOSE = "close"
    CASE_REPLY = "case_reply"
    DEFERRED_REPLY = "deferred_reply"
    TALK = "talk"
    TALK_REPLY = "talk_reply"
    """Said, or corrected, in a conversation without a mention."""
    STOP = "stop"
    THUMB = "thumb"
    """On an answer of a conversation, or taken from it."""
    CLICK = "click"
    """On a button."""


class Dispatcher:
    """Hands routes to Temporal.

    Args:
        client: connected with the data converter of the workers and `retry_config=RETRIES`.
        threads: where the case of a developers' thread is looked up, and whether a thread is a conversation.
        authors: says whose events count; None in tests that do not ask.
    """

    def __init__(self, client: Client, threads: ThreadLookup, authors: AuthorPolicy | None = None) -> None:
        self._workflows = WorkflowClient(client)
        self._threads = threads
        self._placing = Placing(client, threads)
        self._authors = authors

    async def dispatch(self, route: Route | Pressed) -> str:
        """Return when Temporal has accepted the event, with an `Outcome` or, for an ignored one, the reason.

        Raises:
            NotAccepted: whatever went wrong, within 2.2 seconds; also when Slack does not say who wrote it, or the
                database whether anybody follows the thread.
        """
        if isinstance(route, Pressed):
            return await self._accept_press(route)
        return route.reason if isinstance(route, Ignored) else await self._accept(route)

    async def ask(self, thread: Thread, message: IncomingMessage) -> None:
        """Hand a question to the conversation in a thread, in the name of who had asked for it to be put then.

        Raises:
            Permanent: their word does not count there any more, as when they have become a guest since.
            NotAccepted: whatever went wrong, within 2.2 seconds.
        """
        if isinstance(await self._accept(Addressed(thread, message)), AuthorRefusal):
            raise Permanent(_REFUSED)

    async def may_ask(self, thread: Thread, user_id: str) -> None:
        """Whether `ask` would take a question of somebody's, before anybody is told that it is put.

        Raises:
            Permanent: their word does not count there any more.
            NotAccepted: nobody says so for now.
        """
        try:
            refused = await self._authors.refusal(thread.team, thread.channel, user_id) if self._authors else None
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc
        if refused:
            raise Permanent(_REFUSED)

    async def _accept(self, route: Placed | Sign | StopWord) -> str:
        try:
            async with asyncio.timeout(ACCEPTANCE):
                admitted = await self._admit(route)
                return admitted.reason if isinstance(admitted, Ignored) else await self._hand_over(admitted)
        except NotAccepted:
            raise
        except Exception as exc:
            raise NotAccepted(
                f"Temporal did not accept {route.message.id}, so Slack will deliver it again. "
                "If this continues, check that Temporal runs and has the search attribute CaseChannel"
            ) from exc

    async def _admit(self, route: Placed | Sign | StopWord) -> Placed | Ignored:
        try:
            placed = await self._placing.place(route)  # first: who talks among people need not be asked about
            if self._authors is None or isinstance(placed, Ignored):
                return placed
            checked = await self._authors.check(placed.thread.team, placed.message)
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc
        return Ignored(checked) if isinstance(checked, AuthorRefusal) else replace(placed, message=checked)

    async def _accept_press(self, route: Pressed) -> Outcome:
        """Asks nobody: whose press counts is decided with what the button was made for, by the settings of then."""
        try:
            async with asyncio.timeout(ACCEPTANCE):
                await self._workflows.start(route.start)
        except Exception as exc:
            raise NotAccepted(
                f"Temporal did not accept a click for {route.start.workflow_id}, and Slack does not deliver it again. "
                "The person who clicked sees an error, and can press the button again"
            ) from exc
        return Outcome.CLICK

    async def _hand_over(self, route: Placed) -> Outcome:
        match route:
            case Start(thread, message):
                await self._workflows.start(case_start(thread, message))
                return Outcome.REPORT
            case Message(thread, message):
                await self._workflows.start(case_start(thread, message))
                return Outcome.MESSAGE
            case Close(thread, message):
                await self._workflows.start(case_start(thread, message))
                return Outcome.CLOSE
            case Lookup(thread, message):
                return await self._signal_case_of(thread, message)
            case Addressed(thread, message) | Overheard(thread, message):
                await self._workflows.start(conversation_start(thread, message))
                if message.kind == MessageKind.STOP or message.kind in REACTIONS:
                    return Outcome.STOP if message.kind == MessageKind.STOP else Outcome.THUMB
                return Outcome.TALK if isinstance(route, Addressed) else Outcome.TALK_REPLY

    async def _signal_case_of(self, thread: Thread, message: IncomingMessage) -> Outcome:
        if case := await self._find(thread):
            await self._workflows.start(case_start(case, message))
            return Outcome.CASE_REPLY
        # A row that is missing may be "not yet": a small workflow takes its time to find out, and the reply is safe.
        await self._workflows.start(route_reply_start(thread, message))
        return Outcome.DEFERRED_REPLY

    async def _find(self, thread: Thread) -> Thread | None:
        try:
            async with asyncio.timeout(_LOOKUP):
                owner = await self._threads.owner(thread)
        except Exception as exc:  # noqa: BLE001 - whatever the database says, Temporal can still keep the reply
            _log.warning("case_lookup_failed", thread=thread.key, error=type(exc).__name__)
            return None
        return owner.thread if owner and owner.feature == "case" else None
