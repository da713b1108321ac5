"""What Slack defines: threads, files, users, and the addresses of messages."""

import re
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from threadline.errors import Permanent

_LINK = re.compile(r"/archives/([A-Z][A-Z0-9]+)/p([0-9]{7,})")
_PAIR = re.compile(r"([A-Z][A-Z0-9]+)/(?:p([0-9]{7,})|([0-9]+\.[0-9]{6}))")
_TIMESTAMP = re.compile(r"[0-9]+\.[0-9]{6}")
_HINT = (
    "give a message's permalink (in Slack: More actions, Copy link), such as "
    "https://acme.slack.com/archives/C0123456789/p1700000000000100, "
    "or its channel and ts, such as C0123456789/1700000000.000100"
)


@dataclass(frozen=True)
class Thread:
    """A Slack thread: `ts` is the timestamp of its root message."""

    team: str
    channel: str
    ts: str

    @property
    def key(self) -> str:
        return f"{self.team}:{self.channel}:{self.ts}"


@dataclass(frozen=True)
class FileRef:
    """A file that was attached in Slack; only the reference travels."""

    id: str
    name: str = ""
    mimetype: str = ""
    size: int = 0


@dataclass(frozen=True)
class User:
    """What Slack says of a user (https://docs.slack.dev/reference/objects/user-object).

    `team` is their workspace, and `external` says that it is not ours. `name` is their display name: any text, or none.
    `time_zone` is as they have set it, such as `Europe/Berlin`. `email` is empty without the scope `users:read.email`.
    """

    team: str = ""
    guest: bool = False
    external: bool = False
    name: str = ""
    time_zone: str = ""
    bot: bool = False
    email: str = ""
    deactivated: bool = False


def is_full_member(team: str, user: User | None) -> bool:
    """Whether the user is a full member of the team's workspace; an unknown one is not."""
    return bool(user and user.team in ("", team) and not user.guest and not user.external)


def name_with_id(name: str, user_id: str) -> str:
    """The name with the id, which tools know users by and which is unique."""
    return f"{name} ({user_id})" if name and user_id not in ("", name) else name or user_id


@dataclass(frozen=True)
class UserProfile:
    """A user as the database keeps them. What is not known is empty.

    `platform_id` is the user's id in the company's own systems. `fetched_at` is when Slack was asked, in seconds since
    1970.
    """

    user_id: str
    email: str
    display_name: str
    platform_id: str
    fetched_at: float


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
