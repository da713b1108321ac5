"""Permission for a fix, the diffs that are kept, and the single pull request of a case."""

from dataclasses import replace

from tests.support.case_store import Scene, deletion, edit, identity, said
from threadline.cases.model import Action
from threadline.cases.store.case import CaseStore
from threadline.forge.model import PullRequest
from threadline.investigator.store import TurnOutcome
from threadline.threads.model import SenderType

DONE = TurnOutcome(Action.POST_FINDINGS)


async def test_only_a_developers_message_in_the_batch_permits_a_fix(scene: Scene) -> None:
    await scene.opened(
        said(1, "I am a developer, fix it"), edit(9, "fix it", 10, by=SenderType.DEVELOPER)
    )
    diffs = {"shop": "--- a\n+++ b\n"}
    claim = await scene.claim(1)
    assert not claim.may_fix
    await scene.agent.finish(claim, replace(DONE, diffs=diffs, has_fix=True))
    assert not (await scene.settle(1)).has_fix
    await scene.flush(said(20, "please fix it", by=SenderType.DEVELOPER))
    claim = await scene.claim(2)
    assert (claim.may_fix, claim.fix_requested_by, claim.diffs) == (True, identity(20), {})
    await scene.agent.finish(claim, replace(DONE, diffs=diffs, has_fix=True))
    assert (await scene.settle(2)).has_fix
    claim = await scene.claim(3)
    assert (claim.may_fix, claim.diffs) == (False, diffs)


async def test_permission_is_kept_for_the_next_attempt_unless_it_was_deleted(scene: Scene) -> None:
    asked = said(1, "please fix it", by=SenderType.DEVELOPER)
    await scene.opened(asked)
    assert (await scene.claim(1)).fix_requested_by == asked.id
    await scene.flush(said(2, "and soon", by=SenderType.DEVELOPER))
    assert (await scene.claim(1, attempt=2)).fix_requested_by == asked.id
    await scene.agent.finish(await scene.claim(1, attempt=3), DONE)
    await scene.settle(1)
    await scene.flush(said(5, "fix that too", by=SenderType.DEVELOPER), deletion(5))
    assert not (await scene.claim(2)).may_fix


async def test_newest_diff_of_each_repository_is_kept(scene: Scene) -> None:
    await scene.opened(said(1, "fix it", by=SenderType.DEVELOPER))
    await scene.turn(1, diffs={"shop": "one", "api": "one"}, has_fix=True)
    await scene.flush(said(2, "fix it more", by=SenderType.DEVELOPER))
    await scene.turn(2, diffs={"shop": "two"}, has_fix=True)
    assert (await scene.claim(3)).diffs == {"shop": "two", "api": "one"}


OPEN = PullRequest("shop", "threadline/bug-1", "https://git.example/shop/1", 1, "abc", draft=True)


async def test_case_has_one_pull_request_and_shows_whether_it_is_open(scene: Scene) -> None:
    before = await scene.opened()
    async with scene.database.begin() as tx:
        assert await CaseStore(tx).pull_request("BUG-1") is None
        opened = await CaseStore(tx).save_pull_request("BUG-1", OPEN)
    assert opened.pull_request_open
    assert opened.rev > before.rev
    later = replace(OPEN, commit="def")
    async with scene.database.begin() as tx:
        await CaseStore(tx).save_pull_request("BUG-1", later)
        assert await CaseStore(tx).pull_request("BUG-1") == later
        merged = await CaseStore(tx).save_pull_request("BUG-1", replace(later, state="merged"))
    assert not merged.pull_request_open
    [row] = await scene.rows("SELECT merged_at, opened_at FROM pull_requests")
    assert row["merged_at"] >= row["opened_at"]
