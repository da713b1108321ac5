"""The HTTP servers of the processes: listening, limits for slow bodies, probes, and a log that
strangers cannot flood.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Any

import structlog
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from threadline.errors import Permanent

BODY_TIMEOUT = 5.0
"""Seconds in which the whole body must arrive. Slack itself abandons a request after three."""
IDLE_TIMEOUT = 75.0
"""Seconds without a request after which a connection is closed."""
SHUTDOWN_TIMEOUT = 1.0
"""Seconds that responses have to leave when the server stops."""
PROBE_TIMEOUT = 2.0
"""Seconds in which each probe must answer. Clients' own timeouts are longer, and do not cover
connecting.
"""
RARE_INTERVAL = 60.0
"""Seconds between two lines of a `RareLog`."""
_MAX_NAMED = 5
"""Addresses in one line of a `RareLog`."""

_log = structlog.stdlib.get_logger(__name__)
_aiohttp_log = logging.getLogger("aiohttp.server")

Probe = Callable[[], Awaitable[bool]]
"""Checks one dependency of a process. An exception counts as no."""


class RareLog:
    """Counts and logs events that anybody who reaches a port can cause: the first at once, later
    ones together, once in each interval.

    Args:
        event: the name of the log's event.
        hint: the admin's remedy.
        interval: seconds.
    """

    def __init__(self, event: str, hint: str, interval: float = RARE_INTERVAL) -> None:
        self._event = event
        self._hint = hint
        self._interval = interval
        self._reasons = Counter[str]()
        self._remotes = dict[str, None]()
        self._timer: asyncio.TimerHandle | None = None

    def note(self, reason: str, remote: str | None) -> None:
        """Count one occurrence. `remote`: the address of the peer, which may be a proxy's."""
        self._reasons[reason] += 1
        if len(self._remotes) < _MAX_NAMED:
            self._remotes[remote or "unknown"] = None
        if self._timer is None:
            self._tell()

    def close(self) -> None:
        """Log the counts that are not logged yet."""
        self._write()
        if self._timer:
            self._timer.cancel()

    def _tell(self) -> None:
        self._timer = None
        if self._write():
            self._timer = asyncio.get_running_loop().call_later(self._interval, self._tell)

    def _write(self) -> bool:
        if not self._reasons:
            return False
        count = self._reasons.total()
        _log.warning(
            self._event,
            count=count,
            reasons=dict(self._reasons),
            remotes=list(self._remotes),
            next=self._hint,
        )
        self._reasons.clear()
        self._remotes.clear()
        return True


class BrokenBody(Exception):
    """The body of a request did not arrive, or cannot be read.

    Args:
        reason: a stable name, for the log.
        status: the status of the response, if the client is still there.
    """

    def __init__(self, reason: str, status: HTTPStatus) -> None:
        super().__init__(reason)
        self.reason = reason
        self.status = status


async def read_body(request: web.Request, timeout: float | None = None) -> bytes:
    """Return the whole body, which must arrive within `timeout` seconds, by default
    `BODY_TIMEOUT`.

    Raises:
        BrokenBody: the client left, was too slow, or sent something unreadable.
        web.HTTPRequestEntityTooLarge: it is longer than the application accepts.
    """
    try:
        async with asyncio.timeout(timeout or BODY_TIMEOUT):
            return await request.read()
    except TimeoutError as error:
        raise BrokenBody("body_too_slow", HTTPStatus.REQUEST_TIMEOUT) from error
    except ConnectionError as error:
        raise BrokenBody("client_left", HTTPStatus.BAD_REQUEST) from error
    except (web.RequestPayloadError, HttpProcessingError) as error:
        raise BrokenBody("body_unreadable", HTTPStatus.BAD_REQUEST) from error


def closing(status: HTTPStatus) -> web.Response:
    """Return an empty response that closes the connection."""
    response = web.Response(status=status)
    response.force_close()
    return response


class _ServerLog(logging.LoggerAdapter[logging.Logger]):
    """The log that aiohttp writes to. aiohttp logs a request that is not HTTP as an error with a
    traceback, which belongs to the server's own mistakes.
    """

    def __init__(self, broken: RareLog) -> None:
        super().__init__(_aiohttp_log)
        self._broken = broken

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        error = kwargs.get("exc_info")
        if isinstance(error, web.RequestPayloadError):
            # `read_body` has raised it before; aiohttp meets it again when it reads the next
            # request.
            return
        if isinstance(error, HttpProcessingError | ConnectionError):
            self._broken.note("no_http", str(args[0]) if args else None)
            return
        super().log(level, msg, *args, **kwargs)

    def process(
        self, msg: Any, kwargs: MutableMapping[str, Any]
    ) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs


@asynccontextmanager
async def listening(
    app: web.Application, host: str, port: int, broken: RareLog, option: str
) -> AsyncIterator[int]:
    """Serve until the block ends; yields the port. Port 0 takes any free port.

    Args:
        broken: counts requests that are not HTTP.
        option: the command's option with the address, for the error.

    Raises:
        Permanent: the address cannot be used.
    """
    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=SHUTDOWN_TIMEOUT,
        keepalive_timeout=IDLE_TIMEOUT,
        logger=_ServerLog(broken),
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except (OSError, OverflowError) as error:
            raise Permanent(
                f"{option}: cannot listen at {host}:{port} ({error}). Choose another address."
            ) from error
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()
        broken.close()


# ---- Probes


async def healthz(_: web.Request) -> web.Response:
    """Answer that the process is alive."""
    return web.json_response({"alive": True})


async def ask_probes(probes: Mapping[str, Probe]) -> dict[str, bool]:
    """Run all probes concurrently, each within `PROBE_TIMEOUT`."""
    answers = await asyncio.gather(*(_holds(name, probe) for name, probe in probes.items()))
    return dict(zip(probes, answers, strict=True))


async def _holds(name: str, probe: Probe) -> bool:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            return await probe()
    except Exception as error:  # noqa: BLE001 - the process cannot use it after any error
        _log.debug("probe_failed", probe=name, error=type(error).__name__)
        return False


def readiness(parts: Mapping[str, bool], **shown: object) -> web.Response:
    """Return the response of `/readyz`: 200 when every part is ready, else 503. `shown`: further
    fields.
    """
    status = HTTPStatus.OK if all(parts.values()) else HTTPStatus.SERVICE_UNAVAILABLE
    return web.json_response({**parts, **shown}, status=status)
