"""What people attach: fetched with the bot's token from Slack's own host alone, and only what an agent can read."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient

from threadline.domain.errors import Permanent, Transient
from threadline.slack.errors import calling

MAX_BYTES = 10 * 1024 * 1024
DOWNLOAD_TOTAL = 60.0
"""Seconds for one file."""

_CHUNK = 64 * 1024
_READABLE = re.compile(
    r"image/(?:png|jpeg|gif|webp)|text/(?!html)[\w.+-]+"
    r"|application/(?:json|xml|yaml|x-yaml|toml|sql|javascript|x-javascript|x-sh|x-ndjson|[\w.-]+\+(?:json|xml))"
)
_UNSAFE = re.compile(r"[^\w .()+-]")


@dataclass(frozen=True)
class Downloaded:
    """`name` is safe as a file's name: no folders, no leading dot, at most 120 characters."""

    name: str
    mimetype: str
    content: bytes


async def download(client: AsyncWebClient, file_id: str, *, max_bytes: int = MAX_BYTES) -> Downloaded:
    """Fetch a file that somebody attached.

    Args:
        client: made by `slack.client.make_client`; it lends its session, its token and its address.
        file_id: `F…`. The file is looked up anew: an event may say no more of it than `check_file_info`.
        max_bytes: the largest file that is read.

    Raises:
        Permanent: the file is gone, too large, of a kind that agents do not read, or not in Slack.
        Transient: Slack did not answer.
    """
    where = f"file {file_id}"
    async with calling(where):
        info: Mapping[str, Any] = (await client.files_info(file=file_id)).get("file") or {}
    name, mimetype = _name(info), str(info.get("mimetype") or "")
    url = str(info.get("url_private_download") or info.get("url_private") or "")
    _check(info, name, mimetype, max_bytes)
    if not _is_slacks_own(url, client.base_url):
        raise Permanent(f"{name} is kept outside Slack: upload the file itself.")
    async with calling(where), asyncio.timeout(DOWNLOAD_TOTAL):
        return Downloaded(name, mimetype, await _fetch(client, url, name, max_bytes))


def _check(info: Mapping[str, Any], name: str, mimetype: str, max_bytes: int) -> None:
    if info.get("mode") in ("tombstone", "hidden_by_limit"):
        raise Permanent(f"{name} was deleted, or is hidden by the limits of the workspace's plan: upload it again.")
    if not _READABLE.fullmatch(mimetype):
        raise Permanent(f"{name} is of the kind {mimetype or 'unknown'}: attach an image or a text instead.")
    if int(info.get("size") or 0) > max_bytes:
        raise _too_large(name, max_bytes)


def _is_slacks_own(url: str, base_url: str) -> bool:
    """Whether the token may be shown to `url`: the API's host or its files' host, by the same scheme."""
    target, api = urlsplit(url), urlsplit(base_url)
    return target.scheme == api.scheme and target.netloc in (api.netloc, f"files.{api.netloc}")


async def _fetch(client: AsyncWebClient, url: str, name: str, max_bytes: int) -> bytes:
    if client.session is None:
        raise Permanent("The Slack client has no session: make it with slack.client.make_client.")
    headers = {"Authorization": f"Bearer {client.token}"}
    async with client.session.get(url, headers=headers, allow_redirects=False, proxy=client.proxy) as response:
        _check_response(response, name)
        content = bytearray()
        async for chunk in response.content.iter_chunked(_CHUNK):
            content += chunk
            if len(content) > max_bytes:
                raise _too_large(name, max_bytes)
    return bytes(content)


def _check_response(response: aiohttp.ClientResponse, name: str) -> None:
    status = response.status
    if status == 429 or status >= 500:
        raise Transient(f"Slack did not hand {name} out (HTTP {status}).")
    if 300 <= status < 400 or (status == 200 and response.content_type == "text/html"):
        # Slack answers a token without the scope with its login page, or the way there.
        raise Permanent(
            f"Slack asks for a login to read {name}: give the bot the scope files:read and install it again."
        )
    if status != 200:
        raise Permanent(f"Slack does not hand {name} out (HTTP {status}): upload it again where the bot is a member.")


def _too_large(name: str, max_bytes: int) -> Permanent:
    return Permanent(f"{name} is larger than {max_bytes / 2**20:.3g} MiB: attach the part that matters.")


def _name(info: Mapping[str, Any]) -> str:
    raw = str(info.get("name") or info.get("title") or "").replace("\\", "/").rsplit("/", 1)[-1]
    return _UNSAFE.sub("_", raw).lstrip(". ")[-120:] or "attachment"
