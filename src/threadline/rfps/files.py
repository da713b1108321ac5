"""`rfp.create.from.slack.file`: checks, loads, reads and stores a file, and makes an RFP of it, once for each file."""

import asyncio
import hashlib
import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
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
from threadline.slack.history import History, RawMessage
from threadline.slack.model import Thread
from threadline.threads.authors import AuthorPolicy
from threadline.threads.store import ThreadBindingStore
from threadline.tools.context import ToolContext
from threadline.tools.model import Change, Operation, Risk, ToolResult
from threadline.tools.registry import tool
from threadline.tools.roles import RecordKind

MAX_FILE = 20 * 1024 * 1024
"""Bytes of a file; a larger one is not loaded."""
CREATED, AGAIN = "rfp_created_from_file", "rfp_file_given_again"
"""The events' types."""
FILE_TIMEOUT = 80.0
"""Seconds: for checking the file, loading it, reading it, and keeping what was read."""

_LOADING = 25.0  # seconds
_PREPARING = 65.0  # seconds for checking, loading and reading, before anything is changed
_SHOWN_TEXT = 2_000  # characters of the text that the model is shown
_EXTERNAL = (
    "This file is from a guest or another company, and such files are not accepted here. A member of this "
    "workspace can share it in this thread, and ask again."
)
_MAX_TITLE = 150  # characters of a line that is taken for a title
_TITLE_WITHIN = 15  # lines of the beginning
_MIN_TITLE = 8
_NO_TITLE = re.compile(r"(?:page|seite)\b|\d[\d./ -]*$|(?:draft|confidential|final|version)\b", re.IGNORECASE)
_SEPARATORS = re.compile(r"[\s_-]+")

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class RfpFiles:
    """`history` shows threads; `authors` says whose files count; `rate` limits how often a record is changed."""

    database: Database
    slack: SlackClient
    history: History
    authors: AuthorPolicy
    rate: Rate | None = None
    reader: DocumentReader = field(default_factory=DocumentReader)

    async def create(
        self, context: ToolContext, file_id: str, title: str, client: str, due_date: date | None
    ) -> ToolResult:
        """Make the RFP, with its state and an event; a thread that is about none is about it from now on. Once for each
        operation, and once in a team for each file. An empty title is read from the file. Raises `Permanent`: the file
        is not shown in the thread, is by somebody external and was shared there by nobody whose words count, is too
        large, or cannot be read; nothing was made, and the message says what to do. Raises `Transient`: Slack or the
        database did not answer; `NotDone` when surely nothing was made."""
        with before_a_change():
            try:
                async with asyncio.timeout(_PREPARING):
                    info, source = await self._load(context.thread, file_id)
            except TimeoutError as exc:
                raise Transient("Loading and reading the file took too long, so no RFP was created.") from exc
        facts = RfpFacts(title.strip() or guess_title(source.text, source.name), client, due_date)
        async with self.database.begin() as tx:
            told = {"file_id": file_id, "sha256": source.sha256, "file": info}
            event = await self._store(tx, context.change, facts, source, told)
            result = await _result(tx, context.team, event)
        new = event.event_type == CREATED
        _log.info("rfp_file_stored", rfp=event.rfp_id, file=file_id, new=new, correlation_id=context.correlation_id)
        return result

    async def find(self, operation: Operation) -> ToolResult | None:
        """What the operation has made; None when it made nothing."""
        async with self.database.begin() as tx:
            event = await RfpStore(tx).event_of(operation)
            return await _result(tx, operation.thread.team, event) if event else None

    async def _load(self, thread: Thread, file_id: str) -> tuple[JsonObject, SourceFile]:
        """The file, and what is told of it: its name, its kind by its content, the pages of a PDF (else 0), the
        characters of its text, and whether more stood in it than was kept. Name and text are without secrets."""
        shared = await files.file_info(self.slack.client, file_id)
        # Everybody who reads the thread must be able to open it: the bot itself sees files of other channels too. Slack
        # may tell of a fresh file without saying where it is shared.
        if thread.channel not in shared.channels:
            async with aclosing(self._messages_with_file(thread, shared)) as shown:
                if await anext(shown, None) is None:
                    # Not its name either: who asks may not know that there is such a file.
                    raise Permanent("This file is not shared in this channel: upload it in this thread, and ask again.")
        if not await self.authors.allows(thread, shared.user):  # somebody whose words count may have shared it
            async with aclosing(self._messages_with_file(thread, shared)) as shown:
                counted, _ = await self.authors.filter_messages(thread, [message async for message in shown])
            if not counted:
                raise Permanent(_EXTERNAL)
        content = await files.fetch(self.slack.client, shared, max_bytes=MAX_FILE, seconds=_LOADING)
        document = await self.reader.read(shared.name, content)
        # In threads: both take a while, in which others are to be served.
        text = await asyncio.to_thread(redact, document.text)
        digest = await asyncio.to_thread(hashlib.sha256, content)
        source = SourceFile(redact(shared.name), digest.hexdigest(), text)
        info = {"name": source.name, "kind": document.kind.value, "pages": document.pages}
        return info | {"characters": len(text), "cut": document.cut}, source

    async def _messages_with_file(self, thread: Thread, file: SharedFile) -> AsyncGenerator[RawMessage, None]:
        async with aclosing(self.history.thread_messages(thread.channel, thread.ts, "0")) as shown:
            async for message in shown:
                if any(each.get("id") == file.id for each in message.get("files") or ()):
                    yield message

    async def _store(
        self, tx: Transaction, change: Change, facts: RfpFacts, source: SourceFile, told: JsonObject
    ) -> Event:
        """The event tells what the call has made: an attempt that comes later finds it under the same operation."""
        store = RfpStore(tx)
        created = await store.create(change, facts, source=source)
        rfp_id, thread, user_id = created.rfp.rfp_id, change.operation.thread, change.author.user_id
        about = await ThreadBindingStore(tx).bind_first(thread, BINDING, rfp_id, user_id)
        try:
            about = (await store.get(thread.team, about)).rfp_id
        except RfpNotFound:  # it was about one that is deleted by now
            about = (await store.bind(thread, rfp_id, user_id))[0].rfp_id
        if self.rate:
            key = change.operation.key
            await RateLimits(tx).count_change(change.team, f"events:{rfp_id}", key, change.now, self.rate)
        return await store.append_event(
            change, rfp_id, CREATED if created.new else AGAIN, told | {"thread_is_about": about}
        )


def guess_title(text: str, name: str) -> str:
    """The first line of a text that reads like a title, else the file's name without its end. A line reads like one
    when it has at least two words, and is not as long as a sentence of a paragraph may be."""
    for line in text.split("\n")[:_TITLE_WITHIN]:
        plain = " ".join(line.strip("#*_|=- \t").split())
        if _MIN_TITLE <= len(plain) <= _MAX_TITLE and len(plain.split()) > 1 and not _NO_TITLE.match(plain):
            return plain
    stem = name.rpartition(".")[0] or name
    return _SEPARATORS.sub(" ", stem).strip()[:_MAX_TITLE] or "Untitled"


async def _result(tx: Transaction, team: str, event: Event) -> ToolResult:
    """What the call has made that logged this event, with the RFP as it is now, also when it is deleted."""
    rfp, beginning = await RfpStore(tx).with_beginning(team, event.rfp_id, _SHOWN_TEXT)
    record, new = rfp_record(rfp), event.event_type == CREATED
    file, about = event.payload["file"], event.payload["thread_is_about"]
    data = {"existed_already": not new, "file": file, "thread_is_about": about, "file_begins": beginning}
    if new:
        pages = f"{file['pages']:,} page{'' if file['pages'] == 1 else 's'}, " if file["pages"] else ""
        rest = "; not all of its text could be kept" if file["cut"] else ""
        made = (
            f"{file['name']} has become {title_line(record)}: {pages}{file['characters']:,} characters of text{rest}. "
            "What stands in it can be read in every channel now, wherever it was uploaded, and stays when the file is "
            "deleted in Slack."
        )
    else:
        known = f"{file['name']} was uploaded before: it is {title_line(record)}."
        made = f"{known} Nothing new was made, and its facts stay as they are."
    thread = "This thread is about it."
    if about != rfp.rfp_id:
        thread = f"This thread stays about {about}; “link {rfp.rfp_id}” changes that."
    return ToolResult(data={**record, **data}, display_text=f"{made} {thread}", structured=rfp_group([record]))


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
    records=(RecordKind.RFPS,),
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
