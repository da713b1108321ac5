"""One attempt at a turn: claim it, lay the workspace, let the agent work under a lease, commit what it came to."""

import asyncio
import contextlib
import errno
from collections.abc import Coroutine, Iterator
from typing import Any, Protocol, TypeVar

import structlog
from claude_agent_sdk import SessionStore
from temporalio import activity

from threadline.cases.contract import AgentActivities, TurnEnded, TurnRequest
from threadline.cases.outcome import Outcome
from threadline.cases.records import Entry
from threadline.errors import ClaimLost, Permanent, Transient
from threadline.investigator.cancellation import run_to_end
from threadline.investigator.ports import CaseRecords, LogSearch, QuerySource, TurnBrief, TurnResult
from threadline.investigator.runner import Investigator
from threadline.investigator.store import AgentTurns, Claim, TurnOutcome
from threadline.investigator.stream import SessionUsage
from threadline.investigator.workspace import Attachment, Workspace, Workspaces
from threadline.privacy.redaction import redact, redact_value

LEASE = 30.0
"""Seconds for which a claim holds without being renewed; a worker that cannot renew it stops its agent by then."""
BEAT = 5.0
COST_WAIT = 10.0
"""Seconds for which Postgres may be away before the cost of a failed attempt is lost; well below `LEASE`."""

_FULL = (errno.ENOSPC, errno.EDQUOT)
_UNUSABLE = (
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
)
"""The machine's trouble, too, and not the case's: a volume that is away, one that is read-only, no more handles."""

Value = TypeVar("Value")
_log = structlog.get_logger(__name__)


class CaseAccess(Protocol):
    """What an attempt may reach of its case: bound to the claim, and refused once that is lost."""

    def records(self, claim: Claim) -> CaseRecords: ...

    def sessions(self, claim: Claim) -> SessionStore: ...


class LiveAgentActivities(AgentActivities):
    """Args: `queries` and `logs` are offered to the agent when they are given."""

    def __init__(
        self,
        turns: AgentTurns,
        access: CaseAccess,
        workspaces: Workspaces,
        investigator: Investigator,
        queries: QuerySource | None = None,
        logs: LogSearch | None = None,
    ) -> None:
        self._turns = turns
        self._access = access
        self._workspaces = workspaces
        self._investigator = investigator
        self._queries = queries
        self._logs = logs

    @activity.defn
    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    @activity.defn
    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    @activity.defn
    async def cleanup_workspace(self, bug_id: str) -> None:
        await self._workspaces.remove(bug_id)

    async def _run(self, request: TurnRequest) -> TurnEnded:
        claim = await self._turns.claim(
            request.bug_id, request.turn, request.attempt, request.session_id, lease_s=LEASE
        )
        if isinstance(claim, TurnEnded):
            return claim
        _log.info(
            "turn_claimed", case=claim.bug_id, turn=claim.turn, attempt=claim.attempt, messages=len(claim.entries)
        )
        with _trouble_of_the_machine_passes():
            await self._refuse_unfetched(claim)
            return await self._under_lease(claim, self._work(request, claim))

    async def _refuse_unfetched(self, claim: Claim) -> None:
        """A message may be stored after the workflow looked what to fetch, and before the turn took its batch."""
        if any(file.content is None and not file.error for file in await self._turns.attachments(claim.bug_id)):
            raise Transient("A file was attached when the turn started: the turn is retried once the file is fetched.")

    async def _work(self, request: TurnRequest, claim: Claim) -> TurnEnded:
        budget = min(request.limits.turn_budget_usd, request.limits.case_budget_usd - claim.cost_usd)
        if budget <= 0:
            limit = request.limits.case_budget_usd
            raise Permanent(f"The case has used up its budget of ${limit:.2f} (THREADLINE_CASE_BUDGET_USD).")
        files = await self._turns.attachments(claim.bug_id)
        attached = [Attachment(file.name, file.content) for file in files if file.content is not None]
        async with self._workspaces.open(claim.bug_id, claim.base, claim.diffs, attached) as workspace:
            usage = SessionUsage()
            try:
                result = await self._investigate(_brief(request, claim, workspace, budget), claim, usage)
                diffs = await workspace.diff() if claim.may_fix else dict(claim.diffs)
                await self._turns.finish(claim, _outcome(claim, workspace, result, usage, diffs))
            except BaseException as error:
                await run_to_end(self._record_failure(claim, usage, error))
                raise
        return TurnEnded(result.outcome.action, usage.cost_usd)

    async def _investigate(self, brief: TurnBrief, claim: Claim, usage: SessionUsage) -> TurnResult:
        run = self._investigator.run_investigation if claim.turn == 1 else self._investigator.run_continuation
        records, sessions = self._access.records(claim), self._access.sessions(claim)
        return await run(brief, records, sessions, usage, queries=self._queries, logs=self._logs)

    async def _record_failure(self, claim: Claim, usage: SessionUsage, error: BaseException) -> None:
        """Count what an attempt without an outcome has cost, whatever ended it: the budget of the case must hold.

        Only the holder of the claim may write. A cost that cannot be written for `COST_WAIT` seconds is lost.
        """
        failure = redact(str(error)) if isinstance(error, Permanent | Transient) else ""
        try:
            async with asyncio.timeout(COST_WAIT):
                while True:
                    try:
                        return await self._turns.finish(claim, TurnOutcome(None, failure=failure, **vars(usage)))
                    except Transient:
                        await asyncio.sleep(1)
        except (Permanent, TimeoutError) as lost:
            _log.warning(
                "cost_not_recorded", case=claim.bug_id, turn=claim.turn, cost_usd=usage.cost_usd, reason=str(lost)
            )

    async def _under_lease(self, claim: Claim, work: Coroutine[Any, Any, Value]) -> Value:
        """Run `work` for as long as the claim can be renewed; whatever ends first ends the other."""
        working, keeping = asyncio.create_task(work), asyncio.create_task(self._keep(claim))
        try:
            await asyncio.wait({working, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if keeping.done() and not working.done():
                keeping.result()
            return await working
        finally:
            await run_to_end(_stop(working, keeping))

    async def _keep(self, claim: Claim) -> None:
        """Heartbeat and renew by a timer: nothing comes from the agent while its model thinks.

        Raises:
            ClaimLost: another attempt or the case's end took the turn, or Postgres was away for the whole lease.
        """
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            activity.heartbeat()
            try:
                async with asyncio.timeout(BEAT):
                    await self._turns.renew(claim, LEASE)
                renewed = loop.time()
            except (Transient, TimeoutError) as error:
                if loop.time() - renewed > LEASE - 2 * BEAT:
                    raise Transient("The turn's lease could not be renewed: the turn is tried again.") from error
            except ClaimLost:
                _log.info("claim_lost", case=claim.bug_id, turn=claim.turn, attempt=claim.attempt)
                raise
            await asyncio.sleep(BEAT)


@contextlib.contextmanager
def _trouble_of_the_machine_passes() -> Iterator[None]:
    """Without this each case of the hour in which a disk is full would be escalated at its first attempt."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            todo = "The disk under the agent's workspaces is full: free some space there"
        elif error.errno in _UNUSABLE:
            todo = (
                f"The agent's workspaces cannot be used ({error.strerror}): check THREADLINE_WORKSPACES on its machine"
            )
        else:
            raise
        raise Transient(f"{todo}; the turn is tried again until then.") from error


def _brief(request: TurnRequest, claim: Claim, workspace: Workspace, budget: float) -> TurnBrief:
    return TurnBrief(
        bug_id=claim.bug_id,
        turn=claim.turn,
        attempt=claim.attempt,
        session_id=claim.session_id,
        parent_session=claim.parent_session,
        state=claim.state,
        entries=[Entry(**vars(entry)) for entry in claim.entries],
        workspace=workspace.path,
        may_ask=not request.unanswered and claim.questions < request.limits.max_questions,
        may_fix=claim.may_fix,
        unanswered=request.unanswered,
        budget_usd=budget,
        timeout=request.limits.turn_timeout,
    )


def _outcome(
    claim: Claim, workspace: Workspace, result: TurnResult, usage: SessionUsage, diffs: dict[str, str]
) -> TurnOutcome:
    outcome: Outcome = result.outcome
    return TurnOutcome(
        action=outcome.action,
        result=redact_value(outcome.model_dump(mode="json")),
        diffs=diffs,
        base=workspace.base,
        has_fix=diffs != dict(claim.diffs),
        duration_s=result.duration_s,
        read=result.read,
        **vars(usage),
    )


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """End each task before the next: the claim is kept until the work that needs it has ended."""
    for task in tasks:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
