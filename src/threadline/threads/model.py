"""Values of a thread: its messages with their ids, its workflow, presses of buttons, and what may be tried again."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from threadline.slack.model import MAX_NAME, FileRef, Thread, clean_text

CORE_QUEUE = "threadline"
AGENTS_QUEUE = "threadline-agents"

INCOMING_MESSAGE = "incoming_message"
CLOSE_REQUESTED = "close_requested"
BUTTON_PRESSED = "button_pressed"
"""Signals. A released name is never changed or reused."""

MAX_SEEN_PRESSES = 500
"""Presses whose keys are kept, to drop what is delivered again; the record decides once in any case."""
MAX_PRESS_EVENTS = 2_000
"""Events in the history of one run that waits for presses: somebody who presses again and again does not fill it."""
FIRST_DELAY, LONGEST_DELAY, GIVE_UP_AFTER = 10.0, 600.0, 3600.0
FIRST_MENDING_DELAY, LONGEST_MENDING_DELAY = 10.0, 300.0
"""Seconds between two tries of what only the admin can mend; each wait is twice the one before."""
MAX_LOST_WORKERS = 10
"""After this many lost workers the turn itself is the likely cause (it uses up the memory, say): people look at it."""
_WORKFLOW_ID = re.compile(r"[a-z]+(:[^:]+){2}:[0-9]+\.[0-9]+(:[0-9]+)?")


class MessageKind(StrEnum):
    """What somebody did in a thread."""

    REPORT = "report"
    MESSAGE = "message"
    CLOSE = "close"
    STOP = "stop"
    """Tells the bot to stop what it is doing in a conversation, by a word or by a reaction."""
    REACTION_ADDED = "thumb"
    """A thumb up or down on a message of the bot: `text` is the reaction's name."""
    REACTION_REMOVED = "thumb_taken"
    EDIT = "edit"
    DELETION = "deletion"
    QUARANTINED = "quarantined"
    """What could not be read."""


REACTIONS = (MessageKind.REACTION_ADDED, MessageKind.REACTION_REMOVED)
KINDS = tuple(kind for kind in MessageKind if kind is not MessageKind.QUARANTINED)
"""What a signal may say that it is."""


class SenderType(StrEnum):
    REPORTER = "reporter"
    DEVELOPER = "developer"
    UNKNOWN = "unknown"
    """The event did not say who wrote the thread's root: the case, which knows its reporter, decides."""
    THIRD_PARTY = "third_party"
    BOT = "bot"
    ADMIN = "operator"
    """The admin, by the command line."""


MAX_FILES = 50
"""Files of one message that are kept: Slack takes ten."""
_MAX_FILE_SIZE = 2**62
"""Bytes. Slack names no such size, but a signal may, and the database takes none above."""


@dataclass(frozen=True)
class IncomingMessage:
    """One thing that a person did in a thread.

    `ts` is when it was said (for an edit or a deletion: the `ts` of the message it corrects), and the order in which
    messages are shown. `correction_of` is the id of the message that an edit or a deletion corrects, or that a thumb is
    put on; `version` is the `edited.ts` by which the newest edit wins. `addressed`: in a conversation, it mentions
    the bot, or stands in a direct message. `root_author_id`: there, who wrote the thread's root, unless it was an app
    or the event does not say. `text` is what the author wrote. `forwarded` is what they forward or quote, see
    `slack.text.MessageText`: models and people are shown it as forwarded, and no rule reads it. `as_written` has the
    author's words with their quotes where they were written; empty where nothing is quoted.
    `files_removed`: it is an edit, and the message shows a file no more that it showed before. Without it an edit that
    names no files leaves them alone.
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


def parse_message(args: Sequence[Any], *, kind: MessageKind = MessageKind.MESSAGE) -> IncomingMessage:
    """Read a signal's arguments, whatever they are; never raises. A gateway sends one JSON object with the fields of
    `IncomingMessage`; `kind` counts where that does not say what it is.

    Temporal drops a signal that does not decode into the handler's types, so nothing on the wire is strict. What cannot
    be read becomes a `QUARANTINED` message, which is stored and shown to the admin.
    """
    if len(args) == 1 and isinstance(args[0], Mapping):
        raw = args[0]
        sender, given = _text(raw, "sender_type") or SenderType.UNKNOWN, _text(raw, "kind") or kind
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
    """What could not be read, as a message of its own: `text` is what can be shown, cut at `MAX_TEXT`. `whole` is all
    that came, where `text` does not tell one from another; the same again gets the same id."""
    kept = clean_text(text)
    identity = f"quarantine:{hashlib.sha256(whole or kept.encode()).hexdigest()[:16]}"
    return IncomingMessage(
        identity, MessageKind.QUARANTINED, SenderType.UNKNOWN, sender_id="", text=kept, channel="", ts=""
    )


def _json(args: Sequence[Any]) -> str:
    try:
        return json.dumps(args, default=repr, sort_keys=True)
    except (TypeError, ValueError):  # keys of several types, a number of more digits than Python prints
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
            name, mimetype = _text(item, "name")[:MAX_NAME], _text(item, "mimetype")[:MAX_NAME]
            files.append(FileRef(id=_text(item, "id"), name=name, mimetype=mimetype, size=size))
    return tuple(files)


def message_id(team: str, channel: str, ts: str) -> str:
    """The id under which a message is stored once, however often and by whichever event it arrives."""
    return f"{team}:{channel}:{ts}"


INFERRED = "threadline_inferred"
"""Marks the event of a deletion that the catch-up has inferred; no event of Slack's has it."""
ABSENT = ":absent"
"""The end of such a deletion's id."""


def edit_id(team: str, channel: str, ts: str, edited_ts: str) -> str:
    return f"{message_id(team, channel, ts)}:e{edited_ts}"


def deletion_id(team: str, channel: str, ts: str) -> str:
    return f"{message_id(team, channel, ts)}:d"


def absence_id(team: str, channel: str, ts: str) -> str:
    """Of a deletion that was inferred from the message's absence: when a deletion is seen later, that is another."""
    return f"{message_id(team, channel, ts)}{ABSENT}"


def stop_id(team: str, channel: str, ts: str, user: str, moment: str) -> str:
    """Of a stop sign that a person put on a message at a moment: taken away and put back, it says so again."""
    return f"{message_id(team, channel, ts)}:stop:{user}:{moment}"


def reaction_id(team: str, channel: str, ts: str, user: str, reaction: str, moment: str) -> str:
    """Of a thumb that a person put on a message, or took from it, at a moment."""
    return f"{message_id(team, channel, ts)}:thumb:{user}:{reaction}:{moment}"


def turn_id(thread: Thread, turn: int) -> str:
    """The correlation id of a turn: the same in all that it writes."""
    return f"{thread.key}:{turn}"


@dataclass(frozen=True)
class ThreadOwner:
    """Who gets what people write in a thread: one row of the table `threads`. `kind` begins with the feature:
    `case:report`, `case:summary`, `case:escalation`, `conversation`, `handover`."""

    workflow_id: str
    kind: str

    @property
    def feature(self) -> str:
        """`case`, `conversation` or `handover`."""
        return self.kind.partition(":")[0]

    @property
    def thread(self) -> Thread:
        """The thread of the workflow, whose id begins with `<prefix>:<team>:<channel>:<ts>`: a case's report, or where
        a conversation is held."""
        _, team, channel, ts, *_ = self.workflow_id.split(":")
        return Thread(team, channel, ts)


def owner_in(payload: Mapping[str, Any]) -> ThreadOwner | None:
    """The owner that the metadata of a root names, which `threads.outbox` wrote; None when it names none."""
    workflow_id, kind = payload.get("workflow_id"), payload.get("kind")
    if not isinstance(workflow_id, str) or not isinstance(kind, str) or not _WORKFLOW_ID.fullmatch(workflow_id):
        return None
    return ThreadOwner(workflow_id, kind)


def is_new(seen: dict[str, None], key: str, most: int) -> bool:
    """Whether a key was not seen before. It is remembered; of more than `most` keys the oldest are forgotten. Workflows
    run this: it must not change for open ones."""
    if key in seen:
        return False
    seen[key] = None
    while len(seen) > most:
        del seen[next(iter(seen))]
    return True


@dataclass(frozen=True)
class ButtonPress:
    """Somebody pressed a button of a card, `action_id` (Slack's word), which was made for `value`. `key` is the same
    when the press is delivered again. `at`: seconds since 1970, by Slack's clock; 0 where that was not to be read. The
    person is answered in `channel` and `thread_ts`. `text`: what the person wrote in the modal that the button opened,
    without secrets."""

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
    """What a workflow that waits for presses carries into its next run: `presses` that nobody has looked at, and the
    keys of the last ones (`seen`). Each feature adds its card."""

    presses: list[ButtonPress] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)

    def accept(self, press: ButtonPress) -> None:
        if is_new(self.seen, press.key, MAX_SEEN_PRESSES):
            self.presses.append(press)


class FaultKind(StrEnum):
    LOST = "lost"
    """A deploy or a crashed machine: no fault of the turn, so it does not count towards `GIVE_UP_AFTER`."""
    TRANSIENT = "transient"
    PERMANENT = "permanent"
    MENDABLE = "mendable"
    """A fault of the installation, which only the admin can mend: it is waited for without end."""


@dataclass(frozen=True)
class Fault:
    """Why an attempt ended without an outcome; `message` is a sentence for people."""

    kind: FaultKind
    message: str
    retry_after: float = 0.0
    cause: str = ""
    """For a fault of the installation, its kind and its subject."""
    subject: str = ""


def mending_delay(attempt: int) -> float:
    """Seconds to wait after a `Mendable` error of this attempt, from 1."""
    doublings = min(max(attempt - 1, 0), 10)
    return min(FIRST_MENDING_DELAY * 2.0**doublings, LONGEST_MENDING_DELAY)


@dataclass
class RetryBudget:
    """Counts the interruptions of one turn. Times in seconds."""

    lost: int = 0
    transient: int = 0
    mendable: int = 0
    first_transient: float | None = None

    def next_delay(self, fault: Fault, now: float) -> float | None:
        """How long to wait before the next attempt; None when people must take over."""
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
        return max(fault.retry_after, min(FIRST_DELAY * 2.0 ** (self.transient - 1), LONGEST_DELAY))


def format_utc(at: float) -> str:
    """Seconds since 1970 as people read it in Temporal's UI and in queries."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
