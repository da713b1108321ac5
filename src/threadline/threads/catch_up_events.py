"""What Slack shows becomes the event that would have told of it, so that one table of rules routes both. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline.threads.message_table import StoredMessage

Raw = Mapping[str, Any]


@dataclass(frozen=True)
class MissedEvent:
    """`id` is the id that the message will be stored under, `at` what it is ordered by."""

    id: str
    at: tuple[str, str]
    body: Mapping[str, Any]


def posted(team: str, channel: str, message: Raw, parent_user: str, identity: str) -> MissedEvent:
    """`parent_user`: who wrote the thread's root; it counts for replies alone."""
    event = {**_with_parent(message, parent_user), "type": "message", **_place(channel)}
    return MissedEvent(identity, (str(message["ts"]), ""), _body(team, event))


def edited(
    team: str, channel: str, message: Raw, parent_user: str, identity: str, before: StoredMessage
) -> MissedEvent:
    """`before` is the message as it is stored: a change that left its words alone is none."""
    version = str(message["edited"]["ts"])
    event = {
        "type": "message",
        "subtype": "message_changed",
        **_place(channel),
        "ts": version,
        "message": _with_parent(message, parent_user),
        "previous_message": {"text": before.message_text, "ts": before.slack_ts},
    }
    return MissedEvent(identity, (version, version), _body(team, event))


def deleted(team: str, gone: StoredMessage, root: str, parent_user: str, identity: str) -> MissedEvent:
    """Nobody knows when it was deleted: it is told after everything that was said."""
    previous = {"ts": gone.slack_ts, "user": gone.sender_id, "thread_ts": root, "parent_user_id": parent_user}
    event = {
        "type": "message",
        "subtype": "message_deleted",
        **_place(gone.channel),
        "deleted_ts": gone.slack_ts,
        "previous_message": previous,
    }
    return MissedEvent(identity, ("deleted", gone.slack_ts), _body(team, event))


def is_direct(channel: str) -> bool:
    """A direct message is one by its channel's type, which history does not name; its id begins with a D."""
    return channel.startswith("D")


def _place(channel: str) -> Mapping[str, str]:
    return {"channel": channel, **({"channel_type": "im"} if is_direct(channel) else {})}


def _with_parent(message: Raw, parent_user: str) -> dict[str, Any]:
    if message.get("thread_ts") in (None, "", message.get("ts")):
        return dict(message)
    return {**message, "parent_user_id": parent_user}


def _body(team: str, event: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"type": "event_callback", "team_id": team, "event": event}
