"""The sandboxes' control endpoints as seen from another process: by the demo and by tests of the whole product."""

import asyncio
import json
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Mapping
from typing import Any

from threadline.errors import Permanent

Json = dict[str, Any]


class _ControlClient:
    def __init__(self, url: str) -> None:
        self.url = url

    async def get(self, path: str) -> Json:
        return await self._ask(path, None)

    async def post(self, path: str, **arguments: Any) -> Json:
        return await self._ask(path, arguments)

    async def _ask(self, path: str, arguments: Mapping[str, Any] | None) -> Json:
        # One short request on this machine now and then: a session that must be closed would be more to get wrong.
        return await asyncio.to_thread(_exchange, f"{self.url}/control/{path}", arguments)


class SlackSandboxClient(_ControlClient):
    """People in the Slack sandbox. Messages are Slack's JSON, as `conversations.history` shows it."""

    async def say(self, user: str, channel: str, text: str, *, thread: str = "", **more: Any) -> str:
        """`user` writes; returns the message's `ts`. `more`: `files` and the other arguments of the endpoint."""
        given = {"user": user, "channel": channel, "text": text, **({"thread_ts": thread} if thread else {}), **more}
        return str((await self.post("messages", **given))["ts"])

    async def messages(self, channel: str) -> list[Json]:
        state = await self.get("state")
        found: list[Json] = next(place["messages"] for place in state["channels"] if place["id"] == channel)
        return found

    async def thread(self, channel: str, root: str) -> list[Json]:
        """The root and its replies, in order."""
        return [
            message for message in await self.messages(channel) if root in (message["ts"], message.get("thread_ts"))
        ]

    async def undelivered(self) -> int:
        """Events that the app has not acknowledged yet and may still get."""
        deliveries = (await self.get("deliveries"))["deliveries"]
        return sum(delivery["outcome"] == "pending" for delivery in deliveries)

    async def fault(self, name: str, **arguments: Any) -> None:
        """Order a fault, such as `duplicate` or `fail_after`; see `threadline_devstack.slack.faults`."""
        await self.post("faults", fault=name, **arguments)


class ModelSandboxClient(_ControlClient):
    """The scripted model: where it waits, what it was asked, and how it is to fail."""

    async def arm(self, hold: str) -> None:
        """From now on replies stop at the named point, such as `investigating:BUG-1`."""
        await self.post(f"holds/{hold}/arm")

    async def release(self, hold: str) -> None:
        await self.post(f"holds/{hold}/release")

    async def waiting(self, hold: str) -> bool:
        return bool((await self.get("holds"))["waiting"].get(hold))

    async def requests(self, bug_id: str) -> list[Json]:
        """What was asked for a case, each with its system prompt, messages and answer."""
        found: list[Json] = (await self.get(f"log?messages=1&bug_id={bug_id}"))["requests"]
        return found

    async def forms(self) -> list[Json]:
        """What was asked for in a form, such as a decision."""
        found: list[Json] = (await self.get("log?messages=1&forms=1"))["requests"]
        return found

    async def fail(self, *, status: int = 529, count: int = 1, bug_id: str = "") -> None:
        await self.post("errors", status=status, count=count, bug_id=bug_id)

    async def break_off(self, count: int = 1) -> None:
        """The next replies begin well, and end in the middle."""
        await self.post("errors", count=count, broken_off=True)


class TrackerSandboxClient(_ControlClient):
    """The stand-ins for Jira and GitHub Actions."""

    async def tickets(self) -> list[Json]:
        """Each with its `key`, `summary`, `status` and `comments`."""
        return list((await self.get("state"))["tickets"])

    async def runs(self) -> list[Json]:
        """Each with its `id`, `title`, `attempt`, `status` and `conclusion`."""
        return list((await self.get("state"))["runs"])

    async def finish(self, run: int, conclusion: str = "success", log: str = "") -> None:
        """End a run that is queued."""
        await self.post(f"runs/{run}/finish", conclusion=conclusion, log=log)

    async def fault(self, service: str, kind: str, **more: Any) -> None:
        """Order a fault; see `threadline_devstack.trackers.faults`."""
        await self.post("faults", service=service, kind=kind, **more)


async def poll(seconds: float, every: float = 0.1) -> AsyncIterator[None]:
    """Turns of a loop that looks for a condition; the loop ends by itself when the time is over."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        await asyncio.sleep(every)


def _exchange(url: str, arguments: Mapping[str, Any] | None) -> Json:
    body = None if arguments is None else json.dumps(arguments).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})  # noqa: S310  always http
    direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with direct.open(request, timeout=10) as answer:
            told = answer.read()
    except urllib.error.HTTPError as exc:
        with exc:
            raise Permanent(f"{url} answered {exc.code}: {exc.read().decode(errors='replace')}") from exc
    return dict(json.loads(told)) if told else {}
