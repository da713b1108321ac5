"""A fix at the code host: its pull request is opened, and asked about; the host may be away for long."""

import asyncio
from typing import Protocol

from temporalio import workflow
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import TurnRef
    from threadline.cases.fix_contract import FixActivities
    from threadline.cases.model import Marks

from threadline.threads.calls import call, fault_of


class Case(Protocol):
    """What a fix needs of its case."""

    @property
    def marks(self) -> Marks: ...

    @property
    def closing(self) -> bool: ...

    def merge(self, marks: Marks) -> None: ...


async def open_pull_request(case: Case, turn: TurnRef) -> str | None:
    """Why none could be opened, in words; None otherwise.

    A code host that is away is waited for, but not by a reporter who wants the case closed.
    """
    opening = asyncio.create_task(call(FixActivities.open_pull_request, turn, summary="open a pull request"))
    await workflow.wait_condition(lambda: opening.done() or case.closing)
    if not opening.done():
        opening.cancel()
        return None
    try:
        case.merge(opening.result())
    except FailureError as error:
        return fault_of(error).words
    return None


async def check(case: Case) -> None:
    """Ask the code host whether the fix was merged; without an answer everything stays as it is."""
    try:
        case.merge(await call(FixActivities.check_pull_request, case.marks.bug_id, summary="check the pull request"))
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
        workflow.logger.warning("pull_request_check_failed", extra={"case": case.marks.bug_id})
