"""How things are said in Slack: what is escaped, who is mentioned, and where a long text is cut. Pure.

Slack reads its own `<…>` tokens in a `markdown` block as well as in mrkdwn, and shows `&lt;` as a bracket in both
without reading it as a token again. So every `<` of a text that is not ours is escaped, and in Markdown nothing else:
`>` begins a quotation there, and `&` belongs to the addresses of links.

Limits: https://docs.slack.dev/reference/block-kit/blocks/markdown-block (12,000 characters), and about 13,200 for all
blocks of a message, which that page does not say. Hence one Markdown block a message, and one message a part.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from threadline.privacy.redaction import redact
from threadline.slack.code import outside_code
from threadline.slack.model import FileRef
from threadline.slack.mrkdwn import WORD_JOINER, escape
from threadline.slack.names import plain_tokens
from threadline.slack.splitting import split_markdown

PART_LIMIT = 11_000
"""Characters of Markdown in one message."""
TEXT_LIMIT = 4_000
"""Characters of the plain text that notifications and old clients show."""
TITLE_LIMIT = 200

_MENTION = re.compile(r"<(@([UW][A-Z0-9_]+)(?:\|[^<>|\n]*)?>)?")
_BROADCAST = re.compile(r"(?<![\w.])@(?=(?:channel|here|everyone|group)(?![\w/(-]|[.:]\w))", re.IGNORECASE)
"""The words that call a channel. `@group/ui` and `@Channel("prices")` call nobody."""
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
    """Markdown by a model or a person, made to call nobody but the `allowed` user ids.

    Links in Slack's form become links in Markdown, and Slack's other tokens become names. Everything else, code above
    all, stays to be read as it was written; doing it twice changes nothing.
    """

    def mention_or_bracket(match: re.Match[str]) -> str:
        rest, user = match[1] or "", match[2]
        return f"<@{user}>" if user in allowed else f"&lt;{rest}"

    plain = outside_code(text, lambda part: plain_tokens(part, kept=allowed))
    return _without_broadcasts(_MENTION.sub(mention_or_bracket, plain))


def mention(identity: str) -> str:
    """A live mention of a user (`U…`, `W…`) or a user group (`S…`); any other text stays plain."""
    if _USER.fullmatch(identity):
        return f"<@{identity}>"
    return f"<!subteam^{identity}>" if _USERGROUP.fullmatch(identity) else escape(identity)


def escape_all(text: str) -> str:
    """Text that is not ours, inside mrkdwn, where it calls nobody."""
    return escape(_without_broadcasts(outside_code(text, plain_tokens)))


def _without_broadcasts(text: str) -> str:
    """Code stays as it is, since people copy it, and Slack reads no mention in it."""
    return outside_code(text, lambda part: _BROADCAST.sub(f"@{WORD_JOINER}", part))


def defuse_mentions(text: str) -> str:
    """Text that is not ours where Slack reads no markup, made to call nobody should it ever be read as such."""
    return _BROADCAST.sub(f"@{WORD_JOINER}", _CALLING.sub(f"<{WORD_JOINER}", text))


def one_line(text: str, limit: int = TITLE_LIMIT) -> str:
    """As `escape_all`, in one line of at most `limit` characters."""
    one = " ".join(text.split())
    return escape_all(one if len(one) <= limit else one[: limit - 1] + "…")


def link(url: str, label: str) -> str:
    """A live link in mrkdwn; `label` has been escaped."""
    return f"<{escape(url).replace('|', '%7C')}|{label}>"


def section(mrkdwn: str) -> Block:
    """At most 3,000 characters: https://docs.slack.dev/reference/block-kit/blocks/section-block."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn}}


def markdown(text: str) -> Block:
    """At most `PART_LIMIT` characters of Markdown that went through `escape_mentions`."""
    return {"type": "markdown", "text": text}


def context(mrkdwn: str) -> Block:
    """A line in small letters."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


_CUT_END = re.compile(r"\s\S{0,60}\Z|&\w{0,3}\Z")
"""Of a word, or of an entity, at the end of what was cut."""


def fallback_text(headline: str, body: str, called: str = "", limit: int = TEXT_LIMIT) -> str:
    """What a message says where its blocks are not shown, in at most `limit` characters. `headline` is plain text,
    `body` is Markdown that went through `escape_mentions`, and `called` are live mentions."""
    words = escape_all("\n".join(filter(None, (headline, body.replace("&lt;", "<")))))
    whole = f"{called} {words}" if called else words
    return whole if len(whole) <= limit else _CUT_END.sub("", whole[:limit])


def notice(text: str, *, mentions: Sequence[str] = (), headline: str = "") -> tuple[Rendered, ...]:
    """A text of any other kind. `text`: Markdown; may quote a person or a model, since it can call nobody but
    `mentions`. `mentions`: ids of users and user groups that are called, at the head of the first part. `headline`:
    plain text, set in bold before the text."""
    # Before it is cut: a key that is spread over two messages would be recognised in neither.
    parts = split_markdown(escape_mentions(redact(text), mentions), PART_LIMIT) or [""]
    headline = redact(headline)
    called = " ".join(mention(identity) for identity in mentions)
    bold = f"*{one_line(headline)}*" if headline else ""
    first = " ".join(filter(None, (called, bold)))
    return tuple(
        Rendered(
            text=fallback_text(headline, part, called if number == 1 else ""),
            blocks=(*((section(first),) if first and number == 1 else ()), *((markdown(part),) if part else ())),
        )
        for number, part in enumerate(parts, start=1)
    )


def redact_files(files: tuple[FileRef, ...]) -> tuple[FileRef, ...]:
    """The references, without secrets in the files' names."""
    return tuple(replace(file, name=redact(file.name)) for file in files)
