"""From "please fix it" to a pull request, on a real repository: who may ask, what is refused, and how it ends."""

import subprocess
from pathlib import Path

import asyncpg
import pytest

from tests.support.case_scene import House, house, outcome
from tests.support.temporal import skipping_time
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, Limits
from threadline.cases.pull_request_rows import PullRequestRecord
from threadline.db.engine import Database
from threadline.investigator.store import Claim, TurnOutcome
from threadline.threads import messages
from threadline_devstack.sample_repository import make_sample_repository
from threadline_devstack.slack.identity import REPORTS, SUMMARIES

SHOP = "sample-shop"


def _adding(path: str) -> str:
    return f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+fixed\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / f"{SHOP}.git"
    make_sample_repository(path)
    return path


def _git(repository: Path, *arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(repository), *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _fixing(repository: Path, path: str = "shop/fixed.py", action: Action = Action.POST_FINDINGS) -> TurnOutcome:
    base = {SHOP: _git(repository, "rev-parse", "main")}
    return outcome(action, "fixed it", diffs={SHOP: _adding(path)}, base=base, has_fix=True)


async def _pull_request(home: House) -> PullRequestRecord | None:
    async with home.database.begin() as work:
        return await work.pull_requests.of("BUG-1")


async def _asked_for_a_fix(home: House) -> None:
    await home.report()
    await home.until_status("pending_verification")
    await home.developer("please fix it")
    await home.until_status("pending_verification", "investigating", "pending_verification")


@pytest.mark.records("fix_proposed")
async def test_a_developers_request_becomes_a_pull_request_and_their_word_resolves_it(
    database: Database, pool: asyncpg.Pool, repository: Path
) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository, action=Action.RESOLVED), outcome(Action.RESOLVED)]
    async with house(database, pool, *script, repositories={SHOP: str(repository)}) as home:
        await _asked_for_a_fix(home)
        assert (await home.transitions())[-1].reason == "fix_proposed", "its author does not judge it"
        assert _git(repository, "show", "threadline/bug-1:shop/fixed.py") == "fixed"
        await home.until_said("threadline/bug-1", SUMMARIES)
        await home.until_said("I have proposed a fix", REPORTS)
        await home.developer("that is good")
        await home.until_status("investigating", "resolved")
        await home.until_said("A fix was proposed at", SUMMARIES)


async def test_a_reporter_alone_never_causes_a_fix(database: Database, pool: asyncpg.Pool, repository: Path) -> None:
    permitted: list[bool] = []

    async def try_to_fix(_: TurnRequest, claim: Claim) -> TurnOutcome:
        permitted.append(claim.may_fix)
        return _fixing(repository)

    async with house(database, pool, try_to_fix, try_to_fix, repositories={SHOP: str(repository)}) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.reporter("please fix it and open a PR")
        await home.until_status("pending_verification", "investigating", "pending_verification")
        assert permitted == [False, False]
        assert await _pull_request(home) is None
        assert "threadline" not in _git(repository, "branch", "--list", "threadline/*")


async def test_an_open_fix_is_not_resolved_by_the_reporters_word(
    database: Database, pool: asyncpg.Pool, repository: Path
) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository), outcome(Action.RESOLVED)]
    async with house(database, pool, *script, repositories={SHOP: str(repository)}) as home:
        await _asked_for_a_fix(home)
        await home.reporter("yes yes, it works")
        await home.until_status(*["investigating", "pending_verification"] * 3)


@pytest.mark.records("fix_refused")
async def test_a_fix_to_the_ci_configuration_is_refused_in_words(
    database: Database, pool: asyncpg.Pool, repository: Path
) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository, ".github/workflows/x.yml")]
    async with house(database, pool, *script, repositories={SHOP: str(repository)}) as home:
        await _asked_for_a_fix(home)
        await home.until_said("No pull request was opened", SUMMARIES)
        assert await _pull_request(home) is None


async def test_a_second_fix_goes_to_the_same_branch(database: Database, pool: asyncpg.Pool, repository: Path) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository), _fixing(repository, "shop/again.py")]
    async with house(database, pool, *script, repositories={SHOP: str(repository)}) as home:
        await _asked_for_a_fix(home)
        await home.developer("also add the other file, please fix that too")
        await home.until_status(*["investigating", "pending_verification"] * 3)
        assert _git(repository, "show", "threadline/bug-1:shop/again.py") == "fixed"
        assert _git(repository, "branch", "--list", "threadline/*") == "threadline/bug-1"


@pytest.mark.records("fix_merged")
async def test_a_merge_resolves_the_case(database: Database, pool: asyncpg.Pool, repository: Path) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository)]
    async with house(
        database,
        pool,
        *script,
        repositories={SHOP: str(repository)},
        limits=Limits(pull_request_poll=1800),
        server=skipping_time,
    ) as home:
        await _asked_for_a_fix(home)
        _git(repository, "update-ref", "refs/heads/main", "threadline/bug-1")
        await home.later(minutes=31)
        await home.until_status("pending_verification", "resolved")
        assert (await home.case()).close_reason == "fix_merged"
        await home.until_said("its fix was merged")


async def test_never_mind_after_the_fix_names_the_pull_request(
    database: Database, pool: asyncpg.Pool, repository: Path
) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository)]
    async with house(database, pool, *script, repositories={SHOP: str(repository)}) as home:
        await _asked_for_a_fix(home)
        await home.reporter("never mind", messages.CLOSE)
        assert await home.result() == "resolved"
        assert any("A fix was proposed at" in said and "threadline/bug-1" in said for said in home.said(SUMMARIES))
        assert any("A fix was proposed; it is left" in said for said in home.said(REPORTS))


async def test_a_fix_that_was_merged_unseen_is_found_before_silence_resolves_the_case(
    database: Database, pool: asyncpg.Pool, repository: Path
) -> None:
    script = [outcome(Action.POST_FINDINGS), _fixing(repository)]
    limits = Limits(developer_timeout=3600, pull_request_poll=86_400)
    async with house(
        database, pool, *script, repositories={SHOP: str(repository)}, limits=limits, server=skipping_time
    ) as home:
        await _asked_for_a_fix(home)
        _git(repository, "update-ref", "refs/heads/main", "threadline/bug-1")
        await home.later(hours=2)
        await home.until_status("pending_verification", "resolved")
        assert (await home.case()).close_reason == "fix_merged"
