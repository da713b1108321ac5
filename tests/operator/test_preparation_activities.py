"""What the operator knows before it begins, on the real Postgres."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from sqlalchemy import event

from tests.operator.operating import TOOLS, Answering
from tests.support.conversation_store import THREAD, StoredConversation, mention
from tests.support.recording import AUTHOR, create
from tests.support.tool_store import NOW, change
from threadline.db.engine import Database
from threadline.db.unit_of_work import Work
from threadline.operator.context import LayerReport
from threadline.operator.context_preparation import Prepared, Preparing
from threadline.operator.context_queries import LiveSources
from threadline.operator.model.memory import MemoryKind, NewMemory
from threadline.rfps.model import NewEntry, NewEvent, TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.slack.history import History, Raw
from threadline.slack.model import Thread, User
from threadline.slack.users import UserDirectory, UserProfiles
from threadline.threads.authors import AuthorPolicy

SAID_BEFORE = {"user": "U9", "ts": "1700000000.000000", "text": "Acme wants a crane"}
THE_CALL = {"user": "U1", "ts": "1700000060.000000", "text": "The bot is called"}
QUESTION = "Which skills does our team have for the website relaunch status?"


async def find_user(user_id: str) -> User | None:
    return User(name="Ann", email="ann@x.test")


class Heard(History):
    """Slack's history of one thread, without Slack."""

    def __init__(self, *messages: Raw) -> None:
        self.messages = messages
        self.read = 0

    async def thread(self, channel: str, root: str, oldest: str) -> AsyncGenerator[Raw, None]:
        for message in self.messages:
            self.read += 1
            yield message


class Meeting(Database):
    """So many units of work as there are parties wait until all of them are open at once."""

    barrier: asyncio.Barrier | None = None

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Work]:
        async with super().begin() as work:
            if barrier := self.barrier:
                await barrier.wait()
                self.barrier = None
            yield work


def preparing(database: Database, heard: Heard | None = None, model: Answering | None = None) -> Preparing:
    users = UserDirectory(find_user)
    sources = LiveSources(database, UserProfiles(database, users), heard or Heard(), AuthorPolicy(users))
    return Preparing(database, sources, model, TOOLS)


def report(prepared: Prepared, name: str) -> LayerReport:
    return next(each for each in prepared.layers if each.name == name)


async def fill(database: Database, rows: int, rfp_id: str = "rfp_abc123", first: int = 0) -> None:
    """So many of everything: entries, events, members, memories, RFPs and threads like this one."""
    await create(database, f"create {rfp_id}", rfp_id=rfp_id)
    for n in range(first, first + rows):
        await create(database, f"create {n}", rfp_id=f"rfp_like{n:03}")
    async with database.begin() as work:
        for n in range(first, first + rows):
            await RfpStore(work.tx).append_entry(change(f"j{n}"), rfp_id, NewEntry(f"Entry {n}"), AUTHOR)
            await RfpStore(work.tx).append_event(change(f"e{n}"), rfp_id, NewEvent("viewed", {"n": n}), AUTHOR)
            await TeamMemberStore(work.tx).save("T1", TeamMember(f"U{n}", f"Member {n}", skills=("Rust",)))
            thread = Thread("T1", f"C9{n}", f"16{n:08}.000000")
            await RfpStore(work.tx).bind(thread, rfp_id, "U1")
            for kind in MemoryKind:
                new = NewMemory(kind, "website relaunch status", "opportunity_load", "U1")
                await work.memories.remember("T1", new, f"{kind}{n}", NOW + n)


@asynccontextmanager
async def counted(database: Database) -> AsyncIterator[list[str]]:
    """The statements that are run meanwhile."""
    run = list[str]()

    def keep(_: object, __: object, statement: str, *___: Any) -> None:
        run.append(statement)

    engine = database._engine.sync_engine
    event.listen(engine, "before_cursor_execute", keep)
    yield run
    event.remove(engine, "before_cursor_execute", keep)


async def test_all_layers_are_read_from_the_records(database: Database) -> None:
    talk = StoredConversation(database)
    await talk.hear(mention(60))
    await fill(database, 3)
    heard = Heard(SAID_BEFORE, THE_CALL)
    prepared = await preparing(database, heard).context(THREAD, 1, "U1", QUESTION, "rfp_abc123")
    missing = {each.name: each.missing for each in prepared.layers if each.missing}
    assert missing == {"outside": "not asked for"}
    for told in (
        "2023-11-14 22:13 Ann (U9): Acme wants a crane",
        "Entry 2",
        "viewed",
        "Member 1",
        "rfp_like000",
        "ann@x.test",
        "version 1",
    ):
        assert told in prepared.text
    assert "in <#C90>" in prepared.text
    assert "The bot is called" not in prepared.text
    assert prepared.patterns.startswith("- website relaunch status: opportunity_load (3 times")


async def test_rfp_without_a_state_gets_one(database: Database) -> None:
    await create(database, rfp_id="rfp_abc123")
    talk = StoredConversation(database)
    await talk.do("DELETE FROM opportunity_states")
    await preparing(database).context(THREAD, 1, "U1", "Hello", "rfp_abc123")
    assert [each["rfp_id"] for each in await talk.rows("SELECT rfp_id FROM opportunity_states")] == ["rfp_abc123"]


async def test_number_of_queries_does_not_grow_with_the_records(database: Database) -> None:
    counts = list[int]()
    await StoredConversation(database).hear(mention(60))
    await UserProfiles(database, UserDirectory(find_user)).get("T1", "U1")
    for rows, rfp_id, first in ((1, "rfp_few", 0), (50, "rfp_many", 1)):
        await fill(database, rows, rfp_id, first)
        async with counted(database) as run:
            prepared = await preparing(database).context(THREAD, 1, "U1", QUESTION, rfp_id)
        assert not report(prepared, "journal").missing
        counts.append(len(run))
    assert counts[0] == counts[1]
    assert counts[0] < 40


async def test_queries_run_in_parallel(database_url: str) -> None:
    database = Meeting(database_url, pool_size=20)
    await StoredConversation(database).hear(mention(60))
    await fill(database, 1)
    await UserProfiles(database, UserDirectory(find_user)).get("T1", "U1")
    # Nine layers, that of who asks in two questions, and the patterns of one and of all.
    database.barrier = asyncio.Barrier(12)
    prepared = await preparing(database).context(THREAD, 1, "U1", QUESTION, "rfp_abc123")
    await database.dispose()
    assert not [each for each in prepared.layers if "time" in each.missing or "could not" in each.missing]
    assert prepared.patterns  # alone, one of them would have waited in vain


async def test_turn_is_prepared_without_a_database() -> None:
    away = Database("postgresql://nobody@localhost:1/nowhere")
    prepared = await preparing(away).context(THREAD, 1, "U1", QUESTION, "rfp_abc123")
    assert prepared.patterns == ""
    assert not any(each.tokens for each in prepared.layers)
    assert "Missing here:" in prepared.text
    await away.dispose()


async def test_words_of_other_channels_are_not_told(database: Database) -> None:
    await create(database, rfp_id="rfp_abc123")
    for channel, ts, words in (
        ("C1", "1600000000.000100", "We shall bid."),
        ("C2", "1600000000.000200", "Between us: no."),
        ("D1", "1600000000.000300", "My secret."),
    ):
        thread = Thread("T1", channel, ts)
        talk = StoredConversation(database, thread)
        await talk.hear(mention(1, id=f"{channel}{ts}", channel=channel))
        await talk.turn(1, words)
        remembered = NewMemory(MemoryKind.EPISODIC, "relaunch", f"the relaunch, as told in {channel}", "U1", channel)
        async with database.begin() as work:
            await RfpStore(work.tx).bind(thread, "rfp_abc123", "U1")
            await work.memories.remember("T1", remembered, channel, NOW)
    prepared = await preparing(database).context(THREAD, 1, "U1", "the relaunch", "rfp_abc123")
    for told in ("We shall bid.", "<#C2>", "as told in C1"):
        assert told in prepared.text
    assert not [each for each in ("Between us", "My secret", "D1", "told in C2") if each in prepared.text]


async def test_own_patterns_come_first(database: Database) -> None:
    async with database.begin() as work:
        for user, tools in (("U2", "team_list"), ("U1", "opportunity_load")):
            new = NewMemory(MemoryKind.PROCEDURAL, f"update status | {tools}", tools, user)
            await work.memories.remember("T1", new, user, NOW - 60 * (user == "U1"))
    told = (await preparing(database).context(THREAD, 1, "U1", "update the status")).patterns
    assert [each.split(": ")[1].split(" ")[0] for each in told.splitlines()] == ["opportunity_load", "team_list"]


async def test_analysis_is_paid_for_once_and_accounted(database: Database) -> None:
    talk = StoredConversation(database)
    await talk.hear(mention(0))
    model = Answering("They want it changed. Load it first.")
    text = await preparing(database, model=model).analyse(THREAD, 1, "Set it to won", "<context>x</context>")
    assert text == "They want it changed. Load it first."
    calls = await talk.rows("SELECT turn, step, purpose, input_tokens, cost_usd FROM model_calls")
    assert calls == [{"turn": 1, "step": 0, "purpose": "analyse", "input_tokens": 100, "cost_usd": 0.01}]
    assert len(model.asked) == 1


async def test_analysis_may_be_absent_or_unaccounted(database: Database) -> None:
    assert await preparing(database).analyse(THREAD, 1, "Hello", "") == ""
    assert await preparing(database, model=Answering("Do it.")).analyse(THREAD, 1, "Hello", "") == "Do it."


async def test_slack_is_not_asked_when_the_root_called_the_bot(database: Database) -> None:
    await StoredConversation(database).hear(mention(0))
    heard = Heard(SAID_BEFORE)
    prepared = await preparing(database, heard).context(THREAD, 1, "U1", QUESTION)
    assert heard.read == 0
    assert not report(prepared, "thread").tokens


async def test_unknown_or_deleted_rfp_is_missing_with_its_records(database: Database) -> None:
    await fill(database, 1)
    unknown = await preparing(database).context(THREAD, 1, "U1", "Hello", "rfp_abc124")
    assert "did you mean rfp_abc123?" in report(unknown, "rfp_state").missing
    async with database.begin() as work:
        await RfpStore(work.tx).delete("T1", "rfp_abc123")
    deleted = await preparing(database).context(THREAD, 1, "U1", QUESTION, "rfp_abc123")
    assert "Entry 0" not in deleted.text
    assert all(report(deleted, name).missing for name in ("rfp_state", "journal", "events"))


async def test_lessons_are_not_crowded_out_by_successes(database: Database) -> None:
    async with database.begin() as work:
        for n in range(9):
            kind = "validation" if n == 0 else ""
            new = NewMemory(MemoryKind.PROCEDURAL, "website relaunch status", f"way {n}", "U1", error_class=kind)
            await work.memories.remember("T1", new, f"k{n}", NOW + n)
    prepared = await preparing(database).context(THREAD, 1, "U1", QUESTION)
    assert "way 0" in prepared.text
