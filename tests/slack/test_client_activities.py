"""The client's calls: their results, the errors that they ignore, and their time limits."""

import aiohttp
import pytest
from aiohttp import web

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock, Serve
from threadline.errors import NotDone, Permanent, Transient
from threadline.slack.client import POST_EVENT, SlackClient, make_web_client
from threadline.slack.model import User
from threadline_devstack.slack.identity import (
    BOT_ID,
    BOT_TOKEN,
    BOT_USER,
    DEVELOPER,
    REPORTER,
    REPORTS,
    SUMMARIES,
    TEAM,
)
from threadline_devstack.slack.model import SandboxUser as SandboxUser


def _metadata(key: str, event_type: str = POST_EVENT) -> dict[str, object]:
    return {"event_type": event_type, "event_payload": {"key": key, "bug_id": "BUG-1"}}


async def test_short_rate_limit_is_waited_for_once(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    sandbox.faults.rate_limit("chat.postMessage", retry_after=0)
    ts = await slack.post(REPORTS, "hello")
    assert sandbox.workspace.message(REPORTS, ts).text == "hello"
    sandbox.faults.rate_limit("chat.postMessage", count=2, retry_after=0)
    with pytest.raises(NotDone):
        await slack.post(REPORTS, "hello")
    assert sandbox.faults.next_call("chat.postMessage") is None


async def test_long_rate_limit_is_passed_on_at_once(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    sandbox.faults.rate_limit("chat.postMessage", retry_after=6)
    with pytest.raises(NotDone) as caught:
        await slack.post(REPORTS, "hello")
    assert caught.value.retry_after == 6


async def test_server_error_is_not_retried_by_the_client(
    serve: Serve, session: aiohttp.ClientSession
) -> None:
    calls = 0

    async def broken(_: web.Request) -> web.Response:
        nonlocal calls
        calls += 1
        return web.json_response({"ok": False}, status=500)

    with pytest.raises(Transient):
        await SlackClient(make_web_client("xoxb-test", await serve(broken), session)).post(
            "C1", "hello"
        )
    assert calls == 1


async def test_call_ends_in_time_over_a_session_without_a_timeout(
    sandbox: FaultySlack, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.slack.client.CALL_TIMEOUT", 0.1)
    sandbox.faults.slow("chat.postMessage", 0.5)
    with pytest.raises(Transient) as caught:
        await SlackClient(make_web_client(BOT_TOKEN, sandbox.api_url, session)).post(
            REPORTS, "hello"
        )
    assert type(caught.value) is Transient, "it may have been done, so it was not refused"


async def test_other_address_is_called_without_the_proxy(
    sandbox: FaultySlack, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    assert await SlackClient(make_web_client(BOT_TOKEN, sandbox.api_url, session)).post(
        REPORTS, "hello"
    )
    assert make_web_client(BOT_TOKEN, None, session).proxy == "http://127.0.0.1:1"


async def test_links_are_not_unfolded(serve: Serve, session: aiohttp.ClientSession) -> None:
    bodies: list[dict[str, object]] = []

    async def accept(request: web.Request) -> web.Response:
        bodies.append(await request.json())
        return web.json_response({"ok": True, "ts": "1.2"})

    assert await SlackClient(make_web_client("xoxb-test", await serve(accept), session)).post(
        "C1", "see https://x.example"
    )
    assert (bodies[0]["unfurl_links"], bodies[0]["unfurl_media"]) == (False, False)


async def test_reaction_is_added_once(sandbox: FaultySlack, slack: SlackClient) -> None:
    report = sandbox.workspace.post(REPORTS, REPORTER, "it breaks")
    await slack.add_reaction(REPORTS, report.ts, "eyes")
    await slack.add_reaction(REPORTS, report.ts, "eyes")
    assert report.reactions == {"eyes": [BOT_USER]}
    await slack.add_reaction(REPORTS, "1.000000", "eyes")
    with pytest.raises(Permanent):
        await slack.add_reaction("C0NOWHERE", report.ts, "eyes")


async def test_post_is_found_on_a_later_page_of_its_thread_or_channel(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    wanted = sandbox.workspace.post(
        SUMMARIES, BOT_USER, "x", bot_id=BOT_ID, metadata=_metadata("root")
    )
    for number in range(450):
        sandbox.workspace.post(SUMMARIES, DEVELOPER, "x")
        key = _metadata(f"k{number}")
        last = sandbox.workspace.post(
            SUMMARIES, BOT_USER, "x", thread_ts=wanted.ts, bot_id=BOT_ID, metadata=key
        )
    assert await slack.find_post(SUMMARIES, None, "root", 0) == wanted.ts
    assert await slack.find_post(SUMMARIES, wanted.ts, "k449", 0) == last.ts
    assert await slack.find_post(SUMMARIES, wanted.ts, "k450", 0) is None


async def test_older_post_or_another_apps_is_not_found(
    sandbox: FaultySlack, slack: SlackClient, clock: Clock
) -> None:
    sandbox.workspace.post(SUMMARIES, BOT_USER, "x", bot_id=BOT_ID, metadata=_metadata("k"))
    assert await slack.find_post(SUMMARIES, None, "k", clock() + 1) is None
    sandbox.workspace.post(
        SUMMARIES, BOT_USER, "x", bot_id=BOT_ID, metadata=_metadata("other", "deploy_done")
    )
    assert await slack.find_post(SUMMARIES, None, "other", 0) is None
    assert await slack.find_post(SUMMARIES, "1.000000", "k", 0) is None


async def test_message_is_read_with_its_author_and_its_files(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    file = sandbox.workspace.add_file("shot.png", REPORTER, b"png")
    root = sandbox.workspace.post(REPORTS, REPORTER, "it breaks", files=[file.id])
    sandbox.workspace.post(REPORTS, DEVELOPER, "since when?", thread_ts=root.ts)
    report = await slack.get_root(REPORTS, root.ts)
    assert report is not None
    assert (report.user, report.text, report.bot_id) == (REPORTER, "it breaks", "")
    assert [(each.id, each.name, each.mimetype, each.size) for each in report.files] == [
        (file.id, "shot.png", "image/png", 3)
    ]


async def test_deleted_message_is_none(sandbox: FaultySlack, slack: SlackClient) -> None:
    root = sandbox.workspace.post(REPORTS, REPORTER, "it breaks")
    reply = sandbox.workspace.post(REPORTS, REPORTER, "again", thread_ts=root.ts)
    sandbox.workspace.delete(REPORTS, root.ts)
    assert await slack.get_root(REPORTS, root.ts) is None
    sandbox.workspace.delete(REPORTS, reply.ts)
    assert await slack.get_root(REPORTS, root.ts) is None


async def test_metadata_of_a_root_names_its_case(sandbox: FaultySlack, slack: SlackClient) -> None:
    ours = await slack.post(SUMMARIES, "BUG-1", metadata=_metadata("BUG-1:root"))
    theirs = sandbox.workspace.post(SUMMARIES, DEVELOPER, "lunch?").ts
    roots = [await slack.get_root(SUMMARIES, ts) for ts in (ours, theirs, "1.000000")]
    assert [root.payload if root else None for root in roots] == [
        {"key": "BUG-1:root", "bug_id": "BUG-1"},
        {},
        None,
    ]


async def test_no_secret_leaves_in_a_text_or_in_a_block(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    block = {"type": "section", "text": {"type": "mrkdwn", "text": f"see {token}"}}
    ts = await slack.post(REPORTS, f"hello {token}", [block])
    said = sandbox.workspace.message(REPORTS, ts)
    assert said.text == "hello [redacted: GitHub token]"
    assert said.blocks[0]["text"]["text"] == "see [redacted: GitHub token]"


async def test_person_is_read_with_kind_and_workspace(
    sandbox: FaultySlack, slack: SlackClient
) -> None:
    sandbox.workspace.add_user(
        SandboxUser("U0GUEST", "guest", "guest", is_restricted=True, time_zone="Asia/Tokyo")
    )
    sandbox.workspace.add_user(
        SandboxUser("U0ELSE", "else", "else", is_stranger=True, team="T0ELSE")
    )
    assert await slack.user(REPORTER) == User(
        TEAM, name="reporter", time_zone="Etc/UTC", email="reporter@sandbox.invalid"
    )
    assert await slack.user("U0GUEST") == User(
        TEAM, guest=True, name="guest", time_zone="Asia/Tokyo", email="guest@sandbox.invalid"
    )
    assert (await slack.user(BOT_USER) or User()).bot
    assert await slack.user("U0ELSE") == User(
        "T0ELSE", external=True, name="else", time_zone="Etc/UTC", email="else@sandbox.invalid"
    )
    assert await slack.user("U0NOBODY") is None
    sandbox.faults.fail_before("users.info")
    with pytest.raises(Transient):
        await slack.user(REPORTER)


async def test_status_is_set_under_a_thread(serve: Serve, session: aiohttp.ClientSession) -> None:
    asked: list[tuple[str, dict[str, object]]] = []

    async def accept(request: web.Request) -> web.Response:
        asked.append((request.path, await request.json()))
        return web.json_response({"ok": True})

    await SlackClient(make_web_client("xoxb-test", await serve(accept), session)).set_status(
        "C1", "1.2", "is thinking"
    )
    [(path, given)] = asked
    assert path == "/assistant.threads.setStatus"
    assert (given["channel_id"], given["thread_ts"], given["status"]) == (
        "C1",
        "1.2",
        "is thinking",
    )
