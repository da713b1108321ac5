"""A reply whose thread the gateway could not place in time: find its case in peace, and hand the message on."""

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from threadline.cases.contract import Forward, IntakeActivities
    from threadline.slack.model import Thread
    from threadline.threads import addressing

from threadline.threads.calls import call
from threadline.threads.inbox import Inbox


@workflow.defn(name=addressing.ROUTE_REPLY_WORKFLOW)
class RouteReplyWorkflow:
    """Short-lived, one for each thread that is unknown to the gateway; ends when nothing is left to forward."""

    @workflow.init
    def __init__(self, thread: Thread) -> None:
        self._inbox = Inbox([], {})

    @workflow.signal(dynamic=True, description="incoming_message: somebody wrote in this thread.")
    def receive(self, name: str, args: Sequence[RawValue]) -> None:
        """Dynamic, so that what the SDK cannot decode arrives as well."""
        self._inbox.receive(name, args)

    @workflow.run
    async def run(self, thread: Thread) -> str:
        """Forward each message in turn; the whole envelope goes on, so that its id stays what it was."""
        await workflow.wait_condition(lambda: len(self._inbox) > 0)
        outcome = "not a case"
        while batch := self._inbox.batch():
            try:
                known = await call(IntakeActivities.forward_reply, Forward(thread, batch[0]), summary="find the case")
            except FailureError as error:
                if not is_cancelled_exception(error):
                    raise RuntimeError("an activity with unlimited retries failed") from error
                continue  # a Cancel in the UI must not lose what was accepted
            outcome = "forwarded" if known else outcome
            self._inbox.stored(1)
        return outcome
