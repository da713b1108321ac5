"""What a customer asks for in a thread, with everything that the core worker is made of.

The model's words are scripted; Postgres, Slack's wire, OpenAI's and the mail server are real.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, time, timedelta

import pytest
from icalendar import Calendar

from tests.approvals.approval_scene import nothing
from tests.sales.mail_server import MailServer, serving
from tests.support.conversation_activities import KEY, Talking, make_talk, talk
from threadline.appointments.model import Resource
from threadline.cases.case_cards import Readers
from threadline.conversations.decision_activities import LiveDecisionActivities
from threadline.conversations.decision_contract import Round
from threadline.threads.alerts import Alerts
from threadline.threads.outbox_posts import Claim, Posts
from threadline.threads.post_ledger import PostLedger
from threadline.wiring.conversations import Host, TalkSettings, conversing
from threadline_devstack.models.decision_script import decided
from threadline_devstack.models.script import Turn
from threadline_devstack.slack.identity import ESCALATIONS, GENERAL, TEAM

__all__ = ["make_talk", "talk"]

OWN = "reporter@sandbox.invalid"
WEEKDAYS = (1, 2, 3, 4, 5, 6, 7)


@dataclass
class House:
    talk: Talking
    server: MailServer
    deciding: LiveDecisionActivities
    turn: int = 0

    async def asked(self, words: str, *calls: tuple[str, dict[str, str]]) -> str:
        """The bot's answer to some words, for which its model makes these calls."""

        async def script(turn: Turn) -> None:
            told = [(await turn.call(name, **given)).text for name, given in calls]
            await turn.text_only(" / ".join(told))

        self.talk.model.script(script)
        self.turn += 1
        await self.talk.said(words)
        await self.talk.begin(self.turn)
        return (await self.talk.answer(self.turn)).text


@pytest.fixture
async def house(monkeypatch: pytest.MonkeyPatch, talk: Talking) -> AsyncIterator[House]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{talk.model.url}/v1")
    monkeypatch.setenv("THREADLINE_SMTP_FROM", "Acme Sales <sales@acme.example>")
    monkeypatch.setenv("THREADLINE_EMAIL_DOMAINS", "sandbox.invalid")
    slack = talk.speaking._slack
    posts = Posts(slack, PostLedger(talk.database, Claim))
    host = Host(Alerts(posts, ESCALATIONS), Readers((), "https://sandbox.slack.com/"), start_approval=nothing)
    async with serving() as server:
        monkeypatch.setenv("THREADLINE_SMTP_URL", server.url)
        async with conversing(TalkSettings(), talk.database, slack, posts, host) as made:
            whole = replace(talk, thinking=made.thinking, speaking=made.speaking, operator=made.operator)
            yield House(whole, server, made.deciding)


async def test_what_a_customer_says_of_themself_is_known_to_the_next_decision(house: House) -> None:
    said = await house.asked("Update my company name to Acme Corp.", ("crm_update", {"company": "Acme Corp"}))
    assert "Acme Corp" in said
    told: list[str] = []

    async def decide(turn: Turn) -> None:
        told.extend(str(each) for each in turn.prompts)
        await turn.text_only(json.dumps(decided({})))

    house.talk.model.script(decide, form="decision")
    await house.talk.said("What do you know of me?")
    await house.talk.begin(2)
    await house.talk.run(house.deciding.decide, Round(house.talk.thread, 2, 1))
    assert "Company: Acme Corp" in told[0]


async def test_a_meeting_comes_with_a_file_for_the_calendar(house: House) -> None:
    async with house.talk.database.begin() as work:
        resource = Resource("Sales call", "Europe/Berlin", time(0), time(23, 59), WEEKDAYS)
        await work.appointments.save_resource(TEAM, resource)
    at = datetime.now(UTC).replace(hour=10, minute=0, second=0, microsecond=0) + timedelta(days=2)
    said = await house.asked(
        "Book a meeting with me.", ("calendar_book", {"starts_at": at.isoformat(), "title": "First call"})
    )
    assert "APT-1" in said
    [file] = [file for each in house.talk.posted(GENERAL) for file in each.files]
    [event] = Calendar.from_ical(file.content).walk("VEVENT")
    assert (event.decoded("DTSTART"), event["SUMMARY"]) == (at, "First call")
    assert event["ATTENDEE"] == f"mailto:{OWN}"


async def test_a_follow_up_is_drafted_and_sent_to_whoever_asks(house: House) -> None:
    letter = {"to": OWN, "subject": "Our call", "body": "Hello, here is what we said."}
    assert "MAIL-1" in await house.asked("Send me a follow-up email.", ("email_draft", letter))
    assert house.server.received == []
    await house.asked("Yes, send it.", ("email_send", {"draft_id": "MAIL-1", "reason": "They said so."}))
    [received] = house.server.received
    assert (received["To"], received["Subject"]) == (OWN, "Our call")
