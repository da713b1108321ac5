"""One turn until it is settled: attempts by the agent's worker, each forked from the last good point."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import FailureError

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import (
        AgentActivities,
        IntakeActivities,
        SaveRequest,
        StatusChange,
        TurnEnded,
        TurnRequest,
        agent_turn_options,
    )
    from threadline.cases.model import BugState, Marks, Settled
    from threadline.threads import addressing
    from threadline.threads.retrying import Attempts

from threadline.threads.calls import attempt, fault_of, pause


class Case(Protocol):
    """What a turn needs of its case."""

    state: BugState
    attempt: workflow.ActivityHandle[TurnEnded] | None
    """The attempt that runs now, for whoever must interrupt it."""

    @property
    def marks(self) -> Marks: ...

    @property
    def closing(self) -> bool: ...

    async def save(self, request: SaveRequest) -> Settled: ...

    def struggle(self, words: str) -> None: ...


async def settle(case: Case, number: int, then: Callable[[], StatusChange | None]) -> Settled:
    """Run attempts at a turn until it has an outcome, people must take over, or the case is to end.

    Args:
        then: the step that its findings are followed by, when they may be posted as soon as it is settled.
    """
    bug_id, attempts = case.marks.bug_id, Attempts()
    while True:
        fault = None
        if case.marks.files_due:
            await attempt(IntakeActivities.fetch_attachments, bug_id, summary="fetch attachments")
        try:
            if case.closing:
                return Settled(case.marks)
            await _run(case, number)
        except (FailureError, asyncio.CancelledError) as error:
            fault = fault_of(error) if isinstance(error, FailureError) else None
        settled = await case.save(SaveRequest(bug_id, number, then=then()))
        delay = attempts.delay(fault, workflow.now().timestamp()) if fault else 1.0
        case.struggle(fault.words if fault and not settled.action else "")
        if delay is None and fault and not (settled.action or case.closing):
            settled = await case.save(SaveRequest(bug_id, number, failure=fault.words))
        if delay is None or settled.action or case.closing:
            case.state.unanswered = False
            return settled
        await pause(delay, lambda: case.closing, "wait before the next attempt")


async def _run(case: Case, number: int) -> None:
    bug_id, limits, no = case.marks.bug_id, case.state.limits, case.marks.attempts + 1
    run = AgentActivities.run_agent_investigation if number == 1 else AgentActivities.run_continuation_investigation
    session = addressing.session_id(bug_id, number, no)
    request = TurnRequest(bug_id, number, no, session, limits, unanswered=case.state.unanswered)
    summary = f"turn {number}" + (f", attempt {no}" if no > 1 else "")
    case.attempt = workflow.start_activity_method(
        run, request, summary=summary, **agent_turn_options(limits).as_kwargs()
    )
    try:
        await case.attempt
    finally:
        case.attempt = None
