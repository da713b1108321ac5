"""RemovedStore: copies of the content that inferred deletions removed, for `threadline messages
restore`.
"""

from dataclasses import dataclass

from sqlalchemy import delete, func, select, text

from threadline.db.engine import Store
from threadline.threads.tables import removed_content

_LISTED = text("""
SELECT message_id, record, coalesce(bug_id, '') AS bug_id,
       coalesce(conversation_id, 0) AS conversation_id,
       CAST(extract(epoch FROM min(removed_at)) AS double precision) AS removed_at
FROM removed_content
WHERE starts_with(message_id, :team)
  AND record IN ('bug_conversations', 'conversation_messages', 'handover_answers')
GROUP BY message_id, record, bug_id, conversation_id
ORDER BY min(removed_at) DESC, message_id LIMIT :limit
""")

_row = removed_content.c


@dataclass(frozen=True)
class RemovedMessage:
    """A message that can be restored. `record` is the table that stored it. `bug_id` or
    `conversation_id` is set. `removed_at`: seconds since 1970.
    """

    message_id: str
    record: str
    bug_id: str
    conversation_id: int
    removed_at: float


class RemovedStore(Store):
    """Lists and prunes the copies; the stores of messages make and restore them."""

    async def listed(self, team: str, limit: int) -> list[RemovedMessage]:
        """Return the messages that can be restored in a workspace, the last removed first."""
        rows = await self._tx.execute(_LISTED, {"team": f"{team}:", "limit": limit})
        return [RemovedMessage(**row) for row in rows.mappings()]

    async def prune(self, before: float, limit: int = 1_000) -> int:
        """Delete copies that were made before a moment (seconds since 1970), at most `limit`;
        returns how many.
        """
        old = select(_row.id).where(_row.removed_at < func.to_timestamp(before)).limit(limit)
        return (await self._tx.execute(delete(removed_content).where(_row.id.in_(old)))).rowcount
