"""What a signal carries, read so that nothing is dropped: not even what is no JSON, or has a name that nobody knows."""

import base64
import json
from collections.abc import Mapping, Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue

with workflow.unsafe.imports_passed_through():
    from threadline.threads import addressing, messages
    from threadline.threads.messages import IncomingMessage

KINDS: Mapping[str, str] = {addressing.INCOMING_MESSAGE: messages.MESSAGE, addressing.CLOSE_REQUESTED: messages.CLOSE}
"""Signals by name, with the kind of message that each brings unless its envelope says so."""

_SHOWN = messages.MAX_TEXT // 2
"""Bytes of an unreadable payload that are kept as base64."""


def read(name: str, args: Sequence[RawValue]) -> IncomingMessage:
    """The message in a signal, as a dynamic handler gets it; never raises.

    A handler with a name has its arguments decoded by the SDK, which logs and drops a signal that does not decode:
    an encoding that it does not know, broken JSON.
    """
    kind = KINDS.get(name)
    if kind is None:
        return _unreadable(name, args)
    try:
        values = [workflow.payload_converter().from_payload(each.payload) for each in args]
    except Exception:  # noqa: BLE001 - whatever a converter says of bytes that it cannot read, they are kept
        return _unreadable(name, args)
    return messages.parse(values, kind=kind)


def _unreadable(name: str, args: Sequence[RawValue]) -> IncomingMessage:
    shown = json.dumps({"signal": name, "payloads": [_shown(each) for each in args]}, sort_keys=True)
    whole = b"".join(each.payload.SerializeToString(deterministic=True) for each in args)
    return messages.quarantined(shown, name.encode("utf-8", "replace") + b":" + whole)


def _shown(arg: RawValue) -> dict[str, Any]:
    data = arg.payload.data
    metadata = {key: value.decode("utf-8", "replace") for key, value in arg.payload.metadata.items()}
    try:
        return {"metadata": metadata, "text": data.decode()[: messages.MAX_TEXT]}
    except UnicodeDecodeError:
        return {"metadata": metadata, "base64": base64.b64encode(data[:_SHOWN]).decode(), "bytes": len(data)}
