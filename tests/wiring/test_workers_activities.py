"""The parts of the core worker, and how long their records are kept."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.client import Client

from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.patience import patient
from tests.support.temporal import connect
from threadline.approvals.model import ApprovalRules, NewAction
from threadline.approvals.store import ApprovalStore
from threadline.cases.contract import AgentActivities
from threadline.jobs.model import JobSchedule, NewJob
from threadline.jobs.store import JobStore
from threadline.operator.store import Memory, MemoryKind, MemoryStore
from threadline.sales.model import NewEmail
from threadline.sales.store import EmailDraftStore
from threadline.slack.history import History
from threadline.slack.model import UserProfile
from threadline.slack.store import UserStore
from threadline.tools.model import Author, Change, Operation, Risk
from threadline.wiring import retention
from threadline.wiring.core import connect_core
from threadline.wiring.core_settings import CoreSettings
from threadline.wiring.retention import prune_all
from threadline.wiring.temporal import CONTRACTS, temporal_client
from threadline.wiring.workers import CoreParts, open_core
from threadline_devstack.slack.identity import BOT_ID, BOT_TOKEN, REPORTS, SUMMARIES, TEAM

__all__ = ["make_talk", "talk"]

DAY = 24 * 3600.0


@pytest.fixture
def histories(monkeypatch: pytest.MonkeyPatch) -> list[History]:
    """Every reader of Slack's history that is created; each has a rate limiter."""
    made = list[History]()
    make = History.__init__

    def noted(self: History, *given: Any) -> None:
        made.append(self)
        make(self, *given)

    monkeypatch.setattr(History, "__init__", noted)
    return made


@pytest.fixture
async def parts(
    monkeypatch: pytest.MonkeyPatch,
    database_url: str,
    talk: ConversationActivityScene,
    histories: list[History],
) -> AsyncIterator[CoreParts]:
    """By default conversations are kept for 90 days, and results of tools for a year."""
    for name, value in {
        "DATABASE_URL": database_url,
        "SLACK_BOT_TOKEN": BOT_TOKEN,
        "SLACK_API_URL": talk.slack.api_url,
        "THREADLINE_REPORTS_CHANNEL": REPORTS,
        "THREADLINE_SUMMARIES_CHANNEL": SUMMARIES,
        "THREADLINE_REPO": "/nowhere/shop",
        "THREADLINE_MEMORY_DAYS": "60",
    }.items():
        monkeypatch.setenv(name, value)
    settings = CoreSettings()
    temporal = await Client.connect("localhost:1", lazy=True)
    async with connect_core(settings, temporal) as deps, open_core(settings, deps) as made:
        assert (deps.case_channels.team, deps.identity.bot_id) == (TEAM, BOT_ID)
        yield made


async def test_every_contract_of_the_core_has_one_live_object(parts: CoreParts) -> None:
    live = [
        contract
        for each in parts.activities
        for contract in CONTRACTS
        if isinstance(each, contract)
    ]
    assert len(live) == len(CONTRACTS) - 1
    assert {*live, AgentActivities} == set(CONTRACTS)
    assert all(isinstance(each, CONTRACTS) for each in parts.activities)


async def test_catch_up_and_conversations_share_one_rate_limiter(
    parts: CoreParts, histories: list[History]
) -> None:
    """Slack limits a token and a method, for all callers together."""
    assert len(histories) == 1


async def test_names_of_sweeps_and_of_pruned_records_are_unique(parts: CoreParts) -> None:
    sweeps = [sweep.name for sweep in parts.sweeps]
    kinds = [prune.kind for prune in parts.prunes]
    assert len(sweeps) == len(set(sweeps))
    assert len(kinds) == len(set(kinds))


async def test_pruning_goes_on_after_an_unexpected_error(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene
) -> None:
    looks = itertools.count(1)
    third = asyncio.Event()

    async def breaking(*_: object) -> dict[str, int]:
        if next(looks) == 3:
            third.set()
        raise KeyError("a fault in the code")

    monkeypatch.setattr(retention, "PRUNE_INTERVAL", 0.0)
    monkeypatch.setattr(retention, "prune_all", breaking)
    async with retention.prune_periodically(talk.database, []):
        await asyncio.wait_for(third.wait(), patient(5))


PRUNED_TABLES = (
    "memories",
    "users",
    "conversation_messages",
    "proposed_actions",
    "email_drafts",
    "agent_jobs",
    "agent_tool_executions",
)
PRUNED_AFTER: list[tuple[int, dict[str, int]]] = [
    (59, {}),
    (61, {"memories": 0, "users": 0}),
    (89, {}),
    (
        91,
        {
            "conversation_messages": 0,
            "proposed_actions": 0,
            "email_drafts": 0,
            "agent_jobs": 1,
        },
    ),
    (364, {}),
    (366, {"agent_tool_executions": 0}),
]
"""By days: the rows that are left in the tables that lose some then."""


async def test_each_kind_of_record_is_pruned_after_its_own_time(
    talk: ConversationActivityScene, parts: CoreParts
) -> None:
    now = time.time()
    await fill(talk, now)
    expected = await left_rows(talk)
    assert 0 not in expected.values()
    for days, gone in PRUNED_AFTER:
        pruned = await prune_all(talk.database, parts.prunes, now + days * DAY)
        assert pruned["conversations"] == ("conversation_messages" in gone)
        expected |= gone
        assert await left_rows(talk) == expected, days


async def fill(talk: ConversationActivityScene, now: float) -> None:
    """Store a row in each of `PRUNED_TABLES`."""
    author = Author("U1", "corr-1")
    await talk.said("List the lamps.")
    await talk.answer()

    def change(call_id: str) -> Change:
        return Change(Operation(talk.thread, 1, 1, call_id), author, now)

    action = NewAction(
        {"tool": "opportunity.patch", "arguments": {"text": "any news"}}, Risk.MEDIUM
    )
    weekly = NewJob(job_type="status_digest", arguments={}, schedule=JobSchedule(cron="0 9 * * 1"))
    async with talk.database.begin() as tx:
        await MemoryStore(tx).remember(
            "T1", [("key", Memory(MemoryKind.EPISODIC, "the lamps", "said"))], now
        )
        await UserStore(tx).save("T1", UserProfile("U1", "", "Ann", "", now))
        proposed = await ApprovalStore(tx).propose(
            change("proposed"), action, ApprovalRules(("U2",), expiry=1.0)
        )
        await ApprovalStore(tx).expire(talk.thread.team, proposed.action_id, now + 60)
        email = NewEmail("ana@shop.example", "Our call", "Hello Ana Silva.")
        await EmailDraftStore(tx).add(talk.thread, "U1", email, datetime.fromtimestamp(now, UTC))
        over = await JobStore(tx).schedule(change("over"), weekly)
        await JobStore(tx).schedule(change("open"), weekly)
        await JobStore(tx).cancel(talk.thread.team, over.job_id, now)


async def left_rows(talk: ConversationActivityScene) -> dict[str, int]:
    """Return the number of rows in each of `PRUNED_TABLES`."""
    return {
        table: len(await talk.rows(f"SELECT 1 FROM {table}"))  # noqa: S608
        for table in PRUNED_TABLES
    }


async def test_pruned_thread_begins_again_without_memory(
    talk: ConversationActivityScene, parts: CoreParts
) -> None:
    await talk.said("any news there")
    await talk.answer()
    assert (await prune_all(talk.database, parts.prunes, time.time() + 91 * DAY))[
        "conversations"
    ] == 1
    stored = await talk.said("any news again")
    assert stored.snapshot.turn == 1
    await talk.answer(2)
    assert "any news there" not in str(talk.sent())
    assert len(talk.posted()) == 2


async def test_broken_connection_to_temporal_is_missed_within_twenty_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Temporal allows a ping every ten seconds; one that comes a moment early, for the network,
    must not end it all.
    """
    server = await connect()
    monkeypatch.setenv("TEMPORAL_ADDRESS", server.service_client.config.target_host)
    monkeypatch.setenv("TEMPORAL_NAMESPACE", server.namespace)
    kept = (await temporal_client()).service_client.config.keep_alive_config
    assert kept is not None
    assert kept.interval_millis >= 12_000
    assert kept.interval_millis + kept.timeout_millis <= 20_000
