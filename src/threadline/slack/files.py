"""Files: what people attach, fetched from Slack's own host alone; and what the bot shows.

Slack keeps no key with a file, so the title of one that the bot shows stands for a key: it is searched for in the
thread before it is sent again; `threads.outbox.Outbox.share` does so.
See https://docs.slack.dev/messaging/working-with-files#upload.
"""

import asyncio
import io
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from threadline.errors import Permanent, Transient, before_a_change
from threadline.slack.client import CALL_TIMEOUT, SlackClient, pages
from threadline.slack.errors import error_name, translate, translated

MAX_BYTES = 10 * 1024 * 1024
DOWNLOAD_TOTAL = 60.0
"""Seconds for one file."""
_UPLOAD_RATE = 256 * 1024
"""Bytes in a second that an upload is expected to pass at least."""
_PAGE = 200
_CHUNK = 64 * 1024
_READABLE = re.compile(
    r"image/(?:png|jpeg|gif|webp)|text/(?!html)[\w.+-]+"
    r"|application/(?:json|xml|yaml|x-yaml|toml|sql|javascript|x-javascript|x-sh|x-ndjson|[\w.-]+\+(?:json|xml))"
)
_HIDDEN = ("tombstone", "hidden_by_limit")
_FILE_GONE = frozenset({"file_deleted", "file_not_found"})
_UNSAFE = re.compile(r"[^\w .()+-]")


class FileProblem(StrEnum):
    """A reason for which the bytes of a file cannot be had."""

    GONE = "gone"
    TOO_LARGE = "too_large"
    OUTSIDE = "outside"
    """Kept by another provider, and only linked in Slack."""
    UNREADABLE = "unreadable"
    """Slack does not let the bot read it."""


class FileRefused(Permanent):
    """The message is for the log and the admin: it holds ids and advice."""

    def __init__(self, message: str, problem: FileProblem) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True)
class SharedFile:
    """A file as Slack tells of it before anybody loads it; see https://docs.slack.dev/reference/objects/file-object.
    `name` is safe as a file's name: no folders, no leading dot, at most 120 characters. `size`: bytes, as announced.
    `channels`: where it is shared, be they channels, groups or direct messages. `user` has uploaded it.
    `permalink`: its page in Slack; empty where Slack tells none."""

    id: str
    name: str
    mimetype: str
    size: int
    channels: frozenset[str]
    url: str
    mode: str
    user: str = ""
    permalink: str = ""


async def file_info(client: AsyncWebClient, file_id: str) -> SharedFile:
    """What Slack says of a file; it is looked up anew, since an event may say no more of it than `check_file_info`.
    Raises `Permanent` when the file is gone, or lies where the bot is not, and `Transient` without an answer."""
    async with translated(f"file {file_id}"):
        try:
            info: Mapping[str, Any] = (await client.files_info(file=file_id)).get("file") or {}
        except SlackApiError as exc:
            if error_name(exc) not in _FILE_GONE:
                raise
            raise FileRefused(str(translate(exc, f"file {file_id}")), FileProblem.GONE) from exc
    name = str(info.get("name") or info.get("title") or "").replace("\\", "/").rsplit("/", 1)[-1]
    places = [place for kind in ("channels", "groups", "ims") for place in info.get(kind) or ()]
    places += [place for shares in (info.get("shares") or {}).values() for place in shares]
    return SharedFile(
        id=file_id,
        name=_UNSAFE.sub("_", name).lstrip(". ")[-120:] or "attachment",
        mimetype=str(info.get("mimetype") or ""),
        size=int(info.get("size") or 0),
        channels=frozenset(map(str, places)),
        url=str(info.get("url_private_download") or info.get("url_private") or ""),
        mode=str(info.get("mode") or ""),
        user=str(info.get("user") or ""),
        permalink=str(info.get("permalink") or ""),
    )


async def fetch(
    client: AsyncWebClient, file: SharedFile, *, max_bytes: int = MAX_BYTES, seconds: float = DOWNLOAD_TOTAL
) -> bytes:
    """The bytes of a file; one that announces too many is not asked for, and of one that brings more, no more is read.
    `client`: made by `slack.client.make_web_client`; it lends its session, its token and its address. `seconds`: for
    all of it. Raises `Permanent` when the file is gone, too large, or not in Slack, or Slack shows its login page
    instead, and `Transient` when Slack did not answer."""
    if file.mode in _HIDDEN:
        raise FileRefused(
            f"{file.name} was deleted, or is hidden by the limits of the workspace's plan: upload it again.",
            FileProblem.GONE,
        )
    if file.size > max_bytes:
        raise _too_large(file.name, max_bytes)
    # The token is shown to the API's host and its files' host alone, by the same scheme.
    target, api = urlsplit(file.url), urlsplit(client.base_url)
    if target.scheme != api.scheme or target.netloc not in (api.netloc, f"files.{api.netloc}"):
        raise FileRefused(f"{file.name} is kept outside Slack: upload the file itself.", FileProblem.OUTSIDE)
    headers, content = {"Authorization": f"Bearer {client.token}"}, bytearray()
    async with (
        translated(f"file {file.id}"),
        asyncio.timeout(seconds),
        _session(client).get(file.url, headers=headers, allow_redirects=False, proxy=client.proxy) as response,
    ):
        _check_response(response, file.name)
        async for chunk in response.content.iter_chunked(_CHUNK):
            content += chunk
            if len(content) > max_bytes:
                raise _too_large(file.name, max_bytes)
    return bytes(content)


async def download_readable(client: AsyncWebClient, file_id: str, *, max_bytes: int = MAX_BYTES) -> bytes:
    """Look a file up that somebody attached, and fetch it, if it is of a kind that agents read. Raises `Permanent` when
    it is of another kind, and both errors as `file_info` and `fetch`."""
    file = await file_info(client, file_id)
    if file.mode not in _HIDDEN and not _READABLE.fullmatch(file.mimetype):
        raise Permanent(f"{file.name} is of the kind {file.mimetype or 'unknown'}: attach an image or a text instead.")
    return await fetch(client, file, max_bytes=max_bytes)


def _session(client: AsyncWebClient) -> aiohttp.ClientSession:
    if client.session is None:
        raise Permanent("The Slack client has no session: make it with slack.client.make_web_client.")
    return client.session


def _check_response(response: aiohttp.ClientResponse, name: str) -> None:
    status = response.status
    if status == 429 or status >= 500:
        pause = response.headers.get("Retry-After", "")
        wait = float(pause) if pause.isdecimal() else None
        raise Transient(f"Slack did not deliver {name} (HTTP {status}).", retry_after=wait)
    if 300 <= status < 400 or (status == 200 and response.content_type == "text/html"):
        # Slack answers a token without the scope with its login page, or the way there.
        raise FileRefused(
            f"Slack asks for a login to read {name}: give the bot the scope files:read and install it again.",
            FileProblem.UNREADABLE,
        )
    if status != 200:
        raise FileRefused(
            f"Slack does not deliver {name} (HTTP {status}): upload it again where the bot is a member.",
            FileProblem.UNREADABLE,
        )


def _too_large(name: str, max_bytes: int) -> FileRefused:
    said = f"{name} is larger than {max_bytes / 2**20:.3g} MiB: attach the part that matters."
    return FileRefused(said, FileProblem.TOO_LARGE)


# ---- What the bot shows ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileUpload:
    """`key` is a business key; `title`: no other file in this thread has it. `comment` stands beside the file."""

    key: str
    channel: str
    thread_ts: str
    name: str
    title: str
    comment: str
    content: bytes


async def upload_file(slack: SlackClient, upload: FileUpload, before_showing: Callable[[], Awaitable[None]]) -> str:
    """Show a file in its thread; returns Slack's id of it. Raises `Permanent` when Slack refuses it and nothing is
    shown, `NotDone` when nothing is shown for certain, and `Transient` when it may be shown, or come to be.
    `before_showing` is awaited before the one call that shows it."""
    client, where = slack.client, f"channel {upload.channel}"
    with before_a_change():  # nothing is shown before the last step
        async with translated(where):
            place = await client.files_getUploadURLExternal(filename=upload.name, length=len(upload.content))
            timeout = aiohttp.ClientTimeout(total=CALL_TIMEOUT + len(upload.content) / _UPLOAD_RATE)
            body = io.BytesIO(upload.content)
            sent = _session(client).post(place["upload_url"], data=body, proxy=client.proxy, timeout=timeout)
            async with sent as answer:
                if answer.status != 200:
                    raise Transient(f"Slack did not take the file {upload.name} (HTTP {answer.status}).")
    file_id = str(place["file_id"])
    await before_showing()
    async with translated(where):
        await client.files_completeUploadExternal(
            files=[{"id": file_id, "title": upload.title}],
            channel_id=upload.channel,
            thread_ts=upload.thread_ts,
            initial_comment=upload.comment,
        )
    return file_id


async def find_file(slack: SlackClient, upload: FileUpload, oldest: float) -> str:
    """The id of a file with this title in the thread; empty when there is none."""

    def is_same(file: Mapping[str, Any]) -> bool:
        return bool(file.get("title") == upload.title and file.get("name") == upload.name)

    return await find_file_where(slack, upload.channel, upload.thread_ts, is_same, oldest)


async def find_file_where(
    slack: SlackClient, channel: str, thread_ts: str, is_wanted: Callable[[Mapping[str, Any]], bool], oldest: float
) -> str:
    """The id of the first such file in a thread; empty when there is none.

    Args:
        is_wanted: asked with Slack's JSON of each file.
        oldest: seconds since 1970.
    """
    fetch = partial(slack.client.conversations_replies, channel=channel, ts=thread_ts)
    window: dict[str, Any] = {"oldest": f"{max(oldest, 0):.6f}", "limit": _PAGE}
    async with aclosing(pages(fetch, f"channel {channel}", **window)) as found:
        async for page in found:
            for file in (each for message in page.get("messages") or () for each in message.get("files") or ()):
                if is_wanted(file):
                    return str(file["id"])
    return ""


async def own_user_id(slack: SlackClient) -> str:
    """The bot's user, under which Slack keeps what the bot uploads."""
    async with translated("the bot's own user"):
        return str((await slack.client.auth_test()).get("user_id") or "")


async def delete_file(slack: SlackClient, file_id: str) -> None:
    """Delete a file that the bot has uploaded; done as well when it is gone."""
    async with translated(f"file {file_id}"):
        try:
            await slack.client.files_delete(file=file_id)
        except SlackApiError as exc:
            if error_name(exc) not in _FILE_GONE:
                raise
