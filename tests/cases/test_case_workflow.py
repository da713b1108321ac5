"""Each way through a case, with its timers skipped; the design's actions and the rules where it is silent."""

import asyncio
import re
import time
from dataclasses import replace

import asyncpg
import pytest
from sqlalchemy import text
from temporalio.api.sdk.v1 import WorkflowMetadata
from temporalio.exceptions import ApplicationError

from tests.support.case_scene import House, Play, house, outcome
from tests.support.temporal import real_time, skipping_time
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, Limits
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.investigator.store import Claim, TurnOutcome
from threadline.threads import addressing, messages
from threadline_devstack.slack.identity import BOT_USER, BYSTANDER, ESCALATIONS, ON_CALL, REPORTER, REPORTS, SUMMARIES

ASK, POST, ESCALATE, RESOLVE = Action.ASK_REPORTER, Action.POST_FINDINGS, Action.ESCALATE, Action.RESOLVED


async def test_a_report_gets_its_number_and_its_findings(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST)) as home:
        await home.report()
        await home.until_status("new", "investigating", "pending_verification")
        assert any("BUG-1" in said for said in home.said(REPORTS))
        assert any("found it" in said for said in home.said(SUMMARIES))
        assert home.agent.batches == [["The cart total is wrong"]]
        case = await home.case()
        assert (case.title, case.severity) == ("Cart total", "S2")


@pytest.mark.records("question_answered")
async def test_a_question_waits_for_the_reporter_alone(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ASK), outcome(POST)) as home:
        await home.report()
        await home.until_status("awaiting_reporter")
        await home.until_said("Which browser?")
        await home.reporter("Firefox")
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert home.agent.batches[1] == ["Firefox"]


@pytest.mark.records("reopened")
async def test_never_mind_closes_at_once_and_a_message_reopens(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST), outcome(POST, "looked again")) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.reporter("never mind", messages.CLOSE)
        assert await home.result() == "resolved"
        assert (await home.case()).close_reason == "reporter_closed"
        assert home.agent.cleaned == ["BUG-1"]
        assert sum("closed, as its reporter asked" in said for said in home.said(REPORTS) + home.said(SUMMARIES)) == 2
        await home.reporter("It is back again in Chrome")
        await home.until_status("resolved", "investigating", "pending_verification")
        await home.until_said("looked again", SUMMARIES)
        assert [request.turn for request in home.agent.requests] == [1, 2]


@pytest.mark.records("question_unanswered")
async def test_an_unanswered_question_leads_to_a_turn_that_may_not_ask(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ASK), outcome(POST), server=skipping_time) as home:
        await home.report()
        await home.until_status("awaiting_reporter")
        await home.later(hours=1, minutes=59)
        assert len(home.agent.requests) == 1
        await home.later(minutes=2)
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert [request.unanswered for request in home.agent.requests] == [False, True]
        assert home.agent.batches[1] == []
        await home.until_said("I have no answer to my question")
        assert (await home.transitions())[-2].reason == "question_unanswered"


@pytest.mark.records("findings_and_silence")
async def test_silence_of_developers_resolves_after_48_hours_and_says_so_in_both_threads(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, outcome(POST), server=skipping_time) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.later(hours=47)
        assert (await home.statuses())[-1] == "pending_verification"
        await home.later(hours=2)
        await home.until_status("pending_verification", "resolved")
        assert (await home.case()).close_reason == "no_reply"
        await home.until_said("nobody has answered", SUMMARIES)
        for channel in (REPORTS, SUMMARIES):
            assert any("nobody has answered" in said and "reopen" in said for said in home.said(channel))


async def test_developers_messages_wait_with_the_question_and_come_in_the_next_batch(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, outcome(POST), outcome(ASK), outcome(POST), server=skipping_time) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.developer("what does the reporter see?")
        await home.until_status("awaiting_reporter")
        await home.developer("I am looking at the cart")
        await home.developer("and at the discounts")
        await home.later(minutes=30)
        assert len(home.agent.requests) == 2
        await home.reporter("a total of 12")
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")
        assert home.agent.batches[2] == ["I am looking at the cart", "and at the discounts", "a total of 12"]
        await home.until_said("forwarded to the investigation", SUMMARIES)


@pytest.mark.records("escalation")
async def test_escalation_calls_people_starts_the_clock_and_is_never_resolved_by_silence(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(
        database, pool, outcome(ESCALATE, "needs an admin"), outcome(RESOLVE), server=skipping_time
    ) as home:
        await home.report()
        await home.until_status("escalated")
        clock = home.environment.client.get_workflow_handle(addressing.sla_workflow_id("BUG-1", 1))
        assert (await clock.query("state"))["target"] == {"acknowledge": 3600.0, "resolve": 86400.0}
        assert any(f"<@{ON_CALL}>" in said and "needs an admin" in said for said in home.said(ESCALATIONS))
        await home.later(hours=60)
        assert (await home.statuses())[-1] == "escalated"
        await home.until_said("it was not resolved in time", ESCALATIONS)
        await home.developer("it is fixed in production")
        await home.until_status("escalated", "investigating", "resolved")
        assert await clock.result() == "resolved"


@pytest.mark.records("escalation_acknowledged")
async def test_a_developers_first_message_acknowledges_the_escalation(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ESCALATE), outcome(POST), server=skipping_time) as home:
        await home.report()
        await home.until_status("escalated")
        await home.developer("I am on it")
        clock = home.environment.client.get_workflow_handle(addressing.sla_workflow_id("BUG-1", 1))

        async def acknowledged() -> bool:
            return bool((await clock.query("state"))["acknowledged"])

        await home.until(acknowledged, "the clock hears of the developer")
        await home.until_status("escalated", "investigating", "pending_verification")
        await home.later(hours=72)
        assert (await home.statuses())[-1] == "pending_verification", "an escalated case is not resolved by silence"


@pytest.mark.records("agent_resolved")
async def test_resolved_ends_the_case_and_tells_the_reporter(database: Database, pool: asyncpg.Pool) -> None:
    told = "It is no bug: the discount had ended."
    async with house(database, pool, outcome(RESOLVE, "the clock of the shop is right", for_reporter=told)) as home:
        await home.report()
        assert await home.result() == "resolved"
        assert any("the discount had ended" in said and "resolved" in said for said in home.said(REPORTS))


async def test_resolved_with_something_unread_goes_on_instead(database: Database, pool: asyncpg.Pool) -> None:
    async def resolve_late(_: TurnRequest, __: Claim) -> TurnOutcome:
        await home.reporter("wait, it fails again")
        return outcome(RESOLVE)

    async with house(database, pool, resolve_late, outcome(POST)) as home:
        await home.report()
        await home.until_status("investigating", "pending_verification")
        assert home.agent.batches[1] == ["wait, it fails again"]
        assert "resolved" not in await home.statuses()


async def test_a_question_is_not_posted_when_the_reporter_wrote_meanwhile(
    database: Database, pool: asyncpg.Pool
) -> None:
    async def ask_late(_: TurnRequest, __: Claim) -> TurnOutcome:
        await home.reporter("I use Firefox")
        return outcome(ASK)

    async with house(database, pool, ask_late, outcome(POST)) as home:
        await home.report()
        await home.until_status("investigating", "pending_verification")
        assert home.agent.batches[1] == ["I use Firefox"]
        assert not any("Which browser?" in said for said in home.said(REPORTS))


@pytest.mark.records("close_during_a_turn")
async def test_a_close_during_a_turn_cancels_it_and_drops_its_findings(database: Database, pool: asyncpg.Pool) -> None:
    async def never_ends(_: TurnRequest, __: Claim) -> TurnOutcome:
        await home.reporter("never mind", messages.CLOSE)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    cancelled = asyncio.Event()
    async with house(database, pool, never_ends) as home:
        await home.report()
        assert await home.result() == "resolved"
        assert home.said(SUMMARIES) == []
        assert sum("closed, as its reporter asked" in said for said in home.said(REPORTS)) == 1


async def test_never_mind_then_still_broken_does_not_close(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST), outcome(POST, "still broken indeed")) as home:
        await home.report()
        await home.until_status("pending_verification")
        still = home.slack.workspace.post(REPORTS, REPORTER, "never mind", thread_ts=home.thread.ts)
        await home.reporter("wait, still broken")
        await home.send(home.message(messages.CLOSE, messages.REPORTER, REPORTER, "never mind", still.ts))
        await home.until_said("still broken indeed", SUMMARIES)
        assert "resolved" not in await home.statuses()


@pytest.mark.records("thanks_after_the_end")
async def test_thanks_after_the_end_reopens_nothing_and_gets_a_reaction(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(RESOLVE)) as home:
        await home.report()
        await home.result()
        await home.reporter("thanks a lot!")
        assert await home.result() == "resolved"
        assert (await home.statuses())[-1] == "resolved"
        assert len(home.agent.requests) == 1
        thanks = [m for m in home.slack.workspace.channel(REPORTS).messages.values() if m.text == "thanks a lot!"]
        assert list(thanks[0].reactions) == ["+1"]


@pytest.mark.records("interrupted_turn")
async def test_a_turn_whose_worker_was_lost_is_run_again_with_the_same_batch(
    database: Database, pool: asyncpg.Pool
) -> None:
    lost = ApplicationError("worker shut down", type="WorkerShutdown")
    async with house(database, pool, lost, lost, outcome(POST), server=skipping_time) as home:
        await home.report()
        await home.later(seconds=10)
        await home.until_status("investigating", "pending_verification")
        assert [request.attempt for request in home.agent.requests] == [1, 2, 3]
        assert home.agent.batches == [["The cart total is wrong"]] * 3
        assert len({request.session_id for request in home.agent.requests}) == 3


@pytest.mark.records("model_overloaded")
async def test_an_overloaded_model_is_waited_for_and_then_people_take_over(
    database: Database, pool: asyncpg.Pool
) -> None:
    overloaded: list[TurnOutcome | Exception | Play] = [Transient("The model is overloaded.")] * 30
    async with house(database, pool, *overloaded, server=skipping_time) as home:
        await home.report()
        await home.later(hours=2)
        await home.until_status("escalated")
        assert 10 < len(home.agent.requests) < 20
        assert any("The model is overloaded." in said for said in home.said(ESCALATIONS))


@pytest.mark.records("permanent_fault")
async def test_a_permanent_fault_escalates_at_once_in_words(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, Permanent("The model refused the request.")) as home:
        await home.report()
        await home.until_status("escalated")
        assert len(home.agent.requests) == 1
        assert any("The model refused the request." in said for said in home.said(ESCALATIONS))


async def test_a_result_that_was_lost_after_its_commit_is_taken_over(database: Database, pool: asyncpg.Pool) -> None:
    async def commit_and_vanish(_: TurnRequest, claim: Claim) -> TurnOutcome:
        await home.agent.turns.finish(claim, outcome(POST, "committed before the crash"))
        raise ApplicationError("worker shut down", type="WorkerShutdown")

    async with house(database, pool, commit_and_vanish) as home:
        await home.report()
        await home.until_said("committed before the crash", SUMMARIES)
        assert len(home.agent.requests) == 1


@pytest.mark.records("operator_cancel")
async def test_cancel_in_the_ui_stores_what_came_and_closes_the_case(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST)) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.reporter("one more thing")
        await home.handle.cancel()
        assert await home.result() == "resolved"
        assert (await home.case()).close_reason == "operator_cancelled"
        async with home.database.begin() as work:
            page = await work.conversation.entries("BUG-1", None, 100)
        assert "one more thing" in [entry.text for entry in page.entries]


@pytest.mark.records("report_fetched_from_slack")
async def test_a_reply_whose_report_is_late_fetches_it_from_slack(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST)) as home:
        await home.reporter("and it is urgent")
        await home.until_status("investigating", "pending_verification")
        assert home.agent.batches == [["The cart total is wrong", "and it is urgent"]]
        await home.report()
        assert (await home.handle.query("state"))["status"] == "pending_verification"
        assert len(home.agent.requests) == 1


@pytest.mark.records("strangers_reply")
async def test_a_strangers_reply_opens_nothing(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool) as home:
        home.thread = replace(home.thread, ts="1600000000.000001")
        await home.send(home.message(messages.MESSAGE, messages.UNKNOWN, BYSTANDER, "me too", "1600000001.000001"))
        assert await home.result() == "ignored"


@pytest.mark.records("unreadable_signal")
async def test_a_signal_that_cannot_be_read_is_kept_and_the_case_goes_on(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, outcome(POST), outcome(POST, "went on")) as home:
        await home.report()
        await home.until_status("pending_verification")
        for args in ([], ["developer", "U1", "hello"], [None], [{"id": 7}]):
            await home.handle.signal(addressing.INCOMING_MESSAGE, args=args)
        await home.developer("and now?")
        await home.until_said("went on", SUMMARIES)
        async with home.database.begin() as work:
            count = await work.connection.scalar(
                text("SELECT count(*) FROM bug_conversations WHERE message_type = 'quarantined'")
            )
        assert count == 4


async def test_continue_as_new_at_every_point_loses_nothing(database: Database, pool: asyncpg.Pool) -> None:
    script = [outcome(ASK), outcome(POST), outcome(POST, "third"), outcome(RESOLVE, "fourth")]
    limits = Limits(history_events=11)
    async with house(database, pool, *script, limits=limits, server=real_time) as home:
        await home.report()
        await home.until_status("awaiting_reporter")
        await home.reporter("Firefox")
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")
        await home.developer("please look again")
        await home.until_status("pending_verification", "investigating", "pending_verification")
        await home.until_said("third", SUMMARIES)
        await home.developer("good, that is it")
        assert await home.result() == "resolved"
        run, runs = (await home.handle.describe()).run_id, 0
        while run:
            history = await home.environment.client.get_workflow_handle(home.handle.id, run_id=run).fetch_history()
            run = history.events[0].workflow_execution_started_event_attributes.continued_execution_run_id
            runs += 1
        assert runs >= 3, "it ran on under new runs"
        assert home.agent.batches == [
            ["The cart total is wrong"],
            ["Firefox"],
            ["please look again"],
            ["good, that is it"],
        ]


@pytest.mark.parametrize("text_of_it", [":+1:", "never mind"])
async def test_what_says_nothing_after_the_end_reopens_nothing(
    database: Database, pool: asyncpg.Pool, text_of_it: str
) -> None:
    async with house(database, pool, outcome(RESOLVE)) as home:
        await home.report()
        await home.result()
        await home.reporter(text_of_it)
        assert await home.result() == "resolved"
        assert len(home.agent.requests) == 1


async def test_temporals_ui_says_what_is_waited_for_and_until_when(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ASK), outcome(POST)) as home:
        await home.report()
        await home.until_status("awaiting_reporter")
        details = await _details(home)
        assert "**BUG-1** (S2) Cart total" in details
        assert f"Waiting for the reporter ({REPORTER}), until " in details
        assert details.endswith(": Which browser?")
        told = await home.handle.query("state")
        assert told == {
            "bug_id": "BUG-1",
            "state": "awaiting_reporter",
            "status": "awaiting_reporter",
            "pending": 0,
            "action": "ask_reporter",
            "session_id": addressing.session_id("BUG-1", 1, 1),
            "turn": 1,
            "cost_usd": 0.01,
            "deadline": told["deadline"],
        }
        assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d UTC", told["deadline"])
        await home.reporter("Firefox")
        await home.until_status("awaiting_reporter", "investigating", "pending_verification")

        async def waiting() -> bool:
            return "Findings are posted; waiting for developers, until " in await _details(home)

        await home.until(waiting, "Temporal's UI says that it waits for developers")
        described = await home.handle.describe()
        assert await described.memo() == {"case": "BUG-1", "title": "Cart total"}
        shown = {pair.key.name: pair.value for pair in described.typed_search_attributes}
        assert shown["CaseState"] == "awaiting_dev"
        assert shown["CaseSeverity"] == "S2"


async def _details(home: House) -> str:
    answer = await home.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return str(answer.current_details)


async def test_while_the_model_is_down_the_ui_says_so_and_people_hear_of_it_in_the_end(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, *[Transient("The model cannot be reached.")] * 20, server=skipping_time) as home:
        await home.report()

        async def told() -> bool:
            return "The model cannot be reached." in await _details(home)

        await home.until_said("BUG-1")
        await home.until(told, "the details name the trouble")
        await home.later(hours=2)
        await home.until_status("escalated")
        await home.until_said("The model cannot be reached.", ESCALATIONS)


async def test_when_nobody_can_be_called_the_reporter_is_told(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(ESCALATE)) as home:
        home.slack.workspace.leave(ESCALATIONS, BOT_USER)
        await home.report()
        await home.until_status("escalated")
        await home.until_said("could not call anyone")


@pytest.mark.records("operator_resolves")
async def test_an_operator_resolves_a_case_with_a_reason(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(POST)) as home:
        await home.report()
        await home.until_status("pending_verification")
        now = f"{time.time() + 60:.6f}"
        close = home.message(messages.CLOSE, messages.OPERATOR, "ops", "a duplicate of BUG-7", now)
        await home.send(close)
        assert await home.result() == "resolved"
        assert (await home.case()).close_reason == "operator_resolved"
        assert (await home.transitions())[-1].actor == "ops"
        await home.until_said("a duplicate of BUG-7")
