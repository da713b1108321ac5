"""Text in Slack's own form: mentions, plain words, and the links to messages.

No function here takes longer than in proportion to the text. No pattern runs over a `<` or a `:` into the next one, and
none begins within blanks: 40,000 characters of any of these cost no more than others.
"""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from threadline.errors import Permanent

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
_MARK = re.compile(r"[*~`\"“”()\[\]{}<>|]")

_LINK = re.compile(r"/archives/([A-Z][A-Z0-9]+)/p([0-9]{7,})")
_PAIR = re.compile(r"([A-Z][A-Z0-9]+)/(?:p([0-9]{7,})|([0-9]+\.[0-9]{6}))")
_TIMESTAMP = re.compile(r"[0-9]+\.[0-9]{6}")
_HINT = (
    "give a message's permalink (in Slack: More actions, Copy link), such as "
    "https://acme.slack.com/archives/C0123456789/p1700000000000100, "
    "or its channel and ts, such as C0123456789/1700000000.000100"
)


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
    """Read a permalink or `channel/ts`.

    https://docs.slack.dev/reference/methods/chat.getPermalink shows the form of both kinds of links.

    Raises:
        Permanent: it is neither.
    """
    plain = address.strip().strip("<>").partition("|")[0]
    path, query = _split_link(plain)
    found = _LINK.fullmatch(path) or _PAIR.fullmatch(plain)
    if found is None:
        raise Permanent(f"{address.strip()!r} is not the address of a message: {_HINT}")
    digits = found.group(2)
    ts = f"{digits[:-6]}.{digits[-6:]}" if digits else found.group(3)
    named = parse_qs(query).get("thread_ts", [""])[0]
    return Permalink(found.group(1), ts, named if _TIMESTAMP.fullmatch(named) else ts)


def _split_link(plain: str) -> tuple[str, str]:
    """Path and query of a link; both empty when it is none."""
    try:
        link = urlsplit(plain)
    except ValueError:
        return "", ""
    return (link.path, link.query) if link.scheme in ("https", "http") else ("", "")
