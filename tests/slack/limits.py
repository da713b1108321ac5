"""Limits of a message that is about to be posted, and the text that a person could read of it."""

import html
from collections.abc import Iterator, Sequence
from typing import Any

from threadline.slack.formatting import TEXT_LIMIT, Rendered
from threadline_devstack.slack.blocks import check_blocks, check_text


def check(messages: Sequence[Rendered]) -> None:
    """Assert that Slack accepts each message, and that it mentions no user."""
    for message in messages:
        assert 0 < len(message.text) <= TEXT_LIMIT
        check_text(message.text)
        check_blocks([dict(block) for block in message.blocks])
        for text in (message.text, *marked_up(message.blocks)):
            assert text.encode("utf-8")
            assert "<!" not in text
            assert "<@" not in text
        for row in (row for table in tables(message) for row in table["rows"]):
            assert len(row) == len(tables(message)[0]["rows"][0])
        for block in message.blocks:
            for field in block.get("fields", ()):
                assert len(field["text"]) <= 2_000


def tables(message: Rendered) -> list[dict[str, Any]]:
    return [block for block in message.blocks if block["type"] == "table"]


def words(table: dict[str, Any]) -> list[list[str]]:
    """Return a table's cells as a person reads them."""
    return [["".join(_texts(cell)) for cell in row] for row in table["rows"]]


def marked_up(blocks: Sequence[dict[str, Any]]) -> list[str]:
    """Return the texts in which Slack reads markup."""
    return list(_texts([block for block in blocks if block["type"] != "table"]))


def legible(messages: Sequence[Rendered]) -> str:
    """Return all readable text of the messages, with escaped characters as Slack shows them."""
    return html.unescape(
        "\n".join(text for each in messages for text in (each.text, *_texts(list(each.blocks))))
    )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("text"), str):
            yield value["text"]
        yield from _texts(list(value.values()))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)
