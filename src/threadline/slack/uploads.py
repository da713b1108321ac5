"""Files that the bot shows in a thread: each once, by the ledger of posts.

Slack keeps no key with a file, so its title stands for one: it is looked for in the thread before the file is sent
again.
See https://docs.slack.dev/messaging/working-with-files#upload.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import aiohttp

from threadline.errors import Permanent, Transient
from threadline.slack.client import HTTP_TOTAL, Slack, messages_page
from threadline.slack.errors import Refused, calling
from threadline.threads.outbox_posts import GRACE, LEASE, LOOK_BACK, Post, PostLedger

_PAGE = 200


@dataclass(frozen=True)
class Upload:
    """`key` is a business key; `title`: no other file in this thread has it. `words` stand beside the file."""

    key: str
    channel: str
    thread_ts: str
    name: str
    title: str
    words: str
    content: bytes

    @property
    def post(self) -> Post:
        return Post(self.key, self.channel, self.thread_ts, (), case="", kind="file")


class Uploads:
    """Args: `clock` returns seconds since 1970."""

    def __init__(self, slack: Slack, ledger: PostLedger, clock: Callable[[], float] = time.time) -> None:
        self._slack = slack
        self._ledger = ledger
        self._clock = clock

    async def share(self, upload: Upload) -> None:
        """Show a file in its thread, unless it is there.

        Raises:
            Permanent: Slack refuses it; nothing is shown.
            Transient: it may be shown, or come to be; a later call finds it.
        """
        claim = await self._ledger.claim(upload.post, self._clock(), LEASE)
        if claim.state == "look":
            if self._clock() < claim.claimed_at + HTTP_TOTAL + GRACE:
                raise Transient(f"An earlier attempt at {upload.title} may still arrive in Slack.")
            if found := await self._find(upload, claim.claimed_at - LOOK_BACK):
                await self._ledger.done(upload.key, found)
                return
            await self._ledger.release(upload.key, claim.claimed_at)
            claim = await self._ledger.claim(upload.post, self._clock(), LEASE)
        if claim.state == "send":
            await self._send(upload, claim.claimed_at)
        elif claim.state != "done":
            raise Transient(f"An earlier attempt at {upload.title} may still arrive in Slack.")

    async def _send(self, upload: Upload, claimed_at: float) -> None:
        try:
            file_id = await self._bring(upload)
        except (Permanent, Transient):
            await self._ledger.release(upload.key, claimed_at)  # nothing is shown before the last step
            raise
        try:
            async with calling(f"channel {upload.channel}"):
                await self._slack.client.files_completeUploadExternal(
                    files=[{"id": file_id, "title": upload.title}],
                    channel_id=upload.channel,
                    thread_ts=upload.thread_ts,
                    initial_comment=upload.words,
                )
        except (Permanent, Refused):
            await self._ledger.release(upload.key, claimed_at)
            raise
        await self._ledger.done(upload.key, file_id)

    async def _bring(self, upload: Upload) -> str:
        """The id of the file, which Slack has and nobody sees yet."""
        client = self._slack.client
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

    async def _find(self, upload: Upload, oldest: float) -> str:
        """The id of a file with this title in the thread; empty when there is none."""
        fetch = partial(self._slack.client.conversations_replies, channel=upload.channel, ts=upload.thread_ts)
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
