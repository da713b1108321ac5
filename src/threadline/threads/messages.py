"""The envelope in which a message travels from Slack to a workflow, and the tolerant way back out of it.

Temporal drops a signal whose payload does not decode into the handler's types, so nothing on the wire is strict:
`parse` takes any JSON of any arity and never raises. What it cannot read becomes a `QUARANTINED` message, which is
stored and shown to whoever runs the house; so does what is no JSON at all (`threads/inbox.py`).
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from threadline.slack.model import FileRef

REPORT = "report"
MESSAGE = "message"
CLOSE = "close"
STOP = "stop"
"""Somebody tells the bot to leave what it is doing in a conversation, by a word or by a reaction."""
THUMB = "thumb"
"""Somebody puts a thumb on what the bot has said, up or down: `text` is the reaction's name."""
THUMB_TAKEN = "thumb_taken"
"""Somebody takes such a thumb away."""
EDIT = "edit"
DELETION = "deletion"
QUARANTINED = "quarantined"
THUMBS = (THUMB, THUMB_TAKEN)
KINDS = (REPORT, MESSAGE, CLOSE, STOP, *THUMBS, EDIT, DELETION)

REPORTER = "reporter"
DEVELOPER = "developer"
UNKNOWN = "unknown"
"""Its event did not say who wrote the thread's root: the case, which knows its reporter, decides."""
THIRD_PARTY = "third_party"
BOT = "bot"
OPERATOR = "operator"
"""Whoever runs the house, by the command line."""

MAX_TEXT = 40_000
"""Characters of one message that are kept: Slack itself cuts there."""
MAX_NAME = 200
"""Characters of an id or a timestamp, three times what Slack's take; with more, the message goes into quarantine.

A workflow remembers 500 ids and hands them to its next run, whose input may not pass 2 MiB.
"""
MAX_FILES = 50
"""Files of one message that are kept: Slack takes ten."""
_MAX_FILE_SIZE = 2**62
"""Bytes. Slack names no such size, but a signal may, and the database takes none above."""


@dataclass(frozen=True)
class IncomingMessage:
    """One thing that a person did in a thread.

    `ts` is when it was said (for an edit or a deletion: the `ts` of the message it corrects), which is also the order
    in which messages are shown; `correction_of` is the id of the message that an edit or a deletion corrects, or that a
    thumb is put on, and `version` the `edited.ts` by which the newest edit wins. `addressed`: in a conversation, it is
    meant for the bot: it has a mention, or stands in a direct message. `root_by`: there, who wrote the thread's root,
    unless it was an app or the event does not say.
    """

    id: str
    kind: str
    sender_type: str
    sender_id: str
    text: str
    channel: str
    ts: str
    correction_of: str = ""
    version: str = ""
    files: tuple[FileRef, ...] = field(default_factory=tuple)
    addressed: bool = False
    root_by: str = ""


def clean(text: str) -> str:
    """Make text storable: no NUL (Postgres refuses it), no lone surrogate (JSON does), at most `MAX_TEXT` long."""
    storable = text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")
    return storable[:MAX_TEXT]


def parse(args: Sequence[Any], *, kind: str = MESSAGE) -> IncomingMessage:
    """Read a signal's arguments, whatever they are.

    Args:
        args: what arrived; one JSON object with the fields of `IncomingMessage` is what a gateway sends.
        kind: what the message is when the object does not say so.
    """
    if len(args) == 1 and isinstance(args[0], Mapping):
        raw = args[0]
        sender, given = _text(raw, "sender_type") or UNKNOWN, _text(raw, "kind") or kind
        names = {name: _text(raw, name) for name in _NAMES}
        readable = names["id"] and names["ts"] and max(map(len, names.values())) <= MAX_NAME
        if readable and given in KINDS:
            return IncomingMessage(
                kind=given,
                sender_type=sender if sender in (REPORTER, DEVELOPER, OPERATOR, UNKNOWN) else UNKNOWN,
                text=_text(raw, "text"),
                files=_files(raw.get("files")),
                addressed=raw.get("addressed") is True,
                **names,
            )
    whole = _json(args)
    return quarantined(whole, whole.encode("utf-8", "surrogatepass"))


_NAMES = ("id", "sender_id", "channel", "ts", "correction_of", "version", "root_by")


def quarantined(text: str, whole: bytes = b"") -> IncomingMessage:
    """What could not be read, as a message of its own.

    Args:
        text: what came, as far as it can be shown; cut at `MAX_TEXT`.
        whole: all that came, where `text` does not tell one from another; the same again gets the same id.
    """
    kept = clean(text)
    digest = hashlib.sha256(whole or kept.encode()).hexdigest()[:16]
    return IncomingMessage(
        id=f"quarantine:{digest}", kind=QUARANTINED, sender_type=UNKNOWN, sender_id="", text=kept, channel="", ts=""
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
    return clean(value if isinstance(value, str) else str(value))


def _files(raw: Any) -> tuple[FileRef, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        return ()
    given = (item for item in raw[:MAX_FILES] if isinstance(item, Mapping) and 0 < len(_text(item, "id")) <= MAX_NAME)
    return tuple(
        FileRef(
            id=_text(item, "id"),
            name=_text(item, "name")[:MAX_NAME],
            mimetype=_text(item, "mimetype")[:MAX_NAME],
            size=_whole(item),
        )
        for item in given
    )


def _whole(item: Mapping[Any, Any]) -> int:
    size = item.get("size")
    return min(size, _MAX_FILE_SIZE) if isinstance(size, int) and size >= 0 else 0
