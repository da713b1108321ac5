"""Rate limits: how often is too often, and who asks too often. A message or a change that is asked about again gets the
verdict it got, whatever happened since."""

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
"""Requests of one person."""
MUTATION_RATE = Rate(30, 60.0)
"""Changes of one record, in all threads together."""
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended(:scope, 0))")
"""A statement of its own: one that waits for its lock still sees the rows as they were before it waited."""
_COUNT = text("""
INSERT INTO rate_limit_events AS known (rule, scope, event, at, verdict)
SELECT CAST(:rule AS text), CAST(:scope AS text), CAST(:event AS text), CAST(:now AS double precision), CASE
    WHEN (SELECT count(*) FROM (
            SELECT FROM rate_limit_events v
            WHERE v.rule = :rule AND v.scope = :scope AND v.at > :now - :seconds AND v.at < :now + :seconds
              AND (:refused_count OR v.verdict = 'ok')
            LIMIT :count) earlier) < :count THEN 'ok'
    WHEN EXISTS (
            SELECT FROM rate_limit_events v
            WHERE v.rule = :rule AND v.scope = :scope AND v.at > :now - :seconds AND v.at < :now + :seconds
              AND v.verdict = 'throttled_first') THEN 'throttled'
    ELSE 'throttled_first' END
ON CONFLICT (rule, scope, event) DO UPDATE SET event = excluded.event
RETURNING verdict
""")
"""The clocks of two workers differ a little, so what was judged by a later one counts as well."""
_PRUNE = text("""
DELETE FROM rate_limit_events WHERE ctid IN (SELECT ctid FROM rate_limit_events WHERE at < :before LIMIT :limit)
""")


class RateVerdict(StrEnum):
    """`throttled_first`: too often, and the person is to be told; `throttled`: too often, and they were told."""

    OK = "ok"
    THROTTLED_FIRST = "throttled_first"
    THROTTLED = "throttled"


class RateExceeded(Permanent):
    """A record was changed as often as the setting allows: nothing was changed now."""


class RateLimits(Store):
    """Each question holds a lock until its transaction ends, so the transaction should do little else. `now` is always
    in seconds since 1970. What is as old as the rule's window, to the second, no longer counts."""

    async def count_request(self, team: str, user_id: str, message_id: str, now: float) -> RateVerdict:
        """Whether a person has asked more than ten times within a minute; refused requests count as well. Of the
        refused ones in any minute the first is `THROTTLED_FIRST`."""
        return await self._count_event("user", f"{team}:{user_id}", message_id, now, USER_RATE, refused_count=True)

    async def allows_change(self, record: str, operation_key: str, now: float, rate: Rate) -> bool:
        """Whether a record may be changed once more; what was refused changed nothing and does not count. `record`: any
        name that is the record's alone, such as `T1:project:PRJ-1`."""
        verdict = await self._count_event("mutation", record, operation_key, now, rate, refused_count=False)
        return verdict is RateVerdict.OK

    async def count_change(self, team: str, record: str, operation_key: str, now: float, rate: Rate) -> None:
        """Count a change of a team's record, the same operation once. Raises `RateExceeded` when it was changed too
        often; the transaction is to end without changing it."""
        if not await self.allows_change(storable_key(f"{team}:{record}"), storable_key(operation_key), now, rate):
            raise RateExceeded(
                f"this record has reached its limit of {rate.count} changes in {rate.seconds:g} seconds: "
                "nothing was changed; try again later"
            )

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Delete events from before a moment, at most `limit`; returns how many, so that 0 means none is left."""
        return (await self._tx.execute(_PRUNE, {"before": before, "limit": limit})).rowcount

    async def _count_event(
        self, rule: str, scope: str, event: str, now: float, rate: Rate, *, refused_count: bool
    ) -> RateVerdict:
        await self._tx.execute(_LOCK, {"scope": f"{rule}:{scope}"})
        asked = {"rule": rule, "scope": scope, "event": event, "now": now}
        given = {**asked, "seconds": rate.seconds, "count": rate.count, "refused_count": refused_count}
        return RateVerdict((await self._tx.execute(_COUNT, given)).scalar_one())
