"""A route becomes one signal-with-start: when it returns, Temporal has the message and Slack may forget it."""

import asyncio
from enum import StrEnum
from typing import Any

import structlog
from temporalio.client import Client
from temporalio.common import (
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.service import RetryConfig

from threadline.approvals.buttons import Approval
from threadline.cases.model import BugState
from threadline.conversations.model.conversation import Talk
from threadline.errors import Permanent, Transient
from threadline.gateway.author_policy import REFUSALS, Doorkeeper
from threadline.gateway.routes import (
    Addressed,
    Clicked,
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
from threadline.handovers.model import Handing, HandoverRef
from threadline.slack.model import Thread
from threadline.threads import addressing
from threadline.threads.messages import STOP, THUMBS, IncomingMessage

CASE_CHANNEL = SearchAttributeKey.for_keyword("CaseChannel")
"""Of cases and conversations alike: one list in Temporal's UI shows all threads of a channel."""

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
        door: says whose events count; None where nobody has to be asked any more.
    """

    def __init__(self, client: Client, threads: ThreadLookup, door: Doorkeeper | None = None) -> None:
        self._client = client
        self._threads = threads
        self._placing = Placing(client, threads)
        self._door = door

    async def dispatch(self, route: Route | Clicked | Pressed) -> str:
        """Return when Temporal has accepted the event, with an `Outcome` or, for an ignored one, the reason.

        Raises:
            NotAccepted: whatever went wrong, within 2.2 seconds; also when Slack does not say who wrote it, or the
                database whether anybody follows the thread.
        """
        if isinstance(route, Clicked | Pressed):
            return await self._accept_click(route)
        return route.reason if isinstance(route, Ignored) else await self._accept(route, self._door)

    async def forward(self, thread: Thread, message: IncomingMessage) -> None:
        """Hand over a reply that waited for its case; returns when Temporal has accepted it.

        Nobody is asked who wrote it: the door has let it in before Slack was told to forget it, and whoever became a
        guest since would lose it in silence.

        Raises:
            NotAccepted: whatever went wrong, within 2.2 seconds.
        """
        await self._accept(Message(thread, message), None)

    async def ask(self, thread: Thread, message: IncomingMessage) -> None:
        """Hand a question to the conversation in a thread, in the name of who had asked for it to be put then.

        Raises:
            Permanent: their word does not count there any more, as when they have become a guest since.
            NotAccepted: whatever went wrong, within 2.2 seconds.
        """
        if await self._accept(Addressed(thread, message), self._door) in REFUSALS:
            raise Permanent(_REFUSED)

    async def may_ask(self, thread: Thread, user_id: str) -> None:
        """Whether `ask` would take a question of somebody's, before anybody is told that it is put.

        Raises:
            Permanent: their word does not count there any more.
            NotAccepted: nobody says so for now.
        """
        try:
            refused = await self._door.refusal(thread, thread.channel, user_id) if self._door else None
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc
        if refused:
            raise Permanent(_REFUSED)

    async def _accept(self, route: Placed | Sign | StopWord, door: Doorkeeper | None) -> str:
        try:
            async with asyncio.timeout(ACCEPTANCE):
                placed = await self._placing.place(route)  # first: who talks among people need not be asked about
                admitted = await door.admit(placed) if door else placed
                return admitted.reason if isinstance(admitted, Ignored) else await self._hand_over(admitted)
        except (Permanent, Transient) as exc:
            raise NotAccepted(str(exc)) from exc
        except Exception as exc:
            raise NotAccepted(
                f"Temporal did not accept {route.message.id}, so Slack will deliver it again. "
                "If this continues, check that Temporal runs and has the search attribute CaseChannel"
            ) from exc

    async def _accept_click(self, route: Clicked | Pressed) -> Outcome:
        """No door: whose click counts is decided with what the button was made for, by the settings of then."""
        state: Approval | Handing
        if isinstance(route, Clicked):
            workflow, state = addressing.APPROVAL_WORKFLOW, Approval(route.team, route.action_id)
            identity = addressing.approval_workflow_id(route.team, route.action_id)
        else:
            workflow, state = addressing.HANDOVER_WORKFLOW, Handing(route.ref)
            identity = addressing.handover_workflow_id(route.ref.thread, route.ref.turn)
        pressed = {"start_signal": addressing.BUTTON_PRESSED}
        try:
            async with asyncio.timeout(ACCEPTANCE):
                await self._start(workflow, state, identity, None, start_signal_args=[route.click], **pressed)
        except Exception as exc:
            raise NotAccepted(
                f"Temporal did not accept a click for {identity}, and Slack does not deliver it again. The person "
                "who clicked sees an error, and can press the button again"
            ) from exc
        return Outcome.CLICK

    async def revive(self, thread: Thread) -> None:
        """Start the workflow of a case without a message: it carries on from the database."""
        identity = addressing.bug_workflow_id(thread)
        await self._start(addressing.BUG_WORKFLOW, BugState(thread=thread), identity, _in_channel(thread))

    async def revive_conversation(self, thread: Thread) -> None:
        """The same for a conversation."""
        identity = addressing.conversation_workflow_id(thread)
        await self._start(addressing.CONVERSATION_WORKFLOW, Talk(thread=thread), identity, _in_channel(thread))

    async def revive_handover(self, ref: HandoverRef) -> None:
        """The same for a turn that a person is to take over."""
        identity = addressing.handover_workflow_id(ref.thread, ref.turn)
        await self._start(addressing.HANDOVER_WORKFLOW, Handing(ref), identity, None)

    async def _hand_over(self, route: Placed) -> Outcome:
        match route:
            case Start(thread, message):
                await self._signal_case(thread, addressing.INCOMING_MESSAGE, message)
                return Outcome.REPORT
            case Message(thread, message):
                await self._signal_case(thread, addressing.INCOMING_MESSAGE, message)
                return Outcome.MESSAGE
            case Close(thread, message):
                await self._signal_case(thread, addressing.CLOSE_REQUESTED, message)
                return Outcome.CLOSE
            case Lookup(thread, message):
                return await self._signal_case_of(thread, message)
            case Addressed(thread, message) | Overheard(thread, message):
                await self._signal_conversation(thread, message)
                if message.kind == STOP or message.kind in THUMBS:
                    return Outcome.STOP if message.kind == STOP else Outcome.THUMB
                return Outcome.TALK if isinstance(route, Addressed) else Outcome.TALK_REPLY

    async def _signal_case_of(self, thread: Thread, message: IncomingMessage) -> Outcome:
        if case := await self._find(thread):
            await self._signal_case(case, addressing.INCOMING_MESSAGE, message)
            return Outcome.CASE_REPLY
        # A row that is missing may be "not yet": a small workflow takes its time to find out, and the reply is safe.
        await self._signal_with_start(
            addressing.ROUTE_REPLY_WORKFLOW,
            thread,
            workflow_id=addressing.route_reply_workflow_id(thread),
            signal=addressing.INCOMING_MESSAGE,
            message=message,
        )
        return Outcome.DEFERRED_REPLY

    async def _find(self, thread: Thread) -> Thread | None:
        try:
            async with asyncio.timeout(_LOOKUP):
                owner = await self._threads.owner(thread)
        except Exception as exc:  # noqa: BLE001 - whatever the database says, Temporal can still keep the reply
            _log.warning("case_lookup_failed", thread=thread.key, error=type(exc).__name__)
            return None
        return owner.thread if owner and owner.feature == "case" else None

    async def _signal_case(self, thread: Thread, signal: str, message: IncomingMessage) -> None:
        await self._signal_with_start(
            addressing.BUG_WORKFLOW,
            BugState(thread=thread),
            workflow_id=addressing.bug_workflow_id(thread),
            signal=signal,
            message=message,
            search_attributes=_in_channel(thread),
        )

    async def _signal_conversation(self, thread: Thread, message: IncomingMessage) -> None:
        await self._signal_with_start(
            addressing.CONVERSATION_WORKFLOW,
            Talk(thread=thread),
            workflow_id=addressing.conversation_workflow_id(thread),
            signal=addressing.INCOMING_MESSAGE,
            message=message,
            search_attributes=_in_channel(thread),
        )

    async def _signal_with_start(
        self,
        workflow: str,
        state: Any,
        *,
        workflow_id: str,
        signal: str,
        message: IncomingMessage,
        search_attributes: TypedSearchAttributes | None = None,
    ) -> None:
        given = {"start_signal": signal, "start_signal_args": [message]}
        await self._start(workflow, state, workflow_id, search_attributes, **given)

    async def _start(
        self, workflow: str, state: Any, workflow_id: str, attributes: TypedSearchAttributes | None, **given: Any
    ) -> None:
        """Nothing but the signal, if one is given, happens to a workflow that runs."""
        await self._client.start_workflow(
            workflow,
            state,
            id=workflow_id,
            task_queue=addressing.CORE_QUEUE,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            search_attributes=attributes,
            **given,
        )


def _in_channel(thread: Thread) -> TypedSearchAttributes:
    return TypedSearchAttributes([SearchAttributePair(CASE_CHANNEL, thread.channel)])
