"""A turn as the agent worker holds it: claimed under a token, renewed while it runs, finished once.

All writing goes through functions of the database that check case, turn and token; this login can write nothing else.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import asyncpg

from threadline.cases import conversation_pages as pages
from threadline.cases.contract import TurnEnded
from threadline.cases.model import Action, WorkflowState
from threadline.cases.records import Entry
from threadline.db.errors import translate_errors
from threadline.db.values import jsonb, parsed
from threadline.errors import ClaimLost

_BATCH = """
WITH batch AS MATERIALIZED (SELECT * FROM agent_conversations WHERE bug_id = $1 AND turn = $2 AND sender_type <> 'bot')
SELECT * FROM batch ORDER BY said_at, version, id
"""
"""Searched before it is ordered: Postgres would walk through all of the case in that order."""


@dataclass(frozen=True)
class Claim:
    """The right to one turn, and what it starts from.

    `entries` are the batch: all that no settled turn has used. `cost_usd` is what the case has cost so far. `diffs` are
    the newest kept ones by repository, against `base`. `fix_asked_by` is the id of the developer's message in this
    batch that permits a fix.
    """

    bug_id: str
    turn: int
    attempt: int
    token: int
    session_id: str
    parent_session: str | None
    state: WorkflowState
    entries: Sequence[Entry]
    questions: int
    cost_usd: float
    base: Mapping[str, str]
    diffs: Mapping[str, str]
    fix_asked_by: str

    @property
    def may_fix(self) -> bool:
        return bool(self.fix_asked_by)


@dataclass(frozen=True)
class TurnOutcome:
    """What an attempt came to. Without an `action` it failed: its cost counts, and the turn may be tried again.

    `result` is the agent's structured answer; `read` holds the `seq` of messages it saw through its tool alone.
    """

    action: Action | None
    result: Mapping[str, Any] = field(default_factory=dict)
    diffs: Mapping[str, str] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)
    has_fix: bool = False
    cost_usd: float = 0.0
    input_tokens: int = 0
    output_tokens: int = 0
    duration_s: float = 0.0
    read: Collection[int] = ()
    failure: str = ""


@dataclass(frozen=True)
class AttachedFile:
    """`content` is None when the file could not be had, for the reason that `error` gives."""

    name: str
    mimetype: str
    content: bytes | None
    error: str


class AgentTurns:
    """Args: `pool`, of `threadline.db.values.agent_pool`."""

    def __init__(self, pool: asyncpg.Pool) -> None:
        self._pool = pool

    async def claim(self, bug_id: str, turn: int, attempt: int, session_id: str, lease_s: float) -> Claim | TurnEnded:
        """Take a turn over: whoever held it before can write no more, and what is unused becomes its batch.

        Returns:
            the claim; or how the turn ended, when it had.

        Raises:
            ClaimLost: the case is resolved or to be closed, the turn is not its next one, or a newer attempt is at it.
        """
        with translate_errors():
            async with self._pool.acquire() as connection, connection.transaction():
                answer = parsed(
                    await connection.fetchval(
                        "SELECT agent_claim_turn($1, $2, $3, $4, $5)", bug_id, turn, attempt, session_id, lease_s
                    )
                )
                rows = await connection.fetch(_BATCH, bug_id, turn)
        if answer["status"] == "done":
            return TurnEnded(Action(answer["action"]), float(answer["cost_usd"]))
        if answer["status"] == "refused":
            raise ClaimLost(f"attempt {attempt} of turn {turn} of {bug_id} has lost its claim, so it stops")
        return Claim(
            bug_id=bug_id,
            turn=turn,
            attempt=attempt,
            token=answer["token"],
            session_id=session_id,
            parent_session=answer["parent_session"] or None,
            state=_state(answer["last_action"]),
            entries=[pages.entry(row) for row in rows],
            questions=answer["questions"],
            cost_usd=float(answer["cost_usd"]),
            base=answer["base"],
            diffs=answer["diffs"],
            fix_asked_by=answer["fix_asked_by"],
        )

    async def renew(self, claim: Claim, lease_s: float) -> None:
        """Raises `ClaimLost` when the lease has run out or the turn is another's: stop at once."""
        with translate_errors():
            await self._pool.execute(
                "SELECT agent_renew_lease($1, $2, $3, $4)", claim.bug_id, claim.turn, claim.token, lease_s
            )

    async def finish(self, claim: Claim, outcome: TurnOutcome) -> None:
        """Commit what the turn came to. Safe to repeat. A fix without a developer's message in the batch is dropped.

        Raises:
            ClaimLost: as in `renew`; nothing was kept.
        """
        told = asdict(outcome)
        told["read_seqs"] = sorted(told.pop("read"))
        with translate_errors():
            await self._pool.execute(
                "SELECT agent_finish_turn($1, $2, $3, $4::jsonb)", claim.bug_id, claim.turn, claim.token, jsonb(told)
            )

    async def open_cases(self) -> set[str]:
        """The cases whose workspaces may still be needed."""
        with translate_errors():
            rows = await self._pool.fetch("SELECT bug_id FROM agent_cases WHERE status <> 'resolved'")
        return {row["bug_id"] for row in rows}

    async def attachments(self, bug_id: str) -> list[AttachedFile]:
        """What was attached to the case's messages, in the order in which it came."""
        with translate_errors():
            rows = await self._pool.fetch(
                "SELECT DISTINCT ON (file_id) id, name, mimetype, content, error FROM agent_attachments"
                " WHERE bug_id = $1 ORDER BY file_id, content IS NULL, id",
                bug_id,
            )
        ordered = sorted(rows, key=lambda row: row["id"])
        return [AttachedFile(row["name"], row["mimetype"], row["content"], row["error"]) for row in ordered]


def _state(last_action: str) -> WorkflowState:
    """What the case was waiting for when this turn's messages came; by now its status is `investigating` again."""
    if not last_action:
        return WorkflowState.INVESTIGATING
    asked = last_action == Action.ASK_REPORTER
    return WorkflowState.AWAITING_REPORTER if asked else WorkflowState.AWAITING_DEV
