"""Which failures are permanent, what an outcome must hold, and what the session ledger keeps."""

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

from threadline.cases.outcome import Outcome, check, check_for_reporter, read_outcome
from threadline.investigator.errors import SessionUnknown, TurnBroken, TurnRefused, failure_of, raise_for
from threadline.investigator.session_ledger import SessionLedger
from threadline.investigator.stream import SessionUsage, Watch

KEY = "sk-ant-0123456789"


def _watch(error: Any = None) -> Watch:
    watch = Watch(lambda: None, [KEY, "hunter2"], SessionUsage())
    if error:
        watch.see(AssistantMessage(content=[], model="m", error=error))
    return watch


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
        ({"subtype": "error_max_turns"}, None, TurnRefused),
        ({"subtype": "error_during_execution", "terminal_reason": "aborted_tools"}, None, TurnBroken),
        (
            {"subtype": "error_during_execution", "errors": ["No conversation found with session ID x"]},
            None,
            SessionUnknown,
        ),
        ({"api_error_status": 400}, "unknown", TurnRefused),
        ({"api_error_status": None}, "authentication_failed", TurnRefused),
        ({"api_error_status": 408}, "server_error", TurnBroken),
        ({"api_error_status": 429}, "rate_limit", TurnBroken),
        ({"api_error_status": 500}, "server_error", TurnBroken),
        ({"api_error_status": 529}, "server_error", TurnBroken),
        ({"api_error_status": None}, "server_error", TurnBroken),
        ({"api_error_status": None, "stop_reason": "refusal"}, "invalid_request", TurnRefused),
    ],
)
def test_failed_result_is_permanent_or_transient(
    fields: dict[str, Any], reply: str | None, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        raise_for(_result(**fields), _watch(reply))
    raise_for(_result(is_error=False), _watch(reply))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ProcessError("x", exit_code=-9), TurnBroken),
        (ProcessError("x", exit_code=143), TurnBroken),
        (ProcessError("x", exit_code=1), TurnRefused),
        (ProcessError("No conversation found with session ID", exit_code=1), SessionUnknown),
        (CLINotFoundError(), TurnRefused),
        (CLIConnectionError("Failed to start Claude Code: argument list too long"), TurnRefused),
        (CLIConnectionError("Cannot write to terminated process (exit code: -9)"), TurnBroken),
        (CLIJSONDecodeError("{", ValueError())  , TurnRefused),
        (RuntimeError("SessionStore.load() for session x failed"), TurnBroken),
        (Exception("Control request timeout: initialize"), TurnBroken),
    ],
)  # fmt: skip
def test_error_of_the_sdk_is_permanent_or_transient(error: Exception, kind: type[Exception]) -> None:
    assert isinstance(failure_of(error, _watch()), kind)
    assert failure_of(KeyError("x"), _watch()) is None


def test_error_text_holds_the_last_lines_and_no_secret() -> None:
    watch = _watch()
    for line in [*["noise"] * 100, f"key {KEY} of postgresql://owner:pass@db", "password hunter2"]:
        watch.stderr(line)
    told = str(failure_of(ProcessError("x", exit_code=1), watch))
    assert "password …" in told
    assert "postgresql://…@db" in told
    assert not any(secret in told for secret in (KEY, "hunter2", "pass@"))
    assert told.count("noise") < 20


OUTCOME = {
    "action": "post_findings", "title": "t", "summary": "s", "root_cause": "", "evidence": [], "severity": "S3",
    "confidence": 1, "clarification_question": "", "for_reporter": "", "recommended_actions": [],
    "affected_components": [], "fix_requested": False,
}  # fmt: skip


EVIDENCE = {"file": "shop/a.py", "line": 1, "note": "here it is"}


@pytest.mark.parametrize(
    ("changes", "may_ask", "told"),
    [
        ({}, False, ""),
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
    violations = check(Outcome.model_validate(OUTCOME | changes), may_ask=may_ask)
    assert told in " ".join(violations)
    assert bool(told) == bool(violations)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({}, ""),
        ({"for_reporter": "It is being mended."}, ""),
        ({"action": "escalate"}, "escalate needs for_reporter"),
        ({"action": "resolved", "for_reporter": " "}, "resolved needs for_reporter"),
        ({"for_reporter": "It is in a.py.", "evidence": [EVIDENCE]}, "for_reporter is read by the reporter, and holds"),
        (
            {"action": "ask_reporter", "clarification_question": "Is it in a.py?", "evidence": [EVIDENCE]},
            "clarification_question is read by the reporter, and holds the path a.py:",
        ),
        ({"action": "ask_reporter", "clarification_question": "Which?", "summary": "Which browser is it?"}, ""),
    ],
)
def test_words_for_the_reporter_are_checked(changes: dict[str, Any], told: str) -> None:
    found = check_for_reporter(Outcome.model_validate(OUTCOME | changes))
    assert told in " ".join(found)
    assert bool(told) == bool(found)


def test_missing_field_of_an_answer_is_named() -> None:
    outcome, problems = read_outcome({name: value for name, value in OUTCOME.items() if name != "for_reporter"})
    assert outcome is None
    assert problems == ["for_reporter: Field required."]


@pytest.mark.parametrize("changes", [{"confidence": 2}, {"action": "shrug"}, {"evidence": ["x"]}, {"more": 1}])
def test_invalid_field_of_an_answer_is_named(changes: dict[str, Any]) -> None:
    outcome, problems = read_outcome(OUTCOME | changes)
    assert outcome is None
    assert next(iter(changes)) in problems[0]


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
    ledger = SessionLedger(_Flaky(1))
    with pytest.raises(ConnectionError):
        await ledger.append(SESSION, _entry("a"))
    assert ledger.incomplete
    await ledger.append(SESSION, _entry("a"))
    assert not ledger.incomplete


async def test_append_that_was_given_up_is_incomplete() -> None:
    ledger = SessionLedger(_Flaky(1))
    with pytest.raises(ConnectionError):
        await ledger.append(SESSION, _entry("a"))
    await ledger.append(SESSION, _entry("b"))
    assert ledger.incomplete


async def test_running_total_of_costs_is_not_loaded() -> None:
    store = InMemorySessionStore()
    await store.append(SESSION, [*_entry("user"), *_entry("cost-state")])
    loaded = await SessionLedger(store).load(SESSION)
    assert loaded == _entry("user")
    assert await SessionLedger(store).load({"project_key": "p", "session_id": "other"}) is None
