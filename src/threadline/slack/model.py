"""What Slack defines: threads, files and users."""

from dataclasses import dataclass
from enum import StrEnum

MAX_TEXT = 40_000
"""Characters of one message that are kept: Slack itself cuts there."""
BOT_NAME = "Threadline"
"""The bot's name where Slack does not say it."""
ACCESS_FAULT = "slack_access"
CHANNEL_FAULT = "slack_channel"
"""Kinds of faults of the installation: Slack refuses the app, or refuses it one channel, which is the subject."""
ACCESS = "token"
"""The subject of an access fault. That of a missing scope is the scope."""
MAX_NAME = 200
"""Characters of an id or a timestamp, three times what Slack's take. A message with a longer one is quarantined. A
workflow remembers 500 ids and hands them to its next run, whose input may not pass 2 MiB."""


def clean_text(text: str) -> str:
    """Make text storable: no NUL (Postgres refuses it), no lone surrogate (JSON does), at most `MAX_TEXT` long."""
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


@dataclass(frozen=True)
class FileRef:
    """A file that was attached in Slack; only the reference travels."""

    id: str
    name: str = ""
    mimetype: str = ""
    size: int = 0


@dataclass(frozen=True)
class User:
    """What Slack says of a user (https://docs.slack.dev/reference/objects/user-object). `team` is their workspace.
    In an Enterprise Grid they may belong to more, which are `other_teams`. `external`: Slack shows us no channel that
    we share with them. `name` is their display name: any text, or none. `time_zone` is as they have
    set it, such as `Europe/Berlin`. `email` is empty without the scope `users:read.email`."""

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
    """Why what somebody writes, reacts or presses does not count. All but bots count in channels that are open to
    all."""

    OTHER_COMPANY = "other_company"
    """In a channel shared by Slack Connect: such people count as neither reporters nor developers."""
    STRANGER = "stranger"
    """Somebody whom Slack does not show to the workspace."""
    GUEST = "guest"
    BOT = "bot_message"
    """An app, which counts nowhere unless it is allowed to speak."""


def refusal_of(user: User | None, team: str) -> AuthorRefusal | None:
    """Why the user is no full member of the team's workspace; None for one who is.

    Events and history do not always name the author's workspace; the user's record does. A record that names none
    proves nothing.

    Args:
        user: as `users.info` describes them; None where Slack shows us no such user.
        team: our workspace.
    """
    if user is None or user.external or not (user.team or user.other_teams):
        return AuthorRefusal.STRANGER
    if team != user.team and team not in user.other_teams:
        return AuthorRefusal.OTHER_COMPANY
    return AuthorRefusal.GUEST if user.guest else None


def is_app_id(sender_id: str) -> bool:
    """Whether a sender is an app: known by the id of its bot (`B…`) or its own (`A…`), as users are by `U…` or `W…`."""
    return sender_id[:1] in ("A", "B")


def name_with_id(name: str, user_id: str) -> str:
    """The name with the id, which tools know users by and which is unique."""
    return f"{name} ({user_id})" if name and user_id not in ("", name) else name or user_id


@dataclass(frozen=True)
class UserProfile:
    """A user as the database keeps them. What is not known is empty. `platform_id` is the user's id in the company's
    own systems. `fetched_at` is when Slack was asked, in seconds since 1970."""

    user_id: str
    email: str
    display_name: str
    platform_id: str
    fetched_at: float
