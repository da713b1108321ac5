"""An approval in Slack: what would be done, in plain words; who may decide; two buttons; and what was decided."""

import json
from typing import Any

import pytest

from threadline.approvals import blocks as approvals
from threadline.approvals.blocks import Verdict
from threadline.approvals.buttons import APPROVE, REJECT, button_read
from threadline.approvals.model import Decision
from threadline.conversations.blocks import answer_of
from threadline_devstack.slack.blocks import check_blocks

HASH = "a1" * 32
AT = 1_790_000_000.0


def record(**given: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "action_id": "ACT-7",
        "action_hash": HASH,
        "does": "Change the state of an RFP",
        "arguments": {"rfp_id": "rfp_abc", "patch": {"status": "won", "owner": None}, "note": ""},
        "risk": "high",
        "reason": "The client has signed.",
        "asked_by": "U1",
        "deciders": ["U2", "U3"],
        "expires_at": AT,
    }
    return plain | given


def test_it_says_what_would_be_done_why_and_who_decides_until_when() -> None:
    [message] = answer_of("I propose this.", [("approval", [record()])])
    check_blocks(list(message.blocks))
    _, what, terms, buttons = message.blocks
    assert what["text"]["text"].split("\n") == [
        "*Proposed: Change the state of an RFP* (ACT-7, high risk)",
        "• Rfp id: rfp_abc",
        "• Status: won",
        "• Owner: removed",
        "*Why:* The client has signed.",
    ]
    said = terms["elements"][0]["text"]
    assert said.startswith("<@U2>, <@U3> can approve or reject this until <!date^1790000000^")
    assert said.endswith("Requested by <@U1>.")
    assert [each["action_id"] for each in buttons["elements"]] == [APPROVE, REJECT]
    assert {button_read(each["value"]) for each in buttons["elements"]} == {("ACT-7", HASH)}
    assert "Status: won" in message.text


def test_a_patch_that_is_written_as_text_is_shown_by_its_fields() -> None:
    [message] = answer_of("", [("approval", [record(arguments={"patch": json.dumps({"status": "won"})})])])
    assert "• Status: won" in message.blocks[0]["text"]["text"]


@pytest.mark.parametrize(
    "arguments",
    [
        {f"field {number}": "<" * 400 for number in range(40)},
        {"patch": {f"f{number}": "&" * 290 for number in range(12)}},
        {"text": "x" * 60_000},
        {},
        [],
        {"deep": {"a": {"b": {"c": {"d": [1] * 100}}}}},
    ],
)
def test_whatever_is_proposed_slack_takes_it_and_what_is_left_out_is_counted(arguments: Any) -> None:
    shown = record(
        arguments=arguments, does="d" * 900, reason="<!channel> " * 90, deciders=[f"U{n}" for n in range(60)]
    )
    messages = answer_of("words " * 1_000, [("approval", [shown])])
    for each in messages:
        check_blocks(list(each.blocks))
    written = json.dumps([each.blocks for each in messages])
    assert "<!channel>" not in written
    if isinstance(arguments, dict) and len(arguments) == 40:
        assert "more that are not shown here" in written


@pytest.mark.parametrize(
    ("arguments", "whole"),
    [
        ({"title": "x " * 700}, True),
        ({"title": "x " * 800}, False),
        ({"one": "x " * 700, "two": "x " * 700}, False),
        ({"patch": json.dumps({"a": {"b": [1, 2]}})}, True),
        ({"patch": json.dumps({"a": {"b": {"c": {"d": {"e": 1}}}}})}, False),
        ({"patch": {"a": list(range(30))}}, False),
        ({"patch": {f"field {number}": 1 for number in range(31)}}, False),
        ({"patch": {"f" * 61: 1}}, False),
        ({"patch": {"owner": None}, "note": ""}, True),
        ({}, True),
    ],
)
def test_what_is_shown_whole_is_so_and_nothing_else(arguments: dict[str, Any], whole: bool) -> None:
    assert approvals.is_whole(arguments) is whole
    [message] = answer_of("", [("approval", [record(arguments=arguments, reason="It has to be.")])])
    text = message.blocks[0]["text"]["text"]
    if whole:
        assert "…" not in text
        assert "not shown here" not in text


def test_the_decision_takes_the_place_of_the_buttons_and_leaves_everything_else() -> None:
    [message] = answer_of("I propose this.", [("approval", [record()])])
    told = approvals.decided(message, "ACT-7", Verdict(Decision.APPROVED, "U2", AT))
    check_blocks(list(told.blocks))
    assert told.blocks[:-1] == message.blocks[:-1]
    assert told.blocks[-1]["text"]["text"].startswith(":white_check_mark: *Approved* by <@U2> at <!date^1790000000")
    assert "Approved" in told.text
    assert (approvals.holds(message, "ACT-7"), approvals.holds(message, "ACT-70")) == (True, False)


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict(Decision.REJECTED, "U2", AT), "*Rejected* by <@U2>"),
        (Verdict(Decision.EXPIRED, "", AT), "Nobody decided in time"),
    ],
)
def test_what_was_not_approved_says_that_nothing_was_done(verdict: Verdict, words: str) -> None:
    said = approvals.in_words(verdict)
    assert words in said
    assert "nothing was done" in said.lower()


def test_what_is_no_record_shows_nothing() -> None:
    assert approvals.shown([("approval", ["a text"]), ("tickets", [record()])]) == ()
