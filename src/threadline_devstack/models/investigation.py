"""The default script: an investigator that really calls its tools and concludes from what they return."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from threadline_devstack.models import case_file, search
from threadline_devstack.models.case_file import CaseFile, Message
from threadline_devstack.models.planted_bugs import Fault, recognise
from threadline_devstack.models.request import ToolResult
from threadline_devstack.models.script import Turn

MAX_FILES = 3
"""Files that are read: the fault is in one of the best, or it is none that the script knows."""
MAX_PAGES = 20
"""Pages of a conversation that are read; far more than a person writes."""
QUOTE = 300
"""Characters of one message that a summary quotes."""
QUOTES = 6_000
"""Characters of all messages in a summary; of many messages each is cut shorter, but none is left out."""

_CURSOR = re.compile(r'(?i)cursor"?[ :=]+"([^"\s]+)"')
_FENCED = re.compile(r"<message .*?</message>", re.DOTALL)
_OTHER_CASE = re.compile(r"\bBUG-\d+\b")


@dataclass(frozen=True)
class Insight:
    """What the files told: the best file and a line in it, and the fault if it was recognised there, mended or not."""

    path: str = ""
    line: int = 0
    fault: Fault | None = None
    mended: bool = False
    similar: tuple[str, ...] = ()


async def investigate(turn: Turn) -> None:
    """Ask when the report says too little, else search, read and conclude; edit only when a developer asked."""
    case = case_file.read(turn.prompts, turn.bug_id)
    if case.continuation:
        case = await _conversation(turn, case)
    if case.alarm:
        await _escalate(turn, case, *case.alarm)
    elif case.is_done:
        await _resolve(turn, case)
    else:
        insight = await _look(turn, case)
        if not insight.path and case.may_ask and not case.asked_before and not case.wants_fix:
            await _ask(turn, case)
        else:
            await _report(turn, case, insight)


async def _conversation(turn: Turn, case: CaseFile) -> CaseFile:
    cursor = ""
    for _ in range(MAX_PAGES):
        more = {"cursor": cursor} if cursor else {}
        page = await _use(turn, "mcp__bug__get_bug_conversations", bug_id=case.bug_id, **more)
        case = case.having_read(page.text)
        beyond = _CURSOR.search(_FENCED.sub("", page.text))
        if beyond is None or beyond[1] == cursor:
            break
        cursor = beyond[1]
    return case


async def _look(turn: Turn, case: CaseFile) -> Insight:
    words = search.content_words(message.text for message in case.of_people)
    if not words:
        return Insight()
    hits = await turn.call(
        "Grep",
        pattern=search.pattern(words),
        glob=search.SOURCES,
        output_mode="content",
        head_limit=500,
        **{"-i": True, "-n": True},
    )
    paths = search.ranked(hits.text, words)
    if not paths:
        return Insight()
    said = " ".join(message.text for message in case.of_reporter)
    similar = await _use(turn, "mcp__bug__find_similar_bugs", bug_id=case.bug_id, text=said, query=said, limit=3)
    others = tuple(dict.fromkeys(other for other in _OTHER_CASE.findall(similar.text) if other != case.bug_id))
    best = paths[:MAX_FILES]
    reads = await turn.call_together(*(("Read", {"file_path": _absolute(turn, path)}) for path in best))
    sources = {path: search.source(read.text) for path, read in zip(best, reads, strict=True)}
    if found := recognise(sources, words):
        path, fault = found
        mended = fault.mended_in(sources[path])
        return Insight(path, fault.line_in(sources[path]), fault, mended, similar=others)
    return Insight(paths[0], search.first_hit(hits.text, paths[0]), similar=others)


async def _ask(turn: Turn, case: CaseFile) -> None:
    await turn.finish(
        **_outcome(
            action="ask_reporter",
            title=_headline(case),
            summary=f"The report does not say where to look. {_quoted(case.of_reporter)}",
            confidence=0.1,
            clarification_question=(
                "Which part of the product is it, what did you do, and which values did you see and expect "
                "(for example the product, the quantity and a discount code)?"
            ),
        )
    )


async def _report(turn: Turn, case: CaseFile, insight: Insight) -> None:
    mended, fault = False, insight.fault
    if case.wants_fix and case.may_edit and fault and not insight.mended and "Edit" in turn.tools:
        mended = not (await _mend(turn, insight.path, fault)).is_error
    title = fault.title if fault else _headline(case)
    summary = " ".join([*_opening(case, mended), _conclusion(insight), _quoted(case.of_people)])
    if insight.path:
        await _use(
            turn,
            "mcp__bug__record_finding",
            bug_id=case.bug_id,
            title=title,
            detail=summary,
            file=insight.path,
            line=insight.line,
            severity="S2" if fault else "S3",
        )
    note = fault.cause if fault else "The report's words are here."
    await turn.finish(
        **_outcome(
            action="post_findings",
            title=title,
            summary=summary,
            root_cause=f"{fault.cause}." if fault else "",
            evidence=[{"file": insight.path, "line": insight.line, "note": note}] if insight.path else [],
            severity="S2" if fault else "S3",
            confidence=0.95 if fault else 0.3,
            recommended_actions=[
                fault.advice if fault else "Let somebody who knows this part read it.",
                *(f"Compare with {other}." for other in insight.similar),
            ],
            affected_components=[fault.component] if fault else [],
            for_reporter=_told(case, found=bool(fault)),
            fix_requested=case.wants_fix,
        )
    )


async def _mend(turn: Turn, path: str, fault: Fault) -> ToolResult:
    return await turn.call("Edit", file_path=_absolute(turn, path), old_string=fault.wrong, new_string=fault.right)


async def _escalate(turn: Turn, case: CaseFile, said: Message, word: str) -> None:
    await turn.finish(
        **_outcome(
            action="escalate",
            # Neither title nor summary repeats the message: it may hold the very secret that it is about.
            title=f"A person is needed: {word}",
            summary=f"This needs a person now: message {said.number}, by the {said.sender}, speaks of “{word}”.",
            severity="S1",
            confidence=0.9,
            for_reporter="Somebody will look at what you wrote before anything else is done.",
            recommended_actions=["Read the conversation with whoever owns security before anybody acts on it."],
        )
    )


async def _resolve(turn: Turn, case: CaseFile) -> None:
    summary = f"A developer says that this is settled. {_quoted(case.news)}"
    known = _record(await _use(turn, "mcp__bug__get_bug", bug_id=case.bug_id))
    title, severity = known.get("title") or _headline(case), known.get("severity", "S3")
    told = "The developers say that this is settled. Thank you for reporting it."
    await turn.finish(
        **_outcome(
            action="resolved", title=title, summary=summary, confidence=0.9, severity=severity, for_reporter=told
        )
    )


def _record(result: ToolResult) -> dict[str, Any]:
    """The case as `get_bug` told it; the CLI may have put a reminder of its own behind the JSON."""
    try:
        found, _ = json.JSONDecoder().raw_decode(result.text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


async def _use(turn: Turn, tool: str, /, **offered: Any) -> ToolResult:
    """Call a tool with those of the offered arguments that its schema knows; skip one that is not on offer."""
    if tool not in turn.tools:
        return ToolResult(tool, "")
    known: Mapping[str, Any] = turn.tools[tool].get("properties", {})
    return await turn.call(tool, **{name: value for name, value in offered.items() if name in known})


def _outcome(*, action: str, title: str, summary: str, **rest: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {
        "root_cause": "",
        "evidence": [],
        "severity": "S3",
        "confidence": 0.5,
        "clarification_question": "",
        "for_reporter": "",
        "recommended_actions": [],
        "affected_components": [],
        "fix_requested": False,
    }
    return {"action": action, "title": title, "summary": summary, **nothing, **rest}


def _opening(case: CaseFile, mended: bool) -> list[str]:
    told = ["The reporter did not answer in time; this is what the code alone shows."] if case.unanswered else []
    if mended:
        return [*told, "I changed the file as recommended; the test that covers it should pass now."]
    return told


def _told(case: CaseFile, *, found: bool) -> str:
    """For the reporter, who is told when it was they who wrote, and not at each word of the developers."""
    if not any(said.sender == "reporter" for said in case.news):
        return ""
    if found:
        return "I have found what is wrong, and the developers have it before them now."
    return "The developers have before them what you wrote, and what I could find out so far."


def _conclusion(insight: Insight) -> str:
    if insight.fault and insight.mended:
        return f"The change that mends this is made already ({insight.path}, line {insight.line})."
    if insight.fault:
        return f"{insight.fault.cause} ({insight.path}, line {insight.line})."
    if insight.path:
        return f"The closest code is {insight.path}, line {insight.line}; I see nothing there that explains the report."
    return "I found nothing in the code that fits the words of the report."


def _quoted(messages: list[Message]) -> str:
    room = min(QUOTE, QUOTES // max(1, len(messages)))
    quotes = (f"the {said.sender} wrote “{' '.join(said.text.split())[:room]}”" for said in messages)
    return f"What was said: {'; '.join(quotes)}." if messages else ""


def _headline(case: CaseFile) -> str:
    words = " ".join((case.of_reporter or case.of_people or [Message(0, "", "Report without text")])[0].text.split())
    return words[:80] or "Report without text"


def _absolute(turn: Turn, path: str) -> str:
    """The path as the file tools want it: Grep answers with paths below the workspace."""
    return path if path.startswith("/") or not turn.workspace else f"{turn.workspace.rstrip('/')}/{path}"
