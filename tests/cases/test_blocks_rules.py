"""A case's messages: no field is lost, no text exceeds Slack's limits, no person is mentioned by
mistake, and each audience gets its own text.
"""

import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.cases import blocks
from threadline.cases.blocks import (
    card_message,
    closing_text,
    duration_text,
    escalated_text,
    findings_message,
    notice_text,
    question_message,
    unmerged_fix_text,
)
from threadline.cases.model import (
    Action,
    CaseRecord,
    CaseStatus,
    NoticeKind,
    Reason,
    Severity,
    SlaTarget,
)
from threadline.cases.outcome import TurnPost
from threadline.slack.formatting import TEXT_LIMIT
from threadline.slack.model import Thread

BROADCAST = re.compile(r"<!|<@|(?<![\w.])@(?:channel|here|everyone|group)\b", re.IGNORECASE)
URL = "https://github.com/acme/shop/pull/7"

OUTCOME: dict[str, Any] = {
    "confidence": 0.8,
    "summary": "Files over 5 MB fail. cc <@U9>, <@U1>",
    "root_cause": "The limit is read as bytes:\n```python\nif size < LIMIT:",
    "evidence": [{"file": "app/up`load.py", "line": 42, "note": "the\ncomparison"}],
    "recommended_actions": ["Read it as MB.", "Add a test."],
}


def found(
    title: str = "Uploads fail & <!channel> is told",
    components: tuple[str, ...] = ("upload", "api"),
    **changed: Any,
) -> TurnPost:
    case = CaseRecord(
        bug_id="BUG-12",
        thread=Thread("T1", "C1", "1.0"),
        reporter_id="U1",
        title=title,
        severity=Severity.S2,
        components=list(components),
        status=CaseStatus.INVESTIGATING,
        summary=None,
        turn=3,
        questions=0,
        escalations=0,
        closings=0,
        close_reason="",
        cost_usd=1.0,
        created_at=datetime.now(UTC),
        pull_request="https://code.example/pr/7?a=1&b=2",
    )
    return TurnPost(
        action=Action.POST_FINDINGS,
        result=OUTCOME | changed,
        case=case,
        turn=3,
        failure="",
        cost_usd=0.417,
        tokens=12_345,
        reporter_words="",
        used=(),
    )


def test_findings_contain_all_fields_and_mention_only_the_reporter() -> None:
    (message,) = findings_message(found())
    head, body, foot = message.blocks
    assert head["text"]["text"].startswith(
        "*BUG-12: Uploads fail &amp; @\u2060channel is told*\nSeverity S2"
    )
    assert "confidence 80%" in head["text"]["text"]
    assert "components upload, api" in head["text"]["text"]
    assert "<@U1>" in head["text"]["text"]
    assert body["type"] == "markdown"
    assert "cc @U9, <@U1>" in body["text"]
    assert (
        "if size &lt; LIMIT:\n```\n\n## Evidence\n\n- `app/up'load.py:42`: the comparison"
        in body["text"]
    )
    assert "1. Read it as MB.\n2. Add a test." in body["text"]
    assert (
        foot["elements"][0]["text"]
        == "Turn 3 · $0.42 · <https://code.example/pr/7?a=1&amp;b=2|Pull request>"
    )
    assert not BROADCAST.search(message.text)


@given(st.integers(1, 40_000), st.sampled_from(["x", "& ", "<!channel> ", "```\n", "a\n\n"]))
def test_every_part_of_findings_is_within_the_limits(length: int, filling: str) -> None:
    text = filling * (length // len(filling))
    long = found(title=text, components=(text,), summary=text, root_cause=text)
    for part in findings_message(long):
        assert 0 < len(part.text) <= TEXT_LIMIT
        markdown = [block["text"] for block in part.blocks if block["type"] == "markdown"]
        others = [block["text"]["text"] for block in part.blocks if block["type"] == "section"]
        assert all(0 < len(text) <= 12_000 for text in markdown)
        assert all(0 < len(text) <= 3_000 for text in others)
        assert sum(map(len, markdown)) + sum(map(len, others)) < 13_000
        assert not re.search(r"<!|<@(?!U1>)", part.text + "".join(markdown) + "".join(others))


def test_parts_are_numbered_and_framed_once() -> None:
    parts = findings_message(found(summary="word " * 6_000))
    kinds = [[block["type"] for block in part.blocks] for part in parts]
    assert kinds == [["section", "markdown"], ["markdown"], ["markdown", "context"]]
    assert [part.text.split("\n")[0][-5:] for part in parts] == ["(1/3)", "(2/3)", "(3/3)"]


def test_question_mentions_only_the_reporter() -> None:
    (asked,) = question_message("BUG-12", "U1", "Which browser, <@U2>? <!here>")
    assert asked.blocks[0]["text"]["text"] == "<@U1> *A question about BUG-12*"
    assert asked.blocks[1]["text"] == "Which browser, @U2? @\u2060here"
    assert asked.text == "<@U1> A question about BUG-12\nWhich browser, @U2? @\u2060here"


def test_secret_longer_than_a_message_is_redacted_before_the_cut() -> None:
    key = (
        "-----BEGIN "
        + "PRIVATE KEY-----\n"
        + ("aB3d" * 16 + "\n") * 250
        + "-----END PRIVATE KEY-----"
    )
    assert "aB3d" not in str(findings_message(found(title=f"x {key}", root_cause=f"see {key}")))


@pytest.mark.parametrize("kind", NoticeKind)
def test_notice_names_no_command_setting_or_file(kind: NoticeKind) -> None:
    words = notice_text(kind, "BUG-1")
    assert not any(internal in words for internal in ("`", "THREADLINE", ": .", "/"))
    assert "canary" in notice_text(kind, "BUG-1", "canary") or kind not in {
        NoticeKind.NOBODY_CALLED,
        NoticeKind.FIX_REFUSED,
    }


@pytest.mark.parametrize("reason", blocks._ENDED)
def test_end_shows_the_address_of_a_fix_only_to_developers(reason: Reason) -> None:
    reporters = closing_text("BUG-1", reason, fix=unmerged_fix_text())
    developers = closing_text("BUG-1", reason, fix=unmerged_fix_text(URL))
    assert "://" not in reporters
    assert (URL in developers) == (reason is not Reason.FIX_MERGED)


def test_escalation_notice_uses_the_words_for_the_reporter() -> None:
    said = escalated_text("BUG-1", "We look into it.", SlaTarget(900, 14_400))
    assert "We look into it." in said
    assert "within 15 minutes" in said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (20, "1 minute"),
        (900, "15 minutes"),
        (3600, "1 hour"),
        (5400, "90 minutes"),
        (86_400, "24 hours"),
        (432_000, "5 days"),
    ],
)
def test_duration_is_shown_in_whole_units(seconds: float, said: str) -> None:
    assert duration_text(seconds) == said


@pytest.mark.parametrize(
    ("status", "reason", "shown"),
    [
        (CaseStatus.INVESTIGATING, "", ":mag: Investigating"),
        (CaseStatus.AWAITING_REPORTER, "", ":hourglass: Waiting for the reporter"),
        (CaseStatus.PENDING_VERIFICATION, "", ":bell: Waiting for developers"),
        (CaseStatus.ESCALATED, "", ":rotating_light: People are called"),
        (CaseStatus.RESOLVED, Reason.REPORTER_CLOSED, "Closed, as its reporter asked"),
        (CaseStatus.RESOLVED, Reason.FIX_MERGED, "Resolved: its fix was merged"),
    ],
)
def test_card_shows_the_status_and_the_facts_of_a_case(
    status: CaseStatus, reason: str, shown: str
) -> None:
    case = replace(found().case, status=status, close_reason=reason)
    (card,) = card_message(case, "https://acme.slack.com/")
    head, facts, last = (str(block) for block in card.blocks)
    assert shown in head
    assert shown in card.text
    assert "BUG-12" in head
    assert "<!channel>" not in str(card)
    for fact in ("Severity S2", "<@U1>", "components upload, api", "cost $1.00"):
        assert fact in facts
    assert "<https://acme.slack.com/archives/C1/p10|Report>" in facts
    assert "Pull request" in facts
    assert ("reopen" in last) is (status is CaseStatus.RESOLVED)


def test_card_links_only_what_is_known() -> None:
    (card,) = card_message(replace(found().case, pull_request="", components=[]))
    assert "Report>" not in str(card.blocks)
    assert "Pull request" not in str(card.blocks)
    assert "components" not in str(card.blocks)


def test_unknown_cost_is_shown_as_unknown_with_the_tokens() -> None:
    without_fix = replace(found().case, pull_request="")
    (message,) = findings_message(replace(found(), case=without_fix, cost_usd=None))
    assert message.blocks[-1]["elements"][0]["text"] == "Turn 3 · cost unknown, 12,345 tokens"
