"""Pages fetched from a server on loopback: read as Markdown, or refused with the reason."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from yarl import URL

from threadline.knowledge import web as web_module
from threadline.knowledge.documents import MAX_FILE_BYTES, UnreadableSource
from threadline.knowledge.web import MAX_HTML, html_to_markdown, open_web_fetcher

HTML = """<html><head><title>Prices &amp; plans</title><style>p {}</style></head><body>
<nav>Home</nav><h2>Starter</h2><p>It costs
20&nbsp;euros.</p><ul><li>One seat</li><li>Mail <b>support</b></li></ul>
<script>alert("no")</script></body></html>"""


PAGES: dict[str, dict[str, Any]] = {
    "text.md": {"text": "# Text\n\nWords.", "content_type": "text/markdown"},
    "page.html": {"text": HTML, "content_type": "text/html"},
    "moved": {"status": 302, "headers": {"Location": "/page.html"}},
    "round": {"status": 302, "headers": {"Location": "/round"}},
    "elsewhere": {"status": 302, "headers": {"Location": "file:///etc/passwd"}},
    "picture": {"body": b"\x89", "content_type": "image/png"},
    "endless": {"body": b"x" * (MAX_FILE_BYTES + 1), "content_type": "text/plain"},
    "vast": {"body": b"<p>" * (MAX_HTML // 3 + 1), "content_type": "text/html"},
    "latin": {"body": b"<p>\xff\xfe</p>", "content_type": "text/html", "charset": "utf-8"},
    "none": {"status": 404},
}


async def page(request: web.Request) -> web.Response:
    return web.Response(**PAGES[request.match_info["name"]])


@pytest.fixture
async def site() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{name}", page)
    async with TestServer(app) as server:
        yield str(server.make_url("/"))


async def test_html_is_read_as_markdown_and_text_as_it_is(site: str) -> None:
    async with open_web_fetcher(allow_private=True) as pages:
        assert await pages.fetch(f"{site}text.md") == b"# Text\n\nWords."
        expected = (
            "# Prices & plans\n\n## Starter\n\nIt costs 20 euros.\n\n- One seat\n- Mail support"
        )
        assert (await pages.fetch(f"{site}page.html")).decode() == expected
        assert (await pages.fetch(f"{site}moved")).decode() == expected


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("none", "HTTP 404"),
        ("round", "more than 5 times"),
        ("elsewhere", "is not a web address"),
        ("picture", "image/png"),
        ("endless", "20 MB"),
        ("vast", "4,000,000 characters"),
        ("latin", "utf-8"),
    ],
)
async def test_page_without_readable_text_is_refused(site: str, name: str, says: str) -> None:
    async with open_web_fetcher(allow_private=True) as pages:
        with pytest.raises(UnreadableSource, match=says):
            await pages.fetch(f"{site}{name}")


PLAIN = (
    "127.0.0.1",
    "localhost",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "10.0.0.1",
    "169.254.169.254",
    "0.0.0.0",  # noqa: S104 - an address, and no binding
)
ODD = (
    "\uff11\uff12\uff17.0.0.1",
    "127\u30020\u30020\u30021",
    "\u2460\u2461\u2466.0.0.1",
    "127.1",
    "2130706433",
    "0x7f.1",
    "127.0.0.1.",
)


@pytest.mark.parametrize("host", [*PLAIN, *ODD])
async def test_private_address_is_refused(site: str, host: str) -> None:
    async with open_web_fetcher() as pages:
        with pytest.raises(UnreadableSource, match="--allow-private"):
            await pages.fetch(site.replace("127.0.0.1", host) + "text.md")


@pytest.mark.parametrize("host", ["localhost", "[::ffff:127.0.0.1]", "\uff11\uff12\uff17.0.0.1"])
async def test_redirect_to_a_private_address_is_refused(
    site: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = f"//{host}:{URL(site).port}/text.md"
    monkeypatch.setitem(PAGES, "inwards", {"status": 302, "headers": {"Location": location}})
    public = web_module._public
    once = iter([True])  # the test's own server is private as well, so the first request passes
    monkeypatch.setattr(web_module, "_public", lambda host: next(once, False) or public(host))
    async with open_web_fetcher() as pages:
        with pytest.raises(UnreadableSource, match="--allow-private"):
            await pages.fetch(f"{site}inwards")


@pytest.mark.parametrize("user", ["bot:hunter2", "hunter2", ":hunter2"])
async def test_address_with_a_password_is_refused_without_repeating_it(
    site: str, user: str
) -> None:
    async with open_web_fetcher(allow_private=True) as pages:
        with pytest.raises(UnreadableSource, match="has a user or a password") as refused:
            await pages.fetch(site.replace("://", f"://{user}@") + "text.md")
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    "address", ["file:///etc/passwd", "kb/a.md", "https://", "http://[", "http://a.example:x/"]
)
async def test_invalid_address_is_refused(address: str) -> None:
    async with open_web_fetcher() as pages:
        with pytest.raises(UnreadableSource):
            await pages.fetch(address)


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("", ""),
        ("<h1>", "#"),
        ("One<![foo[ two ]]> three", "One three"),
        ("One<![foo[", "One"),
        ("\x00One\ud800", "One?"),
        ("<nav><p>Menu</nav>Two", "Two"),
        ("<p>a &amp;&bad; b", "a &&bad; b"),
        ("<title>Title", ""),
        ("<title>Title</title>Words", "# Title\n\nWords"),
    ],
)
def test_broken_html_is_read_as_far_as_possible(page: str, text: str) -> None:
    assert html_to_markdown(page) == text


@pytest.mark.timeout(30)
@pytest.mark.parametrize("part", ["<a ", "<td>", "<b><i>", "<![foo[", "<!--", "</p>", "&#", " \n"])
def test_largest_page_is_read_within_seconds(part: str) -> None:
    assert set(html_to_markdown(part * (MAX_HTML // len(part)))) <= set("&# ")
