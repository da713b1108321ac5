"""Leads with their companies and interactions, drafts of emails, and the account of the mail
server.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

from threadline.errors import Permanent

LEAD_FIELDS: Mapping[str, int] = {
    "name": 200,
    "email": 254,
    "title": 200,
    "phone": 50,
    "stage": 40,
    "notes": 4_000,
}
"""The columns of a lead that can be changed, with the maximum of characters of each; `company` is
a separate link.
"""
COMPANY_FIELDS: Mapping[str, int] = {"website": 300, "industry": 200, "company_notes": 4_000}
MAX_COMPANY = 200
MAX_SUMMARY = 2_000
MAX_CONTEXT = 2_000
"""Maximum of characters about a customer in the decision engine's prompt."""
_MAX_CONTEXT_SUMMARY = 400
"""Maximum of characters of one interaction in it."""
ENCODED_WORD = "=?"
"""Start of an encoded word (RFC 2047), which mail programs decode, for example to a line break or
to another @.
"""
_MULTILINE = frozenset({"notes", "company_notes"})
_EMAIL = re.compile(r"[^\s@<>,;:\"()\[\]\\A-Z]{1,64}@[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+")
MAX_SUBJECT = 150
MAX_BODY = 1_400
"""Characters. An approver sees the whole email beside two buttons."""
_ACCOUNT_FORM = "write it as smtp://user:password@host:587, or smtps://user:password@host:465"
_SCHEMES = {"smtp": 587, "smtps": 465}


class Stage(StrEnum):
    """How far a lead has come."""

    NEW = "new"
    CONTACTED = "contacted"
    QUALIFIED = "qualified"
    PROPOSAL = "proposal"
    WON = "won"
    LOST = "lost"


class InteractionKind(StrEnum):
    CALL = "call"
    EMAIL = "email"
    MEETING = "meeting"
    MESSAGE = "message"
    NOTE = "note"


@dataclass(frozen=True)
class Lead:
    """A customer.

    `user_id`: in Slack; empty for a person who is not there. `company` and the fields after it are
    the company's.
    """

    lead_id: str
    user_id: str
    email: str
    name: str
    title: str
    phone: str
    stage: Stage
    notes: str
    company: str
    website: str
    industry: str
    company_notes: str


@dataclass(frozen=True)
class Interaction:
    """A call, mail or meeting with a lead. `user_id`: the user who had it logged."""

    kind: InteractionKind
    summary: str
    at: datetime
    user_id: str


@dataclass(frozen=True)
class FieldChange:
    """One changed field. `record_id` is the lead's or the company's id; both values may be
    empty.
    """

    record_id: str
    field: str
    old: str
    new: str


class DraftStatus(StrEnum):
    DRAFT = "draft"
    SENDING = "sending"
    """A tool call has begun to send it. Until that call has ended, the outcome is unknown."""
    SENT = "sent"


@dataclass(frozen=True)
class NewEmail:
    recipient: str
    subject: str
    body: str


@dataclass(frozen=True)
class EmailDraft:
    """An email whose text never changes. `user_id` asked for it. `message_id` and `sent_at` are
    set on sending.
    """

    draft_id: str
    user_id: str
    recipient: str
    subject: str
    body: str
    status: DraftStatus = DraftStatus.DRAFT
    message_id: str = ""
    sent_at: datetime | None = None

    @property
    def fields(self) -> dict[str, str]:
        """The fields that an approver has to read."""
        return {
            "draft_id": self.draft_id,
            "to": self.recipient,
            "subject": self.subject,
            "body": self.body,
        }


class Tls(StrEnum):
    STARTTLS = "starttls"
    """STARTTLS, which the server has to offer; without it nothing is sent."""
    IMPLICIT = "implicit"
    NONE = "none"
    """No encryption, for a server on the same machine."""


@dataclass(frozen=True)
class MailAccount:
    """The account at a mail server. `user` is empty for a server without login."""

    host: str
    port: int
    tls: Tls
    user: str = ""
    password: SecretStr = field(default_factory=lambda: SecretStr(""))


def check_lead_fields(fields: Mapping[str, str]) -> dict[str, str]:
    """Return the fields in stored form: one line each, except for notes; an address in lower case.
    Raises `Permanent`, whose message names the field that cannot be stored.
    """
    known = {**LEAD_FIELDS, **COMPANY_FIELDS, "company": MAX_COMPANY}
    if not fields:
        raise Permanent(f"no change was given: give one of {', '.join(sorted(known))}")
    if unknown := sorted(fields.keys() - known.keys()):
        raise Permanent(
            f"a lead has no field {unknown[0]!r}; there are: {', '.join(sorted(known))}"
        )
    kept = dict[str, str]()
    for name, given in fields.items():
        text = given.replace("\x00", "")
        kept[name] = value = text.strip() if name in _MULTILINE else " ".join(text.split())
        if len(value) > known[name]:
            raise Permanent(
                f"{name} has {len(value)} characters, and the maximum is {known[name]}: shorten it"
            )
    if "email" in kept:
        kept["email"] = normalise_email(kept["email"])
    if "stage" in kept and kept["stage"] not in set(Stage):
        raise Permanent(f"there is no stage {kept['stage'][:40]!r}; there are: {', '.join(Stage)}")
    return kept


def normalise_email(text: str) -> str:
    """Return a mail address in lower case; empty stays empty. Raises `Permanent`."""
    plain = text.strip().lower()
    if plain and not is_address(plain):
        raise Permanent(
            "this is not a mail address: give one, a name and a domain with an @ between "
            f"them, without {ENCODED_WORD}"
        )
    return plain


def is_address(text: str) -> bool:
    """Return whether a text is one address in lower case, without a name, of at most 254
    characters.
    """
    plain = len(text) <= LEAD_FIELDS["email"] and text.isascii() and ENCODED_WORD not in text
    return plain and _EMAIL.fullmatch(text) is not None


def format_customer(lead: Lead, recent: list[Interaction]) -> str:
    """Return a customer for the decision engine's prompt: a few lines, at most `MAX_CONTEXT`
    characters. `recent`: newest first.
    """
    who = " ".join(
        filter(None, (lead.name, f"({lead.user_id})" if lead.user_id else "", lead.email))
    )
    company = ", ".join(filter(None, (lead.company, lead.industry)))
    lines = [who or lead.lead_id, f"Company: {company}" if company else "", f"Stage: {lead.stage}"]
    lines += [
        f"{each.at:%Y-%m-%d} {each.kind}: {' '.join(each.summary.split())[:_MAX_CONTEXT_SUMMARY]}"
        for each in recent
    ]
    return "\n".join(filter(None, lines))[:MAX_CONTEXT]


def without_company_details(lead: Lead) -> Lead:
    """Return the lead as people from outside the workspace see it: of the company only the
    name.
    """
    return replace(lead, website="", industry="", company_notes="")


def check_email(new: NewEmail) -> NewEmail:
    """Return the email in stored form: the subject on one line. Raises `Permanent`, with the
    remedy, for one that cannot be sent as it is.
    """
    subject = " ".join(new.subject.replace("\x00", "").split())
    body = new.body.replace("\x00", "").replace("\r\n", "\n").replace("\r", "\n").strip()
    if not subject or not body:
        raise Permanent("a mail needs a subject and a text")
    if ENCODED_WORD in subject:
        raise Permanent(
            f"a subject cannot contain {ENCODED_WORD}, which mail programs decode: leave it out"
        )
    if len(subject) > MAX_SUBJECT or len(body) > MAX_BODY:
        raise Permanent(
            f"a mail has at most {MAX_SUBJECT} characters of subject and {MAX_BODY} of text, so "
            "that the approver can read all of it: shorten it"
        )
    if not (recipient := normalise_email(new.recipient)):
        raise Permanent("a mail needs a recipient address")
    return NewEmail(recipient, subject, body)


def parse_mail_account(url: str) -> MailAccount:
    """Parse an `smtp://` (with STARTTLS) or `smtps://` address; special characters of a password
    are `%`-encoded.

    Raises:
        ValueError: it is no such address. The message does not repeat it, since it holds a
            password.
    """
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError:
        raise ValueError(_ACCOUNT_FORM) from None
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if (
        parts.scheme not in _SCHEMES
        or not parts.hostname
        or parts.path.strip("/")
        or options.keys() - {"tls"}
    ):
        raise ValueError(_ACCOUNT_FORM)
    user = unquote(parts.username or "")
    password = unquote(parts.password or "")
    if bool(user) != bool(password):
        raise ValueError(f"a user and a password go together; {_ACCOUNT_FORM}")
    tls = Tls.IMPLICIT if parts.scheme == "smtps" else Tls.STARTTLS
    if "tls" in options:
        if options["tls"] != Tls.NONE or tls is Tls.IMPLICIT:
            raise ValueError(
                "the address takes only the parameter ?tls=none, for an smtp:// server "
                "without encryption"
            )
        if user:
            raise ValueError(
                "a password is not sent without encryption: leave out ?tls=none, or the user"
            )
        tls = Tls.NONE
    return MailAccount(
        parts.hostname, port or _SCHEMES[parts.scheme], tls, user, SecretStr(password)
    )
