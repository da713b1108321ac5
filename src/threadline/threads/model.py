"""Values of a thread: its messages with their ids, its owner, button presses, and the budget of
retries.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from threadline.slack.model import MAX_NAME, MAX_PREVIEW, FileRef, Thread, clean_text

CORE_QUEUE = "threadline"
AGENTS_QUEUE = "threadline-agents"

INCOMING_MESSAGE = "incoming_message"
CLOSE_REQUESTED = "close_requested"
BUTTON_PRESSED = "button_pressed"
"""Names of signals. A released name is never changed or reused."""

MAX_SEEN_PRESSES = 500
"""Presses whose keys are kept to drop repeated deliveries; the record decides once in any case."""
MAX_PRESS_EVENTS = 2_000
"""Events in the history of a run that waits for presses, before it continues as new: repeated
presses do not fill it.
"""
FIRST_DELAY = 10.0
LONGEST_DELAY = 600.0
GIVE_UP_AFTER = 3600.0
FIRST_MENDING_DELAY = 10.0
LONGEST_MENDING_DELAY = 300.0
"""Seconds between two attempts while only the admin can mend the fault; each wait doubles."""
MAX_LOST_WORKERS = 10
"""Lost workers after which the turn itself is the likely cause (it uses up the memory, say): a
person takes over.
"""
_WORKFLOW_ID = re.compile(r"[a-z]+(:[^:]+){2}:[0-9]+\.[0-9]+(:[0-9]+)?")


class MessageKind(StrEnum):
    """The kinds of events by people in a thread."""

    REPORT = "report"
    MESSAGE = "message"
    CLOSE = "close"
    STOP = "stop"
    """Tells the bot to stop its work in a conversation, by a word or by a reaction."""
    REACTION_ADDED = "thumb"
    """A thumb up or down on a message of the bot: `text` is the reaction's name."""
    REACTION_REMOVED = "thumb_taken"
    EDIT = "edit"
    DELETION = "deletion"
    QUARANTINED = "quarantined"
    """A signal that could not be read."""


REACTIONS = (MessageKind.REACTION_ADDED, MessageKind.REACTION_REMOVED)
KINDS = tuple(kind for kind in MessageKind if kind is not MessageKind.QUARANTINED)
"""The kinds that a signal may name."""


class SenderType(StrEnum):
    REPORTER = "reporter"
    DEVELOPER = "developer"
    UNKNOWN = "unknown"
    """The event did not name the author of the thread's root: the case, which knows its reporter,
    decides.
    """
    THIRD_PARTY = "third_party"
    BOT = "bot"
    ADMIN = "admin"
    """The admin, through the command line."""


MAX_FILES = 50
"""Files of one message that are kept: Slack accepts ten."""
_MAX_FILE_SIZE = 2**62
"""Bytes. Slack never names such a size, but a signal may, and the database refuses a larger
one.
"""


@dataclass(frozen=True)
class IncomingMessage:
    """One event by a person in a thread.

    - `text`: the author's text;
    - `ts`: when it was posted, by which messages are ordered; for an edit or a deletion the `ts`
      of the message it corrects;
    - `correction_of`: the id of the message that an edit or a deletion corrects, or that has the
      thumb;
    - `version`: the `edited.ts` by which the newest edit wins;
    - `addressed`: it mentions the bot, which an edit may add, or is a direct message;
    - `root_author_id`: in a conversation, the author of the thread's root, unless that was an app
      or the event does not name it;
    - `forwarded`: the text that the author forwards or quotes, see `slack.text.MessageText`.
      Models and people get it marked as forwarded, and no rule reads it;
    - `as_written`: the author's text with its quotes in their places; empty without quotes;
    - `files_removed`: an edit removed a file from the message. Without it an edit that names no
      files leaves them alone.
    """

    id: str
    kind: MessageKind
    sender_type: SenderType
    sender_id: str
    text: str
    channel: str
    ts: str
    correction_of: str = ""
    version: str = ""
    files: tuple[FileRef, ...] = field(default_factory=tuple)
    addressed: bool = False
    root_author_id: str = ""
    forwarded: str = ""
    as_written: str = ""
    files_removed: bool = False


def parse_message(
    args: Sequence[Any], *, kind: MessageKind = MessageKind.MESSAGE
) -> IncomingMessage:
    """Parse a signal's arguments. Never raises. A gateway sends one JSON object with the fields of
    `IncomingMessage`.

    Temporal drops a signal that does not decode into the handler's types, so nothing on the wire
    is strict. Unreadable arguments become a `QUARANTINED` message, which is stored and shown to
    the admin.

    Args:
        kind: the kind of a message that names none.
    """
    if len(args) == 1 and isinstance(args[0], Mapping):
        raw = args[0]
        sender = _text(raw, "sender_type") or SenderType.UNKNOWN
        given = _text(raw, "kind") or kind
        names = {name: _text(raw, name) for name in _NAMES}
        readable = names["id"] and names["ts"] and max(map(len, names.values())) <= MAX_NAME
        if readable and given in KINDS:
            return IncomingMessage(
                kind=MessageKind(given),
                sender_type=SenderType(sender) if sender in _SENDERS else SenderType.UNKNOWN,
                text=_text(raw, "text"),
                files=_files(raw.get("files")),
                addressed=raw.get("addressed") is True,
                forwarded=_text(raw, "forwarded"),
                as_written=_text(raw, "as_written"),
                files_removed=raw.get("files_removed") is True,
                **names,
            )
    whole = _json(args)
    return quarantined_message(whole, whole.encode("utf-8", "surrogatepass"))


_SENDERS = (SenderType.REPORTER, SenderType.DEVELOPER, SenderType.ADMIN, SenderType.UNKNOWN)
_NAMES = ("id", "sender_id", "channel", "ts", "correction_of", "version", "root_author_id")


def quarantined_message(text: str, whole: bytes = b"") -> IncomingMessage:
    """Return an unreadable signal as a message with a stable id.

    Args:
        text: the readable part, cut at `MAX_TEXT`.
        whole: all bytes of the signal, where `text` alone does not identify it; the same bytes get
            the same id.
    """
    kept = clean_text(text)
    identity = f"quarantine:{hashlib.sha256(whole or kept.encode()).hexdigest()[:16]}"
    return IncomingMessage(
        identity,
        MessageKind.QUARANTINED,
        SenderType.UNKNOWN,
        sender_id="",
        text=kept,
        channel="",
        ts="",
    )


def _json(args: Sequence[Any]) -> str:
    try:
        return json.dumps(args, default=repr, sort_keys=True)
    except (TypeError, ValueError):
        # Keys of several types, or a number of more digits than Python prints.
        return repr([type(each).__name__ for each in args])


def _text(raw: Mapping[Any, Any], name: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    return clean_text(value if isinstance(value, str) else str(value))


def _files(raw: Any) -> tuple[FileRef, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        return ()
    files = list[FileRef]()
    for item in raw[:MAX_FILES]:
        if isinstance(item, Mapping) and 0 < len(_text(item, "id")) <= MAX_NAME:
            size = item.get("size")
            size = min(size, _MAX_FILE_SIZE) if isinstance(size, int) and size >= 0 else 0
            files.append(
                FileRef(
                    id=_text(item, "id"),
                    name=_text(item, "name")[:MAX_NAME],
                    mimetype=_text(item, "mimetype")[:MAX_NAME],
                    size=size,
                    preview=_text(item, "preview")[:MAX_PREVIEW],
                )
            )
    return tuple(files)


def message_id(team: str, channel: str, ts: str) -> str:
    """Return the id under which a message is stored once, for all events that deliver it."""
    return f"{team}:{channel}:{ts}"


INFERRED = "threadline_inferred"
"""Marks the event of a deletion that the catch-up inferred; Slack's events never have it."""
ABSENT = ":absent"
"""The suffix of an inferred deletion's id."""


def edit_id(team: str, channel: str, ts: str, edited_ts: str) -> str:
    return f"{message_id(team, channel, ts)}:e{edited_ts}"


def deletion_id(team: str, channel: str, ts: str) -> str:
    return f"{message_id(team, channel, ts)}:d"


def absence_id(team: str, channel: str, ts: str) -> str:
    """Return the id of a deletion that was inferred from the message's absence; a deletion that
    Slack reports later has another id.
    """
    return f"{message_id(team, channel, ts)}{ABSENT}"


def stop_id(team: str, channel: str, ts: str, user: str, moment: str) -> str:
    """Return the id of a stop sign that a person put on a message at a moment. Removed and put
    back, it counts again.
    """
    return f"{message_id(team, channel, ts)}:stop:{user}:{moment}"


def reaction_id(team: str, channel: str, ts: str, user: str, reaction: str, moment: str) -> str:
    """Return the id of a thumb that a person added to a message, or removed from it, at a
    moment.
    """
    return f"{message_id(team, channel, ts)}:thumb:{user}:{reaction}:{moment}"


def turn_id(thread: Thread, turn: int) -> str:
    """Return the correlation id of a turn, which is the same in all its records."""
    return f"{thread.key}:{turn}"


@dataclass(frozen=True)
class ThreadOwner:
    """The workflow that receives the messages of a thread: one row of the table `threads`. `kind`
    begins with the feature: `case:report`, `case:summary`, `case:escalation`, `conversation`,
    `handover`.
    """

    workflow_id: str
    kind: str

    @property
    def feature(self) -> str:
        """The feature: `case`, `conversation` or `handover`."""
        return self.kind.partition(":")[0]

    @property
    def thread(self) -> Thread:
        """The home thread of the workflow, whose id begins with `<prefix>:<team>:<channel>:<ts>`:
        a case's report, or the conversation's thread.
        """
        _, team, channel, ts, *_ = self.workflow_id.split(":")
        return Thread(team, channel, ts)


def owner_in(payload: Mapping[str, Any]) -> ThreadOwner | None:
    """Return the owner in the metadata of a root, which `threads.outbox` wrote; None when it names
    none.
    """
    workflow_id = payload.get("workflow_id")
    kind = payload.get("kind")
    if (
        not isinstance(workflow_id, str)
        or not isinstance(kind, str)
        or not _WORKFLOW_ID.fullmatch(workflow_id)
    ):
        return None
    return ThreadOwner(workflow_id, kind)


def is_new(seen: dict[str, None], key: str, most: int) -> bool:
    """Return whether a key was not seen before, and remember it. Beyond `most` keys the oldest are
    forgotten. Workflows run this, so it must not change for open ones.
    """
    if key in seen:
        return False
    seen[key] = None
    while len(seen) > most:
        del seen[next(iter(seen))]
    return True


@dataclass(frozen=True)
class ButtonPress:
    """A press of a card's button.

    - `action_id`: Slack's name for the button, which was made for `value`;
    - `key`: the same when the press is delivered again;
    - `at`: seconds since 1970, by Slack's clock; 0 where it was unreadable;
    - `channel`, `thread_ts`: the place of the private reply;
    - `text`: the person's text in the modal that the button opened, without secrets.
    """

    user_id: str
    action_id: str
    value: str
    key: str
    at: float
    channel: str
    thread_ts: str
    text: str = ""


@dataclass(kw_only=True)
class ButtonState:
    """The state that a workflow of presses carries into its next run: `presses` that are not
    handled yet, and the keys of the last ones (`seen`). Each feature adds its card.
    """

    presses: list[ButtonPress] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)

    def accept(self, press: ButtonPress) -> None:
        if is_new(self.seen, press.key, MAX_SEEN_PRESSES):
            self.presses.append(press)


class FaultKind(StrEnum):
    LOST = "lost"
    """A deploy or a crashed machine: not a fault of the turn, so it does not count towards
    `GIVE_UP_AFTER`.
    """
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    MENDABLE = "mendable"
    """A fault of the installation, which only the admin can mend: retried without end."""


@dataclass(frozen=True)
class Fault:
    """The cause of an attempt that ended without an outcome; `message` is a sentence for
    people.
    """

    kind: FaultKind
    message: str
    retry_after: float = 0.0
    cause: str = ""
    """Kind of a fault of the installation; `subject` is its subject."""
    subject: str = ""


def doubled(first: float, longest: float, times: int) -> float:
    """Return a delay of `first` seconds after it was doubled so many times, at most `longest`."""
    return min(first * 2.0 ** min(max(times, 0), 64), longest)


def mending_delay(attempt: int) -> float:
    """Return the seconds to wait after a `Mendable` error of this attempt, counted from 1."""
    return doubled(FIRST_MENDING_DELAY, LONGEST_MENDING_DELAY, attempt - 1)


@dataclass
class RetryBudget:
    """Counts the interruptions of one turn. Times are in seconds."""

    lost: int = 0
    transient: int = 0
    mendable: int = 0
    first_transient: float | None = None

    def next_delay(self, fault: Fault, now: float) -> float | None:
        """Return the seconds to wait before the next attempt; None when a person must take
        over.
        """
        if fault.kind is FaultKind.LOST:
            self.lost += 1
            return 1.0 if self.lost <= MAX_LOST_WORKERS else None
        if fault.kind is FaultKind.PERMANENT:
            return None
        if fault.kind is FaultKind.MENDABLE:
            self.mendable += 1
            return mending_delay(self.mendable)
        self.first_transient = now if self.first_transient is None else self.first_transient
        if now - self.first_transient >= GIVE_UP_AFTER:
            return None
        self.transient += 1
        return max(fault.retry_after, doubled(FIRST_DELAY, LONGEST_DELAY, self.transient - 1))


def format_utc(at: float) -> str:
    """Format seconds since 1970 for people, in Temporal's UI and in queries."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
