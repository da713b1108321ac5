"""Missed messages of conversations are found in the history of Slack."""

import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from typing import Any, cast

import aiohttp
import pytest
from sqlalchemy import text
from temporalio.client import Client
from temporalio.testing import ActivityEnvironment

from tests.support.faulty_sandboxes import FaultySlack
from threadline.conversations.model.conversation import CONVERSATION
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.db.engine import Database
from threadline.gateway.router import ThreadLookup, ThreadResolver
from threadline.gateway.routes import Ignored, Route, RouteTarget, RoutingConfig, route
from threadline.slack.client import SlackClient, make_web_client
from threadline.slack.history import History
from threadline.slack.model import Thread
from threadline.threads.catch_up import LiveCatchUpActivities
from threadline.threads.catch_up_store import CatchUpStore
from threadline.threads.contract import (
    CatchUpPlan,
    ChannelRead,
    Handled,
    LookScope,
    PageRequest,
    PlanRequest,
)
from threadline.threads.faults import InstallationFaults
from threadline.threads.model import IncomingMessage, MessageKind, SenderType, message_id, stop_id
from threadline.threads.outbox import Outbox
from threadline.wiring.threads import thread_sources
from threadline_devstack.slack import identity
from threadline_devstack.slack.model import SandboxMessage

BOT = identity.BOT_USER
REPORTER = identity.REPORTER
BYSTANDER = identity.BYSTANDER
GENERAL = identity.GENERAL
CALL = f"<@{BOT}>"
CHANNELS = {identity.REPORTS: False, identity.SUMMARIES: True, identity.ESCALATIONS: True}
ROUTING = RoutingConfig(
    identity.REPORTS,
    identity.SUMMARIES,
    identity.ESCALATIONS,
    BOT,
    identity.BOT_ID,
    team=identity.TEAM,
)


class Memory:
    """The messages that the conversations' workflows have stored."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def said(self, thread: Thread) -> list[str]:
        """The stored messages of people in a thread, as they read now."""
        query = """
        SELECT m.message_text FROM conversation_messages m JOIN conversations v
          ON v.id = m.conversation_id
        WHERE v.channel = :channel AND v.thread_ts = :ts AND m.message_type = 'message'
          AND m.redacted_at IS NULL
        ORDER BY m.said_at
        """
        async with self._database.begin() as tx:
            where = {"channel": thread.channel, "ts": thread.ts}
            return list((await tx.execute(text(query), where)).scalars())

    async def keep(self, thread: Thread, message: IncomingMessage) -> None:
        async with self._database.begin() as tx:
            await MessageStore(tx).store(thread, [message])


class CatchUpWorkspace:
    """A workspace without a gateway, and a catch-up that stores the messages that it finds."""

    def __init__(
        self, database: Database, slack: FaultySlack, http: aiohttp.ClientSession
    ) -> None:
        self.database = database
        self.workspace = slack.workspace
        self.memory = Memory(database)
        self.sent: list[IncomingMessage] = []
        self._slack = SlackClient(make_web_client(identity.BOT_TOKEN, slack.api_url, http))
        self._history = History(self._slack)

    def activities(
        self,
        team: str = identity.TEAM,
        cases: Mapping[str, bool] = CHANNELS,
        talk: Collection[str] | None = (),
    ) -> LiveCatchUpActivities:
        return LiveCatchUpActivities(
            self.database,
            self._history,
            self._take,
            thread_sources(BOT),
            cases,
            team=team,
            bot_user_id=BOT,
            faults=InstallationFaults(
                self.database, Outbox(self._slack, self.database), identity.ESCALATIONS
            ),
            conversation_channels=talk,
            settle_time=0.0,
        )

    async def look(self, *, deep: bool = True, talk: Collection[str] | None = ()) -> list[str]:
        """One pass, as its workflow makes it; returns the kinds of the events that it handed over
        and that were taken.
        """
        before = len(self.sent)
        run = ActivityEnvironment().run
        work = self.activities(talk=talk)
        begun: CatchUpPlan = await run(work.plan_catch_up, PlanRequest(deep))
        for scope in LookScope:
            plan = replace(begun, scope=scope)
            for window in plan.windows:
                latest = window.latest if window.scope is scope else ""
                while latest:
                    latest = await run(
                        work.read_history_page, PageRequest(window, plan.began, latest)
                    )
                await run(work.record_channel, ChannelRead(window.channel, plan.deep))
            left = await run(work.select_threads, plan)
            while left:
                left = (await run(work.compare_threads, plan)).left
        return [message.kind for message in self.sent[before:]]

    async def _take(self, body: Mapping[str, Any]) -> Handled:
        found = route(body, ROUTING)
        if isinstance(found, Route) and found.target is RouteTarget.DIRECT_STOP:
            # The database answers for stored messages: Temporal is not asked, and there is none
            # here.
            found = await ThreadResolver(cast(Client, None), ThreadLookup(self.database)).resolve(
                found
            )
            assert isinstance(found, Ignored)
        if isinstance(found, Ignored):
            return Handled(found)
        if found.target is RouteTarget.FOLLOWED_THREAD and not await self.memory.said(
            found.thread
        ):
            return Handled("not_followed")
        self.sent.append(found.message)
        await self.memory.keep(found.thread, found.message)
        return Handled(found.target, signalled=True)

    async def say(
        self,
        text: str,
        root: SandboxMessage | None = None,
        *,
        user: str = REPORTER,
        kept: bool = True,
    ) -> SandboxMessage:
        return await self.say_in(GENERAL, text, root, user=user, kept=kept)

    async def say_in(
        self,
        channel: str,
        words: str,
        root: SandboxMessage | None = None,
        *,
        user: str = REPORTER,
        kept: bool = True,
    ) -> SandboxMessage:
        """Somebody writes; with `kept` the message was delivered and stored."""
        posted = self.workspace.post(channel, user, words, thread_ts=root.ts if root else "")
        if kept:
            body = {"type": "message", "channel": channel, **posted.as_slack()}
            body |= {"channel_type": "im"} if channel.startswith("D") else {}
            found = route({"team_id": identity.TEAM, "event": body}, ROUTING)
            assert isinstance(found, Route)
            await self.memory.keep(found.thread, found.message)
        return posted

    def message(self, posted: SandboxMessage) -> IncomingMessage:
        """The stored form of a message, addressed to the bot."""
        identity_ = message_id(identity.TEAM, posted.channel, posted.ts)
        return IncomingMessage(
            identity_,
            MessageKind.MESSAGE,
            SenderType.UNKNOWN,
            posted.user,
            posted.text,
            posted.channel,
            posted.ts,
            addressed=True,
        )

    def thread(self, root: SandboxMessage) -> Thread:
        return Thread(identity.TEAM, root.channel, root.ts)


@pytest.fixture
async def house(database: Database) -> AsyncIterator[CatchUpWorkspace]:
    async with (
        FaultySlack.running(retry_delays=(), ack_timeout=0.05) as slack,
        aiohttp.ClientSession() as http,
    ):
        yield CatchUpWorkspace(database, slack, http)


async def test_missed_messages_of_a_conversation_are_found_once(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} add three items")
    await house.say("for the shop", root)
    await house.say("and the totals", root, user=BYSTANDER, kept=False)
    await house.say(f"{CALL} please", root, kept=False)
    await house.say("stop", root, kept=False)

    assert await house.look(deep=False) == ["message", "message", "stop"]

    assert await house.memory.said(house.thread(root)) == [
        "add three items",
        "for the shop",
        "and the totals",
        "please",
    ]
    assert [message.addressed for message in house.sent] == [False, True, False]
    assert await house.look() == []


async def test_edits_and_deletions_in_a_conversation_are_found(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} add three items")
    typo = await house.say("for the shp", root)
    secret = await house.say("my card is 1234", root)
    house.workspace.edit(GENERAL, typo.ts, "for the shop")
    house.workspace.edit(GENERAL, root.ts, f"{CALL} add three  items", by=REPORTER)
    house.workspace.delete(GENERAL, secret.ts)
    await house.say_in(GENERAL, "lunch?", kept=False)

    assert await house.look() == ["edit", "edit"]
    assert await house.look() == ["deletion"]

    assert await house.memory.said(house.thread(root)) == ["add three  items", "for the shop"]
    assert await house.look() == []


async def test_edit_that_changes_only_the_mention_or_a_secret_is_ignored(
    house: CatchUpWorkspace,
) -> None:
    token = "gh" + "p_" + "a1B2" * 9
    root = await house.say(f"{CALL} use {token}")
    house.workspace.edit(GENERAL, root.ts, f"{CALL}: use {token}")

    assert await house.look() == []


async def test_direct_messages_before_and_after_the_delivered_one_are_found(
    house: CatchUpWorkspace,
) -> None:
    direct = house.workspace.open_im(REPORTER).id
    root = await house.say_in(direct, "add three items", kept=False)
    await house.say_in(direct, "for the shop", root)
    await house.say_in(direct, "and the totals", root, kept=False)

    assert await house.look() == ["message", "message"]
    assert all(message.addressed for message in house.sent)
    assert await house.memory.said(house.thread(root)) == [
        "add three items",
        "for the shop",
        "and the totals",
    ]


async def test_direct_stop_stored_in_another_thread_is_not_missing(
    house: CatchUpWorkspace,
) -> None:
    direct = house.workspace.open_im(REPORTER).id
    root = await house.say_in(direct, "add three items")
    await house.look(talk=None)
    stop = await house.say_in(direct, "stop", kept=False)
    heard = message_id(identity.TEAM, direct, stop.ts)
    await house.memory.keep(
        house.thread(root),
        IncomingMessage(
            heard, MessageKind.STOP, SenderType.UNKNOWN, REPORTER, "stop", direct, stop.ts
        ),
    )

    assert await house.look(talk=None) == []


async def test_messages_from_before_the_first_mention_are_not_read(
    house: CatchUpWorkspace,
) -> None:
    root = await house.say("lunch?", kept=False)
    await house.say("pizza", root, user=BYSTANDER, kept=False)
    await house.say(f"{CALL} where is good pizza?", root)
    await house.say("near the office", root, kept=False)

    assert await house.look(talk=[GENERAL]) == ["message"]

    assert await house.memory.said(house.thread(root)) == [
        "where is good pizza?",
        "near the office",
    ]


async def test_missed_mention_is_found_only_in_the_channels_of_the_setting(
    house: CatchUpWorkspace,
) -> None:
    await house.say(f"{CALL} before the first look", kept=False)
    assert await house.look(talk=[GENERAL]) == []
    elsewhere = house.workspace.create_channel("random", [BOT, REPORTER])
    await house.say_in(elsewhere.id, f"{CALL} are you there?", kept=False)
    asked = await house.say(f"{CALL} add three items", kept=False)
    chat = await house.say("lunch?", kept=False)
    await house.say("pizza", chat, user=BYSTANDER, kept=False)
    await house.say(f"{CALL} where is good pizza?", chat, kept=False)
    await house.say("near the office", chat, kept=False)
    await house.say("nobody answers this", kept=False)

    assert await house.look(deep=False, talk=[GENERAL]) == ["message"] * 3

    assert await house.memory.said(house.thread(asked)) == ["add three items"]
    assert await house.memory.said(house.thread(chat)) == [
        "where is good pizza?",
        "near the office",
    ]
    assert await house.look(talk=[GENERAL]) == []


async def test_thread_with_a_deleted_first_message_is_still_followed(
    house: CatchUpWorkspace,
) -> None:
    root = await house.say(f"{CALL} add three items")
    await house.say("for the shop", root, kept=False)
    house.workspace.delete(GENERAL, root.ts)

    assert sorted(await house.look()) == ["deletion", "message"]
    assert await house.memory.said(house.thread(root)) == ["for the shop"]


async def test_messages_of_bots_are_not_missing(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} add three items")
    for bot in (identity.BOT_ID, "B0OTHER"):
        house.workspace.post(GENERAL, BOT, f"{CALL} done", thread_ts=root.ts, bot_id=bot)

    assert await house.look() == []


async def test_channel_that_the_bot_was_removed_from_is_no_error(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} hi")
    other = house.workspace.create_channel("random", [BOT, REPORTER])
    still = await house.say_in(other.id, f"{CALL} hi")
    await house.say_in(other.id, "and more", still, kept=False)
    await house.say("never seen", root, kept=False)
    house.workspace.leave(GENERAL, BOT)

    assert await house.look() == ["message"]

    async with house.database.begin() as tx:
        assert await CatchUpStore(tx, identity.TEAM).failed_threads(0) == []


async def test_followed_thread_is_still_followed_after_a_restart(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} add three items")
    await house.look()
    async with house.database.begin() as tx:
        await CatchUpStore(tx, identity.TEAM, CHANNELS, [CONVERSATION]).unfollow_others(CHANNELS)
        rows = await tx.execute(text("SELECT channel, thread_ts FROM catch_up_threads"))
        assert [tuple(row) for row in rows] == [(GENERAL, root.ts)]


async def test_shallow_pass_compares_the_thread_compared_longest_ago(
    house: CatchUpWorkspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.catch_up.MAX_UNCHANGED", 1)
    roots = [await house.say(f"{CALL} number {number}") for number in range(4)]
    await house.look()
    for root in roots:
        await house.say("more", root, kept=False)  # no event reports this

    assert await house.look(deep=False) == ["message"], "in the one that was compared longest ago"
    assert await house.look() == ["message"] * 3


async def test_pruned_conversation_is_not_followed(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} add three items")
    await house.say("for the shop", root, kept=False)
    async with house.database.begin() as tx:
        await tx.execute(text("DELETE FROM conversation_messages"))
        await tx.execute(text("UPDATE conversations SET stored = 0"))

    assert await house.look() == []


async def test_conversation_that_restarts_after_pruning_is_compared_from_its_restart(
    house: CatchUpWorkspace,
) -> None:
    posts = house.workspace.channel(GENERAL).messages
    first = await house.say(f"{CALL} add three items", kept=False)
    ts = f"{float(first.ts) - 3600:.6f}"
    posts[ts] = root = replace(posts.pop(first.ts), ts=ts)
    await house.memory.keep(house.thread(root), house.message(root))
    await house.look()
    async with house.database.begin() as tx:
        assert await ConversationStore(tx).prune(time.time() + 60) == 1
    await house.say("for the shop", root, kept=False)
    assert await house.look() == [], "the thread has no owner"

    await house.say(f"{CALL} add one more", root)
    await house.say("and the totals", root, kept=False)

    assert await house.look() == ["message"]
    assert await house.memory.said(house.thread(root)) == ["add one more", "and the totals"]


async def test_catch_up_of_another_workspace_leaves_channels_and_threads_alone(
    house: CatchUpWorkspace,
) -> None:
    await house.look(talk=[GENERAL])
    asked = await house.say(f"{CALL} add three items", kept=False)
    other = house.activities("T0OTHER", {"C0OTHER": False})
    run = ActivityEnvironment().run
    plan = await run(other.plan_catch_up, PlanRequest(deep=True))
    assert [
        await run(other.select_threads, replace(plan, scope=scope)) for scope in LookScope
    ] == [
        0,
        0,
    ]

    assert await house.look(deep=False, talk=[GENERAL]) == ["message"]
    assert await house.memory.said(house.thread(asked)) == ["add three items"]


async def test_stop_reaction_is_not_taken_for_a_deleted_message(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} add three items")
    at = f"{float(root.ts) + 0.5:.6f}"
    stop = stop_id(identity.TEAM, GENERAL, root.ts, BYSTANDER, at)
    await house.memory.keep(
        house.thread(root),
        IncomingMessage(stop, MessageKind.STOP, SenderType.UNKNOWN, BYSTANDER, "", GENERAL, at),
    )

    assert await house.look() == []


async def test_deletion_is_found_when_only_the_edit_was_delivered(house: CatchUpWorkspace) -> None:
    root = await house.say(f"{CALL} hi")
    said = await house.say("my card number is 1", root, kept=False)
    original = message_id(identity.TEAM, GENERAL, said.ts)
    edit = IncomingMessage(
        f"{original}:e1",
        MessageKind.EDIT,
        SenderType.UNKNOWN,
        REPORTER,
        "my card number is 1234",
        GENERAL,
        said.ts,
        original,
    )
    await house.memory.keep(house.thread(root), edit)
    house.workspace.delete(GENERAL, said.ts)
    await house.say_in(GENERAL, "lunch?", kept=False)

    assert [await house.look() for _ in range(2)] == [[], ["deletion"]]
    assert house.sent[0].correction_of == original
