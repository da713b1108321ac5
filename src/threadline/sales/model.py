"""Customers: leads with their companies, what passed between us, and who changed what of them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum

from threadline.errors import Permanent


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


LEAD_FIELDS: Mapping[str, int] = {"name": 200, "email": 254, "title": 200, "phone": 50, "stage": 40, "notes": 4_000}
"""The columns of a lead that may be changed, with the characters that each holds; `company` is a link of its own."""
COMPANY_FIELDS: Mapping[str, int] = {"website": 300, "industry": 200, "company_notes": 4_000}
LONGEST_COMPANY = 200
LONGEST_SUMMARY = 2_000
LONGEST_CONTEXT = 2_000
"""Characters of what the decision engine is told of a lead."""
_LONGEST_TOLD = 400
"""Characters of one interaction in it."""
ENCODED = "=?"
"""Begins an encoded word (RFC 2047), which readers of mail replace: by a line break, or by another @."""
_LINES = frozenset({"notes", "company_notes"})
"""Fields of more than one line."""
_EMAIL = re.compile(r"[^\s@<>,;:\"()\[\]\\A-Z]{1,64}@[a-z0-9-]{1,63}(\.[a-z0-9-]{1,63})+")


@dataclass(frozen=True)
class Lead:
    """`user_id`: in Slack, empty for somebody who was never there; `company` and what follows is of the company."""

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
class Contact:
    """Whoever asks, as Slack knows them; the address is empty where Slack tells none."""

    user_id: str
    name: str = ""
    email: str = ""


@dataclass(frozen=True)
class Interaction:
    """`by`: the Slack id of whoever had it put down."""

    kind: InteractionKind
    summary: str
    at: datetime
    by: str


@dataclass(frozen=True)
class FieldChange:
    """`of` is the lead's or the company's id; both texts may be empty."""

    of: str
    field: str
    was: str
    became: str


@dataclass(frozen=True)
class Updated:
    """`created`: there was no such lead before."""

    lead: Lead
    changes: tuple[FieldChange, ...]
    created: bool


class LeadNotFound(Permanent):
    """The team has no such lead, or it is not for whoever asks."""


class LeadRefused(Permanent):
    """A field is unknown, too long or no such thing, or somebody else has the address."""


def checked(fields: Mapping[str, str]) -> dict[str, str]:
    """The fields as they are kept: one line each, but for notes; an address in small letters.

    Raises:
        LeadRefused: nothing is to be changed by them; the message names the field.
    """
    known = {**LEAD_FIELDS, **COMPANY_FIELDS, "company": LONGEST_COMPANY}
    if not fields:
        raise LeadRefused(f"no change was given: give one of {', '.join(sorted(known))}")
    if unknown := sorted(fields.keys() - known.keys()):
        raise LeadRefused(f"a lead has no field {unknown[0]!r}; there are: {', '.join(sorted(known))}")
    kept = {name: _plain(name, value) for name, value in fields.items()}
    for name, value in kept.items():
        if len(value) > known[name]:
            raise LeadRefused(f"{name} has {len(value)} characters, and the maximum is {known[name]}: shorten it")
    if "email" in kept:
        kept["email"] = address(kept["email"])
    if "stage" in kept and kept["stage"] not in set(Stage):
        raise LeadRefused(f"there is no stage {kept['stage'][:40]!r}; there are: {', '.join(Stage)}")
    return kept


def address(text: str) -> str:
    """A mail address in small letters; empty stays empty. Raises `LeadRefused`."""
    plain = text.strip().lower()
    if plain and not is_address(plain):
        raise LeadRefused(
            f"this is not a mail address: give one, a name and a domain with an @ between them, without {ENCODED}"
        )
    return plain


def is_address(text: str) -> bool:
    """Whether a mail can be sent there: one address in small letters, without a name, of at most 254 characters."""
    plain = len(text) <= LEAD_FIELDS["email"] and text.isascii() and ENCODED not in text
    return plain and _EMAIL.fullmatch(text) is not None


def context_lines(lead: Lead, recent: list[Interaction]) -> str:
    """What the decision engine is told: a few lines, at most `LONGEST_CONTEXT` characters.

    Args:
        recent: the newest first.
    """
    who = " ".join(filter(None, (lead.name, f"({lead.user_id})" if lead.user_id else "", lead.email)))
    firm = ", ".join(filter(None, (lead.company, lead.industry)))
    lines = [who or lead.lead_id, f"Company: {firm}" if firm else "", f"Stage: {lead.stage}"]
    lines += [f"{each.at:%Y-%m-%d} {each.kind}: {' '.join(each.summary.split())[:_LONGEST_TOLD]}" for each in recent]
    return "\n".join(filter(None, lines))[:LONGEST_CONTEXT]


def from_outside(lead: Lead) -> Lead:
    """The lead as somebody sees it who is no member of the workspace: of the company the name alone."""
    return replace(lead, website="", industry="", company_notes="")


def _plain(name: str, value: str) -> str:
    value = value.replace("\x00", "")
    return value.strip() if name in _LINES else " ".join(value.split())
