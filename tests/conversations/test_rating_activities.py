"""A thumb on its whole way: put in Slack, routed, stored, and told of by the report; only the model is scripted."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.support.conversation_activities import Talking, make_talk, talk
from threadline.decisions.confidence import Factors, Thresholds
from threadline.decisions.model import Action, Course, Decided, Deliberation, Verdict
from threadline.decisions.outcomes import Label, Outcome
from threadline.gateway.routes import RoutingConfig, Sign, route
from threadline_devstack.slack.identity import BOT_ID, BOT_USER, BYSTANDER, GENERAL, REPORTER, REPORTS, TEAM

__all__ = ["make_talk", "talk"]

CONFIG = RoutingConfig(REPORTS, "", "", BOT_USER, BOT_ID)


@pytest.fixture
def told(talk: Talking) -> list[dict[str, Any]]:
    """What Slack tells from now on."""
    events: list[dict[str, Any]] = []
    talk.slack.workspace.listeners.append(events.append)
    return events


async def answered(talk: Talking, turn: int = 1) -> str:
    """Somebody asks, and it is decided and answered; returns where the answer stands."""
    await talk.said("What lamps are there?")
    made = Deliberation(1, Decided(Action.REASON_ONLY, "It is known."), Thresholds(), "abc", "v1")
    async with talk.database.begin() as work:
        await work.decisions.keep(talk.thread, turn, made)
        await work.decisions.weighed(talk.thread, turn, 1, Factors(None, 0.1, 1.0), Verdict(Course.PROCEED, 0.97))
    await talk.begin(turn)
    await talk.answer(turn)
    return talk.posted()[-1].ts


async def deliver(talk: Talking, told: list[dict[str, Any]]) -> None:
    for event in told:
        found = route({"team_id": TEAM, "event": event}, CONFIG)
        if isinstance(found, Sign):
            await talk.said(found.message)
    told.clear()


async def outcome(talk: Talking) -> Outcome:
    async with talk.database.begin() as work:
        (found,) = await work.decision_reports.since(datetime.now(UTC) - timedelta(days=1), TEAM)
    return found


async def test_a_thumb_on_an_answer_is_told_of_until_it_is_taken_away(
    talk: Talking, told: list[dict[str, Any]]
) -> None:
    ts = await answered(talk)
    workspace = talk.slack.workspace
    workspace.react(GENERAL, ts, REPORTER, "+1::skin-tone-4")
    workspace.react(GENERAL, ts, BYSTANDER, "-1")
    workspace.react(GENERAL, ts, BYSTANDER, "heart")
    again = list(told)
    await deliver(talk, told)
    found = await outcome(talk)
    assert (found.ups, found.downs, found.label) == (1, 1, Label.UNLABELLED)

    workspace.unreact(GENERAL, ts, BYSTANDER, "-1")
    await deliver(talk, told)
    await deliver(talk, again)
    found = await outcome(talk)
    assert (found.ups, found.downs, found.label) == (1, 0, Label.GOOD)


async def test_a_thumb_makes_no_turn_and_is_not_shown_to_the_model(talk: Talking, told: list[dict[str, Any]]) -> None:
    ts = await answered(talk)
    talk.slack.workspace.react(GENERAL, ts, REPORTER, "-1::skin-tone-3")
    await deliver(talk, told)
    async with talk.database.begin() as work:
        assert not (await work.conversations.marks(talk.thread)).turn_due
    await talk.said("And now?")
    await talk.begin(2)
    await talk.think(2)
    assert "skin-tone" not in str(talk.sent())
