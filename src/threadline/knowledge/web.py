"""Fetches web pages as Markdown, within limits of size and time, and from public addresses unless
allowed otherwise.
"""

import asyncio
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import ThreadedResolver
from lxml import etree
from yarl import URL

from threadline.knowledge.documents import MAX_FILE_BYTES, UnreadableSource, too_large

_TIMEOUT = aiohttp.ClientTimeout(total=30, connect=10)
"""Seconds for a whole page. A slower page is refused, and its stored text is kept."""
_MAX_REDIRECTS = 5
_TEXTS = ("text/markdown", "text/plain", "text/x-markdown")
_HTML = ("text/html", "application/xhtml+xml")
MAX_HTML = 4_000_000
"""Characters of a page. libxml2 took under two seconds for this many, and did not finish on some
pages of 20 million.
"""
_UNSEEN = (
    "script",
    "style",
    "noscript",
    "template",
    "svg",
    "nav",
    "header",
    "footer",
    "form",
    "iframe",
)
"""Elements whose text is not the content of the page."""
_HEADINGS = {f"h{depth}": f"\n\n{'#' * depth} " for depth in range(1, 7)}
_BLOCKS = (
    "p",
    "div",
    "section",
    "article",
    "main",
    "ul",
    "ol",
    "table",
    "tr",
    "blockquote",
    "pre",
    "dl",
    "dt",
    "dd",
)
_MOVED = (301, 302, 303, 307, 308)


class _PublicResolver(AbstractResolver):
    """Refuses names of private addresses. It checks the address of the connection itself, so a
    later change of DNS has no effect.
    """

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


class WebFetcher:
    """Fetches pages over one session; create it with `open_web_fetcher`."""

    def __init__(self, session: aiohttp.ClientSession, *, allow_private: bool) -> None:
        self._session = session
        self._allow_private = allow_private

    async def fetch(self, address: str) -> bytes:
        """Return a page as Markdown in UTF-8.

        Raises:
            UnreadableSource: the address is invalid or private, the page is missing, not text, too
                large or too slow.
        """
        try:
            return await self._follow(address)
        except _Inside:
            raise _refused_inside(address) from None
        except TimeoutError:
            raise UnreadableSource(
                f"{address} did not answer within {_TIMEOUT.total:.0f} seconds."
            ) from None
        except aiohttp.ClientConnectorError as error:
            if isinstance(error.os_error, _Inside):
                raise _refused_inside(address) from None
            raise UnreadableSource(
                f"{address} could not be reached: check it, and the network."
            ) from error
        except (aiohttp.ClientError, ValueError) as error:
            raise UnreadableSource(
                f"{address} could not be read ({type(error).__name__})."
            ) from error

    async def _follow(self, address: str) -> bytes:
        at = URL(address)
        for _ in range(_MAX_REDIRECTS + 1):
            self._check(at)
            async with self._session.get(at, allow_redirects=False) as response:
                moved = response.headers.get("Location", "") if response.status in _MOVED else ""
                if not moved:
                    return await _read(address, response)
                at = at.join(URL(moved))
        raise UnreadableSource(
            f"{address} redirects more than {_MAX_REDIRECTS} times: use the address of the "
            "final page."
        )

    def _check(self, at: URL) -> None:
        """Refuse addresses of other schemes, with credentials, or of a private network.

        It checks the host of the `URL`, which is the one of the connection: `URL` has converted
        full-width digits to plain ones.
        """
        if at.scheme not in ("http", "https") or not at.host:
            raise UnreadableSource(f"{str(at)[:200]} is not a web address: write it as https://….")
        if at.user or at.password:
            raise UnreadableSource(
                f"The address of a page of {at.host} has a user or a password, which the bot "
                "would show to people: use a page that needs none."
            )
        # aiohttp connects to a numeric address without the resolver, which therefore cannot check
        # it.
        is_number = ":" in at.host or at.host.replace(".", "").isdigit()
        if not self._allow_private and is_number and not _public(at.host):
            raise _refused_inside(str(at))


@asynccontextmanager
async def open_web_fetcher(*, allow_private: bool = False) -> AsyncIterator[WebFetcher]:
    """Open a session for fetching pages.

    Args:
        allow_private: also permits pages of this machine and this network.
    """
    connector = aiohttp.TCPConnector(resolver=None if allow_private else _PublicResolver())
    async with aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT) as session:
        yield WebFetcher(session, allow_private=allow_private)


async def _read(address: str, response: aiohttp.ClientResponse) -> bytes:
    if response.status != 200:
        raise UnreadableSource(
            f"{address} answered with HTTP {response.status}: check the address."
        )
    kind = response.content_type.lower()
    if kind not in (*_TEXTS, *_HTML):
        raise UnreadableSource(
            f"{address} is {kind}, not a page of text: use an address of Markdown or HTML."
        )
    content = bytearray()
    async for chunk in response.content.iter_chunked(64 * 1024):
        content += chunk
        if len(content) > MAX_FILE_BYTES:
            raise too_large(address)
    if kind in _TEXTS:
        return bytes(content)
    try:
        words = content.decode(response.charset or "utf-8")
    except (UnicodeDecodeError, LookupError):
        raise UnreadableSource(f"{address} is not {response.charset or 'UTF-8'} text.") from None
    if len(words) > MAX_HTML:
        raise UnreadableSource(
            f"{address} has more than {MAX_HTML:,} characters of HTML: name a smaller page."
        )
    return (await asyncio.to_thread(html_to_markdown, words)).encode()


def _public(host: str) -> bool:
    """Return whether an address is public. A number in another notation is not, such as 127.1 for
    127.0.0.1.
    """
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_global and not address.is_multicast


def _refused_inside(address: str) -> UnreadableSource:
    return UnreadableSource(
        f"{address} is in a private network: give --allow-private to read such pages."
    )


def html_to_markdown(page: str) -> str:
    """Return the text of a page, `MAX_HTML` characters at most, as Markdown. If it has no heading
    of the first level, its title becomes one.
    """
    reader = _PageReader()
    parser = etree.HTMLParser(encoding="utf-8", target=reader)
    # the text up to a parser error is the page
    with suppress(etree.LxmlError):
        parser.feed(page.replace("\x00", "").encode("utf-8", "replace"))
        parser.close()
    text = re.sub(r" ?\n ?", "\n", re.sub(r"[ \t]+", " ", "".join(reader.pieces)))
    text = re.sub(r"\n{3,}", "\n\n", text).strip()
    title = " ".join("".join(reader.title).split())
    if not title or not text or text.startswith("# "):
        return text
    return f"# {title}\n\n{text}"


class _PageReader:
    """Collects the text while lxml parses; see https://lxml.de/parsing.html, "The target parser
    interface".
    """

    def __init__(self) -> None:
        self.pieces: list[str] = []
        self.title: list[str] = []
        self._unseen: list[str] = []
        self._in_title = False

    def start(self, tag: str, _attributes: Mapping[str, str]) -> None:
        if self._unseen or tag in _UNSEEN:
            self._unseen += [tag] if tag in _UNSEEN else []
        elif tag == "title":
            self._in_title = True
        elif tag in _HEADINGS:
            self.pieces.append(_HEADINGS[tag])
        elif tag in ("li", "br"):
            self.pieces.append("\n- " if tag == "li" else "\n")
        elif tag in ("td", "th"):
            self.pieces.append(" ")
        elif tag in _BLOCKS:
            self.pieces.append("\n\n" if tag != "tr" else "\n")

    def end(self, tag: str) -> None:
        if tag in self._unseen:
            del self._unseen[self._unseen.index(tag) :]
        elif tag == "title":
            self._in_title = False
        elif not self._unseen and (tag in _HEADINGS or tag in _BLOCKS):
            self.pieces.append("\n\n" if tag != "tr" else "\n")

    def data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif not self._unseen:
            self.pieces.append(re.sub(r"\s+", " ", data))

    def close(self) -> None:
        """End the page; lxml requires this method."""
