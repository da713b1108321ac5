"""A subcommand of `threadline`, run as a person runs it, with nothing in its environment but the database."""

import os
import subprocess
import sys
from pathlib import Path

MACHINE = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}


class Command:
    """Runs in `folder`, for the team T1."""

    def __init__(self, name: str, url: str, folder: Path) -> None:
        self._name, self._url, self.folder = name, url, folder

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "threadline", self._name, *arguments, "--team", "T1"],
            env=MACHINE | {"DATABASE_URL": self._url},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
