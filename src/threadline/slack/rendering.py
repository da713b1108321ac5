"""The words of Slack's blocks, attachments and files, as decoded text (see `slack.mrkdwn`).

Total: an unknown type yields its title, its texts and its address, and damaged JSON yields
nothing.

Sources: https://docs.slack.dev/reference/block-kit/blocks,
https://docs.slack.dev/reference/messaging/attachments and
https://docs.slack.dev/reference/objects/file-object.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from threadline.slack.fields import int_field, objects, string_field
from threadline.slack.model import MAX_PREVIEW, MAX_TEXT, clean_text
from threadline.slack.mrkdwn import WORD_JOINER, characters, decode, inert, link

Json = Mapping[str, Any]

QUOTE = ">"
"""The start of a line that Slack shows as a quote."""
_INDENT = "    "
_MAX_INDENT = 8
"""Slack's own limit of a list's depth, which it gives as a number."""
_DEEPEST = 8
"""Levels of blocks within blocks that are read."""
_LONG = 20
"""Minimum letters for which a text contained in another one is a repetition, and no
coincidence.
"""
_BAR = re.compile(r"(<[@#!][^<>]*>)|\|")
_NO_PREVIEW = "[no preview available]"
"""Slack's fallback for an attachment that has only blocks."""

_MARKED_UP = frozenset(
    {"email", "quip", "canvas", "space", "application/vnd.slack-docs", "text/html"}
)
"""Files of these types have previews in HTML or JSON."""
_TITLES = ("title", "rich_text_title", "name")
_TEXTS = ("subtitle", "label", "text", "body", "description", "details", "output", "hint")
_ADDRESSES = (
    "title_url",
    "title_link",
    "url",
    "image_url",
    "video_url",
    "join_url",
    "auth_url",
    "permalink",
)
_SILENT = frozenset({"style", "confirm", "icon", "filter", "metadata", "column_settings"})
"""Fields of blocks that define only their look or behaviour."""
_CONTROLS = frozenset(
    {
        "button",
        "checkboxes",
        "datepicker",
        "datetimepicker",
        "feedback_buttons",
        "icon_button",
        "overflow",
        "radio_buttons",
        "timepicker",
        "workflow_button",
    }
)
"""Interactive elements, which have no words to show unless they link to an address."""
_SELECTS = ("_select", "_input")
"""The endings of the types of menus and of input fields."""


def block_text(block: Json, depth: int = 0) -> str:
    """Return the words of one block or element; may be empty."""
    if depth > _DEEPEST:
        return ""
    kind = string_field(block, "type")
    if _is_control(kind):
        return _control(block)
    match kind:
        case "rich_text":
            return "\n".join(_rich_text(block))
        case "table" | "data_table":
            return _table(block, depth)
        case "image":
            return _image(block)
        case "markdown" | "mrkdwn":
            return decode(string_field(block, "text"))
        case "plain_text" | "raw_text":
            return characters(string_field(block, "text"))
    return _any(block, depth)


def attachment_text(attachment: Json) -> str:
    """Return the words of an attachment: a shared message, an alert's fields, the preview of a
    page, a pasted table.
    """
    parts = [
        decode(string_field(attachment, "pretext")),
        _titled(characters(string_field(attachment, "title")), attachment),
        decode(string_field(attachment, "text")),
        *(_field(each) for each in objects(attachment.get("fields"))),
        *(block_text(each) for each in objects(attachment.get("blocks"))),
        *(part for each in _shared_messages(attachment) for part in _message_parts(each)),
        *(
            part
            for each in objects(attachment.get("files"))
            for part in (named_file(each), preview_of(each))
        ),
        *(_control(each) for each in objects(attachment.get("actions"))),
        _attached_image(attachment),
        characters(string_field(attachment, "footer")),
    ]
    said = _once_each(parts)
    fallback = decode(string_field(attachment, "fallback"))
    return said or ("" if fallback.strip() == _NO_PREVIEW else fallback)


def with_blocks(text: str, blocks: Iterable[Json], *, is_fallback: bool) -> str:
    """Add the text that blocks show to a decoded text.

    Args:
        is_fallback: the text is an app's, which may repeat its blocks. Then the blocks are enough.
    """
    shown = list(map(block_text, blocks))
    letters = _letters(text)
    if is_fallback and letters and letters in "".join(map(_letters, shown)):
        return _once_each(shown)
    return _once_each([text, *shown]) if any(shown) else text


def named_file(file: Json) -> str:
    """Return the name of a file with its address."""
    name = string_field(file, "title") or string_field(file, "name")
    return _titled(characters(name), file)


def preview_of(file: Json) -> str:
    """Return the beginning of a text file, as Slack shows it with a message; empty for markup, or
    where Slack shows none.
    """
    if (
        string_field(file, "filetype") in _MARKED_UP
        or string_field(file, "mimetype") in _MARKED_UP
    ):
        return ""
    return inert(clean_text(string_field(file, "preview"))[:MAX_PREVIEW])


def called_users(rich_text: Json) -> Iterator[str]:
    """Yield the ids of users whom a `rich_text` block mentions outside of code and quotes."""
    for element in objects(rich_text.get("elements")):
        kind = string_field(element, "type")
        if kind == "rich_text_section":
            yield from _users(element)
        elif kind == "rich_text_list" and not int_field(element, "border"):
            for item in objects(element.get("elements")):
                yield from _users(item)


def _users(section: Json) -> Iterator[str]:
    for piece in objects(section.get("elements")):
        if piece.get("type") == "user" and not _styled(piece, "code"):
            yield string_field(piece, "user_id")


# ---- Rich text


def _rich_text(block: Json) -> Iterator[str]:
    for element in objects(block.get("elements")):
        match element.get("type"):
            case "rich_text_list":
                yield from _list(element)
            case "rich_text_quote":
                yield from (f"{QUOTE} {line}" for line in _inline(element).splitlines())
            case "rich_text_preformatted":
                yield f"```\n{_code(element)}\n```"
            case "rich_text_section":
                yield _inline(element)
            case _:
                yield _inline(element) or _named(element)


def _list(element: Json) -> Iterator[str]:
    quote = f"{QUOTE} " if int_field(element, "border") else ""
    indent = quote + _INDENT * min(int_field(element, "indent"), _MAX_INDENT)
    is_ordered = element.get("style") == "ordered"
    first = int_field(element, "offset") + 1
    for number, item in enumerate(objects(element.get("elements")), start=first):
        yield f"{indent}{f'{number}.' if is_ordered else '•'} {_inline(item)}"


def _inline(element: Json) -> str:
    return "".join(map(_piece, objects(element.get("elements"))))


def _code(element: Json) -> str:
    """Return the text of a code block: labels as people copy them, and no live token."""
    shown = list[str]()
    for piece in objects(element.get("elements")):
        text = string_field(piece, "text") or string_field(piece, "url")
        shown.append(inert(text) if text else _read(piece).replace("<", f"<{WORD_JOINER}"))
    return "".join(shown)


def _piece(piece: Json) -> str:
    if _styled(piece, "code"):
        return f"`{_code({'elements': [piece]})}`"
    marks = "".join(mark for style, mark in _MARKS.items() if _styled(piece, style))
    return _marked(_read(piece), marks)


def _read(piece: Json) -> str:
    return _PIECES.get(string_field(piece, "type"), _named)(piece)


_MARKS = {"bold": "*", "italic": "_", "strike": "~"}


def _styled(piece: Json, style: str) -> bool:
    styles = piece.get("style")
    return isinstance(styles, Mapping) and styles.get(style) is True


def _marked(text: str, marks: str) -> str:
    """Put the marks directly around the words: Slack reads no mark beside a blank."""
    words = text.strip()
    if not (marks and words):
        return text
    return text.replace(words, f"{marks}{words}{marks[::-1]}", 1)


def _date(piece: Json) -> str:
    at = int_field(piece, "timestamp")
    shown = (
        string_field(piece, "fallback")
        or f"{datetime.fromtimestamp(at % 2**40, UTC):%Y-%m-%d %H:%M} UTC"
    )
    return link(string_field(piece, "url"), shown) if piece.get("url") else shown


def _named(piece: Json) -> str:
    """Return a piece of unknown type: its text or its name, with its address, or else its id."""
    names = ("text", "fallback", "title", "name", "label", "value")
    name = next((found for each in names if (found := string_field(piece, each))), "")
    identity = next(
        (value for key, value in piece.items() if key.endswith("_id") and isinstance(value, str)),
        "",
    )
    return _titled(inert(name or identity), piece)


def _token(form: str, field: str) -> Callable[[Json], str]:
    def read(piece: Json) -> str:
        identity = string_field(piece, field)
        return form.format(identity) if identity.isalnum() else ""

    return read


_PIECES: dict[str, Callable[[Json], str]] = {
    "text": lambda piece: inert(string_field(piece, "text")),
    "link": lambda piece: link(string_field(piece, "url"), inert(string_field(piece, "text"))),
    "user": _token("<@{}>", "user_id"),
    "channel": _token("<#{}>", "channel_id"),
    "usergroup": _token("<!subteam^{}>", "usergroup_id"),
    "broadcast": _token("<!{}>", "range"),
    "emoji": lambda piece: f":{string_field(piece, 'name')}:",
    "color": lambda piece: string_field(piece, "value"),
    "date": _date,
}


# ---- Other blocks


def _any(block: Json, depth: int) -> str:
    """Return the title with its address, the texts and the children of a block of any type."""
    names = (*_TITLES, "text") if _address(block) else _TITLES
    title = next((found for each in names if (found := _text(block.get(each), depth))), "")
    parts = [_titled(title, block)]
    parts += [text for each in _TEXTS if (text := _text(block.get(each), depth)) != title]
    parts += [block_text(each, depth + 1) for each in _children(block)]
    return _once_each(parts) or characters(
        string_field(block, "alt_text") or string_field(block, "fallback")
    )


def _children(block: Json) -> Iterator[Json]:
    for name, value in block.items():
        if name in _TITLES or name in _TEXTS or name in _SILENT:
            continue
        if isinstance(value, Mapping):
            yield value
        yield from objects(value)


def _text(value: Any, depth: int) -> str:
    """Return the text of a text object, a rich text block or a bare string."""
    if isinstance(value, str):
        return characters(clean_text(value))
    return block_text(value, depth + 1) if isinstance(value, Mapping) else ""


def _is_control(kind: str) -> bool:
    return kind in _CONTROLS or kind.endswith(_SELECTS)


def _control(block: Json) -> str:
    """Return the link of a button; empty for any other control."""
    address = string_field(block, "url")
    return link(address, _text(block.get("text"), 0)) if address else ""


def _image(block: Json) -> str:
    name = _text(block.get("title"), 0) or characters(string_field(block, "alt_text"))
    kept = block.get("slack_file")
    return _titled(
        name, kept if isinstance(kept, Mapping) and not block.get("image_url") else block
    )


def _titled(title: str, source: Json) -> str:
    address = _address(source)
    return link(address, title) if address else title


def _address(source: Json) -> str:
    return next((found for each in _ADDRESSES if (found := string_field(source, each))), "")


def _table(block: Json, depth: int) -> str:
    """Return a table in Markdown. Its first row is the head, unless the columns have names."""
    head = [block_text(each, depth + 1) for each in objects(block.get("columns"))]
    rows = [[_cell(each, depth) for each in _cells(row)] for row in _items(block.get("rows"))]
    lines = [head, *rows] if any(head) else rows
    width = max(map(len, lines), default=0)
    if not width:
        return ""
    shown = [f"| {' | '.join([*line, *[''] * (width - len(line))])} |" for line in lines]
    shown.insert(1, f"|{'---|' * width}")
    caption = _text(block.get("title") or block.get("caption"), depth)
    return "\n".join([caption, *shown] if caption else shown)


def _items(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _cells(row: Any) -> list[Any]:
    return _items(row.get("cells")) if isinstance(row, Mapping) else _items(row)


def _cell(cell: Any, depth: int) -> str:
    """Return a cell's text in one line, with every `|` that would end the cell escaped."""
    text = _scalar(cell)
    if isinstance(cell, Mapping):
        text = block_text(cell, depth + 1) or _scalar(cell.get("value"))
    return _BAR.sub(lambda found: found[1] or r"\|", " ".join(text.split()))


def _scalar(value: Any) -> str:
    return characters(clean_text(str(value))) if isinstance(value, (str, int, float)) else ""


# ---- Attachments


def _field(field: Json) -> str:
    title = characters(string_field(field, "title")).strip()
    value = decode(string_field(field, "value")).strip()
    return f"{title}: {value}" if title and value else title or value


def _shared_messages(attachment: Json) -> Iterator[Json]:
    for each in objects(attachment.get("message_blocks")):
        message = each.get("message")
        if isinstance(message, Mapping):
            yield message


def _message_parts(message: Json) -> Iterator[str]:
    """Yield the words of a message within an attachment, with its blocks, its attachments and its
    files' names.
    """
    yield decode(string_field(message, "text"))
    yield from (block_text(each) for each in objects(message.get("blocks")))
    nested = (each for each in objects(message.get("attachments")) if "message_blocks" not in each)
    yield from (attachment_text(each) for each in nested)
    for each in objects(message.get("files")):
        yield named_file(each)
        yield preview_of(each)


def _attached_image(attachment: Json) -> str:
    """Return the address of an image, unless the title links to it."""
    return (
        ""
        if attachment.get("title") or attachment.get("from_url")
        else string_field(attachment, "image_url")
    )


# ---- Repeated texts


def _once_each(parts: Iterable[str]) -> str:
    """Join the parts as lines, without any part that repeats an earlier one: clients send the same
    content as text, as blocks and as a fallback.
    """
    kept = list[str]()
    said = set[str]()
    all_said = ""
    for part in parts:
        letters = _letters(part)
        is_repeated = letters in said or (len(letters) >= _LONG and letters in all_said)
        if not part.strip() or (letters and is_repeated):
            continue
        if len(all_said) > MAX_TEXT:
            break
        kept.append(part.strip("\n"))
        said.add(letters)
        all_said += f"{letters}\n"
    return "\n".join(kept)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text)).casefold()
