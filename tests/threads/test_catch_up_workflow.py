"""What Slack gave up delivering is found in its history; what a workflow lost is made good: on the real parts."""

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from decimal import Decimal

import aiohttp
import asyncpg
import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus
from temporalio.testing import ActivityEnvironment

from tests.support.case_scene import FOLLOWED, House, house, outcome
from threadline.cases.model import Action, CaseStatus
from threadline.db.engine import Database
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.routes import IgnoreReason, Route
from threadline.slack.client import Slack, make_client
from threadline.slack.history import History
from threadline.threads import addressing, messages
from threadline.threads.catch_up_comparison import Comparison
from threadline.threads.catch_up_model import CatchUpState
from threadline.threads.catch_up_store import DueThread
from threadline.threads.thread_store import ESCALATION
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import Message

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


async def opened(home: House) -> None:
    await install(home)
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)


def root_of(home: House, key: str, channel: str) -> Message:
    """A post of the bot's at the root of a thread, of which the database does not know."""
    payload = {"event_type": "threadline_post", "event_payload": {"key": key, "bug_id": "BUG-1"}}
    post = home.slack.workspace.post
    return post(channel, identity.BOT_USER, "BUG-1", bot_id=identity.BOT_ID, metadata=payload)


async def until_said_by_developer(home: House, words: str) -> None:
    async def stored() -> bool:
        return ("developer", words) in await entries(home)

    await home.until(stored, f"{words!r} is stored")


def grow_old(home: House, seconds: float) -> None:
    """The report was made so many seconds before."""
    posts, ts = home.slack.workspace.channel(identity.REPORTS).messages, f"{float(home.thread.ts) - seconds:.6f}"
    posts[ts] = replace(posts.pop(home.thread.ts), ts=ts)
    home.thread = replace(home.thread, ts=ts)


@pytest.fixture
async def home(database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """Nothing is found by chance here: no thread is compared that shows no change."""
    monkeypatch.setattr("threadline.threads.catch_up_activities.ROTATION", 0)
    async with house(database, pool, outcome(Action.POST_FINDINGS)) as home:
        yield home


@pytest.mark.records("catch_up")
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
    await opened(home)
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
    await opened(home)
    case = await home.case()
    assert case.summary
    home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, "Look at the cart", thread_ts=case.summary.ts)
    home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, "Lunch?")
    await look(home, deep=False)
    await until_said_by_developer(home, "Look at the cart")
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


async def test_what_is_fresh_is_left_to_the_ordinary_road_and_found_by_a_later_look(
    database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.support.case_scene.CATCH_UP_QUIET", 2.0)
    monkeypatch.setattr("threadline.threads.catch_up_activities.ROTATION", 0)
    async with house(database, pool) as home:
        grow_old(home, 60)
        await install(home, float(home.thread.ts) - 60)
        home.slack.workspace.post(identity.REPORTS, REPORTER, "Just now", thread_ts=home.thread.ts)
        await look(home)
        assert await resent(home) == 1
        await home.until_status(CaseStatus.PENDING_VERIFICATION)
        assert await entries(home) == [("reporter", "The cart total is wrong")]

        async def found() -> bool:
            await look(home, deep=False)
            return len(await entries(home)) == 2

        await home.until(found, "a shallow look finds what was too fresh")
        assert await resent(home) == 2


async def test_a_rate_limit_in_the_middle_is_waited_for(home: House) -> None:
    await install(home, float(home.thread.ts) - 60)
    for number in range(3):
        home.slack.workspace.post(identity.REPORTS, REPORTER, f"Report {number}")
    home.slack.faults.rate_limit("conversations.replies", 2)
    await look(home)
    assert await resent(home) == 4


async def test_a_request_during_a_look_is_a_look_of_its_own(home: House) -> None:
    await install(home)
    home.slack.faults.slow("conversations.history", 0.5)
    client = home.environment.client
    await client.start_workflow(
        addressing.CATCH_UP_WORKFLOW, CatchUpState(), id=addressing.CATCH_UP_ID, task_queue=addressing.CORE_QUEUE
    )
    handle = client.get_workflow_handle(addressing.CATCH_UP_ID)

    async def looks_already() -> bool:
        return not home.slack.faults.ordered("conversations.history")

    await home.until(looks_already, "the first look has begun")
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


async def test_what_is_there_in_a_thread_nobody_registered_is_not_taken_for_deleted(home: House) -> None:
    await opened(home)
    unknown = root_of(home, "BUG-1:summary", identity.SUMMARIES)
    said = home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, "I fixed it", thread_ts=unknown.ts)
    told = home.message("message", "developer", DEVELOPER, "I fixed it", said.ts, identity.SUMMARIES)
    await home.send(told)
    await until_said_by_developer(home, "I fixed it")
    await look(home)
    async with home.database.begin() as work:
        sent = await work.connection.execute(text("SELECT message_id FROM resent_messages"))
        assert not [each for each in sent.scalars() if each.endswith(":d")]


async def test_a_thread_that_was_lost_is_the_cases_from_its_first_reply_on(home: House) -> None:
    await opened(home)
    unknown = root_of(home, "BUG-1:summary", identity.SUMMARIES)
    words = [f"I fixed it in the cart {number}" for number in range(2)]
    said = [home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, each, thread_ts=unknown.ts) for each in words]
    await look(home)
    for each in words:
        await until_said_by_developer(home, each)
    home.slack.workspace.delete(identity.SUMMARIES, said[0].ts)
    await look(home)

    async def gone() -> bool:
        return ("developer", words[0]) not in await entries(home)

    await home.until(gone, "what was deleted is taken out")
    assert ("developer", words[1]) in await entries(home)
    assert await resent(home) == 3


async def test_the_cases_other_threads_are_read_whole_before_slack_is_asked_for_single_messages(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    await opened(home)
    roots = [root_of(home, f"BUG-1:escalation:{number}", identity.ESCALATIONS).ts for number in (1, 2)]
    async with home.database.begin() as work:
        for root in roots:
            await work.threads.register("BUG-1", ESCALATION, identity.ESCALATIONS, root)
    for root in roots:
        home.slack.workspace.post(identity.ESCALATIONS, DEVELOPER, f"On it {root}", thread_ts=root)
    await look(home)
    for root in roots:
        await until_said_by_developer(home, f"On it {root}")
    asked: list[str] = []
    real = History.shows

    async def shows(self: History, channel: str, ts: str) -> bool:
        asked.append(ts)
        return await real(self, channel, ts)

    monkeypatch.setattr(History, "shows", shows)
    await look(home)
    assert asked == []
    assert await resent(home) == 2


async def test_a_developers_reply_under_a_deleted_root_is_found(home: House) -> None:
    await opened(home)
    case = await home.case()
    assert case.summary
    home.slack.workspace.post(identity.SUMMARIES, DEVELOPER, "Look at the cart", thread_ts=case.summary.ts)
    home.slack.workspace.delete(identity.SUMMARIES, case.summary.ts)
    await look(home)
    await until_said_by_developer(home, "Look at the cart")


async def test_a_report_that_is_gone_from_the_channel_is_deleted(home: House) -> None:
    await opened(home)
    workspace = home.slack.workspace
    for reply in list(workspace.message(identity.REPORTS, home.thread.ts).replies):
        workspace.delete(identity.REPORTS, reply.ts)
    workspace.delete(identity.REPORTS, home.thread.ts)
    await look(home)

    async def gone() -> bool:
        return "The cart total is wrong" not in str(await entries(home))

    await home.until(gone, "the report is taken out")


async def test_what_was_missed_before_a_close_does_not_reopen_the_case(home: House) -> None:
    await opened(home)
    home.slack.workspace.post(identity.REPORTS, REPORTER, "It is in Firefox", thread_ts=home.thread.ts)
    await home.reporter("never mind", "close")
    await home.until_status(CaseStatus.RESOLVED)
    await look(home)

    async def stored() -> bool:
        return ("reporter", "It is in Firefox") in await entries(home)

    await home.until(stored, "what was missed is stored")
    async with home.database.begin() as work:
        assert not (await work.cases.marks_of("BUG-1")).message_due
    assert (await home.statuses())[-1] == CaseStatus.RESOLVED


async def test_who_was_turned_away_is_not_let_in_later(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await install(home, float(home.thread.ts) - 60)
    with monkeypatch.context() as closed:

        async def refuse(self: Dispatcher, route: Route) -> str:
            return IgnoreReason.GUEST

        closed.setattr(Dispatcher, "dispatch", refuse)
        await look(home)
    home.slack.workspace.post(identity.REPORTS, REPORTER, "And now I am a member", thread_ts=home.thread.ts)
    home.slack.workspace.edit(identity.REPORTS, home.thread.ts, "The cart total is very wrong")
    await look(home)
    assert await resent(home) == 1, "what was said since, and nothing that was refused"


async def test_a_channel_that_is_followed_again_begins_anew(home: House) -> None:
    await install(home, float(home.thread.ts) - 60)
    async with home.database.begin() as work:
        await work.followed.install([identity.SUMMARIES], time.time())
    await look(home)
    assert await resent(home) == 0


async def test_a_reply_under_an_old_root_is_found_by_a_shallow_look(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    grow_old(home, 3600)
    await opened(home)
    await look(home)
    home.slack.workspace.post(identity.REPORTS, REPORTER, "It happens again", thread_ts=home.thread.ts)
    monkeypatch.setattr("threadline.threads.catch_up_activities.LOOK_BACK", 1800.0)
    await look(home, deep=False)
    assert await resent(home) == 1


async def test_a_long_thread_is_alive_at_every_page(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporal takes a worker for lost that says nothing for a minute, and a thread's pages may take ten."""
    monkeypatch.setattr("threadline.slack.history.PAGE", 1)
    for number in range(4):
        home.slack.workspace.post(identity.REPORTS, REPORTER, f"Detail {number}", thread_ts=home.thread.ts)
    beats: list[object] = []
    environment = ActivityEnvironment()
    environment.on_heartbeat = lambda *details: beats.append(details)
    async with aiohttp.ClientSession() as session:
        history = History(Slack(make_client(identity.BOT_TOKEN, home.slack.api_url, session)))
        comparison = Comparison(home.database, history, identity.TEAM, identity.BOT_USER, FOLLOWED)
        thread = DueThread(identity.REPORTS, home.thread.ts, "", "", "", Decimal(0))
        found = await environment.run(comparison.of, thread, time.time() - 60, time.time() + 60)
    assert len(found.missing) == 5
    assert len(beats) >= 5
