"""From "please fix it" to a pull request on a real repository: permission, refusals, and the ends
of a fix.
"""

from typing import Any

import pytest

from tests.support.case_scene import CaseScene, StartCase, outcome
from tests.support.git_repository import GitRepository
from tests.support.temporal import skipping_time
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, CaseLimits
from threadline.cases.posts import LiveCasePostActivities
from threadline.cases.store.case import CaseStore
from threadline.forge.model import PullRequest
from threadline.investigator.store import TurnClaim, TurnOutcome
from threadline.threads.model import MessageKind
from threadline_devstack.slack.identity import SUMMARIES

POST = Action.POST_FINDINGS
RESOLVE = Action.RESOLVED


def _fix(
    repository: GitRepository, path: str = "shop/fixed.py", action: Action = POST
) -> TurnOutcome:
    diff = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ "
        "-0,0 +1 @@\n+fixed\n"
    )
    return outcome(
        action, "fixed it", diffs={"shop": diff}, base={"shop": repository.head}, has_fix=True
    )


def _repositories(repository: GitRepository) -> dict[str, str]:
    return {"shop": str(repository.path)}


async def _pull_request(scene: CaseScene) -> PullRequest | None:
    async with scene.database.begin() as tx:
        return await CaseStore(tx).pull_request("BUG-1")


async def _asked_for_a_fix(scene: CaseScene) -> None:
    await scene.report()
    await scene.until_status("pending_verification")
    await scene.developer("please fix it")
    await scene.until_status("pending_verification", "investigating", "pending_verification")


@pytest.mark.records("fix_proposed")
async def test_developers_request_becomes_a_pull_request(
    start_case: StartCase, repository: GitRepository
) -> None:
    script = [outcome(POST), _fix(repository, action=RESOLVE), outcome(RESOLVE)]
    async with start_case(*script, repositories=_repositories(repository)) as scene:
        await _asked_for_a_fix(scene)
        assert (await scene.transitions())[-1].reason == "fix_proposed", (
            "the bot does not judge its own fix"
        )
        assert repository.git("show", "threadline/bug-1:shop/fixed.py") == "fixed"
        subject = repository.git("log", "-1", "--format=%s", "threadline/bug-1")
        assert subject.count("BUG-1: ") == 1, subject
        await scene.until_said("threadline/bug-1", SUMMARIES)
        await scene.until_said("I have proposed a fix")
        await scene.developer("that is good")
        await scene.until_status("investigating", "resolved")
        await scene.until_said("A fix was proposed at", SUMMARIES)


async def test_refused_post_of_a_fix_is_sent_once_slack_accepts_it(
    start_case: StartCase, repository: GitRepository
) -> None:
    script = [outcome(POST), _fix(repository)]
    async with start_case(
        *script, repositories=_repositories(repository), server=skipping_time
    ) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        posted = LiveCasePostActivities.post_pull_request

        async def refuses(self: LiveCasePostActivities, *args: Any) -> None:
            scene.slack.faults.denied = "invalid_auth"
            try:
                await posted(self, *args)
            finally:
                scene.slack.faults.denied = ""

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(LiveCasePostActivities, "post_pull_request", refuses)
            await scene.developer("please fix it")

            async def proposed() -> bool:
                return await _pull_request(scene) is not None

            await scene.until(proposed, "the fix is proposed")
            await scene.until_quiet()
            assert (await scene.statuses())[-1] == "investigating"
        await scene.later(minutes=6)
        await scene.until_status("pending_verification", "investigating", "pending_verification")
        assert scene.times_said("A fix for **BUG-1** is proposed", SUMMARIES) == 1
        assert sum("I have proposed a fix" in said for said in scene.said()) == 1
        assert (await scene.transitions())[-1].reason == "fix_proposed"


async def test_reporters_request_without_a_developer_causes_no_fix(
    start_case: StartCase, repository: GitRepository
) -> None:
    permitted: list[bool] = []

    async def try_to_fix(_: TurnRequest, claim: TurnClaim) -> TurnOutcome:
        permitted.append(claim.may_fix)
        return _fix(repository)

    async with start_case(try_to_fix, try_to_fix, repositories=_repositories(repository)) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.reporter("please fix it and open a PR")
        await scene.until_status("pending_verification", "investigating", "pending_verification")
        assert permitted == [False, False]
        assert await _pull_request(scene) is None
        assert repository.git("branch", "--list", "threadline/*") == ""


async def test_reporters_confirmation_second_fix_and_close_leave_the_fix_open(
    start_case: StartCase, repository: GitRepository
) -> None:
    script = [outcome(POST), _fix(repository), outcome(RESOLVE), _fix(repository, "shop/again.py")]
    async with start_case(*script, repositories=_repositories(repository)) as scene:
        await _asked_for_a_fix(scene)
        await scene.reporter("yes yes, it works")
        await scene.until_status(*["investigating", "pending_verification"] * 3)
        await scene.developer("also add the other file, please fix that too")
        await scene.until_status(*["investigating", "pending_verification"] * 4)
        assert repository.git("show", "threadline/bug-1:shop/again.py") == "fixed"
        assert repository.git("branch", "--list", "threadline/*") == "threadline/bug-1"
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"
        assert any(
            "A fix was proposed at" in said and "threadline/bug-1" in said
            for said in scene.said(SUMMARIES)
        )
        assert scene.times_said("A fix was proposed")


@pytest.mark.records("fix_refused")
async def test_fix_to_the_ci_configuration_is_refused(
    start_case: StartCase, repository: GitRepository
) -> None:
    script = [outcome(POST), _fix(repository, ".github/workflows/x.yml")]
    async with start_case(*script, repositories=_repositories(repository)) as scene:
        await _asked_for_a_fix(scene)
        await scene.until_said("I could not open a pull request", SUMMARIES)
        assert await _pull_request(scene) is None


@pytest.mark.records("fix_merged")
async def test_merge_resolves_the_case(start_case: StartCase, repository: GitRepository) -> None:
    await _merge(start_case, repository, CaseLimits(pull_request_poll=1800), minutes=31)


async def test_unseen_merge_is_found_before_silence_resolves_the_case(
    start_case: StartCase, repository: GitRepository
) -> None:
    await _merge(
        start_case,
        repository,
        CaseLimits(developer_timeout=3600, pull_request_poll=86_400),
        minutes=120,
    )


async def _merge(
    start_case: StartCase, repository: GitRepository, limits: CaseLimits, minutes: int
) -> None:
    async with start_case(
        outcome(POST),
        _fix(repository),
        repositories=_repositories(repository),
        limits=limits,
        server=skipping_time,
    ) as scene:
        await _asked_for_a_fix(scene)
        repository.git("update-ref", "refs/heads/main", "threadline/bug-1")
        await scene.later(minutes=minutes)
        await scene.until_status("pending_verification", "resolved")
        assert (await scene.case()).close_reason == "fix_merged"
        await scene.until_said("its fix was merged")
