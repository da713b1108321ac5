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
    NewEvent,
    NewRfp,
    Rfp,
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
from threadline.tools.arguments import CorrelationId
from threadline.tools.context import ToolContext
from threadline.tools.model import Author, Change, Operation, Risk, ToolResult
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


@dataclass(frozen=True)
class FileRequest:
    """A file in Slack, and what is known of the RFP in it; what is empty is read from the file."""

    file_id: str
    title: str = ""
    client: str = ""
    due_date: date | None = None


@dataclass(frozen=True)
class FileInfo:
    """`kind`: by its content. `pages`: of a PDF, else 0. `cut`: more stood in it than `characters` were kept."""

    name: str
    kind: str
    pages: int
    characters: int
    cut: bool


@dataclass(frozen=True)
class RfpFromFile:
    """What became of a file: `new` is False where the RFP was there already, made from the same file.

    `about`: the RFP that the thread is about now. `beginning`: the first words of the file.
    """

    rfp: Rfp
    new: bool
    file: FileInfo
    about: str
    beginning: str


@dataclass(frozen=True)
class _LoadedFile:
    """`text` and the file's name are without secrets; `sha256` is of the bytes as they came."""

    info: FileInfo
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

    async def create(self, change: Change, author: Author, request: FileRequest) -> RfpFromFile:
        """Make the RFP, with its state and an event; a thread that is about none is about it from now on.

        Once for each operation, and once in a team for each file.

        Raises:
            Permanent: the file is not shown where `change` comes from, is by somebody external whose words do not count
                there and whom nobody of the workspace has shared it for, is too large, or is no document that can be
                read; nothing was made, and the message says what to do.
            Transient: Slack or the database did not answer; `NotDone` when surely nothing was made.
        """
        with before_a_change():
            file = await self._load_in_time(change.operation.thread, request.file_id)
        async with self._database.begin() as tx:
            event = await self._store(tx, change, author, request, file)
            made = await _made_by(tx, change.team, event)
        structlog.get_logger().info(
            "rfp_file_stored",
            rfp=made.rfp.rfp_id,
            file=request.file_id,
            new=made.new,
            correlation_id=author.correlation_id,
        )
        return made

    async def find(self, operation: Operation) -> RfpFromFile | None:
        """What the operation has made; None when it made nothing."""
        async with self._database.begin() as tx:
            event = await RfpStore(tx).event_of(operation)
            return await _made_by(tx, operation.thread.team, event) if event else None

    async def _load_in_time(self, thread: Thread, file_id: str) -> _LoadedFile:
        try:
            async with asyncio.timeout(_PREPARING):
                return await self._load(thread, file_id)
        except TimeoutError as exc:
            raise Transient("Loading and reading the file took too long, so no RFP was created.") from exc

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
        info = FileInfo(redact(shared.name), document.kind, document.pages, len(text), document.cut)
        return _LoadedFile(info, digest.hexdigest(), text)

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

    async def _store(
        self, tx: Transaction, change: Change, author: Author, request: FileRequest, file: _LoadedFile
    ) -> Event:
        """The event tells what the call has made: an attempt that comes later finds it under the same operation."""
        store, thread = RfpStore(tx), change.operation.thread
        title = request.title.strip() or guess_title(file.text, file.info.name)
        facts = RfpFacts(title, request.client, request.due_date)
        created = await store.create(change, NewRfp(facts, SourceFile(file.info.name, file.sha256, file.text)), author)
        payload = {
            "file_id": request.file_id,
            "sha256": file.sha256,
            "file": vars(file.info),
            "thread_is_about": await _bind_thread(tx, thread, created.rfp.rfp_id, author.user_id),
        }
        if self._rate:
            record, key = f"events:{created.rfp.rfp_id}", change.operation.key
            await RateLimits(tx).count_change(change.team, record, key, change.now, self._rate)
        event = NewEvent(CREATED if created.new else AGAIN, payload)
        return await store.append_event(change, created.rfp.rfp_id, event, author)


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


async def _made_by(tx: Transaction, team: str, event: Event) -> RfpFromFile:
    """What the call has made that logged this event, as the RFP is now, also when it is deleted."""
    rfp, beginning = await RfpStore(tx).with_beginning(team, event.rfp_id, _SHOWN_TEXT)
    info, about = FileInfo(**event.payload["file"]), str(event.payload["thread_is_about"])
    return RfpFromFile(rfp, event.event_type == CREATED, info, about, beginning)


# ---- The tool --------------------------------------------------------------------------------------------------------


async def _find_created(context: ToolContext, _: Any) -> ToolResult | None:
    made = await context.services[RfpFiles].find(context.operation)
    return _from_file(made) if made else None


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
    correlation_id: CorrelationId,
) -> ToolResult:
    request = FileRequest(file_id, title or "", client or "", due_date)
    author = Author(context.user_id, correlation_id)
    return _from_file(await context.services[RfpFiles].create(context.change, author, request))


TOOLS = [create_from_slack_file]


def _from_file(made: RfpFromFile) -> ToolResult:
    record = rfp_record(made.rfp)
    return ToolResult(
        data={
            **record,
            "existed_already": not made.new,
            "file": vars(made.file),
            "thread_is_about": made.about,
            "file_begins": made.beginning,
        },
        display_text=f"{_what_was_made(made, record)} {_what_thread_is_about(made)}",
        structured=rfp_group([record]),
    )


def _what_was_made(made: RfpFromFile, record: JsonObject) -> str:
    if made.new:
        return (
            f"{made.file.name} has become {title_line(record)}: {_extent(made.file)}. What stands in it can be read in "
            "every channel now, wherever it was uploaded, and stays when the file is deleted in Slack."
        )
    return (
        f"{made.file.name} was uploaded before: it is {title_line(record)}. Nothing new was made, and its facts "
        "stay as they are."
    )


def _extent(file: FileInfo) -> str:
    pages = f"{file.pages:,} page{'' if file.pages == 1 else 's'}, " if file.pages else ""
    rest = "; not all of its text could be kept" if file.cut else ""
    return f"{pages}{file.characters:,} characters of text{rest}"


def _what_thread_is_about(made: RfpFromFile) -> str:
    if made.about != made.rfp.rfp_id:
        return f"This thread stays about {made.about}; “link {made.rfp.rfp_id}” changes that."
    return "This thread is about it."
