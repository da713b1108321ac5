"""The ways that came later: a turn with fewer activities, what the sweep and the catch-up do. `paths` is their list."""

from sqlalchemy import text

from tests.replay.paths import path
from tests.replay.stage import Stage
from tests.support.case_scene import REPORTER
from tests.threads.test_catch_up_workflow import install, until_ended
from tests.threads.test_sweep_workflow import unsay
from threadline.threads import addressing, messages
from threadline.threads.catch_up_model import CatchUpState
from threadline_devstack.slack.identity import REPORTS


@path("flush_messages begun", "save_investigation_result said", "add_reactions", "end_case reporter_closed")
async def a_burst_is_one_turn(stage: Stage) -> None:
    home = stage.home
    await home.report()
    await home.until_status("pending_verification")
    async with home.database.begin() as work:
        await work.connection.execute(text("SELECT FROM cases FOR UPDATE"))  # the first flush waits for its row
        await home.reporter("first")

        async def storing() -> bool:
            described = await home.handle.describe()
            return any(
                each.activity_type.name == "flush_messages" for each in described.raw_description.pending_activities
            )

        await home.until(storing, "the first message is being stored")
        await home.reporter("second")
        await home.reporter("third")
    await home.until_status("pending_verification", "investigating", "pending_verification")
    assert home.agent.batches[-1] == ["first", "second", "third"]
    await home.reporter("never mind", messages.CLOSE)
    await stage.record()


@path("open_case end_unsaid", "post_closing", "sweep_cases", "find_missing_answers", "result resolved", "result swept")
async def the_end_is_said_by_the_run_after(stage: Stage) -> None:
    home = stage.home
    await home.report()
    await home.until_status("pending_verification")
    await home.reporter("never mind", messages.CLOSE)
    await home.until_status("resolved")
    await home.handle.result()
    await unsay(home, f"BUG-1:closing:1:{REPORTS}")
    client = home.environment.client
    await client.start_workflow(addressing.SWEEP_WORKFLOW, id=addressing.SWEEP_ID, task_queue=addressing.CORE_QUEUE)
    await stage.record(addressing.SWEEP_ID)
    await stage.record()


@path("find_missing_answers", "create_summary_thread", "post_investigation_results", "result swept")
async def the_sweep_says_what_was_not_said(stage: Stage) -> None:
    home = stage.home
    await home.report()
    await home.until_status("pending_verification")
    await unsay(home, "BUG-1:turn:1:findings")
    async with home.database.begin() as work:
        await work.connection.execute(text("UPDATE agent_turns SET finished_at = now() - interval '1 hour'"))
    await home.environment.client.start_workflow(
        addressing.SWEEP_WORKFLOW, id=addressing.SWEEP_ID, task_queue=addressing.CORE_QUEUE
    )
    await stage.record(addressing.SWEEP_ID)


@path("begin_look", "read_history", "finish_channel", "choose_threads", "compare_threads")
async def a_look_finds_what_was_missed(stage: Stage) -> None:
    home = stage.home
    await install(home, float(home.thread.ts) - 60)
    home.slack.workspace.post(REPORTS, REPORTER, "It is the discount code", thread_ts=home.thread.ts)
    await home.environment.client.start_workflow(
        addressing.CATCH_UP_WORKFLOW,
        CatchUpState(deep=True),
        id=addressing.CATCH_UP_ID,
        task_queue=addressing.CORE_QUEUE,
        start_signal=addressing.LOOK,
        start_signal_args=[{"deep": True}],
    )
    await until_ended(home)
    await stage.record(addressing.CATCH_UP_ID)


@path("child started SweepWorkflow", "child started CatchUpWorkflow", "result started")
async def the_schedule_starts_both(stage: Stage) -> None:
    await install(stage.home)
    await stage.home.environment.client.start_workflow(
        addressing.CATCH_UP_TICK_WORKFLOW, id="tick", task_queue=addressing.CORE_QUEUE
    )
    await stage.record("tick")
