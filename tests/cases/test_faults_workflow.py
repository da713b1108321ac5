"""Faults around a case, each found in a review or by chaos: none blocks the case, and none goes
unreported.
"""

import asyncio
from dataclasses import asdict, replace

import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus

from tests.support.case_scene import REPORTER, CaseScene, HeldTurn, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.contract import TurnRequest
from threadline.cases.model import (
    BUG_WORKFLOW,
    Action,
    BugState,
    CaseLimits,
    bug_workflow_id,
    case_owner,
)
from threadline.errors import ClaimLost, Permanent
from threadline.gateway.router import EventRouter, ThreadLookup
from threadline.gateway.routes import Route, RouteTarget, RoutingConfig
from threadline.investigator.store import TurnClaim, TurnOutcome
from threadline.slack.client import POST_EVENT
from threadline.slack.model import Thread
from threadline.threads.model import (
    CORE_QUEUE,
    INCOMING_MESSAGE,
    IncomingMessage,
    MessageKind,
    SenderType,
)
from threadline.threads.store import PostStore
from threadline_devstack.slack import identity
from threadline_devstack.slack.identity import BYSTANDER, ESCALATIONS, REPORTS, SUMMARIES

ASK = Action.ASK_REPORTER
POST = Action.POST_FINDINGS
ESCALATE = Action.ESCALATE
RESOLVE = Action.RESOLVED


async def test_repeated_failures_call_people_once(start_case: StartCase) -> None:
    broken = [Permanent("The model's key was refused.")] * 3
    async with start_case(*broken) as scene:
        await scene.report()
        await scene.until_status("escalated")
        await scene.developer("I am on it")
        await scene.until_status("escalated", "investigating", "escalated")
        await scene.developer("still on it")
        await scene.until_status(*["investigating", "escalated"] * 3)
        assert scene.times_said("needs a person", ESCALATIONS) == 1
        assert (await scene.case()).escalations == 1


async def test_turn_that_lost_its_claim_is_retried(start_case: StartCase) -> None:
    async with start_case(
        ClaimLost("turn 1 is no longer held"), outcome(POST), server=skipping_time
    ) as scene:
        await scene.report()
        await scene.later(seconds=5)
        await scene.until_status("investigating", "pending_verification")
        assert [request.attempt for request in scene.agent.requests] == [1, 2]


async def test_developer_acknowledges_also_while_a_turn_runs(start_case: StartCase) -> None:
    turn = HeldTurn()
    async with start_case(outcome(ESCALATE), turn, outcome(POST)) as scene:
        await scene.report()
        await scene.until_status("escalated")
        await scene.reporter("any news?")
        await turn.began.wait()
        await scene.developer("I am on it")
        await scene.until_acknowledged()
        turn.finish.set()


async def test_close_retracts_the_message_that_reopened(start_case: StartCase) -> None:
    async def slow(_: TurnRequest, __: TurnClaim) -> TurnOutcome:
        await scene.reporter("never mind", MessageKind.CLOSE)
        await asyncio.Event().wait()
        raise AssertionError

    async with start_case(outcome(RESOLVE), slow) as scene:
        await scene.report()
        await scene.result()
        await scene.reporter("it is back")
        assert await scene.result() == "resolved"
        assert (await scene.case()).close_reason == "reporter_closed"


async def test_old_message_gets_no_case_from_an_edit_or_a_stranger(start_case: StartCase) -> None:
    async with start_case(server=skipping_time) as scene:
        await scene.later(hours=1)
        await scene.send(_edit_of_the_report(scene, "a typo mended"))
        assert await scene.result() == "ignored"
        await scene.send(
            scene.message(
                MessageKind.MESSAGE, SenderType.UNKNOWN, BYSTANDER, "me too", "1700000001.000001"
            )
        )
        assert await scene.result() == "ignored"
        assert not scene.said(REPORTS)


async def test_edit_before_report_is_stored(start_case: StartCase) -> None:
    async with start_case(outcome(POST)) as scene:
        scene.slack.workspace.edit(REPORTS, scene.thread.ts, "The invoice total is wrong")
        await scene.send(_edit_of_the_report(scene, "The invoice total is wrong"))
        await scene.report()  # with the words from before the edit
        await scene.until_status("investigating", "pending_verification")
        assert scene.agent.batches[0][0] == "The invoice total is wrong"


def _edit_of_the_report(scene: CaseScene, words: str) -> IncomingMessage:
    report = scene.message(MessageKind.EDIT, SenderType.REPORTER, REPORTER, words, scene.thread.ts)
    return replace(
        report, id=f"{report.id}:e1", correction_of=report.id, version="1700000000.000001"
    )


async def test_never_mind_does_not_wait_for_a_code_host_that_is_away(
    start_case: StartCase,
) -> None:
    patch = (
        "diff --git a/a.py b/a.py\nnew file mode 100644\n--- /dev/null\n+++ b/a.py\n@@ -0,0 +1 "
        "@@\n+fixed\n"
    )
    fix = outcome(POST, diffs={"shop": patch}, base={"shop": "0" * 40}, has_fix=True)
    away = {"shop": "https://127.0.0.1:1/acme/shop.git"}
    async with start_case(outcome(POST), fix, repositories=away) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.developer("please fix it")
        await scene.until_said("found it", SUMMARIES)
        await scene.until_status("pending_verification", "investigating")
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("investigating", "resolved")


async def test_each_unanswered_question_is_reported(start_case: StartCase) -> None:
    async with start_case(*[outcome(ASK), outcome(POST)] * 2, server=skipping_time) as scene:
        await scene.report()
        await scene.until_status("awaiting_reporter")
        await scene.later(hours=2, minutes=1)
        await scene.until_status("investigating", "pending_verification")
        await scene.developer("ask again")
        await scene.until_status("pending_verification", "investigating", "awaiting_reporter")
        await scene.later(hours=2, minutes=1)
        await scene.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert scene.times_said("no answer to my question") == 2


async def test_each_reopening_is_reported(start_case: StartCase) -> None:
    async with start_case(*[outcome(RESOLVE)] * 3) as scene:
        await scene.report()
        for _ in range(2):
            await scene.result()
            await scene.reporter("it is back again")
            await scene.until_status("resolved", "investigating", "resolved")
        await scene.result()
        assert scene.times_said("is open again") == 2


async def test_terminated_case_continues_from_its_stored_state(start_case: StartCase) -> None:
    turn = HeldTurn()
    async with start_case(turn, outcome(POST)) as scene:
        await scene.report()
        await turn.began.wait()
        await scene.handle.terminate("by hand")
        await scene.reporter("hello?")
        await scene.until_status("investigating", "pending_verification")
        assert scene.agent.batches[-1] == ["The cart total is wrong", "hello?"]
        assert [request.attempt for request in scene.agent.requests] == [1, 2]


async def test_much_text_is_stored_before_the_run_continues_as_new(start_case: StartCase) -> None:
    script = outcome(POST), outcome(POST, "read it all")
    async with start_case(*script, limits=CaseLimits(max_history_events=12)) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        for number in range(40):
            said = f"{number} " + "x" * 30_000
            at = f"18000000{number:02}.000100"
            await scene.send(
                scene.message(MessageKind.MESSAGE, SenderType.REPORTER, REPORTER, said, at)
            )

        async def all_read() -> bool:
            return sum(len(batch) for batch in scene.agent.batches) == 41

        await scene.until(all_read, "every message is in a batch, once")


async def test_workspace_is_removed_although_the_run_would_continue_as_new(
    start_case: StartCase,
) -> None:
    async with start_case(outcome(RESOLVE), limits=CaseLimits(max_history_events=12)) as scene:
        await scene.report()
        assert await scene.result() == "resolved"
        assert scene.agent.cleaned == ["BUG-1"]


@pytest.mark.usefixtures("activation_order")
async def test_cancel_of_a_run_after_a_cancelled_one_closes_the_case(
    start_case: StartCase,
) -> None:
    async with start_case() as scene:
        report = scene.message(
            MessageKind.REPORT, SenderType.REPORTER, REPORTER, "It is wrong", scene.thread.ts
        )
        handle = await scene.environment.client.start_workflow(
            BUG_WORKFLOW,
            BugState(thread=scene.thread, cancelled=True),
            id=bug_workflow_id(scene.thread),
            task_queue=CORE_QUEUE,
            start_signal=INCOMING_MESSAGE,
            start_signal_args=[report],
        )
        await handle.cancel()
        await scene.until_status("new", "resolved")
        assert (await scene.case()).close_reason == "admin_cancelled"


async def test_reply_under_a_root_whose_post_was_never_confirmed_is_stored(
    start_case: StartCase,
) -> None:
    """Slack stored the summary's root, but the response was lost: only the root's metadata says
    which thread it belongs to.
    """
    async with start_case() as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        owner = case_owner(scene.thread, "case:summary")
        root = scene.slack.workspace.post(
            SUMMARIES,
            identity.BOT_USER,
            "BUG-1",
            bot_id=identity.BOT_ID,
            metadata={
                "event_type": POST_EVENT,
                "event_payload": {"key": "BUG-1:summary"} | asdict(owner),
            },
        )
        async with scene.database.begin() as tx:
            unsure = text("UPDATE posts SET ts = NULL WHERE key = 'BUG-1:summary'")
            assert (await tx.execute(unsure)).rowcount == 1
        reply = scene.message(
            MessageKind.MESSAGE,
            SenderType.DEVELOPER,
            identity.DEVELOPER,
            "the quantity?",
            "1.5",
            SUMMARIES,
        )
        thread = Thread(identity.TEAM, SUMMARIES, root.ts)
        await EventRouter(
            RoutingConfig(), scene.environment.client, ThreadLookup(scene.database)
        ).deliver(Route(RouteTarget.CASE_THREAD, thread, reply))

        async def stored() -> bool:
            return "the quantity?" in await scene.texts()

        await scene.until(stored, "the reply is stored with the case")
        async with scene.database.begin() as tx:
            assert await PostStore(tx).ts_of("BUG-1:summary") == root.ts, (
                "no later search for the root is needed"
            )


async def test_running_clock_stops_at_the_end_after_a_dropped_escalation(
    start_case: StartCase,
) -> None:
    """The close arrived while the second escalation's findings were being posted, so the second
    clock never started.
    """
    async with start_case(outcome(ESCALATE), outcome(ESCALATE, "a second time")) as scene:
        await scene.report()
        await scene.until_status("investigating", "escalated")
        scene.slack.faults.slow("chat.postMessage", 1.0)
        await scene.reporter("and now the invoices, too")

        async def settled() -> bool:
            return (await scene.case()).turn == 2

        await scene.until(settled, "the second turn is settled")
        await scene.reporter("never mind", MessageKind.CLOSE)
        await scene.until_status("resolved")
        await scene.result()
        assert (await scene.case()).escalations == 2

        async def stopped() -> bool:
            return (await scene.clock().describe()).status is WorkflowExecutionStatus.COMPLETED

        await scene.until(stopped, "the first clock was told")
        assert not scene.times_said("a second time", ESCALATIONS), (
            "the second escalation was dropped"
        )
