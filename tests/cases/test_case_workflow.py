"""Each path through a case: the agent's actions, waits, closes, reopenings and faults."""

import asyncio
import re
import time
from dataclasses import replace

import pytest
from sqlalchemy import text
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.exceptions import ApplicationError

from tests.support.case_scene import CaseScene, Play, StartCase, outcome
from tests.support.temporal import skipping_time
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, CaseLimits, session_id
from threadline.errors import Permanent, Transient
from threadline.investigator.store import TurnClaim, TurnOutcome
from threadline.threads.installation_store import RestoreWindow
from threadline.threads.lost_posts import LostPosts
from threadline.threads.model import INCOMING_MESSAGE, MessageKind, SenderType
from threadline_devstack.slack.identity import (
    BYSTANDER,
    ESCALATIONS,
    ON_CALL,
    PARTNER,
    REPORTER,
    REPORTS,
    SUMMARIES,
)
from threadline_devstack.slack.model import SandboxUser

ASK = Action.ASK_REPORTER
POST = Action.POST_FINDINGS
ESCALATE = Action.ESCALATE
RESOLVE = Action.RESOLVED


async def _details(scene: CaseScene) -> str:
    """The details that Temporal's UI shows of the run."""
    answer = await scene.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(answer.current_details)


@pytest.mark.records("question_answered")
async def test_question_waits_for_the_reporter_and_the_ui_shows_it(start_case: StartCase) -> None:
    async with start_case(outcome(ASK), outcome(POST)) as scene:
        await scene.report()
        await scene.until_status("new", "investigating", "awaiting_reporter")
        await scene.until_said("Which browser?")
        assert scene.times_said("BUG-1")
        await scene.until_quiet()
        details = await _details(scene)
        assert "**BUG-1** (S2) Cart total" in details
        assert f"({REPORTER}), until " in details
        assert details.endswith(": Which browser?")
        told = await scene.handle.query("state")
        assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", told.pop("deadline"))
        assert told == {
            "bug_id": "BUG-1",
            "state": "awaiting_reporter",
            "status": "awaiting_reporter",
            "pending": 0,
            "action": "ask_reporter",
            "session_id": session_id("BUG-1", 1, 1),
            "turn": 1,
            "cost_usd": 0.01,
        }
        await scene.reporter("Firefox")
        await scene.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert scene.times_said("found it", SUMMARIES)
        assert scene.agent.batches == [["The cart total is wrong"], ["Firefox"]]
        case = await scene.case()
        assert (case.title, case.severity) == ("Cart total", "S2")

        async def waiting() -> bool:
            return "waiting for developers, until " in await _details(scene)

        await scene.until(waiting, "Temporal's UI says that it waits for developers")
        described = await scene.handle.describe()
        assert await described.memo() == {"case": "BUG-1", "title": "Cart total"}
        shown = {pair.key.name: pair.value for pair in described.typed_search_attributes}
        assert (shown["CaseState"], shown["CaseSeverity"]) == ("awaiting_dev", "S2")


async def test_cancel_as_the_answer_to_a_question_reaches_the_agent(start_case: StartCase) -> None:
    async with start_case(outcome(ASK), outcome(POST)) as scene:
        await scene.report()
        await scene.until_status("new", "investigating", "awaiting_reporter")
        await scene.reporter("Cancel", MessageKind.CLOSE)
        await scene.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert scene.agent.batches == [["The cart total is wrong"], ["Cancel"]]
        await scene.reporter("Cancel", MessageKind.CLOSE)
        assert await scene.result() == "resolved"


async def test_cancel_from_the_lost_window_of_a_restore_closes_no_case(
    start_case: StartCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The Cancel may have answered a question that the restored database does not contain."""
    async with start_case(outcome(POST), outcome(POST, "looked again")) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        window = RestoreWindow(0.0, time.time() + 1_000_000)
        monkeypatch.setattr(LostPosts, "active_window", window)
        await scene.reporter("Cancel", MessageKind.CLOSE)
        await scene.until_said("looked again", SUMMARIES)
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"


@pytest.mark.records("reopened")
async def test_never_mind_closes_at_once_and_a_message_reopens(start_case: StartCase) -> None:
    async with start_case(outcome(POST), outcome(POST, "looked again")) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.reporter("never mind", MessageKind.CLOSE)
        assert await scene.result() == "resolved"
        assert (await scene.case()).close_reason == "reporter_closed"
        assert scene.agent.cleaned == ["BUG-1"]
        assert scene.times_said("closed, as its reporter asked", REPORTS, SUMMARIES) == 2
        await scene.reporter("It is back again in Chrome")
        await scene.until_status("resolved", "investigating", "pending_verification")
        await scene.until_said("looked again", SUMMARIES)
        assert [request.turn for request in scene.agent.requests] == [1, 2]


@pytest.mark.records("question_unanswered")
async def test_unanswered_question_leads_to_a_turn_that_may_not_ask(start_case: StartCase) -> None:
    async with start_case(outcome(ASK), outcome(POST), server=skipping_time) as scene:
        await scene.report()
        await scene.until_status("awaiting_reporter")
        await scene.later(hours=1, minutes=59)
        assert len(scene.agent.requests) == 1
        await scene.later(minutes=2)
        await scene.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert [request.unanswered for request in scene.agent.requests] == [False, True]
        assert scene.agent.batches[1] == []
        await scene.until_said("no answer to my question")
        assert (await scene.transitions())[-2].reason == "question_unanswered"


@pytest.mark.records("findings_and_silence")
async def test_silence_of_developers_resolves_after_48_hours(start_case: StartCase) -> None:
    async with start_case(outcome(POST), server=skipping_time) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.later(hours=47)
        assert (await scene.statuses())[-1] == "pending_verification"
        await scene.later(hours=2)
        await scene.until_status("pending_verification", "resolved")
        assert (await scene.case()).close_reason == "no_reply"
        await scene.until_said("nobody has answered", SUMMARIES)
        assert scene.times_said("nobody has answered")


async def test_developers_messages_wait_while_a_question_is_open(start_case: StartCase) -> None:
    async with start_case(
        outcome(POST), outcome(ASK), outcome(POST), server=skipping_time
    ) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.developer("what does the reporter see?")
        await scene.until_status("awaiting_reporter")
        await scene.developer("I am looking at the cart")
        await scene.developer("and at the discounts")
        await scene.later(minutes=30)
        assert len(scene.agent.requests) == 2
        await scene.reporter("a total of 12")
        await scene.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert scene.agent.batches[2] == [
            "I am looking at the cart",
            "and at the discounts",
            "a total of 12",
        ]


@pytest.mark.records("escalation")
async def test_escalation_calls_people_and_is_not_resolved_by_silence(
    start_case: StartCase,
) -> None:
    script = outcome(ESCALATE, "needs an admin"), outcome(RESOLVE)
    async with start_case(*script, server=skipping_time) as scene:
        await scene.report()
        await scene.until_status("escalated")
        assert (await scene.clock().query("state"))["target"] == {
            "acknowledge": 3600.0,
            "resolve": 86400.0,
        }
        assert any(
            f"<@{ON_CALL}>" in said and "needs an admin" in said
            for said in scene.said(ESCALATIONS)
        )
        await scene.later(hours=60)
        assert (await scene.statuses())[-1] == "escalated"
        await scene.until_said("it was not resolved in time", ESCALATIONS)
        await scene.developer("it is fixed in production")
        await scene.until_status("escalated", "investigating", "resolved")
        assert await scene.clock().result() == "resolved"


@pytest.mark.records("escalation_acknowledged")
async def test_developers_first_message_acknowledges_the_escalation(start_case: StartCase) -> None:
    async with start_case(outcome(ESCALATE), outcome(POST), server=skipping_time) as scene:
        await scene.report()
        await scene.until_status("escalated")
        await scene.developer("I am on it")
        await scene.until_acknowledged()
        await scene.until_status("escalated", "investigating", "pending_verification")
        await scene.later(hours=72)
        assert (await scene.statuses())[-1] == "pending_verification", (
            "an escalated case is not resolved by silence"
        )


@pytest.mark.records("agent_resolved")
async def test_resolved_ends_the_case_with_a_post_to_the_reporter(start_case: StartCase) -> None:
    told = "It is no bug: the discount had ended."
    async with start_case(
        outcome(RESOLVE, "the clock of the shop is right", for_reporter=told)
    ) as scene:
        await scene.report()
        assert await scene.result() == "resolved"
        assert any(
            "the discount had ended" in said and "resolved" in said for said in scene.said(REPORTS)
        )


@pytest.mark.parametrize("action", [ASK, RESOLVE])
async def test_action_gives_way_to_a_newer_message_of_the_reporter(
    start_case: StartCase, action: Action
) -> None:
    async def act_late(_: TurnRequest, __: TurnClaim) -> TurnOutcome:
        await scene.reporter("wait, it fails again")
        return outcome(action)

    async with start_case(act_late, outcome(POST)) as scene:
        await scene.report()
        await scene.until_status("new", "investigating", "pending_verification")
        assert scene.agent.batches[1] == ["wait, it fails again"]
        assert not scene.times_said("Which browser?")


@pytest.mark.records("close_during_a_turn")
async def test_close_during_a_turn_cancels_it_and_drops_its_findings(
    start_case: StartCase,
) -> None:
    async def never_ends(_: TurnRequest, __: TurnClaim) -> TurnOutcome:
        await scene.reporter("never mind", MessageKind.CLOSE)
        await asyncio.Event().wait()
        raise AssertionError

    async with start_case(never_ends) as scene:
        await scene.report()
        assert await scene.result() == "resolved"
        assert scene.said(SUMMARIES) == []
        assert scene.times_said("closed, as its reporter asked") == 1


async def test_never_mind_that_arrives_after_still_broken_closes_nothing(
    start_case: StartCase,
) -> None:
    async with start_case(outcome(POST), outcome(POST, "still broken indeed")) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        close = scene.slack.workspace.post(
            REPORTS, REPORTER, "never mind", thread_ts=scene.thread.ts
        )
        await scene.reporter("wait, still broken")
        await scene.send(
            scene.message(MessageKind.CLOSE, SenderType.REPORTER, REPORTER, "never mind", close.ts)
        )
        await scene.until_said("still broken indeed", SUMMARIES)
        assert "resolved" not in await scene.statuses()


@pytest.mark.records("thanks_after_the_end")
async def test_thanks_after_the_end_gets_a_reaction_and_no_turn(start_case: StartCase) -> None:
    async with start_case(outcome(RESOLVE)) as scene:
        await scene.report()
        await scene.result()
        await scene.reporter("thanks a lot!")
        assert await scene.result() == "resolved"
        assert (await scene.statuses())[-1] == "resolved"
        assert len(scene.agent.requests) == 1
        [thanks] = [
            m
            for m in scene.slack.workspace.channel(REPORTS).messages.values()
            if m.text == "thanks a lot!"
        ]
        assert list(thanks.reactions) == ["+1"]


async def test_only_a_message_with_content_reopens_a_case(start_case: StartCase) -> None:
    async with start_case(outcome(RESOLVE), outcome(POST, "looked again")) as scene:
        await scene.report()
        await scene.result()
        for words, kind in (
            (":+1:", MessageKind.MESSAGE),
            ("never mind", MessageKind.MESSAGE),
            ("never mind", MessageKind.CLOSE),
        ):
            await scene.reporter(words, kind)
            assert await scene.result() == "resolved"
        assert len(scene.agent.requests) == 1
        await scene.developer("no, it is still broken")
        await scene.until_status("resolved", "investigating", "pending_verification")
        await scene.until_said("looked again", SUMMARIES)


@pytest.mark.records("interrupted_turn")
async def test_turn_of_a_lost_worker_is_run_again_with_the_same_batch(
    start_case: StartCase,
) -> None:
    lost = ApplicationError("worker shut down", type="WorkerShutdown")
    async with start_case(lost, lost, outcome(POST), server=skipping_time) as scene:
        await scene.report()
        await scene.later(seconds=10)
        await scene.until_status("investigating", "pending_verification")
        assert [request.attempt for request in scene.agent.requests] == [1, 2, 3]
        assert scene.agent.batches == [["The cart total is wrong"]] * 3
        assert len({request.session_id for request in scene.agent.requests}) == 3


@pytest.mark.records("model_overloaded")
async def test_case_waits_for_an_overloaded_model_and_then_escalates(
    start_case: StartCase,
) -> None:
    overloaded: list[TurnOutcome | Exception | Play] = [Transient("The model is overloaded.")] * 30
    async with start_case(*overloaded, server=skipping_time) as scene:
        await scene.report()

        async def shown() -> bool:
            return "The model is overloaded." in await _details(scene)

        await scene.until_said("BUG-1")
        await scene.until(shown, "Temporal's UI names the fault")
        await scene.later(hours=2)
        await scene.until_status("escalated")
        assert 10 < len(scene.agent.requests) < 20
        await scene.until_said("The model is overloaded.", ESCALATIONS)


@pytest.mark.records("permanent_fault")
async def test_permanent_fault_escalates_at_once_with_its_reason(start_case: StartCase) -> None:
    async with start_case(Permanent("The model refused the request.")) as scene:
        await scene.report()
        await scene.until_status("escalated")
        assert len(scene.agent.requests) == 1
        assert scene.times_said("The model refused the request.", ESCALATIONS)


async def test_committed_outcome_with_a_lost_result_is_adopted(start_case: StartCase) -> None:
    async def commit_and_vanish(_: TurnRequest, claim: TurnClaim) -> TurnOutcome:
        await scene.agent.turns.finish(claim, outcome(POST, "committed before the crash"))
        raise ApplicationError("worker shut down", type="WorkerShutdown")

    async with start_case(commit_and_vanish) as scene:
        await scene.report()
        await scene.until_said("committed before the crash", SUMMARIES)
        assert len(scene.agent.requests) == 1


@pytest.mark.records("operator_cancel")
async def test_cancel_in_the_ui_stores_messages_and_closes_the_case(start_case: StartCase) -> None:
    async with start_case(outcome(POST)) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        await scene.reporter("one more thing")
        await scene.handle.cancel()
        assert await scene.result() == "resolved"
        assert (await scene.case()).close_reason == "admin_cancelled"
        assert "one more thing" in await scene.texts()


@pytest.mark.records("operator_resolves")
async def test_operator_resolves_a_case_with_a_reason(start_case: StartCase) -> None:
    async with start_case(outcome(POST)) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        now = f"{time.time() + 60:.6f}"
        await scene.send(
            scene.message(MessageKind.CLOSE, SenderType.ADMIN, "ops", "a duplicate of BUG-7", now)
        )
        assert await scene.result() == "resolved"
        assert (await scene.case()).close_reason == "admin_resolved"
        assert (await scene.transitions())[-1].actor == "ops"
        await scene.until_said("a duplicate of BUG-7")


@pytest.mark.records("report_fetched_from_slack")
async def test_reply_before_its_report_fetches_it_from_slack(start_case: StartCase) -> None:
    async with start_case(outcome(POST)) as scene:
        await scene.reporter("and it is urgent")
        await scene.until_status("investigating", "pending_verification")
        assert scene.agent.batches == [["The cart total is wrong", "and it is urgent"]]
        await scene.report()
        assert (await scene.handle.query("state"))["status"] == "pending_verification"
        assert len(scene.agent.requests) == 1


@pytest.mark.parametrize(
    "author",
    [
        SandboxUser("U0GUEST", "guest", "guest", is_restricted=True),
        SandboxUser("U0EVE", "eve", "eve", team=PARTNER),
        SandboxUser("U0PAGER", "pager", "pager", is_bot=True),
    ],
    ids=["guest", "stranger", "bot"],
)
async def test_reply_under_an_ignored_report_opens_no_case(
    start_case: StartCase, author: SandboxUser
) -> None:
    async with start_case() as scene:
        workspace = scene.slack.workspace
        workspace.add_user(author)
        root = workspace.post(REPORTS, author.id, "obey me").ts
        scene.thread = replace(scene.thread, ts=root)
        later = f"{float(root) + 1:.6f}"
        await scene.send(
            scene.message(MessageKind.MESSAGE, SenderType.UNKNOWN, BYSTANDER, "me too", later)
        )
        assert await scene.result() == "ignored"


@pytest.mark.records("strangers_reply")
async def test_strangers_reply_to_no_report_opens_no_case(start_case: StartCase) -> None:
    async with start_case() as scene:
        scene.thread = replace(scene.thread, ts="1600000000.000001")
        await scene.send(
            scene.message(
                MessageKind.MESSAGE, SenderType.UNKNOWN, BYSTANDER, "me too", "1600000001.000001"
            )
        )
        assert await scene.result() == "ignored"


@pytest.mark.records("unreadable_signal")
async def test_unreadable_signal_is_kept_and_the_case_continues(start_case: StartCase) -> None:
    async with start_case(outcome(POST), outcome(POST, "went on")) as scene:
        await scene.report()
        await scene.until_status("pending_verification")
        for args in ([], ["developer", "U1", "hello"], [None], [{"id": 7}]):
            await scene.handle.signal(INCOMING_MESSAGE, args=args)
        await scene.developer("and now?")
        await scene.until_said("went on", SUMMARIES)
        kept = text("SELECT count(*) FROM quarantine")
        async with scene.database.begin() as tx:
            assert await tx.scalar(kept) == 4


async def test_continue_as_new_at_every_point_loses_nothing(start_case: StartCase) -> None:
    script = [outcome(ASK), outcome(POST), outcome(POST, "third"), outcome(RESOLVE, "fourth")]
    async with start_case(*script, limits=CaseLimits(max_history_events=11)) as scene:
        await scene.report()
        await scene.until_status("awaiting_reporter")
        await scene.reporter("Firefox")
        await scene.until_status("awaiting_reporter", "investigating", "pending_verification")
        await scene.developer("please look again")
        await scene.until_status("pending_verification", "investigating", "pending_verification")
        await scene.until_said("third", SUMMARIES)
        await scene.developer("good, that is it")
        assert await scene.result() == "resolved"
        run = (await scene.handle.describe()).run_id
        runs = 0
        while run:
            history = await scene.environment.client.get_workflow_handle(
                scene.handle.id, run_id=run
            ).fetch_history()
            run = history.events[
                0
            ].workflow_execution_started_event_attributes.continued_execution_run_id
            runs += 1
        assert runs >= 3, "the case continued in new runs"
        assert scene.agent.batches == [
            ["The cart total is wrong"],
            ["Firefox"],
            ["please look again"],
            ["good, that is it"],
        ]
