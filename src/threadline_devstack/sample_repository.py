"""The sample repository: a small shop with planted bugs that an agent can find and fix, and the
check of such a fix.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from threadline.errors import Permanent

BRANCH = "main"
PLANTED_BUGS = {
    "shop/cart.py": "tests.test_cart.CartTotal.test_a_discount_code_keeps_the_bulk_price",
    "shop/discounts.py": "tests.test_discounts.Discounts.test_a_code_is_valid_on_its_last_day",
    "shop/shipping.py": (
        "tests.test_shipping.Shipping.test_parcels_of_exactly_fifty_euros_travel_for_free"
    ),
    "shop/invoices.py": "tests.test_invoices.Invoices.test_the_tax_is_rounded_once",
}
"""The file of each planted bug, and the only test of the repository that fails because of it."""

_SOURCE = Path(__file__).with_name("sample_shop")
_SUFFIX = "-tpl"
# The templates' suffix keeps the shop's modules, which are wrong on purpose, away from our own
# linters and test runs.
_HISTORY = (
    (
        "Begin a shop: products and money",
        ("README.md", "shop/__init__.py", "shop/money.py", "shop/catalogue.py"),
    ),
    (
        "Sell: carts, bulk prices and discount codes",
        (
            "shop/discounts.py",
            "shop/cart.py",
            "tests/__init__.py",
            "tests/test_discounts.py",
            "tests/test_cart.py",
        ),
    ),
    ("Send: what a parcel costs", ("shop/shipping.py", "tests/test_shipping.py")),
    ("Get paid: invoices and their tax", ("shop/invoices.py", "tests/test_invoices.py")),
    ("Keep count of the shelves", ("shop/stock.py", "tests/test_stock.py")),
)


def make_sample_repository(path: Path) -> str:
    """Create the bare repository `sample-shop` at `path`, unless it exists already.

    Every machine gets the same commits. An existing repository keeps its pushed commits.

    Returns:
        The commit at the head of the branch `main`.

    Raises:
        Permanent: git is missing or fails, or something else is at `path`.
    """
    path = path.absolute()
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=".sample-shop-") as scratch:
            # Build it in a temporary folder and move it in one step: a half-made repository would
            # be taken for a finished one.
            repository = _build(Path(scratch))
            try:
                repository.rename(path)
            except OSError as exc:
                if not path.exists():  # else another process made the same commits
                    raise Permanent(
                        f"The sample repository cannot be created at {path}: {exc}."
                    ) from exc
    return _git("rev-parse", "--verify", f"refs/heads/{BRANCH}", git_dir=path)


def _build(scratch: Path) -> Path:
    repository = scratch / "repository"
    work_tree = scratch / "tree"
    _git(
        "init",
        "--quiet",
        "--bare",
        "--template=",
        f"--initial-branch={BRANCH}",
        git_dir=repository,
    )
    for day, (subject, files) in enumerate(_HISTORY, start=1):
        for name in files:
            target = work_tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(_SOURCE / f"{name}{_SUFFIX}", target)
        _git("add", "--all", git_dir=repository, work_tree=work_tree)
        _git(
            "commit",
            "--quiet",
            "--message",
            subject,
            git_dir=repository,
            work_tree=work_tree,
            day=day,
        )
    (repository / "index").unlink()
    return repository


def _git(*arguments: str, git_dir: Path, work_tree: Path | None = None, day: int = 1) -> str:
    executable = _git_path()
    environment = {
        "PATH": str(Path(executable).parent) + os.pathsep + os.defpath,
        "LC_ALL": "C",
        # A developer's own settings (signing, hooks, line ends, another first branch) would change
        # the commits.
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_DIR": str(git_dir),
    }
    if work_tree is not None:
        environment["GIT_WORK_TREE"] = str(work_tree)
    for role in ("AUTHOR", "COMMITTER"):
        environment[f"GIT_{role}_NAME"] = "sample-shop"
        environment[f"GIT_{role}_EMAIL"] = "sample@example.invalid"
        environment[f"GIT_{role}_DATE"] = f"2025-03-{day:02d}T09:00:00+00:00"
    done = subprocess.run(
        [executable, *arguments], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Permanent(
            f"git {arguments[0]} failed for the sample repository at {git_dir}: "
            f"{done.stderr.strip()}"
        )
    return done.stdout.strip()


def _git_path() -> str:
    found = shutil.which("git")
    if found is None:
        raise Permanent("The sample repository needs git: install it and start again.")
    return found


@dataclass(frozen=True)
class FixCheck:
    """The result of a check. `output` is the test's output on the fix's branch; `diff` the changes
    of the branch.
    """

    test: str
    failed_before: bool
    passes_now: bool
    output: str
    diff: str

    @property
    def holds(self) -> bool:
        return self.failed_before and self.passes_now


async def check_fix(repository: Path, branch: str, file: str) -> FixCheck:
    """Run the test of the bug that is planted in `file`, on the default branch and on `branch`."""
    test = PLANTED_BUGS[file]
    with tempfile.TemporaryDirectory(prefix="threadline-proof-") as scratch:
        tree = Path(scratch) / "tree"
        await _run(_git_path(), "clone", "--quiet", "--branch", BRANCH, str(repository), str(tree))
        before, _ = await _run(sys.executable, "-B", "-m", "unittest", test, folder=tree)
        await _run(_git_path(), "checkout", "--quiet", f"origin/{branch}", folder=tree)
        after, output = await _run(sys.executable, "-B", "-m", "unittest", test, folder=tree)
        _, diff = await _run(
            _git_path(), "diff", f"origin/{BRANCH}", f"origin/{branch}", folder=tree
        )
    return FixCheck(
        test, failed_before=before != 0, passes_now=after == 0, output=output, diff=diff
    )


async def _run(*arguments: str, folder: Path | None = None) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        *arguments,
        cwd=folder,
        env={
            "PATH": str(Path(_git_path()).parent) + os.pathsep + os.defpath,
            "GIT_CONFIG_GLOBAL": os.devnull,
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode or 0, output.decode(errors="replace")
