"""Attachments: the files that agents can read, without showing the token to another host."""

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Handler, Serve
from threadline.errors import Permanent, Transient
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.files import download_readable, fetch, file_info
from threadline_devstack.slack.identity import REPORTER, REPORTS

Answer = Callable[[], web.StreamResponse]


def _slack(answer: Answer, **file: Any) -> Handler:
    """Return a Slack that knows one file and answers its download with this response."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("files.info"):
            url = f"{request.scheme}://{request.host}/download"
            known = {"name": "log.txt", "mimetype": "text/plain", "size": 3, "url_private": url}
            return web.json_response({"ok": True, "file": known | file})
        assert request.headers["Authorization"] == "Bearer xoxb-test"
        return answer()

    return handler


async def test_images_and_texts_are_read_and_other_kinds_refused(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    for name, mimetype in (
        ("shot.png", "image/png"),
        ("log.txt", "text/plain"),
        ("page.html", "text/html"),
    ):
        file = sandbox.workspace.add_file(name, REPORTER, b"content")
        assert (await file_info(slack.client, file.id)).mimetype == mimetype
        assert await download_readable(slack.client, file.id) == b"content"
    for name in ("virus.exe", "archive.zip", "film.mp4"):
        file = sandbox.workspace.add_file(name, REPORTER, b"content")
        with pytest.raises(Permanent, match="is of the kind"):
            await download_readable(slack.client, file.id)


async def test_look_up_lists_the_shares_of_a_file_without_a_download(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    file = sandbox.workspace.add_file("brief.pdf", REPORTER, b"%PDF-1.4")
    direct = sandbox.workspace.open_im(REPORTER).id
    for place in (REPORTS, direct):
        sandbox.workspace.post(place, REPORTER, "see", files=[file.id])
    sandbox.faults.fail_before("files.download")
    told = await file_info(slack.client, file.id)
    assert (told.name, told.mimetype, told.size) == ("brief.pdf", "application/pdf", 8)
    assert told.channels == {REPORTS, direct}
    assert sandbox.faults.ordered("files.download") == 1


async def test_fetch_takes_any_kind_and_counts_its_bytes(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    file = sandbox.workspace.add_file("brief.pdf", REPORTER, b"x" * 11)
    assert (
        await fetch(slack.client, await file_info(slack.client, file.id), max_bytes=11)
        == b"x" * 11
    )
    file.announced = 3
    with pytest.raises(Permanent, match="larger than"):
        await fetch(slack.client, await file_info(slack.client, file.id), max_bytes=10)


async def test_rate_limited_download_says_for_how_long(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    file = sandbox.workspace.add_file("log.txt", REPORTER, b"x")
    sandbox.faults.rate_limit("files.download", retry_after=7)
    with pytest.raises(Transient) as told:
        await download_readable(slack.client, file.id)
    assert told.value.retry_after == 7


async def test_file_that_announces_too_many_bytes_is_not_requested(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    file = sandbox.workspace.add_file("log.txt", REPORTER, b"x" * 11)
    sandbox.faults.fail_before("files.download")
    with pytest.raises(Permanent, match="larger than"):
        await download_readable(slack.client, file.id, max_bytes=10)
    assert sandbox.faults.ordered("files.download") == 1


async def test_missing_file_is_named(sandbox: FaultySlack, slack: SlackClient) -> None:
    with pytest.raises(Permanent, match="F0"):
        await download_readable(slack.client, "F0")


@pytest.mark.parametrize(
    ("answer", "error", "says"),
    [
        (
            lambda: web.Response(status=302, headers={"Location": "/login"}),
            Permanent,
            "files:read",
        ),
        (
            lambda: web.Response(text="<html>Sign in", content_type="text/html"),
            Permanent,
            "files:read",
        ),
        (lambda: web.Response(status=404), Permanent, "HTTP 404"),
        (lambda: web.Response(status=503), Transient, "HTTP 503"),
    ],
)
async def test_answer_that_is_no_file_is_an_error(
    serve: Serve, session: aiohttp.ClientSession, answer: Answer, error: type[Exception], says: str
) -> None:
    client = make_web_client("xoxb-test", await serve(_slack(answer)), session)
    with pytest.raises(error, match=says):
        await download_readable(client, "F1")


async def test_token_is_shown_to_no_other_host(
    serve: Serve, session: aiohttp.ClientSession
) -> None:
    asked: list[str] = []

    async def stranger(request: web.Request) -> web.Response:
        asked.append(request.path)
        return web.Response()

    elsewhere = await serve(stranger)
    for url in (f"{elsewhere}/x", f"{elsewhere}@evil.example/x", "https://files.slack.com/x", ""):
        client = make_web_client(
            "xoxb-test", await serve(_slack(web.Response, url_private=url)), session
        )
        with pytest.raises(Permanent, match="outside Slack"):
            await download_readable(client, "F1")
    assert asked == []


@pytest.mark.parametrize("mode", ["tombstone", "hidden_by_limit"])
async def test_file_that_slack_hides_is_asked_for_again(
    serve: Serve, session: aiohttp.ClientSession, mode: str
) -> None:
    client = make_web_client("xoxb-test", await serve(_slack(web.Response, mode=mode)), session)
    with pytest.raises(Permanent, match="upload it again"):
        await download_readable(client, "F1")


@pytest.mark.parametrize(
    ("name", "safe"),
    [
        ("../../etc/passwd", "passwd"),
        ("..\\boot.ini", "boot.ini"),
        (".bashrc", "bashrc"),
        ("a\x00b\n.txt", "a_b_.txt"),
        ("", "attachment"),
        ("x" * 500 + ".txt", "x" * 116 + ".txt"),
    ],
)
async def test_name_cannot_be_a_path(
    serve: Serve, session: aiohttp.ClientSession, name: str, safe: str
) -> None:
    client = make_web_client("xoxb-test", await serve(_slack(web.Response, name=name)), session)
    assert (await file_info(client, "F1")).name == safe
