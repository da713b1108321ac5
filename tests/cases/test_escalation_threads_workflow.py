"""People on call read the answers to their questions, and the end of the case, in their own
thread.
"""

import pytest

from tests.support.case_scene import StartCase, outcome
from threadline.cases.model import Action
from threadline.threads.model import MessageKind
from threadline_devstack.slack.identity import ESCALATIONS, SUMMARIES

pytestmark = pytest.mark.timeout(120)
ASK = Action.ASK_REPORTER
ESCALATE = Action.ESCALATE
POST = Action.POST_FINDINGS
RESOLVE = Action.RESOLVED


async def test_answer_to_people_on_call_is_posted_in_their_thread(start_case: StartCase) -> None:
    script = (
        outcome(ESCALATE, "needs an admin"),
        outcome(POST, "the quantity is doubled"),
        outcome(POST, "and now"),
    )
    async with start_case(*script) as scene:
        await scene.report()
        await scene.until_status("escalated")
        root = await scene.on_call("which file is it?")
        await scene.until_said_under(root, "the quantity is doubled")
        await scene.until_said("the quantity is doubled", SUMMARIES)
        await scene.developer("and in the other shop?")
        await scene.until_said("and now", SUMMARIES)
        assert not any("and now" in each for each in scene.said_under(root)), (
            "that question came from another thread"
        )


async def test_question_of_people_on_call_that_needs_the_reporter_is_answered_after_the_reporter(
    start_case: StartCase,
) -> None:
    script = outcome(ESCALATE), outcome(ASK), outcome(POST, "it is the old browser")
    async with start_case(*script) as scene:
        await scene.report()
        await scene.until_status("escalated")
        root = await scene.on_call("which browser is it?")
        await scene.until_said_under(root, "Which browser?")
        await scene.until_status("awaiting_reporter")
        await scene.reporter("an old one")
        await scene.until_said_under(root, "it is the old browser")


async def test_thread_of_each_escalation_gets_the_end_of_the_case_once(
    start_case: StartCase,
) -> None:
    script = (
        outcome(ESCALATE, "first"),
        outcome(ESCALATE, "second"),
        outcome(RESOLVE, "the clock was wrong"),
    )
    async with start_case(*script) as scene:
        await scene.report()
        await scene.until_status("escalated")
        first = await scene.on_call("I need a colleague")
        await scene.until_said("second", ESCALATIONS)
        await scene.until_status("investigating", "escalated")
        second = await scene.on_call("it was the clock", number=2)
        assert await scene.result() == "resolved"
        for root in (first, second):
            await scene.until_said_under(root, "is resolved")
            told = [each for each in scene.said_under(root) if "is resolved" in each]
            assert len(told) == 1
            assert "the clock was wrong" in told[0]


async def test_thread_of_an_escalation_gets_the_close_by_the_reporter(
    start_case: StartCase,
) -> None:
    async with start_case(outcome(ESCALATE)) as scene:
        await scene.report()
        await scene.until_status("escalated")
        root = await scene.on_call("who can look at it?")
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"
        await scene.until_said_under(root, "as its reporter asked")
