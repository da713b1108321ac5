"""Socket Mode: the connections of the app, envelopes out, acknowledgements in.

The protocol is https://docs.slack.dev/apis/events-api/using-socket-mode.
"""

import asyncio
import hashlib
import json
from collections import deque
from uuid import uuid4

from starlette.websockets import WebSocket, WebSocketDisconnect

from threadline_devstack.slack.identity import APP_ID, APP_TOKEN
from threadline_devstack.slack.model import Json

MAX_CONNECTIONS = 10
"""Slack's own limit; the eleventh connection gets `too_many_websockets` and is closed."""

_TICKET = hashlib.sha256(APP_TOKEN.encode()).hexdigest()[:24]


def link(base_url: str) -> str:
    """Return the address that `apps.connections.open` hands out.

    Its ticket outlives a restart of the sandbox: the SDK keeps retrying its address, and with a
    single-use ticket a gateway would never find the new sandbox.
    """
    return f"{base_url.replace('http', 'ws', 1)}/link/?ticket={_TICKET}&app_id={APP_ID}"


class SocketConnections:
    """The open connections. An event goes to any one of them, in turn."""

    def __init__(self) -> None:
        self._open: deque[WebSocket] = deque()
        self._draining: set[WebSocket] = set()
        self._unanswered: dict[str, asyncio.Future[None]] = {}
        self._arrival = asyncio.Event()

    @property
    def count(self) -> int:
        """Number of connections that get events, without those that were asked to disconnect."""
        return len(self._open)

    async def serve(self, socket: WebSocket) -> None:
        """Serve one connection from its handshake to its end."""
        if socket.query_params.get("ticket") != _TICKET:
            await socket.close()
            return
        await socket.accept()
        if len(self._open) >= MAX_CONNECTIONS:
            await socket.send_json({"type": "disconnect", "reason": "too_many_websockets"})
            await socket.close()
            return
        self._open.append(socket)
        debug = {"host": "sandbox", "build_number": 1, "approximate_connection_time": 18060}
        hello = {
            "type": "hello",
            "num_connections": len(self._open),
            "connection_info": {"app_id": APP_ID},
        }
        await socket.send_json(hello | {"debug_info": debug})
        self._arrival.set()
        try:
            while True:
                self._answered(await socket.receive_text())
        except WebSocketDisconnect:
            pass
        finally:
            self._forget(socket)

    async def deliver(
        self, kind: str, payload: Json, attempt: int, reason: str, timeout: float
    ) -> bool:
        """Send one envelope and wait for its acknowledgement.

        Args:
            kind: `events_api` or `interactive`.
            payload: the content of the envelope.
            attempt: 0 at first, then the number of the retry.
            reason: the reason of the retry.
            timeout: seconds for a connection to appear and for the answer to come; Slack's are 3.

        Returns:
            Whether it was acknowledged. The answer may come over another connection than the
            envelope's: a client that was asked to reconnect answers over its new one.
        """
        envelope_id = str(uuid4())
        envelope: Json = {
            "envelope_id": envelope_id,
            "type": kind,
            "payload": payload,
            "accepts_response_payload": False,
        }
        if kind == "events_api":
            envelope |= {"retry_attempt": attempt, "retry_reason": reason}
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unanswered[envelope_id] = answer
        try:
            async with asyncio.timeout(timeout):
                while not self._open:
                    self._arrival.clear()
                    await self._arrival.wait()
                socket = self._open[0]
                self._open.rotate(-1)
                await socket.send_json(envelope)
                await answer
                return True
        except (TimeoutError, WebSocketDisconnect, RuntimeError):
            # RuntimeError is Starlette's error for sending on a connection whose end it has not
            # reported yet.
            return False
        finally:
            del self._unanswered[envelope_id]

    async def disconnect(self, reason: str = "refresh_requested") -> int:
        """Ask every connection to disconnect; each is closed when its client leaves. Return their
        number.
        """
        told = list(self._open)
        self._open.clear()
        self._draining.update(told)
        for socket in told:
            await socket.send_json(
                {"type": "disconnect", "reason": reason, "debug_info": {"host": "sandbox"}}
            )
        return len(told)

    async def cut(self) -> int:
        """Close every connection without a message, as a broken network does. Return their
        number.
        """
        cut = [*self._open, *self._draining]
        for socket in cut:
            self._forget(socket)
            await socket.close(1011)
        return len(cut)

    def _answered(self, text: str) -> None:
        try:
            told = json.loads(text)
            envelope_id = told.get("envelope_id")
        except (ValueError, AttributeError):
            return
        answer = self._unanswered.get(envelope_id)
        if answer is not None and not answer.done():
            answer.set_result(None)

    def _forget(self, socket: WebSocket) -> None:
        self._draining.discard(socket)
        if socket in self._open:
            self._open.remove(socket)
