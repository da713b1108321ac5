"""One attempt at a turn: claim it, prepare the workspace, run the agent under a lease, commit the
outcome.
"""

import asyncio
import contextlib
import errno
from collections.abc import Coroutine, Iterator
from dataclasses import replace
from typing import Any, TypeVar, cast

import structlog

from threadline.cases.contract import AgentActivities, TurnRequest
from threadline.cases.model import Action, TurnEnded
from threadline.db.engine import Database
from threadline.errors import INVESTIGATION, ClaimLost, Mendable, Permanent, Transient
from threadline.forge.git import DiskUnusable
from threadline.investigator.runner import Investigator, TurnInput
from threadline.investigator.session_store import TurnSessionStore
from threadline.investigator.store import (
    AgentStore,
    AttachedFile,
    CaseReader,
    TurnClaim,
    TurnOutcome,
)
from threadline.investigator.stream import SessionUsage
from threadline.investigator.workspace import Workspaces
from threadline.privacy.redaction import redact, redact_value
from threadline.threads.activity import run_to_end

LEASE = 30.0
"""Seconds for which a claim holds without a renewal.

A worker that cannot renew it stops its agent by then.
"""
RENEW_INTERVAL = 5.0
COST_WAIT = 10.0
"""Seconds without Postgres after which the cost of a failed attempt is lost; well below `LEASE`.
"""

_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)
_FREE_SPACE = "The disk under the agent's workspaces is full: free some space there."
_DISK_UNUSABLE = (
    *(errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO, errno.ESTALE),
    *(errno.EMFILE, errno.ENFILE, errno.ENOMEM),
)
"""Faults of the machine, not of the case: a missing or read-only volume, or no free file handles.
"""

Value = TypeVar("Value")
_log = structlog.get_logger(__name__)


class LiveAgentActivities(AgentActivities):
    """The live activities of the agent.

    Args:
        database: The database, under the agents' role.
        workspaces: The workspaces of this machine.
        investigator: Runs the agent.
    """

    def __init__(
        self, database: Database, workspaces: Workspaces, investigator: Investigator
    ) -> None:
        self._database = database
        self._store = AgentStore(database)
        self._workspaces = workspaces
        self._investigator = investigator

    async def run_agent_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    async def run_continuation_investigation(self, request: TurnRequest) -> TurnEnded:
        return await self._run(request)

    async def cleanup_workspace(self, bug_id: str) -> None:
        await self._workspaces.remove(bug_id)

    async def _run(self, request: TurnRequest) -> TurnEnded:
        claim = await self._store.claim(
            request.bug_id, request.turn, request.attempt, request.session_id, lease_s=LEASE
        )
        if isinstance(claim, TurnEnded):
            return claim
        _log.info(
            "turn_claimed",
            case=claim.bug_id,
            turn=claim.turn,
            attempt=claim.attempt,
            messages=len(claim.entries),
        )
        with disk_errors_are_mendable():
            attached = await self._store.attachments(claim.bug_id)
            if any(file.content is None and not file.error for file in attached):
                # Its message was stored after the workflow had looked for attachments, and before
                # the turn took its batch.
                raise Transient(
                    "A file was attached when the turn started: the turn is retried once the "
                    "file is fetched."
                )
            return await self._under_lease(claim, self._work(request, claim, attached))

    async def _work(
        self, request: TurnRequest, claim: TurnClaim, attached: list[AttachedFile]
    ) -> TurnEnded:
        budget = min(
            request.limits.turn_budget_usd, request.limits.case_budget_usd - claim.cost_usd
        )
        if budget <= 0:
            limit = request.limits.case_budget_usd
            raise Permanent(
                f"The case has used up its budget of ${limit:.2f} (THREADLINE_CASE_BUDGET_USD)."
            )
        records = CaseReader(self._database, claim)
        sessions = TurnSessionStore(self._database, claim)
        async with self._workspaces.open(
            claim.bug_id, claim.base, claim.diffs, attached
        ) as workspace:
            usage = SessionUsage()
            try:
                turn = TurnInput(request, claim, workspace.path, budget, records, sessions)
                outcome = await self._investigator.run(turn, usage)
                diffs = await workspace.diff() if claim.may_fix else dict(claim.diffs)
                result = redact_value(outcome.result)
                has_fix = diffs != dict(claim.diffs)
                outcome = replace(
                    outcome, result=result, diffs=diffs, base=workspace.base, has_fix=has_fix
                )
                await self._store.finish(claim, replace(outcome, **vars(usage)))
            except BaseException as error:
                await run_to_end(self._record_failure(claim, usage, error))
                raise
        return TurnEnded(
            cast("Action", outcome.action), usage.cost_usd if usage.cost_known else None
        )

    async def _record_failure(
        self, claim: TurnClaim, usage: SessionUsage, error: BaseException
    ) -> None:
        """Store the cost of an attempt without an outcome, however it ended: the case's budget
        must hold.

        Only the holder of the claim may write. A cost that cannot be written for `COST_WAIT`
        seconds is lost.
        """
        failure = redact(str(error)) if isinstance(error, Permanent | Transient) else ""
        try:
            async with asyncio.timeout(COST_WAIT):
                while True:
                    try:
                        return await self._store.finish(
                            claim, TurnOutcome(None, failure=failure, **vars(usage))
                        )
                    except Transient:
                        await asyncio.sleep(1)
        except (Permanent, TimeoutError) as lost:
            _log.warning(
                "cost_not_recorded",
                case=claim.bug_id,
                turn=claim.turn,
                cost_usd=usage.cost_usd,
                reason=str(lost),
            )

    async def _under_lease(self, claim: TurnClaim, work: Coroutine[Any, Any, Value]) -> Value:
        """Run `work` while the claim is renewed; the first one to end stops the other."""
        working = asyncio.create_task(work)
        renewing = asyncio.create_task(self._renew_lease(claim))
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            if renewing.done() and not working.done():
                renewing.result()
            return await working
        finally:
            await run_to_end(_stop(working, renewing))

    async def _renew_lease(self, claim: TurnClaim) -> None:
        """Renew the lease by a timer: nothing arrives from the agent while its model thinks.

        Raises:
            ClaimLost: Another attempt or the case's end took the turn.
            Transient: Postgres was away for nearly the whole lease.
        """
        loop = asyncio.get_running_loop()
        renewed = loop.time()
        while True:
            try:
                async with asyncio.timeout(RENEW_INTERVAL):
                    await self._store.renew(claim, LEASE)
                renewed = loop.time()
            except (Transient, TimeoutError) as error:
                if loop.time() - renewed > LEASE - 2 * RENEW_INTERVAL:
                    raise Transient(
                        "The turn's lease could not be renewed: the turn is tried again."
                    ) from error
            except ClaimLost:
                _log.info("claim_lost", case=claim.bug_id, turn=claim.turn, attempt=claim.attempt)
                raise
            await asyncio.sleep(RENEW_INTERVAL)


@contextlib.contextmanager
def disk_errors_are_mendable() -> Iterator[None]:
    """Raise faults of the disk as `Mendable`.

    Otherwise every case would be escalated at its first attempt while a disk is full.
    """
    try:
        yield
    except DiskUnusable as error:
        raise _disk_fault(_FREE_SPACE) from error
    except OSError as error:
        if error.errno in _DISK_FULL:
            todo = _FREE_SPACE
        elif error.errno in _DISK_UNUSABLE:
            todo = (
                f"The agent's workspaces cannot be used ({error.strerror}): check "
                "THREADLINE_WORKSPACES on its machine."
            )
        else:
            raise
        raise _disk_fault(todo) from error


def _disk_fault(todo: str) -> Mendable:
    return Mendable(todo, kind=INVESTIGATION, subject="disk")


async def _stop(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks one after the other.

    The claim is renewed until the work that needs it has ended.
    """
    for task in tasks:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
