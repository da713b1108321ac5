"""An approval in Slack: the action in plain words, the people who may decide, two buttons, and the
decision.
"""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from threadline.approvals import blocks as approvals
from threadline.approvals.model import APPROVE, REJECT, ApprovalStage, ProposedAction, parse_button
from threadline.conversations.blocks import answer_of
from threadline.slack.formatting import Rendered
from threadline.tools.model import Risk
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
        "requested_by": "U1",
        "approvers": ["U2", "U3"],
        "expires_at": AT,
    }
    return plain | given


def card(**given: Any) -> Rendered:
    [message] = answer_of("", [("approval", [record(**given)])])
    return message


def decided(decision: ApprovalStage, by: str) -> ProposedAction:
    at = datetime.fromtimestamp(AT, UTC)
    return ProposedAction(
        *(
            7,
            "T1",
            "ACT-7",
            "C1",
            "17.1",
            "",
            {},
            HASH,
            Risk.HIGH,
            "U1",
            "Ana",
            {},
            ("U2", "U3"),
            "corr-1",
        ),
        *(at, at, decision, at, by, "click:k1"),
    )


def test_card_shows_the_action_its_reason_and_its_approvers() -> None:
    [message] = answer_of("I propose this.", [("approval", [record()])])
    check_blocks(list(message.blocks))
    _, what, terms, buttons = message.blocks
    text = what["text"]["text"]
    for line in (
        "Change the state of an RFP* (ACT-7, high",
        "• Rfp id: rfp_abc",
        "• Status: won",
        "• Owner: removed",
    ):
        assert line in text
    assert "The client has signed." in text
    assert "Note" not in text, "an empty argument"
    said = terms["elements"][0]["text"]
    for each in ("<@U2>, <@U3>", "<!date^1790000000^", "<@U1>"):
        assert each in said
    assert [each["action_id"] for each in buttons["elements"]] == [APPROVE, REJECT]
    assert {parse_button(each["value"]) for each in buttons["elements"]} == {("ACT-7", HASH)}
    assert "Status: won" in message.text


def test_patch_written_as_text_is_shown_by_its_fields() -> None:
    assert (
        "• Status: won"
        in card(arguments={"patch": json.dumps({"status": "won"})}).blocks[0]["text"]["text"]
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {f"field {number}": "<" * 400 for number in range(40)},
        {"patch": {f"f{number}": "&" * 290 for number in range(12)}},
        {"text": "x" * 60_000},
        [],
        {"deep": {"a": {"b": {"c": {"d": [1] * 100}}}}},
    ],
)
def test_slack_accepts_any_card_and_omissions_are_counted(arguments: Any) -> None:
    people = [f"U{n}" for n in range(60)]
    shown = record(
        arguments=arguments, does="d" * 900, reason="<!channel> " * 90, approvers=people
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
    ],
)
def test_card_that_shows_everything_is_known(arguments: dict[str, Any], whole: bool) -> None:
    assert approvals.fits_on_card(arguments) is whole
    text = card(arguments=arguments, reason="It has to be.").blocks[0]["text"]["text"]
    if whole:
        assert "…" not in text
        assert "not shown here" not in text


def test_decision_replaces_the_buttons_and_nothing_else() -> None:
    message = card()
    shown = approvals.with_decision(message, decided(ApprovalStage.APPROVED, "U2"))
    check_blocks(list(shown.blocks))
    assert shown.blocks[:-1] == message.blocks[:-1]
    assert "*Approved* by <@U2> at <!date^1790000000" in shown.blocks[-1]["text"]["text"]
    assert "Approved" in shown.text
    assert approvals.action_ids(message) == ["ACT-7"]
    undecided = replace(decided(ApprovalStage.APPROVED, "U2"), decision=None)
    assert approvals.with_decision(message, undecided) == message


def test_verdict_states_that_no_action_ran() -> None:
    rejected = approvals.verdict_text(decided(ApprovalStage.REJECTED, "U2"))
    expired = approvals.verdict_text(decided(ApprovalStage.EXPIRED, ""))
    assert "*Rejected* by <@U2>" in rejected
    assert "*Expired*" in expired
    for said in (rejected, expired):
        assert "nothing was done" in said.lower()


def test_malformed_record_shows_no_card() -> None:
    assert approvals.cards([("approval", ["a text"]), ("tickets", [record()])]) == ()
