"""The MCP tools of one case, served to the agent in process. Each is bound to the case and limited
in time and size.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import structlog
from claude_agent_sdk import SdkMcpTool, ToolAnnotations

from threadline.cases.model import Severity
from threadline.errors import Permanent, Transient
from threadline.investigator.fences import parts
from threadline.investigator.queries import Loki, ReadOnlyQueries
from threadline.investigator.store import CaseReader
from threadline.privacy.redaction import redact, redact_value

SERVER = "bug"
LARGEST_RESULT = 19_000
"""Bytes of one result. The CLI would write a larger one to a file, which is gone when the session
is resumed.
"""
_SEARCHED = 10
"""Searched length of a text, as a multiple of its final length: marks may shorten it."""
PAGE = 20
"""Number of messages fetched at a time."""
RECORDS_TIMEOUT = 20.0
QUERIES_TIMEOUT = 45.0
"""Seconds for one call of a tool that reads a database or logs; `RECORDS_TIMEOUT`: the case."""

Arguments = Mapping[str, Any]
Answer = Callable[[Arguments], Awaitable[str]]


def case_tools(
    records: CaseReader, queries: ReadOnlyQueries | None, logs: Loki | None
) -> list[SdkMcpTool[Any]]:
    """Return the tools of one case, for one turn.

    Without `queries` or `logs` their tool does not exist.
    """
    case = _CaseTools(records)
    tools = [
        _tool(
            "get_bug_conversations",
            _CONVERSATIONS,
            _BUG_ID | _CURSOR,
            case.conversations,
            optional=_CURSOR,
        ),
        _tool("get_bug", "The record of the case.", _BUG_ID, case.case),
        _tool("find_similar_bugs", _SIMILAR, {"text": _string("What to look for.")}, case.similar),
        _tool("list_services", "All services of the catalogue.", {}, case.services),
        _tool("lookup_service_owner", _OWNER, {"name": _string("Its name.")}, case.owner),
        _tool("record_finding", _RECORD, _FINDING, case.record, writes=True),
    ]
    if queries:
        about = f"Run one SELECT on a read-only database. Sources: {', '.join(queries.names)}."
        tools.append(_tool("query_database", about, _QUERY, partial(_query, queries), slow=True))
    if logs:
        tools.append(_tool("search_logs", _LOGS, _SEARCH, partial(_search, logs), slow=True))
    return tools


def _tool(
    name: str,
    help_text: str,
    properties: dict[str, Any],
    answer: Answer,
    *,
    slow: bool = False,
    optional: Collection[str] = (),
    writes: bool = False,
) -> SdkMcpTool[Any]:
    """Return a tool that never raises: the SDK would show the model an exception's text
    unfiltered.
    """
    timeout = QUERIES_TIMEOUT if slow else RECORDS_TIMEOUT

    async def handle(given: dict[str, Any]) -> dict[str, Any]:
        try:
            async with asyncio.timeout(timeout):
                return _result(await answer(given))
        except (Permanent, Transient) as told:
            return _result(redact(str(told)), is_error=True)
        except TimeoutError:
            return _result(
                f"{name} gave no answer within {timeout:g} s. Go on without it, or ask for less.",
                is_error=True,
            )
        except Exception:  # noqa: BLE001 - logged; its text could hold what the model must not see
            structlog.get_logger().exception("tool_failed", tool=name)
            return _result(f"{name} failed. Go on without it.", is_error=True)

    schema = {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name not in optional],
        "additionalProperties": False,
    }
    return SdkMcpTool(name, help_text, schema, handle, ToolAnnotations(readOnlyHint=not writes))


def _result(text: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return a result as the model sees it; `text` holds no secrets.

    They are removed from each value before it becomes part of a text, since a rule must not reach
    from one person's words into another's, and JSON hides where a token begins.
    """
    data = text.encode()
    if len(data) > LARGEST_RESULT:
        beginning = data[: LARGEST_RESULT - 100].decode(errors="ignore")
        text = f"{beginning}\n(Cut here: the result is longer. Ask for less.)"
    return {"content": [{"type": "text", "text": text}], "is_error": is_error}


class _CaseTools:
    def __init__(self, records: CaseReader) -> None:
        self._records = records

    async def conversations(self, given: Arguments) -> str:
        """Return one page of fenced messages.

        Its cursor is `<parts to skip>:<the records' cursor>`: a page of the records may not fit
        into one result, and neither may a single message.
        """
        self._check_case(given)
        skip, at = _cursor(given.get("cursor") or "")
        page = await self._records.conversation(at, PAGE)
        fenced = [
            part
            for entry in page.entries
            for part in parts(replace(entry, text=redact(entry.text)))
        ][skip:]
        shown = _fill(fenced)
        if len(shown) < len(fenced):
            follow: str | None = f"{skip + len(shown)}:{at or ''}"
        else:
            follow = None if page.next_cursor is None else f"0:{page.next_cursor}"
        end = (
            f'There is more: call again with cursor "{follow}".'
            if follow
            else "This is the end of the conversation."
        )
        return "\n".join([*shown, end])

    async def case(self, given: Arguments) -> str:
        self._check_case(given)
        return _json(await self._records.case())

    async def similar(self, given: Arguments) -> str:
        found = await self._records.similar(given["text"], 5)
        return _json(found) if found else "No similar case is on record."

    async def services(self, _given: Arguments) -> str:
        return _json([asdict(service) for service in await self._records.services()])

    async def owner(self, given: Arguments) -> str:
        service = await self._records.service(given["name"])
        if service is None:
            raise Permanent(
                f"No service is called {given['name']!r}: list_services names them all."
            )
        return _json(asdict(service))

    async def record(self, given: Arguments) -> str:
        await self._records.record_finding(**redact_value(given))
        return "Recorded."

    def _check_case(self, given: Arguments) -> None:
        if given["bug_id"].strip() != self._records.bug_id:
            raise Permanent(f"This session works on {self._records.bug_id} alone: use its id.")


def _cursor(text: str) -> tuple[int, str | None]:
    skip, _, at = text.partition(":")
    if text and not (skip.isdecimal() and ":" in text):
        raise Permanent(
            "This cursor is unknown: use one that an earlier call gave, or leave it out."
        )
    return int(skip or 0), at or None


def _fill(fenced: list[str]) -> list[str]:
    # Leaves room for the last line, and for the text's envelope on its way.
    shown = 0
    room = LARGEST_RESULT - 500
    while shown < len(fenced) and (room := room - len(fenced[shown].encode()) - 1) >= 0:
        shown += 1
    return fenced[:shown]


async def _query(queries: ReadOnlyQueries, given: Arguments) -> str:
    table = await queries.query(given["source"], given["sql"], given["limit"])
    names = list(table.columns)
    rows = [
        [_cell(name, value) for name, value in zip(names, row, strict=True)] for row in table.rows
    ]
    return _json({"columns": names, "rows": rows, "truncated": table.truncated})


async def _search(logs: Loki, given: Arguments) -> str:
    lines = await logs.search(given["query"], given["minutes"], given["limit"])
    return "\n".join(_cut(line, 1000) for line in lines) or "No line matches."


def _cell(column: str, value: object) -> str | int | float | bool | None:
    if isinstance(value, int | float | bool | None):
        return value
    return str(redact_value(_cut(str(value), 500), field=column))


def _cut(text: str, length: int) -> str:
    """Return the beginning of a text, shortened only after its secrets are removed.

    No rule recognises half a token. A row may hold megabytes: the search stops at the part that
    can come to be shown.
    """
    return redact(text[: _SEARCHED * length])[:length]


def _json(value: object) -> str:
    return json.dumps(redact_value(value), ensure_ascii=False, default=str)


def _string(description: str) -> dict[str, Any]:
    return {"type": "string", "description": description}


def _count(description: str, most: int) -> dict[str, Any]:
    return {"type": "integer", "minimum": 1, "maximum": most, "description": description}


_CONVERSATIONS = (
    "The case's whole conversation so far, oldest message first, page by page, including what "
    "arrived after this turn"
    " began. Call it at the start of each turn."
)
_SIMILAR = "Earlier cases that read like a text: a symptom, an error message."
_OWNER = "Who answers for a service, and in which channel."
_RECORD = "Keep a discovery on the case's record at once, whatever becomes of this turn."
_LOGS = "Search the services' logs, newest line first."
_BUG_ID = {"bug_id": _string("The id of the case you work on, such as BUG-12.")}
_CURSOR = {"cursor": _string("From the end of the page before; leave it out for the first page.")}
_FINDING = {
    "title": _string("One line."),
    "detail": _string("What was found and how it is known."),
    "file": _string("Relative to the working folder; may be empty."),
    "line": {"type": "integer", "minimum": 0, "description": "0 for the whole file."},
    "severity": {"type": "string", "enum": [severity.value for severity in Severity]},
}
_QUERY = {
    "source": _string("Its name."),
    "sql": _string("One statement."),
    "limit": _count("Rows.", 100),
}
_SEARCH = {
    "query": _string("Words that must occur."),
    "minutes": _count("How far back.", 7 * 24 * 60),
    "limit": _count("Lines.", 200),
}
