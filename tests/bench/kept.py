"""The rows that a conversation leaves in the database: equal for the product and for the floor."""

from typing import Any

from sqlalchemy import text

from bench.ground import Ground
from threadline.slack.model import Thread

_TALKED = {
    "what the model has read and said": """
        SELECT left(t.key, 1) AS kind, t.turn, t.step
        FROM transcript_entries t JOIN conversations c ON c.id = conversation_id
        WHERE c.thread_ts = :ts ORDER BY t.position
    """,
    "calls of the model": """
        SELECT m.turn, m.step, m.purpose, m.output_tokens > 0 FROM model_calls m
        JOIN conversations c ON c.id = conversation_id WHERE c.thread_ts = :ts
        ORDER BY m.turn, m.step
    """,
    "calls of tools": """
        SELECT turn, step, tool_name, status FROM agent_tool_executions WHERE thread_ts = :ts
        ORDER BY turn, step
    """,
    "decisions": """
        SELECT d.turn, d.round, d.type, d.next_step, d.outcome FROM decisions d
        JOIN conversations c ON c.id = conversation_id WHERE c.thread_ts = :ts
        ORDER BY d.turn, d.round
    """,
    "turns": r"""
        SELECT t.turn, t.kind, regexp_replace(t.answer, 'rfp_\w+', 'it'), t.model_calls,
               t.posted_at IS NOT NULL
        FROM conversation_turns t
        JOIN conversations c ON c.id = conversation_id
        WHERE c.thread_ts = :ts AND t.settled_at IS NOT NULL ORDER BY t.turn
    """,
    "posts": (
        "SELECT split_part(key, ':', 5), ts IS NOT NULL FROM posts WHERE thread_ts = :ts ORDER "
        "BY claimed_at"
    ),
}
_OPERATED = {
    "ways": r"""
        SELECT t.turn, t.route->>'branch', jsonb_array_length(t.layers), t.result->>'kind',
               regexp_replace(t.result->>'protocol', 'rfp_\w+', 'it', 'g')
        FROM conversation_turns t JOIN conversations c ON c.id = conversation_id
        WHERE c.thread_ts = :ts AND t.route IS NOT NULL ORDER BY t.turn
    """,
    "states": """
        SELECT s.version, s.document->>'status' FROM opportunity_states s
        WHERE rfp_id IN (SELECT rfp_id FROM journal_entries WHERE thread_ts = :ts)
    """,
    "journal": "SELECT kind, text FROM journal_entries WHERE thread_ts = :ts ORDER BY id",
    "memories": "SELECT kind FROM memories WHERE position(:ts IN key) > 0 ORDER BY kind, id",
}
Kept = dict[str, list[tuple[Any, ...]]]


async def kept(under: Ground, thread: Thread) -> Kept:
    """Return the rows by kind, without ids and times, which differ between the two."""
    async with under.database.begin() as tx:
        return {
            what: [tuple(row) for row in await tx.execute(text(query), {"ts": thread.ts})]
            for what, query in (_TALKED | _OPERATED).items()
        }
