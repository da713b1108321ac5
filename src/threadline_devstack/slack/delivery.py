"""Deliveries: changes of the workspace become events for the app, which are sent until
acknowledged.

They go by Socket Mode, or as signed HTTP: https://docs.slack.dev/apis/events-api.
"""

import asyncio
import hashlib
import hmac
import json
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp

from threadline_devstack.slack import events
from threadline_devstack.slack.faults import DeliveryPlan, SlackFaults
from threadline_devstack.slack.identity import BOT_USER
from threadline_devstack.slack.model import Json
from threadline_devstack.slack.socket_mode import SocketConnections
from threadline_devstack.slack.workspace import SlackWorkspace

ACK_TIMEOUT = 3.0
RETRY_DELAYS = (0.0, 60.0, 300.0)
"""Seconds before each retry: Slack's are almost at once, one minute, five minutes; then Slack
gives up the event.
"""

SUBSCRIPTIONS = frozenset({"app_mention", "message", "reaction_added", "reaction_removed"})
"""The types of events that the app has subscribed to; Slack sends no others."""

MAX_REDIRECTS = 2
_AGENT = "Slackbot 1.0 (+https://api.slack.com/robots)"

KEPT = 10_000
"""Deliveries in the log; older ones are dropped."""


@dataclass
class EventDelivery:
    """One copy of one event on its way: `outcome` is pending, delivered, given_up, dropped.

    `channel` and `event_ts` identify the event: a message's own `ts`, or the `edited.ts` of an
    edit.
    """

    event_id: str
    type: str
    subtype: str
    channel: str = ""
    event_ts: str = ""
    attempts: int = 0
    outcome: str = "pending"


@dataclass(frozen=True)
class DeliveryAnswer:
    """The outcome of one request: `failure` is Slack's `x-slack-retry-reason`, empty on
    success.
    """

    failure: str
    may_retry: bool = True


def sign(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """Return the two headers by which a receiver recognises Slack.

    Source: https://docs.slack.dev/authentication/verifying-requests-from-slack.
    """
    digest = hmac.new(
        secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256
    ).hexdigest()
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": f"v0={digest}"}


class SignedHttp:
    """Posts to the app's request URL."""

    def __init__(self, session: aiohttp.ClientSession, secret: str) -> None:
        self._session = session
        self._secret = secret

    async def send_event(
        self, url: str, payload: Json, attempt: int, reason: str, timeout: float
    ) -> DeliveryAnswer:
        """Deliver an event once; `attempt` above 0 adds the headers of a retry, with its
        `reason`.
        """
        again = (
            {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason} if attempt else {}
        )
        return await self._send(
            url, json.dumps(payload).encode(), "application/json", again, timeout
        )

    async def send_interaction(self, url: str, payload: Json, timeout: float) -> DeliveryAnswer:
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return await self._send(url, body, "application/x-www-form-urlencoded", {}, timeout)

    async def _send(
        self, url: str, body: bytes, kind: str, more: dict[str, str], timeout: float
    ) -> DeliveryAnswer:
        # The receiver compares with its own clock, so this is real time, on any clock of the
        # workspace.
        headers = (
            {"Content-Type": kind, "User-Agent": _AGENT}
            | more
            | sign(self._secret, body, int(time.time()))
        )
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=limit, max_redirects=MAX_REDIRECTS
            ) as response:
                may_retry = response.headers.get("X-Slack-No-Retry") != "1"
                return DeliveryAnswer(
                    "" if 200 <= response.status < 300 else "http_error", may_retry
                )
        except TimeoutError:
            return DeliveryAnswer("http_timeout")
        except aiohttp.TooManyRedirects:
            return DeliveryAnswer("too_many_redirects")
        except aiohttp.ClientError:
            return DeliveryAnswer("connection_failed")


class EventDeliveries:
    """Delivers to `request_url` if set, else to the Socket Mode connections."""

    def __init__(
        self,
        workspace: SlackWorkspace,
        sockets: SocketConnections,
        http: SignedHttp,
        faults: SlackFaults,
        *,
        request_url: str = "",
        ack_timeout: float = ACK_TIMEOUT,
        retry_delays: Sequence[float] = RETRY_DELAYS,
        subscriptions: frozenset[str] = SUBSCRIPTIONS,
    ) -> None:
        self.request_url = request_url
        self.log: deque[EventDelivery] = deque(maxlen=KEPT)
        self._workspace = workspace
        self._sockets = sockets
        self._http = http
        self._faults = faults
        self._ack_timeout = ack_timeout
        self._retry_delays = tuple(retry_delays)
        self._subscriptions = subscriptions
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: list[tuple[Json, DeliveryPlan]] = []
        workspace.listeners.append(self.publish)

    def publish(self, event: Json) -> None:
        """Start the delivery of an event of the workspace, and of its `app_mention` twin, if the
        bot may see it.
        """
        if event.get("is_ephemeral") or not self._visible(event):
            return
        place = self._workspace.channels.get(events.channel_of(event))
        for each in (event, events.mention_twin(event)):
            if each is None or each["type"] not in self._subscriptions:
                continue
            callback = events.callback(
                each, f"Ev{uuid4().hex[:10].upper()}", int(float(each["event_ts"])), place
            )
            plan = (
                DeliveryPlan() if events.author(each) == BOT_USER else self._faults.next_delivery()
            )
            self._take(callback, plan)

    async def interact(self, payload: Json) -> bool:
        """Send an interaction once; Slack does not repeat them. Return whether the app
        acknowledged it in time.
        """
        if self.request_url:
            answer = await self._http.send_interaction(
                self.request_url, payload, self._ack_timeout
            )
            return not answer.failure
        return await self._sockets.deliver("interactive", payload, 0, "", self._ack_timeout)

    @property
    def pending(self) -> int:
        """Number of events that the app has not acknowledged yet and may still get."""
        return sum(delivery.outcome == "pending" for delivery in self.log)

    async def settled(self, timeout: float = 10.0) -> None:
        """Wait until no event is on its way (an event held for reordering does not count).

        Raises:
            TimeoutError: one still is after `timeout` seconds.
        """
        async with asyncio.timeout(timeout):
            while self._tasks:
                await asyncio.wait(set(self._tasks))

    async def close(self) -> None:
        """Stop sending: events on their way are lost, as when Slack gives up."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _visible(self, event: Json) -> bool:
        channel = self._workspace.channels.get(events.channel_of(event))
        return channel is None or BOT_USER in channel.members

    def _take(self, callback: Json, plan: DeliveryPlan) -> None:
        if plan.copies == 0:
            self.log.append(_delivery(callback, outcome="dropped"))
        elif plan.hold:
            self._held.append((callback, plan))
        else:
            held = self._held
            self._held = []
            task = self._start(callback, plan)
            if held:
                task.add_done_callback(lambda _: [self._start(*each) for each in held])

    def _start(self, callback: Json, plan: DeliveryPlan) -> asyncio.Task[None]:
        for _ in range(plan.copies):
            delivery = _delivery(callback)
            self.log.append(delivery)
            task = asyncio.get_running_loop().create_task(
                self._carry(callback, delivery, plan.delay)
            )
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return task

    async def _carry(self, callback: Json, delivery: EventDelivery, delay: float) -> None:
        reason = ""
        for pause in (delay, *self._retry_delays):
            if pause:
                await asyncio.sleep(pause)
            answer = await self._attempt(callback, delivery.attempts, reason)
            delivery.attempts += 1
            if not answer.failure:
                delivery.outcome = "delivered"
                return
            reason = answer.failure
            if not answer.may_retry:
                break
        delivery.outcome = "given_up"

    async def _attempt(self, callback: Json, attempt: int, reason: str) -> DeliveryAnswer:
        if self.request_url:
            return await self._http.send_event(
                self.request_url, callback, attempt, reason, self._ack_timeout
            )
        taken = await self._sockets.deliver(
            "events_api", callback, attempt, reason, self._ack_timeout
        )
        return DeliveryAnswer("" if taken else "timeout")


def _delivery(callback: Json, outcome: str = "pending") -> EventDelivery:
    event = callback["event"]
    place = events.channel_of(event)
    at = event["event_ts"]
    return EventDelivery(
        callback["event_id"], event["type"], event.get("subtype", ""), place, at, outcome=outcome
    )
