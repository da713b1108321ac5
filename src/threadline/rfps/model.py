"""Requests for proposals (RFPs): ids, facts, the state of the opportunity, journal and events, and
the team.
"""

import json
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from threadline.errors import Permanent
from threadline.tools.model import Author, FieldChange, RecordGroup, Risk, record_group

BINDING = "rfp"
"""The kind of binding by which a thread is about an RFP."""
MAX_TITLE = 300
MAX_CLIENT = 200
MAX_OWNER = 100
"""Characters of each field; longer values are refused."""
MAX_SOURCE_TEXT = 1_000_000
"""Characters of a file's text that are kept; search covers the first 200,000."""
MAX_PATCH = 64_000
MAX_STATE = 256_000
"""Bytes as JSON. A larger patch, or one that makes the state larger, is refused."""
MAX_DEPTH = 20
"""Levels of nested objects and lists."""
MAX_ENTRY = 10_000
"""Characters of a journal entry; a longer one is refused."""
MAX_PAYLOAD = 64_000
"""Bytes of an event's payload as JSON; a larger one is refused."""
MAX_EVENT_TYPE = 100

# ---- Ids

RFP_ID = "rfp_id"
"""The parameter by which a tool names its RFP."""
MAX_ID = 64
"""Characters of an id; a longer word is no id."""
NOT_IDS = frozenset({"rfp_list", "rfp_search", "rfp_get", "rfp_create_from_slack_file"})
"""Names of tools; in a message they are not ids."""

_STORED_ID = re.compile(r"rfp_[a-z0-9]{3,40}")
_FILES = "pdf|docx?|xlsx?|pptx?|csv|txt|md|rtf|odt|html?|json|zip|eml|msg|png|jpe?g"
_MORE = "(?:_+|-)[A-Za-z0-9]"
_ID = rf"[rR][fF][pP]_[A-Za-z0-9]+(?:{_MORE}+)*(?![A-Za-z0-9]|{_MORE})"
"""Matches the longest id: `rfp_7-b` never yields `rfp_7`, which may be another record. It uses a
lookahead, since a possessive group matches too much before Python 3.11.5 (python/cpython#106052).
"""
_IN_TEXT = re.compile(
    rf"(?<![A-Za-z0-9])(?<![A-Za-z0-9]_){_ID}(?!@|\.(?i:{_FILES})(?![A-Za-z0-9]))"
)
"""Matches in `_italics_` as well; a file's name (`rfp_answer.pdf`) or a mail address is no id."""
_ALONE = re.compile(_ID)
_MENTION = re.compile(r"<[@#!][^<>]*>")
"""Slack's markup of a person, a group or a channel, which may be called `rfp_team`."""


class ScopeSource(StrEnum):
    """The origin of a scope."""

    MESSAGE = "message"
    BINDING = "binding"
    """The thread's binding."""
    NONE = "none"


@dataclass(frozen=True)
class Scope:
    """The RFP that a request is about.

    `others`: further ids of the message, in its order; the bot tells the author that the first one
    counts.
    """

    rfp_id: str = ""
    origin: ScopeSource = ScopeSource.NONE
    others: tuple[str, ...] = ()


def named_rfp(arguments: object) -> str:
    """Return the RFP that a tool's arguments name in `rfp_id`; empty if they name none."""
    named = getattr(arguments, RFP_ID, "")
    return named if isinstance(named, str) else ""


def rfp_id_in(arguments: Mapping[str, object]) -> str:
    """Return the same as `named_rfp`, from arguments as they were written."""
    named = arguments.get(RFP_ID)
    return named.strip().lower() if isinstance(named, str) else ""


def find_rfp_ids(text: str) -> tuple[str, ...]:
    """Return the ids in a text in lower case, each once, in their order; the first one counts.

    Ids in a code block, in a link's address or in its label count. The RFPs may not exist: only
    the database knows.
    """
    named = (found.group().lower() for found in _IN_TEXT.finditer(_MENTION.sub(" ", text)))
    return tuple(
        dict.fromkeys(each for each in named if len(each) <= MAX_ID and each not in NOT_IDS)
    )


def contains_only_rfp_ids(text: str) -> bool:
    """Return whether a text has one or more ids, and apart from them only blanks and
    punctuation.
    """
    return bool(find_rfp_ids(text)) and not re.search(r"[^\W_]", _IN_TEXT.sub(" ", text))


def parse_rfp_id(word: str) -> str:
    """Return the word in lower case if it is an id; empty when it is none, such as the `rfp_...`
    of a hint.
    """
    return word.lower() if len(word) <= MAX_ID and _ALONE.fullmatch(word) else ""


def _argument(text: str) -> str:
    if not text.strip():
        raise ValueError("expected an id such as rfp_abc123")
    return text.strip().lower()


RfpId = Annotated[
    str,
    AfterValidator(_argument),
    Field(min_length=1, max_length=MAX_ID, description="Its id, such as rfp_abc123."),
]
"""A tool's parameter. It is converted to lower case, since the protocol compares ids exactly."""


def is_rfp_id(text: str) -> bool:
    """Return whether an RFP may have this id; it need not exist."""
    return _STORED_ID.fullmatch(text) is not None


def resolve_scope(text: str, bound: str = "") -> Scope:
    """Return the first id of the message, else the RFP that its thread is `bound` to, else
    none.
    """
    first, *others = find_rfp_ids(text) or ("",)
    if first:
        return Scope(first, ScopeSource.MESSAGE, tuple(others))
    return Scope(bound, ScopeSource.BINDING) if bound else Scope()


# ---- RFPs and their facts


class RfpStatus(StrEnum):
    NEW = "new"
    IN_PROGRESS = "in_progress"
    PROPOSAL_SUBMITTED = "proposal_submitted"
    SHORTLISTED = "shortlisted"
    WON = "won"
    LOST = "lost"
    NO_BID = "no_bid"
    CANCELLED = "cancelled"


OPEN = (RfpStatus.NEW, RfpStatus.IN_PROGRESS, RfpStatus.PROPOSAL_SUBMITTED, RfpStatus.SHORTLISTED)
"""The statuses in which the team may still have work to do."""


@dataclass(frozen=True)
class RfpFacts:
    """The fields that lists of RFPs show. They are kept in the state's document, under these
    names, and are changed there.
    """

    title: str
    client: str = ""
    due_date: date | None = None
    status: RfpStatus = RfpStatus.NEW
    owner: str = ""


FACTS = ("title", "client", "due_date", "status", "owner")
"""The names of the facts in a state's document."""


@dataclass(frozen=True, kw_only=True)
class Rfp(RfpFacts):
    """An RFP. `source_name`: the file that it was made from; empty without one."""

    rfp_id: str
    source_name: str
    created_by: str
    created_at: datetime


@dataclass(frozen=True)
class SourceFile:
    """A file, and its text.

    Args:
        sha256: of the file's bytes, in hexadecimal.
        unread: noun phrases for the parts that the text lacks.
    """

    name: str
    sha256: str
    text: str
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class FileText:
    """A part of a file's text.

    Args:
        characters: of the whole text.
        unread: noun phrases for the parts that the whole text lacks.
    """

    text: str
    characters: int
    unread: tuple[str, ...] = ()


@dataclass(frozen=True)
class CreatedRfp:
    """The result of creating an RFP. `new` is False where the team had made it from the same file
    earlier.
    """

    rfp: Rfp
    new: bool


@dataclass(frozen=True)
class RfpUsage:
    """The amount of data of an RFP, for its deletion: the `characters` of its file's text, the
    `version` of its state (0 without one), the `entries` in its journal and the `events` in its
    log.
    """

    rfp: Rfp
    characters: int
    version: int
    entries: int
    events: int


class RfpNotFound(Permanent):
    """The team has no RFP of the id `sought`, or it was deleted; `nearest` are the most similar
    ids.
    """

    def __init__(self, sought: str, nearest: Sequence[str] = (), *, deleted: bool = False) -> None:
        self.sought = sought
        self.nearest = tuple(nearest)
        self.deleted = deleted
        said = f"{sought} was deleted" if deleted else f"there is no RFP {sought}"
        hint = (
            f"did you mean {' or '.join(nearest)}?" if nearest else "list the RFPs to find its id"
        )
        super().__init__(f"{said}; {hint}")


class RfpRefused(Permanent):
    """The input is incomplete, too large, malformed, or based on an older version."""


def parse_status(words: str) -> RfpStatus:
    """Return the status of this name, for example `Proposal submitted`. Raises `RfpRefused`."""
    try:
        return RfpStatus("_".join(re.split(r"[\s_-]+", words.strip().lower())))
    except ValueError as exc:
        raise RfpRefused(
            f"{words[:60]!r} is not an RFP status: use one of {', '.join(RfpStatus)}"
        ) from exc


def validate_facts(facts: RfpFacts) -> RfpFacts:
    """Return the facts with white space normalised. Raises `RfpRefused`."""
    title = _line("title", facts.title, MAX_TITLE)
    if not title:
        raise RfpRefused("an RFP needs a title")
    client = _line("client", facts.client, MAX_CLIENT)
    owner = _line("owner", facts.owner, MAX_OWNER)
    return RfpFacts(title, client, facts.due_date, facts.status, owner)


def facts_from_document(document: Mapping[str, object]) -> RfpFacts:
    """Return the facts in a state's document.

    Raises:
        RfpRefused: a required fact is missing, or one is malformed.
    """
    title = _text(document, "title")
    status = _text(document, "status")
    if not status.strip():
        raise RfpRefused(f"an RFP needs a status: one of {', '.join(RfpStatus)}")
    client = _text(document, "client")
    owner = _text(document, "owner")
    due = _text(document, "due_date").strip()
    try:
        due_date = date.fromisoformat(due) if due else None
    except ValueError as exc:
        raise RfpRefused(f"{due[:60]!r} is not a due date: write it as 2026-03-31") from exc
    return validate_facts(RfpFacts(title, client, due_date, parse_status(status), owner))


def facts_to_document(facts: RfpFacts) -> dict[str, str]:
    """Return the facts as a state's document has them; omits empty ones."""
    named = {name: str(getattr(facts, name) or "") for name in FACTS}
    return {name: text for name, text in named.items() if text}


def status_words(status: str) -> str:
    """Return the status, or a kind of entry, as people read it."""
    return status.replace("_", " ")


def rfp_record(rfp: Rfp) -> dict[str, str]:
    """Return the RFP as the model reads it; omits empty facts."""
    return {"rfp_id": rfp.rfp_id} | facts_to_document(rfp)


def rfp_group(records: Sequence[Mapping[str, str]]) -> tuple[RecordGroup, ...]:
    """Return the records as people see them."""
    return record_group(
        "rfps", ({**each, "status": status_words(each["status"])} for each in records)
    )


def not_read(unread: Sequence[str]) -> str:
    """Return a sentence, with a leading blank, on the parts that a file's text lacks; empty
    without any.
    """
    return f" Not read from the file: {'; '.join(unread)}." if unread else ""


def title_line(record: Mapping[str, str]) -> str:
    return f"{record['rfp_id']} ({record['title']})"


def _text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name, "")
    if not isinstance(value, str):
        raise RfpRefused(f"{name} must be text")
    return value


def _line(name: str, text: str, longest: int) -> str:
    line = " ".join(text.split())
    if len(line) > longest:
        raise RfpRefused(f"the {name} of an RFP has at most {longest} characters")
    return line


# ---- JSON, and the state of an opportunity

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class OpportunityState:
    """One JSON document, changed by merge patches. `updated_by` and `correlation_id` are empty
    before the first patch.
    """

    rfp_id: str
    version: int
    document: JsonObject
    updated_by: str
    correlation_id: str
    updated_at: datetime


def merge_patch(target: object, patch: object) -> Any:
    """Apply a JSON Merge Patch (https://www.rfc-editor.org/rfc/rfc7396#section-2); neither
    argument is changed.
    """
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merge_patch(result.get(name), value)
    return result


def validate_patch(patch: object) -> JsonObject:
    """Return the patch if it may be applied.

    Raises:
        RfpRefused: it is no object, is empty, too large or too deep.
    """
    if not isinstance(patch, dict) or not patch:
        raise RfpRefused(
            'a patch must be a JSON object with the changes, such as {"status": "won"}'
        )
    if problem := json_problem(patch, MAX_PATCH):
        raise RfpRefused(f"the patch {problem}: nothing was changed")
    return patch


def apply_patch(document: JsonObject, patch: object) -> tuple[JsonObject, RfpFacts]:
    """Return the document after the patch, and its facts. Raises `RfpRefused`."""
    result: JsonObject = merge_patch(document, validate_patch(patch))
    if problem := json_problem(result, MAX_STATE):
        raise RfpRefused(f"with this patch the document {problem}: nothing was changed")
    facts = facts_from_document(result)
    return {name: each for name, each in result.items() if name not in FACTS} | facts_to_document(
        facts
    ), facts


_NOTES = {
    "notes",
    "note",
    "summary",
    "next_steps",
    "next_step",
    "tasks",
    "open_questions",
    "questions",
    "risks",
}
_NOTES |= {"tags", "links", "contacts", "highlights", "history", "comments"}
"""Fields of a state for people's notes; writing to them commits the team to nothing. Emptying one
is of medium risk.
"""
_OUTCOME_FIELDS = frozenset(
    {"status", "stage", "state", "outcome", "decision", "result", "verdict", "phase"}
)
_OUTCOMES = ("won", "lost", "cancelled", "canceled", "nobid", "no bid")
_MONEY_FIELDS = frozenset(
    {
        "amount",
        "bid",
        "budget",
        "cost",
        "costs",
        "discount",
        "fee",
        "fees",
        "margin",
        "money",
        "price",
        "prices",
    }
    | {"pricing", "quote", "rate", "rates", "revenue", "tax", "total", "totals", "value"}
)
_WORDS = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def status_risk(before: RfpStatus, after: RfpStatus) -> Risk:
    """Return the risk of a changed status: high where a final status is set or left."""
    if before is after or (before in OPEN and after in OPEN):
        return Risk.LOW
    return Risk.HIGH


def patch_risk(
    patch: JsonObject, document: Mapping[str, object] | None = None, is_own: bool = True
) -> Risk:
    """Return the risk of a patch by its words: high where one names a final status, low where it
    only adds notes.

    Old values count as new ones do: a patch may remove or replace the parent of a field.

    Args:
        patch: the patch.
        document: the state before the patch.
        is_own: whether the RFP has no owner, or belongs to the asker. Money and ownership of
            another user's RFP are of high risk.
    """
    changes = patch_changes(document or {}, patch)
    values = [
        _in_its_place(each.field, value) for each in changes for value in (each.old, each.new)
    ]
    if any(map(_names_outcome, values)):
        return Risk.HIGH
    if not is_own and ("owner" in patch or any(map(_names_money, values))):
        return Risk.HIGH
    harmless = all(name in _NOTES and value is not None for name, value in patch.items())
    return Risk.LOW if harmless else Risk.MEDIUM


def _in_its_place(path: str, value: object) -> object:
    """Return a document that has nothing but this value, at the path of a change."""
    for name in reversed(path.split(".")):
        value = {name: value}
    return value


def event_risk(event_type: str, payload: Mapping[str, object]) -> Risk:
    """Return the risk of an event, which other systems read.

    It is high where the event reports a final status, or an approval, whose events Threadline
    writes itself.
    """
    tells_of_approval = any(each.startswith("action ") for each in _plain_forms(event_type))
    if tells_of_approval or _outcome_words(event_type):
        return Risk.HIGH
    return Risk.HIGH if _names_outcome(payload) else Risk.LOW


def patch_changes(
    document: Mapping[str, object], patch: Mapping[str, object]
) -> tuple[FieldChange, ...]:
    """Return the changes of a merge patch to a document, by path (`budget.total`), without
    unchanged values.
    """
    return tuple(_patch_changes(document, patch, ""))


def _patch_changes(
    old: Mapping[str, object], patch: Mapping[str, object], path: str
) -> Iterator[FieldChange]:
    for name, value in patch.items():
        before = old.get(name)
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            yield from _patch_changes(before, value, f"{path}{name}.")
        elif isinstance(value, Mapping) and value and before is None:
            yield from _patch_changes({}, value, f"{path}{name}.")
        elif isinstance(value, Mapping):
            yield FieldChange(f"{path}{name}", before, merge_patch(None, value))
        elif not same_json(before, value) or (value is None and name in old):
            yield FieldChange(f"{path}{name}", before, value)


def is_owned_by(owner: str, user_id: str, member_name: str = "") -> bool:
    """Return whether an RFP's owner, as people wrote it, is this user.

    Args:
        owner: the field's text.
        user_id: the user's Slack id.
        member_name: the user's name among the team's members. A display name proves nothing: users
            choose their own.
    """
    ids = re.findall(r"[A-Z0-9]+", owner)
    if user_id in ids:
        return True
    return bool(member_name.strip()) and owner.strip().casefold() == member_name.strip().casefold()


def _names_outcome(value: object, *, is_outcome: bool = False, is_note: bool = False) -> bool:
    """Return whether the value contains a final status at any depth, as a value or as a field's
    name (`{"won": true}`).

    `is_outcome`: it is the value of a field such as `status`, in which one of the words is enough.
    `is_note`: it is a note, whose text is free.
    """
    if isinstance(value, str):
        if is_outcome:
            return _outcome_words(value)
        return not is_note and not _plain_forms(value).isdisjoint(_OUTCOMES)
    if isinstance(value, list):
        return any(_names_outcome(each, is_outcome=is_outcome, is_note=is_note) for each in value)
    if not isinstance(value, Mapping):
        return False
    for name, each in value.items():
        named = not _OUTCOME_FIELDS.isdisjoint(_field_words(str(name)))
        if each not in (None, False, "", 0) and not is_note and _outcome_words(str(name)):
            return True
        if _names_outcome(each, is_outcome=named, is_note=is_note or str(name) in _NOTES):
            return True
    return False


def _names_money(value: object) -> bool:
    if isinstance(value, list):
        return any(map(_names_money, value))
    if not isinstance(value, Mapping):
        return False
    return any(
        not _MONEY_FIELDS.isdisjoint(_field_words(str(name))) or _names_money(each)
        for name, each in value.items()
    )


def _outcome_words(text: str) -> bool:
    """Return whether a final status is among the words of a text."""
    forms = [f" {each} " for each in _plain_forms(text)]
    return any(f" {outcome} " in form for outcome in _OUTCOMES for form in forms)


def _field_words(name: str) -> frozenset[str]:
    """Return the words of a field's name, in each of its forms."""
    return frozenset(" ".join(_plain_forms(name)).split())


def _plain_forms(text: str) -> frozenset[str]:
    """Return the words of a text or of a field's name, in lower case: `noBid`, `NO-BID` and
    `no_bid` are `no bid`.

    Two forms, with words divided at their capitals and without: `wOn` is `won` as well as `w on`.
    """
    normal = unicodedata.normalize("NFKC", text)
    shown = "".join(each for each in normal if unicodedata.category(each) != "Cf")
    forms = (shown, _CAMEL.sub(" ", shown))
    return frozenset(" ".join(_WORDS.findall(each.casefold())) for each in forms)


def json_problem(value: object, max_bytes: int) -> str:
    """Return the reason why a value is refused, as the end of a sentence; empty for an acceptable
    object.
    """
    if not isinstance(value, dict):
        return "must be a JSON object"
    if _is_deeper(value, MAX_DEPTH):
        return f"nests more than {MAX_DEPTH} objects and lists"
    if (
        size := len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    ) > max_bytes:
        return f"has {size:,} bytes, and the maximum is {max_bytes:,}"
    return ""


def same_json(one: object, other: object) -> bool:
    """Return whether two values are the same JSON: 1, 1.0 and true differ, though Python compares
    them as equal.
    """
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_deeper(value: object, most: int) -> bool:
    """Compare the depth layer by layer, so that no input exceeds Python's recursion limit."""
    layer = [value]
    depth = 0
    while layer := [each for each in layer if isinstance(each, dict | list)]:
        if (depth := depth + 1) > most:
            return True
        layer = [
            inner
            for each in layer
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
    return False


# ---- Journal and events


class EntryKind(StrEnum):
    NOTE = "note"
    DECISION = "decision"
    SAID = "said"
    """An answer of the bot in a thread, without a change."""
    FAILED = "failed"
    """An attempt that did not succeed."""
    UNCHECKED = "unchecked"
    """An answer of a turn that had not loaded the RFP. It is kept for the admin and is no fact: no
    query of the journal returns it.
    """


@dataclass(frozen=True)
class JournalEntry:
    id: int
    rfp_id: str
    kind: EntryKind
    text: str
    author: Author
    created_at: datetime


@dataclass(frozen=True)
class Event:
    """An entry of the log: like a journal entry, with JSON in place of text."""

    id: int
    rfp_id: str
    event_type: str
    payload: JsonObject
    author: Author
    created_at: datetime


def validate_payload(payload: object) -> None:
    """Check an event's payload. Raises `RfpRefused` unless it is a JSON object within the
    limits.
    """
    if problem := json_problem(payload, MAX_PAYLOAD):
        raise RfpRefused(f"an event's payload {problem}: nothing was logged")


# ---- The team


@dataclass(frozen=True)
class TeamMember:
    """A person who answers RFPs. `user_id`: in Slack. `hours_per_week`: available for
    proposals.
    """

    user_id: str
    name: str
    email: str = ""
    role: str = ""
    biography: str = ""
    skills: tuple[str, ...] = ()
    hours_per_week: int = 0


class MemberNotFound(Permanent):
    """The team has no member of this name or id."""
