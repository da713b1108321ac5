"""The sweep: terminated workflows run again from the database, and finished results without a post
are posted.
"""

import time
from collections.abc import AsyncIterator, Sequence

import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tests.support.case_scene import CONVERSATION_IDLE_TIMEOUT, CaseScene, case_scene, outcome
from tests.threads.catch_up_scene import entries, install, look, reply, resent, until_ended
from threadline.approvals.contract import approval_workflow_id
from threadline.cases.model import (
    Action,
    CaseLimits,
    CaseStatus,
    Reason,
    bug_workflow_id,
    sla_workflow_id,
)
from threadline.cases.store.case import CaseStore
from threadline.cases.store.lists import CaseLists
from threadline.cases.store.messages import CaseMessageStore
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.conversations.model.handover import handover_workflow_id
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.slack.model import ACCESS, ACCESS_FAULT, CHANNEL_FAULT, Thread
from threadline.threads.contract import SWEEP_ID, SWEEP_WORKFLOW, SweepRequest
from threadline.threads.fault_store import FaultStore
from threadline.threads.model import CORE_QUEUE, MessageKind, SenderType
from threadline.threads.workflow_client import WorkflowClient, WorkflowStart
from threadline_devstack.slack import identity

REPORTS = identity.REPORTS
REPORTER = identity.REPORTER
DEVELOPER = identity.DEVELOPER
PAGE = "threadline.threads.sweep.PAGE"
FINDINGS = "BUG-1:turn:1:findings"


@pytest.fixture
async def home(database: Database, agent_database: Database) -> AsyncIterator[CaseScene]:
    async with case_scene(database, agent_database, outcome(Action.POST_FINDINGS)) as home:
        await install(home)
        yield home


async def change(home: CaseScene, statement: str, **given: object) -> int:
    """Change the database directly; returns the number of changed rows."""
    async with home.database.begin() as tx:
        return (await tx.execute(text(statement), given)).rowcount


SWEEPS = (
    "cases",
    "SLA clocks",
    "missing answers",
    "conversations",
    "handovers",
    "approvals",
    "jobs",
    "faults",
)
"""The steps by the names that the schedule uses."""


async def sweep(home: CaseScene, names: Sequence[str] = SWEEPS) -> str:
    """Run these sweeps and the catch-up that they start; returns the result.

    Waits until Temporal's list is current: a workflow that it still shows as running would be left
    to the next sweep.
    """
    client = home.environment.client

    async def up_to_date() -> bool:
        listed = [each async for each in client.list_workflows("ExecutionStatus = 'Running'")]
        handles = [client.get_workflow_handle(each.id, run_id=each.run_id) for each in listed]
        return all(
            [(await each.describe()).status is WorkflowExecutionStatus.RUNNING for each in handles]
        )

    await home.until(up_to_date, "the list shows what has ended")
    handle = await home.environment.client.start_workflow(
        SWEEP_WORKFLOW,
        SweepRequest(list(names)),
        id=SWEEP_ID,
        task_queue=CORE_QUEUE,
    )
    await until_ended(home, SWEEP_ID)
    await until_ended(home)
    return str(await handle.result())


async def runs(home: CaseScene, *workflow_ids: str) -> list[bool]:
    async def is_running(workflow_id: str) -> bool:
        try:
            described = await home.environment.client.get_workflow_handle(workflow_id).describe()
        except RPCError:
            return False
        return described.status is WorkflowExecutionStatus.RUNNING

    return [await is_running(each) for each in workflow_ids]


def posts_with(home: CaseScene, key: str) -> list[str]:
    """Return the timestamps of the bot's posts with a key."""
    places = home.slack.workspace.channels.values()
    posts = [
        message for place in places for message in place.messages.values() if message.metadata
    ]
    return [
        post.ts for post in posts if post.metadata and post.metadata["event_payload"]["key"] == key
    ]


async def until_posted(home: CaseScene, key: str) -> None:
    async def posted() -> bool:
        return bool(posts_with(home, key))

    await home.until(posted, key)


async def unsay(home: CaseScene, key: str) -> None:
    """Remove every trace of a post, in Slack and in the ledger."""
    await until_posted(home, key)
    for place in home.slack.workspace.channels.values():
        for ts in [ts for ts in posts_with(home, key) if ts in place.messages]:
            home.slack.workspace.delete(place.id, ts)
    assert await change(home, "DELETE FROM posts WHERE key = :key", key=key) == 1


async def reported(home: CaseScene) -> None:
    """Wait until the report is a case with findings."""
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)


async def closed(home: CaseScene) -> None:
    """Close the case as its reporter, and wait until its workflow has ended."""
    await reported(home)
    await home.reporter("never mind", MessageKind.CLOSE)
    await home.until_status(CaseStatus.RESOLVED)
    await until_ended(home, bug_workflow_id(home.thread))


async def all_reported(home: CaseScene) -> None:
    """Turn the scene's report and every other one into cases."""
    await change(home, "DELETE FROM catch_up_channels")
    await install(home, before_report=True)
    home.slack.workspace.post(REPORTS, REPORTER, "A second report")
    await look(home)


async def keep(home: CaseScene, words: str) -> None:
    """Store a reporter's message without a signal to any workflow."""
    message = home.message(
        MessageKind.MESSAGE, SenderType.REPORTER, REPORTER, words, reply(home, words).ts
    )
    async with home.database.begin() as tx:
        assert (await CaseMessageStore(tx).flush(home.thread, [message])).case.has_unread


async def until_second_turn(home: CaseScene) -> None:
    """Wait for the second turn; the case may take another step first if it was interrupted."""
    await until_posted(home, "BUG-1:turn:2:reply")
    await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)


async def test_terminated_case_answers_the_stored_messages(home: CaseScene) -> None:
    await reported(home)
    await home.handle.terminate("by accident")
    await keep(home, "Is it the discount?")
    await sweep(home)
    await until_second_turn(home)
    posts = ("BUG-1:turn:1:findings", "BUG-1:turn:2:reply")
    assert [len(posts_with(home, key)) for key in posts] == [1, 1]
    assert await resent(home) == 0


async def test_message_that_a_terminated_case_accepted_is_answered(home: CaseScene) -> None:
    await reported(home)
    await home.developer("Is it the discount?")
    await home.handle.terminate("with a message that was accepted and maybe not stored")
    await look(home)  # stores it if it was not stored
    await sweep(home)  # answers it if it was stored
    await until_second_turn(home)
    assert ("developer", "Is it the discount?") in await entries(home)
    assert len(posts_with(home, "BUG-1:turn:2:reply")) == 1


async def test_message_stored_after_the_end_reopens_the_case(home: CaseScene) -> None:
    await closed(home)
    await keep(home, "It is back")
    await sweep(home)
    await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)


async def test_case_that_goes_on_without_an_answer_does_so_after_a_terminate(
    database: Database, agent_database: Database
) -> None:
    script = outcome(Action.ASK_REPORTER), outcome(Action.POST_FINDINGS)
    async with case_scene(
        database, agent_database, *script, limits=CaseLimits(reporter_timeout=3600)
    ) as home:
        await install(home)
        await home.report()
        await home.until_status(CaseStatus.AWAITING_REPORTER)
        await home.handle.terminate("by accident")
        async with home.database.begin() as tx:  # as far as the silence got
            await CaseStore(tx).transition(
                "BUG-1", CaseStatus.INVESTIGATING, Reason.QUESTION_UNANSWERED
            )
        await sweep(home)
        await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)
        assert home.agent.requests[-1].unanswered


async def talk(
    home: CaseScene,
    ts: str,
    *,
    used: int | None = 1,
    unsaid: bool = False,
    hours: int = 0,
    wants_turn: bool = True,
) -> str:
    """Store a conversation with a turn that was settled so many hours ago, and a message that a
    turn has used or none; returns its workflow's id.
    """
    thread = Thread(identity.TEAM, identity.GENERAL, ts)
    rows = """
    WITH opened AS (
        INSERT INTO conversations (team, channel, thread_ts, stored, turn)
        VALUES (:team, :channel, :ts, 1, 1)
        RETURNING id, channel
    ), said AS (
        INSERT INTO conversation_messages (
            conversation_id, seq, message_id, sender_type, sender_id, message_type,
            message_text, channel, slack_ts, said_at, wants_turn, turn
        )
        SELECT id, 1, :ts, 'unknown', 'U1', 'message', 'hi', channel, :ts, 1, :wants_turn, :used
        FROM opened
    )
    INSERT INTO conversation_turns (
        conversation_id, turn, kind, answer, user_id, settled_at, posted_at
    )
    SELECT id, 1, 'answered', 'Done.', 'U1', now() - make_interval(hours => :hours),
           CASE WHEN :unsaid THEN NULL ELSE now() END FROM opened
    """
    place = {"team": thread.team, "channel": thread.channel, "ts": ts}
    await change(home, rows, **place, wants_turn=wants_turn, used=used, hours=hours, unsaid=unsaid)
    return conversation_workflow_id(thread)


async def test_conversation_with_something_to_answer_or_to_say_runs_again(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer that Slack refused is retried for thirty days after the run that kept it."""
    monkeypatch.setattr(PAGE, 1)
    last = int(CONVERSATION_IDLE_TIMEOUT // 3600) + 30 * 24
    conversations = {
        await talk(home, "1.0"): False,
        await talk(home, "2.0", used=None): True,
        await talk(home, "3.0", used=2): True,  # by a turn that was not settled
        await talk(home, "4.0", unsaid=True): True,
        await talk(home, "5.0", used=None, wants_turn=False): True,  # no guard has judged it
        await talk(home, "6.0", unsaid=True, hours=last - 1): True,
        await talk(home, "7.0", unsaid=True, hours=last + 1): False,
    }
    await sweep(home)
    assert await runs(home, *conversations) == list(conversations.values())


@pytest.mark.parametrize(
    "error", [Permanent("Temporal refuses to start it"), RuntimeError("nobody foresaw this")]
)
async def test_item_that_cannot_be_repaired_is_passed_over_and_tried_again(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    waiting = [await talk(home, f"{number}.0", used=None) for number in (1, 2)]
    handover = await handed_over(home, "3.0")
    start_workflow = WorkflowClient.start

    async def refuse(self: WorkflowClient, start: WorkflowStart) -> None:
        if start.workflow_id == waiting[0]:
            raise error
        await start_workflow(self, start)

    with monkeypatch.context() as refusing:
        refusing.setattr(WorkflowClient, "start", refuse)
        await sweep(home)
    assert await runs(home, *waiting, handover) == [False, True, True]
    await sweep(home)
    assert await runs(home, *waiting) == [True, True]


async def test_step_that_gives_up_does_not_end_the_others(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = await talk(home, "1.0", used=None)

    async def refuse(*_: object, **__: object) -> None:
        raise Permanent("the database refuses to list them")

    monkeypatch.setattr("threadline.cases.store.lists.CaseLists.open_cases", refuse)
    monkeypatch.setattr("threadline.cases.store.lists.CaseLists.missing_answers", refuse)
    assert await sweep(home) == "catch-up started, failed: cases, missing answers"
    assert await runs(home, waiting) == [True]


async def test_sweep_that_the_worker_does_not_know_is_skipped(home: CaseScene) -> None:
    waiting = await talk(home, "1.0", used=None)
    assert await sweep(home, ("of a newer build", "conversations")) == "catch-up started, swept"
    assert await runs(home, waiting) == [True]


async def handed_over(home: CaseScene, ts: str, *, closed: bool = False) -> str:
    """Store a turn that was handed over to a person, without a run of the handover; returns its
    workflow's id.
    """
    await talk(home, ts)
    rows = """
    INSERT INTO handovers (conversation_id, turn, user_id, closed_by, closed_at)
    SELECT id, 1, 'U1', CASE WHEN :closed THEN 'U2' ELSE '' END, CASE WHEN :closed THEN now() END
    FROM conversations WHERE thread_ts = :ts
    """
    await change(home, rows, ts=ts, closed=closed)
    return handover_workflow_id(Thread(identity.TEAM, identity.GENERAL, ts), 1)


async def test_every_open_handover_is_waited_for_again(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PAGE, 2)
    known = [
        await handed_over(home, f"{number}.0", closed=number == 12) for number in range(10, 15)
    ]
    await sweep(home)
    assert await runs(home, *known) == [True, True, False, True, True]
    handle = home.environment.client.get_workflow_handle(known[0])
    await handle.terminate("by accident")
    await sweep(home)
    assert await runs(home, known[0]) == [True]
    begun = (await handle.describe()).run_id
    await sweep(home)
    assert (await handle.describe()).run_id == begun, "it runs, and is left alone"


async def proposed(home: CaseScene, ts: str, *, decided: bool = False) -> str:
    """Store a proposed action without a run of its approval; returns its workflow's id."""
    rows = """
    INSERT INTO proposed_actions (
        team, channel, thread_ts, rfp_id, action, action_hash, risk, requested_by, approvers,
        correlation_id, operation_key, created_at, expires_at, decision, decided_at
    )
    VALUES (:team, :channel, :ts, '', '{}', repeat('0', 64), 'medium', 'U1', '{U2}', 'x', :ts,
            now(), now() + interval '1 day', CASE WHEN :decided THEN 'rejected' END,
            CASE WHEN :decided THEN now() END)
    RETURNING action_id
    """
    given = {"team": identity.TEAM, "channel": identity.GENERAL, "ts": ts, "decided": decided}
    async with home.database.begin() as tx:
        action_id = str(await tx.scalar(text(rows), given))
    return approval_workflow_id(identity.TEAM, action_id)


async def test_every_undecided_approval_is_waited_for_again(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PAGE, 1)
    known = [await proposed(home, f"{number}.0", decided=number == 2) for number in (1, 2, 3)]
    await sweep(home)
    assert await runs(home, *known) == [True, False, True]
    handle = home.environment.client.get_workflow_handle(known[0])
    await handle.terminate("by accident")
    await sweep(home)
    assert await runs(home, known[0]) == [True]


@pytest.mark.records("sweep_posts_findings")
async def test_findings_that_were_never_posted_are_posted(home: CaseScene) -> None:
    await reported(home)
    await unsay(home, FINDINGS)
    await sweep(home)
    assert not posts_with(home, FINDINGS), "a post may still follow an end of a moment ago"
    assert (
        await change(home, "UPDATE agent_turns SET finished_at = now() - interval '1 hour'") == 1
    )
    await sweep(home)
    await until_posted(home, FINDINGS)
    await sweep(home)
    assert len(posts_with(home, FINDINGS)) == 1


FAULTS = [
    (ACCESS_FAULT, ACCESS),
    (ACCESS_FAULT, "chat:write"),
    (CHANNEL_FAULT, identity.SUMMARIES),
]


@pytest.mark.parametrize(("kind", "subject"), FAULTS)
async def test_findings_that_slack_refuses_are_left_to_the_workflow_that_holds_them(
    home: CaseScene, kind: str, subject: str
) -> None:
    await reported(home)
    await unsay(home, FINDINGS)
    await change(home, "UPDATE agent_turns SET finished_at = now() - interval '1 hour'")

    async def unposted(*, owed: bool) -> list[int]:
        async with home.database.begin() as tx:
            lists = CaseLists(tx)
            found = await lists.missing_answers(900, 10, summaries=identity.SUMMARIES, owed=owed)
        return [each.turn for each in found]

    async with home.database.begin() as tx:
        await FaultStore(tx).report(kind, subject, "Slack refuses it.", time.time())
        await FaultStore(tx).report(ACCESS_FAULT, "reactions:write", "No emoji.", time.time())
    assert await unposted(owed=False) == []
    assert await unposted(owed=True) == [1], "the doctor reports it"
    async with home.database.begin() as tx:
        await FaultStore(tx).resolve(kind, subject, time.time())
    assert await unposted(owed=False) == [], "the workflow tries again within minutes"
    await change(home, "UPDATE installation_faults SET resolved_at = now() - interval '1 hour'")
    assert await unposted(owed=False) == [1]


@pytest.mark.records("end_said_by_next_run")
@pytest.mark.parametrize("channel", [REPORTS, identity.SUMMARIES])
async def test_end_of_a_case_that_was_never_posted_is_posted(
    home: CaseScene, channel: str
) -> None:
    lost = f"BUG-1:closing:1:{channel}"
    await closed(home)
    removed = home.agent.cleaned.count("BUG-1")
    await unsay(home, lost)
    await sweep(home)
    await until_posted(home, lost)
    await until_ended(home, bug_workflow_id(home.thread))
    assert home.agent.cleaned.count("BUG-1") == removed + 1
    last = (await home.handle.describe()).run_id
    await sweep(home)
    assert (await home.handle.describe()).run_id == last, (
        "every post is made, and no workflow runs again"
    )
    assert len(posts_with(home, lost)) == 1


async def test_clock_of_every_open_escalation_is_started_again(
    database: Database, agent_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PAGE, 1)
    async with case_scene(
        database, agent_database, outcome(Action.ESCALATE), outcome(Action.ESCALATE)
    ) as home:
        await all_reported(home)
        ids = [sla_workflow_id(f"BUG-{number}", 1) for number in (1, 2)]
        clocks = [home.environment.client.get_workflow_handle(each) for each in ids]

        async def running() -> bool:
            return await runs(home, *ids) == [True, True]

        await home.until(running, "both are escalated")
        for clock in clocks:
            await clock.terminate("by accident")
        said = home.message(
            MessageKind.MESSAGE,
            SenderType.DEVELOPER,
            DEVELOPER,
            "Mine.",
            f"{time.time():.6f}",
            identity.ESCALATIONS,
        )
        async with home.database.begin() as tx:
            second = await CaseStore(tx).get("BUG-2")
            await CaseMessageStore(tx).flush(second.thread, [said])
        await sweep(home)
        assert await running()
        state = await clocks[0].query("state")
        assert state["next"]["kind"] == "acknowledge_reminder"
        assert [(await clock.query("state"))["acknowledged"] for clock in clocks] == [False, True]
        began = [(await clock.describe()).start_time for clock in clocks]
        await sweep(home)
        assert [(await clock.describe()).start_time for clock in clocks] == began


async def test_missing_post_is_not_hidden_by_a_case_that_is_still_at_work(
    home: CaseScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PAGE, 1)
    home.slack.workspace.post(REPORTS, REPORTER, "A third report")
    await all_reported(home)

    async def found() -> bool:
        async with home.database.begin() as tx:
            cases = await CaseLists(tx).list(open_only=False)
        return [case.status for case in cases] == [CaseStatus.PENDING_VERIFICATION] * 3

    await home.until(found, "all have their findings")
    await change(home, "UPDATE agent_turns SET finished_at = now() - interval '1 hour'")
    assert await change(home, "DELETE FROM posts WHERE key LIKE '%findings'") == 3
    async with home.database.begin() as tx:
        await CaseStore(tx).transition("BUG-1", CaseStatus.INVESTIGATING, Reason.NEW_MESSAGES)
        unsaid = [each.bug_id for each in await CaseLists(tx).missing_answers(60, 10)]
    assert unsaid == ["BUG-1", "BUG-2", "BUG-3"], "the doctor reports all of them"
    await sweep(home)
    assert [len(posts_with(home, f"BUG-{number}:turn:1:findings")) for number in (1, 2, 3)] == [
        1,
        2,
        2,
    ]
