"""Text in Slack's own form: of a message's JSON; mentions, plain words, permalinks; and its parts when it is long.

No function here takes longer than in proportion to the text. No pattern runs over a `<` or a `:` into the next one, and
none begins within blanks: 40,000 characters of any of these cost no more than others.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from urllib.parse import parse_qs, urlsplit

from threadline.errors import Permanent
from threadline.slack.model import FileRef, clean_text

_INDENT = "    "
_MAX_INDENT = 8
"""Slack's own limit of a list's depth; it gives nesting as a number, so nothing here recurses."""
_INVISIBLE = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u2060-\u206f"
    r"\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\U000e0000-\U000e0fff]*"
)
"""Characters that show nothing; written out, since Python's own tables change, and a workflow's past may not."""
_MENTION = re.compile(r"<@([^<>|\s]+)(?:\|[^<>]*)?>")

_USER_ID = re.compile(r"[UW][A-Z0-9]+")

_CALL = re.compile(r"<[@#!][^<>]*>")
"""A user, a channel or a group. Its name is nothing that somebody said."""
_LABELLED = re.compile(r"<[^<>|]*\|([^<>]*)>")
_ADDRESS = re.compile(r"<[^<>]*>")
_ENTITY = re.compile(r"&(?:amp|lt|gt);")
_EMOJI = re.compile(r":[a-z0-9_+\-]+:")
"""`:runner:` is somebody in a hurry, not what runs jobs."""
_QUOTE = "&gt;"
"""Begins a line that Slack shows as a quote."""
_QUOTED = "[Quoted]"
"""The heading of what an author quotes; it is the first."""
_MAX_HEADING = 200
"""Characters of a name or an address in a heading of what is forwarded."""
_MARK = re.compile(r"[*~`\"“”()\[\]{}<>|]")

_LINK = re.compile(r"/archives/([A-Z][A-Z0-9]+)/p([0-9]{7,})")
_PAIR = re.compile(r"([A-Z][A-Z0-9]+)/(?:p([0-9]{7,})|([0-9]+\.[0-9]{6}))")
_TIMESTAMP = re.compile(r"[0-9]+\.[0-9]{6}")
_HINT = (
    "give a message's permalink (in Slack: More actions, Copy link), such as "
    "https://acme.slack.com/archives/C0123456789/p1700000000000100, "
    "or its channel and ts, such as C0123456789/1700000000.000100"
)


def escape(text: str) -> str:
    """Text that is not ours, inside mrkdwn: https://docs.slack.dev/messaging/formatting-message-text#escaping."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def is_blank(text: str) -> bool:
    """Whether a reader would see nothing of it."""
    return _INVISIBLE.fullmatch(text) is not None


def mentions_in(text: str) -> set[str]:
    """The ids of all users who are mentioned, as Slack writes it: `<@U1>` or `<@U1|name>`."""
    return set(_MENTION.findall(text))


def parse_user_id(text: str) -> str:
    """The user's id in `U1`, `<@U1>` or `<@U1|name>`; empty for any other text, such as a name."""
    plain = text.strip()
    mention = _MENTION.fullmatch(plain)
    user_id = mention[1] if mention else plain
    return user_id if _USER_ID.fullmatch(user_id) else ""


def remove_mention(text: str, user_id: str) -> str:
    """The text without the mentions of one user, and without what joins a leading mention to the words.

    `<@U1>: ask <@U2> and <@U1>, please` without U1 is `ask <@U2> and, please`. The colon of an emoji stays:
    `<@U1> :wave:` is `:wave:`.
    """
    call = rf"<@{re.escape(user_id)}(?:\|[^<>]*)?>"
    leading = rf"^(?:\s*{call}(?:[\s,]|:(?![^\s:<>]+:))*)+"
    return re.sub(rf"(?<![ \t])[ \t]*{call}", "", re.sub(leading, "", text)).strip()


def plain_words(text: str) -> str:
    """The words in one line and in lower case, without mentions, addresses, emoji and marks, for rules about phrases.

    A link's label stays, and so do punctuation, hyphens and underscores: `<@U1> *It’s* new: <https://a.b|this>` is
    `it's new: this`.
    """
    said = text.lower().replace("’", "'").replace("‘", "'")
    said = _ADDRESS.sub(" ", _LABELLED.sub(r" \1 ", _CALL.sub(" ", said)))
    return " ".join(_MARK.sub(" ", _EMOJI.sub(" ", _ENTITY.sub(" ", said))).split())


@dataclass(frozen=True)
class Permalink:
    """The address of a message. `root` is the `ts` of its thread's root; its own where the address names none."""

    channel: str
    ts: str
    root: str


def parse_permalink(address: str) -> Permalink:
    """Read a permalink or `channel/ts`. https://docs.slack.dev/reference/methods/chat.getPermalink shows the form of
    both kinds of links. Raises `Permanent` when it is neither."""
    plain = address.strip().strip("<>").partition("|")[0]
    path = query = ""
    with suppress(ValueError):
        link = urlsplit(plain)
        if link.scheme in ("https", "http"):
            path, query = link.path, link.query
    found = _LINK.fullmatch(path) or _PAIR.fullmatch(plain)
    if found is None:
        raise Permanent(f"{address.strip()!r} is not the address of a message: {_HINT}")
    digits = found.group(2)
    ts = f"{digits[:-6]}.{digits[-6:]}" if digits else found.group(3)
    named = parse_qs(query).get("thread_ts", [""])[0]
    return Permalink(found.group(1), ts, named if _TIMESTAMP.fullmatch(named) else ts)


# ---- The JSON of a message -------------------------------------------------------------------------------------------


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a Slack message that its author wrote; storable and at most 40,000 characters.

    What the author forwards is in `forwarded_of`. A message without any text, which an app posted under no user, has
    that of its own attachments. Under a user they count as forwarded, since a program may post in a person's name.
    """
    written = written_words(message)
    if words_of(message).strip() or message.get("user"):
        return clean_text(written)
    return clean_text("\n".join(filter(str.strip, map(_attached_text, _own_attachments(message)))))


def written_words(message: Mapping[str, Any]) -> str:
    """The words that the author wrote: without lines that quote somebody. Rules on words and mentions read these."""
    return split_quotes(words_of(message))[0]


def forwarded_of(message: Mapping[str, Any]) -> str:
    """What the author of a Slack message forwards: quotes, shared messages, and in a message without other text the
    preview of a link and what somebody's program attached in a person's name.

    Each piece has a heading that says what it is, from whom and where, and lines that begin with `&gt;`, so that
    nothing in a piece looks like a heading or like the author's own words. Storable and at most 40,000 characters.
    """
    quoted, pieces = split_quotes(words_of(message))[1], list[str]()
    if quoted:
        pieces.append(_piece("Quoted", quoted))
    is_bare = not words_of(message).strip()
    for item in objects(message.get("attachments")):
        if _is_share(item):
            pieces.append(_piece(_share_heading(item), _attached_text(item)))
        elif is_bare and (address := _address_of(item)):
            pieces.append(_piece(f"Preview of {address}", _attached_text(item)))
    if is_bare and message.get("user"):
        attached = filter(str.strip, map(_attached_text, _own_attachments(message)))
        pieces += [_piece("Attachment", text) for text in attached]
    return clean_text("\n".join(pieces))


def with_forwarded(text: str, forwarded: str) -> str:
    """A message as readers are shown it: what its author wrote, then what they forward."""
    return "\n".join(part for part in (text, forwarded) if part.strip())


def quotes_in(forwarded: str) -> str:
    """The lines that an author quotes in the message itself, with their marks; without the messages that they share."""
    heading, _, rest = forwarded.partition("\n")
    lines = rest.split("\n") if heading == _QUOTED else []
    return "\n".join(takewhile(lambda line: line.startswith(_QUOTE), lines))


def without_headings(forwarded: str) -> str:
    """The bare words of what is forwarded."""
    lines = (line for line in forwarded.splitlines() if line.startswith(_QUOTE))
    return "\n".join(line.removeprefix(_QUOTE).lstrip() for line in lines)


def split_quotes(text: str) -> tuple[str, str]:
    """What the author wrote, and the lines that quote somebody, without their marks.

    Slack shows a line as a quote that begins with `&gt;`, and all that follows `&gt;&gt;&gt;`. In a code block such
    lines are code.
    """
    written, quoted = list[str](), list[str]()
    in_code = in_long_quote = False
    for line in text.split("\n"):
        begun = line.lstrip()
        if in_long_quote or (begun.startswith(_QUOTE) and not in_code):
            in_long_quote = in_long_quote or begun.startswith(_QUOTE * 3)
            quoted.append(line.lstrip().removeprefix(_QUOTE * 3).removeprefix(_QUOTE).lstrip())
            continue
        in_code ^= line.count("```") % 2 == 1
        written.append(line)
    return "\n".join(written).strip() if quoted else text, "\n".join(quoted)


def _piece(heading: str, text: str) -> str:
    return "\n".join([f"[{heading}]", *(f"{_QUOTE} {line}" for line in text.splitlines())])


def _is_share(attachment: Mapping[str, Any]) -> bool:
    """Whether an attachment is another message of Slack: one that was forwarded, or the target of a permalink."""
    marks = ("is_share", "is_msg_unfurl", "is_reply_unfurl", "message_blocks")
    return any(attachment.get(mark) for mark in marks)


def _address_of(attachment: Mapping[str, Any]) -> str:
    """The address of the page that an attachment previews; empty for an attachment that an app has made."""
    named = (string_field(attachment, name) for name in ("from_url", "original_url", "app_unfurl_url"))
    return _one_line(next(filter(None, named), ""))


def _own_attachments(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The attachments that are part of the message: neither another message nor the preview of a page."""
    attached = objects(message.get("attachments"))
    return [item for item in attached if not (_is_share(item) or _address_of(item))]


def _share_heading(attachment: Mapping[str, Any]) -> str:
    def named(kind: str) -> str:
        name, identity = (_one_line(string_field(attachment, f"{kind}_{part}")) for part in ("name", "id"))
        return f"{name} ({identity})" if name and identity else name or identity

    author = named("author") or _one_line(string_field(attachment, "author_subname")) or "somebody"
    place = named("channel")
    where = [f" in {place}"] if place else []
    where += [f", {address}"] if (address := _address_of(attachment)) else []
    return f"Forwarded message by {author}{''.join(where)}"


def _one_line(name: str) -> str:
    """A name or an address inside a heading, which nothing in it can end."""
    return " ".join(name.replace("[", "(").replace("]", ")").split())[:_MAX_HEADING]


def _attached_text(attachment: Mapping[str, Any]) -> str:
    """The words of an attachment. The text of a shared message may be in its blocks alone."""
    if text := string_field(attachment, "text").strip():
        return text
    shared = (item.get("message") for item in objects(attachment.get("message_blocks")))
    lines = [line for each in shared if isinstance(each, Mapping) for line in _rich_text(each)]
    return "\n".join(lines) or string_field(attachment, "fallback")


def words_of(message: Mapping[str, Any]) -> str:
    """All words of the message itself, quotes among them: `text`, or the rich text blocks where it is missing or blank.
    Attachments do not count: Slack adds them afterwards when it unfurls a link, and that is no edit."""
    text = string_field(message, "text")
    if text.strip():
        return text
    return "\n".join(_rich_text(message))


def files_of(message: Mapping[str, Any]) -> tuple[FileRef, ...]:
    """The files that a Slack message shows, without those that were deleted."""
    return tuple(
        FileRef(
            id=string_field(item, "id"),
            name=string_field(item, "name"),
            mimetype=string_field(item, "mimetype"),
            size=int_field(item, "size"),
        )
        for item in objects(message.get("files"))
        if string_field(item, "id") and item.get("mode") != "tombstone"
    )


def apps_of(message: Mapping[str, Any]) -> tuple[str, ...]:
    """The ids of the bot and of the app through which a message was posted."""
    return tuple(filter(None, (string_field(message, name) for name in ("bot_id", "app_id"))))


def app_team_of(message: Mapping[str, Any]) -> str:
    """The workspace whose installation of an app posted a message; empty where it does not say."""
    profile = message.get("bot_profile")
    installed = string_field(profile, "team_id") if isinstance(profile, Mapping) else ""
    return installed or string_field(message, "user_team") or string_field(message, "team")


def string_field(source: Mapping[str, Any], name: str) -> str:
    """The field if it is a string, made storable; else nothing."""
    value = source.get(name)
    return clean_text(value) if isinstance(value, str) else ""


def objects(value: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of a JSON array; nothing when it is something else."""
    return (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else iter(())


def _rich_text(message: Mapping[str, Any]) -> Iterator[str]:
    blocks = (block for block in objects(message.get("blocks")) if block.get("type") == "rich_text")
    return (line for block in blocks for line in _lines(block))


def _lines(block: Mapping[str, Any]) -> Iterator[str]:
    for element in objects(block.get("elements")):
        match element.get("type"):
            case "rich_text_list":
                quote = f"{_QUOTE} " if int_field(element, "border") else ""
                indent = quote + _INDENT * min(int_field(element, "indent"), _MAX_INDENT)
                ordered, offset = element.get("style") == "ordered", int_field(element, "offset")
                for number, item in enumerate(objects(element.get("elements")), start=offset + 1):
                    yield f"{indent}{f'{number}.' if ordered else '•'} {_inline(item)}"
            case "rich_text_quote":
                yield from (f"{_QUOTE} {line}" for line in _inline(element).splitlines())
            case "rich_text_preformatted":
                yield f"```\n{_inline(element)}\n```"
            case _:
                yield _inline(element)


def _inline(element: Mapping[str, Any]) -> str:
    pieces = objects(element.get("elements"))
    return "".join(_PIECES.get(string_field(piece, "type"), _plain)(piece) for piece in pieces)


def _plain(piece: Mapping[str, Any]) -> str:
    return escape(string_field(piece, "text") or string_field(piece, "fallback"))


def _link(piece: Mapping[str, Any]) -> str:
    url, label = string_field(piece, "url"), escape(string_field(piece, "text"))
    return f"<{url}|{label}>" if label and label != url else f"<{url}>"


_PIECES: dict[str, Callable[[Mapping[str, Any]], str]] = {
    "link": _link,
    "user": lambda piece: f"<@{string_field(piece, 'user_id')}>",
    "channel": lambda piece: f"<#{string_field(piece, 'channel_id')}>",
    "usergroup": lambda piece: f"<!subteam^{string_field(piece, 'usergroup_id')}>",
    "broadcast": lambda piece: f"<!{string_field(piece, 'range')}>",
    "emoji": lambda piece: f":{string_field(piece, 'name')}:",
    "color": lambda piece: string_field(piece, "value"),
}


def int_field(source: Mapping[str, Any], name: str) -> int:
    """The field if it is a whole number from 0 on; else 0."""
    value = source.get(name)
    return value if isinstance(value, int) and value >= 0 else 0


# ---- Where a long Markdown text is cut into pieces, each of which reads on its own -----------------------------------

SMALLEST_LIMIT = 100
"""Below this the two fence lines around a cut would leave no room for the code."""
_FENCE = re.compile(r"[ \t]*(`{3,16}|~{3,16})(?![`~])[ \t]*([\w+#.-]{0,24})([^`]*)")
_CLOSING = 17
"""A line break and the longest fence that closes code."""
_LAST_GAP = re.compile(r"\s(?=\S*\Z)")


def split_markdown(text: str, limit: int) -> list[str]:
    """Cut Markdown into pieces of at most `limit` characters, in order, without an empty one. It is cut at the end of a
    paragraph, else of a line, else of a word; amid a word only when that alone is longer than a piece has room for. A
    code fence is closed at the end of a piece and opened again in the next. Nothing is lost but white space around a
    cut. Raises `ValueError` when `limit` is below `SMALLEST_LIMIT`."""
    if limit < SMALLEST_LIMIT:
        raise ValueError(f"a limit of {limit} leaves no room for text: take at least {SMALLEST_LIMIT}")
    pieces: list[str] = []
    opening, rest = "", text.strip("\n")
    while len(opening) + len(rest) > limit:
        at = _cut(rest, limit - len(opening) - _CLOSING)
        body, rest = rest[:at].rstrip(), rest[at:]
        # The indentation of the next line stays, since in code it means something.
        rest = (rest[1:] if rest[:1].isspace() else rest).lstrip("\n")
        begun = opening + body
        opening, closing = open_fence(begun)
        if body:
            pieces.append(begun + closing)
    if rest.strip():
        pieces.append(opening + rest)
    return pieces


def open_fence(text: str) -> tuple[str, str]:
    """The line that reopens the code fence left open at the end of `text`, and the one that closes it; else empty."""
    fence, language = "", ""
    for line in text.split("\n"):
        match = _FENCE.fullmatch(line)
        if match is None:
            continue
        if not fence:
            fence, language = match[1], match[2]
        elif match[1].startswith(fence) and not (match[2] or match[3].strip()):
            fence, language = "", ""
    return (f"{fence}{language}\n", f"\n{fence}") if fence else ("", "")


def _cut(text: str, room: int) -> int:
    """Where to cut so that at most `room` characters come before; if it can, not in the first third of them."""
    for end in ("\n\n", "\n", " "):
        at = text.rfind(end, room // 3, room + len(end))
        if at > 0:
            return at
    gap = _LAST_GAP.search(text, 0, room + 1)
    return gap.start() if gap else room
