"""What conversations are made of in the core worker, and for how long they are kept."""

import asyncio
import itertools
import time
from dataclasses import replace

import pytest
from sqlalchemy import text

from tests.approvals.approval_scene import nothing
from tests.support.conversation_activities import Talking, make_talk, talk
from threadline.approvals.contract import ApprovalActivities
from threadline.approvals.model import NewAction, Risk
from threadline.cases.case_cards import Readers
from threadline.conversations.activities import LiveConversationActivities
from threadline.conversations.contract import ConversationActivities, SpeakingActivities
from threadline.conversations.decision_contract import DecisionActivities
from threadline.conversations.operator_contract import OperatorActivities
from threadline.errors import Permanent
from threadline.handovers.contract import HandoverActivities
from threadline.jobs.model import JobSchedule, NewJob
from threadline.operator.model.memory import MemoryKind, NewMemory
from threadline.sales.email_model import NewLetter
from threadline.sales.model import Contact
from threadline.settings import ConversationSettings
from threadline.settings.conversations import LONGEST_ANSWER
from threadline.slack.actor_model import Actor
from threadline.threads import activity_options as options
from threadline.threads.alerts import Alerts
from threadline.threads.catch_up_model import LOOK_BACK
from threadline.threads.outbox_posts import Claim, Posts
from threadline.threads.post_ledger import PostLedger
from threadline.tools.author import Author
from threadline.tools.operations import Change, Operation
from threadline.tools.registry import Registry, Tool
from threadline.wiring import conversations
from threadline.wiring.conversations import Host, TalkSettings, conversing, forget
from threadline.wiring.doctor_machine import conversation_model
from threadline.wiring.toolset_list import TOOLS
from threadline_devstack.slack.identity import ESCALATIONS

__all__ = ["make_talk", "talk"]

DAY = 24 * 3600.0


def test_every_toolset_that_is_there_can_be_registered() -> None:
    assert all(isinstance(each, Tool) for each in TOOLS)
    assert len(Registry(TOOLS).all()) == len(TOOLS)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("THREADLINE_CONVERSATION_MAX_TURNS", "0"),
        ("THREADLINE_CONVERSATION_MAX_TURNS", "many"),
        ("THREADLINE_CONVERSATION_CONTEXT_TOKENS", "10"),
        ("THREADLINE_CONVERSATION_RETENTION_DAYS", str(LOOK_BACK / DAY)),
        ("THREADLINE_MUTATIONS_PER_MINUTE", "0"),
        ("THREADLINE_MEMORY_DAYS", "0"),
        ("THREADLINE_OPERATOR_CONTEXT_TOKENS", "999"),
        ("THREADLINE_OPENAI_TIMEOUT", "151s"),
    ],
)
def test_a_setting_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(Permanent, match=name):
        TalkSettings()


def test_the_longest_answer_of_a_model_is_awaited_by_the_workflow() -> None:
    assert min(options.THINK.start_to_close, options.SUMMARISE.start_to_close) > LONGEST_ANSWER + 20


async def test_forgetting_goes_on_after_an_error_that_nobody_foresaw(
    monkeypatch: pytest.MonkeyPatch, talk: Talking
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


@pytest.mark.parametrize("key", ["", "sk-proj-0123456789abcdefghijklmn"])
async def test_the_limits_reach_the_activities_with_a_key_and_without(
    monkeypatch: pytest.MonkeyPatch, talk: Talking, key: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    monkeypatch.setenv("THREADLINE_CONVERSATION_MAX_TURNS", "7")
    monkeypatch.setenv("THREADLINE_CONVERSATION_QUIET", "2h")
    monkeypatch.setenv("THREADLINE_CONVERSATION_MODEL_PATIENCE", "10m")
    slack = talk.speaking._slack
    posts = Posts(slack, PostLedger(talk.database, Claim))
    readers = Readers((ESCALATIONS,), "https://sandbox.slack.com/")
    alerts = Alerts(posts, ESCALATIONS)
    house = Host(alerts, readers, "polaris", start_approval=nothing)
    async with conversing(TalkSettings(), talk.database, slack, posts, house) as made:
        assert isinstance(made.approving, ApprovalActivities)
        assert isinstance(made.operator, OperatorActivities)
        assert isinstance(made.deciding, DecisionActivities)
        assert isinstance(made.handing, HandoverActivities)
        assert isinstance(made.thinking, ConversationActivities)
        assert isinstance(made.speaking, SpeakingActivities)
        assert isinstance(made.thinking, LiveConversationActivities)
        limits = (await talk.run(made.thinking.open_conversation, talk.thread)).limits
    assert (limits.max_turns, limits.quiet, limits.model_patience) == (7, 7200, 600)


async def test_doctor_names_the_key_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "")
    with pytest.raises(Permanent, match="OPENAI_API_KEY is not set"):
        await conversation_model()
    monkeypatch.setenv("OPENAI_API_KEY", "sk-proj-0123456789abcdefghijklmn")
    assert "sk-proj" not in await conversation_model()


async def test_what_is_too_old_is_forgotten_and_what_is_not_stays(talk: Talking) -> None:
    settings = ConversationSettings.read()
    await talk.said("List the lamps.")
    await talk.answer()
    young = replace(talk.thread, ts="1700000001.000000")
    talk.thread, old = young, talk.thread
    await talk.said("hello there")
    async with talk.database.begin() as work:
        await work.connection.execute(
            text("UPDATE conversations SET last_at = now() - interval '91 days' WHERE thread_ts = :ts"), {"ts": old.ts}
        )
    assert await forget(talk.database, settings, time.time()) == 1
    async with talk.database.begin() as work:
        assert not await work.conversations.is_followed(old.team, old.channel, old.ts)
        assert await work.conversations.is_followed(young.team, young.channel, young.ts)
    assert len(await talk.rows("SELECT id FROM agent_tool_executions")) == 1, (
        "the record of calls has a time of its own"
    )
    assert await forget(talk.database, settings, time.time() + 366 * DAY) == 1
    assert await talk.rows("SELECT id FROM agent_tool_executions") == []


async def test_of_a_forgotten_thread_nothing_is_remembered_and_it_can_begin_again(talk: Talking) -> None:
    await talk.said("hello there")
    await talk.answer()
    assert await forget(talk.database, ConversationSettings.read(), time.time() + 91 * DAY) == 1
    stored = await talk.said("hello again")
    assert stored.marks.turn == 1
    await talk.answer(2)
    assert "hello there" not in str(talk.sent())
    assert len(talk.posted()) == 2


async def test_what_the_operator_remembers_and_who_people_are_is_forgotten_in_time(talk: Talking) -> None:
    now = time.time()
    async with talk.database.begin() as work:
        for age in (91, 89):
            new = NewMemory(MemoryKind.EPISODIC, "the lamps", f"said {age} days ago")
            await work.memories.remember("T1", new, f"{age}", now - age * DAY)
            await work.actors.save("T1", Actor(f"U{age}", "", "Ann", "", now - age * DAY))
    await forget(talk.database, ConversationSettings.read(), now)
    assert [each["text"] for each in await talk.rows("SELECT text FROM memories")] == ["said 89 days ago"]
    assert [each["user_id"] for each in await talk.rows("SELECT user_id FROM actors")] == ["U89"]


async def test_what_was_proposed_and_decided_is_forgotten_with_its_conversation(talk: Talking) -> None:
    now = time.time()
    change = Change(Operation(talk.thread, 1, 1, "done"), now)
    new = NewAction({"tool": "journal_append", "arguments": {"text": "hello"}}, Risk.LOW, (), now + 60)
    async with talk.database.begin() as work:
        await work.proposed_actions.propose(change, new, Author("U1", "corr-1"))
    for days, left in ((89, 1), (91, 0)):
        await forget(talk.database, ConversationSettings.read(), now + days * DAY)
        assert len(await talk.rows("SELECT 1 FROM proposed_actions")) == left


async def test_what_calls_have_kept_of_customers_and_mails_outlives_both_and_is_forgotten_in_time(
    talk: Talking,
) -> None:
    now, author = time.time(), Author("U1", "corr-1")
    async with talk.database.begin() as work:
        contact = Contact("U1", "Ana Silva", "ana@shop.example")
        await work.crm.update(Change(Operation(talk.thread, 1, 1, "put"), now), "", contact, {"phone": "+1"}, author)
        new = NewLetter("ana@shop.example", "Our call", "Hello Ana Silva.")
        await work.letters.draft(Change(Operation(talk.thread, 1, 1, "drafted"), now), "U1", new)
        await work.connection.execute(text("DELETE FROM crm_leads"))
    assert await talk.rows("SELECT 1 FROM crm_audit") == []
    for days, left in ((364, 2), (366, 0)):
        await forget(talk.database, ConversationSettings.read(), now + days * DAY)
        assert await talk.rows("SELECT 1 FROM email_drafts") == []
        kept = await talk.rows("SELECT result FROM tool_operations")
        assert len([each for each in kept if "Ana Silva" in str(each["result"])]) == left


async def test_jobs_that_are_long_over_are_forgotten_and_no_others(talk: Talking) -> None:
    now = time.time()
    weekly = NewJob("status_digest", {}, JobSchedule(cron="0 9 * * 1"))
    async with talk.database.begin() as work:
        for call_id in ("over", "open"):
            change = Change(Operation(talk.thread, 1, 1, call_id), now)
            await work.agent_jobs.schedule(change, weekly, Author("U1", "corr-1"))
        await work.agent_jobs.drop(talk.thread.team, "JOB-1", now)
    for days, left in ((89, ["JOB-2", "JOB-1"]), (91, ["JOB-2"])):
        await forget(talk.database, ConversationSettings.read(), now + days * DAY)
        async with talk.database.begin() as work:
            assert [each.job_id for each in await work.agent_jobs.listed(talk.thread.team)] == left
