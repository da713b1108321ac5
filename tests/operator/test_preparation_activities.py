"""The operator's context before its first call of the model, on the real Postgres."""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from sqlalchemy import event
from structlog.testing import capture_logs

from tests.operator.operating import TOOLS, Answering
from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.conversation_store import THREAD, StoredConversation, mention
from tests.support.recording import create
from tests.support.tool_store import NOW, change
from threadline.conversations.contract import ThinkRequest, Thought
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.operator_context import context_request
from threadline.db.engine import Database
from threadline.models.model import Completion, Prompt, ToolChoice
from threadline.operator.context import (
    Context,
    ContextRequest,
    LayerReport,
    SlackContext,
    build_context,
    read_records,
)
from threadline.operator.prompt import MAX_ANALYSIS_TOKENS
from threadline.operator.store import Memory, MemoryKind, MemoryStore
from threadline.rfps.model import TeamMember
from threadline.rfps.store import RfpStore, TeamMemberStore
from threadline.slack.history import History, RawMessage
from threadline.slack.model import Thread, User, UserProfile
from threadline.slack.users import UserDirectory
from threadline.threads.authors import AuthorPolicy
from threadline.threads.model import IncomingMessage, MessageKind, message_id, turn_id
from threadline_devstack.slack.identity import GENERAL

__all__ = ["make_talk", "talk"]

SAID_BEFORE = {"user": "U9", "ts": "1700000000.000000", "text": "Acme wants a crane"}
THE_CALL = {"user": "U1", "ts": "1700000060.000000", "text": "The bot is called"}
QUESTION = "Which skills does our team have for the website relaunch status?"


async def find_user(user_id: str) -> User | None:
    return User(THREAD.team, name="Ann", email="ann@x.test")


class Heard(History):
    """Slack's history of one thread, without Slack."""

    def __init__(self, *messages: RawMessage) -> None:
        self.messages = messages
        self.read = 0

    async def thread_messages(
        self, channel: str, root: str, oldest: str
    ) -> AsyncGenerator[RawMessage, None]:
        for message in self.messages:
            self.read += 1
            yield message


async def prepare(
    database: Database, question: str = QUESTION, rfp_id: str = "", heard: Heard | None = None
) -> Context:
    """The context of a turn of U1."""
    async with database.begin() as tx:
        request = await context_request(tx, THREAD, "U1", question, rfp_id)
        records = await read_records(tx, request)
    users = UserDirectory(find_user)
    slack = SlackContext(users, heard or Heard(), AuthorPolicy(users))
    return await build_context(request, records, slack, {each.wire_name for each in TOOLS})


def report(prepared: Context, name: str) -> LayerReport:
    return next(each for each in prepared.layers if each.name == name)


async def fill(database: Database, rows: int, rfp_id: str = "rfp_abc123", first: int = 0) -> None:
    """Store this many of each: entries, events, members, memories, RFPs and threads like this
    one.
    """
    await create(database, f"create {rfp_id}", rfp_id=rfp_id)
    for n in range(first, first + rows):
        await create(database, f"create {n}", rfp_id=f"rfp_like{n:03}")
    async with database.begin() as tx:
        for n in range(first, first + rows):
            await RfpStore(tx).append_entry(change(f"j{n}"), rfp_id, f"Entry {n}")
            await RfpStore(tx).append_event(change(f"e{n}"), rfp_id, "viewed", {"n": n})
            await TeamMemberStore(tx).save(
                "T1", TeamMember(f"U{n}", f"Member {n}", skills=("Rust",))
            )
            thread = Thread("T1", f"C9{n}", f"16{n:08}.000000")
            await RfpStore(tx).bind(thread, rfp_id, "U1")
            for kind in MemoryKind:
                new = Memory(kind, "website relaunch status", "opportunity_load", "U1")
                await MemoryStore(tx).remember("T1", [(f"{kind}{n}", new)], NOW + n)


@asynccontextmanager
async def counted(database: Database) -> AsyncIterator[list[str]]:
    """The statements that run in this block, and `COMMIT` for each transaction."""
    run = list[str]()

    def keep(_: object, __: object, statement: str, *___: Any) -> None:
        run.append(statement)

    engine = database._engine.sync_engine

    def commit(_: object) -> None:
        run.append("COMMIT")

    event.listen(engine, "before_cursor_execute", keep)
    event.listen(engine, "commit", commit)
    yield run
    event.remove(engine, "before_cursor_execute", keep)
    event.remove(engine, "commit", commit)


async def test_all_layers_are_read_from_the_records(database: Database) -> None:
    talk = StoredConversation(database)
    await talk.hear(mention(60))
    await fill(database, 3)
    heard = Heard(SAID_BEFORE, THE_CALL)
    prepared = await prepare(database, QUESTION, "rfp_abc123", heard)
    missing = {each.name: each.missing for each in prepared.layers if each.missing}
    assert missing == {}
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
    await prepare(database, "Hello", "rfp_abc123")
    assert [
        each["rfp_id"] for each in await talk.rows("SELECT rfp_id FROM opportunity_states")
    ] == ["rfp_abc123"]


async def test_asker_is_known_from_slack_though_the_records_are_away() -> None:
    request = ContextRequest(THREAD, "U1", QUESTION)
    users = UserDirectory(find_user)
    prepared = await build_context(
        request, "away", SlackContext(users, Heard(), AuthorPolicy(users)), ()
    )
    assert "ann@x.test" in prepared.text
    assert prepared.new_profile
    assert prepared.new_profile.display_name == "Ann"


async def test_number_of_queries_does_not_grow_with_the_records(database: Database) -> None:
    counts = list[int]()
    await StoredConversation(database).hear(mention(60))
    for rows, rfp_id, first in ((1, "rfp_few", 0), (50, "rfp_many", 1)):
        await fill(database, rows, rfp_id, first)
        async with counted(database) as run:
            prepared = await prepare(database, QUESTION, rfp_id)
        assert not report(prepared, "journal").missing
        counts.append(len(run))
    assert counts[0] == counts[1]
    assert counts[0] < 40


def asks(talk: ConversationActivityScene, model: Answering) -> Answering:
    """Use this model from now on."""
    talk.activities.deps = replace(talk.activities.deps, model=model)
    return model


async def think(talk: ConversationActivityScene) -> Thought:
    """The operator's first call of the model, which loads the context before."""
    request = ThinkRequest(talk.thread, 1, 1, ToolChoice.AUTO, Agent.OPERATOR)
    return await talk.run(talk.activities.think, request)


async def test_operator_begins_in_six_transactions(talk: ConversationActivityScene) -> None:
    """The transactions read and take up the messages, do so again once Slack has named their
    authors, read the records, store the context with the author's profile, store the analysis, and
    store the reply.
    """
    await begun(talk)
    async with counted(talk.database) as run:
        await think(talk)
    (plan,) = await talk.rows("SELECT context FROM conversation_turns")
    assert "rfp_abc123" in plan["context"]
    assert run.count("COMMIT") == 6
    (user,) = await talk.rows("SELECT user_id FROM users")
    assert user["user_id"] == talk.message("x").sender_id


async def test_words_deleted_while_the_context_is_gathered_are_not_in_it(
    talk: ConversationActivityScene,
) -> None:
    said = await begun(talk)
    read = talk.activities.deps.operator_slack.profile

    async def delete_first(request: ContextRequest, stored: UserProfile | None) -> UserProfile:
        talk.activities.deps.operator_slack.profile = read  # type: ignore[method-assign]
        await talk.said(talk.deletion(said))
        return await read(request, stored)

    talk.activities.deps.operator_slack.profile = delete_first  # type: ignore[method-assign]
    with capture_logs() as logs:
        await think(talk)
    assert [each["event"] for each in logs].count("context_read_again") == 1
    (plan,) = await talk.rows("SELECT context FROM conversation_turns")
    assert plan["context"]
    assert "SECRETWORD" not in plan["context"]
    asked = await talk.rows("SELECT 1 AS one FROM model_calls WHERE purpose = 'think'")
    assert asked == [], "no message is left for the model"


async def test_stop_while_the_context_is_gathered_asks_no_model(
    talk: ConversationActivityScene,
) -> None:
    await begun(talk)
    read = talk.activities.deps.operator_slack.profile

    async def stop_first(request: ContextRequest, stored: UserProfile | None) -> UserProfile:
        await talk.said(talk.message("stop", kind=MessageKind.STOP))
        return await read(request, stored)

    talk.activities.deps.operator_slack.profile = stop_first  # type: ignore[method-assign]
    thought = await think(talk)
    assert (thought.snapshot.stop_due, thought.snapshot.turn) == (True, 0)
    assert (thought.reply.text, thought.reply.calls) == ("", ())
    assert await talk.rows("SELECT 1 FROM model_calls WHERE purpose = 'think'") == []


async def test_deletion_of_a_message_from_before_the_bot_was_called_clears_the_context(
    talk: ConversationActivityScene,
) -> None:
    """Only Slack's history put it into the context."""
    await begun(talk)
    await think(talk)
    earlier = talk.message(
        "never stored", ts=talk.thread.ts, id=message_id(talk.thread.team, GENERAL, talk.thread.ts)
    )
    await talk.said(talk.deletion(earlier))
    assert [
        each["context"] for each in await talk.rows("SELECT context FROM conversation_turns")
    ] == [""]


async def test_analysis_of_words_that_were_deleted_meanwhile_is_not_kept(
    talk: ConversationActivityScene,
) -> None:
    said = await begun(talk)
    model = Answering("They want SECRETWORD done.")
    ask = model.ask

    async def delete_first(prompt: Prompt, *, attempt: int = 1) -> Completion:
        await talk.said(talk.deletion(said))
        answer = await ask(prompt, attempt=attempt)
        model.text = "Nothing is left of it."
        return answer

    model.ask = delete_first  # type: ignore[method-assign]
    asks(talk, model)
    await think(talk)
    assert await talk.rows("SELECT analysis FROM conversation_turns") == [
        {"analysis": "Nothing is left of it."}
    ]
    paid = await talk.rows("SELECT 1 AS one FROM model_calls WHERE purpose = 'analyse'")
    assert len(paid) == 2, "both were paid for"


async def begun(talk: ConversationActivityScene) -> IncomingMessage:
    """A turn of the operator about an RFP, whose earlier words are remembered."""
    await create(talk.database, team=talk.thread.team, rfp_id="rfp_abc123")
    said = talk.message("Update the status of rfp_abc123 to won SECRETWORD")
    await talk.said(said)
    await talk.begin()
    key = turn_id(talk.thread, 1)
    words = Memory(
        MemoryKind.EPISODIC, "rfp_abc123 far", "SECRETWORD was said", "U1", talk.thread.channel
    )
    async with talk.database.begin() as tx:
        await MemoryStore(tx).remember(talk.thread.team, [(key, words)], NOW)
    return said


async def test_words_of_other_channels_are_not_shown(database: Database) -> None:
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
        remembered = Memory(
            MemoryKind.EPISODIC, "relaunch", f"the relaunch, as told in {channel}", "U1", channel
        )
        async with database.begin() as tx:
            await RfpStore(tx).bind(thread, "rfp_abc123", "U1")
            await MemoryStore(tx).remember("T1", [(channel, remembered)], NOW)
    prepared = await prepare(database, "the relaunch", "rfp_abc123")
    for told in ("We shall bid.", "<#C2>", "as told in C1"):
        assert told in prepared.text
    assert not [
        each for each in ("Between us", "My secret", "D1", "told in C2") if each in prepared.text
    ]


async def test_own_patterns_come_first(database: Database) -> None:
    async with database.begin() as tx:
        for user, tools in (("U2", "team_list"), ("U1", "opportunity_load")):
            new = Memory(MemoryKind.PROCEDURAL, f"update status | {tools}", tools, user)
            await MemoryStore(tx).remember("T1", [(user, new)], NOW - 60 * (user == "U1"))
    told = (await prepare(database, "update the status")).patterns
    assert [each.split(": ")[1].split(" ")[0] for each in told.splitlines()] == [
        "opportunity_load",
        "team_list",
    ]


async def test_analysis_is_paid_for_once_and_accounted(talk: ConversationActivityScene) -> None:
    await begun(talk)
    model = asks(talk, Answering("They want it changed. Load it first."))
    for _ in range(2):
        await think(talk)
    assert await talk.rows("SELECT analysis FROM conversation_turns") == [{"analysis": model.text}]
    calls = await talk.rows(
        "SELECT turn, step, purpose, input_tokens, cost_usd FROM model_calls WHERE purpose = "
        "'analyse'"
    )
    assert calls == [
        {"turn": 1, "step": 0, "purpose": "analyse", "input_tokens": 100, "cost_usd": 0.01}
    ]
    assert (
        len([each for each in model.asked if each.max_output_tokens == MAX_ANALYSIS_TOKENS]) == 1
    )


async def test_analysis_may_be_absent(talk: ConversationActivityScene) -> None:
    await begun(talk)
    model = asks(talk, Answering("Done."))
    ask = model.ask

    async def broken(prompt: Prompt, *, attempt: int = 1) -> Completion:
        if prompt.max_output_tokens == MAX_ANALYSIS_TOKENS:
            raise RuntimeError("It is broken.")
        return await ask(prompt, attempt=attempt)

    model.ask = broken  # type: ignore[method-assign]
    assert (await think(talk)).reply.text == "Done."
    assert await talk.rows("SELECT analysis FROM conversation_turns") == [{"analysis": ""}]


async def test_slack_is_not_asked_when_the_root_called_the_bot(database: Database) -> None:
    await StoredConversation(database).hear(mention(0))
    heard = Heard(SAID_BEFORE)
    prepared = await prepare(database, QUESTION, heard=heard)
    assert heard.read == 0
    assert not report(prepared, "thread").tokens


async def test_unknown_or_deleted_rfp_is_missing_with_its_records(database: Database) -> None:
    await fill(database, 1)
    unknown = await prepare(database, "Hello", "rfp_abc124")
    assert "did you mean rfp_abc123?" in report(unknown, "rfp_state").missing
    async with database.begin() as tx:
        await RfpStore(tx).delete("T1", "rfp_abc123")
    deleted = await prepare(database, QUESTION, "rfp_abc123")
    assert "Entry 0" not in deleted.text
    assert all(report(deleted, name).missing for name in ("rfp_state", "journal", "events"))


async def test_lessons_are_not_crowded_out_by_successes(database: Database) -> None:
    async with database.begin() as tx:
        for n in range(9):
            kind = "validation" if n == 0 else ""
            new = Memory(
                MemoryKind.PROCEDURAL,
                "website relaunch status",
                f"way {n}",
                "U1",
                error_class=kind,
            )
            await MemoryStore(tx).remember("T1", [(f"k{n}", new)], NOW + n)
    prepared = await prepare(database, QUESTION)
    assert "way 0" in prepared.text
