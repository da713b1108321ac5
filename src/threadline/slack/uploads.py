"""Files that the bot shows in a thread. `threads.outbox.Outbox.share` shows each once.

Slack keeps no key with a file, so its title stands for one: it is searched for in the thread before it is sent again.
See https://docs.slack.dev/messaging/working-with-files#upload.
"""

from dataclasses import dataclass
from functools import partial

import aiohttp

from threadline.errors import Permanent, Transient, before_a_change
from threadline.slack.client import HTTP_TOTAL, Slack, messages_page
from threadline.slack.errors import calling

_PAGE = 200


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


async def upload_file(slack: Slack, upload: FileUpload) -> str:
    """Show a file in its thread; returns Slack's id of it.

    Raises:
        Permanent: Slack refuses it; nothing is shown.
        NotDone: nothing is shown for certain.
        Transient: it may be shown, or come to be.
    """
    with before_a_change():  # nothing is shown before the last step
        file_id = await _bring(slack, upload)
    async with calling(f"channel {upload.channel}"):
        await slack.client.files_completeUploadExternal(
            files=[{"id": file_id, "title": upload.title}],
            channel_id=upload.channel,
            thread_ts=upload.thread_ts,
            initial_comment=upload.comment,
        )
    return file_id


async def _bring(slack: Slack, upload: FileUpload) -> str:
    """The id of the file, which Slack has and nobody sees yet."""
    client = slack.client
    if client.session is None:
        raise Permanent("The Slack client has no session: make it with slack.client.make_client.")
    async with calling(f"channel {upload.channel}"):
        place = await client.files_getUploadURLExternal(filename=upload.name, length=len(upload.content))
        timeout = aiohttp.ClientTimeout(total=HTTP_TOTAL)
        sent = client.session.post(place["upload_url"], data=upload.content, proxy=client.proxy, timeout=timeout)
        async with sent as answer:
            if answer.status != 200:
                raise Transient(f"Slack did not take the file {upload.name} (HTTP {answer.status}).")
    return str(place["file_id"])


async def find_file(slack: Slack, upload: FileUpload, oldest: float) -> str:
    """The id of a file with this title in the thread; empty when there is none."""
    fetch = partial(slack.client.conversations_replies, channel=upload.channel, ts=upload.thread_ts)
    cursor: str | None = None
    while True:
        window = {"oldest": f"{max(oldest, 0):.6f}", "limit": _PAGE, "cursor": cursor}
        page = await messages_page(fetch, upload.channel, **window)
        for file in (each for message in page.get("messages") or () for each in message.get("files") or ()):
            if file.get("title") == upload.title and file.get("name") == upload.name:
                return str(file["id"])
        cursor = (page.get("response_metadata") or {}).get("next_cursor")
        if not cursor:
            return ""
