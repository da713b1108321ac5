"""Who somebody is to the workspace: one of its own, or external."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    """What Slack says of a user (https://docs.slack.dev/reference/objects/user-object).

    `team` is where they belong, `name` what they are called there: any text, or none.
    """

    team: str = ""
    guest: bool = False
    stranger: bool = False
    name: str = ""
    bot: bool = False
