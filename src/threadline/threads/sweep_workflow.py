"""SweepWorkflow: what the schedule starts. It starts the catch-up, and runs every sweep."""

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError, is_cancelled_exception
from temporalio.workflow import ChildWorkflowCancellationType, ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from threadline.threads import addressing
    from threadline.threads.contract import CatchUpState, SweepActivities, SweepPage, SweepRequest

from threadline.threads.calls import attempt
from threadline.threads.catch_up_workflow import CatchUpWorkflow


@workflow.defn(name=addressing.SWEEP_WORKFLOW)
class SweepWorkflow:
    """Does not wait for the catch-up, which waits for Slack as long as Slack is away."""

    @workflow.run
    async def run(self, request: SweepRequest) -> str:
        """Start the catch-up, then sweep once, page by page. A sweep that gives up does not end the others."""
        started = await _start_catch_up()
        failed = [name for name in request.names if not await _sweep(name)]
        return f"{started}, failed: {', '.join(failed)}" if failed else f"{started}, swept"


async def _sweep(name: str) -> bool:
    """Returns whether the sweep came to its end."""
    page: SweepPage | None = SweepPage(name)
    while page:
        pages: list[SweepPage | None] = []
        summary = f"{name} after {page.after}" if page.after else name
        if await attempt(SweepActivities.sweep, page, summary=summary, on_result=pages.append):
            return False
        page = pages[0]
    return True


async def _start_catch_up() -> str:
    """There is one at a time: a schedule adds the time to the id of what it starts, and so cannot start it itself."""
    try:
        await workflow.start_child_workflow(
            CatchUpWorkflow.run,
            CatchUpState(),
            id=addressing.CATCH_UP_ID,
            parent_close_policy=ParentClosePolicy.ABANDON,
            cancellation_type=ChildWorkflowCancellationType.ABANDON,
        )
    except WorkflowAlreadyStartedError:
        return "catch-up runs already"
    except FailureError as error:
        if is_cancelled_exception(error):
            raise
        return "catch-up not started"
    return "catch-up started"
