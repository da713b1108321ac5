"""The operator's sentences: how an opportunity stands, what was changed, and what a request is about."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from threadline_devstack.models.copilot_arguments import parsed
from threadline_devstack.models.copilot_words import quoted, told
from threadline_devstack.models.operator_request import rfp_ids, said, wanted

_NEWEST = 3
"""Entries or events that an answer tells."""
_REQUEST = "The request:"
_TOLD = frozenset({"title", "client", "owner", "status", "due_date"})


def data(text: str) -> Mapping[str, Any]:
    """A result's data; empty where it has none."""
    found = parsed(text)
    inner = found.get("data") if isinstance(found, Mapping) else None
    return inner if isinstance(inner, Mapping) else {}


def trouble(text: str) -> str:
    """What stood in the way, in a sentence that begins with a small letter where it can."""
    found = parsed(text)
    error = found.get("error") if isinstance(found, Mapping) else None
    words = str(error["message"]) if isinstance(error, Mapping) and error.get("message") else told(text)
    return words if words.endswith(("?", "!", ".")) else f"{words}."


def named(rfp_id: str, loaded: Mapping[str, Any]) -> str:
    title = _facts(loaded).get("title")
    return f"`{rfp_id}` ({title})" if title else f"`{rfp_id}`"


def standing(rfp_id: str, loaded: Mapping[str, Any], question: str) -> str:
    """How it stands, and what else of its state, its journal or its log the question names."""
    facts = _facts(loaded)
    owner = f" Its owner is {facts['owner']}." if facts.get("owner") else ""
    due = f" Proposals are due on {facts['due_date']}." if facts.get("due_date") else ""
    client = f" of {facts['client']}" if facts.get("client") else ""
    first = f"{named(rfp_id, loaded)}{client} is {_plain(facts.get('status', 'there'))}.{due}{owner}"
    return " ".join([first, *_asked_for(loaded, question.lower())])


def changed(rfp_id: str, patched: Mapping[str, Any]) -> str:
    """What a patch has set, by its result."""
    parts = [
        f"the {_plain(name)} is {'empty' if value is None else _plain(value)}"
        for name, value in dict(patched.get("now") or {}).items()
    ]
    return f"Done: {' and '.join(parts) or 'nothing has changed'} for {named(rfp_id, patched)} now."


def decision(patched: Mapping[str, Any], words: str) -> str:
    """What the journal is to say of a change."""
    parts = [f"{name.replace('_', ' ')}: {_plain(value)}" for name, value in dict(patched.get("now") or {}).items()]
    return f"Changed, as it was asked for in the thread: {'; '.join(parts)}. The words were: “{quoted(words)}”"


def analysis(prompt: str) -> str:
    """What a request is about, in 2 to 4 sentences."""
    fenced = (prompt.partition(_REQUEST)[2] or prompt).strip()
    words = said(fenced.removeprefix("<request>").removesuffix("</request>")).strip()
    request, ids = wanted(words), rfp_ids(words)
    kind = "an action that changes records" if request.writes else "a query that changes nothing"
    about = f"It is about {ids[0]}." if ids else "It names no RFP."
    missing = f"Missing: {request.lacks}" if request.lacks else "Nothing seems to be missing."
    return f"The person asks for this: “{quoted(words, 160)}”, which is {kind}. {about} {missing}"


def _facts(loaded: Mapping[str, Any]) -> Mapping[str, Any]:
    found = loaded.get("rfp")
    return found if isinstance(found, Mapping) else {}


def _asked_for(loaded: Mapping[str, Any], question: str) -> Iterator[str]:
    asked = set(re.findall(r"[a-z]+", question))
    for name, value in dict(loaded.get("state") or {}).items():
        if name not in _TOLD and asked & set(name.lower().split("_")):
            yield f"{name.replace('_', ' ').capitalize()}: {quoted(str(value))}."
    entries = [str(each["text"]) for each in loaded.get("newest_journal_entries") or ()]
    if entries:
        shown = entries[:_NEWEST] if "journal" in asked else entries[:1]
        yield "The newest in its journal: " + " / ".join(f"“{quoted(each, 200)}”" for each in shown)
    events = [str(each["type"]) for each in loaded.get("newest_events") or ()]
    if events and asked & {"event", "events", "log", "happened"}:
        yield f"The newest events: {', '.join(events[:_NEWEST])}."


def _plain(value: object) -> str:
    return str(value).replace("_", " ")
