"""Formatting of the bot's messages: escaping, mentions, and the splitting of long texts. Pure.

Slack reads its own `<…>` tokens in a `markdown` block as well as in mrkdwn, and in both shows
`&lt;` as a bracket without reading it as a token again. So every `<` of a foreign text is escaped,
and in Markdown nothing else: `>` begins a quotation there, and `&` is part of the addresses of
links.

Limits: https://docs.slack.dev/reference/block-kit/blocks/markdown-block (12,000 characters), and
about 13,200 for all blocks of a message, which that page does not mention. Hence one Markdown
block a message, and one message a part.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadline.privacy.redaction import redact
from threadline.slack.code import outside_code
from threadline.slack.model import MAX_TEXT, FileRef
from threadline.slack.mrkdwn import WORD_JOINER, decode, escape
from threadline.slack.names import plain_tokens
from threadline.slack.rendering import block_text
from threadline.slack.splitting import split_markdown

PART_LIMIT = 11_000
"""Characters of Markdown in one message."""
TEXT_LIMIT = 4_000
"""Characters of the plain text that notifications and old clients show."""
TITLE_LIMIT = 200
_LONGEST_TEXT = MAX_TEXT - 1_000
"""Characters of a part that is posted as text: leaves room for a headline before it."""

_MENTION = re.compile(r"<(@([UW][A-Z0-9_]+)(?:\|[^<>|\n]*)?>)?")
_BROADCAST = re.compile(
    r"(?<![\w.])@(?=(?:channel|here|everyone|group)(?![\w/(-]|[.:]\w))", re.IGNORECASE
)
"""The words that call a channel. `@group/ui` and `@Channel("prices")` do not match."""
_CALLING = re.compile(r"<(?=[@!#])")
_USER = re.compile(r"[UW][A-Z0-9]+")
_USERGROUP = re.compile(r"S[A-Z0-9]+")

Block = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """One message: Slack's blocks, and the same in plain text."""

    text: str
    blocks: tuple[Block, ...] = ()


def escape_mentions(text: str, allowed: Collection[str] = ()) -> str:
    """Escape Markdown by a model or a person so that it mentions only the `allowed` user ids.

    Links in Slack's form become links in Markdown, and Slack's other tokens become names.
    Everything else, above all code, still reads as it was written. Idempotent.
    """

    def mention_or_bracket(match: re.Match[str]) -> str:
        rest = match[1] or ""
        user = match[2]
        return f"<@{user}>" if user in allowed else f"&lt;{rest}"

    plain = outside_code(text, lambda part: plain_tokens(part, kept=allowed))
    return _without_broadcasts(_MENTION.sub(mention_or_bracket, plain))


def mention(identity: str) -> str:
    """Return a live mention of a user (`U…`, `W…`) or a user group (`S…`); any other text stays
    plain.
    """
    if _USER.fullmatch(identity):
        return f"<@{identity}>"
    return f"<!subteam^{identity}>" if _USERGROUP.fullmatch(identity) else escape(identity)


def escape_all(text: str) -> str:
    """Escape a foreign text for mrkdwn, so that it mentions no one."""
    return escape(_without_broadcasts(outside_code(text, plain_tokens)))


def _without_broadcasts(text: str) -> str:
    """Defuse `@channel` and its like. Code stays unchanged: people copy it, and Slack reads no
    mention in it.
    """
    return outside_code(text, lambda part: _BROADCAST.sub(f"@{WORD_JOINER}", part))


def defuse_mentions(text: str) -> str:
    """Defuse the mentions of a foreign text for a place where Slack reads no markup, in case it
    does.
    """
    return _BROADCAST.sub(f"@{WORD_JOINER}", _CALLING.sub(f"<{WORD_JOINER}", text))


def one_line(text: str, limit: int = TITLE_LIMIT) -> str:
    """Escape as `escape_all` does, in one line of at most `limit` characters."""
    one = " ".join(text.split())
    return escape_all(one if len(one) <= limit else one[: limit - 1] + "…")


def link(url: str, label: str) -> str:
    """Return a live link in mrkdwn; `label` is already escaped."""
    return f"<{escape(url).replace('|', '%7C')}|{label}>"


def section(mrkdwn: str) -> Block:
    """Return a section of at most 3,000 characters:
    https://docs.slack.dev/reference/block-kit/blocks/section-block.
    """
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn}}


def markdown(text: str) -> Block:
    """Return a block of at most `PART_LIMIT` characters of Markdown from `escape_mentions`."""
    return {"type": "markdown", "text": text}


def context(mrkdwn: str) -> Block:
    """Return a line in small letters."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


_CUT_END = re.compile(r"\s\S{0,60}\Z|&\w{0,3}\Z")
"""The part of a word or an entity at the end of a cut text."""
_CUT_MARK = " …"
_LIVE_TOKEN = re.compile(
    r"(<(?:@[UW][A-Z0-9]+|!subteam\^S[A-Z0-9]+|#[CDG][A-Z0-9]+)(?:\|[^<>\n]*)?>)"
)


def fallback_text(headline: str, body: str, called: str = "", limit: int = TEXT_LIMIT) -> str:
    """Build the text of a message, which notifications and old clients show in place of its
    blocks. A text of more than `limit` characters ends with a mark: the blocks hold the whole.

    Args:
        headline: plain text.
        body: Markdown from `escape_mentions`.
        called: live mentions.
    """
    words = escape_all("\n".join(filter(None, (headline, body.replace("&lt;", "<")))))
    whole = f"{called} {words}" if called else words
    if len(whole) <= limit:
        return whole
    return _CUT_END.sub("", whole[: limit - len(_CUT_MARK)]) + _CUT_MARK


def text_of_blocks(rendered: Rendered) -> str:
    """Return a message's whole content in mrkdwn, for when Slack refuses its blocks: the message's
    own text may be cut.

    It mentions the same users as the blocks: foreign text in them was escaped, and stays so.
    """
    shown = "\n\n".join(filter(None, map(block_text, rendered.blocks)))
    said = decode(rendered.text.removesuffix(_CUT_MARK))
    if _letters(said) not in _letters(shown):
        shown = f"{said}\n\n{shown}"
    parts = _LIVE_TOKEN.split(shown)
    parts[::2] = map(escape, parts[::2])
    return "".join(parts)


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text))


def split_parts(text: str, limit: int = PART_LIMIT) -> list[str]:
    """Split Markdown into parts of one message each, which Slack accepts both as blocks and,
    escaped, as text alone.
    """
    return [
        piece
        for part in split_markdown(text, limit)
        for piece in (
            [part] if len(escape(part)) <= _LONGEST_TEXT else split_parts(part, limit // 2)
        )
    ]


def notice(text: str, *, mentions: Sequence[str] = (), headline: str = "") -> tuple[Rendered, ...]:
    """Render any other kind of text.

    Args:
        text: Markdown; may quote a person or a model, since only `mentions` become live.
        mentions: ids of users and user groups to call, at the head of the first part.
        headline: plain text, set in bold before the text.
    """
    # Redact before the split: a key that spans two messages would be recognised in neither.
    parts = split_parts(escape_mentions(redact(text), mentions)) or [""]
    headline = redact(headline)
    called = " ".join(mention(identity) for identity in mentions)
    bold = f"*{one_line(headline)}*" if headline else ""
    first = " ".join(filter(None, (called, bold)))
    return tuple(
        Rendered(
            text=fallback_text(headline, part, called if number == 1 else ""),
            blocks=(
                *((section(first),) if first and number == 1 else ()),
                *((markdown(part),) if part else ()),
            ),
        )
        for number, part in enumerate(parts, start=1)
    )


def redact_files(files: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    """Redact secrets in the files' names and previews."""
    return tuple(
        replace(file, name=redact(file.name), preview=redact(file.preview)) for file in files
    )
