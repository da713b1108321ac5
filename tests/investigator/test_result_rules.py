"""The rules for failures that are permanent, for outcomes, and for the transcripts that the
session store keeps.
"""

import json
from typing import Any

import pytest
from claude_agent_sdk import (
    AssistantMessage,
    CLIConnectionError,
    CLIJSONDecodeError,
    CLINotFoundError,
    InMemorySessionStore,
    ProcessError,
    ResultMessage,
    SessionKey,
    SessionStoreEntry,
)
from structlog.testing import capture_logs

from tests.investigator.investigator_scene import MemorySessions
from threadline.cases.outcome import (
    Outcome,
    check_outcome,
    check_reporter_text,
    output_format,
    parse_outcome,
)
from threadline.errors import Mendable, Permanent, Transient
from threadline.investigator.stream import (
    SessionNotFound,
    SessionUsage,
    TurnMonitor,
    classify,
    raise_for_result,
)
from threadline.models.prices import Price, PriceList

KEY = "sk-ant-0123456789"


def _monitor(error: Any = None) -> TurnMonitor:
    monitor = TurnMonitor([KEY, "hunter2"], SessionUsage())
    if error:
        monitor.observe(AssistantMessage(content=[], model="m", error=error))
    return monitor


def _result(**fields: Any) -> ResultMessage:
    whole: dict[str, Any] = {
        "subtype": "success",
        "duration_ms": 1,
        "duration_api_ms": 1,
        "is_error": True,
        "num_turns": 1,
        "session_id": "s",
    }
    return ResultMessage(**(whole | fields))


@pytest.mark.parametrize(
    ("fields", "reply", "kind"),
    [
        ({"subtype": "error_max_turns"}, None, Permanent),
        (
            {"subtype": "error_during_execution", "terminal_reason": "aborted_tools"},
            None,
            Transient,
        ),
        (
            {
                "subtype": "error_during_execution",
                "errors": ["No conversation found with session ID x"],
            },
            None,
            SessionNotFound,
        ),
        ({"api_error_status": 400}, "unknown", Permanent),
        (
            {"api_error_status": 400, "result": "Your credit balance is too low"},
            "invalid_request",
            Mendable,
        ),
        ({"api_error_status": 401}, "unknown", Mendable),
        ({"api_error_status": 402}, "unknown", Mendable),
        ({"api_error_status": 403}, "unknown", Mendable),
        ({"api_error_status": None}, "authentication_failed", Mendable),
        ({"api_error_status": None}, "billing_error", Mendable),
        ({"api_error_status": 404}, "model_not_found", Mendable),
        ({"api_error_status": None}, "max_output_tokens", Permanent),
        ({"api_error_status": 408}, "server_error", Transient),
        ({"api_error_status": 429}, "rate_limit", Transient),
        ({"api_error_status": 500}, "server_error", Transient),
        ({"api_error_status": 529}, "server_error", Transient),
        ({"api_error_status": None}, "server_error", Transient),
        ({"api_error_status": None, "stop_reason": "refusal"}, "invalid_request", Permanent),
    ],
)
def test_failed_result_is_permanent_or_transient(
    fields: dict[str, Any], reply: str | None, kind: type[Exception]
) -> None:
    with pytest.raises(kind) as raised:
        raise_for_result(_result(**fields), _monitor(reply))
    assert isinstance(raised.value, Mendable) == (kind is Mendable)
    raise_for_result(_result(is_error=False), _monitor(reply))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProcessError("x", exit_code=-9), Transient),
        (ProcessError("x", exit_code=143), Transient),
        (ProcessError("x", exit_code=1), Permanent),
        (ProcessError("No conversation found with session ID", exit_code=1), SessionNotFound),
        (CLINotFoundError(), Mendable),
        (CLIConnectionError("Failed to start Claude Code: argument list too long"), Permanent),
        (CLIConnectionError("Cannot write to terminated process (exit code: -9)"), Transient),
        (CLIJSONDecodeError("{", ValueError()), Permanent),
        (RuntimeError("SessionStore.load() for session x failed"), Transient),
        (Exception("Control request timeout: initialize"), Transient),
    ],
)
def test_error_of_the_sdk_is_permanent_or_transient(
    error: Exception, kind: type[Exception]
) -> None:
    assert isinstance(classify(error, _monitor()), kind)
    assert classify(KeyError("x"), _monitor()) is None


def test_log_holds_the_last_lines_and_no_secret() -> None:
    monitor = _monitor()
    for line in [*["noise"] * 100, f"key {KEY} of postgresql://owner:pass@db", "password hunter2"]:
        monitor.stderr(line)
    with capture_logs() as logged:
        classify(ProcessError("x", exit_code=1), monitor)
    told = str(logged)
    assert "password …" in told
    assert "postgresql://…@db" in told
    assert not any(secret in told for secret in (KEY, "hunter2", "pass@"))
    assert told.count("noise") < 20


STDERR = (
    "[structured-output-enforce] You MUST call StructuredOutput; see /root/.claude.json, "
    "ANTHROPIC_API_KEY"
)
FAILURES = [
    ProcessError("Command failed", exit_code=1, stderr=STDERR),
    ProcessError("Command failed", exit_code=-9, stderr=STDERR),
    CLIConnectionError("Cannot write to terminated process"),
    CLIJSONDecodeError(STDERR, ValueError()),
    Exception(f"Control request failed: {STDERR}"),
]


@pytest.mark.parametrize("error", FAILURES)
def test_failure_says_nothing_of_the_cli(error: Exception) -> None:
    monitor = _monitor()
    monitor.stderr(STDERR)
    said = str(classify(error, monitor))
    assert not any(word in said for word in ("MUST", "StructuredOutput", ".claude", "ANTHROPIC"))


def test_refusal_of_the_api_says_nothing_of_the_cli() -> None:
    monitor = _monitor("invalid_request")
    monitor.stderr(STDERR)
    with capture_logs() as logged, pytest.raises(Permanent) as raised:
        raise_for_result(
            _result(api_error_status=400, result=f"API Error: 400 messages.3: {STDERR}"), monitor
        )
    assert (
        str(raised.value) == "The model's API refused the turn. The worker's log has its reason."
    )
    assert "messages.3" in str(logged)


OUTCOME = {
    "action": "post_findings",
    "title": "t",
    "summary": "s",
    "root_cause": "",
    "evidence": [],
    "severity": "S3",
    "confidence": 1,
    "clarification_question": "",
    "reply": "",
    "for_reporter": "",
    "recommended_actions": [],
    "affected_components": [],
    "fix_requested": False,
}


EVIDENCE = {"file": "shop/a.py", "line": 1, "note": "here it is"}


@pytest.mark.parametrize(
    ("changes", "may_ask", "told"),
    [
        ({}, False, ""),
        ({"reply": "It is in the cart."}, False, ""),
        ({"summary": " "}, True, "post_findings needs a summary"),
        ({"action": "resolved", "summary": ""}, True, "resolved needs a summary"),
        ({"action": "escalate", "summary": ""}, True, "escalate needs a summary"),
        ({"action": "ask_reporter"}, True, "needs a clarification_question"),
        ({"action": "ask_reporter", "clarification_question": "Which?", "summary": ""}, True, ""),
        ({"action": "ask_reporter", "clarification_question": "Which?"}, False, "may not ask"),
        ({"title": ""}, True, "title is empty"),
    ],
)
def test_rules_of_an_outcome(changes: dict[str, Any], may_ask: bool, told: str) -> None:
    violations = check_outcome(Outcome.model_validate(OUTCOME | changes), may_ask=may_ask)
    assert told in " ".join(violations)
    assert bool(told) == bool(violations)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"summary": ""}, ""),
        ({"summary": "", "reply": "Nothing new."}, ""),
        ({"summary": "", "root_cause": "cart.py"}, "give the findings whole"),
        ({"summary": "", "evidence": [EVIDENCE]}, "give the findings whole"),
        ({"summary": "", "recommended_actions": ["x"]}, "give the findings whole"),
        ({"summary": "", "action": "escalate"}, "escalate needs a reply that says why"),
        ({"summary": "", "action": "resolved"}, "resolved needs a reply that says why"),
        ({"summary": "", "action": "resolved", "reply": "It was deployed."}, ""),
    ],
)
def test_later_turn_may_leave_the_findings_as_they_are(changes: dict[str, Any], told: str) -> None:
    outcome = Outcome.model_validate(OUTCOME | changes)
    violations = check_outcome(outcome, may_ask=True, has_findings=True)
    assert told in " ".join(violations)
    assert bool(told) == bool(violations)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"for_reporter": "It is being mended."}, ""),
        ({"action": "escalate"}, "escalate needs for_reporter"),
        ({"action": "resolved", "for_reporter": " "}, "resolved needs for_reporter"),
        (
            {"for_reporter": "It is in a.py.", "evidence": [EVIDENCE]},
            "for_reporter is read by the reporter, and holds",
        ),
        (
            {
                "action": "ask_reporter",
                "clarification_question": "Is it in a.py?",
                "evidence": [EVIDENCE],
            },
            "clarification_question is read by the reporter, and holds the path a.py:",
        ),
        (
            {
                "action": "ask_reporter",
                "clarification_question": "Which?",
                "summary": "Which browser is it?",
            },
            "",
        ),
        (
            {
                "action": "ask_reporter",
                "clarification_question": "Which browser and which version did you use for that?",
                "reply": "I ask: which browser and which version did you use for that?",
            },
            "",
        ),
    ],
)
def test_words_for_the_reporter_are_checked(changes: dict[str, Any], told: str) -> None:
    found = check_reporter_text(Outcome.model_validate(OUTCOME | changes))
    assert told in " ".join(found)
    assert bool(told) == bool(found)


def test_missing_field_of_an_answer_is_named() -> None:
    outcome, problems = parse_outcome(
        {name: value for name, value in OUTCOME.items() if name != "for_reporter"}
    )
    assert outcome is None
    assert problems == ["for_reporter: Field required."]


@pytest.mark.parametrize(
    "changes", [{"confidence": "high"}, {"action": "shrug"}, {"evidence": ["x"]}, {"more": 1}]
)
def test_invalid_field_of_an_answer_is_named(changes: dict[str, Any]) -> None:
    outcome, problems = parse_outcome(OUTCOME | changes)
    assert outcome is None
    assert next(iter(changes)) in problems[0]


LIMITS = {
    "title": 300,
    "summary": 12_000,
    "root_cause": 6_000,
    "clarification_question": 3_000,
    "reply": 3_000,
    "for_reporter": 2_000,
}


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize(
    "text",
    ["word ", "word\n", "x", "東京", "👩‍👩‍👧 "],
    ids=["words", "lines", "x", "cjk", "emoji"],
)
def test_text_that_is_too_long_is_cut_with_a_mark(name: str, text: str) -> None:
    written = text * (LIMITS[name] // len(text) + 50)
    outcome, problems = parse_outcome(OUTCOME | {name: written})
    assert outcome is not None, problems
    kept = getattr(outcome, name)
    assert kept.endswith(f" … (cut: {len(written):,} characters)")
    assert LIMITS[name] - 150 < len(kept) <= LIMITS[name]
    assert written.startswith(kept.rpartition(" … (cut")[0])


@pytest.mark.parametrize("name", LIMITS)
def test_text_of_the_greatest_length_stays(name: str) -> None:
    outcome, _ = parse_outcome(OUTCOME | {name: "x" * LIMITS[name]})
    assert outcome is not None
    assert getattr(outcome, name) == "x" * LIMITS[name]


def test_entries_beyond_the_most_are_counted() -> None:
    places = [{"file": "f" * 600, "line": -number, "note": "n" * 2_100} for number in range(30)]
    texts = ["a" * 1_100] * 30
    outcome, problems = parse_outcome(
        OUTCOME
        | {"evidence": places, "recommended_actions": texts, "affected_components": ["c"] * 30}
    )
    assert outcome is not None, problems
    assert [
        len(outcome.evidence),
        len(outcome.recommended_actions),
        len(outcome.affected_components),
    ] == [20] * 3
    assert outcome.evidence[-1].note.endswith("… (cut: 10 more places)")
    assert outcome.recommended_actions[-1] == outcome.affected_components[-1] == "… (cut: 11 more)"
    assert {place.line for place in outcome.evidence} == {0}
    assert all(len(place.file) <= 500 for place in outcome.evidence)
    assert all(len(action) <= 1_000 for action in outcome.recommended_actions)


@pytest.mark.parametrize(("given", "kept"), [(2, 1.0), (-0.1, 0.0), (95, 1.0), (0.4, 0.4)])
def test_confidence_beyond_its_ends_is_the_end(given: float, kept: float) -> None:
    outcome, problems = parse_outcome(OUTCOME | {"confidence": given})
    assert outcome is not None, problems
    assert outcome.confidence == kept


def test_model_is_held_to_no_lengths() -> None:
    bounds = ("maxLength", "minLength", "maxItems", "minItems", "maximum", "minimum", "pattern")
    schema = json.dumps(output_format())
    assert [bound for bound in bounds if f'"{bound}"' in schema] == []


class _Flaky(InMemorySessionStore):
    def __init__(self, failures: int) -> None:
        super().__init__()
        self._failures = failures

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        self._failures -= 1
        if self._failures >= 0:
            raise ConnectionError
        await super().append(key, entries)


SESSION: SessionKey = {"project_key": "p", "session_id": "s"}


def _entry(kind: str) -> list[SessionStoreEntry]:
    return [{"type": kind, "uuid": kind}]


async def test_append_that_succeeded_when_repeated_is_complete() -> None:
    store_of_turn = MemorySessions(_Flaky(1))
    with pytest.raises(ConnectionError):
        await store_of_turn.append(SESSION, _entry("a"))
    assert store_of_turn.incomplete
    await store_of_turn.append(SESSION, _entry("a"))
    assert not store_of_turn.incomplete


async def test_append_that_was_given_up_is_incomplete() -> None:
    store_of_turn = MemorySessions(_Flaky(1))
    with pytest.raises(ConnectionError):
        await store_of_turn.append(SESSION, _entry("a"))
    await store_of_turn.append(SESSION, _entry("b"))
    assert store_of_turn.incomplete


async def test_discarded_entries_are_not_loaded() -> None:
    sessions = MemorySessions(InMemorySessionStore())
    await sessions.append(SESSION, _entry("a"))
    await sessions.discard()
    assert await sessions.load(SESSION) is None
    await sessions.append(SESSION, _entry("b"))
    assert await sessions.load(SESSION) == _entry("b")


async def test_running_total_of_costs_is_not_loaded() -> None:
    store = InMemorySessionStore()
    await store.append(SESSION, [*_entry("user"), *_entry("cost-state")])
    loaded = await MemorySessions(store).load(SESSION)
    assert loaded == _entry("user")
    assert await MemorySessions(store).load({"project_key": "p", "session_id": "other"}) is None


def _used(cost: float) -> dict[str, Any]:
    tokens = {
        "inputTokens": 1_000_000,
        "outputTokens": 1_000_000,
        "cacheReadInputTokens": 1_000_000,
    }
    return tokens | {"cacheCreationInputTokens": 1_000_000, "costUSD": cost}


@pytest.mark.parametrize(
    ("models", "cost", "known"),
    [
        ({"claude-sonnet-5": _used(1.5)}, 1.5, True),
        ({"us.anthropic.claude-haiku-4-5-20251001-v1:0": _used(1.5)}, 1.5, True),
        ({"qwen3-coder": _used(1.5)}, 1.5, False),
        ({"claude-like-7b": _used(1.5)}, 1.5, False),
        ({"claude-sonnet-5": _used(1.5), "qwen3-coder": _used(0.5)}, 2.0, False),
        ({"local": _used(1.5)}, 2 * 1 + 0.5 + 4, True),
        ({"local": _used(1.5), "claude-sonnet-5": _used(1.5)}, 2 * 1 + 0.5 + 4 + 1.5, True),
    ],
)
def test_cost_of_a_model_that_the_cli_does_not_know_is_unknown(
    models: dict[str, Any], cost: float, known: bool
) -> None:
    usage = SessionUsage()
    monitor = TurnMonitor([KEY], usage, PriceList({"local": Price(1, 0.5, 4)}))
    for _ in range(2):  # the CLI counts from the process's start
        monitor.observe(_result(total_cost_usd=99.0, model_usage=models))
    assert usage.cost_usd == pytest.approx(cost)
    assert usage.cost_known is known
