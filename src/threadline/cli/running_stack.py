"""Where commands that look into a running house find it: the environment, and else the stack that `up` started."""

import os
from pathlib import Path

from threadline_devstack.state_folder import StateFolder


def home() -> StateFolder:
    return StateFolder(Path(os.environ.get("THREADLINE_HOME") or ".threadline"))


def adopt_running_stack() -> None:
    """Take over the settings of the stack that runs in THREADLINE_HOME, unless a database is named."""
    if not os.environ.get("DATABASE_URL"):
        for name, value in home().published().items():
            os.environ.setdefault(name, value)
