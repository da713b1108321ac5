"""Log search by Loki's HTTP API: https://grafana.com/docs/loki/latest/reference/loki-http-api/#query-logs-within-a-range-of-time."""

import json
import time
from collections.abc import Sequence

import aiohttp

from threadline.errors import Permanent, Transient

_TOTAL = aiohttp.ClientTimeout(total=20)
_NANOSECONDS = 1_000_000_000


class Loki:
    """Searches the streams of one selector.

    Args:
        url: the server's base, such as `http://loki:3100`.
        selector: which streams, such as `{namespace="shop"}`; an agent can name no other.
    """

    def __init__(self, session: aiohttp.ClientSession, url: str, selector: str) -> None:
        self._session = session
        self._selector = selector
        self._url = url.rstrip("/") + "/loki/api/v1/query_range"

    async def search(self, query: str, minutes: int, limit: int) -> Sequence[str]:
        """Lines of the last `minutes` that hold every word of `query`, newest first.

        Raises:
            Permanent: Loki refuses the search; its words say why.
            Transient: Loki cannot answer now.
        """
        now = time.time_ns()
        asked = {
            "query": " ".join([self._selector, *(f"|= {json.dumps(word)}" for word in query.split())]),
            "start": str(now - minutes * 60 * _NANOSECONDS),
            "end": str(now),
            "limit": str(limit),
            "direction": "backward",
        }
        try:
            async with self._session.get(self._url, params=asked, timeout=_TOTAL) as response:
                if response.status >= 500 or response.status == 429:
                    raise Transient(f"The log search answered {response.status}; try again later.")
                if response.status >= 400:
                    raise Permanent(f"The log search refused the query: {(await response.text())[:500]}")
                streams = (await response.json())["data"]["result"]
        except (aiohttp.ClientError, TimeoutError) as error:
            raise Transient("The log search cannot be reached now; try again later.") from error
        lines = sorted(((int(at), line) for stream in streams for at, line in stream["values"]), reverse=True)
        return [line for _, line in lines[:limit]]
