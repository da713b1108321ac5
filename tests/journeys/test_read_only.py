"""The whole product on a read-only machine with one writable folder, as in deploy/compose.yaml."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from threadline_devstack.stories.player import stories

pytestmark = [
    pytest.mark.journey,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(180),
]

# A mount namespace of its own, with everything read-only but `$1`.
_CONFINED = (
    'set -e; mount --bind "$1" "$1"; mount -o remount,bind,ro /; mount -o remount,bind,rw "$1"; '
    'cd "$1"; shift; '
)


def confined(folder: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", _CONFINED + script, "sh", str(folder), *words],
        env={
            "PATH": os.environ["PATH"],
            "TMPDIR": str(folder),
            "HOME": "/nonexistent",
            "COLUMNS": "200",
        },
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def can_confine() -> bool:
    """Whether this account may have a mount namespace: on Linux root may, except in stricter
    containers.
    """
    if not (sys.platform == "linux" and shutil.which("unshare")):
        return False
    with tempfile.TemporaryDirectory() as folder:
        return confined(Path(folder), "true").returncode == 0


@pytest.fixture
def folder() -> Iterator[Path]:
    """Outside pytest's folder, which other accounts may not enter: as root, Postgres runs as the
    account `nobody`.
    """
    folder = Path(tempfile.mkdtemp(prefix="threadline-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.mark.skipif(
    not can_confine(), reason="needs Linux, and the right to make a mount namespace"
)
async def test_the_story_plays_where_only_one_folder_can_be_written_to(folder: Path) -> None:
    """Takes minutes, in which the sandboxes of the other journeys must answer: else their gateway
    has no Slack.
    """
    elsewhere = folder.with_name(f"{folder.name}-elsewhere")
    refused = confined(folder, 'echo > inside; echo > "$1"', str(elsewhere))
    assert refused.returncode != 0
    assert "Read-only file system" in refused.stderr
    assert (folder / "inside").exists()
    demo = (sys.executable, "-m", "threadline", "demo")
    done = await asyncio.to_thread(confined, folder, 'exec "$@"', *demo)
    assert done.returncode == 0, done.stdout + done.stderr
    chapters = [chapter for story in stories() for chapter in story.chapters]
    assert done.stdout.count("observed") == len(chapters)
