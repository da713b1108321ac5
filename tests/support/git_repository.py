"""A git repository of a test."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"} | {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "Dev"), ("EMAIL", "dev@example.com"))
}


@dataclass(frozen=True)
class GitRepository:
    path: Path

    def git(self, *arguments: str) -> str:
        """Run git in this repository, and return its output."""
        return subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env=_ENVIRONMENT,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    @property
    def head(self) -> str:
        return self.git("rev-parse", "HEAD")

    def commit(self, files: Mapping[str, str] | None = None) -> str:
        """Commit these files and all other changes; returns the new commit."""
        for name, text in (files or {}).items():
            (self.path / name).parent.mkdir(parents=True, exist_ok=True)
            (self.path / name).write_text(text)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "more")
        return self.head

    def push(self, branch: str = "main") -> None:
        self.git("push", "-q", "origin", f"HEAD:{branch}")
