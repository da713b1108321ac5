"""AbsenceStore: the stored messages that the catch-up found absent from Slack, and the number of
passes that found each absent.
"""

from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import case, delete, func, select, text, update

from threadline.db.engine import Store, Transaction
from threadline.threads.absence import PERIOD, Verdict
from threadline.threads.tables import catch_up_absences

RESTORED = "restored"
"""The verdict of a message that the admin has restored: its absence no longer counts."""
KEPT = 7 * 86_400.0
"""Seconds for which an absence is kept after a pass last found it: a deep pass checks every
absence each day.
"""

_RECORD = text("""
INSERT INTO catch_up_absences AS a
    (team, message_id, channel, thread_ts, looks, looked_at, verdict)
SELECT :team, absent.id, :channel, :thread_ts, 1, CAST(:began AS double precision), 'waiting'
FROM unnest(CAST(:ids AS text[])) AS absent (id)
ON CONFLICT (team, message_id) DO UPDATE SET
    looks = a.looks + CASE WHEN a.looked_at = excluded.looked_at THEN 0 ELSE 1 END,
    looked_at = excluded.looked_at
RETURNING message_id, looks
""")
"""A pass counts once, however often its activities are repeated."""
_COUNTS = text("""
SELECT count(*) FILTER (WHERE channel = :channel) AS in_channel, count(*) AS in_workspace
FROM catch_up_absences
WHERE team = :team AND looked_at > :since AND verdict <> 'restored'
""")

_row = catch_up_absences.c


@dataclass(frozen=True)
class AbsentMessage:
    """A message that Slack does not show and that is kept."""

    message_id: str
    channel: str
    thread_ts: str
    looks: int


class AbsenceStore(Store):
    """The absences of one workspace."""

    def __init__(self, tx: Transaction, team: str) -> None:
        super().__init__(tx)
        self._team = team

    async def record(
        self, channel: str, thread_ts: str, ids: Collection[str], began: float
    ) -> dict[str, int]:
        """Record that a pass found messages absent.

        Args:
            began: when the pass began, in seconds since 1970.

        Returns:
            The number of passes that found each message absent, by message id.
        """
        given = {
            "team": self._team,
            "channel": channel,
            "thread_ts": thread_ts,
            "ids": list(ids),
            "began": began,
        }
        return {row.message_id: row.looks for row in await self._tx.execute(_RECORD, given)}

    async def forget(self, ids: Collection[str]) -> None:
        """Forget the absences of messages that Slack shows, so that a later absence counts from
        one.
        """
        seen = (_row.team == self._team, _row.message_id.in_(list(ids)), _row.verdict != RESTORED)
        await self._tx.execute(delete(catch_up_absences).where(*seen))

    async def restored(self, ids: Collection[str]) -> set[str]:
        """Return the ids among `ids` of messages that the admin has restored."""
        these = (_row.team == self._team, _row.message_id.in_(list(ids)), _row.verdict == RESTORED)
        return set((await self._tx.execute(select(_row.message_id).where(*these))).scalars())

    async def set_verdict(self, ids: Collection[str], verdict: str) -> None:
        these = (_row.team == self._team, _row.message_id.in_(list(ids)))
        await self._tx.execute(update(catch_up_absences).where(*these).values(verdict=verdict))

    async def counts(self, channel: str, began: float) -> tuple[int, int]:
        """Count the messages found absent within `PERIOD`, in the channel and in the workspace."""
        given = {"team": self._team, "channel": channel, "since": began - PERIOD}
        found = (await self._tx.execute(_COUNTS, given)).one()
        return int(found.in_channel), int(found.in_workspace)

    async def count_doubted(self) -> int:
        doubted = (_row.team == self._team, _row.verdict == Verdict.DOUBTED)
        return int((await self._tx.execute(select(func.count()).where(*doubted))).scalar_one())

    async def doubted(self, limit: int) -> list[AbsentMessage]:
        """Return messages that are kept although Slack does not show them."""
        columns = (_row.message_id, _row.channel, _row.thread_ts, _row.looks)
        query = select(*columns).where(_row.team == self._team, _row.verdict == Verdict.DOUBTED)
        found = await self._tx.execute(query.order_by(_row.message_id).limit(limit))
        return [AbsentMessage(*row) for row in found]

    async def prune(self, now: float, restored_before: float) -> None:
        """Delete absences that no pass has found for `KEPT`: the message is older than the
        catch-up looks back, or was deleted.

        Args:
            now: in seconds since 1970, like `restored_before`.
            restored_before: a restored message's absence is deleted when it was last found before
                this time.
        """
        row_before = case((_row.verdict == RESTORED, restored_before), else_=now - KEPT)
        old = (_row.team == self._team, _row.looked_at < row_before)
        await self._tx.execute(delete(catch_up_absences).where(*old))
