"""ThreadSource: the stored messages of one kind of thread. MissedEvent: a missing message as the
event that Slack would have delivered, so that the gateway's one table of rules routes both.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from threadline.db.engine import Query, Transaction
from threadline.privacy.redaction import redact
from threadline.slack.history import RawMessage
from threadline.slack.model import Thread, clean_text
from threadline.slack.mrkdwn import escape
from threadline.slack.text import files_of, forwarded_of, read_text, text_of, with_forwarded
from threadline.threads.basis import LostPost
from threadline.threads.catch_up_store import CatchUpThread
from threadline.threads.contract import LookScope
from threadline.threads.message_table import MessageTable, StoredMessage
from threadline.threads.model import (
    INFERRED,
    SenderType,
    ThreadOwner,
    absence_id,
    deletion_id,
    edit_id,
    message_id,
)
from threadline.threads.workflow_client import WorkflowStart


@dataclass(frozen=True)
class MissedEvent:
    """An event to signal. `id` is the id under which the message will be stored, and `at` its sort
    key. `start` is signalled in place of the event where Slack delivers no event for it.
    """

    id: str
    at: tuple[str, str]
    body: Mapping[str, Any]
    start: WorkflowStart | None = None


class ThreadSource(ABC):
    """The catch-up's view of one kind of thread. Each feature with threads has one; wiring passes
    them all.
    """

    kind: str
    """The kind, as in `ThreadOwner.feature`."""
    table: MessageTable
    """The table that stores its messages."""
    scope: LookScope | None = None
    """The scope in which a thread without an owner may become one of these."""
    everywhere = False
    """Whether its threads are compared also in channels that are not followed."""
    always_due = False
    """Whether `active_threads` are compared in every pass, not only once after each sign of
    activity.
    """

    def active_threads(self, team: str, since: float) -> Query | None:
        """Return a query of threads that no channel's history shows as changed: `(channel,
        thread_ts, active_at)`. `since`: the time from which a shallow pass reads a channel, in
        seconds since 1970.
        """
        return None

    def begins(self, channel: str, root: RawMessage) -> bool:
        """Return whether a thread's first message counts, although it calls nobody."""
        return False

    def relevant(
        self, thread: CatchUpThread, author_id: str, shown: Sequence[RawMessage]
    ) -> list[RawMessage]:
        """Return those of the messages that may be missing. `author_id`: the author of the root;
        empty where unknown.
        """
        return list(shown)

    def text(self, message: RawMessage) -> str:
        """Return the author's text as it is stored, except for the redaction of secrets."""
        return text_of(message)

    def is_same(self, message: RawMessage, stored: StoredMessage) -> bool:
        """Return whether a message has its stored text and at least its stored files. Slack may
        have appended previews of links since.
        """
        if _as_stored(self.text(message)) != _as_stored(stored.message_text):
            return False
        shown = {file.id for file in files_of(message)}
        if any(file["id"] not in shown for file in stored.files):
            return False
        return _as_stored(forwarded_of(message)).startswith(_as_stored(stored.forwarded))

    def lost_end(self, thread: Thread, post: LostPost) -> MissedEvent | None:
        """Return the end of a thread's case or conversation that a post of the bot's announces.
        Called after a restore.
        """
        return None

    @abstractmethod
    async def owner_id(self, tx: Transaction, owner: ThreadOwner) -> object | None:
        """Return the key of a thread's owner in `table`; None or empty when nothing of it is
        stored.
        """

    async def find_messages(
        self, tx: Transaction, thread: CatchUpThread, ids: Collection[str]
    ) -> dict[str, StoredMessage]:
        """Return those of the messages that are stored for the thread's owner, with their
        corrections, by id.
        """
        owner_id = await self.owner_id(tx, thread.owner) if thread.owner else None
        return await self.table.find(tx, owner_id, ids) if owner_id else {}

    async def messages_between(
        self, tx: Transaction, thread: CatchUpThread, oldest: Decimal, latest: Decimal
    ) -> list[StoredMessage]:
        """Return the stored messages of people in the thread's channel between two moments
        (seconds since 1970, both exclusive), without deleted ones.
        """
        owner_id = await self.owner_id(tx, thread.owner) if thread.owner else None
        return (
            await self.table.between(tx, owner_id, thread.team, thread.channel, oldest, latest)
            if owner_id
            else []
        )

    async def stored_ids(self, tx: Transaction, ids: Collection[str]) -> set[str]:
        return await self.table.stored_ids(tx, ids)


def missing_event(
    source: ThreadSource,
    thread: CatchUpThread,
    message: RawMessage,
    stored: Mapping[str, StoredMessage],
    parent_user: str,
    end: Decimal,
) -> MissedEvent | None:
    """Return the event of a message that is not stored, or of its last edit; None where both are
    stored.
    """
    team = thread.team
    channel = thread.channel
    ts = str(message["ts"])
    before = stored.get(message_id(team, channel, ts))
    if before is None:
        return posted_event(team, channel, message, parent_user)
    if not 0 < edited_at(message) < end or before.sender_type == SenderType.BOT:
        return None
    event = edited_event(team, channel, message, parent_user, before)
    if event.id in stored or source.is_same(message, before):
        return None
    return event


def _as_stored(text: str) -> str:
    """Return a text as it would be stored today, so that a rule newer than the stored text makes
    no edit.
    """
    return clean_text(redact(text))


def edited_at(message: RawMessage) -> Decimal:
    """Return when a message was last edited, in seconds since 1970; 0 for never."""
    edited = message.get("edited")
    return Decimal(str(edited.get("ts") or 0)) if isinstance(edited, Mapping) else Decimal(0)


def posted_event(team: str, channel: str, message: RawMessage, parent_user: str) -> MissedEvent:
    """Return the event of a posted message. `parent_user`: the author of the thread's root, used
    only for replies.
    """
    ts = str(message["ts"])
    event = _event(team, channel, _with_parent(message, parent_user))
    return MissedEvent(message_id(team, channel, ts), (ts, ""), event)


def edited_event(
    team: str, channel: str, message: RawMessage, parent_user: str, before: StoredMessage
) -> MissedEvent:
    """Return the event of a message's last edit. `before` is the stored message: the rules ignore
    a change that leaves its text alone.
    """
    version = str(message["edited"]["ts"])
    said = escape(with_forwarded(before.message_text, before.forwarded))
    previous: dict[str, Any] = {"text": said, "ts": before.slack_ts}
    previous["files"] = list(before.files)
    told = {
        "ts": version,
        "message": _with_parent(message, parent_user),
        "previous_message": previous,
    }
    event = _event(team, channel, {"subtype": "message_changed", **told})
    return MissedEvent(
        edit_id(team, channel, str(message["ts"]), version), (version, version), event
    )


def deleted_event(team: str, gone: StoredMessage, root: str, parent_user: str) -> MissedEvent:
    """Return the event of a deletion. The time of a deletion is unknown, so it sorts after all
    messages.
    """
    previous = {
        "ts": gone.slack_ts,
        "user": gone.sender_id,
        "thread_ts": root,
        "parent_user_id": parent_user,
    }
    told = {
        "subtype": "message_deleted",
        "deleted_ts": gone.slack_ts,
        "previous_message": previous,
    }
    identity = deletion_id(team, gone.channel, gone.slack_ts)
    return MissedEvent(identity, ("deleted", gone.slack_ts), _event(team, gone.channel, told))


def absent_event(team: str, gone: StoredMessage, root: str, parent_user: str) -> MissedEvent:
    """Return the event of an inferred deletion, whose content stays recoverable."""
    certain = deleted_event(team, gone, root, parent_user)
    body = {**certain.body, "event": {**certain.body["event"], INFERRED: True}}
    return MissedEvent(absence_id(team, gone.channel, gone.slack_ts), certain.at, body)


def is_direct(channel: str) -> bool:
    """Return whether a channel is a direct message. History does not name its type, but its id
    begins with a D.
    """
    return channel.startswith("D")


def may_speak(message: RawMessage, allowed_apps: Collection[str]) -> bool:
    """Return whether a message may count: a user wrote it, whom Slack identifies when it is
    signalled, or an allowed app.
    """
    return bool(message.get("user")) or any(
        message.get(name) in allowed_apps for name in ("bot_id", "app_id")
    )


def mentions_user(user: str, message: RawMessage) -> bool:
    """Return whether a message, as Slack's history shows it, mentions a user."""
    return user in read_text(message).calls


def _with_parent(message: RawMessage, parent_user: str) -> dict[str, Any]:
    if message.get("thread_ts") in (None, "", message.get("ts")):
        return dict(message)
    return {**message, "parent_user_id": parent_user}


def _event(team: str, channel: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
    place = {"channel": channel, **({"channel_type": "im"} if is_direct(channel) else {})}
    return {
        "type": "event_callback",
        "team_id": team,
        "event": {**told, "type": "message", **place},
    }
