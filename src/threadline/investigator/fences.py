"""Presents people's messages to the model: fenced and numbered, so that nothing in them can open
or close a fence.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC
from html import escape

from threadline.cases.model import Entry
from threadline.slack.names import plain_tokens

PART_BYTES = 12_000
"""Bytes of one part of a longer message: one tool result always holds at least one part."""

_FENCE = re.compile(r"<(?=\s*/?\s*message)", re.IGNORECASE)
_HEAD = re.compile(r'^<message number="(\d+)" [^\n]*?(?: part="(\d+)/(\d+)")?>$', re.MULTILINE)


@dataclass(frozen=True)
class MessagePart:
    """Part `index` of `count` of the message `seq`, both counted from 1."""

    seq: int
    index: int
    count: int


def fence(entry: Entry, text: str | None = None, *, mark: str = "") -> str:
    """Return one message, or a part of its neutralised `text`, as the model sees it.

    `mark` is a further attribute, such as `part="1/3"`.
    """
    attributes = {
        "number": str(entry.seq),
        "from": entry.sender_type,
        "sender": entry.sender_id,
        "kind": entry.kind,
        "at": entry.at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    } | ({"read": "yes"} if entry.read else {})
    plain = {
        name: escape(" ".join(value.split()), quote=True) for name, value in attributes.items()
    }
    head = " ".join(f'{name}="{value}"' for name, value in plain.items())
    return (
        f"<message {head}{mark and ' ' + mark}>\n"
        f"{neutralise(entry.text) if text is None else text}\n</message>"
    )


def parts(entry: Entry) -> list[str]:
    """Return the message in fences of at most `PART_BYTES` of text each.

    The same message always gives the same parts.
    """
    pieces = list(_pieces(neutralise(entry.text)))
    if len(pieces) == 1:
        return [fence(entry)]
    return [
        fence(entry, piece, mark=f'part="{n}/{len(pieces)}"')
        for n, piece in enumerate(pieces, start=1)
    ]


def parts_in(text: str) -> Iterator[MessagePart]:
    """Yield the messages, or the parts of them, that a text made of fences shows."""
    for found in _HEAD.finditer(text):
        seq, index, count = found.groups(default="1")
        yield MessagePart(int(seq), int(index), int(count))


def neutralise(text: str) -> str:
    """Return a text with Slack's tokens as plain names, and without openings or ends of fences."""
    return _FENCE.sub("&lt;", plain_tokens(text))


def _pieces(text: str) -> Iterator[str]:
    data = text.encode()
    start = 0
    while len(data) - start > PART_BYTES:
        end = start + PART_BYTES
        while data[end] & 0xC0 == 0x80:  # never in the middle of a character
            end -= 1
        yield data[start:end].decode()
        start = end
    yield data[start:].decode()
