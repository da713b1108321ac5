"""The loop in a workflow, with both steps as activities; a module of its own, since the sandbox imports it anew."""

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError

with workflow.unsafe.imports_passed_through():
    from threadline.models.model import Execution, ModelReply, Outcome, StepFailed, ToolCall, ToolChoice

from threadline.conversations.react_loop import react
from threadline.threads.calls import fault_of


@workflow.defn
class LoopWorkflow:
    @workflow.run
    async def run(self, max_turns: int) -> Outcome:
        return await react(self._think, self._act, max_turns=max_turns)

    async def _think(self, choice: ToolChoice) -> ModelReply:
        try:
            reply: ModelReply = await workflow.execute_activity(
                "think",
                choice,
                result_type=ModelReply,
                start_to_close_timeout=timedelta(seconds=10),
                retry_policy=RetryPolicy(maximum_attempts=1),
            )
        except ActivityError as error:
            raise StepFailed(fault_of(error).words) from error
        return reply

    async def _act(self, calls: list[ToolCall]) -> list[Execution]:
        executions: list[Execution] = await workflow.execute_activity(
            "act", calls, result_type=list[Execution], start_to_close_timeout=timedelta(seconds=10)
        )
        return executions
