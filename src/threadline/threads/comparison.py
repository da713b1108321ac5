"""ThreadSource: what is stored of a kind of thread. MissedEvent: what is missing, as the event that Slack would have
delivered, so that the gateway's one table of rules routes both."""

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
    """`id` is the id that the message will be stored under, `at` what it is ordered by. `start`: signalled in place of
    the event, for what Slack delivers as none."""

    id: str
    at: tuple[str, str]
    body: Mapping[str, Any]
    start: WorkflowStart | None = None


class ThreadSource(ABC):
    """What a kind of thread tells the catch-up. Each feature with threads has one; wiring passes them all."""

    kind: str
    """As in `ThreadOwner.feature`."""
    table: MessageTable
    """Where its messages are stored."""
    scope: LookScope | None = None
    """The scope in which a thread that nobody owns may become one of these."""
    everywhere = False
    """Whether its threads are compared also in channels that are not followed."""
    always_due = False
    """Whether `active_threads` are compared in every pass; otherwise once after each sign of activity."""

    def active_threads(self, team: str, since: float) -> Query | None:
        """Threads that no channel's history shows as changed: `(channel, thread_ts, active_at)`. `since`: seconds since
        1970; how far back a shallow pass reads a channel."""
        return None

    def relevant(self, thread: CatchUpThread, author_id: str, shown: Sequence[RawMessage]) -> list[RawMessage]:
        """Which of these messages may be missing. `author_id`: who wrote the root; empty where nobody knows."""
        return list(shown)

    def text(self, message: RawMessage) -> str:
        """What its author wrote, as it is stored, but for secrets."""
        return text_of(message)

    def is_same(self, message: RawMessage, stored: StoredMessage) -> bool:
        """Whether a message reads as it is stored, and shows the same files or more. Slack may have added previews of
        links since, at the end."""
        if _as_stored(self.text(message)) != _as_stored(stored.message_text):
            return False
        shown = {file.id for file in files_of(message)}
        if any(file["id"] not in shown for file in stored.files):
            return False
        return _as_stored(forwarded_of(message)).startswith(_as_stored(stored.forwarded))

    def lost_end(self, thread: Thread, post: LostPost) -> MissedEvent | None:
        """The end of what was talked about in a thread, where a post of the bot's tells it; asked after a restore."""
        return None

    @abstractmethod
    async def owner_id(self, tx: Transaction, owner: ThreadOwner) -> object | None:
        """By what `table` knows a thread's owner; None or empty when nothing is stored of it."""

    async def find_messages(
        self, tx: Transaction, thread: CatchUpThread, ids: Collection[str]
    ) -> dict[str, StoredMessage]:
        """Which of these messages are stored for the thread's owner, by id, with whatever corrects them."""
        owner_id = await self.owner_id(tx, thread.owner) if thread.owner else None
        return await self.table.find(tx, owner_id, ids) if owner_id else {}

    async def messages_between(
        self, tx: Transaction, thread: CatchUpThread, oldest: Decimal, latest: Decimal
    ) -> list[StoredMessage]:
        """What people are stored to have said in the thread's channel between two moments (seconds since 1970, both
        exclusive), and not to have deleted."""
        owner_id = await self.owner_id(tx, thread.owner) if thread.owner else None
        return await self.table.between(tx, owner_id, thread.team, thread.channel, oldest, latest) if owner_id else []

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
    """The event that tells of a message, or of its last edit; None where both are stored."""
    team, channel, ts = thread.team, thread.channel, str(message["ts"])
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
    """A text as it would be stored today, so that a rule which is newer than the stored text makes no edit."""
    return clean_text(redact(text))


def edited_at(message: RawMessage) -> Decimal:
    """When a message was last edited, in seconds since 1970; 0 for never."""
    edited = message.get("edited")
    return Decimal(str(edited.get("ts") or 0)) if isinstance(edited, Mapping) else Decimal(0)


def posted_event(team: str, channel: str, message: RawMessage, parent_user: str) -> MissedEvent:
    """`parent_user`: who wrote the thread's root; it counts for replies alone."""
    ts = str(message["ts"])
    event = _event(team, channel, _with_parent(message, parent_user))
    return MissedEvent(message_id(team, channel, ts), (ts, ""), event)


def edited_event(team: str, channel: str, message: RawMessage, parent_user: str, before: StoredMessage) -> MissedEvent:
    """`before` is the message as it is stored: the rules ignore a change that left its words alone."""
    version = str(message["edited"]["ts"])
    said = escape(with_forwarded(before.message_text, before.forwarded))
    previous: dict[str, Any] = {"text": said, "ts": before.slack_ts}
    previous["files"] = list(before.files)
    told = {"ts": version, "message": _with_parent(message, parent_user), "previous_message": previous}
    event = _event(team, channel, {"subtype": "message_changed", **told})
    return MissedEvent(edit_id(team, channel, str(message["ts"]), version), (version, version), event)


def deleted_event(team: str, gone: StoredMessage, root: str, parent_user: str) -> MissedEvent:
    """Nobody knows when it was deleted: it is told after everything that was said."""
    previous = {"ts": gone.slack_ts, "user": gone.sender_id, "thread_ts": root, "parent_user_id": parent_user}
    told = {"subtype": "message_deleted", "deleted_ts": gone.slack_ts, "previous_message": previous}
    identity = deletion_id(team, gone.channel, gone.slack_ts)
    return MissedEvent(identity, ("deleted", gone.slack_ts), _event(team, gone.channel, told))


def absent_event(team: str, gone: StoredMessage, root: str, parent_user: str) -> MissedEvent:
    """The event of a deletion that nobody has seen: it was inferred, so what it takes stays recoverable."""
    certain = deleted_event(team, gone, root, parent_user)
    body = {**certain.body, "event": {**certain.body["event"], INFERRED: True}}
    return MissedEvent(absence_id(team, gone.channel, gone.slack_ts), certain.at, body)


def is_direct(channel: str) -> bool:
    """Whether a channel is a direct message: history does not name its type, but the id begins with a D."""
    return channel.startswith("D")


def may_speak(message: RawMessage, allowed_apps: Collection[str]) -> bool:
    """Whether what a message says may count: it is a user's, of whom Slack is asked when it is signalled, or an app's
    that may speak."""
    return bool(message.get("user")) or any(message.get(name) in allowed_apps for name in ("bot_id", "app_id"))


def mentions_user(user: str, message: RawMessage) -> bool:
    """Whether a message, as Slack's history shows it, mentions a user."""
    return user in read_text(message).calls


def _with_parent(message: RawMessage, parent_user: str) -> dict[str, Any]:
    if message.get("thread_ts") in (None, "", message.get("ts")):
        return dict(message)
    return {**message, "parent_user_id": parent_user}


def _event(team: str, channel: str, told: Mapping[str, Any]) -> Mapping[str, Any]:
    place = {"channel": channel, **({"channel_type": "im"} if is_direct(channel) else {})}
    return {"type": "event_callback", "team_id": team, "event": {**told, "type": "message", **place}}
