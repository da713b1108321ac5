"""Mails to customers: drafted first, and sent as they were drafted, above a set risk only when somebody has agreed."""

from abc import ABC, abstractmethod
from email.message import EmailMessage
from typing import Annotated, Protocol

from pydantic import BaseModel, ConfigDict, Field

from threadline.approvals.tools import LONGEST_REASON, Proposals, waiting
from threadline.models.model import ToolKind
from threadline.sales import email_model as letters
from threadline.sales.email_model import LONGEST_BODY, LONGEST_SUBJECT, Draft, DraftStatus, NewLetter
from threadline.sales.tools import Asker
from threadline.slack.model import Thread
from threadline.tools.context import ToolContext
from threadline.tools.effects import by_effect
from threadline.tools.model import (
    Author,
    Change,
    Effect,
    ErrorCode,
    Operation,
    RecordGroup,
    Risk,
    ToolResult,
    error_result,
)
from threadline.tools.registry import tool

_SETTLES = 45.0
"""Seconds: longer than one try of a mail lasts, so that another one does not take it for lost while it goes out."""


class Mailer(ABC):
    """A mail server."""

    setup_hint = "Set THREADLINE_SMTP_URL, THREADLINE_SMTP_FROM and THREADLINE_EMAIL_DOMAINS."

    @abstractmethod
    async def look(self) -> None:
        """Whether it takes the account. Raises as `send`."""

    @abstractmethod
    async def send(self, message: EmailMessage) -> None:
        """Raises `Permanent` and `NotDone` when surely nothing was sent, `Transient` when nobody knows."""


class EmailOutbox(Protocol):
    """A thread's mails.

    Raises:
        DraftNotFound, DraftRefused, LeadRefused: the message says what to change.
    """

    @property
    def free(self) -> Risk:
        """The highest risk at which a mail goes out without an approval."""
        ...

    async def draft(self, change: Change, user_id: str, new: NewLetter) -> Draft: ...

    async def get(self, thread: Thread, draft_id: str) -> Draft:
        """A draft that may be sent as far as its address goes."""
        ...

    async def risk(self, team: str, asker: Asker, recipient: str) -> Risk:
        """How risky a mail there is: high where several ask; an address that the asker has put on record is not."""
        ...

    async def send(self, change: Change, draft_id: str, mailer: Mailer) -> Draft:
        """Send a draft, of any number of tries once. Raises what the mailer does, too."""
        ...

    async def taken_by(self, operation: Operation) -> Draft | None:
        """The draft that an operation has sent, or has begun to send; None when it surely sent nothing."""
        ...

    async def effect(self, operation: Operation) -> Effect | None: ...


class Compose(BaseModel):
    model_config = ConfigDict(extra="forbid")

    to: Annotated[str, Field(min_length=3, max_length=254, description="One mail address.")]
    subject: Annotated[str, Field(min_length=1, max_length=LONGEST_SUBJECT, description="One line.")]
    body: Annotated[
        str, Field(min_length=1, max_length=LONGEST_BODY, description="The whole text, with greeting and signature.")
    ]


class Send(BaseModel):
    model_config = ConfigDict(extra="forbid")

    draft_id: Annotated[str, Field(min_length=1, max_length=40, description="Such as MAIL-7.")]
    reason: Annotated[
        str, Field(min_length=1, max_length=LONGEST_REASON, description="Why, in a sentence for who approves it.")
    ]


async def _draft(context: ToolContext, given: Compose) -> ToolResult:
    new = NewLetter(given.to, given.subject, given.body)
    draft = await context.services[EmailOutbox].draft(context.change, context.user_id, new)
    begins = (RecordGroup("mails", (draft.told,)),)
    return ToolResult(data=draft.told | {"sent": False}, display_text=_shown(draft), structured=begins)


@tool(
    "email.draft",
    "Draft a mail, such as a follow-up, and show the person its whole text. Nothing is sent. To change it, draft anew.",
    kind=ToolKind.CHANGE,
    risk=Risk.LOW,
    needs=(EmailOutbox,),
    rate_limit_key=lambda given: f"mail:{given.to.strip().lower()}",
    look_up=by_effect(EmailOutbox, _draft),
    remote=True,
)
async def draft(context: ToolContext, given: Compose) -> ToolResult:
    return await _draft(context, given)


async def _find_sent(context: ToolContext, given: Send) -> ToolResult | None:
    """A mail whose sending broke off may have gone out, and no server can be asked: it is never sent again unasked."""
    taken = await context.services[EmailOutbox].taken_by(context.operation)
    if taken is None:
        return None
    if taken.status is DraftStatus.SENT:
        return _sent(taken)
    return error_result(
        ErrorCode.OUTCOME_UNKNOWN,
        f"The mail server did not confirm {taken.draft_id}: it may have gone out or not. It is not sent again.",
        "Say so, and ask whether it has arrived before another mail is drafted.",
    )


@tool(
    "email.send",
    "Send a drafted mail as it is, when a person wants it sent. Where its risk asks for it, buttons in the thread wait "
    "for somebody's approval first.",
    kind=ToolKind.CHANGE,
    risk=Risk.MEDIUM,
    critical=True,
    needs_approval=True,
    needs=(EmailOutbox, Mailer),
    rate_limit_key=lambda given: f"draft:{given.draft_id.strip().upper()}",
    look_up=_find_sent,
    timeout=40.0,
    settle_seconds=_SETTLES,
    remote=True,
)
async def send(context: ToolContext, given: Send) -> ToolResult:
    outbox = context.services[EmailOutbox]
    draft = await outbox.get(context.thread, given.draft_id)
    if draft.status is DraftStatus.DRAFT and not context.approved_action_id:
        asker = Asker(context.user_id, context.co_requester_ids)
        risk = await outbox.risk(context.team, asker, draft.recipient)
        if letters.above(risk, outbox.free):
            return await _proposed(context, draft, risk, given)
    return _sent(await outbox.send(context.change, draft.draft_id, context.services[Mailer]))


async def _proposed(context: ToolContext, draft: Draft, risk: Risk, given: Send) -> ToolResult:
    if Proposals not in context.services:
        return error_result(
            ErrorCode.REFUSED,
            f"This mail has {risk} risk and needs an approval, which is not available here. It was not sent.",
        )
    action = {"tool": send.name, "arguments": given.model_dump() | {"draft_id": draft.draft_id}}
    author, proposals = Author(context.user_id, context.correlation_id), context.services[Proposals]
    put = await proposals.propose(context.change, action, risk, author, "", context.co_requester_ids)
    return waiting("Send a mail", draft.told, put, given.reason)


TOOLS = [draft, send]


def _sent(draft: Draft) -> ToolResult:
    at = draft.sent_at.isoformat(timespec="minutes") if draft.sent_at else ""
    told = {"draft_id": draft.draft_id, "to": draft.recipient, "sent": True, "at": at, "message_id": draft.message_id}
    return ToolResult(data=told, display_text=f"{draft.draft_id} is sent.")


def _shown(draft: Draft) -> str:
    quoted = "\n".join(f"> {line}" for line in draft.body.split("\n"))
    return f"{draft.draft_id} is drafted, and not sent.\n> To: {draft.recipient}\n> Subject: {draft.subject}\n{quoted}"
