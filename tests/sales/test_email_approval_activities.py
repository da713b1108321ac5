"""Emails that wait for approval: proposed in a thread, decided by a button, and sent once."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.approvals.approval_scene import APPROVER, ASKER
from tests.sales.mail_server import MailServer, serving
from tests.support.conversation_activities import ConversationActivityScene, make_talk, talk
from tests.support.role_fakes import with_roles
from threadline.approvals import tools as proposals
from threadline.approvals.activities import LiveApprovalActivities, PostgresProposals
from threadline.approvals.blocks import fits_on_card
from threadline.approvals.contract import ApprovalRef, DecideAction
from threadline.approvals.model import APPROVE, REJECT, ApprovalRules, ApprovalStage, button_value
from threadline.approvals.store import ApprovalStore
from threadline.conversations.blocks import answer_of
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.posting import find_answer_part
from threadline.db.engine import Database
from threadline.models.model import ToolCall
from threadline.operator.enforcement import approved_call_policy, protocol_policy
from threadline.operator.model.protocol import ProtocolState
from threadline.sales import tools as sales
from threadline.sales.email import EmailSettings, SmtpMailer
from threadline.sales.model import parse_mail_account
from threadline.slack.users import UserDirectory
from threadline.threads.model import ButtonPress
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import ToolResult
from threadline.tools.proposals import Proposals
from threadline.tools.registry import ToolRegistry, allowed_tools
from threadline.tools.runner import ToolRunner
from threadline.tools.store import ToolLedger
from threadline_devstack.slack.identity import GENERAL, TEAM

__all__ = ["make_talk", "talk"]

REGISTRY = ToolRegistry([*sales.TOOLS, *proposals.TOOLS])
REF = ApprovalRef(TEAM, "ACT-1")
SETTINGS = ApprovalRules((APPROVER,))
LETTER: dict[str, Any] = {"to": "zoe@shop.example", "subject": "Our call", "body": "Hello Zoe."}


@dataclass
class Office:
    """A thread with a mail server and one approver."""

    talk: ConversationActivityScene
    server: MailServer

    @property
    def ledger(self) -> ToolLedger:
        return ToolLedger(self.talk.database)

    @property
    def services(self) -> Services:
        users = UserDirectory(self.talk.activities.deps.slack.user)
        settings = EmailSettings(fits_on_card, "sales@acme.example", ("shop.example",))
        waiting = PostgresProposals(SETTINGS)
        services = with_roles(Services()).with_service(Database, self.talk.database)
        services = services.with_service(UserDirectory, users)
        services = services.with_service(
            SmtpMailer, SmtpMailer(parse_mail_account(self.server.url))
        )
        return services.with_service(EmailSettings, settings).with_service(Proposals, waiting)

    @property
    def approval(self) -> LiveApprovalActivities:
        speaking = self.talk.activities
        return LiveApprovalActivities(
            self.talk.database,
            speaking.deps.slack,
            speaking.deps.outbox,
            REGISTRY,
            self.services,
            self.ledger,
            approved_call_policy,
            find_answer_part,
            answer_of,
            SETTINGS,
        )

    async def call(
        self, name: str, agent: Agent = Agent.ASSISTANT, **arguments: Any
    ) -> ToolResult:
        """Make a call as a turn of this agent does."""
        may = allowed_tools(
            REGISTRY, self.services, operator=agent is Agent.OPERATOR, read_only=False
        )
        policy = protocol_policy(ProtocolState()) if agent is Agent.OPERATOR else None
        runner = ToolRunner(REGISTRY, may, self.ledger, policy)
        thread = self.talk.thread
        where = ToolContext(
            team=TEAM,
            channel=thread.channel,
            thread_ts=thread.ts,
            user_id=ASKER,
            request_id="asked",
            correlation_id=f"{thread.key}:1",
            clock=lambda: datetime.now(UTC),
            services=self.services.with_service(ToolRunner, runner),
            turn=1,
            step=1,
            call_id=name,
        )
        return await runner.run(ToolCall(name, name, json.dumps(arguments)), where)

    async def ask(self) -> None:
        """Draft an email, propose to send it, and post the approval's buttons."""
        draft = await self.call("email_draft", **LETTER)
        waits = await self.call(
            "email_send", draft_id=draft.data["draft_id"], reason="Zoe waits for it."
        )
        assert waits.data["risk"] == "high", waits.error
        await self.talk.said("send Zoe a follow-up")
        await self.talk.settle(
            ConversationOutcome(OutcomeKind.ANSWERED, "It waits for a word.", model_calls=1)
        )
        await self.talk.post()

    async def click(self, *, approve: bool) -> ApprovalStage:
        async with self.talk.database.begin() as tx:
            action = await ApprovalStore(tx).get(TEAM, "ACT-1")
        thread = self.talk.thread
        button = APPROVE if approve else REJECT
        value = button_value("ACT-1", action.action_hash)
        pressed = ButtonPress(APPROVER, button, value, "k1", 0.0, thread.channel, thread.ts)
        return (await self.talk.run(self.approval.decide_action, DecideAction(REF, pressed))).stage

    def said(self) -> list[str]:
        return [each.text for each in self.talk.posted(GENERAL)]


@pytest.fixture
async def office(talk: ConversationActivityScene) -> AsyncIterator[Office]:
    async with serving() as server:
        yield Office(talk, server)


async def test_approved_email_is_shown_whole_and_sent_once(office: Office) -> None:
    await office.ask()
    [card] = office.said()
    for words in (
        "Send a drafted mail",
        "zoe@shop.example",
        "Our call",
        "Hello Zoe.",
        "Zoe waits for it.",
    ):
        assert words in card
    assert office.server.received == []
    assert await office.click(approve=True) is ApprovalStage.APPROVED
    for _ in range(2):
        await office.talk.run(office.approval.execute_action, REF)
    await office.talk.run(office.approval.post_outcome, REF)
    assert [each["Subject"] for each in office.server.received] == ["Our call"]
    assert "ACT-1 was approved" in office.said()[-1]
    assert "MAIL-1" in office.said()[-1]


async def test_rejected_email_stays_a_draft(office: Office) -> None:
    await office.ask()
    assert await office.click(approve=False) is ApprovalStage.REJECTED
    with pytest.raises(Exception, match="was not approved"):
        await office.talk.run(office.approval.execute_action, REF)
    assert office.server.received == []
    assert (await office.talk.rows("SELECT status FROM email_drafts")) == [{"status": "draft"}]


async def test_both_tools_propose_the_same_email(office: Office) -> None:
    draft = await office.call("email_draft", **LETTER)
    given = json.dumps({"draft_id": draft.data["draft_id"], "reason": "x"})
    asked = await office.call(
        "propose_action", Agent.OPERATOR, tool="email_send", arguments=given, reason="x"
    )
    direct = await office.call(
        "email_send", Agent.OPERATOR, draft_id=draft.data["draft_id"], reason="Zoe waits."
    )
    assert (asked.data["action_id"], direct.data["action_id"]) == ("ACT-1", "ACT-1")
    assert (direct.data["done"], office.server.received) == (False, [])
