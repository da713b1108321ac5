"""Records of tools as Slack blocks."""

import re
from typing import Any

import pytest

from tests.slack.limits import check, legible, tables, words
from threadline.slack.formatting import Rendered
from threadline.tools.blocks import (
    EMPTY,
    MAX_CELL,
    MAX_GROUPS,
    format_cell,
    format_label,
    render_records,
)

APPOINTMENT = {
    "appointment_id": "7",
    "resource": "Room A",
    "starts_at": "2026-03-02T09:00:00+00:00",
    "local": "2026-03-02 10:00",
    "title": "Planning <now> & then",
    "cancelled": False,
    "notes": None,
}


def messages(*groups: tuple[str, list[Any]]) -> list[Rendered]:
    return [Rendered(each.text, each.blocks) for each in render_records(groups)]


def test_one_record_is_shown_by_its_fields() -> None:
    (message,) = messages(("appointments", [APPOINTMENT]))
    head, body = message.blocks
    assert head["text"]["text"] == "*Appointment*"
    assert [field["text"] for field in body["fields"]] == [
        "*Local*\n2026-03-02 10:00",
        "*Resource*\nRoom A",
        "*Title*\nPlanning &lt;now&gt; &amp; then",
        "*Starts at*\n2026-03-02 09:00 UTC",
        "*Appointment id*\n7",
        "*Cancelled*\nno",
    ]
    check([message])


def test_several_records_are_a_table() -> None:
    (message,) = messages(
        (
            "wbs_items",
            [
                {"number": 1, "title": "Plan", "days": "2.5"},
                {"number": 2, "role": "Dev", "days": "10"},
            ],
        )
    )
    (table,) = tables(message)
    assert message.blocks[0]["text"]["text"] == "*Work items (2)*"
    assert words(table) == [
        ["Number", "Title", "Role", "Days"],
        ["1", "Plan", EMPTY, "2.5"],
        ["2", EMPTY, "Dev", "10"],
    ]
    wrapped = {"is_wrapped": True}
    assert table["column_settings"] == [{"align": "right"}, wrapped, wrapped, {"align": "right"}]
    assert message.text.splitlines() == [
        "Work items (2)",
        "1 · Plan · – · 2.5",
        "2 · – · Dev · 10",
    ]


def test_kind_has_a_name_for_people() -> None:
    for kind, head in (("slots", "Free slots"), ("releaseNotes", "Release notes")):
        (message,) = messages((kind, [{"a": 1}, {"a": 2}]))
        assert message.blocks[0]["text"]["text"] == f"*{head} (2)*"


def test_link_is_in_the_head_of_one_record_and_the_first_cell_of_many() -> None:
    one = {
        "key": "SHOP-1",
        "title": "It breaks",
        "url": "https://tickets.example/SHOP-1?a=1&b=2|3",
    }
    (message,) = messages(("tickets", [one]))
    assert (
        message.blocks[0]["text"]["text"]
        == "*<https://tickets.example/SHOP-1?a=1&amp;b=2%7C3|Ticket>*"
    )
    (message,) = messages(
        ("tickets", [one, {"key": "SHOP-2", "title": "It works", "url": "nowhere"}])
    )
    (table,) = tables(message)
    first = table["rows"][1][0]["elements"][0]["elements"][0]
    assert first == {"type": "link", "url": one["url"], "text": "SHOP-1"}
    assert words(table)[2] == ["SHOP-2", "It works", "nowhere"]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://x.example/?token=ghp_" + "a1B2" * 9, "ftp://x.example"]
)
def test_unsafe_address_becomes_no_link(url: str) -> None:
    (message,) = messages(("tickets", [{"key": "SHOP-1", "url": url}]))
    assert "|" not in message.blocks[0]["text"]["text"]
    assert "a1B2a1B2" not in legible([message])


def test_record_is_shown_once_in_its_last_state() -> None:
    before = {"key": "SHOP-1", "status": "Open"}
    after = {"key": "SHOP-1", "status": "Done"}
    (message,) = messages(
        ("tickets", [before, {"key": "SHOP-2", "status": "Open"}]), ("tickets", [after])
    )
    assert words(tables(message)[0])[1:] == [["SHOP-1", "Done"], ["SHOP-2", "Open"]]


def test_records_without_ids_are_not_merged() -> None:
    item = ("wbs_items", [{"number": 1, "title": "Plan"}])
    other = ("wbs_items", [{"number": 1, "title": "Build"}])
    assert [each.text for each in messages(item, other, item)] == [
        "Work item\n1 · Plan",
        "Work item\n1 · Build",
    ]
    named = ("wbs_items", [{"number": 1, "title": "Build", "project_id": "P1"}])
    assert (
        len(
            messages(
                named, ("wbs_items", [{"number": 1, "title": "Plan", "project_id": "P2"}]), named
            )
        )
        == 1
    )


def test_same_list_is_shown_once_with_its_length() -> None:
    listed = ("things", [{"a": number} for number in range(150)])
    (message,) = messages(listed, listed)
    assert message.text.startswith("Things (150)\n")
    for count in (99, 150):
        tickets = ("tickets", [{"key": str(number)} for number in range(count)])
        (message,) = messages(tickets, tickets)
        assert message.text.startswith(f"Tickets ({count})\n")


def test_few_records_are_lines_too() -> None:
    rows = [
        {"key": f"SHOP-{number}", "title": "<!here>", "url": "https://x.example/1"}
        for number in range(11)
    ]
    (few,) = render_records([("tickets", rows[:2])])
    (line,) = few.lines
    assert line["text"]["text"].splitlines() == [
        "*Tickets (2)*",
        "• <https://x.example/1|SHOP-0> · @\u2060here",
        "• <https://x.example/1|SHOP-1> · @\u2060here",
    ]
    assert render_records([("tickets", rows)])[0].lines == ()
    assert (
        render_records([("things", [dict.fromkeys("abcdef", "x" * 290) for _ in range(9)])])[
            0
        ].lines
        == ()
    )


def test_nested_fields_have_their_own_columns() -> None:
    quote = {
        "number": 3,
        "totals": {"subtotal": "10.00", "total": "11.90"},
        "tags": ["a", "b"],
        "deep": [{"x": [1]}],
    }
    (message,) = messages(("quotes", [quote]))
    told = legible([message])
    for line in ("*Subtotal*\n10.00", "*Total*\n11.90", "*Tags*\na, b", "*Deep*\nx: 1"):
        assert line in told


def test_long_table_counts_the_hidden_rows() -> None:
    (message,) = messages(
        ("builds", [{"id": number, "name": f"run {number}"} for number in range(1_234)])
    )
    check([message])
    assert len(tables(message)[0]["rows"]) == 100
    assert message.blocks[0]["text"]["text"] == "*Builds (1,234)*"
    assert "1,135" in message.blocks[-1]["elements"][0]["text"]


def test_wide_table_counts_the_hidden_columns() -> None:
    wide = {f"field {number}": "x" * 290 for number in range(25)}
    (message,) = messages(("things", [wide, wide | {"field 0": "y"}, wide | {"field 1": "y"}]))
    check([message])
    assert len(tables(message)[0]["rows"][0]) == 20
    assert {"2 of the records", "5 of the columns"} <= set(
        re.findall(r"\d of the \w+", legible([message]))
    )


def test_number_of_hidden_kinds_is_shown() -> None:
    kinds = messages(*((f"kind {number}", [{"a": 1}]) for number in range(MAX_GROUPS + 3)))
    assert len(kinds) == MAX_GROUPS + 1
    assert kinds[-1].text.startswith("3 more")


def test_kind_without_records_is_not_shown() -> None:
    assert messages(("orders", [])) == []
    (message,) = messages(("orders", [{}]))
    assert [block["type"] for block in message.blocks] == ["section"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, EMPTY),
        ("", EMPTY),
        ("\u200b \n", EMPTY),
        (True, "yes"),
        (0, "0"),
        pytest.param(10**5_000, "a number too long to show", id="huge"),
        ("a\n b\tc\0d", "a b c d"),
        ("2026-03-02T09:00:00.123Z", "2026-03-02 09:00 UTC"),
        ("2026-03-02T09:00:00+02:00", "2026-03-02 09:00 +02:00"),
        (["a", ["b", {"c": None}]], "a, b, c: –"),
        ([[[["deep"]]]], "…"),
        (list(range(25)), ", ".join(map(str, range(20))) + ", …"),
        ("half \ud83d of a pair", "half of a pair"),
        ("\u202eright to left", "right to left"),
        ("key ghp_" + "a1B2" * 9, "key [redacted: GitHub token]"),
    ],
)
def test_value_is_one_line(value: object, told: str) -> None:
    assert format_cell(value) == told


def test_long_value_is_cut_at_a_word_and_after_redaction() -> None:
    assert format_cell("word " * 100) == "word " * 58 + "word…"
    told = format_cell("x" * 280 + " ghp_" + "a1B2" * 9)
    assert len(told) <= MAX_CELL
    assert "ghp" not in told


def test_field_is_named_in_words() -> None:
    names = ("day_rate", "dayRate", "URL", "taxPercent2", "Größe", "", "<!channel>")
    assert [format_label(each) for each in names] == [
        *("Day rate", "Day rate", "URL", "Tax percent2", "Größe", EMPTY, "Channel")
    ]
