"""A workflow whose one activity fails with the text that it was made with."""

from datetime import timedelta

from temporalio import activity, workflow

with workflow.unsafe.imports_passed_through():
    from threadline.errors import Permanent


class FailingActivity:
    def __init__(self, words: str) -> None:
        self._words = words

    @activity.defn
    async def fail(self) -> None:
        raise Permanent(self._words)


@workflow.defn
class Failing:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity("fail", start_to_close_timeout=timedelta(seconds=10))
