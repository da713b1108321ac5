"""Rate limits of people and records. A repeated question about the same message or change gets its
first verdict again.
"""

from dataclasses import dataclass
from enum import StrEnum

from sqlalchemy import text

from threadline.db.engine import Store
from threadline.db.values import storable_key
from threadline.errors import Permanent


@dataclass(frozen=True)
class Rate:
    """At most `count` in any `seconds`."""

    count: int
    seconds: float


USER_RATE = Rate(10, 60.0)
"""Requests per person."""
MUTATION_RATE = Rate(30, 60.0)
"""Changes per record, over all threads."""
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:scope, 0))")
"""A statement of its own: a statement that waits for its lock still sees the rows from before the
wait.
"""
_COUNT = text("""
INSERT INTO rate_limit_events AS known (rule, scope, event, at, verdict)
SELECT CAST(:rule AS text), CAST(:scope AS text), CAST(:event AS text),
    CAST(:now AS double precision), CASE
    WHEN (SELECT count(*) FROM (
            SELECT FROM rate_limit_events v
            WHERE v.rule = :rule AND v.scope = :scope
              AND v.at > :now - :seconds AND v.at < :now + :seconds
              AND (:refused_count OR v.verdict = 'ok')
            LIMIT :count) earlier) < :count THEN 'ok'
    WHEN EXISTS (
            SELECT FROM rate_limit_events v
            WHERE v.rule = :rule AND v.scope = :scope
              AND v.at > :now - :seconds AND v.at < :now + :seconds
              AND v.verdict = 'throttled_first') THEN 'throttled'
    ELSE 'throttled_first' END
ON CONFLICT (rule, scope, event) DO UPDATE SET event = excluded.event
RETURNING verdict
""")
"""The window extends into the future as well, because the clocks of two workers differ a little.
"""
_PRUNE = text("""
DELETE FROM rate_limit_events
WHERE ctid IN (SELECT ctid FROM rate_limit_events WHERE at < :before LIMIT :limit)
""")


class RateVerdict(StrEnum):
    """`throttled_first`: over the limit, and the person needs a notice; `throttled`: over the
    limit, and the notice was sent.
    """

    OK = "ok"
    THROTTLED_FIRST = "throttled_first"
    THROTTLED = "throttled"


class RateExceeded(Permanent):
    """A record has reached its limit of changes: nothing was changed."""


class RateLimits(Store):
    """Each question holds a lock until its transaction ends, so the transaction should do little
    else. `now` is always in seconds since 1970. An event exactly as old as the rule's window no
    longer counts.
    """

    async def count_request(
        self, team: str, user_id: str, message_id: str, now: float
    ) -> RateVerdict:
        """Count a request and judge it: a person may make ten per minute, and refused requests
        count too. The first refusal in any minute is `THROTTLED_FIRST`.
        """
        return await self._count_event(
            "user", f"{team}:{user_id}", message_id, now, USER_RATE, refused_count=True
        )

    async def allows_change(self, record: str, operation_key: str, now: float, rate: Rate) -> bool:
        """Count a change and return whether the record may take it. A refused change does not
        count.

        Args:
            record: a name unique to the record, such as `T1:project:PRJ-1`.
        """
        verdict = await self._count_event(
            "mutation", record, operation_key, now, rate, refused_count=False
        )
        return verdict is RateVerdict.OK

    async def count_change(
        self, team: str, record: str, operation_key: str, now: float, rate: Rate
    ) -> None:
        """Count a change of a team's record; the same operation counts once.

        Raises:
            RateExceeded: the record has reached its limit; the caller must end the transaction
                without changing it.
        """
        if not await self.allows_change(
            storable_key(f"{team}:{record}"), storable_key(operation_key), now, rate
        ):
            raise RateExceeded(
                f"this record has reached its limit of {rate.count} changes in {rate.seconds:g} "
                "seconds: nothing was changed; try again later"
            )

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Delete at most `limit` events from before a moment and return their number; 0 means that
        none are left.
        """
        return (await self._tx.execute(_PRUNE, {"before": before, "limit": limit})).rowcount

    async def _count_event(
        self, rule: str, scope: str, event: str, now: float, rate: Rate, *, refused_count: bool
    ) -> RateVerdict:
        await self._tx.execute(_LOCK, {"scope": f"{rule}:{scope}"})
        asked = {"rule": rule, "scope": scope, "event": event, "now": now}
        given = {
            **asked,
            "seconds": rate.seconds,
            "count": rate.count,
            "refused_count": refused_count,
        }
        return RateVerdict((await self._tx.execute(_COUNT, given)).scalar_one())
