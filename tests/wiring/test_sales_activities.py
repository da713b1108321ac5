"""A customer's requests, with the activities that the core worker builds; only the model's words
are scripted.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta

import pytest
from icalendar import Calendar
from temporalio.client import Client

from tests.sales.mail_server import MailServer, serving
from tests.support.case_scene import core_deps
from tests.support.conversation_activities import KEY, ConversationActivityScene, make_talk, talk
from tests.support.decision_forms import decision_form
from tests.support.role_fakes import with_roles
from threadline.appointments.model import Resource
from threadline.appointments.store import AppointmentStore
from threadline.conversations.contract import DecideRequest
from threadline.tools.context import Services
from threadline.wiring.conversations import open_conversations
from threadline.wiring.core_settings import ConversationFeatureSettings
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import GENERAL, TEAM

__all__ = ["make_talk", "talk"]

OWN = "reporter@sandbox.invalid"
WEEKDAYS = (1, 2, 3, 4, 5, 6, 7)


@dataclass
class SalesScene:
    talk: ConversationActivityScene
    server: MailServer
    turn: int = 0

    async def asked(self, words: str, *calls: tuple[str, dict[str, str]]) -> str:
        """Return the bot's answer to a message, for which its model makes these calls."""

        async def script(turn: ScriptTurn) -> None:
            told = [(await turn.call(name, **given)).text for name, given in calls]
            await turn.text_only(" / ".join(told))

        self.talk.model.script(script)
        self.turn += 1
        await self.talk.said(words)
        await self.talk.begin(self.turn)
        return (await self.talk.answer(self.turn)).text


@pytest.fixture
async def scene(
    monkeypatch: pytest.MonkeyPatch, talk: ConversationActivityScene
) -> AsyncIterator[SalesScene]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{talk.model.url}/v1")
    monkeypatch.setenv("THREADLINE_SMTP_FROM", "Acme Sales <sales@acme.example>")
    monkeypatch.setenv("THREADLINE_EMAIL_DOMAINS", "sandbox.invalid")
    temporal = await Client.connect("localhost:1", lazy=True)
    deps = core_deps(talk.database, temporal, talk.activities.deps.slack)
    async with serving() as server:
        monkeypatch.setenv("THREADLINE_SMTP_URL", server.url)
        async with open_conversations(
            ConversationFeatureSettings(), deps, with_roles(Services())
        ) as (conversing, _):
            whole = replace(talk, activities=conversing)
            yield SalesScene(whole, server)


async def test_next_decision_knows_the_words_of_a_customer(scene: SalesScene) -> None:
    said = await scene.asked(
        "Update my company name to Acme Corp.", ("crm_update", {"company": "Acme Corp"})
    )
    assert "Acme Corp" in said
    told: list[str] = []

    async def decide(turn: ScriptTurn) -> None:
        told.extend(str(each) for each in turn.prompts)
        await turn.text_only(json.dumps(decision_form()))

    scene.talk.model.script(decide, schema_name="decision")
    await scene.talk.said("What do you know of me?")
    await scene.talk.begin(2)
    await scene.talk.run(scene.talk.activities.decide, DecideRequest(scene.talk.thread, 2))
    assert "Company: Acme Corp" in told[0]


async def test_meeting_comes_with_a_calendar_file(scene: SalesScene) -> None:
    async with scene.talk.database.begin() as tx:
        resource = Resource("Sales call", "Europe/Berlin", time(0), time(23, 59), WEEKDAYS)
        await AppointmentStore(tx).save_resource(TEAM, resource)
    at = datetime.now(UTC).replace(hour=10, minute=0, second=0, microsecond=0) + timedelta(days=2)
    said = await scene.asked(
        "Book a meeting with me.",
        ("calendar_book", {"starts_at": at.isoformat(), "title": "First call"}),
    )
    assert "APT-1" in said
    [file] = [file for each in scene.talk.posted(GENERAL) for file in each.files]
    [event] = Calendar.from_ical(file.content).walk("VEVENT")
    assert (event.decoded("DTSTART"), event["SUMMARY"]) == (at, "First call")
    assert event["ATTENDEE"] == f"mailto:{OWN}"


async def test_email_is_drafted_and_then_sent_to_the_requester(scene: SalesScene) -> None:
    letter = {"to": OWN, "subject": "Our call", "body": "Hello, here is what we said."}
    assert "MAIL-1" in await scene.asked("Send me a follow-up email.", ("email_draft", letter))
    assert scene.server.received == []
    await scene.asked(
        "Yes, send it.", ("email_send", {"draft_id": "MAIL-1", "reason": "They said so."})
    )
    [received] = scene.server.received
    assert (received["To"], received["Subject"]) == (OWN, "Our call")
