"""The sweeper: what was terminated runs again from the database, and what was finished and not said is said."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from sqlalchemy import text
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tests.support.case_scene import CONVERSATION_QUIET, House, house, outcome
from tests.threads.test_catch_up_workflow import entries, install, look, resent, until_ended
from threadline.cases.model import Action, CaseStatus, Limits, Reason
from threadline.db.engine import Database
from threadline.threads import addressing
from threadline_devstack.slack import identity


@pytest.fixture
async def home(database: Database, pool: asyncpg.Pool) -> AsyncIterator[House]:
    async with house(database, pool, outcome(Action.POST_FINDINGS)) as home:
        await install(home)
        yield home


async def change(home: House, statement: str) -> int:
    """What nobody does by hand, done to the database; returns how many rows it touched."""
    async with home.database.begin() as work:
        return (await work.connection.execute(text(statement))).rowcount


async def sweep(home: House) -> None:
    await home.environment.client.start_workflow(
        addressing.SWEEP_WORKFLOW, id=addressing.SWEEP_ID, task_queue=addressing.CORE_QUEUE
    )
    await until_ended(home, addressing.SWEEP_ID)


def posts_with(home: House, key: str) -> list[str]:
    """The timestamps of the bot's posts with a key."""
    places = home.slack.workspace.channels.values()
    return [
        message.ts
        for place in places
        for message in place.messages.values()
        if message.metadata and message.metadata["event_payload"]["key"] == key
    ]


async def until_found(home: House, turn: int) -> None:
    """Wait until a turn's findings are posted; the case may take a step more before, where it was cut off in one."""

    async def posted() -> bool:
        return bool(posts_with(home, f"BUG-1:turn:{turn}:findings"))

    await home.until(posted, f"turn {turn} finds something")
    await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)


async def keep(home: House, words: str) -> None:
    """A reporter's message that was stored, and of which no workflow knows."""
    said = home.slack.workspace.post(identity.REPORTS, identity.REPORTER, words, thread_ts=home.thread.ts)
    message = home.message("message", "reporter", identity.REPORTER, words, said.ts)
    async with home.database.begin() as work:
        assert (await work.conversation.flush(home.thread, [message])).message_due


async def test_a_terminated_case_carries_on_without_a_word(home: House) -> None:
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    await home.handle.terminate("by accident")
    await keep(home, "Is it the discount?")
    await sweep(home)
    await until_found(home, 2)
    assert len(posts_with(home, "BUG-1:turn:1:findings")) == 1
    assert len(posts_with(home, "BUG-1:turn:2:findings")) == 1
    assert await resent(home) == 0


async def test_a_message_that_was_accepted_and_terminated_before_it_was_stored_is_found(home: House) -> None:
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    await home.developer("Is it the discount?")
    await home.handle.terminate("with a message that was accepted and maybe not stored")
    await look(home)  # finds it where it was not stored
    await sweep(home)  # answers it where it was
    await until_found(home, 2)
    assert [entry for entry in await entries(home) if entry == ("developer", "Is it the discount?")] != []
    assert len(posts_with(home, "BUG-1:turn:2:findings")) == 1


async def test_a_message_that_was_stored_after_the_end_and_not_used_is_answered(home: House) -> None:
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    await home.reporter("never mind", "close")
    await home.until_status(CaseStatus.RESOLVED)
    await home.until_said("Write in this thread to reopen it")
    await until_ended(home, addressing.bug_workflow_id(home.thread))
    await keep(home, "It is back")
    await sweep(home)
    await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)


async def talk(home: House, ts: str, *, used: int | None = None, unsaid: bool = False, hours: int = 0) -> str:
    """A conversation with a turn that was settled so many hours ago, and a message that a turn has used or none;
    returns its workflow's id."""
    thread = addressing.Thread(identity.TEAM, identity.GENERAL, ts)
    statements = (
        """INSERT INTO conversations (team, channel, thread_ts, stored, turn) VALUES (:team, :channel, :ts, 1, 1)""",
        """INSERT INTO conversation_messages (conversation_id, seq, message_id, sender_type, sender_id, message_type,
                                              message_text, channel, slack_ts, said_at, wakes, turn)
           SELECT id, 1, :ts, 'unknown', 'U1', 'message', 'hi', channel, :ts, 1, true, :used FROM conversations
           WHERE thread_ts = :ts""",
        """INSERT INTO conversation_turns (conversation_id, turn, kind, answer, user_id, settled_at, said_at)
           SELECT id, 1, 'answered', 'Done.', 'U1', now() - make_interval(hours => :hours),
                  CASE WHEN :unsaid THEN NULL ELSE now() END FROM conversations
           WHERE thread_ts = :ts""",
    )
    given = {"team": thread.team, "channel": thread.channel, "ts": ts, "used": used, "unsaid": unsaid, "hours": hours}
    async with home.database.begin() as work:
        for statement in statements:
            named = {name: value for name, value in given.items() if f":{name}" in statement}
            await work.connection.execute(text(statement), named)
    return addressing.conversation_workflow_id(thread)


async def test_a_conversation_with_something_to_answer_or_to_say_runs_again(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.sweep_activities.PAGE", 1)
    done, asked = await talk(home, "1.0", used=1), await talk(home, "2.0")
    thinking, unsaid = await talk(home, "3.0", used=2), await talk(home, "4.0", used=1, unsaid=True)
    await sweep(home)
    assert [await runs(home, each) for each in (done, asked, thinking, unsaid)] == [False, True, True, True]


async def test_a_conversation_with_something_that_no_guard_has_judged_runs_again(home: House) -> None:
    asked = await talk(home, "7.0")
    await change(home, "UPDATE conversation_messages SET wakes = false")
    await sweep(home)
    assert await runs(home, asked)


async def test_an_answer_that_slack_refused_is_tried_again_for_a_day_after_the_run_that_kept_it(home: House) -> None:
    quiet = int(CONVERSATION_QUIET // 3600)
    kept = await talk(home, "5.0", used=1, unsaid=True, hours=quiet + 23)
    given_up = await talk(home, "6.0", used=1, unsaid=True, hours=quiet + 25)
    await sweep(home)
    assert (await runs(home, kept), await runs(home, given_up)) == (True, False)


async def test_a_hand_over_whose_run_is_gone_is_waited_for_again_and_one_that_is_closed_is_not(home: House) -> None:
    waits, closed = await handed_over(home, "8.0"), await handed_over(home, "9.0", closed=True)
    await sweep(home)
    assert (await runs(home, waits), await runs(home, closed)) == (True, False)
    handle = home.environment.client.get_workflow_handle(waits)
    await handle.terminate("by accident")
    await sweep(home)
    assert await runs(home, waits)
    begun = (await handle.describe()).run_id
    await sweep(home)
    assert (await handle.describe()).run_id == begun, "it runs, and is left alone"


async def test_every_page_of_hand_overs_is_swept(home: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.threads.sweep_activities.PAGE", 2)
    known = [await handed_over(home, f"{number}.0", closed=number == 12) for number in range(10, 15)]
    async with home.database.begin() as work:
        first = await work.handovers.open_after(0, 2)
        rest = await work.handovers.open_after(first[-1].id, 10)
    assert [each.ref.thread.ts for each in (*first, *rest)] == ["10.0", "11.0", "13.0", "14.0"]
    await sweep(home)
    assert [await runs(home, each) for each in known] == [True, True, False, True, True]


async def handed_over(home: House, ts: str, *, closed: bool = False) -> str:
    """A turn that was given to a person, and no run of a hand-over; returns its workflow's id."""
    await talk(home, ts, used=1)
    await change(
        home,
        f"""INSERT INTO handovers (conversation_id, turn, user_id, closed_by, closed_at)
            SELECT id, 1, 'U1', '{"U2" if closed else ""}', {"now()" if closed else "NULL"}
            FROM conversations WHERE thread_ts = '{ts}'""",  # noqa: S608 - all of it is written here
    )
    return addressing.handover_workflow_id(addressing.Thread(identity.TEAM, identity.GENERAL, ts), 1)


async def runs(home: House, workflow_id: str) -> bool:
    try:
        described = await home.environment.client.get_workflow_handle(workflow_id).describe()
    except RPCError:
        return False
    return described.status is WorkflowExecutionStatus.RUNNING


@pytest.mark.records("sweep_posts_findings")
async def test_what_finished_and_was_never_said_is_said(home: House) -> None:
    lost = "BUG-1:turn:1:findings"
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    await unsay(home, lost)
    await sweep(home)
    assert not posts_with(home, lost), "what ended a moment ago may still be on its way"
    assert await change(home, "UPDATE agent_turns SET finished_at = now() - interval '1 hour'") == 1
    await sweep(home)
    await until_posted(home, lost)
    await sweep(home)
    assert len(posts_with(home, lost)) == 1


@pytest.mark.records("end_said_by_next_run")
@pytest.mark.parametrize("channel", [identity.REPORTS, identity.SUMMARIES])
async def test_how_a_case_ended_is_said_by_a_run_after_the_one_that_was_terminated(home: House, channel: str) -> None:
    lost = f"BUG-1:closing:1:{channel}"
    await home.report()
    await home.until_status(CaseStatus.PENDING_VERIFICATION)
    await home.reporter("never mind", "close")
    await home.until_status(CaseStatus.RESOLVED)
    await until_ended(home, addressing.bug_workflow_id(home.thread))
    removed = home.agent.cleaned.count("BUG-1")
    await unsay(home, lost)
    await sweep(home)
    await until_posted(home, lost)
    await until_ended(home, addressing.bug_workflow_id(home.thread))
    assert home.agent.cleaned.count("BUG-1") == removed + 1
    last = (await home.handle.describe()).run_id
    await sweep(home)
    assert (await home.handle.describe()).run_id == last, "all is said, and nothing runs again"
    assert len(posts_with(home, lost)) == 1


async def unsay(home: House, key: str) -> None:
    """As if the bot had never posted this, neither in Slack nor in the ledger."""
    await until_posted(home, key)
    for place in home.slack.workspace.channels.values():
        for ts in [ts for ts in posts_with(home, key) if ts in place.messages]:
            home.slack.workspace.delete(place.id, ts)
    assert await change(home, f"DELETE FROM slack_posts WHERE key = '{key}'") == 1  # noqa: S608 - a key of ours


async def until_posted(home: House, key: str) -> None:
    async def said() -> bool:
        return bool(posts_with(home, key))

    await home.until(said, key)


async def test_a_case_that_goes_on_without_an_answer_does_so_after_a_terminate(
    database: Database, pool: asyncpg.Pool
) -> None:
    script = outcome(Action.ASK_REPORTER), outcome(Action.POST_FINDINGS)
    async with house(database, pool, *script, limits=Limits(reporter_timeout=3600)) as home:
        await install(home)
        await home.report()
        await home.until_status(CaseStatus.AWAITING_REPORTER)
        await home.handle.terminate("by accident")
        async with home.database.begin() as work:  # as far as the silence got
            await work.cases.transition("BUG-1", CaseStatus.INVESTIGATING, Reason.QUESTION_UNANSWERED)
        await sweep(home)
        await home.until_status(CaseStatus.INVESTIGATING, CaseStatus.PENDING_VERIFICATION)
        assert home.agent.requests[-1].unanswered


async def test_the_clock_of_an_open_escalation_is_started_again(database: Database, pool: asyncpg.Pool) -> None:
    async with house(database, pool, outcome(Action.ESCALATE)) as home:
        await install(home)
        await home.report()
        await home.until_status(CaseStatus.ESCALATED)
        clock = home.environment.client.get_workflow_handle(addressing.sla_workflow_id("BUG-1", 1))
        await clock.terminate("by accident")
        await sweep(home)
        state = await clock.query("state")
        assert state["next"]["kind"] == "acknowledge_reminder"
        assert not state["acknowledged"]
        began = (await clock.describe()).start_time
        await sweep(home)
        assert (await clock.describe()).start_time == began


async def test_every_page_of_clocks_is_swept(
    database: Database, pool: asyncpg.Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.sweep_activities.PAGE", 1)
    async with house(database, pool, outcome(Action.ESCALATE), outcome(Action.ESCALATE)) as home:
        await _all_reported(home)
        handle = home.environment.client.get_workflow_handle
        clocks = [handle(addressing.sla_workflow_id(f"BUG-{number}", 1)) for number in (1, 2)]

        async def running() -> bool:
            try:
                return all([(await clock.describe()).status is WorkflowExecutionStatus.RUNNING for clock in clocks])
            except RPCError:  # not started yet
                return False

        await home.until(running, "both are escalated")
        for clock in clocks:
            await clock.terminate("by accident")
        await sweep(home)
        assert await running()


async def test_what_can_be_said_is_not_hidden_by_what_a_workflow_owes(
    home: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("threadline.threads.sweep_activities.PAGE", 1)
    home.slack.workspace.post(identity.REPORTS, identity.REPORTER, "A third report")
    await _all_reported(home)

    async def found() -> bool:
        async with home.database.begin() as work:
            cases = await work.overview.cases(open_only=False)
        return [case.status for case in cases] == [CaseStatus.PENDING_VERIFICATION] * 3

    await home.until(found, "all have their findings")
    await change(home, "UPDATE agent_turns SET finished_at = now() - interval '1 hour'")
    assert await change(home, "DELETE FROM slack_posts WHERE key LIKE '%findings'") == 3
    async with home.database.begin() as work:
        await work.cases.transition("BUG-1", CaseStatus.INVESTIGATING, Reason.NEW_MESSAGES)
        unsaid = [each.bug_id for each in await work.sweep.missing_answers(60, 10)]
    assert unsaid == ["BUG-1", "BUG-2", "BUG-3"], "the doctor tells them all"
    await sweep(home)
    assert [len(posts_with(home, f"BUG-{number}:turn:1:findings")) for number in (1, 2, 3)] == [1, 2, 2]


async def _all_reported(home: House) -> None:
    """The house's report and every other become cases."""
    async with home.database.begin() as work:
        await work.connection.execute(text("DELETE FROM channel_marks"))
    await install(home, float(home.thread.ts) - 60)
    home.slack.workspace.post(identity.REPORTS, identity.REPORTER, "A second report")
    await look(home)
