"""Proposals on Postgres, Slack's wire and the policies around tools; `ApprovalScene` plays the
turns.
"""

import json
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk
from tests.support.role_fakes import with_roles
from tests.support.tool_fakes import context
from threadline.approvals.activities import LiveApprovalActivities, PostgresProposals
from threadline.approvals.contract import approval_start
from threadline.approvals.model import ApprovalRules, ProposedAction
from threadline.approvals.store import ApprovalStore
from threadline.approvals.tools import propose_action
from threadline.conversations.blocks import answer_of
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind
from threadline.conversations.posting import find_answer_part
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.models.model import ToolCall, ToolKind
from threadline.operator.enforcement import approved_call_policy, protocol_policy
from threadline.operator.model.protocol import ProtocolState
from threadline.rfps.model import patch_risk
from threadline.slack.client import SlackClient
from threadline.slack.model import User
from threadline.slack.users import UserDirectory
from threadline.threads.outbox import Outbox
from threadline.threads.workflow_client import WorkflowClient
from threadline.tools.context import Services, ToolContext
from threadline.tools.model import RecordGroup, Risk, ToolResult
from threadline.tools.proposals import Proposals
from threadline.tools.registry import ToolRegistry, allowed_tools, tool
from threadline.tools.runner import ToolRunner
from threadline.tools.store import ToolLedger
from threadline_devstack.slack.identity import BYSTANDER, DEVELOPER, REPORTER, TEAM
from threadline_devstack.slack.model import SandboxMessage

__all__ = ["make_talk"]

ASKER = REPORTER
APPROVER = DEVELOPER
OTHER = BYSTANDER
GUEST = "U0GUEST"
LOADED = ProtocolState(scope="rfp_abc", loaded=("rfp_abc",), did_load=True)


@dataclass
class Works:
    """Records the tools' effects. Each of `hooks` runs once, before the next effect."""

    done: list[str] = field(default_factory=list)
    hooks: list[Callable[[], Awaitable[None]]] = field(default_factory=list)

    async def does(self, what: str) -> None:
        if self.hooks:
            await self.hooks.pop(0)()
        self.done.append(what)


@tool(
    "jira.create",
    "Open a ticket. The model reads on.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(Works,),
    remote=True,
)
async def open_ticket(context: ToolContext, *, title: str, priority: str = "") -> ToolResult:
    if title == "impossible":
        raise Permanent("There is no such project.")
    await context.services[Works].does(f"ticket {title} for {context.user_id}")
    ticket = {"key": "T-1"}
    return ToolResult(
        data=ticket, display_text="T-1 is open.", structured=(RecordGroup("tickets", (ticket,)),)
    )


@tool(
    "opportunity.patch",
    "Change the state of an RFP.",
    kind=ToolKind.PATCH,
    risk=lambda given: patch_risk(json.loads(given.patch)),
    needs=(Works,),
    remote=True,
)
async def patch(context: ToolContext, *, rfp_id: str, patch: str) -> ToolResult:
    await context.services[Works].does(f"patch {rfp_id} {patch} in {context.correlation_id}")
    return ToolResult(display_text="The state is changed.")


async def _not_there(context: ToolContext, given: Any) -> None:
    """Report no earlier effect: a call that failed changed nothing."""


@tool(
    "journal.append",
    "Write into the journal.",
    kind=ToolKind.JOURNAL,
    risk=Risk.LOW,
    needs=(Works,),
    look_up=_not_there,
    remote=True,
)
async def journal(context: ToolContext, *, rfp_id: str, text: str) -> ToolResult:
    await context.services[Works].does(f"journal {rfp_id} {text}")
    return ToolResult(display_text="It is written down.")


@tool(
    "rates.set",
    "Set the day rate of a role.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    needs=(Works,),
    members_only=True,
    remote=True,
)
async def set_rate(context: ToolContext, *, rate: int) -> ToolResult:
    await context.services[Works].does(f"rate {rate} for {', '.join(context.requester_labels)}")
    return ToolResult(display_text="It is set.")


@tool("rfp.list", "List the RFPs.", needs=(Works,), remote=True)
async def rfps(context: ToolContext) -> ToolResult:
    return ToolResult(data=[])


@tool("slack.post.summary", "Say it.", kind=ToolKind.SPEAK, remote=True)
async def speak(context: ToolContext, *, text: str) -> ToolResult:
    raise AssertionError("an action never speaks")


REGISTRY = ToolRegistry([open_ticket, patch, journal, set_rate, rfps, speak, propose_action])


_OUTCOME = re.compile(r"ACT-\d+ was ")
"""The beginning of a post that reports the outcome of an action. Such a post may precede the
turn's answer.
"""


async def _find_user(user_id: str) -> User:
    return User(TEAM, name="Ana", guest=user_id == GUEST)


@dataclass
class ApprovalScene:
    """Turns of a thread, each of which proposes one action. With `workflows`, the scene waits for
    the approvals' workflows.
    """

    talk: ConversationActivityScene
    works: Works
    workflows: WorkflowClient | None
    settings: ApprovalRules
    turn: int = 0

    async def undecided(self) -> list[str]:
        """The ids of the actions that await a decision."""
        found = await self.talk.rows(
            "SELECT action_id FROM proposed_actions WHERE decision IS NULL ORDER BY id"
        )
        return [each["action_id"] for each in found]

    @property
    def ledger(self) -> ToolLedger:
        return ToolLedger(self.talk.database)

    @property
    def services(self) -> Services:
        proposals = PostgresProposals(self.settings)
        users = UserDirectory(_find_user)
        services = (
            with_roles(Services())
            .with_service(Works, self.works)
            .with_service(UserDirectory, users)
        )
        services = services.with_service(Database, self.talk.database)
        return services.with_service(Proposals, proposals)

    @property
    def posts(self) -> Outbox:
        return self.talk.activities.deps.outbox

    @property
    def slack(self) -> SlackClient:
        return self.talk.activities.deps.slack

    def activities(
        self, settings: ApprovalRules | None = None, clock: Callable[[], float] = time.time
    ) -> LiveApprovalActivities:
        """The activities as a worker has them, with the given settings and clock."""
        return LiveApprovalActivities(
            self.talk.database,
            self.slack,
            self.posts,
            REGISTRY,
            self.services,
            self.ledger,
            approved_call_policy,
            find_answer_part,
            answer_of,
            settings or self.settings,
            clock,
        )

    async def propose(
        self,
        tool: str = "jira_create",
        arguments: Any = None,
        *,
        by: str = ASKER,
        state: ProtocolState | None = None,
        calls: int = 1,
        retries_left: int = 0,
        others: Sequence[str] = (),
        call_id: str = "call_1",
        **more: Any,
    ) -> ToolResult:
        """Run a turn that asks for one action, `calls` times as after a crash; `say` posts its
        message.
        """
        self.turn += 1
        given = {
            "tool": tool,
            "arguments": arguments or {"title": "new"},
            "reason": "It has to be.",
        } | more
        call = ToolCall(call_id, "propose_action", json.dumps(given))
        policy = protocol_policy(state or ProtocolState())
        may = allowed_tools(REGISTRY, self.services, operator=True, read_only=False)
        for _ in range(calls):
            runner = ToolRunner(REGISTRY, may, self.ledger, policy)
            where = context(
                team=TEAM,
                channel=self.talk.thread.channel,
                thread_ts=self.talk.thread.ts,
                user_id=by,
                correlation_id=f"{self.talk.thread.key}:{self.turn}",
                clock=lambda: datetime.now(UTC),
                services=self.services.with_service(ToolRunner, runner),
                turn=self.turn,
                call_id=call_id,
                retries_left=retries_left,
                actor="Ana",
                co_requesters=dict.fromkeys(others, "Somebody"),
            )
            result = await runner.run(call, where)
        if self.workflows:  # as the conversation does at the turn's end
            for action_id in await self.undecided():
                await self.workflows.start(approval_start(TEAM, action_id))
        return result

    async def say(self, words: str = "I propose this.") -> SandboxMessage:
        """Post the turn's one message, as any answer is posted, and return it."""
        await self.talk.said(f"please do {self.turn}")
        await self.talk.settle(
            ConversationOutcome(OutcomeKind.ANSWERED, words, model_calls=1), self.turn
        )
        await self.talk.post(self.turn)
        return [each for each in self.talk.posted() if not _OUTCOME.match(each.text)][-1]

    async def action(self, action_id: str = "ACT-1") -> ProposedAction:
        async with self.talk.database.begin() as tx:
            return await ApprovalStore(tx).get(TEAM, action_id)

    def thread(self) -> list[str]:
        """The bot's messages in the thread, in order."""
        return [each.text for each in self.talk.posted()]

    def whispers(self, user: str) -> list[str]:
        return [
            each["text"]
            for each in self.talk.slack.workspace.ephemerals
            if each["ephemeral_to"] == user
        ]


MakeDesk = Callable[..., ApprovalScene]


@pytest.fixture
def make_desk(make_talk: Make) -> MakeDesk:
    def make(
        to: WorkflowClient | None = None,
        approvers: Sequence[str] = (ASKER, APPROVER),
        expiry: float = 3600.0,
    ) -> ApprovalScene:
        return ApprovalScene(make_talk(), Works(), to, ApprovalRules(tuple(approvers), expiry))

    return make


@pytest.fixture
def desk(make_desk: MakeDesk) -> ApprovalScene:
    return make_desk()
