"""Each key leads to one visible post, also after a failure between sending and recording."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import insert, select

from tests.support.faulty_sandboxes import FaultySlack
from tests.support.patience import patient
from tests.support.slack import Clock
from threadline.cases.tables import services
from threadline.db.engine import Database, Transaction
from threadline.errors import Mendable, NotDone, Permanent, Transient
from threadline.slack import formatting
from threadline.slack.client import CALL_TIMEOUT, POST_EVENT, SlackClient
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads import store
from threadline.threads.model import ThreadOwner
from threadline.threads.outbox import (
    CLAIM_GOOD_FOR,
    LOOK_AGAIN,
    RESEND_AFTER,
    RESEND_ROOT_AFTER,
    Outbox,
    Post,
)
from threadline.threads.store import PostClaim, PostStore, ThreadStore
from threadline.threads.tables import posts
from threadline_devstack.processes import poll
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, DEVELOPER, SUMMARIES
from threadline_devstack.slack.model import SandboxMessage

SEND = "chat.postMessage"
TABLE = {"type": "table", "rows": [[{"type": "raw_text", "text": "a"}]]}
"""Slack accepts one in a message."""


@pytest.fixture
def outbox(slack: SlackClient, database: Database, clock: Clock) -> Outbox:
    return Outbox(slack, database, clock.rising)


@pytest.fixture
async def reply(sandbox: FaultySlack) -> Post:
    root = sandbox.workspace.post(SUMMARIES, DEVELOPER, "the thread").ts
    return Post("BUG-1:2:findings", SUMMARIES, root, formatting.notice("Found it."))


@pytest.fixture
async def opening(reply: Post) -> Post:
    return replace(reply, key="BUG-1:root", thread_ts=None)


async def posted(database: Database, key: str) -> str | None:
    async with database.begin() as tx:
        return await PostStore(tx).ts_of(key)


async def claims(database: Database) -> dict[str, str | None]:
    """Return every key of the table, and the place of its post."""
    async with database.begin() as tx:
        return {row.key: row.ts for row in await tx.execute(select(posts.c.key, posts.c.ts))}


def _visible(sandbox: FaultySlack) -> list[SandboxMessage]:
    return [
        message
        for message in sandbox.workspace.channel(SUMMARIES).messages.values()
        if message.bot_id
    ]


async def _interrupted(outbox: Outbox, post: Post) -> Transient:
    with pytest.raises(Transient) as caught:
        await outbox.publish(post)
    return caught.value


async def test_post_carries_its_key_and_is_not_sent_again(
    sandbox: FaultySlack, outbox: Outbox, reply: Post
) -> None:
    ts = await outbox.publish(reply)
    assert await outbox.publish(reply) == ts
    (message,) = _visible(sandbox)
    assert (message.ts, message.thread_ts, message.text) == (ts, reply.thread_ts, "Found it.")
    payload = {"key": "BUG-1:2:findings"}
    assert message.metadata == {"event_type": POST_EVENT, "event_payload": payload}


async def test_failure_before_storing_ends_in_one_message(
    sandbox: FaultySlack, outbox: Outbox, clock: Clock, reply: Post
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(outbox, reply)
    assert (await _interrupted(outbox, reply)).retry_after == LOOK_AGAIN
    clock.now += RESEND_AFTER - 1
    assert (await _interrupted(outbox, reply)).retry_after == 1
    assert _visible(sandbox) == []
    clock.now += 1
    ts = await outbox.publish(reply)
    assert [message.ts for message in _visible(sandbox)] == [ts]


@pytest.mark.parametrize("ahead", [0, 240])
async def test_failure_after_storing_ends_in_one_message_though_clocks_differ(
    sandbox: FaultySlack,
    outbox: Outbox,
    database: Database,
    reply: Post,
    monkeypatch: pytest.MonkeyPatch,
    clock: Clock,
    ahead: float,
) -> None:
    monkeypatch.setattr(store, "POSTGRES_CLOCK", store.POSTGRES_CLOCK + ahead)
    sandbox.faults.fail_after(SEND)
    await _interrupted(outbox, reply)
    ts = await outbox.publish(reply)
    assert [message.ts for message in _visible(sandbox)] == [ts]
    assert await posted(database, reply.key) == ts


@pytest.mark.parametrize("stored", [True, False])
async def test_post_in_doubt_is_settled_once_it_could_have_arrived(
    sandbox: FaultySlack,
    outbox: Outbox,
    database: Database,
    clock: Clock,
    reply: Post,
    *,
    stored: bool,
) -> None:
    (sandbox.faults.fail_after if stored else sandbox.faults.fail_before)(SEND)
    await _interrupted(outbox, reply)
    await outbox.settle("BUG-1:1:")
    await outbox.settle("BUG-_:")
    assert await claims(database) == {reply.key: None}, "it is another post"
    if not stored:
        with pytest.raises(Transient) as early:
            await outbox.settle("BUG-1:")
        assert early.value.retry_after == LOOK_AGAIN
        clock.now += RESEND_AFTER
    await outbox.settle("BUG-1:")
    shown = [message.ts for message in _visible(sandbox)]
    assert len(shown) == stored
    assert await claims(database) == ({reply.key: shown[0]} if stored else {})
    await outbox.publish(reply)
    assert len(_visible(sandbox)) == 1


async def test_post_stays_in_doubt_while_the_search_is_refused_and_not_when_its_thread_is_gone(
    sandbox: FaultySlack, outbox: Outbox, database: Database, clock: Clock, reply: Post
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(outbox, reply)
    clock.now += RESEND_AFTER
    sandbox.faults.denied = "invalid_auth"
    with pytest.raises(Mendable):
        await outbox.settle("BUG-1:")
    assert await claims(database) == {reply.key: None}
    sandbox.faults.denied = "thread_not_found"
    await outbox.settle("BUG-1:")
    assert await claims(database) == {}


async def test_store_that_is_slower_than_the_call_is_waited_for(
    sandbox: FaultySlack, outbox: Outbox, clock: Clock, reply: Post
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(outbox, reply)
    clock.now += RESEND_AFTER - 5
    assert (await _interrupted(outbox, reply)).retry_after == pytest.approx(5, abs=1)
    stored = {"event_type": POST_EVENT, "event_payload": {"key": reply.key}}
    late = sandbox.workspace.post(
        SUMMARIES,
        BOT_USER,
        "Found it.",
        thread_ts=reply.thread_ts or "",
        bot_id=BOT_ID,
        metadata=stored,
    )
    assert await outbox.publish(reply) == late.ts
    assert _visible(sandbox) == [late]


async def test_message_that_is_stored_during_the_last_early_search_is_not_sent_again(
    sandbox: FaultySlack,
    slack: SlackClient,
    outbox: Outbox,
    clock: Clock,
    reply: Post,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search sees Slack in its state before the moment from which the message may be sent
    again.
    """
    sandbox.faults.fail_before(SEND)
    await _interrupted(outbox, reply)
    clock.now += RESEND_AFTER - 1
    find = slack.find_post

    async def slow(channel: str, thread_ts: str | None, key: str, oldest: float) -> str | None:
        found = await find(channel, thread_ts, key, oldest)
        clock.now += 2
        return found

    monkeypatch.setattr(slack, "find_post", slow)
    await _interrupted(outbox, reply)
    assert _visible(sandbox) == []


async def test_cancelled_attempt_ends_its_call_and_records_it(
    sandbox: FaultySlack, outbox: Outbox, database: Database, reply: Post
) -> None:
    sandbox.faults.slow(SEND, 0.2)
    sending = asyncio.create_task(outbox.publish(reply))
    async for _ in poll(10, every=0.01):
        if _visible(sandbox):
            break
    sending.cancel()
    with pytest.raises(asyncio.CancelledError):
        await sending
    assert await posted(database, reply.key) == _visible(sandbox)[0].ts


async def test_attempt_after_a_rate_limit_or_refusal_sends_at_once(
    sandbox: FaultySlack, outbox: Outbox, reply: Post
) -> None:
    sandbox.faults.rate_limit(SEND, retry_after=40)
    assert (await _interrupted(outbox, reply)).retry_after == 40
    sandbox.workspace.leave(SUMMARIES, BOT_USER)
    with pytest.raises(Permanent, match="/invite"):
        await outbox.publish(reply)
    sandbox.workspace.join(SUMMARIES, BOT_USER)
    await outbox.publish(reply)
    assert len(_visible(sandbox)) == 1


async def test_post_that_was_sent_and_not_remembered_is_found(
    sandbox: FaultySlack,
    outbox: Outbox,
    database: Database,
    opening: Post,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remembered = list[str]()

    async def remember(tx: Transaction, ts: str) -> None:
        remembered.append(ts)

    async def away(*_: object) -> None:
        raise Transient("the database is away")

    owner = ThreadOwner("bug:T1:C1:1700000000.000100", "case:summary")
    root = replace(opening, opens=owner, on_posted=remember)
    with monkeypatch.context() as patched:
        for name in ("record_posted", "record_unfinished"):
            patched.setattr(PostStore, name, away)
        await _interrupted(outbox, root)
    assert await posted(database, root.key) is None
    ts = await outbox.publish(root)
    assert [message.ts for message in _visible(sandbox)] == [ts]
    assert remembered == [ts], "a found post is recorded, too"
    async with database.begin() as tx:
        assert await ThreadStore(tx).owner(Thread("T1", SUMMARIES, ts)) == owner
    [message] = _visible(sandbox)
    named = {"key": root.key, "workflow_id": owner.workflow_id, "kind": owner.kind}
    assert message.metadata == {"event_type": POST_EVENT, "event_payload": named}


@pytest.mark.parametrize(
    "fault", [Transient("the database is away"), Permanent("refused"), RuntimeError("a bug")]
)
async def test_post_whose_record_failed_is_recorded_later_and_not_sent_again(
    sandbox: FaultySlack,
    outbox: Outbox,
    clock: Clock,
    database: Database,
    opening: Post,
    fault: Exception,
) -> None:
    """The message is deleted meanwhile, so a search would not find it."""
    calls = list[str]()
    service = dict.fromkeys(("description", "owner", "channel", "repository"), "")

    async def remember(tx: Transaction, ts: str) -> None:
        calls.append(ts)
        await tx.execute(insert(services).values(service | {"name": f"service {len(calls)}"}))
        if len(calls) < 3:
            raise fault

    owner = ThreadOwner("bug:T1:C1:1700000000.000100", "case:summary")
    root = replace(opening, opens=owner, on_posted=remember)
    with pytest.raises(type(fault)):
        await outbox.publish(root)
    [message] = _visible(sandbox)
    sandbox.workspace.delete(SUMMARIES, message.ts)
    place = Thread("T1", SUMMARIES, message.ts)
    assert await posted(database, root.key) == message.ts
    with pytest.raises(type(fault)):
        await outbox.publish(root)
    async with database.begin() as tx:
        assert await ThreadStore(tx).owner(place) is None
    clock.now += RESEND_ROOT_AFTER
    for _ in range(2):
        assert await outbox.publish(root) == message.ts
    assert calls == [message.ts] * 3, "a recorded post is not recorded again"
    assert _visible(sandbox) == []
    async with database.begin() as tx:
        assert await ThreadStore(tx).owner(place) == owner
        assert list((await tx.execute(select(services.c.name))).scalars()) == ["service 3"]


async def test_attempt_that_was_frozen_after_its_claim_sends_nothing(
    sandbox: FaultySlack, outbox: Outbox, database: Database, reply: Post, clock: Clock
) -> None:
    async with database.begin() as tx:
        claim = await outbox.claim(tx, reply)
    clock.now += CLAIM_GOOD_FOR + 1
    await _interrupted(outbox, replace(reply, claim=claim))
    assert _visible(sandbox) == []
    ts = await outbox.publish(reply)
    await _interrupted(outbox, replace(reply, claim=claim))
    assert [message.ts for message in _visible(sandbox)] == [ts]


async def test_attempt_whose_machine_was_suspended_after_its_claim_sends_nothing(
    sandbox: FaultySlack,
    slack: SlackClient,
    database: Database,
    reply: Post,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """During the suspension only one of the system's monotonic clocks goes on."""
    monkeypatch.setattr(
        time,
        "clock_gettime",
        lambda which: clock.rising() if which == time.CLOCK_BOOTTIME else 0.0,
    )
    outbox = Outbox(slack, database)
    async with database.begin() as tx:
        claim = await outbox.claim(tx, reply)
    clock.now += CLAIM_GOOD_FOR + 1
    await _interrupted(outbox, replace(reply, claim=claim))
    assert _visible(sandbox) == []


async def test_search_that_slack_refuses_is_no_refusal_of_the_post(
    sandbox: FaultySlack, outbox: Outbox, clock: Clock, reply: Post
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(outbox, reply)
    sandbox.faults.refuse("conversations.replies", "missing_scope")
    assert (await _interrupted(outbox, reply)).retry_after == LOOK_AGAIN
    clock.now += RESEND_AFTER
    assert await outbox.publish(reply)


async def test_root_that_never_arrived_is_sent_again_after_a_longer_wait(
    sandbox: FaultySlack, outbox: Outbox, clock: Clock, opening: Post
) -> None:
    sandbox.faults.fail_before(SEND)
    await _interrupted(outbox, opening)
    clock.now += RESEND_AFTER
    with pytest.raises(Transient, match=opening.key) as too_early:
        await outbox.publish(opening)
    assert too_early.value.retry_after == LOOK_AGAIN
    clock.now += RESEND_ROOT_AFTER - RESEND_AFTER
    ts = await outbox.publish(opening)
    assert [message.ts for message in _visible(sandbox)] == [ts]


async def test_refused_post_is_not_sent(sandbox: FaultySlack, outbox: Outbox, reply: Post) -> None:
    async def never(tx: Transaction) -> bool:
        return False

    assert await outbox.publish(replace(reply, valid_if=never)) == ""
    assert _visible(sandbox) == []


async def test_long_text_is_posted_in_parts_in_the_thread_of_the_first(
    sandbox: FaultySlack, outbox: Outbox, database: Database, opening: Post
) -> None:
    long = replace(opening, rendered=formatting.notice("word " * 5_000))
    ts = await outbox.publish(long)
    messages = _visible(sandbox)
    assert [(message.ts == ts, message.thread_ts) for message in messages] == [
        (True, ""),
        (False, ts),
        (False, ts),
    ]
    async with database.begin() as tx:
        assert await PostStore(tx).part_timestamps("BUG-1:root") == [
            message.ts for message in messages
        ]
    assert (
        sum(block["text"].count("word") for message in messages for block in message.blocks)
        == 5_000
    )


async def test_parts_go_on_where_they_were_interrupted(
    sandbox: FaultySlack, outbox: Outbox, reply: Post, clock: Clock
) -> None:
    long = replace(reply, rendered=formatting.notice("word " * 5_000))
    sandbox.faults.slow(SEND, 0)
    sandbox.faults.fail_after(SEND)  # the second part
    await _interrupted(outbox, long)
    first = await outbox.publish(long)
    keys = [(message.metadata or {})["event_payload"]["key"] for message in _visible(sandbox)]
    assert keys == [reply.key, f"{reply.key}#2", f"{reply.key}#3"]
    assert _visible(sandbox)[0].ts == first


@pytest.mark.parametrize(
    "refusal", ["invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long"]
)
async def test_post_whose_blocks_are_refused_loses_no_text(
    sandbox: FaultySlack, outbox: Outbox, reply: Post, refusal: str
) -> None:
    words = [f"word{number}" for number in range(2_500)]
    long = replace(reply, rendered=formatting.notice(" ".join(words), headline="Findings"))
    sandbox.faults.refuse(SEND, refusal)  # the first part; the second is taken
    await outbox.publish(long)
    first, *others = _visible(sandbox)
    assert not first.blocks
    assert first.text.startswith("*Findings*")
    said = first.text.split()[1:] + [
        word for each in others for word in each.blocks[0]["text"].split()
    ]
    assert said == words


def _slow_call(
    slack: SlackClient, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    """Make each call that posts take so long."""
    post = slack.post

    async def slow(*given: Any) -> str:
        clock.now += seconds
        return await post(*given)

    monkeypatch.setattr(slack, "post", slow)


async def test_second_call_of_a_post_has_the_whole_time_to_arrive(
    sandbox: FaultySlack,
    slack: SlackClient,
    outbox: Outbox,
    clock: Clock,
    reply: Post,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The first call was refused late, for its blocks."""
    refused = replace(reply, rendered=(Rendered("Found it.", (TABLE, TABLE)),))
    with monkeypatch.context() as patched:
        _slow_call(slack, clock, patched, CLAIM_GOOD_FOR + CALL_TIMEOUT)
        sandbox.faults.slow(SEND, 0)
        sandbox.faults.fail_before(SEND)
        await _interrupted(outbox, refused)
    clock.now += RESEND_AFTER - CLAIM_GOOD_FOR - CALL_TIMEOUT - 1
    await _interrupted(outbox, refused)
    assert _visible(sandbox) == [], "it may still arrive"
    clock.now += 1
    ts = await outbox.publish(refused)
    assert [message.ts for message in _visible(sandbox)] == [ts]


async def test_attempt_that_was_overtaken_between_its_calls_does_not_make_the_second(
    sandbox: FaultySlack,
    slack: SlackClient,
    outbox: Outbox,
    clock: Clock,
    reply: Post,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = replace(reply, rendered=(Rendered("Found it.", (TABLE, TABLE)),))
    post = slack.post

    async def overtaken(*given: Any) -> str:
        monkeypatch.setattr(slack, "post", post)
        clock.now += RESEND_AFTER
        await outbox.publish(reply)
        return await post(*given)

    monkeypatch.setattr(slack, "post", overtaken)
    assert not isinstance(await _interrupted(outbox, refused), NotDone), "the other one has sent"
    [message] = _visible(sandbox)
    assert await outbox.publish(refused) == message.ts


@pytest.mark.parametrize("sent", [True, False])
async def test_overtaken_attempt_does_not_release_the_claim_of_the_other(
    sandbox: FaultySlack,
    slack: SlackClient,
    outbox: Outbox,
    clock: Clock,
    database: Database,
    reply: Post,
    monkeypatch: pytest.MonkeyPatch,
    sent: bool,
) -> None:
    """The result of the other attempt's call is unknown, whether Slack has the post or not."""
    refused = replace(reply, rendered=(Rendered("Found it.", (TABLE, TABLE)),))
    post = slack.post

    async def overtaken(*given: Any) -> str:
        monkeypatch.setattr(slack, "post", post)
        clock.now += RESEND_AFTER
        (sandbox.faults.fail_after if sent else sandbox.faults.fail_before)(SEND)
        await _interrupted(outbox, reply)
        return await post(*given)

    monkeypatch.setattr(slack, "post", overtaken)
    error = await _interrupted(outbox, refused)
    assert (isinstance(error, NotDone), error.retry_after) == (False, LOOK_AGAIN)
    async with database.begin() as tx:
        assert (
            await PostStore(tx).claim(reply.key, reply.channel, reply.thread_ts)
        ).state == "pending"
    clock.now += RESEND_AFTER
    await outbox.publish(refused)
    assert len(_visible(sandbox)) == 1


async def test_claim_that_was_renewed_too_slowly_is_released(
    sandbox: FaultySlack,
    outbox: Outbox,
    clock: Clock,
    reply: Post,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No call was sent, so the next attempt need not wait."""
    claim_anew = PostStore.claim_anew

    async def slow(self: PostStore, *given: Any) -> PostClaim:
        claim = await claim_anew(self, *given)
        clock.now += CLAIM_GOOD_FOR + 1
        return claim

    refused = replace(reply, rendered=(Rendered("Found it.", (TABLE, TABLE)),))
    with monkeypatch.context() as patched:
        patched.setattr(PostStore, "claim_anew", slow)
        assert isinstance(await _interrupted(outbox, refused), NotDone)
    assert _visible(sandbox) == []
    ts = await outbox.publish(refused)
    assert [message.ts for message in _visible(sandbox)] == [ts]


async def test_invalid_post_is_not_sent_by_its_second_call(
    sandbox: FaultySlack, outbox: Outbox, database: Database, reply: Post
) -> None:
    asked = list[bool]()

    async def once(tx: Transaction) -> bool:
        asked.append(not asked)
        return asked[-1]

    refused = replace(reply, rendered=(Rendered("Found it.", (TABLE, TABLE)),), valid_if=once)
    assert isinstance(await _interrupted(outbox, refused), NotDone)
    assert await outbox.publish(refused) == ""
    assert _visible(sandbox) == []


@pytest.mark.parametrize("abandoned", [False, True])
async def test_one_of_several_concurrent_attempts_posts(
    sandbox: FaultySlack,
    outbox: Outbox,
    clock: Clock,
    database: Database,
    reply: Post,
    abandoned: bool,
) -> None:
    if abandoned:
        async with database.begin() as tx:
            await PostStore(tx).claim(reply.key, reply.channel, reply.thread_ts)
        clock.now += RESEND_AFTER
    results = await asyncio.gather(
        *(outbox.publish(reply) for _ in range(5)), return_exceptions=True
    )
    assert all(isinstance(result, (str, Transient)) for result in results)
    assert len(_visible(sandbox)) == 1


async def test_message_whose_blocks_slack_refuses_is_posted_as_text(
    sandbox: FaultySlack, outbox: Outbox, reply: Post
) -> None:
    refused = Rendered("Found it.", (TABLE, TABLE))
    ts = await outbox.publish(replace(reply, rendered=(refused,)))
    assert await outbox.publish(reply) == ts
    (message,) = _visible(sandbox)
    assert (message.ts, message.blocks) == (ts, [])
    assert message.text == "Found it.\n\n| a |\n|---|\n\n| a |\n|---|"


async def test_emoji_is_added_concurrently_and_retried_once(
    sandbox: FaultySlack, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.outbox.REACTION_PAUSE", 0.01)
    first, second = (sandbox.workspace.post(SUMMARIES, DEVELOPER, text) for text in ("one", "two"))
    gone = (SUMMARIES, "1.000001")
    sandbox.faults.fail_before("reactions.add")
    outbox.add_reactions("eyes", [gone, (SUMMARIES, first.ts), (SUMMARIES, second.ts)])
    assert not first.reactions, "no other call has waited for it"
    async with asyncio.timeout(patient(10)):
        while not second.reactions:  # noqa: ASYNC110 - Slack is another task
            await asyncio.sleep(0.01)
    assert (list(first.reactions), list(second.reactions)) == (["eyes"], ["eyes"])


async def test_emoji_waits_as_long_as_slack_says(
    sandbox: FaultySlack, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []

    async def note(seconds: float) -> None:
        waited.append(seconds)

    said = sandbox.workspace.post(SUMMARIES, DEVELOPER, "one")
    sandbox.faults.rate_limit("reactions.add", retry_after=40)
    outbox.add_reactions("eyes", [(SUMMARIES, said.ts)])
    (adding,) = [each for each in asyncio.all_tasks() if "_react" in str(each.get_coro())]
    monkeypatch.setattr("threadline.threads.outbox.asyncio.sleep", note)
    await asyncio.wait_for(adding, patient(10))
    assert 40.0 in waited
    assert list(said.reactions) == ["eyes"]


async def test_emoji_are_left_out_while_slack_takes_none(
    sandbox: FaultySlack, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.outbox.REACTION_PAUSE", 0.01)
    monkeypatch.setattr("threadline.threads.outbox.MAX_REACTION_TASKS", 2)
    said = sandbox.workspace.post(SUMMARIES, DEVELOPER, "one")
    for _ in range(4):
        sandbox.faults.fail_before("reactions.add")
    for name in ("eyes", "repeat", "hourglass"):
        outbox.add_reactions(name, [(SUMMARIES, said.ts)])
    others = asyncio.all_tasks() - {asyncio.current_task()}
    adding = [each for each in others if "_react" in str(each.get_coro())]
    assert len(adding) == 2, "a third one is one too many"
    await asyncio.wait(adding, timeout=patient(10))
    assert not said.reactions, "each was tried twice"
