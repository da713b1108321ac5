"""The agents' worker's access to cases, under the restricted role. All writes go through functions
of the database that check case, turn and token; this login can write nothing else. Each statement
is a transaction of its own: none is held open while the agent thinks.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from threadline.cases.model import (
    Action,
    ConversationPage,
    Entry,
    Service,
    TurnEnded,
    WorkflowState,
    entry_of,
)
from threadline.cases.store.messages import CaseMessageStore
from threadline.db.engine import Database
from threadline.db.values import jsonb, parsed, storable
from threadline.db.words import asked_words
from threadline.errors import ClaimLost

_BATCH = """
WITH batch AS MATERIALIZED (SELECT * FROM agent_conversations
                             WHERE bug_id = $1 AND turn = $2 AND sender_type <> 'bot')
SELECT * FROM batch ORDER BY said_at, version, id
"""
"""Filters before it sorts: Postgres would walk through all of the case in that order."""
_ATTACHMENTS = """
SELECT DISTINCT ON (file_id) id, name, content, error FROM agent_attachments
WHERE bug_id = $1 ORDER BY file_id, content IS NULL, id
"""
_SERVICES = "SELECT name, description, owner, channel, repository FROM agent_services"


@dataclass(frozen=True)
class TurnClaim:
    """The right to one turn, and the turn's input.

    `session_id` is new for every attempt; `parent_session` is that of the last settled turn.
    `entries` are the batch: all messages that no settled turn has used. `cost_usd` is the cost of
    the case so far. `diffs` are the newest kept ones by repository, against `base`.
    `fix_requested_by` is the id of the developer's message in this batch that permits a fix.
    `has_findings`: an earlier turn gave findings, which this one may leave as they are.
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
    fix_requested_by: str
    has_findings: bool = False

    @property
    def may_fix(self) -> bool:
        return bool(self.fix_requested_by)


@dataclass(frozen=True)
class TurnOutcome:
    """The result of an attempt.

    Without an `action` it failed: its cost counts, and the turn may be tried again. `read` holds
    the `seq` of every message that the model certainly read through its tool.
    """

    action: Action | None
    result: Mapping[str, Any] = field(default_factory=dict)
    diffs: Mapping[str, str] = field(default_factory=dict)
    base: Mapping[str, str] = field(default_factory=dict)
    has_fix: bool = False
    cost_usd: float = 0.0
    cost_known: bool = True
    input_tokens: int = 0
    output_tokens: int = 0
    duration_s: float = 0.0
    read: Collection[int] = ()
    failure: str = ""


@dataclass(frozen=True)
class AttachedFile:
    """A file that somebody attached in Slack; `name` is theirs, and may be anything.

    `content` is None when the file could not be fetched; `error` is the reason.
    """

    name: str
    content: bytes | None
    error: str = ""


class AgentStore:
    """Turns as their attempts hold them: claimed under a token, renewed while they run, finished
    once.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def claim(
        self, bug_id: str, turn: int, attempt: int, session_id: str, lease_s: float
    ) -> TurnClaim | TurnEnded:
        """Claim a turn: its earlier holder can write nothing more, and the unused messages become
        its batch.

        Returns:
            The claim, or the end of a turn that has ended already.

        Raises:
            ClaimLost: The case is resolved or about to be closed, the turn is not its next
                one, or a newer attempt holds it.
        """
        statement = "SELECT agent_claim_turn($1, $2, $3, $4, $5) AS answer"
        [claimed] = await agent_rows(
            self._database, statement, bug_id, turn, attempt, session_id, lease_s
        )
        answer = parsed(claimed["answer"])
        if answer["status"] == "done":
            cost = answer["cost_usd"]
            return TurnEnded(Action(answer["action"]), None if cost is None else float(cost))
        if answer["status"] == "refused":
            raise ClaimLost(
                f"attempt {attempt} of turn {turn} of {bug_id} has lost its claim, so it stops"
            )
        return TurnClaim(
            bug_id=bug_id,
            turn=turn,
            attempt=attempt,
            token=answer["token"],
            session_id=session_id,
            parent_session=answer["parent_session"] or None,
            state=_state(answer["last_action"]),
            entries=[
                entry_of(row) for row in await agent_rows(self._database, _BATCH, bug_id, turn)
            ],
            questions=answer["questions"],
            cost_usd=float(answer["cost_usd"]),
            base=answer["base"],
            diffs=answer["diffs"],
            fix_requested_by=answer["fix_requested_by"],
            has_findings=answer["has_findings"],
        )

    async def renew(self, claim: TurnClaim, lease_s: float) -> None:
        """Extend the lease of a claim.

        Raises:
            ClaimLost: The lease has run out or another attempt holds the turn: stop at once.
        """
        held = (claim.bug_id, claim.turn, claim.token)
        await agent_rows(
            self._database, "SELECT agent_renew_lease($1, $2, $3, $4)", *held, lease_s
        )

    async def finish(self, claim: TurnClaim, outcome: TurnOutcome) -> None:
        """Commit the result of a turn; safe to repeat.

        A fix without a developer's message in the batch is dropped.

        Raises:
            ClaimLost: As in `renew`; nothing was stored.
        """
        told = asdict(outcome)
        told["read_seqs"] = sorted(told.pop("read"))
        held = (claim.bug_id, claim.turn, claim.token)
        await agent_rows(
            self._database, "SELECT agent_finish_turn($1, $2, $3, $4::jsonb)", *held, jsonb(told)
        )

    async def open_cases(self) -> set[str]:
        """Return the cases whose workspaces may still be needed."""
        found = await agent_rows(
            self._database, "SELECT bug_id FROM agent_cases WHERE status <> 'resolved'"
        )
        return {row["bug_id"] for row in found}

    async def attachments(self, bug_id: str) -> list[AttachedFile]:
        """Return the files attached to the case's messages, in the order of their arrival."""
        ordered = sorted(
            await agent_rows(self._database, _ATTACHMENTS, bug_id), key=lambda row: int(row["id"])
        )
        return [AttachedFile(row["name"], row["content"], row["error"]) for row in ordered]


class CaseReader:
    """The records of the claim's case, for the agent's tools: no method takes a case's id.

    The model may read the messages of `Permanent` and `Transient`, so they hold no secret.
    """

    def __init__(self, database: Database, claim: TurnClaim) -> None:
        self._database = database
        self._claim = claim
        self.bug_id = claim.bug_id

    async def conversation(self, cursor: str | None, limit: int) -> ConversationPage:
        """Return at most `limit` entries from `cursor` on; None starts at the first.

        A cursor always gives the same first entry.

        Raises:
            Permanent: No page returned this cursor.
        """
        async with self._database.connect() as connection:
            return await CaseMessageStore(connection).page(self.bug_id, cursor, limit)

    async def case(self) -> dict[str, Any]:
        """Return the case, with its findings as sentences, oldest first."""
        [case] = await agent_rows(
            self._database, "SELECT * FROM agent_cases WHERE bug_id = $1", self.bug_id
        )
        query = (
            "SELECT title, detail, file, line FROM agent_findings WHERE bug_id = $1 ORDER BY id"
        )
        found = await agent_rows(self._database, query, self.bug_id)
        same = (
            "bug_id",
            "title",
            "status",
            "severity",
            "components",
            "reporter_id",
            "pull_request",
        )
        return {name: case[name] for name in same} | {
            "opened_at": case["created_at"],
            "questions_asked": case["questions"],
            "findings": [_sentence(row) for row in found],
        }

    async def similar(self, text: str, limit: int) -> Sequence[Mapping[str, Any]]:
        """Return other cases of the workspace, the most similar first.

        Their reporters used these words, or their titles look like them. Each has `bug_id`,
        `title`, `status`, `summary` and `similarity`. Of `similarity`, from 0 to 1, only the order
        means something.
        """
        return await agent_rows(
            self._database,
            "SELECT * FROM agent_similar_cases($1, $2, $3, $4)",
            *(self.bug_id, storable(text), asked_words(text), limit),
        )

    async def record_finding(
        self, title: str, detail: str, file: str, line: int, severity: str
    ) -> None:
        """Store a finding once in a turn, also when several attempts record it.

        `line` 0 means the whole file.

        Raises:
            ClaimLost: Another attempt holds the turn.
        """
        await agent_rows(
            self._database,
            "SELECT agent_record_finding($1, $2, $3, $4, $5, $6, $7, $8)",
            *(self.bug_id, self._claim.turn, self._claim.token),
            *(storable(title), storable(detail), storable(file), line, storable(severity)),
        )

    async def services(self) -> Sequence[Service]:
        return [
            Service(**row)
            for row in await agent_rows(self._database, _SERVICES + " ORDER BY name")
        ]

    async def service(self, name: str) -> Service | None:
        rows = await agent_rows(
            self._database, _SERVICES + " WHERE lower(name) = lower($1)", storable(name)
        )
        return Service(**rows[0]) if rows else None


async def agent_rows(database: Database, query: str, *given: object) -> list[dict[str, Any]]:
    """Return the rows of a statement, each by the names of its columns.

    The parameters are $1, $2 and so on.
    """
    async with database.connect() as connection:
        return [dict(row) for row in (await connection.exec_driver_sql(query, given)).mappings()]


def _state(last_action: str) -> WorkflowState:
    """Return the state of the case when this turn's messages came.

    By now its status is `investigating` again.
    """
    if not last_action:
        return WorkflowState.INVESTIGATING
    return (
        WorkflowState.AWAITING_REPORTER
        if last_action == Action.ASK_REPORTER
        else WorkflowState.AWAITING_DEV
    )


def _sentence(finding: Mapping[str, Any]) -> str:
    place = (
        finding["file"]
        and f" ({finding['file']}{':' + str(finding['line']) if finding['line'] else ''})"
    )
    return f"{finding['title']}{place}" + (f": {finding['detail']}" if finding["detail"] else "")
