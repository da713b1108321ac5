"""What a turn leaves behind: which tools did it, how others failed, and what was asked and answered.

What the whole team may recall holds no word of anybody: of a request only its kind, in words of a fixed list, and of a
failure its class. What was said is recalled in its own channel alone.
"""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from threadline.conversations.model.conversation import ExecutionStatus, OutcomeKind
from threadline.models.model import ToolKind
from threadline.operator.model.routing import MAX_QUESTION
from threadline.operator.prompt import redact_to_line, redacted_line
from threadline.operator.store import Memory, MemoryKind, StoredMemory, fact_keys
from threadline.slack.model import Thread
from threadline.threads.model import turn_id
from threadline.tools.model import ErrorCategory, ErrorCode
from threadline.tools.registry import wire_name

_REMEMBER = re.compile(r"\s*(?:please,?\s+)?remember(?:\s+that\b|\s*:)[\s,:]*(?P<what>\S.*)", re.IGNORECASE | re.DOTALL)
MAX_FAILURES = 5
MAX_PATTERNS = 5
ARROW = " → "
_PATTERN = 300  # bytes of a pattern as it is told
MAX_TOOLS = 12
"""Of a pattern; a longer one is told by its beginning."""
_REQUEST, _ANSWER, _FACT = 500, 400, 1_000  # characters of what was said that are kept
_SPOKEN, _LEAST = 10, 50  # how many are told by their names, and characters of each where there are many

_WITHOUT_ANSWER = (OutcomeKind.SUMMARISED, OutcomeKind.NO_ANSWER, OutcomeKind.STOPPED, OutcomeKind.FAILED)

_WORDS = {
    "append": "append", "approve": "approv", "assign": "assign", "book": "book", "build": "build", "cancel": "cancel",
    "case": "case", "change": "chang", "client": "client", "close": "close", "compare": "compar", "create": "creat",
    "deadline": "dead due", "decision": "deci", "delete": "delet", "digest": "digest", "estimate": "estimat",
    "event": "event", "file": "attach document file", "find": "find search", "follow": "follow", "history": "histor",
    "hours": "hour", "job": "job", "journal": "journal", "link": "bind link", "list": "list", "log": "log",
    "lost": "lost", "new": "new", "note": "note", "open": "open", "owner": "owner", "plan": "plan",
    "project": "project", "proposal": "propos", "remember": "remember", "reminder": "remind", "report": "report",
    "rfp": "bid brief opportunit rfp", "run": "run", "schedule": "cron schedul", "show": "show", "skill": "skill",
    "status": "stat", "submit": "submit", "summary": "summar", "task": "task", "team": "member team who",
    "ticket": "issue ticket", "title": "titl", "update": "patch set updat", "upload": "upload", "won": "win won",
}  # fmt: skip
"""The words that say the kind of a request, each with the beginnings of the words that it stands for."""
_KINDS = {beginning: word for word, beginnings in _WORDS.items() for beginning in beginnings.split()}
_MAX_BEGINNING = max(map(len, _KINDS))
_LOOKED_AT = 2_000
_MAX_WORDS = 8


@dataclass(frozen=True)
class ToolUse:
    """A call of a tool in a turn. `code` names its error, if it had one. `tool` is its own name, empty for none."""

    tool: str
    status: ExecutionStatus
    kind: ToolKind = ToolKind.CHANGE
    code: str = ""

    @property
    def succeeded(self) -> bool:
        return self.status in (ExecutionStatus.OK, ExecutionStatus.CACHED)


@dataclass(frozen=True)
class EndedTurn:
    """A turn, once it is over. `said`: who wrote what in it, in order, without what was deleted since. `user_id`: who
    it was for; `rfp_id`: what it was about; either may be empty. `whole`: nothing that it has read was deleted; else
    its answer may quote that."""

    thread: Thread
    turn: int
    user_id: str
    said: Sequence[tuple[str, str]]
    kind: OutcomeKind
    answer: str
    used: Sequence[ToolUse] = ()
    rfp_id: str = ""
    whole: bool = True

    @property
    def request(self) -> str:
        return "\n".join(text for _, text in self.said)


def extract_memories(end: EndedTurn) -> list[tuple[str, Memory]]:
    """What is to be remembered of a turn, each under its key; the same turn gives the same keys."""
    if end.kind is OutcomeKind.SILENT or not end.request.strip():
        return []
    key, about = turn_id(end.thread, end.turn), (end.thread.channel, end.rfp_id)
    told = (_pattern(end), _episode(end) if end.whole else None)
    made = [(key, each) for each in told if each]
    if end.kind not in _WITHOUT_ANSWER:  # facts: in the channel in which they were said
        wanted = ((user, _said(fact_to_remember(words), _FACT)) for user, words in end.said)
        facts = (
            Memory(MemoryKind.SEMANTIC, what, f"<@{user}> said: {what}", user, *about) for user, what in wanted if what
        )
        made += zip(fact_keys(key), facts, strict=False)
    return [*made, *((f"{key}:failed:{number}", each) for number, each in enumerate(_failures(end), start=1))]


def request_kind(request: str) -> str:
    """The words of the list that a request has, in its order, such as "update status rfp"; never any other word."""
    found = dict[str, None]()
    for word in re.findall(r"[a-z]+", request[:_LOOKED_AT].lower()):
        for length in range(min(len(word), _MAX_BEGINNING), 1, -1):
            if kind := _KINDS.get(word[:length]):
                if len(word) - length <= 5:  # an ending, and not another word that begins alike
                    found[kind] = None
                break
    return " ".join(list(found)[:_MAX_WORDS]) or "request"


def fact_to_remember(question: str) -> str:
    """What is to be remembered, as it was said ("remember that …", "remember: …"); empty when that is not asked for.
    "Remember to …" asks for a reminder, which is a job."""
    found = _REMEMBER.match(question[:MAX_QUESTION])
    return found["what"].strip() if found else ""


def recall_query(question: str) -> str:
    """The words by which memories are sought for a question: the kind that it is of, and its own."""
    return f"{request_kind(question)} {question}"


def error_class(code: str) -> str:
    """The class of an error by its code; what nobody knows is our own fault."""
    try:
        return ErrorCode(code).category
    except ValueError:
        return ErrorCategory.INTERNAL


def _pattern(end: EndedTurn) -> Memory | None:
    """The tools that led to an answer, in order; none where a change failed for good."""
    done = [each for each in end.used if each.succeeded]
    changed = {each.tool for each in done if not each.kind.read_only}
    failed = any(not (each.succeeded or each.kind.read_only or each.tool in changed) for each in end.used)
    if failed or not done or end.kind in _WITHOUT_ANSWER:
        return None
    names = [name for name, _ in groupby(wire_name(each.tool) for each in done)]  # those in a row once
    return _procedural(end, ARROW.join(names[:MAX_TOOLS]), " ".join(dict.fromkeys(names)))


def _failures(end: EndedTurn) -> list[Memory]:
    failed = dict.fromkeys((each.tool, each.status, each.code) for each in end.used if not each.succeeded)
    made = []
    for tool, status, code in list(failed)[:MAX_FAILURES]:
        name = wire_name(tool) if tool else "a tool that does not exist"
        unknown = status is ExecutionStatus.UNKNOWN
        fault = code or (ErrorCode.OUTCOME_UNKNOWN if unknown else ErrorCode.TOOL_EXECUTION_FAILED)
        kind = error_class(fault)
        recovered = any(each.tool == tool and each.succeeded for each in end.used)
        then = "Another call of it succeeded later in the turn." if recovered else _ADVICE[ErrorCategory(kind)]
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
    return Memory(MemoryKind.PROCEDURAL, search_text, text, user_id=end.user_id, error_class=failure)


def _episode(end: EndedTurn) -> Memory:
    """What was asked, what was done for it, and how the answer began: for its own channel alone."""
    asked, answered = _said(end.request, _REQUEST), _said(end.answer, _ANSWER)
    done = [each for each in end.used if each.succeeded]
    made = [each for each in done if not each.kind.read_only and each.kind is not ToolKind.SPEAK]
    changes = list(dict.fromkeys(wire_name(each.tool) for each in made))
    said = f"Changed by {', '.join(changes[:MAX_TOOLS])}." if changes else "Nothing was changed."
    text = f"{_asked_by(end)} {said} {_ENDED.get(end.kind, 'Answered')}: {answered}"
    return Memory(MemoryKind.EPISODIC, asked, text, end.user_id, end.thread.channel, end.rfp_id)


_ENDED = {OutcomeKind.STOPPED: "Stopped by a person", OutcomeKind.FAILED: "It failed"}


def _asked_by(end: EndedTurn) -> str:
    """Each with their own words; whoever wrote several messages in a row is named once."""
    in_a_row = groupby(end.said, key=lambda each: each[0])
    spoken = [(user, "\n".join(words for _, words in messages)) for user, messages in in_a_row]
    longest = max(_REQUEST // max(len(spoken), 1), _LEAST)
    told = [f"{f'<@{user}>' if user else 'Somebody'} asked: {_said(words, longest)}" for user, words in spoken]
    return " ".join(told[:_SPOKEN])


def _said(text: str, longest: int) -> str:
    """One line without secrets: redacted before it is cut."""
    line = redact_to_line(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


def format_tool_patterns(patterns: Sequence[StoredMemory], offered: Collection[str]) -> str:
    """The likest patterns, a line each: the kind of request, the tools in their order, how often, and when last.
    `patterns`: memories of tools that succeeded, the likest first; the same pattern may be there more than once.
    `offered`: the tools' names, as the model sees them: what names another one is of no use any more."""
    same: dict[str, list[StoredMemory]] = {}
    for each in patterns:
        if set(each.text.split(ARROW)) <= set(offered):
            same.setdefault(each.text, []).append(each)
    lines = []
    for tools, found in list(same.items())[:MAX_PATTERNS]:
        kind, last = found[0].search_text.split(" | ", 1)[0], max(each.created_at for each in found)
        often = "once" if len(found) == 1 else f"{len(found)} times"
        line = f"{kind}: {tools} ({often}, the last time on {last:%Y-%m-%d})"
        lines.append(f"- {redacted_line(line, _PATTERN)}")
    return "\n".join(lines)
