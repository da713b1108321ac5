"""Mails: drafted, shown, and sent at most once."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from threadline.errors import Permanent
from threadline.sales.model import ENCODED, address
from threadline.tools.model import Risk

LONGEST_SUBJECT = 150
LONGEST_BODY = 1_400
"""Characters: whoever approves a mail is shown all of it beside two buttons."""


class DraftStatus(StrEnum):
    DRAFT = "draft"
    SENDING = "sending"
    """A call has begun to send it; as long as it has not ended, nobody knows whether it went out."""
    SENT = "sent"


@dataclass(frozen=True)
class NewLetter:
    recipient: str
    subject: str
    body: str


@dataclass(frozen=True)
class Draft:
    """What it says never changes. `user_id`: who asked for it; `message_id` and `sent_at` come with the sending."""

    draft_id: str
    user_id: str
    recipient: str
    subject: str
    body: str
    status: DraftStatus = DraftStatus.DRAFT
    message_id: str = ""
    sent_at: datetime | None = None

    @property
    def told(self) -> dict[str, str]:
        """All that whoever approves it has to read."""
        return {"draft_id": self.draft_id, "to": self.recipient, "subject": self.subject, "body": self.body}


class DraftNotFound(Permanent):
    """The thread has no such draft."""


class DraftRefused(Permanent):
    """It cannot be drafted, or was sent before."""


def checked(new: NewLetter) -> NewLetter:
    """The mail as it is kept: the subject on one line.

    Raises:
        DraftRefused, LeadRefused: it cannot be sent as it is; the message says what to change.
    """
    subject = " ".join(new.subject.replace("\x00", "").split())
    body = new.body.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n").strip()
    if not subject or not body:
        raise DraftRefused("a mail needs a subject and a text")
    if ENCODED in subject:
        raise DraftRefused(f"a subject cannot contain {ENCODED}, which mail programs decode: leave it out")
    if len(subject) > LONGEST_SUBJECT or len(body) > LONGEST_BODY:
        raise DraftRefused(
            f"a mail has at most {LONGEST_SUBJECT} characters of subject and {LONGEST_BODY} of text, so that the "
            "approver can read all of it: shorten it"
        )
    if not (recipient := address(new.recipient)):
        raise DraftRefused("a mail needs a recipient address")
    return NewLetter(recipient, subject, body)


def refusal(recipient: str, domains: Collection[str]) -> DraftRefused | None:
    """Why nothing may be sent to an address; a domain stands for itself, and not for those below it."""
    if recipient.rpartition("@")[2] in domains:
        return None
    return DraftRefused(
        "mail to the domain of this address is not allowed: ask the administrator of this installation to add "
        "it to THREADLINE_EMAIL_DOMAINS, or use another address. Nothing was sent"
    )


def assessed(recipient: str, own: str, *, on_record: bool) -> Risk:
    """How risky it is to send something there: low to whoever asks, medium to somebody on record, else high.

    Args:
        own: the address of whoever asks, alone; empty where it is not known.
    """
    if own and recipient == own.strip().lower():
        return Risk.LOW
    return Risk.MEDIUM if on_record else Risk.HIGH


def above(risk: Risk, free: Risk) -> bool:
    """Whether it waits for an approval where `free` is the highest risk that does not."""
    order = list(Risk)
    return order.index(risk) > order.index(free)
