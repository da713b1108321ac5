"""Renders the records of tool results as Slack blocks: one record as fields, several as a table.
Pure.

Limits: https://docs.slack.dev/reference/block-kit/blocks/table-block (100 rows, 20 cells a row,
10,000 characters in all cells of a message) and section-block (10 fields of 2,000 characters).
Slack also refuses a second table in a message (`only_one_table_allowed`), and an empty text; the
page mentions neither. All cells are rich text, since Slack refused plain ones for a while:
https://github.com/soxtoby/SlackNet/issues/246.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from threadline.privacy.redaction import redact
from threadline.slack.formatting import Block, context, defuse_mentions, escape_all, link, section
from threadline.slack.text import is_blank

MAX_GROUPS = 10
"""Groups of one answer; a line counts the further ones."""
MAX_TABLE_ROWS = 99
MOST_COLUMNS = 20
MOST_FIELDS = 10
"""A table's rows without its head, its columns, and the fields of a section."""
MAX_TABLE_CHARACTERS = 9_000
"""Characters in all cells of a table."""
COMPACT_ROWS = 10
MAX_COLUMN_TEXT = 3_000
"""Limits of the compact form, which shows records as lines of one section: its records and its
characters.
"""

MAX_CELL = 300
MAX_LABEL = 60
EMPTY = "–"
"""The text of a missing value: Slack refuses an empty cell or field."""

_SEARCHED = 8_000
"""Characters of a value that are searched for secrets, far more than are shown: no rule recognises
half of a secret.
"""
_MAX_DEPTH = 3
_MAX_WIDTH = 20
_MAX_INTEGER = 10**18
"""Larger whole numbers are not written out: Python refuses to print some."""
_INVISIBLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters, marks that reverse the order of a line, and lone surrogates."""
_ISO_TIME = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?")
_NAME_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[^\W_A-Z]+|[A-Z]")
_LOOKED_AT = MAX_TABLE_ROWS + 1
"""Records of one group that are read; further ones are only counted."""
_MAX_TEXT = 1_000
_MAX_URL = 1_000
_URLS = ("url", "html_url", "web_url", "permalink", "link")
_URL = re.compile(rf"https?://[^\s<>]{{1,{_MAX_URL}}}")
_NUMBER = re.compile(r"[+-]?[\d.,' ]*\d(?: ?%)?")


@dataclass(frozen=True)
class RenderedRecords:
    """Records of one kind: blocks with at most one table, and the same content in plain text.
    `lines`: blocks without a table if the records are few, else empty.
    """

    text: str
    blocks: tuple[Block, ...]
    lines: tuple[Block, ...] = ()

    @property
    def has_table(self) -> bool:
        return any(block["type"] == "table" for block in self.blocks)


@dataclass(frozen=True)
class _Kind:
    """A kind of record.

    Args:
        one: its name.
        first: the fields that come first.
        same: the fields that together identify a record, if it has all of them.
        many: its plural, unless an `s` makes it.
    """

    one: str
    first: tuple[str, ...] = ()
    same: tuple[str, ...] = ()
    many: str = ""

    def title(self, count: int) -> str:
        return self.one if count == 1 else f"{self.many or f'{self.one}s'} ({count:,})"


_APPOINTMENT = ("local", "time_zone", "resource", "title", "attendee", "starts_at", "ends_at")
_JOB = ("job_id", "job_type", "status", "when", "next", "rfp_id", "asked_by")
_QUOTE = (
    "quote",
    "subtotal",
    "discount_percent",
    "discount",
    "tax_percent",
    "tax",
    "total",
    "currency",
)
RECORD_KINDS = {
    "appointments": _Kind("Appointment", _APPOINTMENT, ("appointment_id",)),
    "slots": _Kind("Free slot", ("local", "time_zone", "resource", "starts_at", "ends_at")),
    "orders": _Kind("Order", ("order_id", "number", "status", "customer", "total"), ("order_id",)),
    "jobs": _Kind("Job", _JOB, ("job_id",)),
    "tickets": _Kind("Ticket", ("key", "summary", "title", "status", "assignee"), ("key",)),
    "builds": _Kind("Build", ("workflow", "title", "branch", "status", "conclusion"), ("id",)),
    "cases": _Kind("Case", ("bug_id", "title", "status", "severity"), ("bug_id",)),
    "projects": _Kind(
        "Project", ("name", "project_id", "currency", "locked"), ("project_id", "name")
    ),
    "wbs_items": _Kind("Work item", ("number", "title", "role", "days"), ("project_id", "number")),
    "roles": _Kind("Role", ("role", "name", "day_rate"), ("project_id", "role")),
    "quotes": _Kind("Quote", _QUOTE, ("project_id", "quote")),
    "rfps": _Kind(
        "RFP", ("rfp_id", "title", "client", "status", "due_date", "owner"), ("rfp_id",)
    ),
    "journal_entries": _Kind(
        "Journal entry", ("at", "kind", "text"), ("entry",), many="Journal entries"
    ),
    "rfp_events": _Kind("Event", ("at", "type", "details"), ("event",)),
    "leads": _Kind("Customer", ("name", "company", "stage", "email", "phone"), ("lead_id",)),
    "mails": _Kind("Email", ("draft_id", "to", "subject", "body"), ("draft_id",)),
    "team_members": _Kind(
        "Team member", ("name", "role", "skills", "hours_per_week"), ("user_id",)
    ),
}


@dataclass(frozen=True)
class _Row:
    cells: Mapping[str, str]
    url: str


@dataclass(frozen=True)
class _Group:
    """Records that are shown together.

    Args:
        key: groups with equal keys are merged.
        rows: by the values of the identifying fields, if all records have them, so that a repeated
            record is recognised; otherwise only a whole repeated group is.
        more: the number of records that were not read.
    """

    kind: _Kind
    key: object
    rows: dict[object, _Row]
    more: int

    def joined(self, later: "_Group") -> "_Group":
        # the same list again, so its unread records are the same, too
        again = later.rows.keys() <= self.rows.keys()
        more = max(self.more, later.more) if again else self.more + later.more
        return replace(self, rows=self.rows | later.rows, more=more)


def render_records(groups: Iterable[tuple[str, Sequence[object]]]) -> tuple[RenderedRecords, ...]:
    """Render the records of each group, in order of arrival; empty groups are omitted.

    Groups of one kind whose records have identifying fields are merged, and a repeated record
    appears in its latest state. Each group yields at least one block. The blocks notify no user.

    Args:
        groups: kinds with their records, oldest first. A record is a mapping; any other value is
            shown by itself.
    """
    merged: dict[object, _Group] = {}
    for name, records in groups:
        if records:
            new = _group(name, records)
            merged[new.key] = merged[new.key].joined(new) if new.key in merged else new
    each = [_shown(group) for group in islice(merged.values(), MAX_GROUPS)]
    if len(merged) > MAX_GROUPS:
        more = f"{len(merged) - MAX_GROUPS} more results are not shown. Ask me for one of them."
        each.append(RenderedRecords(more, (context(more),)))
    return tuple(each)


def _group(name: str, records: Sequence[object]) -> _Group:
    words = format_label(name)
    kind = RECORD_KINDS.get(name) or _Kind(words, many=words)
    rows = [_row(record) for record in records[:_LOOKED_AT]]
    more = max(0, len(records) - _LOOKED_AT)
    if kind.same and all(each in row.cells for row in rows for each in kind.same):
        by_name: dict[object, _Row] = {
            tuple(row.cells[each] for each in kind.same): row for row in rows
        }
        return _Group(kind, name, by_name, more)
    told = tuple(tuple(row.cells.items()) for row in rows)
    return _Group(kind, (name, told, more), dict(enumerate(rows)), more)


def _shown(group: _Group) -> RenderedRecords:
    kind = group.kind
    rows = list(group.rows.values())
    columns, more_columns = _columns(kind, rows)
    count = len(rows) + group.more
    title = kind.title(count)
    values = [_values(columns, row) for row in rows]
    text = "\n".join([title, *(" · ".join(each) for each in values)])
    if len(text) > _MAX_TEXT:
        text = text[: _MAX_TEXT - 1].rpartition("\n")[0] + "\n…"
    if count == 1:
        blocks = _fields(columns, values[0])
        left = 0
    else:
        blocks, left = _table(columns, rows, count)
    head = section(f"*{_linked(title, rows[0].url if count == 1 else '')}*")
    cut = [
        f"{number:,} of the {what}"
        for number, what in ((left, "records"), (more_columns, "columns"))
        if number
    ]
    cuts = f"Not shown: {' and '.join(cut)}. Ask me for a part of them." if cut else ""
    whole = (head, *blocks, *([context(cuts)] if cuts else []))
    short = bool(columns) and not cuts and count <= COMPACT_ROWS
    return RenderedRecords(text, whole, _lines(title, values, rows) if short else ())


def _row(record: object) -> _Row:
    if not isinstance(record, Mapping):
        return _Row({"value": format_cell(record)}, "")
    cells: dict[str, str] = {}
    url = ""
    for name, value in record.items():
        key = str(name)
        # A URL that contains a secret is shown redacted, and is no link.
        if (
            not url
            and key in _URLS
            and isinstance(value, str)
            and _URL.fullmatch(value)
            and redact(value) == value
        ):
            url = value
        elif isinstance(value, Mapping) and value:
            for inner, each in value.items():
                free = str(inner) not in record and str(inner) not in cells
                cells[str(inner) if free else f"{key} {inner}"] = format_cell(each)
        else:
            cells[key] = format_cell(value)
    return _Row(cells, url)


def _columns(kind: _Kind, rows: Sequence[_Row]) -> tuple[list[str], int]:
    """Return the fields to show, and the number of further ones. It omits fields without any
    value, and an identifying field that is equal in all records, such as their project's.
    """
    filled = dict.fromkeys(
        name for row in rows for name, text in row.cells.items() if text != EMPTY
    )
    for name in kind.same[:-1]:
        if name not in kind.first and len({row.cells.get(name) for row in rows}) == 1:
            filled.pop(name, None)
    names = [name for name in kind.first if name in filled]
    names += [name for name in filled if name not in kind.first]
    return names[:MOST_COLUMNS], max(0, len(names) - MOST_COLUMNS)


def _values(columns: Sequence[str], row: _Row) -> list[str]:
    return [row.cells.get(name, EMPTY) for name in columns]


def _linked(text: str, url: str) -> str:
    return link(url, escape_all(text)) if url else escape_all(text)


def _lines(title: str, values: Sequence[Sequence[str]], rows: Sequence[_Row]) -> tuple[Block, ...]:
    """Return one line per record; empty if they are too long for one section."""
    lines = [
        f"• {' · '.join([_linked(first, row.url), *map(escape_all, others)])}"
        for (first, *others), row in zip(values, rows, strict=True)
    ]
    text = "\n".join([f"*{escape_all(title)}*", *lines])
    return (section(text),) if len(text) <= MAX_COLUMN_TEXT else ()


def _fields(columns: Sequence[str], values: Sequence[str]) -> list[Block]:
    pairs = zip(columns, values, strict=True)
    fields = [
        {"type": "mrkdwn", "text": f"*{escape_all(format_label(name))}*\n{escape_all(text)}"}
        for name, text in pairs
    ]
    pieces = (fields[start : start + MOST_FIELDS] for start in range(0, len(fields), MOST_FIELDS))
    return [{"type": "section", "fields": piece} for piece in pieces]


def _table(columns: Sequence[str], rows: Sequence[_Row], count: int) -> tuple[list[Block], int]:
    """Return the table and the number of omitted records; no table without any filled field."""
    if not columns:
        return [], 0
    labels = [defuse_mentions(format_label(name)) for name in columns]
    room = MAX_TABLE_CHARACTERS - sum(map(len, labels))
    table = [[_cell(each, bold=True) for each in labels]]
    for row in rows[:MAX_TABLE_ROWS]:
        values = [defuse_mentions(text) for text in _values(columns, row)]
        room -= sum(map(len, values))
        if room < 0:
            break
        table.append(
            [_cell(text, row.url if number == 0 else "") for number, text in enumerate(values)]
        )
    settings = list[Block]()
    for name in columns:
        filled = [text for row in rows if (text := row.cells.get(name, EMPTY)) != EMPTY]
        settings.append(
            {"align": "right"} if all(map(_NUMBER.fullmatch, filled)) else {"is_wrapped": True}
        )
    return [{"type": "table", "rows": table, "column_settings": settings}], count - len(table) + 1


def _cell(text: str, url: str = "", *, bold: bool = False) -> Block:
    element: Block = {"type": "link", "url": url} if url else {"type": "text"}
    element["text"] = text
    if bold:
        element["style"] = {"bold": True}
    return {
        "type": "rich_text",
        "elements": [{"type": "rich_text_section", "elements": [element]}],
    }


def format_cell(value: object, longest: int = MAX_CELL) -> str:
    """Format any value as one line of 1 to `longest` characters."""
    return _to_line(redact(_cell_text(value, _MAX_DEPTH)[:_SEARCHED]), longest)


def fits_whole(value: object, longest: int) -> bool:
    """Whether a cell of this length shows the whole value, except for secrets."""
    return _is_shallow(value, _MAX_DEPTH) and len(format_cell(value, _SEARCHED)) <= longest


def _is_shallow(value: object, depth: int) -> bool:
    if isinstance(value, str) or not isinstance(value, Mapping | Sequence):
        return True
    inner = value.values() if isinstance(value, Mapping) else value
    return (
        depth > 0
        and len(value) <= _MAX_WIDTH
        and all(_is_shallow(each, depth - 1) for each in inner)
    )


def format_label(name: object) -> str:
    """Return a field's name in words: `dayRate` and `day_rate` both become "Day rate"."""
    words = " ".join(
        each if each.isupper() else each.lower()
        for each in _NAME_PARTS.findall(str(name)[:_SEARCHED])
    )
    return _to_line(redact(words[:1].upper() + words[1:]), MAX_LABEL)


def _cell_text(value: object, depth: int) -> str:
    match value:
        case None:
            return EMPTY
        case bool():
            return "yes" if value else "no"
        case int():
            return str(value) if abs(value) < _MAX_INTEGER else "a number too long to show"
        case str():
            return _format_time(value)
    if depth == 0 and isinstance(value, Mapping | Sequence):
        return "…"
    if isinstance(value, Mapping):
        texts = (
            f"{_cell_text(str(name), 0)}: {_cell_text(each, depth - 1)}"
            for name, each in value.items()
        )
    elif isinstance(value, Sequence):
        texts = (_cell_text(each, depth - 1) for each in value)
    else:
        return str(value)
    more = ["…"] if len(value) > _MAX_WIDTH else []
    return ", ".join([*islice(texts, _MAX_WIDTH), *more]) or EMPTY


def _format_time(text: str) -> str:
    """Return an ISO 8601 time in readable form, with its offset; other text unchanged."""
    found = _ISO_TIME.fullmatch(text)
    if found is None:
        return text[:_SEARCHED]
    offset = {"Z": "UTC", "+00:00": "UTC", None: ""}.get(found[3], found[3])
    return f"{found[1]} {found[2]} {offset}".strip()


def _to_line(text: str, limit: int) -> str:
    line = " ".join(_INVISIBLE.sub(" ", text).split())
    if is_blank(line):
        return EMPTY
    if len(line) <= limit:
        return line
    head = line[: limit - 1]
    return (head.rpartition(" ")[0] or head) + "…"
