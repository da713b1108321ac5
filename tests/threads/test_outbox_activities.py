"""One visible post per key, whatever happens between sending and remembering."""

import asyncio
from dataclasses import replace

import pytest

from tests.slack.ledger import MemoryLedger
from tests.support.slack import Clock
from threadline.errors import Permanent, Transient
from threadline.slack import formatting
from threadline.slack.client import HTTP_TOTAL, POST_EVENT, Slack
from threadline.slack.formatting import Rendered
from threadline.threads.outbox_posts import GRACE, LEASE, ROOT_GRACE, Post, Posts
from threadline_devstack.slack import SlackSandbox
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, DEVELOPER, SUMMARIES
from threadline_devstack.slack.model import Message

SEND = "chat.postMessage"


@pytest.fixture
def ledger() -> MemoryLedger:
    return MemoryLedger()


@pytest.fixture
def posts(slack: Slack, ledger: MemoryLedger, clock: Clock) -> Posts:
    return Posts(slack, ledger, clock)


@pytest.fixture
async def reply(sandbox: SlackSandbox) -> Post:
    root = sandbox.workspace.post(SUMMARIES, DEVELOPER, "the thread").ts
    return Post("BUG-1:2:findings", SUMMARIES, root, formatting.notice("Found it."), case="BUG-1", kind="findings")


@pytest.fixture
async def opening(reply: Post) -> Post:
    return replace(reply, key="BUG-1:root", thread_ts=None)


def _visible(sandbox: SlackSandbox) -> list[Message]:
    return [message for message in sandbox.workspace.channel(SUMMARIES).messages.values() if message.bot_id]


async def _interrupted(posts: Posts, post: Post) -> Transient:
    with pytest.raises(Transient) as caught:
        await posts.publish(post)
    return caught.value


async def test_post_carries_its_key_and_is_not_sent_again(sandbox: SlackSandbox, posts: Posts, reply: Post) -> None:
    ts = await posts.publish(reply)
    assert await posts.publish(reply) == ts
    (message,) = _visible(sandbox)
    assert (message.ts, message.thread_ts, message.text) == (ts, reply.thread_ts, "Found it.")
    payload = {"key": "BUG-1:2:findings", "bug_id": "BUG-1"}
    assert message.metadata == {"event_type": POST_EVENT, "event_payload": payload}


async def test_failure_before_storing_ends_in_one_message(
    sandbox: SlackSandbox, posts: Posts, reply: Post, clock: Clock
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(posts, reply)
    assert (await _interrupted(posts, reply)).retry_after == LEASE
    assert _visible(sandbox) == []
    clock.now += LEASE
    ts = await posts.publish(reply)
    assert [message.ts for message in _visible(sandbox)] == [ts]


@pytest.mark.parametrize("ahead", [0, 240])
async def test_failure_after_storing_ends_in_one_message_though_clocks_differ(
    sandbox: SlackSandbox, slack: Slack, ledger: MemoryLedger, reply: Post, clock: Clock, ahead: float
) -> None:
    posts = Posts(slack, ledger, lambda: clock() + ahead)
    sandbox.faults.fail_after(SEND)
    await _interrupted(posts, reply)
    clock.now += LEASE
    ts = await posts.publish(reply)
    assert [message.ts for message in _visible(sandbox)] == [ts]
    assert ledger.rows[reply.key].ts == ts


async def test_store_that_is_slower_than_the_call_is_waited_for(
    sandbox: SlackSandbox, posts: Posts, reply: Post, clock: Clock
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(posts, reply)
    clock.now += GRACE
    assert (await _interrupted(posts, reply)).retry_after == LEASE - GRACE
    stored = {"event_type": POST_EVENT, "event_payload": {"key": reply.key, "bug_id": "BUG-1"}}
    late = sandbox.workspace.post(
        SUMMARIES, BOT_USER, "Found it.", thread_ts=reply.thread_ts or "", bot_id=BOT_ID, metadata=stored
    )
    clock.now += LEASE - GRACE
    assert await posts.publish(reply) == late.ts
    assert _visible(sandbox) == [late]


async def test_look_waits_until_the_slowest_store_could_have_ended(
    sandbox: SlackSandbox, slack: Slack, reply: Post, clock: Clock
) -> None:
    ledger = MemoryLedger()
    await ledger.claim(reply, clock(), lease_s=1)
    clock.now += 15
    fault = await _interrupted(Posts(slack, ledger, clock), reply)
    assert fault.retry_after == 25
    assert _visible(sandbox) == []


async def test_attempt_after_a_rate_limit_or_refusal_sends_at_once(
    sandbox: SlackSandbox, posts: Posts, reply: Post
) -> None:
    sandbox.faults.rate_limit(SEND, retry_after=40)
    assert (await _interrupted(posts, reply)).retry_after == 40
    sandbox.workspace.leave(SUMMARIES, BOT_USER)
    with pytest.raises(Permanent, match="/invite"):
        await posts.publish(reply)
    sandbox.workspace.join(SUMMARIES, BOT_USER)
    await posts.publish(reply)
    assert len(_visible(sandbox)) == 1


async def test_post_that_was_sent_and_not_remembered_is_found(
    sandbox: SlackSandbox, slack: Slack, opening: Post, clock: Clock
) -> None:
    class Forgetful(MemoryLedger):
        async def done(self, key: str, ts: str) -> None:
            self.done = super().done  # type: ignore[method-assign]  # forgets once
            raise Transient("the database is away")

    posts = Posts(slack, Forgetful(), clock)
    await _interrupted(posts, opening)
    clock.now += HTTP_TOTAL + ROOT_GRACE
    ts = await posts.publish(opening)
    assert [message.ts for message in _visible(sandbox)] == [ts]


async def test_root_that_never_arrived_is_sent_again_after_a_longer_wait(
    sandbox: SlackSandbox, posts: Posts, opening: Post, clock: Clock
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(posts, opening)
    clock.now += LEASE
    with pytest.raises(Transient, match=opening.key) as too_early:
        await posts.publish(opening)
    assert too_early.value.retry_after
    clock.now += too_early.value.retry_after
    ts = await posts.publish(opening)
    assert [message.ts for message in _visible(sandbox)] == [ts]


async def test_careful_post_is_left_to_a_person(sandbox: SlackSandbox, posts: Posts, reply: Post, clock: Clock) -> None:
    post = replace(reply, careful=True)
    sandbox.faults.fail_before(SEND)
    await _interrupted(posts, post)
    clock.now += LEASE
    for _ in range(2):
        with pytest.raises(Permanent, match=SUMMARIES):
            await posts.publish(post)
    assert _visible(sandbox) == []


async def test_refused_post_is_not_sent(sandbox: SlackSandbox, posts: Posts, ledger: MemoryLedger, reply: Post) -> None:
    ledger.refused.add("findings")
    assert await posts.publish(reply) == ""
    assert _visible(sandbox) == []


async def test_long_text_is_posted_in_parts_in_the_thread_of_the_first(
    sandbox: SlackSandbox, posts: Posts, ledger: MemoryLedger, opening: Post
) -> None:
    long = replace(opening, rendered=formatting.notice("word " * 5_000))
    ts = await posts.publish(long)
    messages = _visible(sandbox)
    assert [(message.ts == ts, message.thread_ts) for message in messages] == [(True, ""), (False, ts), (False, ts)]
    assert list(ledger.rows) == ["BUG-1:root", "BUG-1:root#2", "BUG-1:root#3"]
    assert sum(block["text"].count("word") for message in messages for block in message.blocks) == 5_000


async def test_parts_go_on_where_they_were_interrupted(
    sandbox: SlackSandbox, posts: Posts, reply: Post, clock: Clock
) -> None:
    long = replace(reply, rendered=formatting.notice("word " * 5_000))
    sandbox.faults.slow(SEND, 0)
    sandbox.faults.fail_after(SEND)  # the second part
    await _interrupted(posts, long)
    clock.now += LEASE
    first = await posts.publish(long)
    keys = [(message.metadata or {})["event_payload"]["key"] for message in _visible(sandbox)]
    assert keys == [reply.key, f"{reply.key}#2", f"{reply.key}#3"]
    assert _visible(sandbox)[0].ts == first


@pytest.mark.parametrize("abandoned", [False, True])
async def test_of_several_attempts_at_once_one_posts(
    sandbox: SlackSandbox, posts: Posts, ledger: MemoryLedger, reply: Post, clock: Clock, abandoned: bool
) -> None:
    if abandoned:
        await ledger.claim(reply, clock(), LEASE)
        clock.now += LEASE
    results = await asyncio.gather(*(posts.publish(reply) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(result, (str, Transient)) for result in results)
    assert len(_visible(sandbox)) == 1


async def test_message_whose_blocks_slack_refuses_is_posted_as_text(
    sandbox: SlackSandbox, posts: Posts, reply: Post
) -> None:
    table = {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}]]}
    refused = Rendered("Found it.", (table, table))
    ts = await posts.publish(replace(reply, rendered=(refused,)))
    assert await posts.publish(reply) == ts
    (message,) = _visible(sandbox)
    assert (message.ts, message.text, message.blocks) == (ts, "Found it.", [])
