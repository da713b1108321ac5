"""After a restore a post is searched in Slack before it is sent; a post that answers other
messages is sent.
"""

import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import text

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.slack import Clock
from threadline.cases.model import SUMMARY, case_owner
from threadline.db.engine import Database
from threadline.errors import NotDone
from threadline.slack import formatting
from threadline.slack.client import SlackClient
from threadline.slack.model import Thread
from threadline.threads.basis import Basis
from threadline.threads.installation_store import RestoreWindow
from threadline.threads.lost_posts import LostPosts
from threadline.threads.outbox import Outbox, Post
from threadline.threads.store import PostStore, ThreadStore
from threadline_devstack.slack.identity import DEVELOPER, REPORTS, SUMMARIES, TEAM
from threadline_devstack.slack.model import SandboxMessage


class Timeline:
    """An outbox before a restore, and one after it whose database has lost the posts."""

    def __init__(
        self, sandbox: FaultySlack, slack: SlackClient, database: Database, clock: Clock
    ) -> None:
        self.sandbox = sandbox
        self.slack = slack
        self.database = database
        self.clock = clock
        self.root = self.say("the cart is wrong")
        self.thread = Thread(TEAM, REPORTS, self.root)
        self.outbox = Outbox(slack, database, clock.rising)

    def say(self, words: str, thread: str = "") -> str:
        return self.sandbox.workspace.post(REPORTS, DEVELOPER, words, thread_ts=thread).ts

    def reply(self, words: str) -> str:
        return self.say(words, self.root)

    def answer(self, key: str, *asked: str, words: str = "Found it.") -> Post:
        basis = Basis("answer", self.thread.key, asked, asked)
        return Post(key, REPORTS, self.root, formatting.notice(words), basis=basis)

    async def restore(self) -> None:
        self.clock.now += 1
        window = RestoreWindow(self.clock.began - 10, self.clock.now)
        async with self.database.begin() as tx:
            await tx.execute(text("DELETE FROM posts"))
            await tx.execute(text("DELETE FROM threads"))
        self.outbox = Outbox(
            self.slack, self.database, self.clock.rising, LostPosts(self.slack, window)
        )
        self.clock.now += 1

    def said(self, channel: str = REPORTS) -> list[SandboxMessage]:
        found = self.sandbox.workspace.channel(channel).messages.values()
        return [message for message in found if message.bot_id]

    async def known(self, key: str) -> str | None:
        async with self.database.begin() as tx:
            return await PostStore(tx).ts_of(key)


@pytest.fixture
async def lost(
    sandbox: FaultySlack,
    slack: SlackClient,
    database: Database,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> Timeline:
    monkeypatch.setattr(time, "time", clock)
    return Timeline(sandbox, slack, database, clock)


async def test_a_lost_answer_is_recorded_and_not_sent(lost: Timeline) -> None:
    asked = lost.reply("why?")
    ts = await lost.outbox.publish(lost.answer("turn:2", asked))
    await lost.restore()
    assert await lost.outbox.publish(lost.answer("turn:2", asked, words="In other words.")) == ts
    assert await lost.known("turn:2") == ts
    assert [each.ts for each in lost.said()] == [ts]


async def test_an_answer_to_another_message_under_a_lost_key_is_sent(lost: Timeline) -> None:
    first = await lost.outbox.publish(lost.answer("turn:2", lost.reply("why?")))
    await lost.restore()
    ts = await lost.outbox.publish(lost.answer("turn:2", lost.reply("and the other cart?")))
    assert ts != first
    assert await lost.known("turn:2") == ts
    assert len(lost.said()) == 2


async def test_a_send_that_is_not_known_to_have_arrived_is_not_taken_for_the_lost_one(
    lost: Timeline,
) -> None:
    """The search of a retry finds the lost post under the same key."""
    first = await lost.outbox.publish(lost.answer("turn:2", lost.reply("why?")))
    await lost.restore()
    post = lost.answer("turn:2", lost.reply("and the other cart?"))
    lost.sandbox.faults.fail_after("chat.postMessage")
    with pytest.raises(Exception, match="Slack"):
        await lost.outbox.publish(post)
    ts = await lost.outbox.publish(post)
    assert ts != first
    assert [each.ts for each in lost.said()] == [first, ts]


async def test_each_post_after_the_restore_is_sent_once(lost: Timeline) -> None:
    await lost.restore()
    posts = [
        lost.answer(f"turn:{number}", lost.reply(f"question {number}")) for number in range(3)
    ]
    first = [await lost.outbox.publish(each) for each in posts]
    assert [await lost.outbox.publish(each) for each in posts] == first
    assert len(lost.said()) == 3


async def test_a_lost_root_gets_its_owner_again(lost: Timeline) -> None:
    owner = case_owner(lost.thread, SUMMARY)
    basis = Basis.of_thread("summary", lost.thread)
    root = Post("BUG-1:summary", SUMMARIES, None, formatting.notice("A case."), owner, basis=basis)
    ts = await lost.outbox.publish(root)
    other = replace(root, basis=Basis.of_thread("summary", replace(lost.thread, ts="5.000005")))
    await lost.restore()
    assert await lost.outbox.publish(root) == ts
    async with lost.database.begin() as tx:
        assert await ThreadStore(tx).owner(Thread(TEAM, SUMMARIES, ts)) == owner
    assert await lost.outbox.publish(replace(other, key="BUG-2:summary")) != ts
    assert len(lost.said(SUMMARIES)) == 2


async def test_a_post_without_a_basis_is_sent(lost: Timeline) -> None:
    post = replace(lost.answer("fault:1", lost.root), basis=None)
    await lost.outbox.publish(post)
    await lost.restore()
    await lost.outbox.publish(post)
    assert len(lost.said()) == 2


async def test_no_post_is_sent_or_claimed_while_slack_cannot_be_searched(lost: Timeline) -> None:
    asked = lost.reply("why?")
    await lost.outbox.publish(lost.answer("turn:2", asked))
    await lost.restore()
    lost.sandbox.faults.fail_before("conversations.replies")
    with pytest.raises(NotDone):
        await lost.outbox.publish(lost.answer("turn:2", asked))
    await lost.outbox.publish(lost.answer("turn:2", asked))
    assert len(lost.said()) == 1


async def test_the_bot_posts_in_a_channel_that_it_may_not_read(lost: Timeline) -> None:
    await lost.restore()
    lost.sandbox.faults.refuse("conversations.replies", "missing_scope")
    await lost.outbox.publish(lost.answer("turn:2", lost.root))
    assert len(lost.said()) == 1


async def test_a_thread_is_read_once_and_a_new_one_never(
    lost: Timeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    await lost.restore()
    read = []
    own_posts = lost.slack.own_posts

    def counted(
        channel: str, thread_ts: str | None, oldest: float
    ) -> AsyncGenerator[tuple[str, Mapping[str, Any]]]:
        read.append(thread_ts)
        return own_posts(channel, thread_ts, oldest)

    monkeypatch.setattr(lost.slack, "own_posts", counted)
    for number in range(3):
        await lost.outbox.publish(lost.answer(f"turn:{number}", lost.root))
    lost.clock.now += 3600
    new = lost.say("something else")
    basis = Basis("answer", "other", (new,), (new,))
    await lost.outbox.publish(Post("new", REPORTS, new, formatting.notice("Hello."), basis=basis))
    assert read == [lost.root]


async def test_a_case_gets_the_number_that_it_had(lost: Timeline) -> None:
    basis = Basis.of_thread("intake:0", lost.thread)
    await lost.outbox.publish(
        Post(
            "BUG-7:intake:0", REPORTS, lost.root, formatting.notice("I look into it."), basis=basis
        )
    )
    other = replace(lost.thread, ts=lost.say("another report"))
    await lost.restore()
    assert await lost.outbox.lost.case_number(lost.thread) == "BUG-7"
    assert await lost.outbox.lost.case_number(other) == ""
