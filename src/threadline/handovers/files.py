"""HandoverFiles: shows people's attachments on the other side of a handover, once.

A file is downloaded from Slack and uploaded into the other thread under its own key, as
`threads/outbox.py` posts a message. Slack stores no key with a file, so the name of the upload
contains the id of the original: the search for the upload uses it, before another upload and after
a restore. A file that cannot be shown is named with its link.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any

import structlog

from threadline.conversations.model.conversation import ConversationTurn
from threadline.db.engine import Database
from threadline.errors import (
    InternalError,
    Mendable,
    NotDone,
    Permanent,
    Transient,
    before_a_change,
)
from threadline.handovers import blocks
from threadline.handovers.model import UnshownFile, post_key
from threadline.privacy.redaction import redact
from threadline.slack.client import SlackClient
from threadline.slack.files import (
    MAX_BYTES,
    FileProblem,
    FileRefused,
    FileUpload,
    SharedFile,
    delete_file,
    fetch,
    file_info,
    find_file_where,
    own_user_id,
    upload_file,
)
from threadline.slack.model import ACCESS, ACCESS_FAULT, FileRef, Thread
from threadline.threads.outbox import ClaimAnew, Outbox, Post
from threadline.threads.store import PostStore

MAX_FILES = 10
"""Maximum files of one message that are shown; also the limit of Slack's own clients."""
PATIENCE = 120.0
"""Seconds after the message's post in which the download of a file is retried while Slack does not
deliver it. Later posts wait.
"""
MAX_DOUBT = 900.0
"""Seconds after the message's post in which a file that may be shown is searched for. Later posts
wait.
"""
DOWNLOAD_TIME = 20.0
"""Seconds for the download of one file, since later posts wait."""
UNSHOWN = {
    FileProblem.GONE: "I cannot see it: it was deleted, or it is in a channel without me.",
    FileProblem.TOO_LARGE: (
        f"It is larger than {MAX_BYTES / 2**20:.3g} MiB: attach the part that matters."
    ),
    FileProblem.OUTSIDE: "It is kept outside Slack: attach the file itself.",
    FileProblem.UNREADABLE: "Slack does not let me read it: an admin has to allow it first.",
}
"""Reasons for the author of a file that is not shown. Ids and advice for an admin are in the
log.
"""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Attachments:
    """The attachments of one message.

    - `message_id` and `user_id`: the message and its author;
    - `files`: its current files; the other side must show only these;
    - `place`: the thread on the other side, where the message itself is posted as `what`;
    - `read_files`: reads the message's current files again; none after it was deleted or made
      internal.
    """

    ref: ConversationTurn
    message_id: str
    user_id: str
    files: tuple[FileRef, ...]
    place: Thread
    what: str
    read_files: Callable[[], Awaitable[Sequence[FileRef]]]


class _NotWanted(Permanent):
    """The file that is searched for must not be sent."""


@dataclass(frozen=True, eq=False)
class HandoverFiles:
    """Raises all errors of `Outbox.publish`, except that a `Permanent` is raised only if it
    `must_wait`: other refusals are returned.
    """

    database: Database
    slack: SlackClient
    outbox: Outbox

    async def show(self, given: Attachments) -> list[UnshownFile]:
        """Show the files of a posted message, in order, and remove those that it has lost. Safe to
        repeat. Return the files that are not shown.
        """
        shown = await self.remove_missing(given)
        async with self.database.begin() as tx:
            age = await PostStore(tx).age_of(post_key(given.ref, given.what))
        unshown = list[UnshownFile]()
        for number, file in enumerate(given.files):
            if _key(given, file.id) in shown:
                continue
            if number >= MAX_FILES:
                unshown.append(await self._unshown(file, blocks.TOO_MANY_FILES))
            elif file.id not in {each.id for each in await given.read_files()}:
                # a file that is removed meanwhile is skipped here; the call for its removal also
                # removes its earlier upload
                continue
            elif reason := await self._show(given, file, age):
                unshown.append(await self._unshown(file, reason))
        return unshown

    async def remove_missing(self, given: Attachments) -> set[str]:
        """Remove the uploads of files that a message has lost. Safe to repeat.

        Returns:
            The keys of all uploads that were shown.

        Raises:
            Transient: an upload may still arrive in Slack.
        """
        async with self.database.begin() as tx:
            store = PostStore(tx)
            shown = await store.sent_under(_key(given, ""), given.place.channel, given.place.ts)
            in_doubt = await store.in_doubt(_key(given, ""))
        kept = {_key(given, file.id) for file in given.files}
        for key, upload_id in shown.items():
            if key not in kept:
                await self._remove(upload_id)
        for each in in_doubt:
            if each.key not in kept:
                await self._remove_in_doubt(given, each.key)
        return set(shown)

    async def _remove_in_doubt(self, given: Attachments, key: str) -> None:
        """Remove a file that an earlier try may have uploaded, or drop its claim."""
        file = FileRef(key.rpartition(":")[2])

        async def send(_: ClaimAnew) -> str:
            raise _NotWanted

        try:
            find = partial(self._find, given, file)
            upload_id = await self.outbox.once(
                Post(key, given.place.channel, given.place.ts, ()), send, find
            )
        except _NotWanted:
            return
        except (InternalError, Mendable):
            raise
        except Permanent as refused:  # for example a thread that was deleted with the file
            _log.warning("relayed_file_not_searched", key=key, reason=str(refused))
            return
        await self._remove(upload_id)

    async def _show(self, given: Attachments, file: FileRef, age: float) -> str:
        """Show one file.

        Args:
            age: seconds since the message was posted; while it is young, a `Transient` is raised.

        Returns:
            The reason why the file cannot be shown; empty if it is shown.
        """
        key = _key(given, file.id)
        place = given.place
        send = partial(self._send, given, file)
        find = partial(self._find, given, file)
        try:
            await self.outbox.once(Post(key, place.channel, place.ts, ()), send, find)
        except Permanent as refused:
            if must_wait(refused) or (
                isinstance(refused, Mendable) and await self._is_in_doubt(key)
            ):
                raise
            _log.warning("file_not_relayed", key=key, reason=str(refused))
            return _reason(refused)
        except Transient as failed:
            certain = isinstance(failed, NotDone)  # otherwise it may be shown, and is searched for
            if age < (PATIENCE if certain else MAX_DOUBT):
                raise
            _log.warning("file_not_relayed", key=key, reason=str(failed))
            return blocks.NOT_DELIVERED
        return ""

    async def _send(self, given: Attachments, file: FileRef, claim_anew: ClaimAnew) -> str:
        client = self.slack.client
        with before_a_change():
            if (window := self.outbox.lost.active_window) and (
                found := await self._find(given, file, window.oldest)
            ):
                return found
            info = await file_info(client, file.id)
            content = await fetch(client, info, seconds=DOWNLOAD_TIME)
            author = await self._name_of(given.user_id)
        upload = FileUpload(
            key=_key(given, file.id),
            channel=given.place.channel,
            thread_ts=given.place.ts,
            name=_upload_name(info),
            title=redact(info.name),
            comment=blocks.attached_by(author),
            content=content,
        )
        return await upload_file(self.slack, upload, claim_anew)

    async def _name_of(self, user_id: str) -> str:
        """Return the display name of an author; empty if Slack does not provide it now."""
        try:
            user = await self.slack.user(user_id)
        except (Permanent, Transient) as error:
            _log.info("author_not_named", user=user_id, reason=str(error))
            return ""
        return redact(user.name) if user else ""

    async def _find(self, given: Attachments, file: FileRef, oldest: float) -> str:
        is_ours = partial(_is_upload_of, file.id, await own_user_id(self.slack))
        return await find_file_where(
            self.slack, given.place.channel, given.place.ts, is_ours, oldest
        )

    async def _remove(self, upload_id: str) -> None:
        """Delete one of our uploads. If Slack refuses that, only log it: the message's change
        continues.
        """
        try:
            await delete_file(self.slack, upload_id)
        except Permanent as refused:
            if must_wait(refused):
                raise
            _log.warning("relayed_file_not_deleted", file=upload_id, reason=str(refused))

    async def _is_in_doubt(self, key: str) -> bool:
        """Return whether an earlier try may have shown a file; the search for it was refused
        then.
        """
        async with self.database.begin() as tx:
            return any(each.key == key for each in await PostStore(tx).in_doubt(key))

    async def _unshown(self, file: FileRef, reason: str) -> UnshownFile:
        try:
            info = await file_info(self.slack.client, file.id)
        except (Permanent, Transient) as error:
            if isinstance(error, Permanent) and must_wait(error):
                raise
            return UnshownFile(file.name or file.id, "", reason)
        return UnshownFile(redact(info.name), info.permalink, reason)


def must_wait(refused: Permanent) -> bool:
    """Return whether a refusal must reach the workflow, which retries after the admin has mended
    it.

    A missing scope that only files need holds up no later post: the file is named, and its author
    is notified.
    """
    if isinstance(refused, Mendable):
        lacks_scope = refused.kind == ACCESS_FAULT and refused.subject != ACCESS
        return not lacks_scope
    return isinstance(refused, InternalError)


def _reason(refused: Permanent) -> str:
    """Return the reason why a file is not shown, in words for its author."""
    if isinstance(refused, FileRefused):
        return UNSHOWN[refused.problem]
    return blocks.NO_SCOPE if isinstance(refused, Mendable) else blocks.NOT_COPIED


def _key(given: Attachments, file_id: str) -> str:
    return post_key(given.ref, f"file:{given.message_id}:{file_id}")


def _upload_name(original: SharedFile) -> str:
    """Return the name under which people save the upload. It is unique among our uploads, since it
    contains the original's id.
    """
    name = PurePath(redact(original.name).rstrip(". "))
    return f"{name.stem}-{original.id}{name.suffix}"


def _is_upload_of(file_id: str, bot_user_id: str, shown: Mapping[str, Any]) -> bool:
    """Return whether a file of a thread is the bot's upload of another one. People may give theirs
    the same name.
    """
    holds_id = re.search(rf"-{re.escape(file_id)}(?![A-Za-z0-9])", str(shown.get("name") or ""))
    return bool(holds_id) and shown.get("user") == bot_user_id
