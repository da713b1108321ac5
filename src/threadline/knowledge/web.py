"""Reads documents from the web: within bounds of size and time, and from public addresses unless more is meant."""

import asyncio
import ipaddress
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from yarl import URL

from threadline.knowledge import html as pages
from threadline.knowledge.documents import LARGEST_FILE, UnreadableDocument, too_large

_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
"""Seconds for a whole page: a slow one is refused, and stays as it was kept before."""
_MOST_REDIRECTS = 5
_TEXTS = ("text/markdown", "text/plain", "text/x-markdown")
_HTML = ("text/html", "application/xhtml+xml")
_MOVED = (301, 302, 303, 307, 308)


class _PublicResolver(AbstractResolver):
    """Names resolve to public addresses alone: looked at where they are connected to, no name can change in between."""

    def __init__(self) -> None:
        self._inner = ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._inner.resolve(host, port, family)
        if not all(_public(each["host"]) for each in found):
            raise _Inside(host)
        return found

    async def close(self) -> None:
        await self._inner.close()


class _Inside(OSError):
    """An address of this network or machine."""


class Web:
    """Fetches addresses over one session; `fetching` makes it."""

    def __init__(self, session: aiohttp.ClientSession, *, allow_private: bool) -> None:
        self._session = session
        self._allow_private = allow_private

    async def fetch(self, address: str) -> bytes:
        """A page as Markdown in UTF-8.

        Raises:
            UnreadableDocument: it is no address, none of the public network, not there, or no text; or it is too large
                or too slow.
        """
        try:
            return await self._follow(address)
        except _Inside:
            raise _refused_inside(address) from None
        except TimeoutError:
            raise UnreadableDocument(f"{address} did not answer within {_TIMEOUT.total:.0f} seconds.") from None
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, _Inside):
                raise _refused_inside(address) from None
            raise UnreadableDocument(f"{address} could not be reached: check it, and the network.") from error
        except (aiohttp.ClientError, ValueError) as error:
            raise UnreadableDocument(f"{address} could not be read ({type(error).__name__}).") from error

    async def _follow(self, address: str) -> bytes:
        at = URL(address)
        for _ in range(_MOST_REDIRECTS + 1):
            self._check(at)
            async with self._session.get(at, allow_redirects=False) as response:
                moved = response.headers.get("Location", "") if response.status in _MOVED else ""
                if not moved:
                    return await _read(address, response)
                at = at.join(URL(moved))
        raise UnreadableDocument(
            f"{address} redirects more than {_MOST_REDIRECTS} times: use the address of the final page."
        )

    def _check(self, at: URL) -> None:
        """Looks at the host as it is connected to: a `URL` has made plain digits of the full-width ones."""
        if at.scheme not in ("http", "https") or not at.host:
            raise UnreadableDocument(f"{str(at)[:200]} is not a web address: write it as https://….")
        if at.user or at.password:
            raise UnreadableDocument(
                f"The address of a page of {at.host} has a user or a password, which the bot would show to people: "
                "use a page that needs none."
            )
        if not self._allow_private and _is_number(at.host) and not _public(at.host):
            raise _refused_inside(str(at))


@asynccontextmanager
async def fetching(*, allow_private: bool = False) -> AsyncIterator[Web]:
    """Args: `allow_private`: pages of this machine and this network may be read, too."""
    resolver = None if allow_private else _PublicResolver()
    connector = aiohttp.TCPConnector(resolver=resolver)
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
        yield Web(session, allow_private=allow_private)


async def _read(address: str, response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise UnreadableDocument(f"{address} answered with HTTP {response.status}: check the address.")
    kind = response.content_type.lower()
    if kind not in (*_TEXTS, *_HTML):
        raise UnreadableDocument(f"{address} is {kind}, not a page of text: use an address of Markdown or HTML.")
    content = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        content += chunk
        if len(content) > LARGEST_FILE:
            raise too_large(address)
    if kind in _TEXTS:
        return bytes(content)
    try:
        words = content.decode(response.charset or "utf-8")
    except (UnicodeDecodeError, LookupError):
        raise UnreadableDocument(f"{address} is not {response.charset or 'UTF-8'} text.") from None
    if len(words) > pages.LARGEST:
        raise UnreadableDocument(f"{address} has more than {pages.LARGEST:,} characters of HTML: name a smaller page.")
    return (await asyncio.to_thread(pages.markdown, words)).encode()


def _is_number(host: str) -> bool:
    """Whether aiohttp connects to it without asking the resolver, in whose place nobody would look at it."""
    return ":" in host or host.replace(".", "").isdigit()


def _public(host: str) -> bool:
    """No number that is written otherwise than an address is, as 127.1 for 127.0.0.1."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_global and not address.is_multicast


def _refused_inside(address: str) -> UnreadableDocument:
    return UnreadableDocument(f"{address} is in a private network: give --allow-private to read such pages.")
