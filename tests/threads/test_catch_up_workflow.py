"""What Slack gave up delivering is found in its history; what a workflow lost is made good: on the real parts."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace

import asyncpg
import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus

from tests.support.case_scene import FOLLOWED, House, house, outcome
from threadline.cases.model import Action, CaseStatus
from threadline.db.engine import Database
from threadline.threads import addressing, messages
from threadline.threads.catch_up_model import CatchUpState
from threadline_devstack.slack import identity

REPORTER, DEVELOPER, BYSTANDER = identity.REPORTER, identity.DEVELOPER, identity.BYSTANDER


async def look(home: House, *, deep: bool = True) -> None:
    """One look from beginning to end, in real time: a result that is waited for would let Temporal skip time."""
    client = home.environment.client
    await client.start_workflow(
        addressing.CATCH_UP_WORKFLOW,
        CatchUpState(deep=deep),
        id=addressing.CATCH_UP_ID,
        task_queue=addressing.CORE_QUEUE,
    )
    await until_ended(home)


async def until_ended(home: House, identity: str = addressing.CATCH_UP_ID) -> None:
    handle = home.environment.client.get_workflow_handle(identity)

    async def ended() -> bool:
        return (await handle.describe()).status is WorkflowExecutionStatus.COMPLETED

    await home.until(ended, "it ends", 60)


async def install(home: House, at: float = 0.0) -> None:
    async with home.database.begin() as work:
        await work.followed.install(list(FOLLOWED), at or time.time())


async def entries(home: House, bug_id: str = "BUG-1") -> list[tuple[str, str]]:
    """What people are stored to have said, as it reads now."""
    async with home.database.begin() as work:
        page = await work.conversation.entries(bug_id, limit=500)
    return [(entry.sender_type, entry.text) for entry in page.entries if entry.sender_type != messages.BOT]


async def resent(home: House) -> int:
    async with home.database.begin() as work:
        found = await work.connection.execute(text("SELECT coalesce(sum(times), 0) FROM resent_messages"))
        return int(found.scalar_one())


async def signals(home: House) -> int:
    """How many messages the case's workflow was sent in its present run."""
    history = await home.handle.fetch_history()
    return sum(event.HasField("workflow_execution_signaled_event_attributes") for event in history.events)


@pytest.fixture
async def home(database: Database, pool: asyncpg.Pool) -> AsyncIterator[House]:
    async with house(database, pool, outcome(Action.POST_FINDINGS)) as home:
        yield home


async def test_a_report_and_what_follows_it_are_found_once(home: House) -> None:
    await install(home, float(home.thread.ts) - 60)
    say = home.slack.workspace.post
    say(identity.REPORTS, REPORTER, "It is the discount code", thread_ts=home.thread.ts)
    say(identity.REPORTS, BYSTANDER, "Works for me", thread_ts=home.thread.ts)
    await look(home)
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    assert await entries(home) == [("reporter", "The cart total is wrong"), ("reporter", "It is the discount code")]
    assert await resent(home) == 2
    await look(home)
    assert await resent(home) == 2
    assert await signals(home) == 2


async def test_a_message_whose_secret_was_taken_out_does_not_count_as_edited(home: House) -> None:
    """Slack shows the token and the case the mark; an edit would end the wait for an answer that nobody gave."""
    await install(home)
    await home.report()
    await home.reporter("My token is gh" + "p_" + "a1B2" * 9)
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    (said,) = home.slack.workspace.message(identity.REPORTS, home.thread.ts).replies[:1]
    home.slack.workspace.edit(identity.REPORTS, said.ts, said.text)
    assert "edited" in said.as_slack()
    await look(home)
    assert ("reporter", "My token is [redacted: GitHub token]") in await entries(home)
    assert await resent(home) == 0


async def test_of_a_deleted_message_nothing_is_left_when_its_edit_alone_was_delivered(home: House) -> None:
    await install(home)
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    said = home.slack.workspace.post(identity.REPORTS, REPORTER, "My card number is 1", thread_ts=home.thread.ts)
    original = addressing.message_id(identity.TEAM, identity.REPORTS, said.ts)
    home.slack.workspace.edit(identity.REPORTS, said.ts, "My card number is 1234")
    edit = home.message("edit", "reporter", REPORTER, "My card number is 1234", said.ts)
    await home.send(replace(edit, id=f"{original}:e{said.edited_ts}", correction_of=original, version=said.edited_ts))

    async def kept() -> bool:
        async with home.database.begin() as work:
            return bool(
                await work.connection.scalar(
                    text("SELECT count(*) FROM bug_conversations WHERE message_text LIKE '%1234%'")
                )
            )

    await home.until(kept, "the edit is stored")
    home.slack.workspace.delete(identity.REPORTS, said.ts)
    await look(home)

    async def gone() -> bool:
        return not await kept()

    await home.until(gone, "its text is gone")
    assert await resent(home) == 1
    await look(home)
    assert await resent(home) == 1


async def test_edits_and_deletions_are_found(home: House) -> None:
    await install(home)
    await home.report()
    await home.reporter("My card number is 1234")
    await home.reporter("It fails in Frefox")
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    replies = home.slack.workspace.message(identity.REPORTS, home.thread.ts).replies
    secret, typo = (reply for reply in replies if reply.user == REPORTER)
    home.slack.workspace.delete(identity.REPORTS, secret.ts)
    home.slack.workspace.edit(identity.REPORTS, typo.ts, "It fails in Firefox")
    await look(home)

    async def corrected() -> bool:
        said = await entries(home)
        return ("reporter", "It fails in Firefox") in said and "1234" not in str(said)

    await home.until(corrected, "the edit and the deletion are stored")
    assert "Frefox" not in str(await entries(home))
    assert await resent(home) == 2
    await look(home)
    assert await resent(home) == 2


async def test_a_developers_reply_is_found(home: House) -> None:
    await install(home)
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    case = await home.case()
    assert case.summary
    home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, "Look at the cart", thread_ts=case.summary.ts)
    home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, "Lunch?")
    await look(home, deep=False)
    await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)
    assert await entries(home) == [("reporter", "The cart total is wrong"), ("developer", "Look at the cart")]


async def test_nothing_older_than_the_installation_starts_a_case(home: House) -> None:
    home.slack.workspace.post(identity.REPORTS, REPORTER, "An old story", thread_ts=home.thread.ts)
    await install(home)
    fresh = home.slack.workspace.post(identity.REPORTS, REPORTER, "A new report")
    await look(home)

    async def opened() -> bool:
        async with home.database.begin() as work:
            return bool(await work.overview.cases(open_only=False))

    await home.until(opened, "the new report becomes a case")
    async with home.database.begin() as work:
        assert [case.thread.ts for case in await work.overview.cases(open_only=False)] == [fresh.ts]
    assert await resent(home) == 1


@pytest.mark.slow
async def test_what_is_fresh_is_left_to_the_ordinary_road_and_found_by_a_later_look(
    database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.case_scene.CATCH_UP_QUIET", 4.0)
    monkeypatch.setattr("threadline.threads.catch_up_activities.ROTATION", 0)  # which would find it by chance
    async with house(database, pool) as home:
        await install(home, float(home.thread.ts) - 60)

        async def old_enough() -> bool:
            return time.time() > float(home.thread.ts) + 4

        await home.until(old_enough, "the report is old enough to be judged")
        home.slack.workspace.post(identity.REPORTS, REPORTER, "Just now", thread_ts=home.thread.ts)
        await look(home)
        assert await resent(home) == 1
        await home.until_status(CaseStatus.PENDING_VERIFICATION)
        assert await entries(home) == [("reporter", "The cart total is wrong")]

        async def found() -> bool:
            await look(home, deep=False)
            return len(await entries(home)) == 2

        await home.until(found, "a shallow look finds what was too fresh", 30)
        assert await resent(home) == 2


async def test_a_rate_limit_in_the_middle_is_waited_for(home: House) -> None:
    await install(home, float(home.thread.ts) - 60)
    for number in range(3):
        home.slack.workspace.post(identity.REPORTS, REPORTER, f"Report {number}")
    home.slack.faults.rate_limit("conversations.replies", 4, 1)
    home.slack.faults.rate_limit("conversations.history", 2, 1)
    await look(home)
    assert await resent(home) == 4


async def test_a_request_during_a_look_is_a_look_of_its_own(home: House) -> None:
    await install(home)
    home.slack.faults.slow("conversations.history", 1, 3)
    client = home.environment.client
    await client.start_workflow(
        addressing.CATCH_UP_WORKFLOW, CatchUpState(), id=addressing.CATCH_UP_ID, task_queue=addressing.CORE_QUEUE
    )
    handle = client.get_workflow_handle(addressing.CATCH_UP_ID)
    await asyncio.gather(*(handle.signal(addressing.LOOK, args) for args in ({"deep": True}, "nonsense", None)))
    await until_ended(home)
    begun = [
        event.activity_task_scheduled_event_attributes
        for event in (await handle.fetch_history()).events
        if event.HasField("activity_task_scheduled_event_attributes")
    ]
    looks = [scheduled for scheduled in begun if scheduled.activity_type.name == "begin_look"]
    assert len(looks) == 3, "the one under way, the one that was asked for, and one for what was too young for that"
    assert looks[1].input.payloads[0].data == b"true"
