"""Whether a fix mends what it should: the sample repository's own test fails before it and passes with it."""

import asyncio
import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from threadline.errors import Permanent
from threadline_devstack.sample_repository import BRANCH, PLANTED_BUGS


@dataclass(frozen=True)
class FixCheck:
    """`output` is what the test printed on the fix's branch; `diff` what the branch changes."""

    test: str
    failed_before: bool
    passes_now: bool
    output: str
    diff: str

    @property
    def holds(self) -> bool:
        return self.failed_before and self.passes_now


async def check_fix(repository: Path, branch: str, file: str) -> FixCheck:
    """Run the test of the bug that is planted in `file` on the default branch and on `branch`."""
    test = PLANTED_BUGS[file]
    with tempfile.TemporaryDirectory(prefix="threadline-proof-") as scratch:
        tree = Path(scratch) / "tree"
        await _run(_git(), "clone", "--quiet", "--branch", BRANCH, str(repository), str(tree))
        before, _ = await _run(sys.executable, "-B", "-m", "unittest", test, folder=tree)
        await _run(_git(), "checkout", "--quiet", f"origin/{branch}", folder=tree)
        after, output = await _run(sys.executable, "-B", "-m", "unittest", test, folder=tree)
        _, diff = await _run(_git(), "diff", f"origin/{BRANCH}", f"origin/{branch}", folder=tree)
    return FixCheck(test, failed_before=before != 0, passes_now=after == 0, output=output, diff=diff)


def _git() -> str:
    found = shutil.which("git")
    if found is None:
        raise Permanent("The fix cannot be tried without git: install it and start again.")
    return found


async def _run(*arguments: str, folder: Path | None = None) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=folder,
        env={"PATH": str(Path(_git()).parent) + os.pathsep + os.defpath, "GIT_CONFIG_GLOBAL": os.devnull},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")
