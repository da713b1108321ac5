"""The request URL: events and interactions as signed HTTP; https://docs.slack.dev/apis/events-api."""

import hashlib
import hmac
import json
import time
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import uuid4

import aiohttp

from threadline_devstack.slack.model import Json

MAX_REDIRECTS = 2
_AGENT = "Slackbot 1.0 (+https://api.slack.com/robots)"


@dataclass(frozen=True)
class DeliveryAnswer:
    """What became of one request: `failure` is Slack's `x-slack-retry-reason`, empty when it was taken."""

    failure: str
    may_retry: bool = True
    body: str = ""

    @property
    def payload(self) -> Json:
        """The body's JSON object; empty where the app sent none."""
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def sign(secret: str, body: bytes, timestamp: int) -> dict[str, str]:
    """The two headers by which a receiver knows Slack.

    Source: https://docs.slack.dev/authentication/verifying-requests-from-slack.
    """
    digest = hmac.new(secret.encode(), f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Slack-Request-Timestamp": str(timestamp), "X-Slack-Signature": f"v0={digest}"}


class SignedHttp:
    """Posts to the app's request URL."""

    def __init__(self, session: aiohttp.ClientSession, secret: str) -> None:
        self._session = session
        self._secret = secret

    async def send_event(self, url: str, payload: Json, attempt: int, reason: str, timeout: float) -> DeliveryAnswer:
        """One delivery of an event; `attempt` above 0 adds the headers of a retry, whose reason is `reason`."""
        again = {"X-Slack-Retry-Num": str(attempt), "X-Slack-Retry-Reason": reason} if attempt else {}
        return await self._send(url, json.dumps(payload).encode(), "application/json", again, timeout)

    async def send_interaction(self, url: str, payload: Json, timeout: float) -> DeliveryAnswer:
        body = urlencode({"payload": json.dumps(payload)}).encode()
        return await self._send(url, body, "application/x-www-form-urlencoded", {}, timeout)

    async def verify(self, url: str, timeout: float) -> bool:
        """Slack's handshake when a request URL is entered: whether the app gives the challenge back."""
        challenge = uuid4().hex
        payload: Json = {"token": "sandbox-verification-token", "challenge": challenge, "type": "url_verification"}
        answer = await self.send_event(url, payload, 0, "", timeout)
        return not answer.failure and challenge in answer.body

    async def _send(self, url: str, body: bytes, kind: str, more: dict[str, str], timeout: float) -> DeliveryAnswer:
        # The receiver compares with its own clock, so this is the wall's time whatever clock the workspace runs on.
        headers = {"Content-Type": kind, "User-Agent": _AGENT} | more | sign(self._secret, body, int(time.time()))
        limit = aiohttp.ClientTimeout(total=timeout)
        try:
            async with self._session.post(
                url, data=body, headers=headers, timeout=limit, max_redirects=MAX_REDIRECTS
            ) as response:
                text = await response.text(errors="replace")
                may_retry = response.headers.get("X-Slack-No-Retry") != "1"
                return DeliveryAnswer("" if 200 <= response.status < 300 else "http_error", may_retry, text)
        except TimeoutError:
            return DeliveryAnswer("http_timeout")
        except aiohttp.TooManyRedirects:
            return DeliveryAnswer("too_many_redirects")
        except aiohttp.ClientError:
            return DeliveryAnswer("connection_failed")
