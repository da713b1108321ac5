"""Trigger ids: each interaction makes one, by which the app may open one view within three seconds."""

import pytest

from threadline_devstack.slack import interactions
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, REPORTER, REPORTS
from threadline_devstack.slack.interactions import Interactions, Triggers
from threadline_devstack.slack.model import SlackRefusal
from threadline_devstack.slack.workspace import SlackWorkspace, populate


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def triggers(clock: Clock) -> Triggers:
    return Triggers(clock)


def refusal(triggers: Triggers, trigger_id: str) -> str:
    with pytest.raises(SlackRefusal) as refused:
        triggers.spend(trigger_id)
    return refused.value.error


def test_a_click_makes_a_trigger_of_the_person_who_clicked(clock: Clock) -> None:
    workspace = SlackWorkspace(clock, "http://127.0.0.1")
    populate(workspace)
    button = {"type": "button", "text": {"type": "plain_text", "text": "Edit"}, "action_id": "edit"}
    row = {"type": "actions", "elements": [button]}
    message = workspace.post(REPORTS, BOT_USER, "done?", blocks=[row], bot_id=BOT_ID)
    clicks = Interactions(workspace, clock)
    first, second = (clicks.click(REPORTER, REPORTS, message.ts, "edit")["trigger_id"] for _ in range(2))
    assert first != second
    assert clicks.triggers.spend(first) == REPORTER


def test_a_trigger_is_spent_once(triggers: Triggers) -> None:
    trigger_id = triggers.issue(REPORTER)
    assert triggers.spend(trigger_id) == REPORTER
    assert refusal(triggers, trigger_id) == "exchanged_trigger_id"


def test_a_trigger_expires_after_three_seconds(triggers: Triggers, clock: Clock) -> None:
    early, late = triggers.issue(REPORTER), triggers.issue(REPORTER)
    clock.now += 2.9
    assert triggers.spend(early) == REPORTER
    clock.now += 0.2
    assert refusal(triggers, late) == "expired_trigger_id"


def test_a_trigger_that_nobody_made_is_refused(triggers: Triggers) -> None:
    assert refusal(triggers, "1.2") == "invalid_trigger_id"


def test_the_oldest_trigger_is_forgotten_when_there_are_too_many(
    triggers: Triggers, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interactions, "TRIGGERS_KEPT", 2)
    oldest, *others = (triggers.issue(REPORTER) for _ in range(3))
    assert refusal(triggers, oldest) == "invalid_trigger_id"
    assert [triggers.spend(each) for each in others] == [REPORTER, REPORTER]
