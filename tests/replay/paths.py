"""The ways through the workflows, each played to its end on real parts, and what its history must hold."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from temporalio.exceptions import ApplicationError

from tests.replay.stage import Stage
from tests.support.case_scene import House, outcome
from threadline.cases.contract import TurnRequest
from threadline.cases.model import Action, Limits
from threadline.errors import Permanent, Transient
from threadline.investigator.store import Claim, TurnOutcome
from threadline.threads import addressing, messages
from threadline.threads.addressing import Thread
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, SUMMARIES

ASK, POST, ESCALATE, RESOLVE = Action.ASK_REPORTER, Action.POST_FINDINGS, Action.ESCALATE, Action.RESOLVED

Play = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Path:
    """`holds`: what must be found in the histories, as `tests.replay.histories.facts` puts it."""

    play: Play
    holds: tuple[str, ...]
    limits: Limits

    @property
    def name(self) -> str:
        return self.play.__name__


PATHS: list[Path] = []


def path(*holds: str, limits: Limits | None = None) -> Callable[[Play], Play]:
    def listed(play: Play) -> Play:
        PATHS.append(Path(play, holds, limits or Limits()))
        return play

    return listed


@path("update_status findings_posted", "timer fired", "end_case no_reply", "post_closing", "result resolved")
async def findings_and_silence(stage: Stage) -> None:
    home = stage.home
    await home.report()
    await home.until_status("pending_verification")
    await home.later(hours=49)
    await stage.record()


@path(
    "post_clarification_question", "update_status question_asked", "signal close_requested", "end_case reporter_closed"
)
async def question_answered(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(ASK), outcome(POST)]
    await home.report()
    await home.until_status("awaiting_reporter")
    await home.reporter("Firefox")
    await home.until_status("investigating", "pending_verification")
    await home.reporter("never mind", messages.CLOSE)
    await stage.record()


@path("post_notice question_unanswered", "update_status question_unanswered", "timer fired", "result resolved")
async def question_unanswered(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(ASK), outcome(RESOLVE)]
    await home.report()
    await home.until_status("awaiting_reporter")
    await home.later(hours=2, minutes=1)
    await stage.record()


@path(
    "escalate_to_humans",
    "child started SLATrackingWorkflow",
    "external signal acknowledged",
    "external signal resolved",
    "report_sla_event acknowledge_reminder",
    "report_sla_event acknowledge_breach",
    "signal acknowledged",
    "report_sla_event resolve_reminder",
    "report_sla_event resolve_breach",
    "report_sla_event daily_reminder",
    "signal resolved",
    "end_case agent_resolved",
)
async def escalation(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(ESCALATE, "needs an admin"), outcome(POST, "looking"), outcome(RESOLVE)]
    await home.report()
    await home.until_status("escalated")
    await home.later(hours=2)
    await home.developer("I am on it")
    await home.until_status("escalated", "investigating", "pending_verification")
    await home.later(hours=60)
    await home.developer("it is fixed in production")
    await stage.record()
    await stage.record(addressing.sla_workflow_id("BUG-1", 1))


@path("run_agent_investigation", "save_investigation_result", "end_case agent_resolved", "cleanup_workspace")
async def agent_resolved(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(RESOLVE)]
    await home.report()
    await stage.record()


@path("signal close_requested", "cancelled run_agent_investigation", "end_case reporter_closed")
async def close_during_a_turn(stage: Stage) -> None:
    home = stage.home

    async def never_ends(_: TurnRequest, __: Claim) -> TurnOutcome:
        await home.reporter("never mind", messages.CLOSE)
        await asyncio.Event().wait()
        raise AssertionError

    home.agent.script[:] = [never_ends]
    await home.report()
    await stage.record()


@path("failed run_agent_investigation WorkerShutdown", "run_agent_investigation attempt 2", "end_case agent_resolved")
async def interrupted_turn(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [ApplicationError("worker shut down", type="WorkerShutdown"), outcome(RESOLVE)]
    await home.report()
    await home.later(seconds=5)
    await stage.record()


@path(
    "failed run_agent_investigation Transient",
    "failed run_agent_investigation attempt 2",
    "failed run_agent_investigation Permanent",
    "escalate_to_humans",
    "end_case reporter_closed",
)
async def transient_then_permanent(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [Transient("The model is overloaded."), Permanent("The model refused the request.")]
    await home.report()
    await home.later(minutes=1)
    await home.until_status("escalated")
    await home.send(
        home.message(messages.CLOSE, messages.OPERATOR, "ops", "a duplicate of BUG-7", f"{time.time() + 60:.6f}")
    )
    await stage.record()


@path("end_case reporter_closed", "update_status reopened", "post_notice reopened", "end_case agent_resolved")
async def reopened(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(POST), outcome(RESOLVE)]
    await home.report()
    await home.until_status("pending_verification")
    await home.reporter("never mind", messages.CLOSE)
    await stage.record()
    await home.reporter("It is back again in Chrome")
    await stage.record()


@path("add_reactions +1", "result resolved")
async def thanks_after_the_end(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(RESOLVE)]
    await home.report()
    await home.handle.result()
    await home.reporter("thanks a lot!")
    await stage.record()


@path("continued as new", "signal incoming_message", "end_case agent_resolved", limits=Limits(history_events=20))
async def continued_as_new(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(ASK), outcome(POST), outcome(RESOLVE)]
    await home.report()
    await home.until_status("awaiting_reporter")
    await home.reporter("Firefox")
    await home.until_status("investigating", "pending_verification")
    await home.developer("good, that is it")
    await stage.record()


@path("cancel requested", "end_case operator_cancelled", "result resolved")
async def operator_cancel(stage: Stage) -> None:
    home = stage.home
    await home.report()
    await home.until_status("pending_verification")
    await home.reporter("one more thing")
    await home.handle.cancel()
    await stage.record()


@path("fetch_report", "result ignored")
async def a_strangers_reply(stage: Stage) -> None:
    home = stage.home
    home.thread = replace(home.thread, ts="1600000000.000001")
    await home.send(home.message(messages.MESSAGE, messages.UNKNOWN, BYSTANDER, "me too", "1600000001.000001"))
    await stage.record()


@path("fetch_report", "update_status findings_posted", "end_case reporter_closed")
async def report_fetched_from_slack(stage: Stage) -> None:
    home = stage.home
    await home.reporter("and it is urgent")
    await home.until_status("pending_verification")
    await home.handle.signal(addressing.INCOMING_MESSAGE, args=["developer", "U1", "not an envelope"])
    await home.reporter("never mind", messages.CLOSE)
    await stage.record()


@path("forward_reply", "result forwarded", "post_notice forwarded", "end_case agent_resolved")
async def reply_forwarded(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(POST), outcome(RESOLVE)]
    await home.report()
    await home.until_status("pending_verification")
    summary = (await home.case()).summary
    assert summary
    posted = home.slack.workspace.post(SUMMARIES, DEVELOPER, "it was the cache", thread_ts=summary.ts)
    await stage.record(await _route(home, summary, posted.ts))
    await stage.record()


@path("forward_reply", "result not a case")
async def reply_to_no_case(stage: Stage) -> None:
    home = stage.home
    await stage.record(await _route(home, Thread(home.thread.team, SUMMARIES, "1.000001"), "2.000001"))


@path(
    "open_pull_request",
    "update_status fix_proposed",
    "check_pull_request",
    "result resolved",
    limits=Limits(pull_request_poll=1800),
)
async def fix_merged(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(POST), stage.fix("shop/fixed.py")]
    await home.report()
    await home.until_status("pending_verification")
    await home.developer("please fix it")
    await home.until_status("investigating", "pending_verification")
    await home.later(minutes=31)
    stage.merge_fix()
    await home.later(minutes=31)
    await stage.record()


@path(
    "failed open_pull_request Permanent", "post_notice fix_refused", "update_status fix_proposed", "end_case no_reply"
)
async def fix_refused(stage: Stage) -> None:
    home = stage.home
    home.agent.script[:] = [outcome(POST), stage.fix(".github/workflows/x.yml")]
    await home.report()
    await home.until_status("pending_verification")
    await home.developer("please fix it")
    await home.until_status("investigating", "pending_verification")
    await home.later(hours=49)
    await stage.record()


async def _route(home: House, thread: Thread, ts: str) -> str:
    identity = addressing.route_reply_workflow_id(thread)
    reply = home.message(messages.MESSAGE, messages.DEVELOPER, DEVELOPER, "it was the cache", ts, SUMMARIES)
    await home.environment.client.start_workflow(
        addressing.ROUTE_REPLY_WORKFLOW,
        thread,
        id=identity,
        task_queue=addressing.CORE_QUEUE,
        start_signal=addressing.INCOMING_MESSAGE,
        start_signal_args=[reply],
    )
    return identity
