"""What a person wrote, as the mrkdwn that Slack itself would have sent, wherever in the message it is hidden."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from threadline.slack.model import clean_text

_INDENT = "    "
_MAX_INDENT = 8
"""Slack's own limit of a list's depth; it gives nesting as a number, so nothing here recurses."""


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a Slack message: its words, then those of what it shares; storable and at most 40,000 characters.

    A message without words of its own is given those of any attachment, since something is better than nothing.
    """
    words = words_of(message)
    attached = [
        string(item, "text") or string(item, "fallback")
        for item in mappings(message.get("attachments"))
        if item.get("is_share") or not words
    ]
    return clean_text("\n".join(part for part in (words, *attached) if part.strip()))


def words_of(message: Mapping[str, Any]) -> str:
    """The author's own words: `text`, or the rich text blocks where it is missing or blank.

    Attachments do not count: Slack adds them afterwards when it unfurls a link, and that is no edit.
    """
    text = string(message, "text")
    if text.strip():
        return text
    blocks = (block for block in mappings(message.get("blocks")) if block.get("type") == "rich_text")
    return "\n".join(line for block in blocks for line in _lines(block))


def string(source: Mapping[str, Any], name: str) -> str:
    """The field if it is a string, made storable; else nothing."""
    value = source.get(name)
    return clean_text(value) if isinstance(value, str) else ""


def mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a JSON array; nothing when it is something else."""
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def _lines(block: Mapping[str, Any]) -> Iterator[str]:
    for element in mappings(block.get("elements")):
        match element.get("type"):
            case "rich_text_list":
                yield from _list(element)
            case "rich_text_quote":
                yield from (f"&gt; {line}" for line in _inline(element).splitlines())
            case "rich_text_preformatted":
                yield f"```\n{_inline(element)}\n```"
            case _:
                yield _inline(element)


def _list(element: Mapping[str, Any]) -> Iterator[str]:
    indent = _INDENT * min(_whole(element, "indent"), _MAX_INDENT)
    ordered = element.get("style") == "ordered"
    for number, item in enumerate(mappings(element.get("elements")), start=_whole(element, "offset") + 1):
        yield f"{indent}{f'{number}.' if ordered else '•'} {_inline(item)}"


def _inline(element: Mapping[str, Any]) -> str:
    return "".join(_piece(piece) for piece in mappings(element.get("elements")))


def _piece(piece: Mapping[str, Any]) -> str:
    write = _PIECES.get(string(piece, "type"))
    return write(piece) if write else _escaped(string(piece, "text") or string(piece, "fallback"))


def _link(piece: Mapping[str, Any]) -> str:
    url, label = string(piece, "url"), _escaped(string(piece, "text"))
    return f"<{url}|{label}>" if label and label != url else f"<{url}>"


_PIECES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "link": _link,
    "user": lambda piece: f"<@{string(piece, 'user_id')}>",
    "channel": lambda piece: f"<#{string(piece, 'channel_id')}>",
    "usergroup": lambda piece: f"<!subteam^{string(piece, 'usergroup_id')}>",
    "broadcast": lambda piece: f"<!{string(piece, 'range')}>",
    "emoji": lambda piece: f":{string(piece, 'name')}:",
    "color": lambda piece: string(piece, "value"),
}


def _escaped(text: str) -> str:
    """Escape as Slack does in `text`, so that a reader need not know which of the two it was given."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _whole(source: Mapping[str, Any], name: str) -> int:
    value = source.get(name)
    return value if isinstance(value, int) and value >= 0 else 0
