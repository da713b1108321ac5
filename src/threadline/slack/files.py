"""Files: the download of attachments from Slack's own hosts, and the upload of the bot's files.

Slack stores no key with a file, so the title of a file that the bot shows serves as its key:
`threads.outbox.Outbox.share` searches the thread for it before it uploads the file again. See
https://docs.slack.dev/messaging/working-with-files#upload.
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
from threadline.slack.file_kinds import CANVAS, holds_text

MAX_BYTES = 10 * 1024 * 1024
DOWNLOAD_TOTAL = 60.0
"""Seconds for the download of one file."""
_UPLOAD_RATE = 256 * 1024
"""Bytes a second: the lowest upload rate that the timeout allows for."""
_PAGE = 200
_CHUNK = 64 * 1024
_IMAGE = re.compile(r"image/(?:png|jpeg|gif|webp)")
_FORM = re.compile(rb"<\s*(?:form|input)\b", re.IGNORECASE)
"""Found in a sign-in page, which has a form; a canvas has none."""
_HIDDEN = ("tombstone", "hidden_by_limit")
_FILE_GONE = frozenset({"file_deleted", "file_not_found"})
_UNSAFE = re.compile(r"[^\w .()+-]")


class FileProblem(StrEnum):
    """The reason why the bytes of a file are not available."""

    GONE = "gone"
    TOO_LARGE = "too_large"
    OUTSIDE = "outside"
    """Stored by another provider, and only linked in Slack."""
    UNREADABLE = "unreadable"
    """Slack does not let the bot read it."""
    KIND = "kind"
    """Agents do not read files of this kind."""


class FileRefused(Permanent):
    """A file that the bot cannot read. The message is for the log and the admin: ids and
    advice.
    """

    def __init__(self, message: str, problem: FileProblem) -> None:
        super().__init__(message)
        self.problem = problem


@dataclass(frozen=True)
class SharedFile:
    """A file as `files.info` describes it; see
    https://docs.slack.dev/reference/objects/file-object.

    - `name`: safe as a file name: no folders, no leading dot, at most 120 characters;
    - `size`: bytes, as announced;
    - `channels`: the channels, groups and direct messages in which it is shared;
    - `user`: the uploader;
    - `permalink`: its page in Slack; empty where Slack provides none.
    """

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
    """Look a file up; an event may carry only its id and `"file_access": "check_file_info"`.

    Raises:
        Permanent: the file was deleted, or is in a channel without the bot.
        Transient: Slack did not answer.
    """
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
    client: AsyncWebClient,
    file: SharedFile,
    *,
    max_bytes: int = MAX_BYTES,
    seconds: float = DOWNLOAD_TOTAL,
) -> bytes:
    """Download the bytes of a file. A file that announces too many is not requested, and a
    download stops at the limit.

    Args:
        client: made by `slack.client.make_web_client`; provides its session, token and address.
        seconds: limit for the whole download.

    Raises:
        Permanent: the file was deleted, is too large, or is not in Slack, or Slack shows its login
            page instead.
        Transient: Slack did not answer.
    """
    if file.mode in _HIDDEN:
        raise FileRefused(
            (
                f"{file.name} was deleted, or is hidden by the limits of the workspace's plan: "
                "upload it again."
            ),
            FileProblem.GONE,
        )
    if file.size > max_bytes:
        raise _too_large(file.name, max_bytes)
    # Only the API's host and its files' host receive the token, and only by the same scheme.
    target = urlsplit(file.url)
    api = urlsplit(client.base_url)
    if target.scheme != api.scheme or target.netloc not in (api.netloc, f"files.{api.netloc}"):
        raise FileRefused(
            f"{file.name} is kept outside Slack: upload the file itself.", FileProblem.OUTSIDE
        )
    headers = {"Authorization": f"Bearer {client.token}"}
    content = bytearray()
    async with (
        translated(f"file {file.id}"),
        asyncio.timeout(seconds),
        _session(client).get(
            file.url, headers=headers, allow_redirects=False, proxy=client.proxy
        ) as response,
    ):
        is_page = _check_response(response, file)
        async for chunk in response.content.iter_chunked(_CHUNK):
            content += chunk
            if len(content) > max_bytes:
                raise _too_large(file.name, max_bytes)
    if is_page and _FORM.search(content):
        raise _asks_for_login(file.name)
    return bytes(content)


async def download_readable(
    client: AsyncWebClient, file_id: str, *, max_bytes: int = MAX_BYTES
) -> bytes:
    """Look up an attachment and download it, if it is of a kind that agents read.

    Raises:
        Permanent: it is of another kind, or as in `file_info` and `fetch`.
        Transient: as in `file_info` and `fetch`.
    """
    file = await file_info(client, file_id)
    if not _IMAGE.fullmatch(file.mimetype):
        _check_holds_text(file, "attach an image or a text instead")
    return await fetch(client, file, max_bytes=max_bytes)


async def download_text(
    client: AsyncWebClient,
    file_id: str,
    *,
    max_bytes: int = MAX_BYTES,
    seconds: float = DOWNLOAD_TOTAL,
) -> tuple[SharedFile, bytes]:
    """Look up an attached text file, snippet or canvas and download it. Raises as
    `download_readable`, also for an image.
    """
    file = await file_info(client, file_id)
    _check_holds_text(file, "attach a text instead")
    return file, await fetch(client, file, max_bytes=max_bytes, seconds=seconds)


def _check_holds_text(file: SharedFile, advice: str) -> None:
    """Raise `FileRefused` for a file that holds no text; a hidden file passes, since Slack does
    not name its kind.
    """
    if file.mode in _HIDDEN or holds_text(file.mimetype, file.name):
        return
    said = f"{file.name} is of the kind {file.mimetype or 'unknown'}: {advice}."
    raise FileRefused(said, FileProblem.KIND)


def _session(client: AsyncWebClient) -> aiohttp.ClientSession:
    if client.session is None:
        raise Permanent(
            "The Slack client has no session: make it with slack.client.make_web_client."
        )
    return client.session


def _check_response(response: aiohttp.ClientResponse, file: SharedFile) -> bool:
    """Check the response, and return whether its body may be a sign-in page: a canvas is a page as
    well, a download is an attachment.
    """
    status = response.status
    name = file.name
    is_page = (
        status == 200
        and response.content_type == "text/html"
        and response.content_disposition is None
    )
    if status == 429 or status >= 500:
        pause = response.headers.get("Retry-After", "")
        wait = float(pause) if pause.isdecimal() else None
        raise Transient(f"Slack did not deliver {name} (HTTP {status}).", retry_after=wait)
    if 300 <= status < 400 or (is_page and file.mimetype not in (CANVAS, "text/html")):
        # Slack answers a token without the scope with its login page, or a redirect to it.
        raise _asks_for_login(name)
    if status != 200:
        raise FileRefused(
            (
                f"Slack does not deliver {name} (HTTP {status}): upload it again where the bot "
                "is a member."
            ),
            FileProblem.UNREADABLE,
        )
    return is_page


def _asks_for_login(name: str) -> FileRefused:
    return FileRefused(
        (
            f"Slack asks for a login to read {name}: give the bot the scope files:read and "
            "install it again."
        ),
        FileProblem.UNREADABLE,
    )


def _too_large(name: str, max_bytes: int) -> FileRefused:
    said = f"{name} is larger than {max_bytes / 2**20:.3g} MiB: attach the part that matters."
    return FileRefused(said, FileProblem.TOO_LARGE)


# ---- Files that the bot shows


@dataclass(frozen=True)
class FileUpload:
    """A file to upload. `key` is a business key; `title` is unique among the files of the thread;
    `comment` is the text beside the file.
    """

    key: str
    channel: str
    thread_ts: str
    name: str
    title: str
    comment: str
    content: bytes


async def upload_file(
    slack: SlackClient, upload: FileUpload, before_showing: Callable[[], Awaitable[None]]
) -> str:
    """Upload a file and show it in its thread.

    Args:
        before_showing: awaited before the one call that shows the file.

    Returns:
        Slack's id of the file.

    Raises:
        Permanent: Slack refused it; the file is not shown.
        NotDone: the file is certainly not shown.
        Transient: the file may be shown now or later.
    """
    client = slack.client
    where = f"channel {upload.channel}"
    with before_a_change():  # only the last step shows the file
        async with translated(where):
            place = await client.files_getUploadURLExternal(
                filename=upload.name, length=len(upload.content)
            )
            timeout = aiohttp.ClientTimeout(
                total=CALL_TIMEOUT + len(upload.content) / _UPLOAD_RATE
            )
            body = io.BytesIO(upload.content)
            sent = _session(client).post(
                place["upload_url"], data=body, proxy=client.proxy, timeout=timeout
            )
            async with sent as answer:
                if answer.status != 200:
                    raise Transient(
                        f"Slack did not take the file {upload.name} (HTTP {answer.status})."
                    )
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
    """Return the id of a file with this title in the thread; empty if there is none."""

    def is_same(file: Mapping[str, Any]) -> bool:
        return bool(file.get("title") == upload.title and file.get("name") == upload.name)

    return await find_file_where(slack, upload.channel, upload.thread_ts, is_same, oldest)


async def find_file_where(
    slack: SlackClient,
    channel: str,
    thread_ts: str,
    is_wanted: Callable[[Mapping[str, Any]], bool],
    oldest: float,
) -> str:
    """Return the id of the first matching file in a thread; empty if there is none.

    Args:
        is_wanted: called with Slack's JSON of each file.
        oldest: seconds since 1970.
    """
    fetch = partial(slack.client.conversations_replies, channel=channel, ts=thread_ts)
    window: dict[str, Any] = {"oldest": f"{max(oldest, 0):.6f}", "limit": _PAGE}
    async with aclosing(pages(fetch, f"channel {channel}", **window)) as found:
        async for page in found:
            for file in (
                each
                for message in page.get("messages") or ()
                for each in message.get("files") or ()
            ):
                if is_wanted(file):
                    return str(file["id"])
    return ""


async def own_user_id(slack: SlackClient) -> str:
    """Return the bot's user id, under which Slack stores the bot's uploads."""
    async with translated("the bot's own user"):
        return str((await slack.client.auth_test()).get("user_id") or "")


async def delete_file(slack: SlackClient, file_id: str) -> None:
    """Delete a file that the bot has uploaded; succeeds also if it is deleted already."""
    async with translated(f"file {file_id}"):
        try:
            await slack.client.files_delete(file=file_id)
        except SlackApiError as exc:
            if error_name(exc) not in _FILE_GONE:
                raise
