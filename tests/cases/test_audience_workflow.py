"""Nothing that is marked internal crosses to the reports channel, whatever way a case goes."""

import subprocess
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from tests.support.case_scene import House, house, outcome
from tests.support.temporal import skipping_time
from threadline.cases.model import Action
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.investigator.store import TurnOutcome
from threadline.threads import messages
from threadline_devstack.sample_repository import make_sample_repository
from threadline_devstack.slack.identity import BOT_USER, ESCALATIONS, REPORTER, REPORTS, SUMMARIES

ASK, POST, ESCALATE, RESOLVE = Action.ASK_REPORTER, Action.POST_FINDINGS, Action.ESCALATE, Action.RESOLVED

CANARY = "canary"
INTERNAL: dict[str, Any] = {
    "title": "canary-title",
    "root_cause": "canary-cause is why the cart adds list prices",
    "evidence": [{"file": "shop/canary_file.py", "line": 3, "note": "canary-note"}],
    "recommended_actions": ["canary-action"],
    "affected_components": ["canary-component"],
}
TOLD = "Your discount was left out; it is being mended."
PATCH = "diff --git a/{0} b/{0}\nnew file mode 100644\n--- /dev/null\n+++ b/{0}\n@@ -0,0 +1 @@\n+fixed\n"


def marked(action: Action, told: str = TOLD, **more: Any) -> TurnOutcome:
    """An outcome all of whose internal fields hold a canary."""
    return outcome(action, "canary-summary", for_reporter=told, **{**INTERNAL, **more})


def fix(path: str = "shop/canary_fix.py") -> dict[str, Any]:
    return {"diffs": {"canary-shop": PATCH.format(path)}, "base": {"canary-shop": "0" * 40}, "has_fix": True}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "canary-shop.git"
    make_sample_repository(path)
    return path


@pytest.fixture
def head(repository: Path) -> str:
    command = ["git", "-C", str(repository), "rev-parse", "main"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


async def asks(home: House) -> None:
    await home.until_status("awaiting_reporter")
    await home.until_said("Which browser?")
    await home.later(hours=2, minutes=1)
    await home.until_said("I have no answer to my question")
    await home.until_status("investigating", "pending_verification")
    await home.until_said(TOLD)
    await home.later(hours=49)
    await home.until_said("nobody has answered")


async def proposes_a_fix_that_is_refused(home: House) -> None:
    await home.until_status("pending_verification")
    await home.developer("canary-developer: please fix it")
    await home.until_said("No pull request was opened", SUMMARIES)
    await home.reporter("never mind", messages.CLOSE)
    await home.until_said("closed, as its reporter asked")


async def escalates_and_is_resolved(home: House) -> None:
    await home.until_status("escalated")
    await home.until_said(f"is now with people. {TOLD}")
    await home.until_said("canary-summary", ESCALATIONS)
    await home.developer("canary-developer: that was it")
    assert await home.result() == "resolved"
    await home.until_said("is resolved")


async def fails(home: House) -> None:
    await home.until_status("escalated")
    await home.until_said("is now with people. They have been called")
    await home.until_said("canary-failure", ESCALATIONS)


async def calls_nobody(home: House) -> None:
    await home.until_status("escalated")
    await home.until_said("could not call anyone. Please tell")
    await home.until_said("could not call anyone:", SUMMARIES)


async def cannot_post(home: House) -> None:
    await home.until_status("pending_verification")
    await home.until_said("could not be posted in the developers' channel. They are saved")


Way = Callable[[House], Coroutine[Any, Any, None]]
WAYS: list[tuple[Way, list[TurnOutcome | Exception]]] = [
    (asks, [marked(ASK), marked(POST)]),
    (proposes_a_fix_that_is_refused, [marked(POST), marked(POST, **fix())]),
    (escalates_and_is_resolved, [marked(ESCALATE), marked(RESOLVE)]),
    (fails, [Permanent("canary-failure: THREADLINE_REPO names no repository")]),
    (calls_nobody, [marked(ESCALATE)]),
    (cannot_post, [marked(POST)]),
]
AWAY: dict[Way, str] = {calls_nobody: ESCALATIONS, cannot_post: SUMMARIES}


@pytest.mark.parametrize(("way", "script"), WAYS, ids=[way.__name__ for way, _ in WAYS])
async def test_nothing_internal_is_said_in_the_reports_channel(
    database: Database,
    pool: asyncpg.Pool,
    way: Way,
    script: list[TurnOutcome | Exception],
) -> None:
    async with house(database, pool, *script, server=skipping_time) as home:
        if way in AWAY:
            home.slack.workspace.leave(AWAY[way], BOT_USER)
        await home.report()
        await way(home)
        said = home.said(REPORTS)
        assert said
        assert not [post for post in said if CANARY in post.lower()]
        if AWAY.get(way) != SUMMARIES:  # the control: the same canaries are where developers read
            assert any(CANARY in post for post in home.said(SUMMARIES) + home.said(ESCALATIONS))


async def test_the_address_of_a_fix_is_for_developers(
    database: Database, pool: asyncpg.Pool, repository: Path, head: str
) -> None:
    script = [marked(POST), marked(POST, **{**fix(), "base": {"canary-shop": head}})]
    async with house(database, pool, *script, repositories={"canary-shop": str(repository)}) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.developer("please fix it")
        await home.until_said("I have proposed a fix", REPORTS)
        await home.reporter("never mind", messages.CLOSE)
        assert await home.result() == "resolved"
        await home.until_said("A fix was proposed; it is left as it is.", REPORTS)
        await home.until_said("canary-shop", SUMMARIES)
        assert not [post for post in home.said(REPORTS) if CANARY in post]


@pytest.mark.parametrize(
    ("action", "neutral"), [(ESCALATE, "They have been called"), (RESOLVE, "is resolved"), (POST, "this is **BUG-1**")]
)
async def test_a_result_from_before_there_were_two_audiences_is_told_in_neutral_words(
    database: Database, pool: asyncpg.Pool, action: Action, neutral: str
) -> None:
    async with house(database, pool, outcome(action, "canary-summary", **INTERNAL)) as home:
        await home.report()
        end = {ESCALATE: "escalated", RESOLVE: "resolved", POST: "pending_verification"}[action]
        await home.until_status("investigating", end)
        await home.until_said(neutral)
        await home.until_said("canary-summary", SUMMARIES)
        assert not [post for post in home.said(REPORTS) if CANARY in post]


async def test_words_for_the_reporter_that_repeat_something_internal_are_not_shown(
    database: Database, pool: asyncpg.Pool
) -> None:
    leaking = "As we see it, canary-cause is why the cart adds list prices."
    async with house(database, pool, marked(POST, leaking), marked(RESOLVE, "See canary_file.py.")) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.developer("that was it")
        assert await home.result() == "resolved"
        await home.until_said("is resolved")
        assert not [post for post in home.said(REPORTS) if CANARY in post]


async def test_what_the_reporter_has_named_themselves_may_be_told_to_them(
    database: Database, pool: asyncpg.Pool
) -> None:
    told = ["Line 3 of orders.csv and canary_file.py are fine.", "It was canary_file.py indeed."]
    cited = [{"file": "orders.csv", "line": 3, "note": ""}, {"file": "shop/canary_file.py", "line": 3, "note": ""}]
    script = [marked(action, words, evidence=cited) for action, words in zip((POST, RESOLVE), told, strict=True)]
    async with house(database, pool, *script) as home:
        files = (messages.FileRef("F1", "orders.csv", "text/csv", 3),)
        said = home.message(messages.REPORT, messages.REPORTER, REPORTER, "canary_file.py fails", home.thread.ts)
        await home.send(replace(said, files=files))
        await home.until_said(told[0])
        await home.until_status("pending_verification")
        await home.developer("that was it")
        assert await home.result() == "resolved"
        await home.until_said(told[1])
