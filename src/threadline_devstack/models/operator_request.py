"""What a person asks of the operator: which RFP it is about, what is to change, and what is to be written down.

By words alone. What the script cannot read in them is looked up and told, and nothing is changed.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

_ID = re.compile(r"(?<![\w-])rfp_[a-z0-9]+(?:[_-][a-z0-9]+)*", re.IGNORECASE)
_ABOUT = re.compile(rf"(?i)(?:\b(?:of|for|in|on|about)\s+)?(?:\b(?:the\s+)?(?:rfp|opportunity)\s+)?{_ID.pattern}")
_MENTION = re.compile(r"<@[^>]*>\s*")
_WRITER = re.compile(r"^[^\n:]{1,100}\([UW]\w+\):\s*")
_ORDERED = r"add|append|write|note|put|record|enter"
_JOURNAL = re.compile(rf"(?i)\b(?:{_ORDERED})\b[^\n:]{{0,60}}?\bjournal\b|\bjournal entry\b")
_SAYS = re.compile(r"(?is)[^:\n\"“”]{0,80}?(?::|\bthat\b)\s*(?P<entry>\S.*)")
_QUOTED_IN = re.compile(rf"(?i)\b(?:{_ORDERED})\s+[\"“](?P<entry>[^\"”]+)[\"”]\s+(?:in|to|into)\s.{{0,20}}?\bjournal\b")
_EVENT = re.compile(
    r"(?i)\b(?:log|append|record|add)\s+(?:the |an |this |a )?event\b:?\s*"
    r"(?P<type>[\"“][^\"”]+[\"”]|[a-z][\w-]*(?: (?!for\b|of\b|in\b|on\b|and\b|with\b|rfp_)[a-z][\w-]*){0,4})?"
)
_PATCH = re.compile(r"(?is)\bpatch\b.*?(?:\bwith\b:?\s*(?P<literal>\S.*)|(?P<json>[{\[].*))")
_VERBS = r"set|change|update|move|put|adjust|extend|correct"
_NEXT = rf"(?:please\s+)?(?:{_VERBS}|mark|remove|clear|drop|log|add|tell|show|list|schedule|propose|the|its)\b"
_CLAUSE = re.compile(rf"[;\n]|(?<=[.!?])\s+|(?i:(?:,\s*(?:and\s+)?|\s+and\s+|\s+(?=then\b))(?:then\s+)?(?={_NEXT}))")
_TO = r"(?:(?:the|its|our)\s+)*(?P<field>[a-z][a-z' ]{0,30}?)\s+to\s+(?P<to>\S.*)"
_SET = re.compile(rf"(?i)\b(?:{_VERBS})\s+{_TO}")
_ALSO = re.compile(rf"(?i){_TO}")
_MARK = re.compile(r"(?i)\bmark(?:\s+(?:it|this|the rfp))?\s+as\s+(?P<to>\S.*)")
_REMOVE = re.compile(r"(?i)\b(?:remove|clear|drop)\s+(?:the|its)\s+(?P<field>client|owner|due date|deadline)\b")
_WITHOUT = re.compile(rf"(?i)\b(?:{_VERBS})\s+(?:the|its)\s+(?P<field>status|due date|deadline|client|owner|title)\W*$")
_ASKS = re.compile(r"(?i)\s*(?:what|which|who|when|where|why|how|is|are|was|were|do|does|did|has|have|should)\b")
_PROPOSES = re.compile(r"(?i)\bpropose\b")
_DATE = re.compile(r"\b\d{4}-\d\d-\d\d\b")
_KEYS = {"deadline": "due_date", "name": "title", "": "status", "state": "status"}
_TEXTS = frozenset({"title", "client", "owner", "status", "due_date"})
_BESIDE = frozenset({"rfp", "rfp's", "opportunity", "opportunity's", "state", "its", "the"})
"""Words before a field's name that are no part of it."""


@dataclass(frozen=True)
class Wanted:
    """A request.

    Args:
        words: as they were said, without the mention.
        rfp_id: what they are about; empty for none.
        patch: the text of a merge patch; empty for none. It is what people wrote, where they wrote one.
        entry: for the journal; None for none.
        event: an event's type, and its payload as JSON text or empty; None for none.
        lacks: the question that is to be asked before anything can be done.
        rest: the words that are left, for whatever else.
        proposes: the change is to be decided by somebody else.
    """

    words: str
    rfp_id: str = ""
    patch: str = ""
    entry: str | None = None
    event: tuple[str, str] | None = None
    lacks: str = ""
    rest: str = ""
    proposes: bool = False

    @property
    def writes(self) -> bool:
        return bool(self.patch or self.entry is not None or self.event or self.lacks)


def rfp_ids(text: str, tools: Sequence[str] = ()) -> list[str]:
    """The ids in a text, in order; a tool's name is none."""
    return [each.lower() for each in _ID.findall(text) if each not in tools]


def said(prompt: str) -> str:
    """A message without who wrote it, and without the mention."""
    return _MENTION.sub("", _WRITER.sub("", prompt)).strip()


def wanted(words: str) -> Wanted:
    """What one message asks for by itself."""
    rest, entry = _entry(words)
    rest, event = _event(rest)
    rest, patch, lacks = _patch(rest)
    if entry == "":
        lacks = lacks or "What should the journal say?"
    if event == ("", ""):
        lacks = lacks or "Which event should I log?"
    proposes = _PROPOSES.search(words) is not None
    return Wanted(words, "", patch, entry, event, lacks, rest.strip(" ,.;"), proposes)


def answered(before: Wanted, answer: str) -> Wanted:
    """An earlier request with what was asked back."""
    words, told = f"{before.words}\n{answer}", _ABOUT.sub("", answer).strip(" .")
    if not before.lacks or not told:
        return before
    if before.entry == "":
        return replace(before, words=words, entry=answer, lacks="")
    if before.event == ("", ""):
        return replace(before, words=words, event=(_type(told), ""), lacks="")
    field = _WITHOUT.search(_ABOUT.sub("", before.words).strip())
    key = _key(field["field"]) if field else "status"
    return replace(before, words=words, patch=json.dumps({key: _value(key, told)}), lacks="")


def _entry(text: str) -> tuple[str, str | None]:
    if quoted := _QUOTED_IN.search(text):
        return text[: quoted.start()] + text[quoted.end() :], quoted["entry"].strip()
    found = _JOURNAL.search(text)
    if found is None or _ASKS.match(text):
        return text, None
    says = _SAYS.match(text, found.end())
    return text[: found.start()], says["entry"].strip() if says else ""


def _event(text: str) -> tuple[str, tuple[str, str] | None]:
    found = _EVENT.search(text)
    if found is None or _ASKS.match(text):
        return text, None
    behind = text[found.end() :]
    payload, end = _json(behind)
    return text[: found.start()] + behind[end:], (_type(found["type"] or ""), payload)


def _patch(text: str) -> tuple[str, str, str]:
    """The rest, the patch, and what is missing of it."""
    if literal := _PATCH.search(text):
        given = literal["json"] or literal["literal"]
        found, _ = _json(given)
        return text[: literal.start()], found or given.strip(), ""
    changes: dict[str, Any] = {}
    lacks, left, ordered = "", [], False
    for clause in _CLAUSE.split(text):
        plain = " ".join(_ABOUT.sub("", clause).split())
        made = {} if _ASKS.match(plain) else dict(_changes(plain, ordered=ordered))
        missing = None if made else _WITHOUT.search(plain)
        changes |= made
        ordered = ordered or bool(made)
        if missing:
            lacks = f"To what should I set the {missing['field'].lower()}?"
        elif not made:
            left.append(plain)
    return "; ".join(filter(None, left)), json.dumps(changes, ensure_ascii=False) if changes else "", lacks


def _changes(clause: str, *, ordered: bool) -> Iterator[tuple[str, Any]]:
    """`ordered`: an earlier clause has the verb ("set … and the owner to …")."""
    if marked := _MARK.search(clause):
        yield "status", _value("status", marked["to"])
    elif removed := _REMOVE.search(clause):
        yield _key(removed["field"]), None
    elif found := _SET.search(clause) or (_ALSO.match(clause) if ordered else None):
        key = _key(found["field"])
        yield key, _value(key, found["to"])


def _key(field: str) -> str:
    words = [word for word in field.lower().split() if word not in _BESIDE]
    name = " ".join(words)
    return _KEYS.get(name, name.replace(" ", "_"))


def _value(key: str, text: str) -> Any:
    plain = (
        re.sub(r"(?i)[\s,]*\bplease\b|(?:[\s,]*\b(?:and|then))+\W*$", "", text).strip().rstrip(".!?").strip("\"“”'` ")
    )
    if key == "due_date" and (day := _DATE.search(plain)):
        return day[0]
    if key not in _TEXTS and re.fullmatch(r"\d{1,15}", plain):
        return int(plain)
    return plain


def _type(text: str) -> str:
    return re.sub(r"[^\w.-]+", "_", text.strip('"“” ').lower()).strip("_")


def _json(text: str) -> tuple[str, int]:
    """The first JSON object or array in a text, as it is written there, and where it ends."""
    start = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if start < 0:
        return "", 0
    try:
        _, end = json.JSONDecoder().raw_decode(text[start:])
    except (ValueError, RecursionError):
        return "", 0
    return text[start : start + end], start + end
