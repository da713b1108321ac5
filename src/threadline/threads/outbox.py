"""Outbox: one visible message per key, although Slack knows no keys and a process may die before
it records a send.

A key is claimed in the database, sent in the message's metadata, and then marked as posted. An
attempt that finds the claim of another searches Slack for the key at once. A message that it finds
is recorded: a worker that is killed during its call costs people the seconds of its heartbeat. A
message that it does not find may still arrive, even from a worker that is certainly dead, because
Slack may have received the call and be slow. So the message is sent again only after the slowest
send would have arrived. A claim is good for one call, and a further call claims again. `STEPS` is
the rule of these steps.

The times add up: a call begins within `CLAIM_GOOD_FOR` (5 s) of its claim, ends within
`CALL_TIMEOUT` (10 s), and Slack may store it 30 s later, before another attempt sends after
`RESEND_AFTER` (45 s); outside a thread two minutes later, before `RESEND_ROOT_AFTER` (135 s).

After the database was restored from a backup (`threads/installation_store.py`), claims are lost,
so Slack is searched before the first send as well. `threads/basis.py` decides which post counts as
this one.

A message is still posted twice in three cases: Slack stores it later than these times after the
call was given up, a person deletes it before the search, or an attempt freezes for that long in
the very moment of its call.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from types import MappingProxyType

import structlog

from threadline.db.engine import Database, Transaction
from threadline.errors import (
    InternalError,
    Mendable,
    NotDone,
    Permanent,
    Transient,
    before_a_change,
)
from threadline.slack.client import POST_EVENT, SlackClient
from threadline.slack.errors import BlocksRefused
from threadline.slack.files import FileUpload, find_file, upload_file
from threadline.slack.formatting import Rendered, text_of_blocks
from threadline.slack.model import ACCESS, ACCESS_FAULT, CHANNEL_FAULT
from threadline.threads.activity import run_to_end
from threadline.threads.basis import Basis
from threadline.threads.lost_posts import LostPosts
from threadline.threads.model import ThreadOwner
from threadline.threads.recovery import Recovery
from threadline.threads.store import ClaimState, PostClaim, PostStore, ThreadStore, ValidIf

CLAIM_GOOD_FOR = 5.0
"""Seconds after a claim in which its call may begin: a process that was frozen in between claims
again.
"""
RESEND_AFTER = 45.0
"""Seconds after a claim in which no other attempt sends."""
LOOK_AGAIN = 10.0
"""Seconds until the next search in Slack for a message that another attempt may have sent."""
RESEND_ROOT_AFTER = 135.0
"""The same for a message outside a thread: a duplicate there is worse than a late message, and a
missing one is worst.
"""
CLOCK_SKEW = 300.0
"""Seconds before the claim from which Slack is searched: Slack's clock and the database's
differ.
"""
REACTION_PAUSE = 5.0
REACTION_PATIENCE = 60.0
"""Seconds before an emoji is tried again, and seconds after which the rest of one call is
dropped.
"""
MAX_REACTION_TASKS = 20
"""Concurrent calls of `add_reactions`; further ones are dropped, so that posts find connections to
Slack.
"""

_NOTHING_MORE = Rendered("(The message above is complete.)", ())
"""Replaces a part that a shorter text no longer has."""
_SCOPES = {True: "chat:write", False: "files:write"}
"""The scope that a message needs, and that of a file."""
NO_OWNERS: Mapping[str, ThreadOwner] = MappingProxyType({})
ClaimAnew = Callable[[], Awaitable[None]]
Reaction = Callable[[str, str, str], Awaitable[None]]
"""Adds or removes an emoji: of the channel, the message's `ts`, and the emoji's name."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Post:
    """A message that is posted once.

    Args:
        key: a business key (case, turn, kind), never a run's id.
        thread_ts: without it the first part is posted in the channel, and the others in its
            thread.
        rendered: the parts, one message each.
        opens: for a root, the workflow that receives the replies. It is registered in the
            transaction that marks the post as posted, and is in the message's metadata, so that a
            lost registration can be repaired.
        valid_if: called in the transaction of the claim; returns False when the post is out of
            date.
        on_posted: called with the `ts` of the first part, in the transaction that marks it as
            posted. When it fails, the `ts` is kept, and the next attempt calls it again, so it
            must be idempotent.
        correlation_id: of the turn that posts it.
        claim: on the first part, see `Outbox.claim`; without it, `publish` claims.
        basis: its origin, by which it is recognised after a restore; without it, it is sent again
            then.
        part: the number of the message in its post, and the number of messages.
    """

    key: str
    channel: str
    thread_ts: str | None
    rendered: tuple[Rendered, ...]
    opens: ThreadOwner | None = None
    valid_if: ValidIf | None = None
    on_posted: Callable[[Transaction, str], Awaitable[None]] | None = None
    correlation_id: str = ""
    claim: PostClaim | None = None
    basis: Basis | None = None
    part: tuple[int, int] = (1, 1)

    @property
    def base_key(self) -> str:
        """The key of the first part."""
        return self.key if self.part[0] == 1 else self.key.rpartition("#")[0]


class Moment(StrEnum):
    """The moment at which an attempt looks at its claim."""

    CLAIMED = "claimed"
    """The attempt has claimed the key for the first time."""
    SEARCHED = "searched"
    """Slack does not have the message, also after the slowest send of the other attempt; the key
    was claimed again.
    """
    SENDING = "sending"
    """A call of the send failed, and another one is needed; the key was claimed again."""


class Step(StrEnum):
    """The next step of an attempt."""

    SEND = "send"
    SEARCH = "search"
    """Search Slack; without a result claim again, at the earliest after the slowest send."""
    WAIT = "wait"
    """Another attempt may be sending: fail, and let Temporal retry."""
    RECORD = "record"
    """The message is in Slack; record the rest, and return its `ts`."""
    RETURN = "return"
    """Return the `ts`, which is empty for a post that is out of date; nothing else is due."""
    DROP = "drop"
    """The post is out of date; release the claim, and fail."""


@dataclass(frozen=True)
class Steps:
    """The next step of an attempt at each moment; see `Moment`."""

    claimed: Step
    searched: Step
    sending: Step


STEPS: Mapping[ClaimState, Steps] = MappingProxyType(
    {
        "ours": Steps(claimed=Step.SEND, searched=Step.SEND, sending=Step.SEND),
        "pending": Steps(claimed=Step.SEARCH, searched=Step.WAIT, sending=Step.WAIT),
        "posted": Steps(claimed=Step.RETURN, searched=Step.RETURN, sending=Step.WAIT),
        "unrecorded": Steps(claimed=Step.RECORD, searched=Step.RECORD, sending=Step.WAIT),
        "invalid": Steps(claimed=Step.RETURN, searched=Step.RETURN, sending=Step.DROP),
    }
)
"""The next step, by the state of the claim (`PostClaim`) and the moment."""


def next_step(state: ClaimState, moment: Moment) -> Step:
    """Return the next step of an attempt whose claim has this state."""
    step: Step = getattr(STEPS[state], moment)
    return step


def rising_clock() -> float:
    """Return seconds that rise also while the machine is suspended, where the system counts
    those.
    """
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Outbox:
    """Posts each message once, wherever a retry must not post twice.

    Args:
        clock: gives rising seconds.
        lost: finds posts that a restored database does not know.
    """

    def __init__(
        self,
        slack: SlackClient,
        database: Database,
        clock: Callable[[], float] = rising_clock,
        lost: LostPosts | None = None,
    ) -> None:
        self.lost = lost or LostPosts(slack)
        self._slack = slack
        self._database = database
        self._clock = clock
        self.recovery = Recovery(database)
        self._reacting = set[asyncio.Task[None]]()

    async def claim(
        self, tx: Transaction, post: Post, before: PostClaim | None = None
    ) -> PostClaim:
        """Claim the first part of a post in the caller's transaction; publish it right afterwards.
        `before`: an earlier claim to renew.
        """
        asked_at = self._clock()
        store = PostStore(tx)
        if before:
            claim = await store.claim_anew(post.key, before.claimed_at, post.valid_if)
        else:
            claim = await store.claim(post.key, post.channel, post.thread_ts, post.valid_if)
        return replace(claim, asked_at=asked_at)

    async def publish(self, post: Post) -> str:
        """Post every part that is not posted yet, in order.

        Returns:
            The `ts` of the first part; empty when `valid_if` returned False.

        Raises:
            Transient: try again, after `retry_after` if it is given.
            Permanent: Slack refuses the message.
        """
        first = ""
        for number, rendered in enumerate(post.rendered, start=1):
            part = replace(
                post, thread_ts=post.thread_ts or first or None, part=(number, len(post.rendered))
            )
            if number > 1:
                part = replace(
                    part, key=f"{post.key}#{number}", opens=None, on_posted=None, claim=None
                )
            find = partial(self._slack.find_post, part.channel, part.thread_ts, part.key)
            if part.basis and self.lost.active_window:
                find = partial(find, is_other=partial(self.lost.is_other, part.basis))
            ts = await self.once(part, partial(self._send, part, rendered), find)
            first = first or ts
            if not ts:
                break
        return first

    async def replace(self, post: Post) -> bool:
        """Replace the messages of an earlier post in place, and send the parts that it did not
        have. Idempotent.

        Args:
            post: under the key of the earlier post, with its new parts.

        Returns:
            Whether it was replaced; False if the post was never sent, or a message was deleted.

        Raises:
            Transient: try again, after `retry_after` if it is given.
            Permanent: Slack refuses the message.
        """
        async with self._database.begin() as tx:
            sent = await PostStore(tx).part_timestamps(post.key)
        fewer = [_NOTHING_MORE] * (len(sent) - len(post.rendered))
        for ts, rendered in zip(sent, [*post.rendered, *fewer], strict=False):
            if not await self._replace_message(post.channel, ts, rendered):
                return False
        if sent and len(post.rendered) > len(sent):
            await self.publish(post)
        return bool(sent)

    async def _replace_message(self, channel: str, ts: str, rendered: Rendered) -> bool:
        """Replace one message. When Slack refuses its blocks, show their content as text alone."""
        try:
            return await self._slack.update(channel, ts, rendered.text, rendered.blocks)
        except BlocksRefused:
            _log.exception("blocks_refused", channel=channel, ts=ts)
            return await self._slack.update(channel, ts, text_of_blocks(rendered), ())

    async def share(self, upload: FileUpload) -> str:
        """Show a file in its thread once.

        Returns:
            Slack's id of the file.

        Raises:
            Permanent: Slack refuses it, and nothing is shown.
            Transient: it may be shown now or later; a later call finds it.
        """
        post = Post(upload.key, upload.channel, upload.thread_ts, ())
        return await self.once(
            post,
            partial(upload_file, self._slack, upload),
            partial(find_file, self._slack, upload),
        )

    async def once(
        self,
        post: Post,
        send: Callable[[ClaimAnew], Awaitable[str]],
        find: Callable[[float], Awaitable[str | None]],
    ) -> str:
        """Send once under a key, however many calls and attempts there are. `STEPS` is the rule.

        Args:
            send: sends and returns the id; `Permanent` and `NotDone` mean that Slack did nothing.
                It gets a function to await before each further call that Slack may store.
            find: searches for the message from a moment on (seconds since 1970).

        Returns:
            Slack's id of the sent message; empty when `valid_if` returned False.
        """
        claim = post.claim or await self._claim(post)
        step = next_step(claim.state, Moment.CLAIMED)
        if step is Step.SEARCH:
            if found := await self._find(post, claim, find):
                return found
            # Only one of two searching attempts sends; the next wait counts from this send.
            claim = await self._claim(post, claim)
            step = next_step(claim.state, Moment.SEARCHED)
        if step is Step.SEND:
            return await run_to_end(self._deliver(post, claim, send))
        if step is Step.WAIT:
            raise self._too_early(post, claim)
        if step is Step.RECORD:
            await self._record(post, claim.ts)
        return claim.ts

    async def _deliver(
        self, post: Post, claim: PostClaim, send: Callable[[ClaimAnew], Awaitable[str]]
    ) -> str:
        """Send and record, to the end even when Temporal cancels the attempt: otherwise the
        outcome would stay unknown.
        """

        async def claim_anew() -> None:
            nonlocal claim
            with before_a_change():
                again = await self._claim(post, claim)
            step = next_step(again.state, Moment.SENDING)
            if step is Step.WAIT:
                # The other attempt may have sent; its claim is not released here.
                raise self._too_early(post, again)
            claim = again
            if step is Step.DROP:
                raise NotDone(f"{post.key} is out of date.")
            self._check_age(post, claim)

        try:
            self._check_age(post, claim)
            sent = await self._find_lost(post)
            if not sent:
                # The search may have taken long; the next attempt finds its result in memory.
                self._check_age(post, claim)
                sent = await send(claim_anew)
        except (Permanent, NotDone):
            async with self._database.begin() as tx:
                await PostStore(tx).release(post.key, claim.claimed_at)
            raise
        await self._record(post, sent)
        await self.recovery.works(CHANNEL_FAULT, post.channel)
        await self.recovery.works(ACCESS_FAULT, ACCESS, _SCOPES[bool(post.rendered)])
        return sent

    async def _find_lost(self, post: Post) -> str:
        """Search for a message that was sent before the database was restored."""
        if post.basis is None:
            return ""
        with before_a_change():
            return await self.lost.find(
                post.basis, post.base_key, post.channel, post.thread_ts, post.part[0]
            )

    def _check_age(self, post: Post, claim: PostClaim) -> None:
        if self._clock() - claim.asked_at > CLAIM_GOOD_FOR:
            raise NotDone(f"{post.key} was claimed too long ago to be sent now.")

    async def settle(self, key_prefix: str, owners: Mapping[str, ThreadOwner] = NO_OWNERS) -> bool:
        """End the doubt about posts that will not be sent again: record those that Slack has, and
        give up the others.

        The `ts` is recorded, and the thread of a root that has an owner. A later `publish` of its
        key records everything else that goes with a post.

        Args:
            key_prefix: the beginning of the keys. They are keys of messages, not of files.
            owners: the workflows that receive the replies to roots, by the roots' keys.

        Returns:
            Whether Slack has one of them.

        Raises:
            Transient: one may still arrive in Slack.
            Mendable: Slack refuses the search.
        """
        async with self._database.begin() as tx:
            in_doubt = await PostStore(tx).in_doubt(key_prefix)
        is_found = False
        for each in in_doubt:
            post = Post(each.key, each.channel, each.thread_ts, (), owners.get(each.key))
            ts = await self._settle(post, each.claim)
            _log.info("post_settled", key=post.key, ts=ts)
            is_found = is_found or bool(ts)
        return is_found

    async def _settle(self, post: Post, claim: PostClaim) -> str:
        find = partial(self._slack.find_post, post.channel, post.thread_ts, post.key)
        try:
            ts = await self._search(post, claim, find)
        except (InternalError, Mendable):
            raise
        except Permanent as error:  # such as a thread that was deleted with the post
            _log.warning("post_not_searched", key=post.key, reason=str(error))
            ts = ""
        if ts and post.opens:
            await self._record(post, ts)
            return ts
        async with self._database.begin() as tx:
            if ts:
                await PostStore(tx).record_unfinished(post.key, ts)
            else:
                await PostStore(tx).release(post.key, claim.claimed_at)
        return ts

    async def _find(
        self, post: Post, claim: PostClaim, find: Callable[[float], Awaitable[str | None]]
    ) -> str:
        """Search for a message that another attempt has sent, and record it. Raises and returns as
        `_search` does.
        """
        if found := await self._search(post, claim, find):
            await self._record(post, found)
        return found

    async def _search(
        self, post: Post, claim: PostClaim, find: Callable[[float], Awaitable[str | None]]
    ) -> str:
        """Search for a message that another attempt has sent.

        Returns:
            Slack's id of it, or "" where it must be sent again.

        Raises:
            Transient: it may still arrive.
        """
        # By the claim's age before the search, which must cover all sends until then.
        early = self._wait(post, claim) > 0
        found: str | None = None
        try:
            found = await find(claim.claimed_at - CLOCK_SKEW)
        except Permanent:
            # Posting rights do not imply search rights; the other attempt may have posted.
            if not early:
                raise
        if early and not found:
            raise self._too_early(post, claim)
        return found or ""

    async def _send(self, part: Post, rendered: Rendered, claim_anew: ClaimAnew) -> str:
        """Send the message. When Slack refuses its blocks, send their content as text alone."""
        payload = {"key": part.key}
        if part.opens:
            payload |= {"workflow_id": part.opens.workflow_id, "kind": part.opens.kind}
        if part.correlation_id:
            payload["correlation_id"] = part.correlation_id
        if part.basis:
            payload |= part.basis.metadata(*part.part)
        metadata = {"event_type": POST_EVENT, "event_payload": payload}
        try:
            return await self._slack.post(
                part.channel, rendered.text, rendered.blocks, part.thread_ts, metadata
            )
        except BlocksRefused:
            _log.exception("blocks_refused", key=part.key)
            await claim_anew()
            return await self._slack.post(
                part.channel, text_of_blocks(rendered), (), part.thread_ts, metadata
            )

    async def _claim(self, post: Post, before: PostClaim | None = None) -> PostClaim:
        async with self._database.begin() as tx:
            return await self.claim(tx, post, before)

    async def _record(self, post: Post, ts: str) -> None:
        try:
            async with self._database.begin() as tx:
                await PostStore(tx).record_posted(post.key, ts)
                if post.opens:
                    await ThreadStore(tx).register(post.opens, post.channel, ts)
                if post.on_posted:
                    await post.on_posted(tx, ts)
        except Exception:
            # Without the `ts` the next attempt would search Slack, and send a message again that a
            # person has deleted meanwhile.
            async with self._database.begin() as tx:
                await PostStore(tx).record_unfinished(post.key, ts)
            raise

    def _wait(self, post: Post, claim: PostClaim) -> float:
        return (RESEND_AFTER if post.thread_ts else RESEND_ROOT_AFTER) - claim.age

    def _too_early(self, post: Post, claim: PostClaim) -> Transient:
        said = f"An earlier attempt at {post.key} may still arrive in Slack."
        return Transient(said, retry_after=min(max(self._wait(post, claim), 1.0), LOOK_AGAIN))

    def add_reactions(self, name: str, items: Sequence[tuple[str, str]]) -> None:
        """Put one emoji on messages, (channel, ts) each, in the background: nothing waits for an
        emoji. Cosmetic: an emoji that Slack refuses twice is dropped, and the rest is lost when
        the process ends.
        """
        self._start_reacting(self._slack.add_reaction, name, items)

    def remove_reactions(self, name: str, items: Sequence[tuple[str, str]]) -> None:
        """Take our emoji off messages, as `add_reactions` puts it on them."""
        self._start_reacting(self._slack.remove_reaction, name, items)

    def _start_reacting(
        self, change: Reaction, name: str, items: Sequence[tuple[str, str]]
    ) -> None:
        if items and len(self._reacting) < MAX_REACTION_TASKS:
            task = asyncio.create_task(self._react(change, name, items))
            self._reacting.add(task)
            task.add_done_callback(self._reacting.discard)

    async def _react(self, change: Reaction, name: str, items: Sequence[tuple[str, str]]) -> None:
        again = True
        with suppress(TimeoutError):
            async with asyncio.timeout(REACTION_PATIENCE):
                for channel, ts in items:
                    while pause := await self._change_reaction(change, channel, ts, name):
                        if not again:
                            return
                        again = False
                        await asyncio.sleep(pause)

    async def _change_reaction(self, change: Reaction, channel: str, ts: str, name: str) -> float:
        """Add or remove an emoji; returns the seconds to wait before a retry, 0 without one."""
        try:
            await change(channel, ts, name)
        except (Permanent, Transient) as error:
            _log.info("reaction_failed", name=name, reason=str(error))
            return (error.retry_after or REACTION_PAUSE) if isinstance(error, Transient) else 0.0
        return 0.0
