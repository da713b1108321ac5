"""Where commands find the product: in the environment, or else in the stack that `threadline up` runs."""

import os
from pathlib import Path

import typer

from threadline_devstack.state_folder import StateFolder

_PLACES = frozenset(
    {
        *("DATABASE_URL", "THREADLINE_AGENT_DATABASE_URL", "THREADLINE_PAYLOAD_KEYS"),
        *("SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_API_URL"),
        *("TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_API_KEY", "TEMPORAL_TLS"),
    }
)
"""What says where a system is, or logs in there."""


def stack_home() -> StateFolder:
    return StateFolder(Path(os.environ.get("THREADLINE_HOME") or ".threadline"))


def use_running_stack() -> None:
    """Take over the settings of the stack that runs in THREADLINE_HOME, unless the environment names another system.

    All of its addresses and logins, or none: a mix would read people from one Slack and write them into the database
    of another.
    """
    home = stack_home()
    published = home.read_settings()
    given = {name: value for name, value in os.environ.items() if value and name in _PLACES}
    other = [name for name, value in given.items() if value != published.get(name)]
    if published and other:
        typer.echo(f"The stack in {home.root} is not used, since {', '.join(sorted(other))} is set here.", err=True)
        return
    for name, value in published.items():
        if not os.environ.get(name):
            os.environ[name] = value
