"""No internal text crosses to the reports channel, whichever path a case takes."""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from tests.support.case_scene import CaseScene, StartCase, outcome
from tests.support.git_repository import GitRepository
from tests.support.temporal import skipping_time
from threadline.cases.model import Action
from threadline.errors import Permanent
from threadline.investigator.store import TurnOutcome
from threadline.slack.model import FileRef
from threadline.threads.model import MessageKind, SenderType
from threadline_devstack.slack.identity import BOT_USER, ESCALATIONS, REPORTER, REPORTS, SUMMARIES

ASK = Action.ASK_REPORTER
POST = Action.POST_FINDINGS
ESCALATE = Action.ESCALATE
RESOLVE = Action.RESOLVED

CANARY = "canary"
INTERNAL: dict[str, Any] = {
    "title": "canary-title",
    "root_cause": "canary-cause is why the cart adds list prices",
    "evidence": [{"file": "shop/canary_file.py", "line": 3, "note": "canary-note"}],
    "recommended_actions": ["canary-action"],
    "affected_components": ["canary-component"],
}
TOLD = "Your discount was left out; it is being mended."


def marked(action: Action, told: str = TOLD, **more: Any) -> TurnOutcome:
    """Return an outcome with a canary in each internal field."""
    return outcome(action, "canary-summary", for_reporter=told, **{**INTERNAL, **more})


def fix(base: str = "0" * 40) -> TurnOutcome:
    path = "shop/canary_fix.py"
    diff = (
        f"diff --git a/{path} b/{path}\nnew file mode 100644\n--- /dev/null\n+++ b/{path}\n@@ "
        "-0,0 +1 @@\n+fixed\n"
    )
    return marked(RESOLVE, diffs={"canary-shop": diff}, base={"canary-shop": base}, has_fix=True)


async def asks(scene: CaseScene) -> None:
    await scene.until_status("awaiting_reporter")
    await scene.until_said("Which browser?")
    await scene.later(hours=2, minutes=1)
    await scene.until_said("I have no answer to my question")
    await scene.until_status("investigating", "pending_verification")
    await scene.until_said(TOLD)
    await scene.later(hours=49)
    await scene.until_said("nobody has answered")


async def proposes_a_fix_that_is_refused(scene: CaseScene) -> None:
    await scene.until_status("pending_verification")
    await scene.developer("canary-developer: please fix it")
    await scene.until_status("pending_verification", "investigating", "pending_verification")
    await scene.until_said("I could not open a pull request", SUMMARIES)
    await scene.reporter("never mind", MessageKind.CLOSE)
    await scene.until_said("closed, as its reporter asked")


async def escalates_and_is_resolved(scene: CaseScene) -> None:
    await scene.until_status("escalated")
    await scene.until_said(f"I have called the people on call. {TOLD}")
    await scene.until_said("canary-summary", ESCALATIONS)
    await scene.developer("canary-developer: that was it")
    assert await scene.result() == "resolved"
    await scene.until_said("is resolved")


async def fails(scene: CaseScene) -> None:
    await scene.until_status("escalated")
    await scene.until_said("I have called the people on call. They aim to look at it within")
    await scene.until_said("canary-failure", ESCALATIONS)


async def calls_nobody(scene: CaseScene) -> None:
    await scene.until_said("could not call anyone. Please tell")
    await scene.until_said("could not call anyone:", SUMMARIES)


async def cannot_post(scene: CaseScene) -> None:
    async def settled() -> bool:
        return bool(await scene.statuses()) and (await scene.case()).turn == 1

    await scene.until(settled, "the turn is settled")
    await scene.until_quiet()
    assert await scene.statuses() == ["new", "investigating"]


Way = Callable[[CaseScene], Coroutine[Any, Any, None]]
WAYS: list[tuple[Way, list[TurnOutcome | Exception]]] = [
    (asks, [marked(ASK), marked(POST)]),
    (proposes_a_fix_that_is_refused, [marked(POST), fix()]),
    (escalates_and_is_resolved, [marked(ESCALATE), marked(RESOLVE)]),
    (fails, [Permanent("canary-failure: THREADLINE_REPO names no repository")]),
    (calls_nobody, [marked(ESCALATE)]),
    (cannot_post, [marked(POST)]),
]
AWAY: dict[Way, str] = {calls_nobody: ESCALATIONS, cannot_post: SUMMARIES}


@pytest.mark.parametrize(("way", "script"), WAYS, ids=[way.__name__ for way, _ in WAYS])
async def test_no_internal_text_appears_in_the_reports_channel(
    start_case: StartCase, way: Way, script: list[TurnOutcome | Exception]
) -> None:
    async with start_case(*script, server=skipping_time) as scene:
        if way in AWAY:
            scene.slack.workspace.leave(AWAY[way], BOT_USER)
        await scene.report()
        await way(scene)
        assert scene.said(REPORTS)
        assert not leaked(scene)
        if AWAY.get(way) != SUMMARIES:  # the control: developers do read the same canaries
            assert scene.times_said(CANARY, SUMMARIES, ESCALATIONS)


def leaked(scene: CaseScene) -> list[str]:
    return [post for post in scene.said(REPORTS) if CANARY in post.lower()]


async def test_address_of_a_fix_is_for_developers(
    start_case: StartCase, repository: GitRepository
) -> None:
    script = [marked(POST), fix(repository.head)]
    async with start_case(*script, repositories={"canary-shop": str(repository.path)}) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.developer("please fix it")
        await scene.until_said("I have proposed a fix")
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"
        await scene.until_said("A fix was proposed")
        await scene.until_said("canary-shop", SUMMARIES)
        assert not leaked(scene)


async def test_words_for_the_reporter_that_repeat_something_internal_are_not_shown(
    start_case: StartCase,
) -> None:
    leaking = "As we see it, canary-cause is why the cart adds list prices."
    async with start_case(marked(POST, leaking), marked(RESOLVE, "See canary_file.py.")) as scene:
        await scene.report()
        await scene.until_said("this is **BUG-1**")
        await scene.until_status("pending_verification")
        await scene.developer("that was it")
        assert await scene.result() == "resolved"
        await scene.until_said("is resolved")
        await scene.until_said("canary-summary", SUMMARIES)
        assert not leaked(scene)


async def test_names_that_the_reporter_used_may_appear_in_replies_to_them(
    start_case: StartCase,
) -> None:
    told = ["Line 3 of orders.csv and canary_file.py are fine.", "It was canary_file.py indeed."]
    cited = [
        {"file": "orders.csv", "line": 3, "note": ""},
        {"file": "shop/canary_file.py", "line": 3, "note": ""},
    ]
    script = [
        marked(action, words, evidence=cited)
        for action, words in zip((POST, RESOLVE), told, strict=True)
    ]
    async with start_case(*script) as scene:
        files = (FileRef("F1", "orders.csv", "text/csv", 3),)
        said = scene.message(
            MessageKind.REPORT,
            SenderType.REPORTER,
            REPORTER,
            "canary_file.py fails",
            scene.thread.ts,
        )
        await scene.send(replace(said, files=files))
        await scene.until_said(told[0])
        await scene.until_status("pending_verification")
        await scene.developer("that was it")
        assert await scene.result() == "resolved"
        await scene.until_said(told[1])
