"""The addresses of messages as people have them: what Slack copies as a link, or a channel and a moment."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from threadline.errors import Permanent

_LINK = re.compile(r"/archives/([A-Z][A-Z0-9]+)/p([0-9]{7,})")
_PAIR = re.compile(r"([A-Z][A-Z0-9]+)/(?:p([0-9]{7,})|([0-9]+\.[0-9]{6}))")
_MOMENT = re.compile(r"[0-9]+\.[0-9]{6}")
_HINT = (
    "give a message's permalink (in Slack: More actions, Copy link), such as "
    "https://acme.slack.com/archives/C0123456789/p1700000000000100, "
    "or its channel and ts, such as C0123456789/1700000000.000100"
)


@dataclass(frozen=True)
class Place:
    """Where a message stands. `root`: the `ts` of its thread's first message; its own where the address tells none."""

    channel: str
    ts: str
    root: str


def place_of(address: str) -> Place:
    """The message that a permalink or `channel/ts` is of.

    https://docs.slack.dev/reference/methods/chat.getPermalink shows the form of both kinds of links.

    Raises:
        Permanent: it is neither.
    """
    plain = address.strip().strip("<>").partition("|")[0]
    path, query = _parts(plain)
    found = _LINK.fullmatch(path) or _PAIR.fullmatch(plain)
    if found is None:
        raise Permanent(f"{address.strip()!r} is not the address of a message: {_HINT}")
    digits = found.group(2)
    ts = f"{digits[:-6]}.{digits[-6:]}" if digits else found.group(3)
    named = parse_qs(query).get("thread_ts", [""])[0]
    return Place(found.group(1), ts, named if _MOMENT.fullmatch(named) else ts)


def _parts(plain: str) -> tuple[str, str]:
    """Path and query of a link; both empty when it is none."""
    try:
        link = urlsplit(plain)
    except ValueError:
        return "", ""
    return (link.path, link.query) if link.scheme in ("https", "http") else ("", "")
