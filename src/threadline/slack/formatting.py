"""How things are said in Slack: what is escaped, who is mentioned, and where a long text is cut. Pure.

Slack reads its own `<…>` tokens in a `markdown` block as well as in mrkdwn, and shows `&lt;` as a bracket in both
without reading it as a token again. So every `<` of a text that is not ours is escaped, and in Markdown nothing else:
`>` begins a quotation there, and `&` belongs to the addresses of links.

Limits: https://docs.slack.dev/reference/block-kit/blocks/markdown-block (12,000 characters), and about 13,200 for all
blocks of a message, which that page does not say. Hence one Markdown block a message, and one message a part.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from threadline.cases.model import Severity
from threadline.privacy.redaction import redact
from threadline.slack import text_splitting as splitting

PART_LIMIT = 11_000
"""Characters of Markdown in one message."""
TEXT_LIMIT = 4_000
"""Characters of the plain text that notifications and old clients show."""
TITLE_LIMIT = 200

_TOKEN = re.compile(r"<(@([UW][A-Z0-9]+)(?:\|[^<>|\n]*)?>)?")
_BROADCAST = re.compile(r"(?<![\w.])@(?=(?:channel|here|everyone|group)\b)", re.IGNORECASE)
_CALLING = re.compile(r"<(?=[@!#])")
_WORD_JOINER = "\u2060"
_USER = re.compile(r"[UW][A-Z0-9]+")
_USERGROUP = re.compile(r"S[A-Z0-9]+")

Block = dict[str, Any]


@dataclass(frozen=True)
class Rendered:
    """One message: Slack's blocks, and the same in plain text."""

    text: str
    blocks: tuple[Block, ...] = ()


@dataclass(frozen=True)
class Evidence:
    file: str
    line: int
    note: str


@dataclass(frozen=True)
class Findings:
    """What a turn found; `confidence` is from 0 to 1, `reported_by` a user's id, all texts Markdown by the agent."""

    bug_id: str
    title: str
    severity: Severity
    confidence: float
    summary: str
    root_cause: str
    turn: int
    cost_usd: float
    reported_by: str
    evidence: Sequence[Evidence] = ()
    recommended_actions: Sequence[str] = ()
    components: Sequence[str] = ()
    pull_request: str | None = None


def escape(text: str) -> str:
    """Text that is not ours, inside mrkdwn: https://docs.slack.dev/messaging/formatting-message-text#escaping."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def neutralise(text: str, allowed: Collection[str] = ()) -> str:
    """Markdown by a model or a person, made to call nobody but the `allowed` user ids.

    Everything else stays to be read as it was written; doing it twice changes nothing.
    """

    def token(match: re.Match[str]) -> str:
        rest, user = match[1] or "", match[2]
        return f"<@{user}>" if user in allowed else f"&lt;{rest}"

    return _BROADCAST.sub(f"@{_WORD_JOINER}", _TOKEN.sub(token, text))


def mention(identity: str) -> str:
    """A live mention of a user (`U…`, `W…`) or a user group (`S…`); any other text stays plain."""
    if _USER.fullmatch(identity):
        return f"<@{identity}>"
    return f"<!subteam^{identity}>" if _USERGROUP.fullmatch(identity) else escape(identity)


def plain(text: str) -> str:
    """Text that is not ours, inside mrkdwn, where it calls nobody."""
    return _BROADCAST.sub(f"@{_WORD_JOINER}", escape(text))


def literal(text: str) -> str:
    """Text that is not ours where Slack reads no markup, made to call nobody should it ever be read as such."""
    return _BROADCAST.sub(f"@{_WORD_JOINER}", _CALLING.sub(f"<{_WORD_JOINER}", text))


def link(url: str, label: str) -> str:
    """A live link in mrkdwn; `label` has been escaped."""
    return f"<{escape(url).replace('|', '%7C')}|{label}>"


def section(mrkdwn: str) -> Block:
    """At most 3,000 characters: https://docs.slack.dev/reference/block-kit/blocks/section-block."""
    return {"type": "section", "text": {"type": "mrkdwn", "text": mrkdwn}}


def context(mrkdwn: str) -> Block:
    """A line in small letters."""
    return {"type": "context", "elements": [{"type": "mrkdwn", "text": mrkdwn}]}


_HALF = re.compile(r"\s\S{0,60}\Z|&\w{0,3}\Z")
"""Of a word, or of an entity, at the end of what was cut."""


def fallback(headline: str, body: str, called: str = "", limit: int = TEXT_LIMIT) -> str:
    """What a message says where its blocks are not shown: at most `limit` characters.

    Args:
        headline: plain text.
        body: Markdown that went through `neutralise`.
        called: live mentions.
    """
    words = plain("\n".join(filter(None, (headline, body.replace("&lt;", "<")))))
    whole = f"{called} {words}" if called else words
    return whole if len(whole) <= limit else _HALF.sub("", whole[:limit])


def split_markdown(text: str, limit: int = PART_LIMIT) -> list[str]:
    """The text in pieces that one message each can hold: see `slack/text_splitting.py`."""
    return splitting.split(text, limit)


def findings(found: Findings, mentions: Collection[str] = ()) -> tuple[Rendered, ...]:
    """A turn's findings: a headline, the agent's text in as many parts as it needs, a last line.

    It mentions the reporter; the agent's text may call those of `mentions` (user ids) besides.
    """
    parts = split_markdown(_body(found, mentions))
    told = redact(found.title)
    title = _line(told, TITLE_LIMIT)
    facts = [f"Severity {found.severity}", f"confidence {found.confidence:.0%}"]
    if found.components:
        facts.append("components " + _line(redact(", ".join(found.components)), TITLE_LIMIT))
    head = section(f"*{escape(found.bug_id)}: {title}*\n{' · '.join(facts)} · reported by {mention(found.reported_by)}")
    return tuple(
        Rendered(
            text=fallback(f"{found.bug_id}: {told}{_of(number, len(parts))}", part),
            blocks=(
                *((head,) if number == 1 else ()),
                _markdown(part),
                *((_foot(found),) if number == len(parts) else ()),
            ),
        )
        for number, part in enumerate(parts, start=1)
    )


def question(bug_id: str, reporter: str, text: str) -> tuple[Rendered, ...]:
    """The agent's question to the reporter (a user's id), whom it calls."""
    return notice(text, mentions=(reporter,), headline=f"A question about {bug_id}")


def notice(text: str, *, mentions: Sequence[str] = (), headline: str = "") -> tuple[Rendered, ...]:
    """A text of any other kind.

    Args:
        text: Markdown; may quote a person or a model, since it can call nobody but `mentions`.
        mentions: ids of users and user groups that are called, at the head of the first part.
        headline: plain text, set in bold before the text.
    """
    # Before it is cut: a key that is spread over two messages would be recognised in neither.
    parts = split_markdown(neutralise(redact(text), mentions)) or [""]
    headline = redact(headline)
    called = " ".join(mention(identity) for identity in mentions)
    bold = f"*{_line(headline, TITLE_LIMIT)}*" if headline else ""
    first = " ".join(filter(None, (called, bold)))
    return tuple(
        Rendered(
            text=fallback(headline, part, called if number == 1 else ""),
            blocks=(
                *((section(first),) if first and number == 1 else ()),
                *((_markdown(part),) if part else ()),
            ),
        )
        for number, part in enumerate(parts, start=1)
    )


def _body(found: Findings, mentions: Collection[str]) -> str:
    evidence = [f"- `{_code(item.file)}:{item.line}`: {' '.join(item.note.split())}" for item in found.evidence]
    actions = [f"{number}. {action.strip()}" for number, action in enumerate(found.recommended_actions, start=1)]
    sections = (
        ("Summary", found.summary),
        ("Root cause", found.root_cause),
        ("Evidence", "\n".join(evidence)),
        ("Recommended actions", "\n".join(actions)),
    )
    written = [
        f"## {name}\n\n{text.strip() + splitting.open_fence(text.strip())[1]}"
        for name, text in sections
        if text.strip()
    ]
    body = redact("\n\n".join(written)) or "The turn ended without a text."
    return neutralise(body, (found.reported_by, *mentions))


def _foot(found: Findings) -> Block:
    words = [f"Turn {found.turn}", f"${found.cost_usd:.2f}"]
    if found.pull_request:
        words.append(link(found.pull_request, "Pull request"))
    return context(" · ".join(words))


def _markdown(text: str) -> Block:
    return {"type": "markdown", "text": text}


def _line(text: str, limit: int) -> str:
    one = " ".join(text.split())
    return plain(one if len(one) <= limit else one[: limit - 1] + "…")


def _code(text: str) -> str:
    return " ".join(text.replace("`", "'").split())


def _of(number: int, parts: int) -> str:
    return f" ({number}/{parts})" if parts > 1 else ""
