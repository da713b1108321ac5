"""Who somebody is: to the workspace, one of its own or external; to those who read of them, a name with an id."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    """What Slack says of a user (https://docs.slack.dev/reference/objects/user-object).

    `team` is where they belong, `name` what they are called there: any text, or none.
    `gone`: their account was deactivated.
    `time_zone` is as they have set it, such as `Europe/Berlin`. `email` is empty without the scope `users:read.email`.
    """

    team: str = ""
    guest: bool = False
    stranger: bool = False
    name: str = ""
    time_zone: str = ""
    bot: bool = False
    email: str = ""
    gone: bool = False


def belongs(team: str, person: Person | None) -> bool:
    """Whether somebody is a full member of the team's workspace; whom nobody knows is not."""
    return bool(person and person.team in ("", team) and not person.guest and not person.stranger)


def labelled(name: str, user_id: str) -> str:
    """Somebody with the id that tools know them by, and that nobody else has."""
    return f"{name} ({user_id})" if name and user_id not in ("", name) else name or user_id
