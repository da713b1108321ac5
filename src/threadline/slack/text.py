"""The text of a message: its reading from Slack's JSON, its mentions, plain words and permalinks.

Texts are decoded, see `slack.mrkdwn`.

Every function here takes time linear in the length of the text. No pattern runs over a `<` or a
`:` into the next one, and none begins within blanks: 40,000 characters of any of these cost no
more than others.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any
from urllib.parse import parse_qs, urlsplit

from threadline.errors import Permanent
from threadline.slack.fields import int_field, objects, string_field
from threadline.slack.model import FileRef, clean_text
from threadline.slack.mrkdwn import characters, decode, inert
from threadline.slack.rendering import (
    QUOTE,
    attachment_text,
    called_users,
    preview_of,
    with_blocks,
)

_INVISIBLE = re.compile(
    r"[\s\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    r"\u200b-\u200f\u2028-\u202f\u2060-\u206f\u2800\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]*"
)
"""Invisible characters; written out, since Python's own tables change, and the replay of a
workflow must not.
"""
_MENTION = re.compile(r"<@([UW][A-Z0-9_]+)(?:\|[^<>]*)?>")
_NAME_AND_ID = re.compile(r"@?[^<>()\n]*\(([UW][A-Z0-9]+)\)")
_USER_ID = re.compile(r"[UW][A-Z0-9]+")

_CALL = re.compile(r"<(?:@[UW][A-Z0-9]|#[CDG][A-Z0-9]|!\w)[^<>]*>")
"""A mention of a user, a channel or a group; the name in it is not part of the author's words."""
_LABELLED = re.compile(r"\[((?:[^\[\]\\\n]|\\.)*)\]\([^()\s]*\)")
_ADDRESS = re.compile(r"(?:https?://|www\.)[^\s<>]+", re.IGNORECASE)
_EMOJI = re.compile(r":[a-z0-9_+\-]+:")
"""`:runner:` is an emoji of a person in a hurry, not a runner of jobs."""
_QUOTED_HEADING = "Quoted"
_QUOTED = f"[{_QUOTED_HEADING}]"
"""The heading of an author's quotes; it comes first."""
_MAX_HEADING = 200
"""Maximum characters of a name or an address in the heading of a forwarded text."""
_FILE_HEADING = re.compile(
    r"\[File [^\[\]\n]* \(([^()\[\]\n]+)\)(?: could not be read:[^\[\]\n]*)?\]"
)
_MARK = re.compile(r"[*~`\"“”()\[\]{}<>&|\\]")

_LINK = re.compile(r"/archives/([A-Z][A-Z0-9]+)/p([0-9]{7,})")
_PAIR = re.compile(r"([A-Z][A-Z0-9]+)/(?:p([0-9]{7,})|([0-9]+\.[0-9]{6}))")
_LABELLED_LINK = re.compile(r"\[.*\]\(([^()\s]+)\)")
_TIMESTAMP = re.compile(r"[0-9]+\.[0-9]{6}")
_HINT = (
    "give a message's permalink (in Slack: More actions, Copy link), such as "
    "https://acme.slack.com/archives/C0123456789/p1700000000000100, "
    "or its channel and ts, such as C0123456789/1700000000.000100"
)


def is_blank(text: str) -> bool:
    """Return whether a text shows nothing to a reader."""
    return _INVISIBLE.fullmatch(text) is not None


def mentions_in(text: str) -> set[str]:
    """Return the ids of all users whom a decoded text mentions: `<@U1>` or `<@U1|name>`."""
    return set(_MENTION.findall(text))


def parse_user_id(text: str) -> str:
    """Return the user's id in `U1`, `<@U1>`, `<@U1|name>` or `@Ana Silva (U1)`; empty for any
    other text, such as a name.
    """
    plain = text.strip()
    named = _MENTION.fullmatch(plain) or _NAME_AND_ID.fullmatch(plain)
    user_id = named[1] if named else plain
    return user_id if _USER_ID.fullmatch(user_id) else ""


def without_leading_mention(text: str, user_id: str, name: str) -> str:
    """Remove the leading mention of a user and its separator from a text. Other mentions of the
    user become the name, since they are part of a sentence.

    `<@U1>: does <@U1> see it?` without U1, whose name is `bot`, is `does @bot see it?`. The colon
    of an emoji stays: `<@U1> :wave:` is `:wave:`.
    """
    call = rf"<@{re.escape(user_id)}(?:\|[^<>]*)?>"
    leading = rf"^(?:\s*{call}(?:[\s,]|:(?![^\s:<>]+:))*)+"
    rest = re.sub(leading, "", text)
    return re.sub(call, lambda _: f"@{name}", rest).strip()


def plain_words(text: str) -> str:
    """Return the words of a decoded text in one line and in lower case, without mentions,
    addresses, emoji and marks, for rules about phrases.

    A link's label stays, and so do punctuation, hyphens and underscores: `<@U1> *It’s* new:
    [this](https://a.b)` is `it's new: this`.
    """
    said = _LABELLED.sub(r" \1 ", _CALL.sub(" ", text.replace("’", "'").replace("‘", "'"))).lower()
    return " ".join(_MARK.sub(" ", _EMOJI.sub(" ", _ADDRESS.sub(" ", said))).split())


@dataclass(frozen=True)
class Permalink:
    """The address of a message. `root` is the `ts` of its thread's root; the message's own `ts` if
    the address names no root.
    """

    channel: str
    ts: str
    root: str


def parse_permalink(address: str) -> Permalink:
    """Read a permalink or `channel/ts`. https://docs.slack.dev/reference/methods/chat.getPermalink
    shows both forms of links.

    Raises:
        Permanent: the address has neither form.
    """
    given = address.strip()
    labelled = _LABELLED_LINK.fullmatch(given)
    plain = labelled[1] if labelled else given.strip("<>").partition("|")[0]
    path = query = ""
    with suppress(ValueError):
        link = urlsplit(plain)
        if link.scheme in ("https", "http"):
            path = link.path
            query = link.query
    found = _LINK.fullmatch(path) or _PAIR.fullmatch(plain)
    if found is None:
        raise Permanent(f"{address.strip()!r} is not the address of a message: {_HINT}")
    digits = found.group(2)
    ts = f"{digits[:-6]}.{digits[-6:]}" if digits else found.group(3)
    named = parse_qs(query).get("thread_ts", [""])[0]
    return Permalink(found.group(1), ts, named if _TIMESTAMP.fullmatch(named) else ts)


# ---- The JSON of a message


@dataclass(frozen=True)
class MessageText:
    """The texts of a Slack message, decoded (see `slack.mrkdwn`), storable and at most 40,000
    characters each.

    - `own`: all words of the message itself, and the tables that its author pasted. Slack attaches
      more later, such as previews of links, which is no edit;
    - `written`: the words that the author wrote, without quoted lines. Rules on words read this;
    - `text`: the same; for an app that posts under no user, also the text of its attachments;
    - `forwarded`: the texts that the author forwards: quotes, attachments, shared messages, e-mail
      and previews of links. Each piece has a heading with its kind, author and place, and lines
      that begin with `>`, so that no text in a piece looks like a heading or like the author's own
      words;
    - `as_written`: the author's words with their quotes in their original places; empty where
      nothing is quoted;
    - `calls`: the ids of users who are mentioned outside of code and quotes.
    """

    own: str
    written: str
    text: str
    forwarded: str
    as_written: str
    calls: frozenset[str]


def read_text(message: Mapping[str, Any]) -> MessageText:
    """Read the texts of a Slack message from its JSON:
    https://docs.slack.dev/reference/events/message.
    """
    words = _words(message)
    written, quoted = split_quotes(words)
    attached = [item for item in objects(message.get("attachments")) if not _is_preview(item)]
    pieces = [_attached_piece(item) for item in attached]
    pieces += [piece for file in objects(message.get("files")) if (piece := _email_piece(file))]
    text = written
    if not message.get("user"):
        text = "\n".join(
            filter(
                str.strip,
                [written, *(attachment_text(each) for each in attached if _is_own(each))],
            )
        )
        pieces = [_attached_piece(item) for item in attached if not _is_own(item)]
    quotes = [_piece(_QUOTED_HEADING, quoted)] if quoted else []
    previews = [
        _preview_piece(item) for item in objects(message.get("attachments")) if _is_preview(item)
    ]
    return MessageText(
        own=clean_text(
            "\n".join([words, *(attachment_text(each) for each in attached if _is_pasted(each))])
        ),
        written=clean_text(written),
        text=clean_text(text),
        forwarded=clean_text("\n".join([*quotes, *filter(None, pieces), *previews])),
        as_written=clean_text(with_marked_quotes(words)),
        calls=_calls(message, written),
    )


def text_of(message: Mapping[str, Any]) -> str:
    """Return the author's text of a Slack message; see `MessageText.text`."""
    return read_text(message).text


def forwarded_of(message: Mapping[str, Any]) -> str:
    """Return the forwarded texts of a Slack message; see `MessageText.forwarded`."""
    return read_text(message).forwarded


def with_forwarded(text: str, forwarded: str) -> str:
    """Join a message for display to readers: the author's words, then the forwarded texts."""
    return "\n".join(part for part in (text, forwarded) if part.strip())


def file_piece(file: FileRef, text: str = "", trouble: str = "") -> str:
    """Format a text file for display to readers: a heading with its name and id, and its lines
    marked like quotes.

    Args:
        text: its text, or the part that is shown.
        trouble: the reason why it could not be read, as the end of a sentence; `text` is then its
            preview.
    """
    named = f"File {_one_line(file.name) or 'without a name'} ({_one_line(file.id)})"
    if trouble:
        named += f" could not be read: {trouble}" + ("; Slack's preview of it:" if text else "")
    return _piece(named, inert(text))


def without_files(shown: str, file_ids: Collection[str]) -> str:
    """Remove the pieces of these files from a message as readers see it."""
    kept = list[str]()
    is_left_out = False
    for line in shown.split("\n"):
        if found := _FILE_HEADING.fullmatch(line):
            is_left_out = found[1] in file_ids
        elif not line.startswith(QUOTE):
            is_left_out = False
        if not is_left_out:
            kept.append(line)
    return "\n".join(kept)


def quotes_in(forwarded: str) -> str:
    """Return the lines that an author quotes in the message itself, with their marks; without the
    messages that they share.
    """
    heading, _, rest = forwarded.partition("\n")
    lines = rest.split("\n") if heading == _QUOTED else []
    return "\n".join(takewhile(lambda line: line.startswith(QUOTE), lines))


def without_headings(forwarded: str) -> str:
    """Return the forwarded words without headings and quote marks."""
    lines = (line for line in forwarded.splitlines() if line.startswith(QUOTE))
    return "\n".join(line.removeprefix(QUOTE).lstrip() for line in lines)


def split_quotes(text: str) -> tuple[str, str]:
    """Split a text into the author's words and the quoted lines, the latter without their
    marks.
    """
    lines = list(_quoted_lines(text))
    quoted = [line for line, is_quoted in lines if is_quoted]
    written = [line for line, is_quoted in lines if not is_quoted]
    return "\n".join(written).strip() if quoted else text, "\n".join(quoted)


def with_marked_quotes(text: str) -> str:
    """Put a separate mark before each quoted line; empty if nothing is quoted, since then the
    author's words are the whole text.
    """
    lines = list(_quoted_lines(text))
    if not any(is_quoted for _, is_quoted in lines):
        return ""
    return "\n".join(f"{QUOTE} {line}" if is_quoted else line for line, is_quoted in lines)


def leading_quotes(marked: str) -> tuple[str, str]:
    """Split a text with marked quotes before the author's first word: the quotes before it, and
    the rest.
    """
    lines = marked.split("\n")
    count = 0
    while count < len(lines) and (not lines[count].strip() or lines[count].startswith(QUOTE)):
        count += 1
    return "\n".join(lines[:count]).strip(), "\n".join(lines[count:])


def _quoted_lines(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the lines of a decoded text, each with whether it is a quote; quoted lines come
    without their mark.

    Slack shows a line that begins with `>` as a quote, and all text after `>>>`. In a code block
    such lines are code.
    """
    in_code = in_long_quote = False
    for line in text.split("\n"):
        begun = line.lstrip()
        if in_long_quote or (begun.startswith(QUOTE) and not in_code):
            in_long_quote = in_long_quote or begun.startswith(QUOTE * 3)
            yield begun.removeprefix(QUOTE * 3).removeprefix(QUOTE).lstrip(), True
            continue
        in_code ^= line.count("```") % 2 == 1
        yield line, False


def _words(message: Mapping[str, Any]) -> str:
    """Return all words of the message itself, including quotes.

    Slack generates the text of a person's message from its rich text, which is read where the text
    is missing. An app's blocks may contain more than its text.
    """
    text = decode(string_field(message, "text"))
    by_app = bool(apps_of(message))
    blocks = [
        each
        for each in objects(message.get("blocks"))
        if by_app or not text.strip() or each.get("type") != "rich_text"
    ]
    return with_blocks(text, blocks, is_fallback=by_app)


def _calls(message: Mapping[str, Any], written: str) -> frozenset[str]:
    rich = [each for each in objects(message.get("blocks")) if each.get("type") == "rich_text"]
    if not rich:
        return frozenset(mentions_in(written))
    return frozenset(user for block in rich for user in called_users(block) if user)


def _piece(heading: str, text: str) -> str:
    return "\n".join([f"[{heading}]", *(f"{QUOTE} {line}" for line in text.splitlines())])


def _is_share(attachment: Mapping[str, Any]) -> bool:
    """Return whether an attachment is another Slack message: a forwarded one, or the target of a
    permalink.
    """
    marks = ("is_share", "is_msg_unfurl", "is_reply_unfurl", "message_blocks")
    return any(attachment.get(mark) for mark in marks)


def _is_preview(attachment: Mapping[str, Any]) -> bool:
    """Return whether Slack added an attachment as the preview of a link to another message or a
    page.
    """
    return not attachment.get("is_share") and (
        _is_share(attachment) or bool(_address_of(attachment))
    )


def _is_own(attachment: Mapping[str, Any]) -> bool:
    return not (_is_share(attachment) or _address_of(attachment))


def _is_pasted(attachment: Mapping[str, Any]) -> bool:
    """Return whether an attachment is a table that the author pasted:
    https://github.com/vercel/chat/issues/803.
    """
    return any(each.get("type") == "table" for each in objects(attachment.get("blocks")))


def _address_of(attachment: Mapping[str, Any]) -> str:
    """Return the address of the page that an attachment previews; empty for an attachment that an
    app made.
    """
    named = (
        string_field(attachment, name) for name in ("from_url", "original_url", "app_unfurl_url")
    )
    return _one_line(next(filter(None, named), ""))


def _attached_piece(attachment: Mapping[str, Any]) -> str:
    """Return the piece of a shared message, or of an attachment in a person's name, made by their
    client or by a program.
    """
    if _is_share(attachment):
        return _piece(_share_heading(attachment), attachment_text(attachment))
    text = attachment_text(attachment)
    return _piece("Attachment", text) if text.strip() else ""


def _preview_piece(attachment: Mapping[str, Any]) -> str:
    if _is_share(attachment):
        return _attached_piece(attachment)
    return _piece(f"Preview of {_address_of(attachment)}", attachment_text(attachment))


def _email_piece(file: Mapping[str, Any]) -> str:
    """Return the piece of an e-mail that was sent to the channel; its words are in the file's
    object.
    """
    if string_field(file, "filetype") != "email":
        return ""
    senders = (
        string_field(each, "original") or string_field(each, "address")
        for each in objects(file.get("from"))
    )
    by = ", ".join(filter(None, senders)) or "somebody"
    subject = string_field(file, "subject") or string_field(file, "title")
    text = string_field(file, "plain_text") or string_field(file, "preview_plain_text")
    return _piece(f"E-mail by {_one_line(by)}: {_one_line(subject)}", inert(text))


def _share_heading(attachment: Mapping[str, Any]) -> str:
    def named(kind: str) -> str:
        name, identity = (
            _one_line(string_field(attachment, f"{kind}_{part}")) for part in ("name", "id")
        )
        return f"{name} ({identity})" if name and identity else name or identity

    author = named("author") or _one_line(string_field(attachment, "author_subname")) or "somebody"
    place = named("channel")
    where = [f" in {place}"] if place else []
    where += [f", {address}"] if (address := _address_of(attachment)) else []
    return f"Forwarded message by {author}{''.join(where)}"


def _one_line(name: str) -> str:
    """Return a name or an address in a form that cannot end the heading around it."""
    return " ".join(characters(name).replace("[", "(").replace("]", ")").split())[:_MAX_HEADING]


def files_of(message: Mapping[str, Any]) -> tuple[FileRef, ...]:
    """Return the files that a Slack message shows, without deleted ones."""
    return tuple(
        FileRef(
            id=string_field(item, "id"),
            name=characters(string_field(item, "name") or string_field(item, "title")),
            mimetype=string_field(item, "mimetype"),
            size=int_field(item, "size"),
            preview=preview_of(item),
        )
        for item in objects(message.get("files"))
        if string_field(item, "id") and item.get("mode") != "tombstone"
    )


def apps_of(message: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the bot and of the app through which a message was posted."""
    return tuple(filter(None, (string_field(message, name) for name in ("bot_id", "app_id"))))


def app_team_of(message: Mapping[str, Any]) -> str:
    """Return the workspace whose installation of an app posted a message; empty if the JSON has
    none.
    """
    profile = message.get("bot_profile")
    installed = string_field(profile, "team_id") if isinstance(profile, Mapping) else ""
    return installed or string_field(message, "user_team") or string_field(message, "team")
