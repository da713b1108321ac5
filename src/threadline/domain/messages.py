"""The envelope in which a message travels from Slack to a workflow, and the tolerant way back out of it.

Temporal drops a signal whose payload does not decode into the handler's types, so nothing on the wire is strict:
`parse` takes any JSON of any arity and never raises. What it cannot read becomes a `QUARANTINED` message, which is
stored and shown to whoever runs the house.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

REPORT = "report"
MESSAGE = "message"
CLOSE = "close"
EDIT = "edit"
DELETION = "deletion"
QUARANTINED = "quarantined"
KINDS = (REPORT, MESSAGE, CLOSE, EDIT, DELETION)

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


@dataclass(frozen=True)
class FileRef:
    """A file that was attached in Slack; only the reference travels."""

    id: str
    name: str = ""
    mimetype: str = ""
    size: int = 0


@dataclass(frozen=True)
class IncomingMessage:
    """One thing that a person did in a thread.

    `ts` is when it was said (for an edit or a deletion: the `ts` of the message it corrects), which is also the order
    in which messages are shown; `correction_of` is the id of the message that an edit or a deletion corrects, and
    `version` the `edited.ts` by which the newest edit wins.
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
        identity, sender = _text(raw, "id"), _text(raw, "sender_type") or UNKNOWN
        given = _text(raw, "kind") or kind
        if identity and _text(raw, "ts") and given in KINDS:
            return IncomingMessage(
                id=identity,
                kind=given,
                sender_type=sender if sender in (REPORTER, DEVELOPER, OPERATOR, UNKNOWN) else UNKNOWN,
                sender_id=_text(raw, "sender_id"),
                text=_text(raw, "text"),
                channel=_text(raw, "channel"),
                ts=_text(raw, "ts"),
                correction_of=_text(raw, "correction_of"),
                version=_text(raw, "version"),
                files=_files(raw.get("files")),
            )
    return _quarantined(args)


def _quarantined(args: Sequence[Any]) -> IncomingMessage:
    text = clean(json.dumps(args, default=repr, sort_keys=True))
    digest = hashlib.sha256(text.encode()).hexdigest()[:16]
    return IncomingMessage(
        id=f"quarantine:{digest}", kind=QUARANTINED, sender_type=UNKNOWN, sender_id="", text=text, channel="", ts=""
    )


def _text(raw: Mapping[Any, Any], name: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    return clean(value if isinstance(value, str) else str(value))


def _files(raw: Any) -> tuple[FileRef, ...]:
    if not isinstance(raw, Sequence) or isinstance(raw, str):
        return ()
    return tuple(
        FileRef(id=_text(item, "id"), name=_text(item, "name"), mimetype=_text(item, "mimetype"), size=_whole(item))
        for item in raw
        if isinstance(item, Mapping) and _text(item, "id")
    )


def _whole(item: Mapping[Any, Any]) -> int:
    size = item.get("size")
    return size if isinstance(size, int) and size >= 0 else 0
