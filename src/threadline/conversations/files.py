"""The texts of attached files: fetched from Slack once, without secrets, and bounded.

A file is fetched before the turn that answers its message is decided, under the same rules as an
investigation's (`slack.files`). A file that cannot be fetched is recorded with the reason, which
the model reads instead.
"""

import asyncio

import structlog

from threadline.conversations.contract import FETCH_ATTEMPTS
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.files import FileStore, FileText, PendingFile
from threadline.documents.plain import decode_text
from threadline.documents.reader import DocumentRejected
from threadline.errors import Mendable, Permanent, Transient
from threadline.knowledge.web import MAX_HTML, html_to_markdown
from threadline.privacy.redaction import redact
from threadline.slack.errors import translated
from threadline.slack.file_kinds import CANVAS
from threadline.slack.files import MAX_BYTES, FileProblem, FileRefused, download_text
from threadline.slack.model import ACCESS, ACCESS_FAULT, Thread

MOST_FILES = 20
"""Files of one fetch."""
LONGEST_FETCH = 80.0
"""Seconds for all files of one fetch."""
_LONGEST_DOWNLOAD = 20.0
_LONGEST_WAIT = 10.0
"""Seconds of `retry_after` up to which people wait for a file that Slack puts off."""
KEPT = 24_000
"""Characters of a file that are kept: three quarters from its beginning, the rest from its end."""
_MARGIN = 8_000
"""Characters around a cut that are searched for secrets and then dropped, so that no part of a cut
secret remains.
"""

TROUBLES = {
    FileProblem.GONE: "it was deleted, or it is in a channel without the bot",
    FileProblem.TOO_LARGE: f"it is larger than {MAX_BYTES / 2**20:.3g} MiB",
    FileProblem.OUTSIDE: "it is kept outside Slack",
    FileProblem.UNREADABLE: "Slack does not let the bot read it",
    FileProblem.KIND: "it is not a text file",
}
_NOT_UNICODE = "it is not Unicode text (UTF-8)"
_EMPTY = "it is empty"
_NO_SCOPE = "the bot lacks Slack's permission to read files, and the admin has been told"
_LATE = "Slack did not deliver it"
_log = structlog.get_logger(__name__)


async def fetch_files(
    deps: ConversationDeps, thread: Thread, attempt: int
) -> ConversationSnapshot:
    """See `ConversationActivities.fetch_files`; `attempt` counts from 1. Each file is stored as
    soon as it has arrived.
    """
    async with deps.database.begin() as tx:
        row = await ConversationStore(tx).lock(thread)
        pending = await FileStore(tx).pending(row.id, MOST_FILES)
    late: Transient | None = None
    try:
        async with asyncio.timeout(LONGEST_FETCH):
            for each in pending:
                try:
                    found = await _fetch(deps, each)
                except Transient as error:
                    late = error
                    if attempt < FETCH_ATTEMPTS and (error.retry_after or 0.0) <= _LONGEST_WAIT:
                        continue
                    found = FileText(trouble=_LATE)
                await _keep(deps, thread, each, found)
    except TimeoutError:
        late = Transient("Slack did not deliver the attached files in time.")
    async with deps.database.begin() as tx:
        snapshot = await ConversationStore(tx).snapshot(thread)
    if late and snapshot.files_due:
        raise late
    return snapshot


async def _keep(
    deps: ConversationDeps, thread: Thread, file: PendingFile, found: FileText
) -> None:
    async with deps.database.begin() as tx:
        row = await ConversationStore(tx).lock(thread)
        await FileStore(tx).keep(row.id, file, found)
        await ConversationStore(tx).touch(thread)
    _log.info("file_read", slack_thread=thread.key, file=file.file_id, problem=found.trouble)


async def _fetch(deps: ConversationDeps, file: PendingFile) -> FileText:
    """Return the text of a file, or the reason for its absence. Raises `Transient`."""
    try:
        known, content = await download_text(
            deps.slack.client, file.file_id, seconds=_LONGEST_DOWNLOAD
        )
    except FileRefused as refused:
        return FileText(trouble=TROUBLES[refused.problem])
    except Mendable as refused:
        return FileText(trouble=await _trouble_of(deps, refused))
    except Permanent as refused:
        _log.info("file_refused", file=file.file_id, reason=str(refused))
        return FileText(trouble=TROUBLES[FileProblem.UNREADABLE])
    return await asyncio.to_thread(read_text, content, known.mimetype)


async def _trouble_of(deps: ConversationDeps, refused: Mendable) -> str:
    """Return the reason for a refused file. Slack answers `access_denied` both for a stranger's
    file and for a bot that it refuses as a whole; only the latter is reported to the admin.
    """
    fault: Mendable | None = refused
    if refused.kind == ACCESS_FAULT and refused.subject == ACCESS:
        try:
            async with translated("the bot"):
                await deps.slack.client.auth_test()
        except Mendable as as_a_whole:
            fault = as_a_whole
        else:
            fault = None
    if fault is None:
        return TROUBLES[FileProblem.UNREADABLE]
    await deps.report_fault(fault.kind, fault.subject, str(fault))
    return _NO_SCOPE


def read_text(content: bytes, mimetype: str) -> FileText:
    """Return the text in the bytes of a file, without secrets, and without its middle if it is
    long.
    """
    try:
        text = decode_text(content)
    except DocumentRejected:
        return FileText(trouble=_NOT_UNICODE)
    if mimetype == CANVAS:
        text = html_to_markdown(text[:MAX_HTML])
    if not text.strip():
        return FileText(trouble=_EMPTY)
    return FileText(_shortened(text.replace("\r\n", "\n")))


def _shortened(text: str) -> str:
    """Return the text without secrets: whole, or its beginning and its end with a mark between
    them.
    """
    head_room = KEPT - KEPT // 4
    tail_room = KEPT // 4
    if len(text) <= KEPT + 2 * _MARGIN:
        clean = redact(text)
        if len(clean) <= KEPT:
            return clean
        head = clean[:head_room]
        tail = clean[-tail_room:]
    else:
        head = redact(text[: head_room + _MARGIN])[:head_room]
        tail = redact(text[-tail_room - _MARGIN :])[-tail_room:]
    left_out = len(text) - len(head) - len(tail)
    return (
        f"{head}\n[… about {left_out:,} of {len(text):,} characters are left out here …]\n{tail}"
    )
