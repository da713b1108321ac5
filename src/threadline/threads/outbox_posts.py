"""One visible post per key, although Slack knows no key and a process may die between sending and remembering.

A post is claimed in the database, sent with its key in the metadata, and then marked as done. Whoever finds a claim
without an end looks in Slack for the key before it sends again, and looks only when the slowest send could have
arrived. The times depend on each other: one call ends within `HTTP_TOTAL` (10 s), an activity's attempt within its
start-to-close (30 s), a claim holds for `LEASE` (45 s).

What remains: a message that Slack stores later than `GRACE` seconds after the call was given up (`ROOT_GRACE` for one
outside a thread), or that somebody deletes before the look, or that an attempt sends which lay frozen between its claim
and its call for longer than the lease, is posted twice. Where that would be worse than silence (`careful`), a person is
asked instead.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import structlog

from threadline.errors import Permanent, Transient
from threadline.slack.client import HTTP_TOTAL, POST_EVENT, Slack
from threadline.slack.errors import Refused, Unshowable
from threadline.slack.formatting import Rendered

LEASE = 45.0
"""Seconds for which a claim keeps others from the same post."""
GRACE = 30.0
"""Seconds after a call was given up during which Slack may still store its message."""
ROOT_GRACE = 120.0
"""The same for a message outside a thread: twice is worse there than late, and never at all is worse than twice."""
LOOK_BACK = 300.0
"""Seconds before the claim from which Slack is searched: its clock and the database's are two."""


@dataclass(frozen=True)
class Post:
    """Something to say once.

    `key` is a business key (case, turn, kind), never a run's id. `rendered` are its parts, one message each; without a
    `thread_ts` the first is posted in the channel and the others in its thread. `case` is the `bug_id`, `kind` what the
    ledger judges by whether the case's status still lets it be said. `correlation_id`: of the turn that says it.
    """

    key: str
    channel: str
    thread_ts: str | None
    rendered: tuple[Rendered, ...]
    case: str
    kind: str
    careful: bool = False
    correlation_id: str = ""


@dataclass(frozen=True)
class Claim:
    """What the ledger knows of a key.

    - `send`: it is ours, since `claimed_at`;
    - `busy`: somebody else's, whose lease has not run out;
    - `look`: somebody else's lease ran out without an end; it still carries the old `claimed_at`;
    - `done`: posted, as `ts`;
    - `refused`: the case's status makes it meaningless.
    """

    state: Literal["send", "look", "done", "refused", "busy"]
    ts: str = ""
    claimed_at: float = 0.0


class PostLedger(Protocol):
    """Remembers posts by key; each method is one transaction. Times are seconds since 1970."""

    async def claim(self, post: Post, now: float, lease_s: float) -> Claim:
        """Take the key if nobody has it, and say what is known of it otherwise; `done` counts more than `refused`."""

    async def done(self, key: str, ts: str) -> None:
        """The message is in Slack, whoever sent it."""

    async def release(self, key: str, claimed_at: float) -> None:
        """Give the claim of that moment up; nothing happens when it is another's by now, or done.

        `claimed_at` comes back as `claim` returned it, so that it can be compared for equality.
        """


class Posts:
    """Publishes each post once. `clock` returns seconds since 1970."""

    def __init__(self, slack: Slack, ledger: PostLedger, clock: Callable[[], float] = time.time) -> None:
        self._slack = slack
        self._ledger = ledger
        self._clock = clock

    async def publish(self, post: Post) -> str:
        """Post every part that is not posted yet, in order.

        Returns:
            The `ts` of the first part; empty when the case's status made the post meaningless.

        Raises:
            Transient: try again, after `retry_after` if it is given.
            Permanent: Slack refuses the message, or a person must look whether it arrived.
        """
        first = ""
        for number, rendered in enumerate(post.rendered, start=1):
            key = post.key if number == 1 else f"{post.key}#{number}"
            ts = await self._publish(replace(post, key=key, thread_ts=post.thread_ts or first or None), rendered)
            first = first or ts
            if not ts:
                break
        return first

    async def _publish(self, part: Post, rendered: Rendered) -> str:
        claim = await self._ledger.claim(part, self._clock(), LEASE)
        if claim.state == "look":
            if found := await self._look(part, claim):
                return found
            # Given up and taken anew: of two who looked one sends, and the next look counts from this send.
            await self._ledger.release(part.key, claim.claimed_at)
            claim = await self._ledger.claim(part, self._clock(), LEASE)
        if claim.state == "send":
            return await self._send(part, rendered, claim.claimed_at)
        if claim.state in ("busy", "look"):
            raise self._too_early(part, claim.claimed_at + LEASE)
        return claim.ts

    async def _look(self, part: Post, claim: Claim) -> str:
        may_look = claim.claimed_at + HTTP_TOTAL + (GRACE if part.thread_ts else ROOT_GRACE)
        if self._clock() < may_look:
            raise self._too_early(part, may_look)
        ts = await self._slack.find_post(part.channel, part.thread_ts, part.key, claim.claimed_at - LOOK_BACK)
        if ts:
            await self._ledger.done(part.key, ts)
            return ts
        if part.careful:
            raise Permanent(
                f"It is not known whether {part.key} was posted: look in the channel {part.channel}, "
                "and post it by hand if it is missing."
            )
        return ""

    async def _send(self, part: Post, rendered: Rendered, claimed_at: float) -> str:
        payload = {"key": part.key, "bug_id": part.case}
        if part.correlation_id:
            payload["correlation_id"] = part.correlation_id
        metadata = {"event_type": POST_EVENT, "event_payload": payload}
        try:
            ts = await self._shown(part, rendered, metadata)
        except (Permanent, Refused):
            await self._ledger.release(part.key, claimed_at)
            raise
        await self._ledger.done(part.key, ts)
        return ts

    async def _shown(self, part: Post, rendered: Rendered, metadata: Mapping[str, Any]) -> str:
        """Send the message; as text alone where Slack does not take its blocks, since that is better than nothing.

        That is a second call, of which an answer lost on its way is looked for after `GRACE` less `HTTP_TOTAL`.
        """
        try:
            return await self._slack.post(part.channel, rendered.text, rendered.blocks, part.thread_ts, metadata)
        except Unshowable:
            structlog.get_logger().exception("blocks_refused", key=part.key)
            return await self._slack.post(part.channel, rendered.text, (), part.thread_ts, metadata)

    def _too_early(self, part: Post, until: float) -> Transient:
        rest = max(until - self._clock(), 1.0)
        return Transient(f"An earlier attempt at {part.key} may still arrive in Slack.", retry_after=rest)
