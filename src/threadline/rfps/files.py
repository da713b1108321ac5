"""Requests made of files: loaded from Slack, read by a child, and kept in one unit of work."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import structlog
from pydantic import TypeAdapter

from threadline.db.engine import Database
from threadline.db.rate_limit_rules import Rate
from threadline.db.unit_of_work import Work
from threadline.documents.reader import DocumentReader
from threadline.errors import Permanent, Transient, before_a_change
from threadline.privacy.redaction import redact
from threadline.rfps.document_title import title_of
from threadline.rfps.file_tool import Filed, ReadFile, RfpFiles, Upload
from threadline.rfps.journal_entries import Event, NewEvent
from threadline.rfps.model import BINDING, Created, Facts, NewRfp, RfpNotFound, SourceFile
from threadline.slack import files
from threadline.slack.client import Slack
from threadline.slack.files import SharedFile
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads.authors import AuthorPolicy
from threadline.tools.model import Author, Change, Operation

LARGEST = 20 * 1024 * 1024
"""Bytes of a file; a larger one is not loaded."""
CREATED, AGAIN = "rfp_created_from_file", "rfp_file_given_again"
"""The events' types."""

_LOADING = 25.0
"""Seconds."""
_PREPARING = 65.0
"""Seconds for looking, loading and reading, before anything is changed."""
_BEGINNING = 2_000
"""Characters of the text that the model is shown."""
_EXTERNAL = (
    "This file is from a guest or another company, and such files are not accepted here. A member of this "
    "workspace can share it in this thread, and ask again."
)
_CREATED = TypeAdapter(Created)
_EVENT = TypeAdapter(Event)
_FILE = TypeAdapter(ReadFile)


@dataclass(frozen=True)
class _Loaded:
    """`text` and the file's name are without secrets; `sha256` is of the bytes as they came."""

    file: ReadFile
    sha256: str
    text: str


class SlackRfpFiles(RfpFiles):
    """Args: `history` shows threads; `authors` says whose files count; `rate`: how often one record may be changed,
    None for as often as one likes."""

    def __init__(
        self,
        database: Database,
        slack: Slack,
        history: History,
        authors: AuthorPolicy,
        rate: Rate | None = None,
        reader: DocumentReader | None = None,
    ) -> None:
        self._database = database
        self._slack = slack
        self._history = history
        self._authors = authors
        self._rate = rate
        self._reader = reader or DocumentReader()

    async def create(self, change: Change, author: Author, upload: Upload) -> Filed:
        change = replace(change, rate=self._rate)
        with before_a_change():
            loaded = await self._in_time(change.operation.thread, upload.file_id)
        async with self._database.begin() as work:
            filed = await _kept(work, change, author, upload, loaded)
        structlog.get_logger().info(
            "rfp_file_stored",
            rfp=filed.rfp.rfp_id,
            file=upload.file_id,
            new=filed.new,
            correlation_id=author.correlation_id,
        )
        return filed

    async def effect(self, operation: Operation) -> Filed | None:
        async with self._database.begin() as work:
            made = await work.operations.effect(operation)
            told = await work.operations.effect(_event_of(operation))
            if made is None or told is None:
                return None
            created, payload = _CREATED.validate_python(made.result), _EVENT.validate_python(told.result).payload
            file, about = _FILE.validate_python(payload["file"]), str(payload["thread_is_about"])
            beginning = await _beginning(work, operation.thread.team, created.rfp.rfp_id)
            return Filed(created.rfp, created.new, file, about, beginning)

    async def _in_time(self, thread: Thread, file_id: str) -> _Loaded:
        try:
            async with asyncio.timeout(_PREPARING):
                return await self._loaded(thread, file_id)
        except TimeoutError as exc:
            raise Transient("Loading and reading the file took too long, so no RFP was created.") from exc

    async def _loaded(self, thread: Thread, file_id: str) -> _Loaded:
        shared = await files.look(self._slack.client, file_id)
        if not await self._is_shown(thread, shared):
            # Not its name either: who asks may not know that there is such a file.
            raise Permanent("This file is not shared in this channel: upload it in this thread, and ask again.")
        if not await self._counts(thread, shared):
            raise Permanent(_EXTERNAL)
        content = await files.fetch(self._slack.client, shared, max_bytes=LARGEST, seconds=_LOADING)
        read = await self._reader.read(shared.name, content)
        # In threads: both take a while, in which others are to be served.
        text = await asyncio.to_thread(redact, read.text)
        digest = await asyncio.to_thread(hashlib.sha256, content)
        file = ReadFile(redact(shared.name), read.kind, read.pages, len(text), read.cut)
        return _Loaded(file, digest.hexdigest(), text)

    async def _is_shown(self, thread: Thread, file: SharedFile) -> bool:
        """Whether everybody who reads the thread can open the file: the bot itself sees those of other channels too."""
        if thread.channel in file.channels:
            return True
        # Slack may tell of a fresh file without saying where it is shared.
        async with aclosing(self._showing(thread, file)) as shown:
            return await anext(shown, None) is not None

    async def _counts(self, thread: Thread, file: SharedFile) -> bool:
        """Whether it is by somebody whose words count here, or one of them has shared it in the thread."""
        if await self._authors.allows(thread, file.user):
            return True
        async with aclosing(self._showing(thread, file)) as shown:
            counted, _ = await self._authors.filter_messages(thread, [message async for message in shown])
        return bool(counted)

    async def _showing(self, thread: Thread, file: SharedFile) -> AsyncGenerator[Mapping[str, Any], None]:
        """The messages of the thread that show the file."""
        async with aclosing(self._history.thread(thread.channel, thread.ts, "0")) as shown:
            async for message in shown:
                if any(each.get("id") == file.id for each in message.get("files") or ()):
                    yield message


async def _kept(work: Work, change: Change, author: Author, upload: Upload, loaded: _Loaded) -> Filed:
    thread, file = change.operation.thread, loaded.file
    title = upload.title.strip() or title_of(loaded.text, file.name)
    new = NewRfp(
        Facts(title, upload.client, upload.due_date),
        SourceFile(file.name, loaded.sha256, loaded.text),
    )
    created = await work.rfps.create(change, new, author)
    about = await _about(work, thread, created.rfp.rfp_id, author.user_id)
    payload: dict[str, Any] = {
        "file_id": upload.file_id,
        "sha256": loaded.sha256,
        "file": vars(file),
        "thread_is_about": about,
    }
    event = NewEvent(CREATED if created.new else AGAIN, payload)
    told = replace(change, operation=_event_of(change.operation))
    await work.events.append(told, created.rfp.rfp_id, event, author)
    beginning = await _beginning(work, thread.team, created.rfp.rfp_id)
    return Filed(created.rfp, created.new, file, about, beginning)


async def _about(work: Work, thread: Thread, rfp_id: str, user_id: str) -> str:
    """The request that the thread is about; one that was about none, or about one that is gone, gets this one."""
    bound = await work.bindings.bind_first(thread, BINDING, rfp_id, user_id)
    try:
        return (await work.rfps.get(thread.team, bound)).rfp_id
    except RfpNotFound:
        return (await work.bindings.bind_rfp(thread, rfp_id, user_id)).rfp.rfp_id


async def _beginning(work: Work, team: str, rfp_id: str) -> str:
    try:
        return (await work.rfps.text_of(team, rfp_id))[:_BEGINNING]
    except RfpNotFound:  # deleted meanwhile
        return ""


def _event_of(operation: Operation) -> Operation:
    """The event is a change of its own, beside the request's."""
    return replace(operation, call_id=f"{operation.call_id}:event")
