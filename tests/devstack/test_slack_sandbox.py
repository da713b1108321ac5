"""The Web API, as the real client sees it."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from tests.chaos.plan import seeded_random
from tests.chaos.weather import Weather
from tests.devstack.conftest import SlackServer
from tests.support.faulty_sandboxes import FaultySlack, OrderedSlackFaults
from tests.support.patience import patient
from threadline_devstack.slack.faults import CallFault
from threadline_devstack.slack.identity import (
    APP_TOKEN,
    BOT_ID,
    BOT_TOKEN,
    BOT_USER,
    BYSTANDER,
    GENERAL,
    REPORTER,
    REPORTS,
    SLACKBOT,
    TEAM,
)


@pytest_asyncio.fixture(loop_scope="module")
async def slack(slack_server: SlackServer) -> AsyncIterator[FaultySlack]:
    async with slack_server.sandbox(retry_delays=(), ack_timeout=0.05) as sandbox:
        yield sandbox


@pytest.fixture
def client(slack: FaultySlack) -> AsyncWebClient:
    return AsyncWebClient(token=BOT_TOKEN, base_url=slack.api_url)


async def refusal(call: Any) -> str:
    with pytest.raises(SlackApiError) as caught:
        await call
    return str(caught.value.response["error"])


async def test_the_bot_learns_its_identity(client: AsyncWebClient) -> None:
    answer = await client.auth_test()
    assert (answer["team_id"], answer["user_id"], answer["bot_id"]) == (TEAM, BOT_USER, BOT_ID)


async def test_a_wrong_or_missing_token_is_refused(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    assert (
        await refusal(AsyncWebClient(token="xoxb-other", base_url=slack.api_url).auth_test())
        == "invalid_auth"
    )
    assert await refusal(AsyncWebClient(base_url=slack.api_url).auth_test()) == "not_authed"
    assert (
        await refusal(client.apps_connections_open(app_token=BOT_TOKEN))
        == "not_allowed_token_type"
    )
    assert (await client.apps_connections_open(app_token=APP_TOKEN))["url"].startswith(
        "ws://127.0.0.1:"
    )


async def test_an_unknown_method_is_refused_by_name(client: AsyncWebClient) -> None:
    assert await refusal(client.api_call("chat.shout")) == "unknown_method"


async def test_a_post_is_stored_with_its_blocks_and_metadata(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    metadata = {"event_type": "case", "event_payload": {"key": "BUG-1:1"}}
    posted = await client.chat_postMessage(
        channel=REPORTS,
        text="Found it",
        blocks=[{"type": "markdown", "text": "**Found** it"}],
        metadata=metadata,
    )
    bare = (await client.conversations_history(channel=REPORTS))["messages"][0]
    full = (await client.conversations_history(channel=REPORTS, include_all_metadata=True))[
        "messages"
    ][0]
    assert bare["ts"] == posted["ts"]
    assert bare["bot_id"] == BOT_ID
    assert bare["blocks"][0]["text"] == "**Found** it"
    assert "metadata" not in bare
    assert full["metadata"] == metadata


async def test_a_call_may_be_sent_as_a_form(slack: FaultySlack) -> None:
    form = {"channel": REPORTS, "text": "hi", "blocks": '[{"type": "divider"}]'}
    headers = {"Authorization": f"Bearer {BOT_TOKEN}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{slack.api_url}chat.postMessage", data=form, headers=headers) as response,
    ):
        answer = await response.json()
    assert answer["ok"]
    assert answer["message"]["blocks"][0]["type"] == "divider"


def table(rows: list[list[str]]) -> dict[str, Any]:
    return {
        "type": "table",
        "rows": [[{"type": "raw_text", "text": text} for text in row] for row in rows],
    }


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"channel": "C0NOWHERE", "text": "x"}, "channel_not_found"),
        ({"channel": REPORTS}, "no_text"),
        ({"channel": REPORTS, "text": "x" * 40_001}, "msg_too_long"),
        ({"channel": REPORTS, "text": "x", "blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
        ({"channel": REPORTS, "text": "x", "blocks": [{"type": "section"}]}, "invalid_blocks"),
        (
            {"channel": REPORTS, "text": "x", "blocks": [{"type": "divider"}] * 51},
            "invalid_blocks",
        ),
        (
            {
                "channel": REPORTS,
                "text": "x",
                "blocks": [{"type": "markdown", "text": "y" * 12_001}],
            },
            "invalid_blocks",
        ),
        (
            {
                "channel": REPORTS,
                "text": "x",
                "blocks": [{"type": "markdown", "text": "y" * 7_000}] * 2,
            },
            "msg_blocks_too_long",
        ),
        (
            {"channel": REPORTS, "text": "x", "blocks": [{"type": "table", "rows": []}]},
            "invalid_blocks",
        ),
        ({"channel": REPORTS, "text": "x", "blocks": [table([["a"]] * 101)]}, "invalid_blocks"),
        ({"channel": REPORTS, "text": "x", "blocks": [table([["a"] * 21])]}, "invalid_blocks"),
        ({"channel": REPORTS, "text": "x", "blocks": [table([[""]])]}, "invalid_blocks"),
        ({"channel": REPORTS, "text": "x", "blocks": [table([["a" * 10_001]])]}, "invalid_blocks"),
        ({"channel": REPORTS, "text": "x", "blocks": [table([["a"]])] * 2}, "invalid_attachments"),
        ({"channel": REPORTS, "text": "x", "thread_ts": "1.000001"}, "thread_not_found"),
        (
            {"channel": REPORTS, "text": "x", "metadata": {"event_type": ""}},
            "invalid_metadata_format",
        ),
    ],
)
async def test_a_post_is_refused_by_the_name_slack_uses(
    client: AsyncWebClient, arguments: dict[str, Any], error: str
) -> None:
    assert await refusal(client.api_call("chat.postMessage", json=arguments)) == error


async def test_an_archived_channel_and_a_removed_bot_refuse_posts(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    slack.workspace.leave(GENERAL, BOT_USER)
    slack.workspace.archive(REPORTS)
    assert await refusal(client.chat_postMessage(channel=GENERAL, text="x")) == "not_in_channel"
    assert await refusal(client.chat_postMessage(channel=REPORTS, text="x")) == "is_archived"
    assert (await client.conversations_info(channel=REPORTS))["channel"]["is_archived"]
    slack.workspace.join(GENERAL, BOT_USER)
    assert (await client.chat_postMessage(channel=GENERAL, text="x"))["ok"]


async def test_the_bot_edits_its_own_posts_only(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    posted = await client.chat_postMessage(
        channel=REPORTS, text="one", blocks=[{"type": "divider"}]
    )
    await client.chat_update(channel=REPORTS, ts=posted["ts"], text="two")
    shown = (await client.conversations_history(channel=REPORTS))["messages"][0]
    assert shown["text"] == "two"
    assert shown["edited"]["user"] == BOT_USER
    other = slack.workspace.post(REPORTS, REPORTER, "mine")
    assert (
        await refusal(client.chat_update(channel=REPORTS, ts=other.ts, text="x"))
        == "cant_update_message"
    )


async def test_an_ephemeral_post_is_in_no_history(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    await client.chat_postEphemeral(channel=REPORTS, user=REPORTER, text="only you")
    assert (await client.conversations_history(channel=REPORTS))["messages"] == []
    assert slack.workspace.ephemerals[0]["ephemeral_to"] == REPORTER


async def test_reactions_are_counted_once_a_user(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    ts = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    await client.reactions_add(channel=REPORTS, timestamp=ts, name="eyes")
    slack.workspace.react(REPORTS, ts, BYSTANDER, "eyes")
    assert (
        await refusal(client.reactions_add(channel=REPORTS, timestamp=ts, name="eyes"))
        == "already_reacted"
    )
    shown = (await client.conversations_history(channel=REPORTS))["messages"][0]["reactions"]
    assert shown == [{"name": "eyes", "users": [BOT_USER, BYSTANDER], "count": 2}]
    await client.reactions_remove(channel=REPORTS, timestamp=ts, name="eyes")
    assert (
        await refusal(client.reactions_remove(channel=REPORTS, timestamp=ts, name="eyes"))
        == "no_reaction"
    )
    assert (
        await refusal(client.reactions_add(channel=REPORTS, timestamp="1.1", name="eyes"))
        == "message_not_found"
    )


async def test_timestamps_rise_even_when_the_clock_stops() -> None:
    async with FaultySlack.running(
        clock=lambda: 1_700_000_000.5, retry_delays=(), ack_timeout=0.05
    ) as slack:
        stamps = [slack.workspace.post(REPORTS, REPORTER, "x").ts for _ in range(3)]
    assert stamps == ["1700000000.500000", "1700000000.500001", "1700000000.500002"]


async def test_history_pages_newest_first_and_without_replies(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    roots = [slack.workspace.post(REPORTS, REPORTER, f"report {n}").ts for n in range(5)]
    slack.workspace.post(REPORTS, REPORTER, "a reply", thread_ts=roots[0])
    shared = slack.workspace.post(
        REPORTS, REPORTER, "also here", thread_ts=roots[0], broadcast=True
    ).ts
    seen: list[str] = []
    async for page in await client.conversations_history(channel=REPORTS, limit=2):
        assert len(page["messages"]) <= 2
        seen += [message["ts"] for message in page["messages"]]
    assert seen == [shared, *reversed(roots)]


async def test_bounds_are_open_unless_inclusive(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    stamps = [slack.workspace.post(REPORTS, REPORTER, "x").ts for _ in range(4)]
    bounds: dict[str, Any] = {"channel": REPORTS, "oldest": stamps[0], "latest": stamps[3]}
    between = await client.conversations_history(**bounds)
    within = await client.conversations_history(**bounds, inclusive=True)
    assert [message["ts"] for message in between["messages"]] == [stamps[2], stamps[1]]
    assert [message["ts"] for message in within["messages"]] == stamps[::-1]
    assert (
        await refusal(client.conversations_history(channel=REPORTS, cursor="nonsense"))
        == "invalid_cursor"
    )


async def test_replies_come_oldest_first_after_their_root(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    root = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    replies = [
        slack.workspace.post(REPORTS, BYSTANDER, f"{n}", thread_ts=root).ts for n in range(3)
    ]
    seen = [
        message
        async for page in await client.conversations_replies(channel=REPORTS, ts=root, limit=2)
        for message in page["messages"]
    ]
    assert [message["ts"] for message in seen] == [root, *replies]
    assert seen[0]["reply_count"] == 3
    assert seen[0]["reply_users"] == [BYSTANDER]
    assert {message["parent_user_id"] for message in seen[1:]} == {REPORTER}
    later = await client.conversations_replies(channel=REPORTS, ts=root, oldest=replies[1])
    assert [message["ts"] for message in later["messages"]] == [root, replies[2]]
    assert (
        await refusal(client.conversations_replies(channel=REPORTS, ts="1.000001"))
        == "thread_not_found"
    )


async def test_a_deleted_root_with_replies_stays_as_a_tombstone(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    root = slack.workspace.post(REPORTS, REPORTER, "secret").ts
    slack.workspace.post(REPORTS, BYSTANDER, "answer", thread_ts=root)
    slack.workspace.delete(REPORTS, root, by=REPORTER)
    first = (await client.conversations_replies(channel=REPORTS, ts=root))["messages"][0]
    assert (first["subtype"], first["user"], first["text"]) == (
        "tombstone",
        SLACKBOT,
        "This message was deleted.",
    )


async def test_people_and_places_are_listed(client: AsyncWebClient) -> None:
    names = {channel["name"] for channel in (await client.users_conversations())["channels"]}
    assert names == {"bug-reports", "bug-summaries", "bug-escalations", "general"}
    assert REPORTER in (await client.conversations_members(channel=REPORTS))["members"]
    assert (await client.users_info(user=REPORTER))["user"]["name"] == "reporter"
    assert await refusal(client.users_info(user="U0NOBODY")) == "user_not_found"


async def test_a_user_has_one_direct_channel(slack: FaultySlack, client: AsyncWebClient) -> None:
    posted = await client.chat_postMessage(channel=REPORTER, text="hello")
    assert posted["channel"] == slack.workspace.open_im(REPORTER).id
    assert posted["channel"].startswith("D")


async def test_a_file_is_uploaded_and_downloaded_only_by_the_bot(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    root = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    content = b"<html>a log</html>"
    uploaded = await client.files_upload_v2(
        channel=REPORTS,
        thread_ts=root,
        filename="the log.txt",
        content=content,
        initial_comment="see",
    )
    file = (await client.files_info(file=uploaded["file"]["id"]))["file"]
    shown = (await client.conversations_replies(channel=REPORTS, ts=root))["messages"][1]
    assert (shown["text"], shown["subtype"], shown["files"][0]["size"]) == (
        "see",
        "file_share",
        len(content),
    )
    async with aiohttp.ClientSession() as session:
        token = {"Authorization": f"Bearer {BOT_TOKEN}"}
        async with session.get(file["url_private_download"], headers=token) as response:
            assert await response.read() == content
        async with session.get(file["url_private_download"]) as response:
            assert (response.status, response.content_type) == (200, "text/html")
            assert "Sign in" in await response.text()


async def test_a_file_is_announced_sent_and_completed_in_a_thread(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    root = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    assert (
        await refusal(client.files_getUploadURLExternal(filename="", length=3))
        == "invalid_arguments"
    )
    begun = await client.files_getUploadURLExternal(filename="the log.txt", length=3)
    complete = partial(
        client.files_completeUploadExternal,
        files=[{"id": begun["file_id"], "title": "The log"}],
        channel_id=REPORTS,
        thread_ts=root,
    )
    assert await refusal(complete()) == "file_not_found"
    async with (
        aiohttp.ClientSession() as session,
        session.post(begun["upload_url"], data=b"log") as response,
    ):
        assert (response.status, await response.text()) == (200, "OK - 3")
    assert len((await client.conversations_replies(channel=REPORTS, ts=root))["messages"]) == 1, (
        "nothing shows it yet"
    )
    done = await complete(initial_comment="see")
    assert [(each["id"], each["title"]) for each in done["files"]] == [
        (begun["file_id"], "The log")
    ]
    _, shown = (await client.conversations_replies(channel=REPORTS, ts=root))["messages"]
    (file,) = shown["files"]
    assert (shown["text"], file["name"], file["title"]) == ("see", "the log.txt", "The log")


async def test_a_deleted_file_leaves_a_tombstone_in_its_message(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    root = slack.workspace.post(REPORTS, REPORTER, "bug").ts
    uploaded = await client.files_upload_v2(
        channel=REPORTS, thread_ts=root, filename="log.txt", content=b"log"
    )
    identity = uploaded["file"]["id"]
    address = (await client.files_info(file=identity))["file"]["url_private_download"]
    await client.files_delete(file=identity)
    _, shown = (await client.conversations_replies(channel=REPORTS, ts=root))["messages"]
    assert shown["files"] == [{"id": identity, "mode": "tombstone"}]
    assert await refusal(client.files_info(file=identity)) == "file_deleted"
    assert await refusal(client.files_delete(file=identity)) == "file_deleted"
    token = {"Authorization": f"Bearer {BOT_TOKEN}"}
    async with aiohttp.ClientSession() as session, session.get(address, headers=token) as response:
        assert response.status == 404
    theirs = slack.workspace.add_file("brief.pdf", REPORTER, b"%PDF-1.4")
    assert await refusal(client.files_delete(file=theirs.id)) == "cant_delete_file"


async def test_a_file_names_its_channels_and_lists_direct_messages_separately(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    file = slack.workspace.add_file("brief.pdf", REPORTER, b"%PDF-1.4")
    unshared = (await client.files_info(file=file.id))["file"]
    assert (unshared["channels"], unshared["ims"], unshared["is_public"]) == ([], [], False)
    direct = slack.workspace.open_im(REPORTER).id
    shown = slack.workspace.post(REPORTS, REPORTER, "see", files=[file.id]).ts
    slack.workspace.post(direct, REPORTER, "see", files=[file.id])
    told = (await client.files_info(file=file.id))["file"]
    assert (told["channels"], told["groups"], told["ims"], told["is_public"]) == (
        [REPORTS],
        [],
        [direct],
        True,
    )
    assert told["shares"]["public"] == {REPORTS: [{"ts": shown}]}
    assert set(told["shares"]["private"]) == {direct}


async def test_a_download_can_show_a_login_page_or_fail_and_a_file_can_announce_another_size(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    file = slack.workspace.add_file("brief.pdf", REPORTER, b"%PDF-1.4")
    file.announced = 60
    told = (await client.files_info(file=file.id))["file"]
    assert told["size"] == 60
    slack.faults.login_page()
    slack.faults.fail_before("files.download")
    slack.faults.rate_limit("files.download", retry_after=7)
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {BOT_TOKEN}"}) as session:
        async with session.get(told["url_private"]) as response:
            assert (response.status, response.content_type) == (200, "text/html")
        async with session.get(told["url_private"]) as response:
            assert response.status == 500
        async with session.get(told["url_private"]) as response:
            assert (response.status, response.headers["Retry-After"]) == (429, "7")
        async with session.get(told["url_private"]) as response:
            assert await response.read() == b"%PDF-1.4"


async def test_a_rate_limit_names_its_seconds_and_stores_nothing(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    slack.faults.rate_limit("chat.postMessage", retry_after=7)
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=REPORTS, text="x")
    assert (caught.value.response.status_code, caught.value.response.headers["Retry-After"]) == (
        429,
        "7",
    )
    await client.chat_postMessage(channel=REPORTS, text="y")
    assert [message.text for message in slack.workspace.channel(REPORTS).messages.values()] == [
        "y"
    ]


async def test_a_refusal_has_slacks_name_and_stores_nothing(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    slack.faults.refuse("chat.postMessage", "missing_scope")
    with pytest.raises(SlackApiError) as caught:
        await client.chat_postMessage(channel=REPORTS, text="x")
    assert (caught.value.response.status_code, caught.value.response["error"]) == (
        200,
        "missing_scope",
    )
    assert slack.workspace.channel(REPORTS).messages == {}


async def test_a_failure_comes_before_or_after_storing(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    slack.faults.fail_before("chat.postMessage")
    slack.faults.fail_after("chat.postMessage")
    for text in ("lost", "kept"):
        with pytest.raises(SlackApiError) as caught:
            await client.chat_postMessage(channel=REPORTS, text=text)
        assert caught.value.response.status_code == 500
    assert [message.text for message in slack.workspace.channel(REPORTS).messages.values()] == [
        "kept"
    ]


async def test_a_slow_answer_comes_after_its_post_is_stored(
    slack: FaultySlack, client: AsyncWebClient
) -> None:
    slack.faults.slow("chat.postMessage", seconds=2)
    stored = asyncio.Event()
    slack.workspace.listeners.append(lambda _: stored.set())
    posting = asyncio.create_task(client.chat_postMessage(channel=REPORTS, text="stored"))
    async with asyncio.timeout(patient(5)):
        await stored.wait()
    assert not posting.done()
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting


def test_weather_is_the_same_for_the_same_seed_and_spares_other_methods() -> None:
    def throws(seed: int) -> list[object]:
        weather = Weather(
            seeded_random(str(seed)),
            duplicated=0.5,
            delayed=0.5,
            rate_limited=0.3,
            error_after=0.3,
            slow=0.3,
        )
        return [
            step
            for _ in range(20)
            for step in (weather.delivery(), weather.call("chat.postMessage"))
        ]

    assert throws(1) == throws(1)
    assert throws(1) != throws(2)
    kinds = {fault.kind for fault in throws(1) if isinstance(fault, CallFault)}
    assert kinds == {"rate_limited", "error_after", "slow"}
    assert Weather(seeded_random("1"), slow=1.0).call("auth.test") is None


def test_ordered_faults_come_before_the_weather_and_clear_ends_both() -> None:
    faults = OrderedSlackFaults()
    faults.chance = Weather(seeded_random("1"), duplicated=1.0, error_before=1.0)
    faults.rate_limit("chat.postMessage")
    assert faults.ordered("chat.postMessage") == 1
    assert faults.next_call("chat.postMessage") == CallFault("rate_limited", 1.0)
    assert faults.next_call("chat.postMessage") == CallFault("error_before")
    faults.drop()
    assert [faults.next_delivery().copies for _ in range(2)] == [0, 2]
    faults.clear()
    assert faults.next_call("chat.postMessage") is None
    assert faults.next_delivery().copies == 1
