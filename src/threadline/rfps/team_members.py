"""The people who answer requests for proposals: who they are, what they can, and how much time they have."""

from dataclasses import dataclass

from threadline.errors import Permanent


@dataclass(frozen=True)
class TeamMember:
    """`user_id`: in Slack; `capacity`: hours a week that are there for proposals."""

    user_id: str
    name: str
    email: str = ""
    role: str = ""
    biography: str = ""
    skills: tuple[str, ...] = ()
    capacity: int = 0


class MemberNotFound(Permanent):
    """The team has nobody of this name or id."""


class MemberRefused(Permanent):
    """Somebody without an id or a name, or with a week of more than its hours."""
