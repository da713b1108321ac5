"""`rfp.create.from.slack.file`: checks, loads, reads and stores a file, and makes an RFP of it, once for each file."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import structlog
from pydantic import Field

from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate, RateLimits
from threadline.documents.reader import DocumentReader
from threadline.errors import Permanent, Transient, before_a_change
from threadline.models.model import ToolKind
from threadline.privacy.redaction import redact
from threadline.rfps.model import (
    BINDING,
    MAX_CLIENT,
    MAX_TITLE,
    Event,
    JsonObject,
    RfpFacts,
    RfpNotFound,
    SourceFile,
    rfp_group,
    rfp_record,
    title_line,
)
from threadline.rfps.store import RfpStore
from threadline.slack import files
from threadline.slack.client import SlackClient
from threadline.slack.files import SharedFile
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads.authors import AuthorPolicy
from threadline.threads.store import ThreadBindingStore
from threadline.tools.context import ToolContext
from threadline.tools.model import Change, Operation, Risk, ToolResult
from threadline.tools.registry import tool

MAX_FILE = 20 * 1024 * 1024
"""Bytes of a file; a larger one is not loaded."""
CREATED, AGAIN = "rfp_created_from_file", "rfp_file_given_again"
"""The events' types."""
FILE_TIMEOUT = 80.0
"""Seconds: for checking the file, loading it, reading it, and keeping what was read."""

_LOADING = 25.0
"""Seconds."""
_PREPARING = 65.0
"""Seconds for checking, loading and reading, before anything is changed."""
_SHOWN_TEXT = 2_000
"""Characters of the text that the model is shown."""
_EXTERNAL = (
    "This file is from a guest or another company, and such files are not accepted here. A member of this "
    "workspace can share it in this thread, and ask again."
)
_MAX_TITLE = 150
"""Characters of a line that is taken for a title."""
_TITLE_WITHIN = 15
"""Lines of the beginning."""
_MIN_TITLE = 8
_NO_TITLE = re.compile(r"(?:page|seite)\b|\d[\d./ -]*$|(?:draft|confidential|final|version)\b", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s_-]+")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _LoadedFile:
    """`info` and `text` are without secrets; `sha256` is of the bytes as they came.

    `info`: the file's `name`, its `kind` by its content, the `pages` of a PDF (else 0), the `characters` of its text,
    and whether it was `cut`: more stood in it than was kept.
    """

    info: JsonObject
    sha256: str
    text: str


class RfpFiles:
    """Args: `history` shows threads; `authors` says whose files count; `rate`: how often one record may be changed,
    None for as often as one likes."""

    def __init__(
        self, database: Database, slack: SlackClient, history: History, authors: AuthorPolicy, rate: Rate | None = None
    ) -> None:
        self._database = database
        self._slack = slack
        self._history = history
        self._authors = authors
        self._rate = rate
        self._reader = DocumentReader()

    async def create(
        self, context: ToolContext, file_id: str, title: str, client: str, due_date: date | None
    ) -> ToolResult:
        """Make the RFP, with its state and an event; a thread that is about none is about it from now on.

        Once for each operation, and once in a team for each file. An empty title is read from the file.

        Raises:
            Permanent: the file is not shown in the thread, is by somebody external whose words do not count
                there and whom nobody of the workspace has shared it for, is too large, or is no document that can be
                read; nothing was made, and the message says what to do.
            Transient: Slack or the database did not answer; `NotDone` when surely nothing was made.
        """
        with before_a_change():
            try:
                async with asyncio.timeout(_PREPARING):
                    file = await self._load(context.thread, file_id)
            except TimeoutError as exc:
                raise Transient("Loading and reading the file took too long, so no RFP was created.") from exc
        facts = RfpFacts(title.strip() or guess_title(file.text, file.info["name"]), client, due_date)
        async with self._database.begin() as tx:
            event = await self._store(tx, context.change, file_id, file, facts)
            result = await _result(tx, context.team, event)
        new, correlation = event.event_type == CREATED, context.correlation_id
        _log.info("rfp_file_stored", rfp=event.rfp_id, file=file_id, new=new, correlation_id=correlation)
        return result

    async def find(self, operation: Operation) -> ToolResult | None:
        """What the operation has made; None when it made nothing."""
        async with self._database.begin() as tx:
            event = await RfpStore(tx).event_of(operation)
            return await _result(tx, operation.thread.team, event) if event else None

    async def _load(self, thread: Thread, file_id: str) -> _LoadedFile:
        shared = await files.file_info(self._slack.client, file_id)
        if not await self._is_shown(thread, shared):
            # Not its name either: who asks may not know that there is such a file.
            raise Permanent("This file is not shared in this channel: upload it in this thread, and ask again.")
        if not await self._author_is_trusted(thread, shared):
            raise Permanent(_EXTERNAL)
        content = await files.fetch(self._slack.client, shared, max_bytes=MAX_FILE, seconds=_LOADING)
        document = await self._reader.read(shared.name, content)
        # In threads: both take a while, in which others are to be served.
        text = await asyncio.to_thread(redact, document.text)
        digest = await asyncio.to_thread(hashlib.sha256, content)
        info = {"name": redact(shared.name), "kind": document.kind.value, "pages": document.pages}
        return _LoadedFile(info | {"characters": len(text), "cut": document.cut}, digest.hexdigest(), text)

    async def _is_shown(self, thread: Thread, file: SharedFile) -> bool:
        """Whether everybody who reads the thread can open the file: the bot itself sees those of other channels too."""
        if thread.channel in file.channels:
            return True
        # Slack may tell of a fresh file without saying where it is shared.
        async with aclosing(self._messages_with_file(thread, file)) as shown:
            return await anext(shown, None) is not None

    async def _author_is_trusted(self, thread: Thread, file: SharedFile) -> bool:
        """Whether it is by somebody whose words count here, or one of them has shared it in the thread."""
        if await self._authors.allows(thread, file.user):
            return True
        async with aclosing(self._messages_with_file(thread, file)) as shown:
            counted, _ = await self._authors.filter_messages(thread, [message async for message in shown])
        return bool(counted)

    async def _messages_with_file(self, thread: Thread, file: SharedFile) -> AsyncGenerator[Mapping[str, Any], None]:
        async with aclosing(self._history.thread_messages(thread.channel, thread.ts, "0")) as shown:
            async for message in shown:
                if any(each.get("id") == file.id for each in message.get("files") or ()):
                    yield message

    async def _store(self, tx: Transaction, change: Change, file_id: str, file: _LoadedFile, facts: RfpFacts) -> Event:
        """The event tells what the call has made: an attempt that comes later finds it under the same operation."""
        store, source = RfpStore(tx), SourceFile(file.info["name"], file.sha256, file.text)
        created = await store.create(change, facts, source=source)
        rfp_id = created.rfp.rfp_id
        payload = {
            "file_id": file_id,
            "sha256": file.sha256,
            "file": file.info,
            "thread_is_about": await _bind_thread(tx, change.operation.thread, rfp_id, change.author.user_id),
        }
        if self._rate:
            key = change.operation.key
            await RateLimits(tx).count_change(change.team, f"events:{rfp_id}", key, change.now, self._rate)
        return await store.append_event(change, rfp_id, CREATED if created.new else AGAIN, payload)


def guess_title(text: str, name: str) -> str:
    """The first line of a text that reads like a title, else the file's name without its end.

    A line reads like one when it has at least two words, and is not as long as a sentence of a paragraph may be.
    """
    for line in text.split("\n")[:_TITLE_WITHIN]:
        plain = " ".join(line.strip("#*_|=- \t").split())
        if _MIN_TITLE <= len(plain) <= _MAX_TITLE and len(plain.split()) > 1 and not _NO_TITLE.match(plain):
            return plain
    stem = name.rpartition(".")[0] or name
    return _SEPARATORS.sub(" ", stem).strip()[:_MAX_TITLE] or "Untitled"


async def _bind_thread(tx: Transaction, thread: Thread, rfp_id: str, user_id: str) -> str:
    """The RFP that the thread is about; one that was about none, or about one that is deleted, gets this one."""
    store, bound = RfpStore(tx), await ThreadBindingStore(tx).bind_first(thread, BINDING, rfp_id, user_id)
    try:
        return (await store.get(thread.team, bound)).rfp_id
    except RfpNotFound:
        return (await store.bind(thread, rfp_id, user_id)).rfp.rfp_id


async def _result(tx: Transaction, team: str, event: Event) -> ToolResult:
    """What the call has made that logged this event, with the RFP as it is now, also when it is deleted."""
    rfp, beginning = await RfpStore(tx).with_beginning(team, event.rfp_id, _SHOWN_TEXT)
    record, new = rfp_record(rfp), event.event_type == CREATED
    file, about = event.payload["file"], event.payload["thread_is_about"]
    data = {"existed_already": not new, "file": file, "thread_is_about": about, "file_begins": beginning}
    made = (
        f"{file['name']} has become {title_line(record)}: {_extent(file)}. What stands in it can be read in "
        "every channel now, wherever it was uploaded, and stays when the file is deleted in Slack."
        if new
        else f"{file['name']} was uploaded before: it is {title_line(record)}. Nothing new was made, and its facts "
        "stay as they are."
    )
    thread = (
        "This thread is about it."
        if about == rfp.rfp_id
        else f"This thread stays about {about}; “link {rfp.rfp_id}” changes that."
    )
    return ToolResult(data={**record, **data}, display_text=f"{made} {thread}", structured=rfp_group([record]))


def _extent(file: JsonObject) -> str:
    pages = f"{file['pages']:,} page{'' if file['pages'] == 1 else 's'}, " if file["pages"] else ""
    rest = "; not all of its text could be kept" if file["cut"] else ""
    return f"{pages}{file['characters']:,} characters of text{rest}"


# ---- The tool --------------------------------------------------------------------------------------------------------


async def _find_created(context: ToolContext, _: Any) -> ToolResult | None:
    return await context.services[RfpFiles].find(context.operation)


@tool(
    "rfp.create.from.slack.file",
    "Make an RFP of a file that was uploaded in this thread or channel: PDF, Word (DOCX), TXT or MD, at most 20 MiB. "
    "The same file twice gives the same RFP. The thread becomes about it if it is about none. "
    "What stands in it can be read in every channel from then on, and stays when the file is deleted in Slack.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    remote=True,
    needs=(RfpFiles,),
    rate_limit_key=lambda given: f"file:{given.file_id}",
    look_up=_find_created,
    timeout=FILE_TIMEOUT,
)
async def create_from_slack_file(
    context: ToolContext,
    *,
    file_id: Annotated[str, Field(pattern="^F[A-Z0-9]{2,40}$", description="The file's id, as the thread shows it.")],
    title: Annotated[
        str | None, Field(max_length=MAX_TITLE, description="Null: as the file begins, or is called.")
    ] = None,
    client: Annotated[
        str | None, Field(max_length=MAX_CLIENT, description="Who asks for proposals. Null where nobody has said it.")
    ] = None,
    due_date: Annotated[
        date | None, Field(description="When proposals are due, as 2026-03-31. Null where nobody has said it.")
    ] = None,
) -> ToolResult:
    return await context.services[RfpFiles].create(context, file_id, title or "", client or "", due_date)


TOOLS = [create_from_slack_file]
