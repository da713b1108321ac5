"""Slack's limits for a bot's posts: sizes of texts and blocks, with Slack's names of errors.

Sources: https://docs.slack.dev/reference/block-kit/blocks and
https://docs.slack.dev/reference/methods/chat.postMessage. The limit of one table a message
(`only_one_table_allowed`) comes from experience.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn

from threadline_devstack.slack.model import SlackRefusal

MAX_TEXT = 40_000
MAX_BLOCKS = 50
MAX_ALL_BLOCKS = 13_200
"""Characters of all `markdown` blocks of one message together; from experience, not documented."""

_UNCHECKED = {
    "alert",
    "card",
    "carousel",
    "context_actions",
    "data_table",
    "divider",
    "file",
    "image",
    "input",
    "plan",
}
_UNCHECKED |= {"rich_text", "task_card", "video"}
TYPES = _UNCHECKED | {"actions", "context", "header", "markdown", "section", "table"}
MAX_ROWS = 100
MAX_COLUMNS = 20
MAX_CELLS = 10_000
"""Limits of a `table`: rows with the head, cells of a row, and characters in all cells of a
message.
"""

_MOST_ELEMENTS = {"actions": 25, "context": 10}
_MOST_BUTTON = {"value": 2_000, "url": 3_000, "action_id": 255}


def check_text(text: str) -> None:
    """Check the length of a text. Raises `SlackRefusal("msg_too_long")` above `MAX_TEXT`
    characters.
    """
    if len(text) > MAX_TEXT:
        raise SlackRefusal("msg_too_long")


def check_blocks(blocks: Any) -> list[dict[str, Any]]:
    """Return `blocks` with an id on each. Raises `SlackRefusal` with Slack's error."""
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise SlackRefusal("invalid_blocks_format")
    if len(blocks) > MAX_BLOCKS:
        _invalid(f"no more than {MAX_BLOCKS} items allowed", "/blocks")
    for index, block in enumerate(blocks):
        _check(block, f"/blocks/{index}")
    if sum(len(block["text"]) for block in blocks if block["type"] == "markdown") > MAX_ALL_BLOCKS:
        raise SlackRefusal("msg_blocks_too_long")
    _tables([block for block in blocks if block["type"] == "table"])
    return [{"block_id": f"b{index}"} | block for index, block in enumerate(blocks)]


def _check(block: Mapping[str, Any], where: str) -> None:
    kind = block.get("type")
    if kind not in TYPES:
        _invalid(f"unsupported type: {kind}", f"{where}/type")
    if len(str(block.get("block_id", ""))) > 255:
        _invalid("must be less than 256 characters", f"{where}/block_id")
    if kind == "markdown":
        _text(block.get("text"), 12_000, f"{where}/text")
    elif kind == "header":
        _text_object(block.get("text"), 150, f"{where}/text")
    elif kind == "section":
        _section(block, where)
    elif kind == "table":
        _table(block, where)
    elif kind in _MOST_ELEMENTS:
        _elements(block.get("elements"), _MOST_ELEMENTS[kind], f"{where}/elements")


def _section(block: Mapping[str, Any], where: str) -> None:
    fields = block.get("fields")
    if block.get("text") is None and not fields:
        _invalid("missing required field: text", where)
    if block.get("text") is not None:
        _text_object(block["text"], 3_000, f"{where}/text")
    if fields is not None:
        if not isinstance(fields, list) or len(fields) > 10:
            _invalid("no more than 10 items allowed", f"{where}/fields")
        for index, item in enumerate(fields):
            _text_object(item, 2_000, f"{where}/fields/{index}")


def _tables(tables: Sequence[Mapping[str, Any]]) -> None:
    if len(tables) > 1:
        raise SlackRefusal(
            "invalid_attachments",
            response_metadata={"messages": ["[ERROR] only_one_table_allowed"]},
        )
    cells = (cell for table in tables for row in table["rows"] for cell in row)
    if sum(len(text) for cell in cells for text in _texts(cell)) > MAX_CELLS:
        _invalid(f"no more than {MAX_CELLS} characters allowed", "/blocks")


def _table(block: Mapping[str, Any], where: str) -> None:
    rows = block.get("rows")
    settings = block.get("column_settings", [])
    if not isinstance(rows, list) or not 1 <= len(rows) <= MAX_ROWS:
        _invalid(f"between 1 and {MAX_ROWS} items expected", f"{where}/rows")
    if not isinstance(settings, list) or len(settings) > MAX_COLUMNS:
        _invalid(f"no more than {MAX_COLUMNS} items allowed", f"{where}/column_settings")
    for index, row in enumerate(rows):
        if not isinstance(row, list) or not 1 <= len(row) <= MAX_COLUMNS:
            _invalid(f"between 1 and {MAX_COLUMNS} items expected", f"{where}/rows/{index}")
        for number, cell in enumerate(row):
            if not isinstance(cell, Mapping) or cell.get("type") not in ("raw_text", "rich_text"):
                _invalid("failed to match any allowed schemas", f"{where}/rows/{index}/{number}")
            if not all(_texts(cell)) or not list(_texts(cell)):
                _invalid("must be more than 0 characters", f"{where}/rows/{index}/{number}")


def _texts(value: Any) -> Iterator[str]:
    """Yield every `text` in a cell, at any depth."""
    if isinstance(value, list):
        for each in value:
            yield from _texts(each)
    elif isinstance(value, Mapping):
        if isinstance(value.get("text"), str):
            yield value["text"]
        yield from _texts(value.get("elements"))


def _elements(elements: Any, most: int, where: str) -> None:
    if not isinstance(elements, list) or not 1 <= len(elements) <= most:
        _invalid(f"between 1 and {most} items expected", where)
    for index, element in enumerate(elements):
        if not isinstance(element, Mapping) or not isinstance(element.get("type"), str):
            _invalid("missing required field: type", f"{where}/{index}")
        if element["type"] == "button":
            _button(element, f"{where}/{index}")
        elif element["type"] in ("mrkdwn", "plain_text"):
            _text_object(element, 3_000, f"{where}/{index}")


def _button(button: Mapping[str, Any], where: str) -> None:
    _text_object(button.get("text"), 75, f"{where}/text")
    for name, most in _MOST_BUTTON.items():
        if len(str(button.get(name, ""))) > most:
            _invalid(f"must be less than {most + 1} characters", f"{where}/{name}")


def _text_object(value: Any, most: int, where: str) -> None:
    if not isinstance(value, Mapping) or value.get("type") not in ("mrkdwn", "plain_text"):
        _invalid("missing required field: type", where)
    _text(value.get("text"), most, f"{where}/text")


def _text(value: Any, most: int, where: str) -> None:
    if not isinstance(value, str) or not value:
        _invalid("must be more than 0 characters", where)
    if len(value) > most:
        _invalid(f"must be less than {most + 1} characters", where)


def _invalid(problem: str, where: str) -> NoReturn:
    raise SlackRefusal(
        "invalid_blocks",
        response_metadata={"messages": [f"[ERROR] {problem} [json-pointer:{where}]"]},
    )
