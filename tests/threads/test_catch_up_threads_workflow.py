"""What belongs to a thread: what was said in it is found wherever its root is, and what is there stays."""

import time
from collections.abc import AsyncIterator
from decimal import Decimal

import aiohttp
import asyncpg
import pytest
from sqlalchemy import text
from temporalio.testing import ActivityEnvironment

from tests.support.case_scene import FOLLOWED, House, house, outcome
from tests.threads.test_catch_up_workflow import entries, install, look, resent
from threadline.cases.model import Action, CaseStatus
from threadline.db.engine import Database
from threadline.gateway.dispatcher import Dispatcher
from threadline.gateway.routes import IgnoreReason, Route
from threadline.slack.client import Slack, make_client
from threadline.slack.history import History
from threadline.threads.catch_up_comparison import Comparison
from threadline.threads.catch_up_store import DueThread
from threadline.threads.thread_store import ESCALATION
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import Message

REPORTER, DEVELOPER = identity.REPORTER, identity.DEVELOPER


@pytest.fixture
async def home(database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[House]:
    """Nothing is found by chance here: no thread is compared that shows no change."""
    monkeypatch.setattr("threadline.threads.catch_up_activities.ROTATION", 0)
    async with house(database, pool, outcome(Action.POST_FINDINGS)) as home:
        yield home


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
    await opened(home)
    await look(home)

    async def old() -> bool:
        return time.time() > float(home.thread.ts) + 5

    await home.until(old, "the root is old")
    home.slack.workspace.post(identity.REPORTS, REPORTER, "It happens again", thread_ts=home.thread.ts)
    monkeypatch.setattr("threadline.threads.catch_up_activities.LOOK_BACK", time.time() - float(home.thread.ts) - 0.5)
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
