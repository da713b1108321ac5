"""Inbox: signalled messages that are not stored yet, each once and in order. It parses the signals
itself, so that none is dropped: neither invalid JSON nor an unknown signal name.
"""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

from threadline.slack.model import MAX_TEXT
from threadline.threads.model import (
    CLOSE_REQUESTED,
    INCOMING_MESSAGE,
    IncomingMessage,
    MessageKind,
    is_new,
    parse_message,
    quarantined_message,
)

SIGNAL_KINDS: Mapping[str, MessageKind] = {
    INCOMING_MESSAGE: MessageKind.MESSAGE,
    CLOSE_REQUESTED: MessageKind.CLOSE,
}
"""Signals by name, with the kind of their message where its envelope names none."""
MAX_MESSAGES = 100
MAX_BYTES = 256 * 1024
"""Bytes of one batch. An activity's argument beyond 2 MiB would block the workflow for good."""
MAX_SEEN = 500
"""Message ids kept to drop repeated deliveries. The database's unique key drops older ones."""

_MAX_SHOWN = MAX_TEXT // 2
"""Bytes of an unreadable payload that are kept as base64."""


class Inbox:
    """A queue over two collections that the workflow's state carries through continue-as-new."""

    def __init__(self, pending: list[IncomingMessage], seen: dict[str, None]) -> None:
        self._pending = pending
        self._seen = seen

    def __len__(self) -> int:
        return len(self._pending)

    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Queue the message of a signal, from a dynamic handler. Never raises or waits. The SDK
        decodes the arguments of a named handler, and logs and drops a signal that does not decode.
        """
        self.accept(_message_of(name, args))

    def accept(self, message: IncomingMessage, *, first: bool = False) -> None:
        """Queue a message unless its id was seen before."""
        if is_new(self._seen, message.id, MAX_SEEN):
            self._pending.insert(0 if first else len(self._pending), message)

    def batch(self) -> list[IncomingMessage]:
        """Return the oldest messages, as many as one flush takes; at least one when there is
        any.
        """
        size = 0
        count = 0
        for message in self._pending[:MAX_MESSAGES]:
            size += _bytes(message)
            if count and size > MAX_BYTES:
                break
            count += 1
        return self._pending[:count]

    def stored(self, count: int) -> None:
        """Remove the `count` oldest messages, now that they are stored."""
        del self._pending[:count]

    def holds_report(self) -> bool:
        return any(message.kind == MessageKind.REPORT for message in self._pending)

    def holds_from(self, sender_id: str) -> bool:
        return any(message.sender_id == sender_id for message in self._pending)

    def senders(self) -> set[tuple[str, str]]:
        """Return the (type, id) of each author of a message or a close, without those of
        corrections.
        """
        return {
            (message.sender_type, message.sender_id)
            for message in self._pending
            if message.kind in (MessageKind.MESSAGE, MessageKind.CLOSE)
        }

    def fits_one_batch(self) -> bool:
        """Return whether one flush would take all pending messages."""
        return len(self.batch()) == len(self._pending)

    def fits_next_run(self) -> bool:
        """Return whether the pending messages fit into the input of another run, which is limited
        to 2 MiB.
        """
        return sum(map(_bytes, self._pending)) <= MAX_BYTES


def _bytes(message: IncomingMessage) -> int:
    """Estimate the bytes of a message in a payload, its files included."""
    texts = (message.text, message.forwarded, message.as_written)
    words = sum(len(each.encode()) for each in texts)
    files = sum(
        len(file.name.encode()) + len(file.preview.encode()) + 256 for file in message.files
    )
    return words + files + 512


def _message_of(name: str, args: Sequence[RawValue]) -> IncomingMessage:
    kind = SIGNAL_KINDS.get(name)
    if kind is None:
        return _unreadable(name, args)
    try:
        values = [workflow.payload_converter().from_payload(each.payload) for each in args]
    except Exception:  # noqa: BLE001 - a converter may raise anything; the bytes are kept
        return _unreadable(name, args)
    return parse_message(values, kind=kind)


def _unreadable(name: str, args: Sequence[RawValue]) -> IncomingMessage:
    shown = json.dumps(
        {"signal": name, "payloads": [_shown(each) for each in args]}, sort_keys=True
    )
    whole = b"".join(each.payload.SerializeToString(deterministic=True) for each in args)
    return quarantined_message(shown, name.encode("utf-8", "replace") + b":" + whole)


def _shown(arg: RawValue) -> dict[str, Any]:
    data = arg.payload.data
    metadata = {
        key: value.decode("utf-8", "replace") for key, value in arg.payload.metadata.items()
    }
    try:
        return {"metadata": metadata, "text": data.decode()[:MAX_TEXT]}
    except UnicodeDecodeError:
        return {
            "metadata": metadata,
            "base64": base64.b64encode(data[:_MAX_SHOWN]).decode(),
            "bytes": len(data),
        }
