"""`threadline demo`, run by somebody who has just cloned the repository."""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadline_devstack.stories.player import stories

pytestmark = [pytest.mark.journey, pytest.mark.timeout(180)]


@pytest.fixture
def scratch() -> Iterator[Path]:
    """Outside pytest's folder, which other accounts may not enter: as root, Postgres runs as the
    account `nobody`.
    """
    folder = Path(tempfile.mkdtemp(prefix="threadline-test-"))
    yield folder
    shutil.rmtree(folder)


def demo(scratch: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    given = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "TMPDIR": str(scratch),
        "COLUMNS": "200",
    }
    command = [sys.executable, "-m", "threadline", "demo"]
    return subprocess.run(
        command,
        env=given | environment,
        cwd=scratch,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.alone
def test_the_demo_sees_every_step_happen_retells_them_and_leaves_nothing(scratch: Path) -> None:
    started = time.monotonic()
    done = demo(scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 90, "a newcomer was promised to see it in less"
    chapters = [chapter for story in stories() for chapter in story.chapters]
    assert done.stdout.count("observed") == len(chapters)
    assert "replies are scripted" in done.stdout
    for table in (
        "The case's transitions",
        "The conversation as stored",
        "The agent's turns",
        "/workflows/bug:",
    ):
        assert table in done.stdout
    assert list(scratch.iterdir()) == []


def test_a_demo_that_cannot_be_played_says_why_and_where_the_logs_are(scratch: Path) -> None:
    done = demo(scratch, PATH=str(scratch))
    assert done.returncode == 1
    assert "needs git" in done.stdout
    [folder] = scratch.iterdir()
    assert f"The logs are in {folder / 'logs'}" in done.stdout
