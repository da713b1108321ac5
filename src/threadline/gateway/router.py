"""EventRouter: turns each event into one signal-with-start. When it returns, Temporal has the
message.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

import structlog
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.service import RetryConfig

from threadline.cases.contract import case_start
from threadline.conversations.contract import conversation_start
from threadline.conversations.model.conversation import (
    CONVERSATION_WORKFLOW,
    conversation_workflow_id,
    thread_of_conversation,
)
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MESSAGES
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.gateway.interactions import (
    BLOCK_ACTIONS,
    VIEW_SUBMISSION,
    parse_button,
    parse_example,
    parse_modal_request,
    parse_submission,
    pressing_user,
)
from threadline.gateway.routes import (
    Ignored,
    IgnoreReason,
    Route,
    RouteTarget,
    RoutingConfig,
    route,
)
from threadline.slack.model import AuthorRefusal, Thread, is_app_id, seconds_of
from threadline.threads.authors import AuthorPolicy
from threadline.threads.contract import Handled, route_reply_start
from threadline.threads.model import IncomingMessage, MessageKind, ThreadOwner, edit_id
from threadline.threads.store import ThreadStore
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart

ACCEPT_TIMEOUT = 2.2
"""Seconds in which Temporal has to accept an event: Slack waits three. The client's own timeout
applies to each attempt.
"""
TEMPORAL_RETRIES = RetryConfig(
    max_interval_millis=500, max_elapsed_time_millis=int(ACCEPT_TIMEOUT * 1000)
)
"""For `Client.connect`. By default the client retries for ten seconds, long after Slack has given
up on the attempt.
"""
LOOKUP_TIMEOUT = 1.0
"""Seconds for the lookup of an event's owner. Without an answer the event is not acknowledged."""
CASE_LOOKUP_TIMEOUT = 0.3
"""Seconds for the lookup of a developers' thread. Without an answer `RouteReplyWorkflow` keeps the
reply.
"""
STARTING_WINDOW = 600.0
"""Seconds after a thread's first message in which a conversation may run there that the database
does not know yet. For older threads, in which people write all day, Temporal is not queried. If
the bot is first mentioned in an older thread, the catch-up finds any message that follows before
the mention is stored.
"""
_RECENT_RUNS = 5
"""Newest runs of a direct channel that are searched for one that is not stored yet."""
_REFUSED = (
    "The person who asked is now a guest or from another company, so the bot does not answer "
    "there."
)
_PRESS_AGAIN = (
    "Slack does not deliver a press again. The person who pressed the button sees an error, and "
    "can press it again"
)
_BUTTON_PRESS = "button_press"
_MODAL_OPENED = "modal_opened"
_MODAL_SENT = "modal_sent"
_COUNTED_BY_KIND = {
    MessageKind.REPORT: "report",
    MessageKind.CLOSE: "close",
    MessageKind.STOP: "stop",
    MessageKind.REACTION_ADDED: "rating",
    MessageKind.REACTION_REMOVED: "rating",
}
"""The names under which routes of these kinds are counted; other routes are counted by target."""

OpenView = Callable[[str, Mapping[str, Any]], Awaitable[None]]
"""Opens a modal for the person whose press created a trigger."""

_T = TypeVar("_T")

_log = structlog.stdlib.get_logger(__name__)


class NotAccepted(Transient):
    """Temporal does not have the event, or its owner is unknown. It is not acknowledged, so Slack
    redelivers it.
    """


class ThreadLookup:
    """The router's database lookups, each by an index: one for an event, and a few for a direct
    stop word.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def owner(self, thread: Thread) -> ThreadOwner | None:
        async with self._database.begin() as tx:
            return await ThreadStore(tx).owner(thread)

    async def thread_of_message(self, team: str, channel: str, ts: str) -> Thread | None:
        """Return the conversation that holds this message, a person's or the bot's; None if none
        does.
        """
        async with self._database.begin() as tx:
            return await ConversationStore(tx).thread_of_message(team, channel, ts)

    async def has_edit(self, team: str, channel: str, ts: str, version: str) -> bool:
        """Return whether a conversation holds this edit of a message."""
        identity = edit_id(team, channel, ts, version)
        async with self._database.begin() as tx:
            return bool(await MESSAGES.stored_ids(tx, [identity]))

    async def active_in_channel(self, team: str, channel: str) -> Thread | None:
        """Return the last active conversation in a channel with a message that waits for its
        answer; None if there is none.
        """
        async with self._database.begin() as tx:
            return await ConversationStore(tx).active_in_channel(team, channel)


class EventRouter:
    """Passes events to Temporal: those that Slack delivers, and those that the catch-up finds.

    Args:
        client: connected with the data converter of the workers and
            `retry_config=TEMPORAL_RETRIES`.
        authors: None in tests in which everybody's events count.
        open_view: None where no presses arrive.
    """

    def __init__(
        self,
        config: RoutingConfig,
        client: Client,
        threads: ThreadLookup,
        authors: AuthorPolicy | None = None,
        open_view: OpenView | None = None,
    ) -> None:
        self._config = config
        self._workflows = WorkflowClient(client)
        self._resolver = ThreadResolver(client, threads)
        self._authors = authors
        self._open_view = open_view

    async def handle(self, body: Mapping[str, Any]) -> Handled:
        """Route an event or a press, or any other JSON object, and return when Temporal has
        accepted the signal. The workflow decides whether a press counts, since it knows the
        button. Raises `NotAccepted` as `deliver`.
        """
        if body.get("type") == BLOCK_ACTIONS:
            return await self._handle_press(body)
        if body.get("type") == VIEW_SUBMISSION:
            submitted = parse_submission(body, self._config.team, self._config.bot_id)
            return await self._accept_press(submitted, pressing_user(body), _MODAL_SENT)
        found = route(body, self._config)
        return Handled(found) if isinstance(found, Ignored) else await self.deliver(found)

    async def _handle_press(self, body: Mapping[str, Any]) -> Handled:
        """Open the modal of a press, ask its example, or pass the press to its workflow."""
        team = self._config.team
        bot_id = self._config.bot_id
        user = pressing_user(body)
        if asked := parse_example(body, team, bot_id):
            return await self._ask_example(*asked)
        modal = parse_modal_request(body, team, bot_id)
        if modal is None or self._open_view is None:
            return await self._accept_press(parse_button(body, team, bot_id), user, _BUTTON_PRESS)
        async with _accepting(
            "Slack did not open a modal. The person who pressed the button sees an error"
        ):
            await self._open_view(modal.trigger_id, modal.view)
        return Handled(_MODAL_OPENED)

    async def _ask_example(self, thread: Thread, message: IncomingMessage) -> Handled:
        """Deliver the example as if the person who pressed had written it."""
        async with _accepting(f"Temporal did not accept {message.id}. {_PRESS_AGAIN}"):
            return await self._deliver(Route(RouteTarget.CONVERSATION, thread, message))

    async def _accept_press(self, press: WorkflowStart | None, user: str, outcome: str) -> Handled:
        if press is None:
            return Handled(IgnoreReason.UNKNOWN_BUTTON)
        if await self._is_bot(user):
            return Handled(AuthorRefusal.BOT)
        async with _accepting(
            f"Temporal did not accept a press for {press.workflow_id}. {_PRESS_AGAIN}"
        ):
            await self._workflows.start(press)
        return Handled(outcome, signalled=True)

    async def deliver(self, found: Route) -> Handled:
        """Find the owner of the thread, check the author, and signal the workflow.

        Raises:
            NotAccepted: within 2.2 seconds, on any failure; also if Slack does not identify the
                author, or the database lookup of the thread fails.
        """
        async with _accepting(
            f"Temporal did not accept {found.message.id}, so Slack will deliver it again. "
            "If this continues, check that Temporal runs and has the search attribute CaseChannel"
        ):
            return await self._deliver(found)

    async def ask(self, thread: Thread, message: IncomingMessage) -> None:
        """Send a question to the conversation of a thread in the name of `message.sender_id`.

        Raises:
            Permanent: the user does not count there now, for example because they have become a
                guest.
            NotAccepted: as `deliver`.
        """
        handled = await self.deliver(Route(RouteTarget.CONVERSATION, thread, message))
        if handled.refused:
            raise Permanent(_REFUSED)

    async def may_ask(self, thread: Thread, user_id: str) -> None:
        """Check whether `ask` would accept a question in a user's name, before the question is
        announced.

        Raises:
            Permanent: the user does not count there now.
            NotAccepted: the user could not be checked for now.
        """
        try:
            refused = (
                await self._authors.refusal(thread.team, thread.channel, user_id)
                if self._authors
                else None
            )
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc
        if refused:
            raise Permanent(_REFUSED)

    async def _is_bot(self, user_id: str) -> bool:
        try:
            return self._authors is not None and await self._authors.is_bot(user_id)
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc

    async def _deliver(self, found: Route) -> Handled:
        try:
            # Resolve the thread first: that saves a Slack lookup for people who talk among
            # themselves.
            resolved = await self._resolver.resolve(found)
            if isinstance(resolved, Ignored):
                return Handled(resolved)
            message = resolved.message
            if self._authors:
                checked = await self._authors.check(
                    resolved.thread.team, message, found.apps, found.app_team
                )
                if isinstance(checked, AuthorRefusal):
                    return Handled(checked)
                message = checked
            if is_app_id(message.sender_id) and resolved.target is RouteTarget.FOLLOWED_THREAD:
                # An app that answered each of the bot's answers would loop for ever: it has to
                # address the bot.
                return Handled(AuthorRefusal.BOT)
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc
        await self._workflows.start(_start_of(replace(resolved, message=message)))
        return Handled(_COUNTED_BY_KIND.get(message.kind, resolved.target), signalled=True)


@asynccontextmanager
async def _accepting(refusal: str) -> AsyncIterator[None]:
    """Raise `NotAccepted` with this sentence on any error inside, and after 2.2 seconds."""
    try:
        async with asyncio.timeout(ACCEPT_TIMEOUT):
            yield
    except NotAccepted:
        raise
    except Exception as exc:
        raise NotAccepted(refusal) from exc


def _start_of(resolved: Route) -> WorkflowStart:
    match resolved.target:
        case RouteTarget.CASE | RouteTarget.CASE_THREAD:
            return case_start(resolved.thread, resolved.message)
        case RouteTarget.CASE_THREAD_DEFERRED:
            return route_reply_start(resolved.thread, resolved.message)
    return conversation_start(resolved.thread, resolved.message)


class ThreadResolver:
    """Finds the owner of a thread: in the database, and in Temporal where a conversation may just
    have begun.
    """

    def __init__(self, client: Client, threads: ThreadLookup) -> None:
        self._client = client
        self._threads = threads

    async def resolve(self, found: Route) -> Route | Ignored:
        """Return the route with the thread that its message belongs to; ignored if it belongs to
        none. Raises `Transient` if the database does not answer.
        """
        match found.target:
            case RouteTarget.CASE_THREAD:
                return await self._resolve_case_thread(found)
            case RouteTarget.DIRECT_STOP:
                return await self._resolve_stop(found)
            case RouteTarget.FOLLOWED_THREAD:
                thread = found.thread
                if not (
                    await self._is_stored(thread)
                    or await self._is_starting(thread, found.message.ts)
                ):
                    return IgnoreReason.NOT_FOLLOWED
                return _followed(thread, found.message)
            case RouteTarget.REACTED_MESSAGE:
                place = found.thread
                message = found.message
                if holding := await self._holding(place, place.ts):
                    return _followed(holding, message)
                is_starting = await self._is_starting(place, message.ts)
                return _followed(place, message) if is_starting else IgnoreReason.NOT_FOLLOWED
        return found

    async def _resolve_case_thread(self, found: Route) -> Route:
        """Look the case up. A missing row may be "not yet", so `RouteReplyWorkflow` then keeps the
        reply and continues the search.
        """
        deferred = replace(found, target=RouteTarget.CASE_THREAD_DEFERRED)
        try:
            async with asyncio.timeout(CASE_LOOKUP_TIMEOUT):
                owner = await self._threads.owner(found.thread)
        except Exception as exc:  # noqa: BLE001 - on any error Temporal keeps the reply
            _log.warning("case_lookup_failed", thread=found.thread.key, error=type(exc).__name__)
            return deferred
        return (
            replace(found, thread=owner.thread) if owner and owner.feature == "case" else deferred
        )

    async def _resolve_stop(self, found: Route) -> Route | Ignored:
        """Route a stop word to the active conversation in the channel; without one, the word
        begins a conversation in its own thread.
        """
        own = found.thread
        message = found.message
        if await self._holding(own, message.ts):
            return IgnoreReason.ALREADY_STORED
        thread = await _in_time(self._threads.active_in_channel(own.team, own.channel), own)
        if thread := thread or await self._starting_beside(own):
            return _followed(thread, message)
        return Route(RouteTarget.CONVERSATION, own, replace(message, kind=MessageKind.MESSAGE))

    async def _is_stored(self, thread: Thread) -> bool:
        owner = await _in_time(self._threads.owner(thread), thread)
        return owner is not None and owner.feature == "conversation"

    async def _holding(self, place: Thread, ts: str) -> Thread | None:
        return await _in_time(
            self._threads.thread_of_message(place.team, place.channel, ts), place
        )

    async def _is_starting(self, thread: Thread, at: str) -> bool:
        """Return whether a conversation runs there that the database does not know yet.

        A person may add a message a second after the mention, and an unavailable worker may take
        minutes to store the mention. While Temporal does not answer, messages among people are not
        held up: if one was for the bot after all, the catch-up finds it.
        """
        written = seconds_of(at)
        began = seconds_of(thread.ts)
        if written is None or began is None or written - began >= STARTING_WINDOW:
            return False
        try:
            async with asyncio.timeout(LOOKUP_TIMEOUT):
                status = await WorkflowClient(self._client).status(
                    conversation_workflow_id(thread)
                )
        except Exception as exc:  # noqa: BLE001 - on any error the catch-up finds the message
            _log.warning("conversation_lookup_failed", thread=thread.key, error=type(exc).__name__)
            return False
        return status is WorkflowExecutionStatus.RUNNING

    async def _starting_beside(self, own: Thread) -> Thread | None:
        """Return the conversation of a direct channel that runs and is not stored yet: its request
        came a moment before.
        """
        channel = own.channel.replace("'", "")
        query = (
            f"WorkflowType = '{CONVERSATION_WORKFLOW}' AND CaseChannel = '{channel}' AND "
            "ExecutionStatus = 'Running'"
        )
        async for run in self._client.list_workflows(
            query, page_size=_RECENT_RUNS, limit=_RECENT_RUNS
        ):
            thread = thread_of_conversation(run.id)
            if thread.team == own.team and not await self._is_stored(thread):
                return thread
        return None


def _followed(thread: Thread, message: IncomingMessage) -> Route:
    return Route(RouteTarget.FOLLOWED_THREAD, thread, message)


async def _in_time(read: Awaitable[_T], place: Thread) -> _T:
    try:
        async with asyncio.timeout(LOOKUP_TIMEOUT):
            return await read
    except Exception as exc:
        raise Transient(
            f"The database lookup of {place.key} failed, so Slack will deliver the event again. "
            "If this continues, check that Postgres runs and that `threadline db upgrade` was "
            "run"
        ) from exc
