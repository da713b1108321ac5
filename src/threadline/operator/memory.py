"""Extracts memories from a finished turn: the tools that succeeded, the failures, and the request
with its answer.

Memories that the whole team may recall contain no user text: of a request only its kind, in words
of a fixed list, and of a failure its class. Quotes are recalled only in their own channel.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from threadline.models.model import ToolKind
from threadline.operator.model.routing import MAX_QUESTION
from threadline.operator.prompt import redact_to_line, redacted_line
from threadline.operator.store import Memory, MemoryKind, StoredMemory, fact_keys
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.tools.model import ErrorCategory, ErrorCode, ToolStatus
from threadline.tools.registry import wire_name

_REMEMBER = re.compile(
    r"\s*(?:please,?\s+)?remember(?:\s+that\b|\s*:)[\s,:]*(?P<what>\S.*)",
    re.IGNORECASE | re.DOTALL,
)
MAX_FAILURES = 5
MAX_PATTERNS = 5
ARROW = " → "
# bytes of a pattern in the prompt
_PATTERN = 300
MAX_TOOLS = 12
"""Tools of a pattern; a longer one is cut."""
# characters that a memory keeps of people's texts and of the answer
_REQUEST = 500
_ANSWER = 400
_FACT = 1_000
# people that a memory names, and the least characters of each of their texts
_SPOKEN = 10
_LEAST = 50

_WORDS = {
    "append": "append", "approve": "approv", "assign": "assign", "book": "book", "build": "build",
    "cancel": "cancel", "case": "case", "change": "chang", "client": "client", "close": "close",
    "compare": "compar", "create": "creat", "deadline": "dead due", "decision": "deci",
    "delete": "delet", "digest": "digest", "estimate": "estimat", "event": "event",
    "file": "attach document file", "find": "find search", "follow": "follow", "history": "histor",
    "hours": "hour", "job": "job", "journal": "journal", "link": "bind link", "list": "list",
    "log": "log", "lost": "lost", "new": "new", "note": "note", "open": "open", "owner": "owner",
    "plan": "plan", "project": "project", "proposal": "propos", "remember": "remember",
    "reminder": "remind", "report": "report", "rfp": "bid brief opportunit rfp", "run": "run",
    "schedule": "cron schedul", "show": "show", "skill": "skill", "status": "stat",
    "submit": "submit", "summary": "summar", "task": "task", "team": "member team who",
    "ticket": "issue ticket", "title": "titl", "update": "patch set updat", "upload": "upload",
    "won": "win won",
}  # fmt: skip
"""The words that make up the kind of a request, each with the beginnings of the words that it
covers.
"""
_KINDS = {
    beginning: word for word, beginnings in _WORDS.items() for beginning in beginnings.split()
}
_MAX_BEGINNING = max(map(len, _KINDS))
_LOOKED_AT = 2_000
_MAX_WORDS = 8


class TurnEnd(StrEnum):
    """The end of a turn, as an episode names it."""

    ANSWERED = "Answered"
    SUMMARISED = "Ended with"
    """The model found no words, and the bot named what was done."""
    STOPPED = "Stopped by a person"
    FAILED = "It failed"


@dataclass(frozen=True)
class ToolUse:
    """A tool call of a turn. `tool`: the tool's own name, empty for an unknown one. `code`: the
    code of its error, if any.
    """

    tool: str
    status: ToolStatus
    kind: ToolKind = ToolKind.CHANGE
    code: str = ""

    @property
    def succeeded(self) -> bool:
        return self.status in (ToolStatus.OK, ToolStatus.CACHED)


@dataclass(frozen=True)
class EndedTurn:
    """A turn that is over.

    Args:
        user_id: the requester, or empty.
        said: each message's author and text, in order, without messages deleted since.
        how: its end.
        rfp_id: the RFP of the turn, or empty.
        whole: no message that the turn read was deleted; otherwise its answer may quote one.
    """

    thread: Thread
    turn: int
    user_id: str
    said: Sequence[tuple[str, str]]
    how: TurnEnd
    answer: str
    used: Sequence[ToolUse] = ()
    rfp_id: str = ""
    whole: bool = True

    @property
    def request(self) -> str:
        return "\n".join(text for _, text in self.said)


def extract_memories(end: EndedTurn) -> list[tuple[str, Memory]]:
    """Return the memories of a turn, each with its key; the same turn yields the same keys."""
    if not end.request.strip():
        return []
    key = turn_id(end.thread, end.turn)
    about = (end.thread.channel, end.rfp_id)
    told = (_pattern(end), _episode(end) if end.whole else None)
    made = [(key, each) for each in told if each]
    # facts: recalled in their own channel only
    if end.how is TurnEnd.ANSWERED:
        wanted = ((user, _said(fact_to_remember(words), _FACT)) for user, words in end.said)
        facts = (
            Memory(MemoryKind.SEMANTIC, what, f"<@{user}> said: {what}", user, *about)
            for user, what in wanted
            if what
        )
        made += zip(fact_keys(key), facts, strict=False)
    return [
        *made,
        *((f"{key}:failed:{number}", each) for number, each in enumerate(_failures(end), start=1)),
    ]


def request_kind(request: str) -> str:
    """Return the listed words that a request contains, in its order, such as "update status rfp";
    never any other word.
    """
    found = dict[str, None]()
    for word in re.findall(r"[a-z]+", request[:_LOOKED_AT].lower()):
        for length in range(min(len(word), _MAX_BEGINNING), 1, -1):
            if kind := _KINDS.get(word[:length]):
                # a longer rest makes another word with the same beginning
                if len(word) - length <= 5:
                    found[kind] = None
                break
    return " ".join(list(found)[:_MAX_WORDS]) or "request"


def fact_to_remember(question: str) -> str:
    """Return the fact of "remember that …" or "remember: …" as it was written; empty for other
    questions. "Remember to …" asks for a reminder, which is a job.
    """
    found = _REMEMBER.match(question[:MAX_QUESTION])
    return found["what"].strip() if found else ""


def recall_query(question: str) -> str:
    """Return the words that find memories for a question: the words of its kind and its own."""
    return f"{request_kind(question)} {question}"


def error_class(code: str) -> str:
    """Return the class of an error code; an unknown code is our own fault."""
    try:
        return ErrorCode(code).category
    except ValueError:
        return ErrorCategory.INTERNAL


def _pattern(end: EndedTurn) -> Memory | None:
    """Return the tools that led to an answer, in order; None if a change failed for good."""
    done = [each for each in end.used if each.succeeded]
    changed = {each.tool for each in done if not each.kind.read_only}
    failed = any(
        not (each.succeeded or each.kind.read_only or each.tool in changed) for each in end.used
    )
    if failed or not done or end.how is not TurnEnd.ANSWERED:
        return None
    # consecutive calls of one tool count once
    names = [name for name, _ in groupby(wire_name(each.tool) for each in done)]
    return _procedural(end, ARROW.join(names[:MAX_TOOLS]), " ".join(dict.fromkeys(names)))


def _failures(end: EndedTurn) -> list[Memory]:
    failed = dict.fromkeys(
        (each.tool, each.status, each.code) for each in end.used if not each.succeeded
    )
    made = []
    for tool, status, code in list(failed)[:MAX_FAILURES]:
        name = wire_name(tool) if tool else "a tool that does not exist"
        unknown = status is ToolStatus.UNKNOWN
        fault = code or (ErrorCode.OUTCOME_UNKNOWN if unknown else ErrorCode.TOOL_EXECUTION_FAILED)
        kind = error_class(fault)
        recovered = any(each.tool == tool and each.succeeded for each in end.used)
        then = (
            "Another call of it succeeded later in the turn."
            if recovered
            else _ADVICE[ErrorCategory(kind)]
        )
        made.append(_procedural(end, f"{name} failed with {fault} ({kind}). {then}", name, kind))
    return made


_ADVICE = {
    ErrorCategory.VALIDATION: "The same call will fail again: change it.",
    ErrorCategory.RATE_LIMIT: "It may succeed after a pause.",
    ErrorCategory.EXTERNAL: "Look whether it took effect before it is tried again.",
    ErrorCategory.INTERNAL: "Do without it, or try again later.",
}


def _procedural(end: EndedTurn, text: str, tools: str, failure: str = "") -> Memory:
    search_text = f"{request_kind(end.request)} | {tools}"
    return Memory(
        MemoryKind.PROCEDURAL, search_text, text, user_id=end.user_id, error_class=failure
    )


def _episode(end: EndedTurn) -> Memory:
    """Return the request, the changes made for it, and the beginning of the answer: for its own
    channel only.
    """
    asked = _said(end.request, _REQUEST)
    answered = _said(end.answer, _ANSWER)
    done = [each for each in end.used if each.succeeded]
    made = [each for each in done if not each.kind.read_only and each.kind is not ToolKind.SPEAK]
    changes = list(dict.fromkeys(wire_name(each.tool) for each in made))
    said = f"Changed by {', '.join(changes[:MAX_TOOLS])}." if changes else "Nothing was changed."
    text = f"{_asked_by(end)} {said} {end.how}: {answered}"
    return Memory(MemoryKind.EPISODIC, asked, text, end.user_id, end.thread.channel, end.rfp_id)


def _asked_by(end: EndedTurn) -> str:
    """Name each author with their text; consecutive messages of one author are joined."""
    in_a_row = groupby(end.said, key=lambda each: each[0])
    spoken = [(user, "\n".join(words for _, words in messages)) for user, messages in in_a_row]
    longest = max(_REQUEST // max(len(spoken), 1), _LEAST)
    told = [
        f"{f'<@{user}>' if user else 'Somebody'} asked: {_said(words, longest)}"
        for user, words in spoken
    ]
    return " ".join(told[:_SPOKEN])


def _said(text: str, longest: int) -> str:
    """Return one line without secrets: it is redacted before it is cut."""
    line = redact_to_line(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def format_tool_patterns(patterns: Sequence[StoredMemory], offered: Collection[str]) -> str:
    """Format the best matching patterns, one per line: the kind of request, the tools in order,
    how often they were used, and when last.

    Args:
        patterns: memories of tools that succeeded, the best match first; the same pattern may
            appear several times.
        offered: the tools' names as the model sees them; patterns with other tools are dropped.
    """
    same: dict[str, list[StoredMemory]] = {}
    for each in patterns:
        if set(each.text.split(ARROW)) <= set(offered):
            same.setdefault(each.text, []).append(each)
    lines = []
    for tools, found in list(same.items())[:MAX_PATTERNS]:
        kind = found[0].search_text.split(" | ", 1)[0]
        last = max(each.created_at for each in found)
        often = "once" if len(found) == 1 else f"{len(found)} times"
        line = f"{kind}: {tools} ({often}, the last time on {last:%Y-%m-%d})"
        lines.append(f"- {redacted_line(line, _PATTERN)}")
    return "\n".join(lines)
