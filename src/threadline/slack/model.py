"""The terms that Slack defines: threads, files and users."""

import math
from dataclasses import dataclass
from enum import StrEnum

MAX_TEXT = 40_000
"""Characters of one message that are kept: Slack itself cuts there."""
BOT_NAME = "Threadline"
"""The bot's name where Slack does not provide it."""
ACCESS_FAULT = "slack_access"
CHANNEL_FAULT = "slack_channel"
"""Kinds of installation faults: Slack refuses the app as a whole, or refuses it one channel, which
is the fault's subject.
"""
ACCESS = "token"
"""The subject of an access fault; a missing scope is its own subject."""
MAX_NAME = 200
"""Maximum characters of an id or a timestamp, three times the length of Slack's. A message with a
longer one is quarantined: a workflow remembers 500 ids and passes them to its next run, whose
input must stay below 2 MiB.
"""


MAX_PREVIEW = 600
"""Characters of a file's preview that are kept."""


def clean_text(text: str) -> str:
    """Make text storable: no NUL (Postgres refuses it), no lone surrogate (JSON refuses it), at
    most `MAX_TEXT` long.
    """
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")[:MAX_TEXT]


@dataclass(frozen=True)
class Thread:
    """A Slack thread: `ts` is the timestamp of its root message."""

    team: str
    channel: str
    ts: str

    @property
    def key(self) -> str:
        return f"{self.team}:{self.channel}:{self.ts}"


def permalink(workspace: str, thread: Thread) -> str:
    """Return the permalink of a thread's root.

    See the example at https://docs.slack.dev/reference/methods/chat.getPermalink.

    Args:
        workspace: The workspace's address, such as `https://example.slack.com/`.
        thread: The thread.
    """
    return f"{workspace.rstrip('/')}/archives/{thread.channel}/p{thread.ts.replace('.', '')}"


@dataclass(frozen=True)
class FileRef:
    """A reference to a file that was attached in Slack; the content is fetched separately.
    `preview`: the beginning of a text file, as Slack shows it with the message.
    """

    id: str
    name: str = ""
    mimetype: str = ""
    size: int = 0
    preview: str = ""


@dataclass(frozen=True)
class User:
    """A user as Slack describes them (https://docs.slack.dev/reference/objects/user-object).

    - `team`: their workspace; in an Enterprise Grid they may also belong to `other_teams`;
    - `external`: Slack shows us no channel that we share with them;
    - `name`: their display name, any text or none;
    - `time_zone`: as they have set it, such as `Europe/Berlin`;
    - `email`: empty without the scope `users:read.email`.
    """

    team: str = ""
    guest: bool = False
    external: bool = False
    name: str = ""
    time_zone: str = ""
    bot: bool = False
    email: str = ""
    deactivated: bool = False
    other_teams: frozenset[str] = frozenset()


class AuthorRefusal(StrEnum):
    """The reason why a person's messages, reactions and presses do not count. In channels that are
    open to all, only bots are refused.
    """

    OTHER_COMPANY = "other_company"
    """A member of another company in a channel shared by Slack Connect, who counts as neither
    reporter nor developer.
    """
    STRANGER = "stranger"
    """A user whom Slack does not show to the workspace."""
    GUEST = "guest"
    BOT = "bot_message"
    """An app, which counts nowhere unless it is on the allowed list."""


def refusal_of(user: User | None, team: str) -> AuthorRefusal | None:
    """Return why the user is no full member of the team's workspace; None for a full member.

    Events and history do not always name the author's workspace; the user's record does. A record
    without a workspace proves nothing.

    Args:
        user: as `users.info` describes them; None where Slack shows us no such user.
        team: our workspace.
    """
    if user is None or user.external or not (user.team or user.other_teams):
        return AuthorRefusal.STRANGER
    if team != user.team and team not in user.other_teams:
        return AuthorRefusal.OTHER_COMPANY
    return AuthorRefusal.GUEST if user.guest else None


def seconds_of(ts: str) -> float | None:
    """Return a message's timestamp in seconds since 1970; None for a text that is none."""
    try:
        at = float(ts)
    except ValueError:
        return None
    return at if math.isfinite(at) else None


def is_app_id(sender_id: str) -> bool:
    """Return whether a sender is an app: its id is that of a bot (`B…`) or an app (`A…`); ids of
    users start with `U` or `W`.
    """
    return sender_id[:1] in ("A", "B")


def name_with_id(name: str, user_id: str) -> str:
    """Return the name with the user id, which is unique and which tools expect."""
    return f"{name} ({user_id})" if name and user_id not in ("", name) else name or user_id


@dataclass(frozen=True)
class UserProfile:
    """A user as the database stores them; unknown fields are empty. `platform_id` is the user's id
    in the company's own systems. `fetched_at` is the time of the query to Slack, in seconds since
    1970.
    """

    user_id: str
    email: str
    display_name: str
    platform_id: str
    fetched_at: float
