"""Emails: drafted, and sent at most once. A draft is claimed before it is handed to the mail server."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email import policy
from email.errors import MessageError
from email.message import EmailMessage
from email.parser import BytesHeaderParser
from email.utils import format_datetime, parseaddr

from threadline.db.engine import Database, Transaction
from threadline.db.rate_limits import Rate, RateLimits
from threadline.errors import NotDone, Permanent
from threadline.privacy.redaction import redact
from threadline.rfps.store import TeamMemberStore
from threadline.sales.model import (
    DraftRefused,
    EmailDraft,
    Interaction,
    InteractionKind,
    NewEmail,
    check_email,
    domain_refusal,
    email_risk,
)
from threadline.sales.store import EmailDraftStore, LeadStore
from threadline.tools.context import ToolContext
from threadline.tools.model import Risk

_SEVEN_BITS = policy.SMTP.clone(cte_type="7bit")
"""Any server accepts this form."""


class Mailer(ABC):
    """A mail server."""

    setup_hint = "Set THREADLINE_SMTP_URL, THREADLINE_SMTP_FROM and THREADLINE_EMAIL_DOMAINS."

    @abstractmethod
    async def check(self) -> None:
        """Log in. Raises as `send`."""

    @abstractmethod
    async def send(self, message: EmailMessage) -> None:
        """Raises `Permanent` and `NotDone` when nothing was sent for certain, `Transient` when nobody knows."""


@dataclass(frozen=True)
class EmailSettings:
    """Who sends, to which domains, and up to which risk unasked. Without a sender, drafts may be to anybody.

    `fits_approval`: whether an approval shows all of an email; what nobody can read as a whole is not drafted.
    `rate`: how often emails go to one address.
    """

    fits_approval: Callable[[Mapping[str, str]], bool]
    sender: str = ""
    domains: Collection[str] = ()
    max_risk_without_approval: Risk = Risk.LOW
    rate: Rate | None = None

    def check_recipient(self, recipient: str) -> None:
        """Raises `DraftRefused`."""
        if self.sender and (refused := domain_refusal(recipient, self.domains)):
            raise refused


async def draft_email(context: ToolContext, new: NewEmail) -> EmailDraft:
    """Store a draft in which recognised secrets are replaced.

    Raises:
        DraftRefused, LeadRefused, RateExceeded: the message says what to change.
    """
    settings = context.services[EmailSettings]
    checked = check_email(NewEmail(new.recipient, redact(new.subject), redact(new.body)))
    settings.check_recipient(checked.recipient)
    preview = EmailDraft("MAIL-0000000000", context.user_id, checked.recipient, checked.subject, checked.body)
    if not settings.fits_approval(preview.fields):
        raise DraftRefused("the mail is too long to show in full for approval: shorten the text")
    await context.count_change(f"mail:{checked.recipient}")
    return await EmailDraftStore(context.tx).add(context.thread, context.user_id, checked, context.clock())


async def assess_risk(tx: Transaction, context: ToolContext, recipient: str) -> Risk:
    """The risk of an email: high where several people ask; an address is on record if not entered by whoever asks."""
    if context.co_requesters:
        return Risk.HIGH
    is_known = await LeadStore(tx).is_vouched_for(context.team, recipient, context.user_id)
    is_known = is_known or await TeamMemberStore(tx).has_address(context.team, recipient)
    user = context.requester.user
    return email_risk(recipient, user.email if user else "", on_record=is_known)


async def send_email(context: ToolContext, draft: EmailDraft) -> EmailDraft:
    """Send a draft, in any number of attempts once.

    Raises:
        DraftRefused, RateExceeded, Permanent, NotDone: it was not sent.
        Transient: it may have been sent.
    """
    settings, database, key = context.services[EmailSettings], context.services[Database], context.operation_key
    if not settings.sender:
        raise Permanent("No sender is set: THREADLINE_SMTP_FROM is empty. Nothing was sent.")
    now = context.clock().astimezone(UTC)
    message_id = make_message_id(key, settings.sender)
    try:  # a draft never changes, so it can be composed before it is claimed
        message = compose_message(settings.sender, draft.recipient, draft.subject, draft.body, message_id, now)
    except ValueError as unlike:
        raise DraftRefused(
            f"{draft.draft_id} cannot be sent as drafted. Nothing was sent. Draft it again, with a subject and an "
            "address in plain characters"
        ) from unlike
    async with database.begin() as tx:
        if settings.rate:
            record = f"sent:{draft.recipient}"
            await RateLimits(tx).count_change(context.team, record, key, now.timestamp(), settings.rate)
        await EmailDraftStore(tx).claim(context.thread, draft.draft_id, key)
    try:
        await context.services[Mailer].send(message)
    except (Permanent, NotDone):
        async with database.begin() as tx:
            await EmailDraftStore(tx).release(key)
        raise
    async with database.begin() as tx:
        sent = await EmailDraftStore(tx).mark_sent(key, message_id, now)
        leads = LeadStore(tx)
        if lead := await leads.by_email(context.team, sent.recipient):
            interaction = Interaction(InteractionKind.EMAIL, sent.subject, now, sent.user_id)
            await leads.add_interaction(lead.lead_id, interaction)
    return sent


def compose_message(
    sender: str, recipient: str, subject: str, body: str, message_id: str, at: datetime
) -> EmailMessage:
    """A plain text to one address (RFC 5322). It is read back, since the standard library decodes what looks encoded.

    Args:
        sender: an address, with a name if it has one.
        at: when it is sent, with its zone.

    Raises:
        ValueError: a header holds a line break, or would be read as something else.
    """
    message = EmailMessage(policy=_SEVEN_BITS)
    message["From"] = sender
    message["To"] = recipient
    message["Subject"] = subject
    message["Date"] = format_datetime(at)
    message["Message-ID"] = message_id
    message.set_content(body)
    if not _has_headers(message, recipient, subject):
        raise ValueError("a header of the mail would decode to another text than was written")
    return message


def make_message_id(operation_key: str, sender: str) -> str:
    """The same for the same operation, so that a mailbox recognises an email that it gets twice."""
    digest = hashlib.sha256(operation_key.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    return f"<{digest}@{parseaddr(sender)[1].rpartition('@')[2]}>"


def _has_headers(message: EmailMessage, recipient: str, subject: str) -> bool:
    """Whether the bytes have these headers and no others, and go to this recipient alone."""
    try:
        read = BytesHeaderParser(policy=policy.SMTP).parsebytes(message.as_bytes())
    except MessageError:
        return False
    found = (read.keys(), read["To"], message["To"], message["Subject"])
    return found == (message.keys(), recipient, recipient, subject)
