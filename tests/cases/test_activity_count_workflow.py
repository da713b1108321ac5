"""What a message costs in history: the activities of a turn, and none that could be spared."""

import json
from collections.abc import Sequence

import asyncpg
import pytest
from sqlalchemy import text

from tests.support.case_scene import REPORTER, House, house, outcome
from threadline.cases.activities import LiveCaseActivities
from threadline.cases.contract import FlushRequest, TurnRef
from threadline.cases.model import Action, CaseStatus, Limits, Marks
from threadline.db.engine import Database
from threadline.threads import messages
from threadline_devstack.slack import identity

POST = outcome(Action.POST_FINDINGS)


async def activities(home: House, *, ended: bool = False) -> list[str]:
    """The activities that the case's workflow has asked for, in order; with `ended` also where each ended."""
    asked: dict[int, str] = {}
    told = []
    for event in (await home.handle.fetch_history()).events:
        if event.HasField("activity_task_scheduled_event_attributes"):
            name = event.activity_task_scheduled_event_attributes.activity_type.name
            asked[event.event_id] = name
            told.append(name)
        elif ended and event.HasField("activity_task_completed_event_attributes"):
            told.append(f"{asked[event.activity_task_completed_event_attributes.scheduled_event_id]} ended")
    return told


def since(before: Sequence[str], now: Sequence[str]) -> list[str]:
    return sorted(now[len(before) :])


async def test_a_reply_takes_three_activities_and_two_for_its_reactions(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, POST, POST) as home:
        await home.report()
        await home.until_status("pending_verification")

        async def marked(times: int) -> bool:
            return (await activities(home)).count("mark_used") == times

        await home.until(lambda: marked(1), "the report is marked")
        before = await activities(home)
        await home.reporter("and with three of them")
        await home.until_status("pending_verification", "investigating", "pending_verification")
        await home.until(lambda: marked(2), "the message is marked")
        assert since(before, await activities(home)) == [
            "add_reactions",
            "flush_messages",
            "mark_used",
            "run_continuation_investigation",
            "save_investigation_result",
        ]


@pytest.mark.parametrize("trouble", ["refused for now", "answer lost", "refused for good"])
async def test_findings_that_slack_does_not_take_at_once_are_said_once(
    database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    for name, seconds in (("HTTP_TOTAL", 1.0), ("LEASE", 1.5), ("GRACE", 0.1), ("ROOT_GRACE", 0.1)):
        monkeypatch.setattr(f"threadline.threads.outbox_posts.{name}", seconds)
    async with house(database, pool, POST, POST) as home:
        await home.report()
        await home.until_status("pending_verification")
        before = await activities(home)
        if trouble == "refused for now":
            home.slack.faults.fail_before("chat.postMessage")
        elif trouble == "answer lost":
            home.slack.faults.fail_after("chat.postMessage")
        else:
            home.slack.workspace.archive(identity.SUMMARIES)
        await home.reporter("and with three of them")
        await home.until_status("pending_verification", "investigating", "pending_verification")
        asked = since(before, await activities(home))
        assert asked.count("save_investigation_result") == 1
        if trouble == "refused for good":
            assert asked.count("post_investigation_results") == 1, "which hears it again"
            await home.until_said("could not be posted")
        else:
            assert asked.count("post_investigation_results") == 0
            assert sum("found it" in said for said in home.said(identity.SUMMARIES)) == 2


async def test_no_claim_of_findings_is_left_when_their_case_is_closed_while_they_are_tried_again(
    database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seconds in (("HTTP_TOTAL", 1.0), ("LEASE", 1.5), ("GRACE", 0.1), ("ROOT_GRACE", 0.1)):
        monkeypatch.setattr(f"threadline.threads.outbox_posts.{name}", seconds)
    async with house(database, pool, POST, POST) as home:
        await home.report()
        await home.until_status("pending_verification")
        home.slack.faults.fail_after("chat.postMessage")
        await home.reporter("and with three of them")

        async def stored() -> bool:
            return sum("found it" in said for said in home.said(identity.SUMMARIES)) == 2

        await home.until(stored, "Slack has stored the findings, and its answer was lost")
        await home.reporter("never mind", "close")
        await home.until_status("resolved")
        await home.result()
        async with database.begin() as work:
            unsure = await work.connection.scalar(text("SELECT count(*) FROM slack_posts WHERE ts IS NULL"))
        assert unsure == 0
        assert sum("found it" in said for said in home.said(identity.SUMMARIES)) == 2


async def not_said(turn: TurnRef) -> Marks | None:
    raise AssertionError("a flush says nothing")


async def test_the_answer_of_a_flush_that_has_begun_a_turn_may_be_lost(database: Database, pool: asyncpg.Pool) -> None:
    """The second flush finds the step taken: it is recorded once, and the turn is due all the same."""
    async with house(database, pool) as home:
        report = home.message(messages.REPORT, messages.REPORTER, REPORTER, "The cart total is wrong", home.thread.ts)
        request, case = (
            FlushRequest(home.thread, [report], begin=True),
            LiveCaseActivities(database, Limits(), not_said),
        )
        first, again = await case.flush_messages(request), await case.flush_messages(request)
        assert (first.begun, again.begun) == (True, False)
        assert first.status is again.status is CaseStatus.INVESTIGATING
        assert again.message_due
        assert again.title
        assert await home.statuses() == ["new", "investigating"]


@pytest.mark.records("burst_in_one_turn")
async def test_what_comes_while_the_first_of_a_burst_is_stored_is_in_the_same_turn(
    database: Database, pool: asyncpg.Pool
) -> None:
    async with house(database, pool, POST, POST) as home:
        await home.report()
        await home.until_status("pending_verification")
        await home.until_quiet()
        async with database.begin() as work:
            await work.connection.execute(text("SELECT FROM cases FOR UPDATE"))  # the first flush waits for its row
            await home.reporter("first")

            async def storing() -> bool:
                return (await activities(home)).count("flush_messages") == 2

            await home.until(storing, "the first message is being stored")
            for words in ("second", "third"):
                await home.reporter(words)
        await home.until_status("pending_verification", "investigating", "pending_verification")
        assert home.agent.batches[1:] == [["first", "second", "third"]]
        reactions = [
            event.activity_task_scheduled_event_attributes.input.payloads[0].data
            for event in (await home.handle.fetch_history()).events
            if event.activity_task_scheduled_event_attributes.activity_type.name == "add_reactions"
        ]
        assert [len(json.loads(data)["items"]) for data in reactions] == [1, 3], "the report; the burst at once"
        steps = await activities(home, ended=True)
        assert steps[: steps.index("run_continuation_investigation")].count("flush_messages ended") == 3
