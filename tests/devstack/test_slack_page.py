"""The page, and the JSON by which people act on it, over HTTP."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest_asyncio

from tests.devstack.conftest import SlackServer
from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from threadline.slack.text import read_text
from threadline_devstack.slack.identity import BYSTANDER, REPORTER, REPORTS


@pytest_asyncio.fixture(loop_scope="module")
async def slack(slack_server: SlackServer) -> AsyncIterator[FaultySlack]:
    async with slack_server.sandbox(retry_delays=(), ack_timeout=0.05) as sandbox:
        yield sandbox


@pytest_asyncio.fixture(loop_scope="module")
async def browser(slack: FaultySlack) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=slack.url) as session:
        yield session


async def act(browser: aiohttp.ClientSession, path: str, **given: Any) -> dict[str, Any]:
    async with browser.post(f"/control/{path}", json=given) as response:
        answer: dict[str, Any] = await response.json()
        return answer | {"status": response.status}


async def channel(browser: aiohttp.ClientSession, channel_id: str) -> dict[str, Any]:
    async with browser.get("/control/state") as response:
        state = await response.json()
    found: dict[str, Any] = next(each for each in state["channels"] if each["id"] == channel_id)
    return found


async def test_people_write_edit_react_and_delete(browser: aiohttp.ClientSession) -> None:
    content = base64.b64encode(b"a log").decode()
    file = (
        await act(browser, "files", user=REPORTER, name="../../log.txt", content_base64=content)
    )["file"]
    assert file["name"] == "log.txt"
    root = await act(
        browser, "messages", channel=REPORTS, user=REPORTER, text="bug", files=[file["id"]]
    )
    reply = await act(
        browser, "messages", channel=REPORTS, user=BYSTANDER, text="same", thread_ts=root["ts"]
    )
    await act(
        browser, "messages/edit", channel=REPORTS, ts=root["ts"], user=REPORTER, text="a bug"
    )
    await act(browser, "reactions", channel=REPORTS, ts=root["ts"], user=BYSTANDER, name="eyes")
    await act(browser, "messages/delete", channel=REPORTS, ts=reply["ts"], user=BYSTANDER)
    [message] = (await channel(browser, REPORTS))["messages"]
    assert (message["text"], message["files"][0]["size"]) == ("a bug", 5)
    assert message["reactions"] == [{"name": "eyes", "users": [BYSTANDER], "count": 1}]


async def test_pasted_cells_are_an_attached_table_as_in_slacks_client(
    browser: aiohttp.ClientSession,
) -> None:
    text = "which is cheaper?\nTea\t3 &amp; more\nMilk\t2\nanswer soon"
    sent = await act(browser, "messages", channel=REPORTS, user=REPORTER, text=text)
    message = (await channel(browser, REPORTS))["messages"][-1]
    assert (message["ts"], message["text"]) == (sent["ts"], "which is cheaper?\nanswer soon")
    [attachment] = message["attachments"]
    rows = attachment["blocks"][0]["rows"]
    assert [[cell["text"] for cell in row] for row in rows] == [["Tea", "3 & more"], ["Milk", "2"]]
    assert (
        read_text(message).forwarded
        == "[Attachment]\n> | Tea | 3 & more |\n> |---|---|\n> | Milk | 2 |"
    )


async def test_messages_are_edited_only_by_their_author(browser: aiohttp.ClientSession) -> None:
    root = await act(browser, "messages", channel=REPORTS, user=REPORTER, text="bug")
    answer = await act(
        browser, "messages/edit", channel=REPORTS, ts=root["ts"], user=BYSTANDER, text="no bug"
    )
    assert (answer["status"], answer["error"]) == (400, "cant_update_message")


async def test_a_wrong_request_gets_the_reason(browser: aiohttp.ClientSession) -> None:
    assert (await act(browser, "messages", user=REPORTER))[
        "error"
    ] == "unreadable arguments: missing a required argument: 'channel'"
    async with browser.post("/control/messages", data={"channel": REPORTS}) as response:
        assert response.status == 415


async def test_a_request_under_a_foreign_host_name_is_not_answered(
    browser: aiohttp.ClientSession,
) -> None:
    async with browser.get("/control/state", headers={"Host": "evil.example"}) as response:
        assert response.status == 400


async def test_the_page_needs_nothing_from_elsewhere(browser: aiohttp.ClientSession) -> None:
    for path in ("/", "/pages/page.js", "/pages/markup.js", "/pages/page.css"):
        async with browser.get(path) as response:
            assert response.status == 200
            assert "default-src 'self'" in response.headers["Content-Security-Policy"]
            assert 'src="http' not in await response.text()
    async with browser.get("/pages/app.py") as response:
        assert response.status == 404


async def test_an_uploaded_page_runs_no_script(
    slack: FaultySlack, browser: aiohttp.ClientSession
) -> None:
    file = slack.workspace.add_file("x.html", REPORTER, b"<script>alert(1)</script>")
    async with browser.get(f"/pages/files/{file.id}") as response:
        assert response.headers["Content-Security-Policy"].startswith("sandbox")


async def test_an_open_page_gets_every_event(
    slack: FaultySlack, browser: aiohttp.ClientSession
) -> None:
    async with asyncio.timeout(patient(5)), browser.get("/stream") as stream:
        assert await stream.content.readline() == b": hello\n"
        slack.workspace.post(REPORTS, REPORTER, "live")
        await stream.content.readline()
        event = json.loads((await stream.content.readline()).removeprefix(b"data: "))
    assert (event["channel"], event["text"]) == (REPORTS, "live")
