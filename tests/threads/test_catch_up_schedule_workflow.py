"""Passes of the catch-up run by a schedule, and compare cases first, also when the other threads
take long.
"""

from dataclasses import dataclass, field
from datetime import timedelta

import pytest
from temporalio import activity
from temporalio.client import (
    Client,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    WorkflowExecutionStatus,
)
from temporalio.workflow import Info

from tests.support.temporal import real_time, until, with_schedules, worker
from threadline.errors import InternalError, Permanent
from threadline.threads.activity_options import activities_of
from threadline.threads.contract import (
    CATCH_UP_ID,
    CATCH_UP_REQUESTED,
    CatchUpActivities,
    CatchUpPlan,
    CatchUpState,
    ChannelRead,
    ComparisonResult,
    HistoryWindow,
    LookScope,
    PageRequest,
    PlanRequest,
    SweepActivities,
    SweepPage,
    SweepRequest,
)
from threadline.threads.model import CORE_QUEUE
from threadline.threads.workflow import CatchUpWorkflow, SweepWorkflow
from threadline.wiring.doctor import check_sweep
from threadline.wiring.temporal import ensure_schedule


@dataclass
class Looks(CatchUpActivities):
    """One channel of cases and two with conversations, each with two pages and one changed thread.

    `asks` requests a pass when the first page of this channel is read.
    """

    asks: str = ""
    fails: str = ""
    """This activity fails permanently in its first call."""
    done: list[str] = field(default_factory=list)

    @activity.defn
    async def plan_catch_up(self, request: PlanRequest) -> CatchUpPlan:
        self.done.append("deep pass" if request.deep else "pass")
        scopes = {
            "talk1": LookScope.CONVERSATIONS,
            "cases": LookScope.CASES,
            "talk2": LookScope.CONVERSATIONS,
        }
        windows = [HistoryWindow(channel, "0", "2", scope) for channel, scope in scopes.items()]
        return CatchUpPlan(0.0, request.deep, 0.0, windows)

    @activity.defn
    async def read_history_page(self, request: PageRequest) -> str:
        self.done.append(request.window.channel)
        if self.asks == request.window.channel:
            self.asks = ""
            info = activity.info()
            assert info.workflow_id
            await (
                activity.client()
                .get_workflow_handle(info.workflow_id)
                .signal(CATCH_UP_REQUESTED, {"deep": False})
            )
        return "1" if request.latest == "2" else ""

    @activity.defn
    async def record_channel(self, read: ChannelRead) -> None: ...

    @activity.defn
    async def select_threads(self, plan: CatchUpPlan) -> int:
        if self.fails == "select_threads":
            self.fails = ""
            raise InternalError("the database refused the statement")
        return 2

    @activity.defn
    async def compare_threads(self, plan: CatchUpPlan) -> ComparisonResult:
        talk = plan.scope is LookScope.CONVERSATIONS
        self.done.append("talks" if talk else "threads")
        return ComparisonResult(self.done.count("talks") % 2 if talk else 0)


async def look(looks: Looks) -> list[str]:
    async with (
        real_time() as environment,
        worker(environment, [CatchUpWorkflow], activities_of(looks)),
    ):
        await environment.client.execute_workflow(
            CatchUpWorkflow.run,
            CatchUpState(deep=True),
            id=CATCH_UP_ID,
            task_queue=CORE_QUEUE,
        )
    return looks.done


CASES = ["cases", "cases", "threads"]


async def test_cases_are_compared_before_any_conversation() -> None:
    assert await look(Looks()) == [
        "deep pass",
        *CASES,
        "talk1",
        "talk1",
        "talk2",
        "talk2",
        "talks",
        "talks",
    ]


async def test_cases_are_checked_again_during_a_pass_over_conversations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threadline.threads.contract.CASE_INTERVAL", -1.0)
    again = ["pass", *CASES]
    pages = [
        each
        for channel in ("talk1", "talk1", "talk2", "talk2", "talks", "talks")
        for each in (channel, *again)
    ]
    assert await look(Looks()) == ["deep pass", *CASES, *pages]


async def test_requested_pass_begins_with_cases_as_deep_as_the_one_before() -> None:
    whole = [*CASES, "talk1", "talk1", "talk2", "talk2"]
    done = await look(Looks(asks="talk1"))
    first = ["deep pass", *CASES, "talk1", "talk1", "deep pass", *whole, "talks"]
    assert done[: len(first)] == first


async def test_deep_pass_that_continues_in_a_new_run_stays_deep(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Info, "is_continue_as_new_suggested", lambda info: True)
    compared: list[tuple[str, bool]] = []

    class Long(Looks):
        """A pass with three threads of cases and three of conversations."""

        @activity.defn
        async def compare_threads(self, plan: CatchUpPlan) -> ComparisonResult:
            compared.append((plan.scope, plan.deep))
            return ComparisonResult(-len(compared) % 3)

    done = await look(Long())
    assert compared == [("cases", True)] * 3 + [("conversations", True)] * 3
    assert done == ["deep pass", "cases", "cases", "talk1", "talk1", "talk2", "talk2"], (
        "no channel is read twice"
    )


async def test_pass_that_fails_is_repeated_as_deep_as_it_was_requested(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("threadline.threads.contract.RETRY_INTERVAL", 0.05)
    looks = Looks(fails="select_threads", asks="cases")
    done = await look(looks)
    assert done[:3] == ["deep pass", "cases", "cases"]
    assert done[3:7] == ["deep pass", *CASES]
    assert done[-4:] == ["talk2", "talk2", "talks", "talks"]
    assert done.count("pass") == 1, (
        "a pass follows for messages that were too young in the requested one"
    )


async def results(client: Client) -> list[str]:
    """Return the end states of the runs that the schedule has started."""
    handle = client.get_schedule_handle(CATCH_UP_ID)
    actions = [each.action for each in (await handle.describe()).info.recent_actions]
    ids = [
        each.workflow_id
        for each in actions
        if isinstance(each, ScheduleActionExecutionStartWorkflow)
    ]
    return [str(await client.get_workflow_handle(each).result()) for each in ids]


@pytest.mark.records("sweep_starts_catch_up")
async def test_schedule_starts_the_one_catch_up_or_leaves_it_alone() -> None:
    # The catch-up itself is started, and waits for a worker.
    async with with_schedules() as server, worker(server, [SweepWorkflow], []):
        client = server.client
        await ensure_schedule(client, 1.0, [])
        handle = client.get_schedule_handle(CATCH_UP_ID)
        found: list[str] = []
        while "catch-up runs already, swept" not in found:
            found = await results(client)
        assert found[0] == "catch-up started, swept"
        assert set(found[1:]) == {"catch-up runs already, swept"}
        running = [each async for each in client.list_workflows(f"WorkflowId = '{CATCH_UP_ID}'")]
        assert [each.status for each in running] == [WorkflowExecutionStatus.RUNNING]
        await handle.pause()
        await ensure_schedule(client, 600.0, ["cases", "jobs"])
        now = (await handle.describe()).schedule
        assert now.spec.intervals[0].every == timedelta(minutes=10)
        assert isinstance(now.action, ScheduleActionStartWorkflow)
        [request] = await client.data_converter.decode(now.action.args, [SweepRequest])
        assert request == SweepRequest(["cases", "jobs"]), "a deploy brings new sweeps"
        assert now.state.paused, "an operator's pause outlives a deploy"


class FailingSweeps(SweepActivities):
    """Gives up on cases, and finds no other items."""

    @activity.defn
    async def sweep(self, page: SweepPage) -> SweepPage | None:
        if page.name == "cases":
            raise Permanent("the database refuses to list them")
        return None


async def test_doctor_names_a_sweep_that_gives_up() -> None:
    activities = activities_of(FailingSweeps())
    async with with_schedules() as server, worker(server, [SweepWorkflow], activities):
        client = server.client
        with pytest.raises(Permanent, match="is a core worker started"):
            await check_sweep(client, 600.0)
        await ensure_schedule(client, 600.0, ["jobs"])

        async def swept() -> bool:
            return "started, swept" in await check_sweep(client, 600.0)

        await until(swept, "the doctor finds nothing wrong")
        await ensure_schedule(client, 600.0, ["cases", "jobs"])

        async def failed() -> bool:
            try:
                await check_sweep(client, 600.0)
            except Permanent as error:
                return "failed: cases'" in str(error)
            return False

        await until(failed, "the doctor names what gave up")


async def test_doctor_reports_that_no_sweep_begins() -> None:
    async with with_schedules() as server:
        await ensure_schedule(server.client, 600.0, [])
        handle = server.client.get_schedule_handle(CATCH_UP_ID)

        async def begun() -> bool:
            return bool((await handle.describe()).info.recent_actions)

        await until(begun, "the schedule has started one")
        assert "has started" in await check_sweep(server.client, 600.0)
        with pytest.raises(Permanent, match="paused"):
            await check_sweep(
                server.client, -60.0
            )  # at once, without the minutes that a sweep may be late
