"""Who asks: a user of Slack, and who that is elsewhere."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Actor:
    """What is not known is empty. `fetched_at`: seconds since 1970, when Slack was asked.

    `platform_id` is who the person is to the company's own systems.
    """

    user_id: str
    email: str
    display_name: str
    platform_id: str
    fetched_at: float
