"""The facts of a request that scripted exchanges match and quote: what people said, and what the request is about."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from threadline_devstack.models.request import ModelRequest

FACTS = frozenset(
    {
        *("prompt", "earlier", "system", "notes", "read_only", "rfp_id", "passage"),
        *("query", "query_tools", "sensitivity"),
        *("case", "news", "developers", "senders", "said", "headline"),
    }
)
"""The names that an exchange may match, all of them texts; empty where a request has nothing of the kind."""
QUOTE, QUOTES = 300, 6_000
"""Characters of one message that `said` quotes, and of all: of many messages each is cut shorter, none is left out."""

_WRITER = re.compile(r"^[^\n:]{1,100}\([UW]\w+\):\s*")
_MENTION = re.compile(r"<@[^>]*>\s*")
_RFP = re.compile(r"(?<![\w-])rfp_[a-z0-9]+(?:[_-][a-z0-9]+)*", re.IGNORECASE)
_SCOPE = re.compile(r"\brfp_id_scope: (rfp_[\w-]+)")
_BOUND = re.compile(r"\bThis thread is about [^\n]*?\brfp (rfp_[\w-]+)")
_READ_ONLY = re.compile(r"Read-only: (.+?)\. What would change")
_TURN = re.compile(r"^Case BUG-\d+, turn \d+ \(", re.MULTILINE)
_MESSAGE = re.compile(r"<message (?P<attributes>[^>\n]*)>\n(?P<text>.*?)\n?</message>", re.DOTALL)
_ATTRIBUTE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class CaseMessage:
    """One fenced message of a bug case; `sender` is reporter, developer or bot, `text` is in one line."""

    place: tuple[int, str]
    sender: str
    text: str
    is_read: bool


def facts_of(request: ModelRequest) -> dict[str, str]:
    """All `FACTS` of a request. They are the same at each step of one turn, but for what `case_facts` adds."""
    facts = dict.fromkeys(FACTS, "")
    facts |= {"system": request.system, "notes": "\n".join(request.notes)}
    if request.api == "messages":
        return facts | _bug_case(request.prompts)
    prompts = [_MENTION.sub("", _WRITER.sub("", prompt)).strip() for prompt in request.prompts] or [""]
    facts |= {"prompt": prompts[-1], "earlier": "\n".join(prompts[:-1]), "passage": _passage(request.notes)}
    facts["read_only"] = next(iter(_READ_ONLY.findall(facts["notes"])[-1:]), "")
    named = [each for each in _RFP.findall(prompts[-1]) if each not in request.tools]
    scope = _SCOPE.findall(request.system) or _BOUND.findall(facts["notes"])[-1:]
    facts["rfp_id"] = next(iter([*named, *scope]), "").lower()
    return facts | _form(request)


def case_facts(texts: Iterable[str]) -> dict[str, str]:
    """`said` and `headline` of the messages that are fenced in a turn's prompt and in what its tools returned."""
    known: dict[tuple[int, str], CaseMessage] = {}
    for text in texts:
        known |= {message.place: message for message in _messages(text)}
    people = [known[place] for place in sorted(known) if known[place].sender != "bot"]
    room = min(QUOTE, QUOTES // max(1, len(people)))
    quotes = "; ".join(f"the {message.sender} wrote “{message.text[:room]}”" for message in people)
    reports = [message.text for message in people if message.sender == "reporter"]
    headline = next(iter([*reports, *(message.text for message in people)]), "")[:80]
    return {
        "said": f"What was said: {quotes}." if quotes else "",
        "headline": headline or "Report without text",
    }


def _bug_case(prompts: Iterable[str]) -> dict[str, str]:
    """The turn's prompt is the last that begins as a turn does: an agent may be asked once more for its answer."""
    turns = [prompt for prompt in prompts if _TURN.search(prompt)] or list(prompts)[-1:] or [""]
    case = [message for prompt in turns for message in _messages(prompt) if message.sender != "bot"]
    news = [message for message in _messages(turns[-1]) if message.sender != "bot"]
    return {
        "prompt": turns[-1],
        "case": _lines(case),
        "news": _lines(message for message in news if not message.is_read),
        "developers": _lines(message for message in news if message.sender == "developer"),
        "senders": " ".join(dict.fromkeys(message.sender for message in news)),
        **case_facts(turns[-1:]),
    }


def _messages(text: str) -> list[CaseMessage]:
    """The fenced messages of a text; a prompt without any is one message of the reporter."""
    found = [(dict(_ATTRIBUTE.findall(each["attributes"])), each["text"]) for each in _MESSAGE.finditer(text)]
    return [
        CaseMessage(
            (int(given["number"]) if given.get("number", "").isdecimal() else 0, given.get("part", "")),
            given.get("from", "reporter"),
            " ".join(words.split()),
            given.get("read") == "yes",
        )
        for given, words in found
    ]


def _lines(messages: Iterable[CaseMessage]) -> str:
    return "\n".join(message.text for message in messages)


def _passage(notes: Iterable[str]) -> str:
    """The best passage of the documents that the turn was given."""
    for note in notes:
        _, found, passages = note.partition("\n")
        if note.startswith("[Decision]") and found:
            return " ".join(str(json.loads(passages)[0]["text"]).split())
    return ""


def _form(request: ModelRequest) -> dict[str, str]:
    """What a decision is asked about, which comes as JSON."""
    try:
        asked: Any = json.loads(request.prompt) if request.form else {}
    except ValueError:
        asked = {}
    if not isinstance(asked, Mapping):
        return {}
    return {
        "query": str(asked.get("query", "")),
        "query_tools": " ".join(asked.get("tools", ())),
        "sensitivity": "asks" if asked.get("sensitive_words_in_the_query") else "none",
    }
