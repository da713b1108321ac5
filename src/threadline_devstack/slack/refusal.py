"""The error with which Slack refuses a call, by Slack's own name."""

from typing import Any

from threadline.errors import Permanent


class Refused(Permanent):
    """`error` is Slack's name, such as `channel_not_found`; `details` are more fields of the answer.

    The names are those of each method's page under https://docs.slack.dev/reference/methods.
    """

    def __init__(self, error: str, **details: Any) -> None:
        super().__init__(
            f"Slack would refuse this with {error!r}; see docs.slack.dev/reference/methods for what it wants"
        )
        self.error = error
        self.details = details
