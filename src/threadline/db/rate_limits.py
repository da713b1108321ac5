"""Who asks too often: too much at once, or one record changed too fast.

A message or a change that is asked about again gets the verdict it got, whatever happened since.
"""

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from threadline.db.rate_limit_rules import USER_RATE, Rate, RateExceeded, Verdict
from threadline.db.values import storable_key

_TAKE_TURNS = text("SELECT pg_advisory_xact_lock(hashtextextended(:scope, 0))")
"""A statement of its own: one that waits for its lock still sees the rows as they were before it waited."""
_JUDGE = text("""
INSERT INTO limit_verdicts AS known (rule, scope, event, at, verdict)
SELECT CAST(:rule AS text), CAST(:scope AS text), CAST(:event AS text), CAST(:now AS double precision), CASE
    WHEN (SELECT count(*) FROM (
            SELECT FROM limit_verdicts v
            WHERE v.rule = :rule AND v.scope = :scope AND v.at > :now - :seconds AND v.at < :now + :seconds
              AND (:refused_count OR v.verdict = 'ok')
            LIMIT :count) earlier) < :count THEN 'ok'
    WHEN EXISTS (
            SELECT FROM limit_verdicts v
            WHERE v.rule = :rule AND v.scope = :scope AND v.at > :now - :seconds AND v.at < :now + :seconds
              AND v.verdict = 'throttled_first') THEN 'throttled'
    ELSE 'throttled_first' END
ON CONFLICT (rule, scope, event) DO UPDATE SET event = excluded.event
RETURNING verdict
""")
"""The clocks of two workers differ a little, so what was judged by a later one counts as well."""
_PRUNE = text("""
DELETE FROM limit_verdicts WHERE ctid IN (SELECT ctid FROM limit_verdicts WHERE at < :before LIMIT :limit)
""")


class Limits:
    """Each question holds a lock until its transaction ends, so the transaction should do little else.

    `now` is always in seconds since 1970. What is as old as the rule's window, to the second, no longer counts.
    """

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of_user(self, team: str, user_id: str, message_id: str, now: float, rate: Rate = USER_RATE) -> Verdict:
        """Whether a person has asked more than ten times within a minute; refused requests count as well.

        Of the refused ones in any minute the first is `THROTTLED_FIRST`.
        """
        return await self._judge("user", f"{team}:{user_id}", message_id, now, rate)

    async def allows_mutation(self, record: str, operation_key: str, now: float, rate: Rate) -> bool:
        """Whether a record may be changed once more; what was refused changed nothing and does not count.

        Args:
            record: any name that is the record's alone, such as `T1:project:PRJ-1`.
        """
        verdict = await self._judge("mutation", record, operation_key, now, rate, refused_count=False)
        return verdict is Verdict.OK

    async def count_change(self, team: str, record: str, operation_key: str, now: float, rate: Rate) -> None:
        """Count a change of a team's record, the same operation once.

        Raises:
            RateExceeded: it was changed too often; the transaction is to end without changing it.
        """
        scope, event = storable_key(f"{team}:{record}"), storable_key(operation_key)
        if not await self.allows_mutation(scope, event, now, rate):
            raise RateExceeded(
                f"this record has reached its limit of {rate.count} changes in {rate.seconds:g} seconds: "
                "nothing was changed; try again later"
            )

    async def prune(self, before: float, limit: int = 10_000) -> int:
        """Forget verdicts from before a moment, at most `limit`; returns how many, so that 0 means none is left."""
        return (await self._connection.execute(_PRUNE, {"before": before, "limit": limit})).rowcount

    async def _judge(
        self, rule: str, scope: str, event: str, now: float, rate: Rate, *, refused_count: bool = True
    ) -> Verdict:
        await self._connection.execute(_TAKE_TURNS, {"scope": f"{rule}:{scope}"})
        asked = {"rule": rule, "scope": scope, "event": event, "now": now}
        given = {**asked, "seconds": rate.seconds, "count": rate.count, "refused_count": refused_count}
        return Verdict((await self._connection.execute(_JUDGE, given)).scalar_one())
