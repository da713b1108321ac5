"""Conversations as the core worker builds them, and how long their records are kept."""

import asyncio
import itertools
import time

import pytest

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.temporal import NotedStarts
from threadline.approvals.contract import ApprovalActivities
from threadline.approvals.model import NewAction, Risk
from threadline.cases.model import CaseReaders
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import SpeakingActivities
from threadline.conversations.decision_contract import DecisionActivities
from threadline.conversations.operator_contract import OperatorActivities
from threadline.handovers.contract import HandoverActivities
from threadline.jobs.model import JobSchedule, NewJob
from threadline.operator.model.memory import MemoryKind, NewMemory
from threadline.sales.email_model import NewLetter
from threadline.sales.model import Contact
from threadline.settings import ConversationSettings
from threadline.slack.model import UserProfile
from threadline.slack.store import UserStore
from threadline.slack.users import UserDirectory
from threadline.threads.alerts import FailureAlerts
from threadline.threads.outbox import Outbox
from threadline.tools.author import Author
from threadline.tools.operations import Change, Operation
from threadline.wiring import conversations
from threadline.wiring.conversations import Host, TalkSettings, conversing, forget
from threadline_devstack.slack.identity import ESCALATIONS

__all__ = ["make_talk", "talk"]

DAY = 24 * 3600.0


@pytest.mark.parametrize("key", ["", "sk-proj-0123456789abcdefghijklmn"])
async def test_limits_reach_the_activities_with_and_without_a_key(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("THREADLINE_CONVERSATION_MAX_TURNS", "7")
    monkeypatch.setenv("THREADLINE_CONVERSATION_QUIET", "2h")
    monkeypatch.setenv("THREADLINE_CONVERSATION_MODEL_PATIENCE", "10m")
    slack = talk.speaking._slack
    outbox = Outbox(slack, talk.database)
    readers = CaseReaders((ESCALATIONS,), "https://sandbox.slack.com/")
    host = Host(FailureAlerts(outbox, ESCALATIONS), readers, "polaris", workflows=NotedStarts())
    async with conversing(TalkSettings(), talk.database, slack, UserDirectory(slack.user), outbox, host) as made:
        assert isinstance(made.approving, ApprovalActivities)
        assert isinstance(made.operator, OperatorActivities)
        assert isinstance(made.deciding, DecisionActivities)
        assert isinstance(made.handing, HandoverActivities)
        assert isinstance(made.speaking, SpeakingActivities)
        assert isinstance(made.thinking, LiveConversationActivities)
        limits = (await talk.run(made.thinking.open_conversation, talk.thread)).limits
    assert (limits.max_turns, limits.quiet, limits.model_patience) == (7, 7200, 600)


async def test_forgetting_goes_on_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene
) -> None:
    looks, third = itertools.count(1), asyncio.Event()

    async def breaking(*_: object) -> int:
        if next(looks) == 3:
            third.set()
        raise KeyError("a fault in the code")

    monkeypatch.setattr(conversations, "SWEEP", 0.0)
    monkeypatch.setattr(conversations, "forget", breaking)
    async with conversations._forgetting(talk.database, ConversationSettings.read()):
        await asyncio.wait_for(third.wait(), 5)


async def test_each_kind_of_record_is_forgotten_after_its_own_time(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene
) -> None:
    """By default conversations are kept for 90 days, and what tools did for a year."""
    monkeypatch.setenv("THREADLINE_MEMORY_DAYS", "60")
    settings, now, author = ConversationSettings.read(), time.time(), Author("U1", "corr-1")
    await talk.said("List the lamps.")
    await talk.answer()

    def change(call_id: str) -> Change:
        return Change(Operation(talk.thread, 1, 1, call_id), now)

    action = NewAction({"tool": "journal_append", "arguments": {"text": "hello"}}, Risk.LOW, (), now + 60)
    weekly = NewJob("status_digest", {}, JobSchedule(cron="0 9 * * 1"))
    async with talk.database.begin() as work:
        await work.memories.remember("T1", NewMemory(MemoryKind.EPISODIC, "the lamps", "said"), "key", now)
        await UserStore(work.tx).save("T1", UserProfile("U1", "", "Ann", "", now))
        await work.proposed_actions.propose(change("proposed"), action, author)
        await work.letters.draft(change("drafted"), "U1", NewLetter("ana@shop.example", "Our call", "Hello Ana Silva."))
        contact = Contact("U1", "Ana Silva", "ana@shop.example")
        await work.crm.update(change("put"), "", contact, {"phone": "+1"}, author)
        over = await work.agent_jobs.schedule(change("over"), weekly, author)
        await work.agent_jobs.schedule(change("open"), weekly, author)
        await work.agent_jobs.drop(talk.thread.team, over.job_id, now)

    async def left() -> dict[str, int]:
        tables = ("memories", "users", "conversation_messages", "proposed_actions", "email_drafts", "agent_jobs")
        logs = ("agent_tool_executions", "tool_operations")
        return {table: len(await talk.rows(f"SELECT 1 FROM {table}")) for table in (*tables, *logs)}  # noqa: S608

    expected = await left()
    assert 0 not in expected.values()
    for days, gone in (
        (59, {}),
        (61, {"memories": 0, "users": 0}),
        (89, {}),
        (91, {"conversation_messages": 0, "proposed_actions": 0, "email_drafts": 0, "agent_jobs": 1}),
        (364, {}),
        (366, {"agent_tool_executions": 0, "tool_operations": 0}),
    ):
        forgotten = await forget(talk.database, settings, now + days * DAY)
        assert forgotten == ("conversation_messages" in gone)
        expected |= gone
        assert await left() == expected, days


async def test_forgotten_thread_begins_again_without_memory(talk: ConversationActivityScene) -> None:
    await talk.said("hello there")
    await talk.answer()
    assert await forget(talk.database, ConversationSettings.read(), time.time() + 91 * DAY) == 1
    stored = await talk.said("hello again")
    assert stored.marks.turn == 1
    await talk.answer(2)
    assert "hello there" not in str(talk.sent())
    assert len(talk.posted()) == 2
