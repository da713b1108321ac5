"""`rfp.create.from.slack.file`: checks, loads, reads and stores a file, and makes an RFP from it,
once for each file.
"""

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
    not_read,
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
"""Bytes of a file; larger files are refused."""
CREATED = "rfp_created_from_file"
AGAIN = "rfp_file_given_again"
"""The types of the events."""
FILE_TIMEOUT = 80.0
"""Seconds for checking, loading, reading and storing the file."""

_LOADING = 25.0  # seconds
_PREPARING = 65.0  # seconds for checking, loading and reading, before anything is changed
_SHOWN_TEXT = 2_000  # characters of the text in the result for the model
_EXTERNAL = (
    "This file is from a guest or another company, and such files are not accepted here. A "
    "member of this workspace can share it in this thread, and ask again."
)
_MAX_TITLE = 150  # characters of a line that is taken for a title
_TITLE_WITHIN = 15  # lines from the start in which a title is looked for
_MIN_TITLE = 8
_NO_TITLE = re.compile(
    r"(?:page|seite)\b|\d[\d./ -]*$|(?:draft|confidential|final|version)\b", re.IGNORECASE
)
_SEPARATORS = re.compile(r"[\s_-]+")

_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class RfpFiles:
    """Makes RFPs from files in Slack. `history` reads threads; `authors` decides whose files are
    accepted; `rate` limits the changes of a record.
    """

    database: Database
    slack: SlackClient
    history: History
    authors: AuthorPolicy
    rate: Rate | None = None
    reader: DocumentReader = field(default_factory=DocumentReader)

    async def create(
        self, context: ToolContext, file_id: str, title: str, client: str, due_date: date | None
    ) -> ToolResult:
        """Make the RFP, with its state and an event, and bind the thread to it unless it is bound
        already.

        It runs once for each operation, and once in a team for each file.

        Args:
            context: the tool call's context.
            file_id: the file's id in Slack.
            title: empty to take it from the file.
            client: may be empty.
            due_date: None when it is unknown.

        Raises:
            Permanent: the file is not shared in the thread; or an external user owns it, and no
                accepted author has shared it there; or it is too large, or unreadable. Nothing was
                made; the message gives the remedy.
            Transient: Slack or the database did not answer.
            NotDone: as `Transient`, and surely nothing was made.
        """
        with before_a_change():
            try:
                async with asyncio.timeout(_PREPARING):
                    info, source = await self._load(context.thread, file_id)
            except TimeoutError as exc:
                raise Transient(
                    "Loading and reading the file took too long, so no RFP was created."
                ) from exc
        facts = RfpFacts(title.strip() or guess_title(source.text, source.name), client, due_date)
        async with self.database.begin() as tx:
            told = {"file_id": file_id, "sha256": source.sha256, "file": info}
            event = await self._store(tx, context.change, facts, source, told)
            result = await _result(tx, context.team, event)
        new = event.event_type == CREATED
        _log.info(
            "rfp_file_stored",
            rfp=event.rfp_id,
            file=file_id,
            new=new,
            correlation_id=context.correlation_id,
        )
        return result

    async def find(self, operation: Operation) -> ToolResult | None:
        """Return the operation's result; None when it made nothing."""
        async with self.database.begin() as tx:
            event = await RfpStore(tx).event_of(operation)
            return await _result(tx, operation.thread.team, event) if event else None

    async def _load(self, thread: Thread, file_id: str) -> tuple[JsonObject, SourceFile]:
        """Return the file's description and its contents, both without secrets.

        The description has the file's name, its kind by its content, the pages of a PDF (else 0),
        the characters of its text, and the parts that the text lacks.
        """
        shared = await files.file_info(self.slack.client, file_id)
        # All readers of the thread must be able to open the file: the bot itself sees files of
        # other channels too. Slack may omit the channels of a file that was just shared.
        if thread.channel not in shared.channels:
            async with aclosing(self._messages_with_file(thread, shared)) as shown:
                if await anext(shown, None) is None:
                    # The error does not name the file: the asker may not know that it exists.
                    raise Permanent(
                        "This file is not shared in this channel: upload it in this thread, "
                        "and ask again."
                    )
        # An accepted author may have shared another user's file.
        if not await self.authors.allows(thread, shared.user):
            async with aclosing(self._messages_with_file(thread, shared)) as shown:
                counted, _ = await self.authors.filter_messages(
                    thread, [message async for message in shown]
                )
            if not counted:
                raise Permanent(_EXTERNAL)
        content = await files.fetch(
            self.slack.client, shared, max_bytes=MAX_FILE, seconds=_LOADING
        )
        document = await self.reader.read(shared.name, content)
        # In threads: both take a while and would block the event loop.
        text = await asyncio.to_thread(redact, document.text)
        digest = await asyncio.to_thread(hashlib.sha256, content)
        unread = tuple(map(redact, document.unread))
        source = SourceFile(redact(shared.name), digest.hexdigest(), text, unread)
        info = {"name": source.name, "kind": document.kind.value, "pages": document.pages}
        return info | {"characters": len(text), "not_read": list(unread)}, source

    async def _messages_with_file(
        self, thread: Thread, file: SharedFile
    ) -> AsyncGenerator[RawMessage, None]:
        async with aclosing(self.history.thread_messages(thread.channel, thread.ts, "0")) as shown:
            async for message in shown:
                if any(each.get("id") == file.id for each in message.get("files") or ()):
                    yield message

    async def _store(
        self,
        tx: Transaction,
        change: Change,
        facts: RfpFacts,
        source: SourceFile,
        told: JsonObject,
    ) -> Event:
        """Make the RFP and log the event, which later attempts of the same operation find."""
        store = RfpStore(tx)
        created = await store.create(change, facts, source=source)
        rfp_id = created.rfp.rfp_id
        thread = change.operation.thread
        user_id = change.author.user_id
        about = await ThreadBindingStore(tx).bind_first(thread, BINDING, rfp_id, user_id)
        try:
            about = (await store.get(thread.team, about)).rfp_id
        except RfpNotFound:  # the thread's RFP was deleted
            about = (await store.bind(thread, rfp_id, user_id))[0].rfp_id
        if self.rate:
            key = change.operation.key
            await RateLimits(tx).count_change(
                change.team, f"events:{rfp_id}", key, change.now, self.rate
            )
        return await store.append_event(
            change, rfp_id, CREATED if created.new else AGAIN, told | {"thread_is_about": about}
        )


def guess_title(text: str, name: str) -> str:
    """Return the first line of a text that reads like a title, else the file's name without its
    extension.

    Such a line has at least two words, and is shorter than a sentence of a paragraph may be.
    """
    for line in text.split("\n")[:_TITLE_WITHIN]:
        plain = " ".join(line.strip("#*_|=- \t").split())
        if (
            _MIN_TITLE <= len(plain) <= _MAX_TITLE
            and len(plain.split()) > 1
            and not _NO_TITLE.match(plain)
        ):
            return plain
    stem = name.rpartition(".")[0] or name
    return _SEPARATORS.sub(" ", stem).strip()[:_MAX_TITLE] or "Untitled"


async def _result(tx: Transaction, team: str, event: Event) -> ToolResult:
    """Return the result of the call that logged this event, with the RFP as it is now, even if it
    is deleted.
    """
    rfp, beginning = await RfpStore(tx).with_beginning(team, event.rfp_id, _SHOWN_TEXT)
    record = rfp_record(rfp)
    new = event.event_type == CREATED
    file = event.payload["file"]
    about = event.payload["thread_is_about"]
    data = {
        "existed_already": not new,
        "file": file,
        "thread_is_about": about,
        "file_begins": beginning,
    }
    missing = not_read(file["not_read"])
    if new:
        ending = "" if file["pages"] == 1 else "s"
        pages = f"{file['pages']:,} page{ending}, " if file["pages"] else ""
        made = (
            f"{file['name']} has become {title_line(record)}: {pages}{file['characters']:,} "
            f"characters of text.{missing} Its text can now be read in every channel, not only "
            "where it was uploaded, and stays when the file is deleted in Slack."
        )
    else:
        known = f"{file['name']} was uploaded before: it is {title_line(record)}.{missing}"
        made = f"{known} No new RFP was created, and its facts stay as they are."
    thread = "This thread is about it."
    if about != rfp.rfp_id:
        thread = f"This thread stays about {about}; “link {rfp.rfp_id}” changes that."
    return ToolResult(
        data={**record, **data}, display_text=f"{made} {thread}", structured=rfp_group([record])
    )


# ---- The tool


async def _find_created(context: ToolContext, _: Any) -> ToolResult | None:
    return await context.services[RfpFiles].find(context.operation)


@tool(
    "rfp.create.from.slack.file",
    "Make an RFP of a file that was uploaded in this thread or channel: PDF, Word (DOCX), TXT "
    "or MD, at most 20 MiB. The same file twice gives the same RFP. The thread becomes about it "
    "if it is about none. From then on the content can be read in every channel, and it "
    "stays when the file is deleted in Slack.",
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
    file_id: Annotated[
        str,
        Field(pattern="^F[A-Z0-9]{2,40}$", description="The file's id, as the thread shows it."),
    ],
    title: Annotated[
        str | None,
        Field(max_length=MAX_TITLE, description="Null: as the file begins, or is called."),
    ] = None,
    client: Annotated[
        str | None,
        Field(
            max_length=MAX_CLIENT,
            description="Who asks for proposals. Null where nobody has said it.",
        ),
    ] = None,
    due_date: Annotated[
        date | None,
        Field(description="When proposals are due, as 2026-03-31. Null where nobody has said it."),
    ] = None,
) -> ToolResult:
    return await context.services[RfpFiles].create(
        context, file_id, title or "", client or "", due_date
    )


TOOLS = [create_from_slack_file]
