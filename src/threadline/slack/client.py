"""The few calls to Slack's Web API that the product makes, named by their purpose."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.http_retry.builtin_async_handlers import AsyncRateLimitErrorRetryHandler
from slack_sdk.http_retry.request import HttpRequest
from slack_sdk.http_retry.response import HttpResponse
from slack_sdk.http_retry.state import RetryState
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse

from threadline.errors import Permanent, Transient
from threadline.privacy.redaction import redact, redact_value
from threadline.slack.errors import TOKEN_REFUSED, error_name, translated
from threadline.slack.model import FileRef, User
from threadline.slack.text import app_team_of, apps_of, files_of, read_text

CALL_TIMEOUT = 10.0
"""Seconds that one call may take, including a wait for Slack's rate limit. `threads.outbox` relies
on this limit.
"""
MAX_RETRY_AFTER = 5
"""The longest `Retry-After`, in seconds, for which a call keeps its worker slot; Temporal waits
for longer ones.
"""
POST_EVENT = "threadline_post"
"""The `event_type` of the metadata of each of our posts."""
_PAGE = 200
_UNKNOWN_USER = frozenset({"user_not_found", "user_not_visible"})
_MESSAGE_GONE = frozenset({"message_not_found", "thread_not_found"})
_NOTHING_TO_DO = frozenset({"already_reacted", "no_reaction", "message_not_found"})


class _Client(AsyncWebClient):
    """Limits the time of each call: with a shared session, the SDK ignores its own timeout."""

    async def api_call(self, api_method: str, **arguments: Any) -> AsyncSlackResponse:
        async with asyncio.timeout(CALL_TIMEOUT):
            return await super().api_call(api_method, **arguments)


class _ShortPause(AsyncRateLimitErrorRetryHandler):
    """Waits once, and only if Slack asks for a short time; any other 429 reaches the caller."""

    async def _can_retry_async(
        self,
        *,
        state: RetryState,
        request: HttpRequest,
        response: HttpResponse | None = None,
        error: Exception | None = None,
    ) -> bool:
        if error is not None or response is None or response.status_code != 429:
            return False
        pause = next(
            (
                values[0]
                for name, values in response.headers.items()
                if name.lower() == "retry-after"
            ),
            "",
        )
        return pause.isdecimal() and int(pause) <= MAX_RETRY_AFTER


def make_web_client(
    token: str, base_url: str | None, session: aiohttp.ClientSession
) -> AsyncWebClient:
    """Create a client that leaves retrying to Temporal.

    Args:
        base_url: address of the Web API; None for Slack's own. Any other address is called without
            a proxy.
        session: shared by all clients of the process; the caller closes it.
    """
    client = _Client(
        token=token,
        base_url=base_url or AsyncWebClient.BASE_URL,
        timeout=int(CALL_TIMEOUT),
        session=session,
        retry_handlers=[_ShortPause(max_retry_count=1)],
    )
    if base_url:
        # the SDK applies HTTPS_PROXY by itself, and a proxy cannot reach the sandbox on this
        # machine
        client.proxy = None
    return client


@asynccontextmanager
async def open_web_client(token: str, base_url: str | None) -> AsyncIterator[AsyncWebClient]:
    """Open a client with the process's one HTTP session, until the block ends."""
    async with aiohttp.ClientSession() as session:
        yield make_web_client(token, base_url, session)


@dataclass(frozen=True)
class SlackMessage:
    """A message as Slack has it now.

    - `user`: empty for a bot without a user;
    - `payload`: the metadata of one of our posts (`key` and its owner); empty for any other
      message;
    - `forwarded`: the text that the author forwards or quotes;
    - `apps`: the apps through which it was posted, and `app_team` the workspace of their
      installation; see `slack.text`.
    """

    ts: str
    text: str
    user: str = ""
    bot_id: str = ""
    files: tuple[FileRef, ...] = ()
    forwarded: str = ""
    payload: Mapping[str, Any] = field(default_factory=dict)
    apps: tuple[str, ...] = ()
    app_team: str = ""


class SlackClient:
    """Every method raises `Permanent` or `Transient`, translated by `slack.errors`."""

    def __init__(self, client: AsyncWebClient) -> None:
        self.client = client

    async def post(
        self,
        channel: str,
        text: str,
        blocks: Sequence[Mapping[str, Any]] = (),
        thread_ts: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Send a message with secrets redacted, and return its `ts`. Not idempotent:
        `threads.outbox` makes it so.
        """
        async with translated(f"channel {channel}"):
            answer = await self.client.chat_postMessage(
                channel=channel,
                text=redact(text),
                blocks=[redact_value(block) for block in blocks] or None,
                thread_ts=thread_ts,
                metadata=None if metadata is None else dict(metadata),
                unfurl_links=False,
                unfurl_media=False,
            )
        return str(answer["ts"])

    async def update(
        self, channel: str, ts: str, text: str, blocks: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Replace the text and blocks of one of our messages; return false if it was deleted. Its
        metadata stays.
        """
        async with translated(f"channel {channel}"):
            try:
                shown = [redact_value(block) for block in blocks]
                await self.client.chat_update(
                    channel=channel, ts=ts, text=redact(text), blocks=shown
                )
            except SlackApiError as exc:
                if error_name(exc) not in _MESSAGE_GONE:
                    raise
                return False
        return True

    async def post_ephemeral(self, channel: str, user: str, text: str, thread_ts: str) -> None:
        """Post a text in a thread that only one person sees. Not idempotent."""
        async with translated(f"channel {channel}"):
            await self.client.chat_postEphemeral(
                channel=channel, user=user, text=redact(text), thread_ts=thread_ts
            )

    async def open_view(self, trigger_id: str, view: Mapping[str, Any]) -> None:
        """Open a modal for the person whose press created the trigger; Slack accepts that for
        three seconds. See https://docs.slack.dev/reference/methods/views.open.
        """
        async with translated("the modal"):
            await self.client.views_open(trigger_id=trigger_id, view=dict(view))

    async def add_reaction(self, channel: str, ts: str, name: str) -> None:
        """Put an emoji on a message; succeeds also if it is there already, or the message was
        deleted.
        """
        async with translated(f"channel {channel}"):
            try:
                await self.client.reactions_add(channel=channel, timestamp=ts, name=name)
            except SlackApiError as exc:
                if error_name(exc) not in _NOTHING_TO_DO:
                    raise

    async def remove_reaction(self, channel: str, ts: str, name: str) -> None:
        """Take our emoji off a message; succeeds also if it is not there, or the message was
        deleted.
        """
        async with translated(f"channel {channel}"):
            try:
                await self.client.reactions_remove(channel=channel, timestamp=ts, name=name)
            except SlackApiError as exc:
                if error_name(exc) not in _NOTHING_TO_DO:
                    raise

    async def find_post(
        self,
        channel: str,
        thread_ts: str | None,
        key: str,
        oldest: float,
        *,
        is_other: Callable[[str, Mapping[str, Any]], bool] = lambda ts, payload: False,
    ) -> str | None:
        """Return the `ts` of our post with this key; None if there is none. See `own_posts` for
        the place.

        Args:
            is_other: whether a post with this key, given its `ts` and its payload, is a different
                one.
        """
        async with aclosing(self.own_posts(channel, thread_ts, oldest)) as found:
            async for ts, payload in found:
                if payload.get("key") == key and not is_other(ts, payload):
                    return ts
        return None

    async def own_posts(
        self, channel: str, thread_ts: str | None, oldest: float
    ) -> AsyncGenerator[tuple[str, Mapping[str, Any]], None]:
        """Yield our posts in a place, each as its `ts` and payload. Reads every page.

        Args:
            thread_ts: the thread; None for the messages in the channel itself.
            oldest: seconds since 1970.
        """
        fetch = partial(self.client.conversations_history, channel=channel)
        if thread_ts:
            fetch = partial(self.client.conversations_replies, channel=channel, ts=thread_ts)
        window: dict[str, Any] = {
            "oldest": f"{max(oldest, 0):.6f}",
            "limit": _PAGE,
            "include_all_metadata": True,
        }
        async with aclosing(pages(fetch, f"channel {channel}", **window)) as found:
            async for page in found:
                for message in page.get("messages") or ():
                    if payload := post_payload(message):
                        yield str(message["ts"]), payload

    async def get_root(self, channel: str, ts: str) -> SlackMessage | None:
        """Return the message at `ts` of the channel itself, replies excluded; None if it was
        deleted.
        """
        fetch = partial(
            self.client.conversations_history, channel=channel, include_all_metadata=True
        )
        page = await fetch_page(
            fetch, f"channel {channel}", oldest=ts, latest=ts, inclusive=True, limit=1
        )
        found = (
            raw
            for raw in page.get("messages") or ()
            if raw.get("ts") == ts and raw.get("subtype") != "tombstone"
        )
        return next((message_of(raw) for raw in found), None)

    async def user(self, user: str) -> User | None:
        """Return a user; None if Slack does not know this id, or does not show the user to the
        bot.
        """
        async with translated(f"user {user}"):
            try:
                answer = await self.client.users_info(user=user)
            except SlackApiError as exc:
                if error_name(exc) in _UNKNOWN_USER:
                    return None
                raise
        told: Mapping[str, Any] = answer.get("user") or {}
        profile: Mapping[str, Any] = told.get("profile") or {}
        on_grid: Mapping[str, Any] = told.get("enterprise_user") or {}
        return User(
            team=str(told.get("team_id") or ""),
            other_teams=frozenset(map(str, on_grid.get("teams") or ())),
            guest=bool(told.get("is_restricted") or told.get("is_ultra_restricted")),
            external=bool(told.get("is_stranger")),
            name=str(
                profile.get("display_name") or profile.get("real_name") or told.get("name") or ""
            ),
            time_zone=str(told.get("tz") or ""),
            bot=bool(told.get("is_bot")),
            email=str(profile.get("email") or ""),
            deactivated=bool(told.get("deleted")),
        )

    async def user_group(self, group: str) -> frozenset[str]:
        """Return the members of a user group.

        Raises:
            Permanent: there is no such group, or the scope `usergroups:read` is missing.
            Transient: Slack did not answer.
        """
        async with translated(f"user group {group}"):
            answer = await self.client.usergroups_users_list(usergroup=group)
        return frozenset(map(str, answer.get("users") or ()))

    async def set_status(self, channel: str, thread_ts: str, words: str) -> None:
        """Show under a thread the bot's current activity, until the bot posts there; an empty text
        clears it. See https://docs.slack.dev/reference/methods/assistant.threads.setStatus.
        """
        async with translated(f"channel {channel}"):
            await self.client.assistant_threads_setStatus(
                channel_id=channel, thread_ts=thread_ts, status=words
            )


@dataclass(frozen=True)
class BotIdentity:
    """The owner of the bot token. `name` is the bot user's, `url` the address of the workspace;
    both may be empty. `enterprise_id` is that of its Enterprise Grid; empty outside of one.
    """

    team_id: str
    user_id: str
    bot_id: str
    name: str = ""
    url: str = ""
    enterprise_id: str = ""


async def identify(client: AsyncWebClient) -> BotIdentity:
    """Ask Slack for the bot's identity, by which its own posts differ from people's.

    Raises:
        Permanent: Slack refuses the token, or it is not a bot token.
        Transient: Slack did not answer.
    """
    try:
        answer = await client.auth_test()
    except SlackApiError as exc:
        error = error_name(exc)
        if error in TOKEN_REFUSED:
            raise Permanent(
                f"Slack refuses the bot token ({error}): set SLACK_BOT_TOKEN to the Bot User "
                "OAuth Token (xoxb-…) of the installed app"
            ) from exc
        raise Transient(
            f"Slack did not identify the bot ({error}); see https://slack-status.com"
        ) from exc
    except (aiohttp.ClientError, TimeoutError, OSError) as exc:
        raise Transient(
            f"Slack cannot be reached at {client.base_url}: check this machine's network access"
        ) from exc
    if not answer.get("bot_id"):
        raise Permanent(
            "SLACK_BOT_TOKEN is not a bot token: set the Bot User OAuth Token (xoxb-…) of "
            "the installed app"
        )
    names = ("team_id", "user_id", "bot_id", "url", "enterprise_id")
    found = {name: str(answer.get(name) or "") for name in names}
    return BotIdentity(name=str(answer.get("user") or ""), **found)


async def fetch_page(fetch: Callable[..., Any], where: str, **arguments: Any) -> Mapping[str, Any]:
    """Fetch one page of a Slack method; empty for a deleted thread. `where`: see
    `slack.errors.translated`.
    """
    async with translated(where):
        try:
            page = await fetch(**arguments)
        except SlackApiError as exc:
            if error_name(exc) == "thread_not_found":
                return {}
            raise
    data: Mapping[str, Any] = page.data
    return data


async def pages(
    fetch: Callable[..., Any],
    where: str,
    limiter: Callable[[], Awaitable[None]] | None = None,
    **arguments: Any,
) -> AsyncGenerator[Mapping[str, Any], None]:
    """Yield every page, by Slack's cursor. `limiter` is awaited before each call."""
    cursor: str | None = None
    while True:
        if limiter:
            await limiter()
        page = await fetch_page(fetch, where, cursor=cursor, **arguments)
        yield page
        cursor = next_cursor(page)
        if not cursor:
            return


def next_cursor(page: Mapping[str, Any]) -> str | None:
    """Return the cursor of the next page; None on the last."""
    return (page.get("response_metadata") or {}).get("next_cursor") or None


def post_payload(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the payload of one of our posts from its JSON; empty for any other message."""
    metadata = message.get("metadata") or {}
    return (
        (metadata.get("event_payload") or {}) if metadata.get("event_type") == POST_EVENT else {}
    )


def message_of(raw: Mapping[str, Any]) -> SlackMessage:
    """Build a message from its JSON in one of Slack's pages."""
    told = read_text(raw)
    return SlackMessage(
        ts=str(raw["ts"]),
        text=told.text,
        user=str(raw.get("user") or ""),
        bot_id=str(raw.get("bot_id") or ""),
        files=files_of(raw),
        forwarded=told.forwarded,
        payload=post_payload(raw),
        apps=apps_of(raw),
        app_team=app_team_of(raw),
    )
