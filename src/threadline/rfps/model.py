"""Requests for proposals (RFPs): ids, facts, the state of the opportunity, journal and events, and the team."""

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
MAX_TITLE, MAX_CLIENT, MAX_OWNER = 300, 200, 100
"""Characters; what is longer is refused."""
MAX_SOURCE_TEXT = 1_000_000
"""Characters of a file's text that are kept; of these the first 200,000 are searched."""
MAX_PATCH, MAX_STATE = 64_000, 256_000
"""Bytes as JSON. A larger patch, or one that makes the state larger, is refused."""
MAX_DEPTH = 20
"""Objects and lists within each other."""
MAX_ENTRY = 10_000
"""Characters of a journal entry; a longer one is refused."""
MAX_PAYLOAD = 64_000
"""Bytes of an event's payload as JSON; a larger one is refused."""
MAX_EVENT_TYPE = 100

# ---- Ids -------------------------------------------------------------------------------------------------------------

RFP_ID = "rfp_id"
"""The parameter by which a tool names the RFP that it is about."""
MAX_ID = 64
"""Characters of an id; what is longer is none."""
NOT_IDS = frozenset({"rfp_list", "rfp_search", "rfp_get", "rfp_create_from_slack_file"})
"""Tools: who names one in a message names no RFP."""

_STORED_ID = re.compile(r"rfp_[a-z0-9]{3,40}")
_FILES = "pdf|docx?|xlsx?|pptx?|csv|txt|md|rtf|odt|html?|json|zip|eml|msg|png|jpe?g"
_MORE = "(?:_+|-)[A-Za-z0-9]"
_ID = rf"[rR][fF][pP]_[A-Za-z0-9]+(?:{_MORE}+)*(?![A-Za-z0-9]|{_MORE})"
"""As long as it can be: of `rfp_7-b` nobody takes `rfp_7`, which may be another record. By a look ahead: a possessive
group takes too much before Python 3.11.5 (python/cpython#106052)."""
_IN_TEXT = re.compile(rf"(?<![A-Za-z0-9])(?<![A-Za-z0-9]_){_ID}(?!@|\.(?i:{_FILES})(?![A-Za-z0-9]))")
"""Also in `_italics_`; a file's name (`rfp_answer.pdf`) or a mail address is no id."""
_ALONE = re.compile(_ID)
_MENTION = re.compile(r"<[@#!][^<>]*>")
"""Slack's markup of a person, a group or a channel, which may be called `rfp_team`."""


class ScopeSource(StrEnum):
    """Where a scope was found."""

    MESSAGE = "message"
    BINDING = "binding"
    """Of the thread."""
    NONE = "none"


@dataclass(frozen=True)
class Scope:
    """The RFP that a request is about. `others` are further ids of the message, in its order: who wrote them has to be
    told that the first one counts."""

    rfp_id: str = ""
    origin: ScopeSource = ScopeSource.NONE
    others: tuple[str, ...] = ()


def named_rfp(arguments: object) -> str:
    """Return the RFP that a tool's arguments name in `rfp_id`; empty if they name none."""
    named = getattr(arguments, RFP_ID, "")
    return named if isinstance(named, str) else ""


def rfp_id_in(arguments: Mapping[str, object]) -> str:
    """As `named_rfp`, of arguments as they were written."""
    named = arguments.get(RFP_ID)
    return named.strip().lower() if isinstance(named, str) else ""


def find_rfp_ids(text: str) -> tuple[str, ...]:
    """The ids in a text, each once, in the order in which they stand there, in lower case; the first one counts. One in
    a block of code, in a link's address or its label is an id like any other. Whether there are such RFPs, the database
    knows."""
    named = (found.group().lower() for found in _IN_TEXT.finditer(_MENTION.sub(" ", text)))
    return tuple(dict.fromkeys(each for each in named if len(each) <= MAX_ID and each not in NOT_IDS))


def contains_only_rfp_ids(text: str) -> bool:
    """Whether a text is an id, or several, and besides that blanks and marks alone."""
    return bool(find_rfp_ids(text)) and not re.search(r"[^\W_]", _IN_TEXT.sub(" ", text))


def parse_rfp_id(word: str) -> str:
    """The id that a word is, in lower case; empty when it is none, such as the `rfp_...` of a hint."""
    return word.lower() if len(word) <= MAX_ID and _ALONE.fullmatch(word) else ""


def _argument(text: str) -> str:
    if not text.strip():
        raise ValueError("expected an id such as rfp_abc123")
    return text.strip().lower()


RfpId = Annotated[
    str, AfterValidator(_argument), Field(min_length=1, max_length=MAX_ID, description="Its id, such as rfp_abc123.")
]
"""A tool's parameter. In small letters behind this: the protocol compares ids as they are."""


def is_rfp_id(text: str) -> bool:
    """Whether an RFP may be stored under this id; there may be none such."""
    return _STORED_ID.fullmatch(text) is not None


def resolve_scope(text: str, bound: str = "") -> Scope:
    """The first id of the message, else the RFP that its thread is `bound` to, else none."""
    first, *others = find_rfp_ids(text) or ("",)
    if first:
        return Scope(first, ScopeSource.MESSAGE, tuple(others))
    return Scope(bound, ScopeSource.BINDING) if bound else Scope()


# ---- RFPs and their facts --------------------------------------------------------------------------------------------


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
"""As long as it has one of these, somebody may have something to do."""


@dataclass(frozen=True)
class RfpFacts:
    """What lists of RFPs show. They stand in the state's document, under these names, and are changed there."""

    title: str
    client: str = ""
    due_date: date | None = None
    status: RfpStatus = RfpStatus.NEW
    owner: str = ""


FACTS = ("title", "client", "due_date", "status", "owner")
"""The names of the facts in a state's document."""


@dataclass(frozen=True, kw_only=True)
class Rfp(RfpFacts):
    """`source_name`: the file that it was made from; empty when there was none."""

    rfp_id: str
    source_name: str
    created_by: str
    created_at: datetime


@dataclass(frozen=True)
class SourceFile:
    """`sha256`: of the file's bytes, in hexadecimal; `text`: what could be read in it."""

    name: str
    sha256: str
    text: str


@dataclass(frozen=True)
class CreatedRfp:
    """`new` is False where the team had made an RFP from the same file before: it is that one."""

    rfp: Rfp
    new: bool


@dataclass(frozen=True)
class RfpUsage:
    """What an RFP holds, which its deletion removes or keeps: the `characters` of its file's text, the `version` of its
    state (0 without one), the `entries` in its journal and the `events` in its log."""

    rfp: Rfp
    characters: int
    version: int
    entries: int
    events: int


class RfpNotFound(Permanent):
    """The team has no RFP of the id `sought`, or has it no more; `nearest` are the ids that look most like it."""

    def __init__(self, sought: str, nearest: Sequence[str] = (), *, deleted: bool = False) -> None:
        self.sought, self.nearest, self.deleted = sought, tuple(nearest), deleted
        said = f"{sought} was deleted" if deleted else f"there is no RFP {sought}"
        hint = f"did you mean {' or '.join(nearest)}?" if nearest else "list the RFPs to find its id"
        super().__init__(f"{said}; {hint}")


class RfpRefused(Permanent):
    """What was given is incomplete, too large, does not have its form, or is for an older version."""


def parse_status(words: str) -> RfpStatus:
    """The status that is named, as `Proposal submitted`. Raises `RfpRefused`."""
    try:
        return RfpStatus("_".join(re.split(r"[\s_-]+", words.strip().lower())))
    except ValueError as exc:
        raise RfpRefused(f"{words[:60]!r} is not an RFP status: use one of {', '.join(RfpStatus)}") from exc


def validate_facts(facts: RfpFacts) -> RfpFacts:
    """The facts with white space normalised. Raises `RfpRefused`."""
    title = _line("title", facts.title, MAX_TITLE)
    if not title:
        raise RfpRefused("an RFP needs a title")
    client, owner = _line("client", facts.client, MAX_CLIENT), _line("owner", facts.owner, MAX_OWNER)
    return RfpFacts(title, client, facts.due_date, facts.status, owner)


def facts_from_document(document: Mapping[str, object]) -> RfpFacts:
    """The facts that a state's document holds. Raises `RfpRefused`: one is gone that must be, or has another form."""
    title, status = _text(document, "title"), _text(document, "status")
    if not status.strip():
        raise RfpRefused(f"an RFP needs a status: one of {', '.join(RfpStatus)}")
    client, owner, due = _text(document, "client"), _text(document, "owner"), _text(document, "due_date").strip()
    try:
        due_date = date.fromisoformat(due) if due else None
    except ValueError as exc:
        raise RfpRefused(f"{due[:60]!r} is not a due date: write it as 2026-03-31") from exc
    return validate_facts(RfpFacts(title, client, due_date, parse_status(status), owner))


def facts_to_document(facts: RfpFacts) -> dict[str, str]:
    """The facts as a state's document holds them: what is empty is not there."""
    named = {name: str(getattr(facts, name) or "") for name in FACTS}
    return {name: text for name, text in named.items() if text}


def status_words(status: str) -> str:
    """The status, or a kind of entry, as people read it."""
    return status.replace("_", " ")


def rfp_record(rfp: Rfp) -> dict[str, str]:
    """What the model reads of an RFP: only what there is to tell."""
    return {"rfp_id": rfp.rfp_id} | facts_to_document(rfp)


def rfp_group(records: Sequence[Mapping[str, str]]) -> tuple[RecordGroup, ...]:
    """The records as people are shown them."""
    return record_group("rfps", ({**each, "status": status_words(each["status"])} for each in records))


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


# ---- JSON, and the state of an opportunity ---------------------------------------------------------------------------

JsonObject = dict[str, Any]


@dataclass(frozen=True)
class OpportunityState:
    """One JSON document, changed by merge patches. `updated_by` and `correlation_id` are empty as long as nothing but
    the RFP's own facts stand in it."""

    rfp_id: str
    version: int
    document: JsonObject
    updated_by: str
    correlation_id: str
    updated_at: datetime


def merge_patch(target: object, patch: object) -> Any:
    """JSON Merge Patch (https://www.rfc-editor.org/rfc/rfc7396#section-2); neither argument is changed."""
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
    """The patch, where it may be applied. Raises `RfpRefused`: it is no object, is empty, too large or too deep."""
    if not isinstance(patch, dict) or not patch:
        raise RfpRefused('a patch must be a JSON object with the changes, such as {"status": "won"}')
    if problem := json_problem(patch, MAX_PATCH):
        raise RfpRefused(f"the patch {problem}: nothing was changed")
    return patch


def apply_patch(document: JsonObject, patch: object) -> tuple[JsonObject, RfpFacts]:
    """The document after the patch, and the facts in it. Raises `RfpRefused`."""
    result: JsonObject = merge_patch(document, validate_patch(patch))
    if problem := json_problem(result, MAX_STATE):
        raise RfpRefused(f"with this patch the document {problem}: nothing was changed")
    facts = facts_from_document(result)
    return {name: each for name, each in result.items() if name not in FACTS} | facts_to_document(facts), facts


_NOTES = {"notes", "note", "summary", "next_steps", "next_step", "tasks", "open_questions", "questions", "risks"}
_NOTES |= {"tags", "links", "contacts", "highlights", "history", "comments"}
"""Fields of a state in which people keep what they know: writing there binds nobody. To empty one is of medium risk."""
_OUTCOME_FIELDS = frozenset({"status", "stage", "state", "outcome", "decision", "result", "verdict", "phase"})
_OUTCOMES = ("won", "lost", "cancelled", "canceled", "nobid", "no bid")
_MONEY_FIELDS = frozenset(
    {"amount", "bid", "budget", "cost", "costs", "discount", "fee", "fees", "margin", "money", "price", "prices"}
    | {"pricing", "quote", "rate", "rates", "revenue", "tax", "total", "totals", "value"}
)
_WORDS = re.compile(r"[^\W\d_]+")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def status_risk(before: RfpStatus, after: RfpStatus) -> Risk:
    """Return the risk of a changed status: high where a final status is set or left."""
    if before is after or (before in OPEN and after in OPEN):
        return Risk.LOW
    return Risk.HIGH


def patch_risk(patch: JsonObject, document: Mapping[str, object] | None = None, is_own: bool = True) -> Risk:
    """Return the risk of a patch by its words: high where one names a final status, low where it only adds notes.

    Old values count as new ones do: a patch may remove or replace the parent of a field.

    Args:
        document: the state before the patch.
        is_own: whether the RFP has no owner, or belongs to whoever asks. Money and ownership of
            somebody else's RFP are of high risk.
    """
    changes = patch_changes(document or {}, patch)
    values = [_in_its_place(each.field, value) for each in changes for value in (each.old, each.new)]
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
    """Return the risk of an event, which other systems read: high where it tells of a final status, or of an approval,
    whose events Threadline writes itself."""
    tells_of_approval = any(each.startswith("action ") for each in _plain_forms(event_type))
    if tells_of_approval or _outcome_words(event_type):
        return Risk.HIGH
    return Risk.HIGH if _names_outcome(payload) else Risk.LOW


def patch_changes(document: Mapping[str, object], patch: Mapping[str, object]) -> tuple[FieldChange, ...]:
    """Return what a merge patch changes in a document, by path (`budget.total`), without what stays the same."""
    return tuple(_patch_changes(document, patch, ""))


def _patch_changes(old: Mapping[str, object], patch: Mapping[str, object], path: str) -> Iterator[FieldChange]:
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
    """Whether an RFP's owner, as people wrote it, is this user.

    Args:
        member_name: the user's name among the team's members. A display name proves nothing:
            everybody chooses their own.
    """
    ids = re.findall(r"[A-Z0-9]+", owner)
    if user_id in ids:
        return True
    return bool(member_name.strip()) and owner.strip().casefold() == member_name.strip().casefold()


def _names_outcome(value: object, *, is_outcome: bool = False, is_note: bool = False) -> bool:
    """Whether a final status stands in it at any depth, as a value or as a field's name (`{"won": true}`).

    `is_outcome`: it is the value of a field such as `status`, in which one of the words is enough.
    `is_note`: it is a note, in which people may write what they like.
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
        not _MONEY_FIELDS.isdisjoint(_field_words(str(name))) or _names_money(each) for name, each in value.items()
    )


def _outcome_words(text: str) -> bool:
    """Whether a final status is among the words of a text."""
    forms = [f" {each} " for each in _plain_forms(text)]
    return any(f" {outcome} " in form for outcome in _OUTCOMES for form in forms)


def _field_words(name: str) -> frozenset[str]:
    """Return the words of a field's name, in each of its forms."""
    return frozenset(" ".join(_plain_forms(name)).split())


def _plain_forms(text: str) -> frozenset[str]:
    """Return the words of a text or of a field's name, in lower case: `noBid`, `NO-BID` and `no_bid` are `no bid`.

    Two forms, with words divided at their capitals and without: `wOn` is `won` as well as `w on`.
    """
    normal = unicodedata.normalize("NFKC", text)
    shown = "".join(each for each in normal if unicodedata.category(each) != "Cf")
    forms = (shown, _CAMEL.sub(" ", shown))
    return frozenset(" ".join(_WORDS.findall(each.casefold())) for each in forms)


def json_problem(value: object, max_bytes: int) -> str:
    """Why it is not kept, as the end of a sentence; empty when it is an object that may be."""
    if not isinstance(value, dict):
        return "must be a JSON object"
    if _is_deeper(value, MAX_DEPTH):
        return f"nests more than {MAX_DEPTH} objects and lists"
    if (size := len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))) > max_bytes:
        return f"has {size:,} bytes, and the maximum is {max_bytes:,}"
    return ""


def same_json(one: object, other: object) -> bool:
    """Whether they are the same JSON: 1, 1.0 and true are not, though Python takes them for equal."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_deeper(value: object, most: int) -> bool:
    """Layer by layer, so that no depth is too deep to be looked at."""
    layer, depth = [value], 0
    while layer := [each for each in layer if isinstance(each, dict | list)]:
        if (depth := depth + 1) > most:
            return True
        layer = [inner for each in layer for inner in (each.values() if isinstance(each, dict) else each)]
    return False


# ---- Journal and events ----------------------------------------------------------------------------------------------


class EntryKind(StrEnum):
    NOTE = "note"
    DECISION = "decision"
    SAID = "said"
    """What the bot told in a thread without having changed anything."""
    FAILED = "failed"
    """What was attempted and did not succeed."""


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
    """As a journal's entry, with JSON in the place of words."""

    id: int
    rfp_id: str
    event_type: str
    payload: JsonObject
    author: Author
    created_at: datetime


def validate_payload(payload: object) -> None:
    """Raises `RfpRefused`: it is no JSON object, or is too large or too deep."""
    if problem := json_problem(payload, MAX_PAYLOAD):
        raise RfpRefused(f"an event's payload {problem}: nothing was logged")


# ---- The team --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TeamMember:
    """Somebody who answers RFPs. `user_id`: in Slack; `hours_per_week`: those that are there for proposals."""

    user_id: str
    name: str
    email: str = ""
    role: str = ""
    biography: str = ""
    skills: tuple[str, ...] = ()
    hours_per_week: int = 0


class MemberNotFound(Permanent):
    """The team has nobody of this name or id."""
