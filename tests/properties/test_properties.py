"""The sixteen correctness properties of the Slack agent, by their numbers in docs/designs.md."""

import asyncio
import json
import re
import string
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial
from itertools import count
from typing import Any

import httpx2
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from openai import APIConnectionError, APIError, APIStatusError, RateLimitError
from pydantic import BaseModel, create_model
from structlog.testing import capture_logs

from tests.conversations.dialogues import (
    REGISTRY,
    THREAD,
    bot,
    brief,
    call,
    past,
    person,
    result,
    transcripts,
)
from tests.conversations.scripted_turn import Script
from tests.properties.internals import ERRORS, assert_clean, error_of, is_public
from tests.properties.turns import (
    REFUSALS,
    TOOL_FAILURES,
    ScriptedModel,
    failing_turn,
    new_turn,
    numbers,
    play_turn,
    stored_answer,
)
from tests.slack.limits import check, legible, tables
from tests.support.conversation_activities import REGISTRY as LAMPS
from tests.support.conversation_activities import Make, make_talk
from tests.support.conversation_store import StoredConversation, mention
from tests.support.examples import examples
from tests.support.tool_fakes import Clock, MemoryLedger, context, unheld
from threadline.conversations.blocks import answer_of
from threadline.conversations.call_input import prepare_call
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.help import ABILITIES, CaseChannelIds, build_help
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import ConversationOutcome, Execution, Refusal
from threadline.conversations.prompt import (
    ContextBudget,
    SaidMessage,
    build_prompt,
    choose_window,
    estimate_tokens,
    limit_summary,
    user_messages,
)
from threadline.conversations.replies import Intent, IntentType, extract_intent
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import Transcript, TranscriptStore
from threadline.conversations.turn_window import fit_turn
from threadline.db.engine import Database
from threadline.db.rate_limits import RateLimits, RateVerdict
from threadline.db.values import storable
from threadline.errors import Permanent, Transient, parse_retry_after
from threadline.models.errors import InvalidResponse, translate
from threadline.models.model import (
    Message,
    ModelReply,
    Prompt,
    Role,
    ToolCall,
    ToolChoice,
    ToolKind,
)
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.slack.text import is_blank
from threadline.slack.users import UserDirectory
from threadline.threads.model import IncomingMessage, MessageKind, SenderType
from threadline.tools.blocks import format_label
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ErrorCode, ToolError, ToolResult, ToolStatus
from threadline.tools.public_text import public_lines
from threadline.tools.registry import Cache, Tool, ToolRegistry, allowed_tools, tool
from threadline.tools.runner import ToolRunner
from threadline_devstack.slack.identity import BOT_USER

__all__ = ["make_talk"]

ALLOWED = allowed_tools(REGISTRY, Services(), read_only=False)
AT = 1_772_000_000.0
ANY_TEXT = st.text(st.characters())


WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1)
WORDLESS = st.text(st.characters(categories=["P", "S", "Z"], exclude_characters="_")) | st.lists(
    st.sampled_from([":tada:", ":+1:", "🎉", "👍🏽", "<@U123>", " ", "!"])
).map("".join)
HELP = ("help", "Help!", "hi, help me please", "<@U1> what can you do?", "usage")
NO_HELP = ("help me close these tickets", "how are you?", "helpless")


@examples()
@given(ANY_TEXT | st.text(min_size=1).map(lambda text: text * 500), WORDS, WORDLESS)
@example("<@" * 20_000, "a", "")
@example(":" * 40_000, "a", "")
def test_property_1_intent_of_any_text_is_valid_or_unknown(
    text: str, word: str, wordless: str
) -> None:
    found = extract_intent(text)
    if found is not None:
        assert isinstance(found, Intent)
        assert found.type in set(IntentType)
        assert 0 <= found.confidence <= 1
    assert extract_intent(f"{text[:100]} {word}") is not None
    assert extract_intent(wordless) is None
    assert {extract_intent(each) for each in HELP} == {Intent(IntentType.HELP, 1.0)}
    assert {extract_intent(each) for each in NO_HELP} == {Intent(IntentType.REQUEST, 0.5)}


TOOLSETS = sorted(name for each in ABILITIES for name in each.toolsets)


@examples()
@given(WORDLESS, st.sets(st.sampled_from(TOOLSETS) | WORDS), st.booleans())
@example("", set(TOOLSETS), True)
def test_property_2_unknown_intent_is_answered_with_each_capability(
    text: str, toolsets: set[str], direct: bool
) -> None:
    assert extract_intent(text) is None
    channels = CaseChannelIds("C0REPORTS")
    shown = build_help("D1" if direct else "C1", toolsets, channels, greets=True)
    offered = [each for each in ABILITIES if toolsets.intersection(each.toolsets)]
    assert all(each.name in shown.text for each in offered)
    assert "I can help with " in shown.text
    assert shown.examples == tuple(each.example for each in offered)[:4]
    assert len(shown.text.splitlines()) <= 6


@examples()
@given(
    st.lists(st.sampled_from([":tada:", "🎉", "👍🏽", "<@U123>", "?!", "…"]), max_size=5).map(
        " ".join
    )
)
async def test_property_2_message_without_words_to_the_bot_is_answered_with_its_capabilities(
    make_talk: Make, text: str
) -> None:
    talk = await new_turn(make_talk, ScriptedModel(), LAMPS, said=f"<@{BOT_USER}> {text}")
    begun = await talk.begin()
    assert begun.ends
    await talk.settle(ConversationOutcome(begun.ends, ""))
    answer = await stored_answer(talk)
    assert "I can help with " in answer
    assert not any(each.does in answer for each in LAMPS.all())


STORED_TEXT = st.text(
    st.one_of(st.characters(), st.sampled_from("\x00\ud83d\ude00\udfff\ufdd0\\u🙂")), max_size=60
)
"""Every character of Python: NUL, both halves of surrogate pairs apart and together,
noncharacters.
"""
STORED_JSON = st.recursive(
    STORED_TEXT, lambda inner: st.dictionaries(STORED_TEXT, inner, max_size=3), max_leaves=10
).map(repr)
STORED_CALLS = st.builds(
    ToolCall,
    STORED_TEXT,
    STORED_TEXT,
    STORED_TEXT | STORED_JSON,
    st.sampled_from(ToolKind),
    st.booleans(),
)
STORED = st.builds(
    Message,
    st.sampled_from(Role),
    STORED_TEXT,
    st.lists(STORED_CALLS, max_size=4).map(tuple),
    *[STORED_TEXT] * 3,
)


@examples()
@given(st.lists(STORED, min_size=1, max_size=8))
@example(
    [
        Message(Role.USER, "\ud83d\ude00"),
        Message(Role.USER, "\U0001f600"),
        Message(Role.USER, "\ufdd0d83d"),
    ]
)
@example(
    [
        Message(
            Role.ASSISTANT,
            "",
            (ToolCall("\x00", "a.b", '{"a": [1, {"b": "\\ud800"}]}', kind=ToolKind.READ),),
        )
    ]
)
async def test_property_3_stored_messages_are_read_back_equal(
    database: Database, messages: list[Message]
) -> None:
    talk = StoredConversation(database, Thread("T1", "C1", f"{next(numbers)}"))
    await talk.store(mention(1))
    half = len(messages) // 2
    entries = [(f"m:{-number}", message) for number, message in enumerate(messages, start=-3)]
    await talk.append(*entries[:half])
    await talk.append(*entries[half:])
    read = [each.message for each in (await talk.read()).messages]
    assert read == messages
    assert all(isinstance(call.kind, ToolKind) for each in read for call in each.calls), (
        "a text would be equal"
    )
    async with database.begin() as tx:
        assert [await TranscriptStore(tx).get(talk.thread, key) for key, _ in entries] == messages


FITTING = 20 - 1
"""Earlier messages that fit beside the newest one."""
TIMES = st.integers(1, 300)
WILD = st.tuples(st.text(max_size=60), TIMES).map(lambda drawn: drawn[0] * drawn[1])
BUDGETS = st.integers(4_000, 20_000).map(lambda tokens: ContextBudget(tokens=tokens))


def first_prompt(before: Transcript, said: Sequence[str], budget: ContextBudget) -> Prompt:
    """Return the first call of a turn for which no summary was made."""
    fresh = user_messages([SaidMessage("", text) for text in said], budget)
    cut = choose_window(before, fresh, budget)
    return prompt_of(
        replace(before, messages=cut.kept), [brief(7, since=cut.since).message(), *fresh]
    )


def prompt_of(before: Transcript, current: Sequence[Message]) -> Prompt:
    return build_prompt(THREAD, before, current, (REGISTRY, ALLOWED), ToolChoice.AUTO)


def without_notes(messages: Sequence[Message]) -> list[Message]:
    """Return the messages of the conversation and its summary, without a turn's note."""
    return [each for each in messages if not each.content.startswith("[Context]")]


def told(messages: Sequence[Message]) -> list[tuple[Role, str, list[str]]]:
    """Return the dialogue as the model reads it: an empty message of the assistant is not sent."""
    notes = [each for each in messages if each.role is Role.SYSTEM]
    empty = [
        each
        for each in messages
        if each.role is Role.ASSISTANT and is_blank(each.content) and not each.calls
    ]
    read = [each for each in messages if each not in notes + empty]
    return [
        (each.role, each.content, [one.id for one in each.calls] or [each.call_id])
        for each in read
    ]


@examples()
@given(transcripts(least=1), BUDGETS)
def test_property_4_latest_messages_are_sent_in_order_without_a_gap(
    earlier: list[Message], budget: ContextBudget
) -> None:
    earlier = [
        replace(each, content=each.content and f"{at} {each.content}")
        for at, each in enumerate(earlier)
    ]
    sent = first_prompt(past(earlier), ["newest"], budget).messages
    shown = told(sent)
    whole = told([*earlier, person("newest")])
    assert shown == whole[-len(shown) :]
    assert shown[0][0] is not Role.TOOL
    assert len(without_notes(sent)) <= 20
    if len(earlier) <= FITTING and sum(map(estimate_tokens, earlier)) <= 3_000:
        assert shown == whole


async def find_nobody(user_id: str) -> None:
    """Slack, which knows no names."""


@examples()
@given(
    transcripts(),
    st.lists(st.builds("{0:}{0:}?".format, WILD), min_size=1, max_size=5)
    | st.just(["x" * 16_000] * 5),
    st.just("")
    | st.text(max_size=3_000)
    | st.text(min_size=1, max_size=20).map(lambda text: text * 1_000),
    st.just(ContextBudget()) | BUDGETS,
)
async def test_property_5_prompt_has_at_most_20_messages_within_the_budget(
    database: Database,
    earlier: list[Message],
    said: list[str],
    summary: str,
    budget: ContextBudget,
) -> None:
    """Messages that no summary covers are sent as they are, from the summary's end to the last
    word.
    """
    talk = StoredConversation(database, Thread("T1", "C1", f"1{next(numbers):09}.000100"))
    number = count(1)

    async def hear(*texts: str) -> None:
        await talk.hear(
            *(mention(at := next(number), each, id=f"{talk.thread.key}:{at}") for each in texts)
        )

    await hear("any news")
    await talk.append(*((f"e:{place}", each) for place, each in enumerate(earlier)))
    await talk.settle(1)
    await hear(*said)
    unused: Any = None
    deps = ConversationDeps(
        database,
        slack=unused,
        outbox=unused,
        users=UserDirectory(find_nobody),
        alerts=unused,
        model=ScriptedModel(*[ModelReply(summary)] * 99),
        registry=unused,
        services=unheld(),
        ledger=unused,
        decision=unused,
        operator_slack=unused,
        budget=budget,
        clock=lambda: AT,
    )
    question = await prepare_call(deps, ThinkRequest(talk.thread, 2, 1, ToolChoice.AUTO), 1)
    until = (await talk.read()).summary_until
    kept = [each.message for each in question.past.messages]
    assert kept == earlier[len(earlier) - len(kept) :]
    assert is_blank(summary) or until + len(kept) == len(earlier)
    assert question.past.summary == (limit_summary(storable(summary)) if until else "")
    told = past(earlier, limit_summary("x" + summary))
    for sent in (
        prompt_of(question.past, list(question.current)),
        first_prompt(told, said, budget),
    ):
        assert len(without_notes(sent.messages)) <= 20
        assert sum(map(estimate_tokens, sent.messages)) <= budget.tokens


RESULTS = (
    st.text(max_size=60)
    | st.integers(1, 19_000).map("x".__mul__)
    | st.integers(1, 6_000).map("字".__mul__)
)


@st.composite
def turns(draw: st.DrawFn) -> list[list[Message]]:
    """Messages that each step of a turn adds: people's words, a reply, and the results of its
    calls.
    """
    steps: list[list[Message]] = []
    for step in range(draw(st.integers(1, 8))):
        calls = tuple(call(f"{step}.{at}") for at in range(draw(st.integers(1, 30))))
        results = [result(each.id, draw(RESULTS)) for each in calls]
        steps.append(
            [
                bot("", *calls),
                *results,
                *(person(each) for each in draw(st.lists(WILD, max_size=3))),
            ]
        )
    return steps


@examples()
@given(
    transcripts(),
    st.lists(WILD, min_size=1, max_size=5),
    turns(),
    st.just(ContextBudget()) | BUDGETS,
)
def test_property_5_holds_at_each_step_of_a_turn(
    earlier: list[Message], said: list[str], steps: list[list[Message]], budget: ContextBudget
) -> None:
    """Holds for results of any size: they are shortened, and a call is removed with its result."""
    fresh = user_messages([SaidMessage("", text) for text in said], budget)
    cut = choose_window(past(earlier), fresh, budget)
    current = [brief(7, since=cut.since).message(), *fresh]
    for added in steps:
        current += added
        kept, turn = fit_turn(replace(past(), messages=cut.kept), current, budget)
        sent = prompt_of(kept, turn).messages
        assert len(without_notes(sent)) <= 20
        assert sum(map(estimate_tokens, sent)) <= budget.tokens
        calls = [one.id for each in sent for one in each.calls]
        assert calls == [each.call_id for each in sent if each.role is Role.TOOL]
        asked = [each.call_id for each in added if each.role is Role.TOOL]
        assert calls[-1] == asked[-1], "the newest result is shown"
        assert turn[0] == current[0]
        spoken = "".join(each.content for each in sent if each.role is Role.USER)
        assert all(each.content[:20] in spoken for each in current if each.role is Role.USER)


ENDS = ("the model is silent", "the model fails", "a user stops it")
DONE = (ToolStatus.OK, ToolStatus.CACHED, ToolStatus.PENDING)
ADVICE = re.compile(
    r"(?:^|[.:;,!]\s+|\b(?:please|or|and)\s+)"
    r"(?:ask|call|change|check|choose|fix|name|offer"
    r"|rephrase|say|set|shorten|tell|try|use|wait|write)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A clause that begins with an instruction: "because" is not "use", nor is "task" "ask"."""


def assert_postable(text: str, internal: str) -> None:
    """Assert that the answer can be read, that Slack accepts it, and that it holds no
    internals.
    """
    messages = answer_of(text)
    assert messages
    check(messages)
    assert not is_blank(legible(messages))
    assert_clean(legible(messages), internal)


def advises(text: str) -> bool:
    return ADVICE.search(text) is not None


@pytest.mark.parametrize(
    ("text", "advice"),
    [
        ("The task failed because nobody called it: it is unusable.", False),
        ("I could not use what you ask for.", False),
        ("Settings are wrong, and the essay is too long.", False),
        ("It is too long: shorten it.", True),
        ("This did not work. Please try again.", True),
        ("Ask the admin.", True),
    ],
)
def test_advice_is_a_clause_with_an_instruction(text: str, advice: bool) -> None:
    assert advises(text) is advice


@examples()
@given(ERRORS, st.sampled_from(TOOL_FAILURES + REFUSALS), st.booleans(), st.sampled_from(ENDS))
@example((Permanent, "zqword", "/srv/app/main.py", "word", False), "side effect", False, ENDS[0])
async def test_property_6_failing_tool_is_reported_without_internals(
    database: Database,
    make_talk: Make,
    raised: tuple[Any, ...],
    condition: str,
    mutating: bool,
    end: str,
) -> None:
    after = [error_of(*raised)] if end == "the model fails" else []
    with capture_logs():
        talk = await failing_turn(make_talk, database, raised, condition, mutating, after)
        text = await play_turn(talk, stop=end == "a user stops it")
    assert_postable(text, raised[2])
    if condition in TOOL_FAILURES and condition != "side effect":
        assert "did not work" in text or "do not know whether" in text
    if condition == "blocked" and mutating:
        assert "was not allowed" in text
    assert condition == "returns" or is_public(raised) or raised[1] not in text
    assert end != "the model is silent" or condition == "side effect" or advises(text)
    for content in [each.content for key, each in await talk.transcript() if key.startswith("t:")]:
        read = json.loads(content)
        if condition == "side effect":
            assert read["success"]
            assert any(each.startswith("[Side Effect Error] ") for each in read["notes"])
            assert raised[2] not in str(read["notes"])
            continue
        assert read["error"]["message"]
        assert read["error"]["suggestion"]
        assert_clean(f"{read['error']['message']} {read['error']['suggestion']}", raised[2])


KINDS = st.sampled_from(
    [
        "appointments",
        "orders",
        "tickets",
        "builds",
        "projects",
        "wbs_items",
        "roles",
        "quotes",
        "cases",
        "slots",
    ]
)
CELLS = st.text() | st.sampled_from(
    ["<!channel>", "@here", "x" * 5_000, "& " * 900, "2026-03-02T09:00:00Z", "|"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | CELLS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(CELLS, inner, max_size=4),
    max_leaves=12,
)
COLUMNS = CELLS | st.sampled_from(
    ["url", "key", "id", "number", "title", "status", "appointment_id", "project_id"]
)
RECORDS = st.lists(st.dictionaries(COLUMNS, VALUES, max_size=6) | VALUES, min_size=1, max_size=6)
GROUPS = st.lists(st.tuples(KINDS | CELLS, RECORDS), min_size=1, max_size=5)
ANSWERS = (
    st.sampled_from(["", "Here they are.", "y" * 9_000, "a|b\n-|-\n1|2\n", "é\ud800\0"])
    | st.text()
)
SMALL = st.lists(
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9), min_size=1), min_size=2, max_size=9
)


def blocks_of(messages: Sequence[Rendered]) -> list[dict[str, Any]]:
    return [block for message in messages for block in message.blocks]


@examples()
@given(ANSWERS, GROUPS, st.booleans(), st.integers(1, 400), SMALL)
def test_property_7_structured_data_is_shown_in_blocks_that_slack_accepts(
    text: str,
    groups: list[tuple[str, list[Any]]],
    detail: bool,
    times: int,
    small: list[dict[str, int]],
) -> None:
    """Records without room are counted, and every value of a small table can be read."""
    messages = answer_of(text, groups, detail)
    check(messages)
    shown = blocks_of(messages)[len(blocks_of(answer_of(text, (), detail))) :]
    assert len(shown) >= len({kind for kind, _ in groups})

    kind, records = groups[0]
    many = [[number, each] for number, each in enumerate((records * times)[:1_500])]
    (message,) = answer_of("", [(kind, many)])
    check([message])
    if len(many) > 1:
        assert f"({len(many):,})" in message.text
        left = len(many) - sum(len(table["rows"]) - 1 for table in tables(message))
        assert (f"Not shown: {left:,} of the records" in legible([message])) == (left > 0)

    read = legible(answer_of("", [("things", small)]))
    for name, value in (pair for record in small for pair in record.items()):
        assert format_label(name) in read
        assert str(value) in read


def model_failures(raised: tuple[Any, ...], status: int) -> Sequence[Exception]:
    """Errors that the client of a model's API may raise, and their translations."""
    error = error_of(*raised)
    internal = raised[2]
    request = httpx2.Request("POST", "https://api.example/v1/responses")
    response = httpx2.Response(status, request=request)
    body = {"message": internal, "code": raised[1], "type": internal, "param": internal}
    known = (
        APIStatusError(internal, response=response, body=body),
        APIConnectionError(message=internal, request=request),
        APIError(internal, request, body=body),
        InvalidResponse(internal),
        TimeoutError(internal),
    )
    return (error, *known, *(translate(each, 1) for each in known))


@examples()
@given(
    st.lists(ERRORS, min_size=4, max_size=4),
    st.integers(400, 599),
    st.integers(0, 10),
    st.sampled_from(ToolStatus),
)
async def test_property_8_every_error_is_friendly(
    make_talk: Make, errors: list[tuple[Any, ...]], code: int, which: int, status: ToolStatus
) -> None:
    """The answer without a model has words and advice; any inserted text is cleaned with it."""
    raised = errors[0]
    failures = model_failures(raised, code)
    with capture_logs():
        talk = await new_turn(make_talk, ScriptedModel(failures[which]), LAMPS)
        text = await play_turn(talk)
    assert_postable(text, raised[2])
    assert raised[1] not in text or (which == 0 and is_public(raised))
    assert advises(text) or (which == 0 and is_public(raised)), (
        "only a model's own words may lack advice"
    )

    for number, raised in enumerate(errors):
        error = error_of(*raised)
        internal = raised[2]
        for each in model_failures(raised, 400 + (code + 29 * number) % 200)[6:]:
            assert_clean(str(each), internal)
        refused = ToolError(
            list(ErrorCode)[(which + number) % len(ErrorCode)], str(error), repr(error)
        )
        assert_clean(refused.text, internal)
        assert refused.message
        assert refused.suggestion
        one = Execution("1", "any.thing", status, note=str(error))
        other = Execution("2", internal, status, note=refused.text)
        for own in (
            answers.failure_text(str(error), [one, other]),
            answers.summary_text([one]),
            answers.stopped_text([other, one]),
        ):
            clean = public_lines(own, answers.GENERIC_FAILURE)
            assert_postable(clean, internal)
            assert clean != answers.GENERIC_FAILURE
        assert advises(answers.failure_text(" ", [one]))
        assert advises(answers.summary_text([one])) or status in DONE


LONG_WORDS = st.text(
    st.characters(categories=["L", "N", "S"], exclude_characters="`~"), min_size=1, max_size=30
)
GAPS = st.sampled_from([" ", " ", "\n", "\n\n", "\t"])
LONG = st.tuples(st.lists(st.tuples(LONG_WORDS, GAPS), min_size=1, max_size=20), TIMES).map(
    lambda drawn: "".join(map("".join, drawn[0])) * drawn[1]
)
CODE = LONG.map(lambda text: f"Look:\n\n```python\n{text}\n```\n")
NO_DETAIL = st.sampled_from(
    ["what is open for checkout?", "create three WBS items", "no details, please"]
)


@examples()
@given(
    NO_DETAIL,
    LONG,
    LONG | WILD | CODE,
    st.integers(200, 12_000),
    st.lists(WILD, min_size=1, max_size=5),
)
@example("create three WBS items", "x", "x" * 2_001, 200, ["x"])
def test_property_9_answer_has_at_most_2000_characters_unless_details_are_asked_for(
    asked: str, long: str, text: str, limit: int, names: list[str]
) -> None:
    """A detailed answer loses and cuts no word. The limit also holds for the product's own texts
    at the end of a turn.
    """
    parts = answers.split_answer(text, detail=answers.wants_detail(asked))
    assert sum(map(len, parts)) <= 2_000
    assert len(parts) == (0 if is_blank(text) else 1)
    assert not any(map(is_blank, parts))

    in_detail = answers.split_answer(
        long, detail=answers.wants_detail("please explain it in detail"), limit=limit
    )
    assert " ".join(in_detail).split() == long.split()
    assert all(len(part) <= limit for part in in_detail)

    calls = tuple(ToolCall(str(number), name) for number, name in enumerate(names))
    for stopping in (False, True):
        script = Script([ModelReply(names[0], calls)])
        outcome = script.play(
            stop_requested=partial(_stops, script) if stopping else lambda: False
        )
        assert sum(map(len, answers.split_answer(outcome.text))) <= 2_000


def _stops(script: Script) -> bool:
    """Say to stop while the first tools run."""
    return bool(script.ran)


SAME_WITHIN = 120
HALVES = st.integers(0, 4 * SAME_WITHIN).map(lambda halves: halves / 2) | st.sampled_from(
    [119.5, 120.0]
)
MESSAGE_CHARACTERS = st.characters(exclude_characters="\0", codec="utf-8")
"""Raw characters of a message: the gateway cleans it."""
SAID = st.lists(st.tuples(st.tuples(*[st.integers(0, 1)] * 4), HALVES), min_size=2, max_size=8)
PAIRS = st.lists(st.text(MESSAGE_CHARACTERS, max_size=40), min_size=2, max_size=2, unique=True)


@examples()
@given(PAIRS, PAIRS, PAIRS, SAID)
@example(
    ["U1", "U2"], ["C1", "C2"], ["any news", "bye"], [((0, 0, 0, 0), 0.0), ((0, 0, 0, 0), 119.5)]
)
@example(
    ["U1", "U2"], ["C1", "C2"], ["any news", "bye"], [((0, 0, 0, 0), 0.0), ((0, 0, 0, 0), 120.0)]
)
@example(
    ["U1", "U2"],
    ["C1", "C2"],
    ["any news", "bye"],
    [((0, 0, 0, 0), 0.0), *[((0, 0, 0, 0), 110.0)] * 3],
)
async def test_property_10_same_words_within_120_seconds_are_a_duplicate(
    database: Database,
    users: list[str],
    places: list[str],
    texts: list[str],
    said: list[tuple[Any, float]],
) -> None:
    """Counts words of the same user in the thread, from the last message that was no duplicate. A
    message that is checked again keeps its verdict.
    """
    team = f"T{next(numbers)}"
    now = AT
    counted: dict[Any, float] = {}
    threads: dict[str, Thread] = {}
    async with database.begin() as tx:
        verdicts: list[bool] = []
        for number, (key, gap) in enumerate(said):
            now += gap
            user, channel, root, text = key
            thread = threads[f"{team}:{number}"] = Thread(team, places[channel], f"1.{root}")
            message = IncomingMessage(
                f"{team}:{number}",
                MessageKind.MESSAGE,
                SenderType.UNKNOWN,
                users[user],
                texts[text],
                places[channel],
                f"{now:.6f}",
                addressed=True,
            )
            await MessageStore(tx).store(thread, [message])
            verdicts.append(bool(await MessageStore(tx).find_duplicates(thread, [message.id])))
            assert verdicts[-1] == (now - counted.get(key, 0.0) < SAME_WITHIN)
            if not verdicts[-1]:
                counted[key] = now
            await MessageStore(tx).judge(
                thread, {message.id: Refusal.DUPLICATE if verdicts[-1] else None}
            )
        again = [
            bool(await MessageStore(tx).find_duplicates(thread, [each]))
            for each, thread in threads.items()
        ]
        assert again == verdicts


RATE_LIMITED_AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
HEADER_TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126))
SECONDS = st.floats(0, 1e6).map(lambda seconds: f"{seconds:g}")
AWAY = st.integers(-10_000, 10_000)
DATES = AWAY.map(
    lambda away: format_datetime(RATE_LIMITED_AT + timedelta(seconds=away), usegmt=True)
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms"]), HEADER_TEXT | SECONDS | DATES
)
BODIES = st.none() | st.dictionaries(
    st.sampled_from(["code", "message", "type", "param"]), st.none() | HEADER_TEXT
)


@examples()
@given(st.integers(1, 3) | st.integers(), HEADERS, BODIES, st.integers(1, 10_000))
def test_property_11_wait_after_a_rate_limit_is_2_to_the_attempt_or_the_servers(
    attempt: int, headers: dict[str, str], body: dict[str, str | None] | None, away: int
) -> None:
    """The server's number or date counts if it is longer; an invalid time is ignored.
    test_retries_workflow.py tests the waits and their number.
    """
    request = httpx2.Request("POST", "https://inner.example/v1/responses")
    response = httpx2.Response(429, headers=headers, request=request)
    failure = translate(RateLimitError("Slow down.", response=response, body=body), attempt)
    assert isinstance(failure, Transient)
    assert failure.retry_after is not None
    assert failure.retry_after >= 2.0 ** min(max(attempt, 0), 10)
    asked = parse_retry_after(headers, RATE_LIMITED_AT)
    assert asked is None or 0 < asked < float("inf")
    if not headers.get("retry-after", "").endswith(
        "GMT"
    ):  # a date is counted from the moment of the call
        assert failure.retry_after == max(2.0 ** min(max(attempt, 0), 10), asked or 0)
    date = format_datetime(RATE_LIMITED_AT + timedelta(seconds=away), usegmt=True)
    assert parse_retry_after({"retry-after": date}, RATE_LIMITED_AT) == away


def run_tools(
    calls: list[ToolCall], tools: list[Tool], ledger: MemoryLedger | None = None, **where: Any
) -> list[ToolResult]:
    registry = ToolRegistry(tools)
    everything = allowed_tools(registry, Services(), read_only=False)
    run = ToolRunner(registry, everything, ledger or MemoryLedger()).run

    async def all_of_them() -> list[ToolResult]:
        return [await run(each, context(**where, call_id=each.id)) for each in calls]

    with capture_logs():
        return asyncio.run(all_of_them())


JSON_SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=20)


@examples()
@given(
    st.dictionaries(
        st.sampled_from("abc"),
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    ),
    st.floats(1, 10_000),
    st.floats(0, 0.99),
    JSON_SCALARS,
    st.randoms(),
)
def test_property_12_cached_result_is_returned_without_running_the_tool(
    arguments: dict[str, str], seconds: float, part: float, answer: Any, random: Any
) -> None:
    """For the same tool with the same arguments in any order, within the lifetime of its cache."""
    clock = Clock()
    ledger = MemoryLedger()
    runs = [0]

    @tool("any.thing", "Answers.", cache=Cache(seconds), remote=True)
    async def thing(context: ToolContext, *, a: str = "", b: str = "", c: str = "") -> Any:
        runs[0] += 1
        return [answer, runs[0]]

    def ask(call_id: str, given: dict[str, Any]) -> ToolResult:
        shuffled = random.sample(sorted(given), len(given))
        text = json.dumps({name: given[name] for name in shuffled})
        return run_tools([ToolCall(call_id, "any_thing", text)], [thing], ledger, clock=clock)[0]

    first = ask("1", arguments)
    clock.advance(seconds * part)
    again = ask("2", dict.fromkeys("abc") | arguments)
    assert (again.status, again.data, runs[0]) == (ToolStatus.CACHED, first.data, 1)
    assert ask("3", arguments | {"a": arguments.get("a", "") + "x"}).status is ToolStatus.OK
    clock.advance(seconds + 1)
    assert ask("4", arguments).status is ToolStatus.OK
    assert runs[0] == 3


MINUTE = 60
MOST = 10
PAUSES = (
    st.integers(0, 20).map(lambda halves: halves / 2)
    | st.integers(0, 2 * MINUTE).map(float)
    | st.just(0.0)
)


@examples()
@given(st.lists(st.tuples(st.integers(1, 2), PAUSES), min_size=1, max_size=30))
@example([(1, 0.0)] * 10)
@example([(1, 0.0)] * 12)
@example([(1, 0.0)] * 10 + [(1, MINUTE - 0.5)])
@example([(1, 0.0)] * 10 + [(1, float(MINUTE))])
async def test_property_13_more_than_10_requests_within_60_seconds_are_throttled(
    database: Database, asked: list[tuple[int, float]]
) -> None:
    """For two users concurrently; the first refusal of a minute is posted, and a request that is
    checked again keeps its verdict.
    """
    team = f"T{next(numbers)}"
    now = AT
    given: list[tuple[int, float, RateVerdict]] = []
    async with database.begin() as tx:
        for number, (user, gap) in enumerate(asked):
            now += gap
            recent = [verdict for who, at, verdict in given if who == user and now - at < MINUTE]
            refused = (
                RateVerdict.THROTTLED
                if RateVerdict.THROTTLED_FIRST in recent
                else RateVerdict.THROTTLED_FIRST
            )
            verdict = await RateLimits(tx).count_request(team, f"U{user}", f"{team}:{number}", now)
            assert verdict is (RateVerdict.OK if len(recent) < MOST else refused)
            given.append((user, now, verdict))
        for number, (user, _, verdict) in enumerate(given):
            assert (
                await RateLimits(tx).count_request(team, f"U{user}", f"{team}:{number}", now + 7)
                is verdict
            )


PART = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,20}", fullmatch=True)
TOOL_NAMES = st.lists(PART, min_size=1, max_size=3).map(".".join)
FIELD = st.from_regex(r"[a-z][a-z0-9]{0,10}", fullmatch=True).filter(
    lambda name: not hasattr(BaseModel, name)
)
TYPES: dict[type, st.SearchStrategy[Any]] = {
    int: st.integers(-(10**9), 10**9),
    str: st.text(string.printable, max_size=20),
    bool: st.booleans(),
    float: st.floats(allow_nan=False, allow_infinity=False),
    list[int]: st.lists(st.integers(0, 9), max_size=3),
}
SHAPES = st.dictionaries(
    FIELD, st.tuples(st.sampled_from(list(TYPES)), st.booleans()), min_size=1, max_size=4
)


def tool_of(
    name: str, shape: dict[str, tuple[Any, bool]], seen: list[Any], description: str = "Something."
) -> Tool:
    """Return a tool of these parameters, each with its type and whether it may be omitted."""
    fields: dict[str, Any] = {
        each: (kind | None, None) if optional else (kind, ...)
        for each, (kind, optional) in shape.items()
    }
    model = create_model("Given", **fields)

    async def thing(context: ToolContext, given: Any) -> str:
        seen.append((context, given))
        return "done"

    thing.__annotations__["given"] = model
    return tool(name, description, remote=True)(thing)


@examples()
@given(
    st.dictionaries(
        TOOL_NAMES,
        st.tuples(st.text(min_size=1).filter(str.strip), SHAPES),
        min_size=1,
        max_size=4,
    )
)
def test_property_14_registered_tool_is_found_listed_and_defined(
    given: dict[str, tuple[str, Any]],
) -> None:
    registry = ToolRegistry(
        tool_of(name, shape, [], description) for name, (description, shape) in given.items()
    )
    definitions = {each["name"]: each for each in registry.definitions()}
    assert len(definitions) == len(given) == len(registry.all())
    for name, (description, shape) in given.items():
        found = registry.get(name)
        assert found in registry.all()
        assert found
        assert registry.get(found.wire_name) is found
        made = definitions[found.wire_name]
        assert made["description"] == description
        assert (
            list(made["parameters"]["properties"]) == made["parameters"]["required"] == list(shape)
        )
        assert made["parameters"]["additionalProperties"] is False


STORABLE = JSON_SCALARS.filter(lambda value: not isinstance(value, str) or "\0" not in value)
"""Text with NUL is refused for any type: tests/tools/test_arguments_rules.py."""


def fits(kind: Any, value: Any) -> bool:
    """Return whether a JSON value is of the type: a whole number is a float too, a boolean is no
    number.
    """
    if isinstance(value, bool) or value is None:
        return kind is bool and value is not None
    if kind == list[int]:
        return isinstance(value, list) and all(fits(int, each) for each in value)
    return isinstance(value, (int, float) if kind is float else kind)


@examples()
@given(SHAPES, st.data(), st.sampled_from(["missing", "type", "unknown"]))
def test_property_15_invalid_arguments_are_refused_before_the_tool_runs(
    shape: dict[str, tuple[Any, bool]], data: st.DataObject, fault: str
) -> None:
    seen: list[Any] = []
    thing = tool_of("any.thing", shape, seen)
    valid = {name: data.draw(TYPES[kind]) for name, (kind, _) in shape.items()}
    wrong = dict(valid)
    field = data.draw(st.sampled_from(sorted(shape)))
    kind, optional = shape[field]
    if fault == "missing":
        assume(not optional)
        del wrong[field]
    elif fault == "type":
        wrong[field] = data.draw(STORABLE | st.sampled_from([{}, [None], True, "1"]))
        assume(not fits(kind, wrong[field]) and not (optional and wrong[field] is None))
    else:
        field = data.draw(FIELD.filter(lambda name: name not in shape))
        wrong[field] = data.draw(STORABLE)

    (refused,) = run_tools([ToolCall("1", "any.thing", json.dumps(wrong))], [thing])
    assert refused.error
    assert refused.error.code is ErrorCode.INVALID_ARGUMENTS
    assert f"`{field}" in refused.error.message
    assert any(word in refused.error.message for word in ("should", "expected"))
    assert seen == []
    (done,) = run_tools([ToolCall("1", "any.thing", json.dumps(valid))], [thing])
    assert done.success
    assert len(seen) == 1


IDENTITY = ("team", "channel", "thread_ts", "user_id", "request_id", "correlation_id")
ID = st.text(min_size=1, max_size=200).filter(lambda text: not is_blank(text))
UNSEEN = [None, "", " \n", "\u200b", "\u2060\ufeff"]


@examples()
@given(
    st.fixed_dictionaries(dict.fromkeys(IDENTITY, ID)),
    st.sampled_from(IDENTITY),
    st.sampled_from(UNSEEN),
)
def test_property_16_tool_context_has_channel_thread_user_and_request(
    identity: dict[str, str], field: str, blank: str | None
) -> None:
    """A context without one of them cannot be created."""
    seen: list[Any] = []
    numbered = tool_of("any.thing", {"n": (int, False)}, seen)
    run_tools([ToolCall("call 1", "any.thing", '{"n": 1}')], [numbered], None, **identity)
    ((given, _arguments),) = seen
    assert {name: getattr(given, name) for name in IDENTITY} == identity
    assert given.call_id == "call 1"
    with pytest.raises(ValueError, match=field):
        context(**(identity | {field: blank}))
