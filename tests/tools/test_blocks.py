"""What tools have to show, in blocks: what people read of records, and what is cut where Slack takes no more."""

from typing import Any

import pytest

from tests.slack.limits import check, legible, tables, words
from threadline.slack.formatting import Rendered
from threadline.tools.blocks import MOST_GROUPS, shown
from threadline.tools.cells import LONGEST_CELL, NOTHING, cell, label

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
    return [Rendered(each.text, each.blocks) for each in shown(groups)]


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


def test_several_records_are_a_table_with_a_head_and_numbers_to_the_right() -> None:
    (message,) = messages(
        ("wbs_items", [{"number": 1, "title": "Plan", "days": "2.5"}, {"number": 2, "role": "Dev", "days": "10"}])
    )
    (table,) = tables(message)
    assert message.blocks[0]["text"]["text"] == "*Work items (2)*"
    assert words(table) == [
        ["Number", "Title", "Role", "Days"],
        ["1", "Plan", NOTHING, "2.5"],
        ["2", NOTHING, "Dev", "10"],
    ]
    wrapped = {"is_wrapped": True}
    assert table["column_settings"] == [{"align": "right"}, wrapped, wrapped, {"align": "right"}]
    assert message.text.splitlines() == ["Work items (2)", "1 · Plan · – · 2.5", "2 · – · Dev · 10"]


@pytest.mark.parametrize(
    ("kind", "head"),
    [
        ("appointments", "Appointments"),
        ("orders", "Orders"),
        ("tickets", "Tickets"),
        ("builds", "Builds"),
        ("projects", "Projects"),
        ("roles", "Roles"),
        ("quotes", "Quotes"),
        ("cases", "Cases"),
        ("slots", "Free slots"),
        ("pull_requests", "Pull requests"),
        ("releaseNotes", "Release notes"),
    ],
)
def test_every_kind_has_a_name_for_people(kind: str, head: str) -> None:
    (message,) = messages((kind, [{"a": 1}, {"a": 2}]))
    assert message.blocks[0]["text"]["text"] == f"*{head} (2)*"


def test_a_link_leads_from_the_head_of_one_record_and_from_the_first_cell_of_each_of_many() -> None:
    one = {"key": "SHOP-1", "title": "It breaks", "url": "https://tickets.example/SHOP-1?a=1&b=2|3"}
    (message,) = messages(("tickets", [one]))
    assert message.blocks[0]["text"]["text"] == "*<https://tickets.example/SHOP-1?a=1&amp;b=2%7C3|Ticket>*"
    (message,) = messages(("tickets", [one, {"key": "SHOP-2", "title": "It works", "url": "nowhere"}]))
    (table,) = tables(message)
    first = table["rows"][1][0]["elements"][0]["elements"][0]
    assert first == {"type": "link", "url": one["url"], "text": "SHOP-1"}
    assert words(table)[2] == ["SHOP-2", "It works", "nowhere"]


@pytest.mark.parametrize(
    "url", ["javascript:alert(1)", "https://x.example/?token=ghp_" + "a1B2" * 9, "ftp://x.example"]
)
def test_what_is_no_address_to_follow_becomes_no_link(url: str) -> None:
    (message,) = messages(("tickets", [{"key": "SHOP-1", "url": url}]))
    assert "|" not in message.blocks[0]["text"]["text"]
    assert "a1B2a1B2" not in legible([message])


def test_of_a_record_that_was_shown_before_the_later_state_is_shown() -> None:
    before, after = {"key": "SHOP-1", "status": "Open"}, {"key": "SHOP-1", "status": "Done"}
    (message,) = messages(("tickets", [before, {"key": "SHOP-2", "status": "Open"}]), ("tickets", [after]))
    assert words(tables(message)[0])[1:] == [["SHOP-1", "Done"], ["SHOP-2", "Open"]]


def test_records_without_names_of_their_own_are_never_taken_for_each_other() -> None:
    item = ("wbs_items", [{"number": 1, "title": "Plan"}])
    other = ("wbs_items", [{"number": 1, "title": "Build"}])
    assert [each.text for each in messages(item, other, item)] == ["Work item\n1 · Plan", "Work item\n1 · Build"]
    named = ("wbs_items", [{"number": 1, "title": "Build", "project_id": "P1"}])
    assert len(messages(named, ("wbs_items", [{"number": 1, "title": "Plan", "project_id": "P2"}]), named)) == 1


def test_a_list_that_was_asked_for_twice_is_shown_once_with_its_number() -> None:
    listed = ("things", [{"a": number} for number in range(150)])
    (message,) = messages(listed, listed)
    assert message.text.startswith("Things (150)\n")
    for count in (99, 150):
        tickets = ("tickets", [{"key": str(number)} for number in range(count)])
        (message,) = messages(tickets, tickets)
        assert message.text.startswith(f"Tickets ({count})\n")


def test_a_few_records_can_also_be_lines_without_a_table() -> None:
    rows = [{"key": f"SHOP-{number}", "title": "<!here>", "url": "https://x.example/1"} for number in range(11)]
    (few,) = shown([("tickets", rows[:2])])
    (line,) = few.lines
    assert line["text"]["text"].splitlines() == [
        "*Tickets (2)*",
        "• <https://x.example/1|SHOP-0> · &lt;!here&gt;",
        "• <https://x.example/1|SHOP-1> · &lt;!here&gt;",
    ]
    assert shown([("tickets", rows)])[0].lines == ()
    assert shown([("things", [dict.fromkeys("abcdef", "x" * 290) for _ in range(9)])])[0].lines == ()


def test_what_stands_inside_a_record_has_columns_of_its_own() -> None:
    quote = {"number": 3, "totals": {"subtotal": "10.00", "total": "11.90"}, "tags": ["a", "b"], "deep": [{"x": [1]}]}
    (message,) = messages(("quotes", [quote]))
    told = legible([message])
    for line in ("*Subtotal*\n10.00", "*Total*\n11.90", "*Tags*\na, b", "*Deep*\nx: 1"):
        assert line in told


def test_a_long_table_says_how_much_of_it_is_left_out() -> None:
    (message,) = messages(("builds", [{"id": number, "name": f"run {number}"} for number in range(1_234)]))
    check([message])
    assert len(tables(message)[0]["rows"]) == 100
    assert message.blocks[0]["text"]["text"] == "*Builds (1,234)*"
    assert message.blocks[-1]["elements"][0]["text"].startswith("Not shown: 1,135 of the records.")


def test_a_wide_table_says_how_many_columns_are_left_out() -> None:
    wide = {f"field {number}": "x" * 290 for number in range(25)}
    (message,) = messages(("things", [wide, wide | {"field 0": "y"}, wide | {"field 1": "y"}]))
    check([message])
    assert len(tables(message)[0]["rows"][0]) == 20
    assert "Not shown: 2 of the records and 5 of the columns." in legible([message])


def test_of_too_many_kinds_the_number_is_told() -> None:
    kinds = messages(*((f"kind {number}", [{"a": 1}]) for number in range(MOST_GROUPS + 3)))
    assert len(kinds) == MOST_GROUPS + 1
    assert kinds[-1].text.startswith("3 more results are not shown.")


def test_a_kind_without_records_is_not_shown_and_an_empty_record_is() -> None:
    assert messages(("orders", [])) == []
    (message,) = messages(("orders", [{}]))
    assert [block["type"] for block in message.blocks] == ["section"]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (None, NOTHING),
        ("", NOTHING),
        ("\u200b \n", NOTHING),
        (True, "yes"),
        (0, "0"),
        (1.5, "1.5"),
        pytest.param(10**5_000, "a number too long to show", id="huge"),
        ("a\n b\tc\0d", "a b c d"),
        ("2026-03-02T09:00:00.123Z", "2026-03-02 09:00 UTC"),
        ("2026-03-02T09:00:00+02:00", "2026-03-02 09:00 +02:00"),
        ("2026-03-02", "2026-03-02"),
        (["a", ["b", {"c": None}]], "a, b, c: –"),
        ([[[["deep"]]]], "…"),
        (list(range(25)), ", ".join(map(str, range(20))) + ", …"),
        ("half \ud83d of a pair", "half of a pair"),
        ("\u202eright to left", "right to left"),
        ("key ghp_" + "a1B2" * 9, "key [redacted: GitHub token]"),
    ],
)
def test_a_value_is_one_line_for_people(value: object, told: str) -> None:
    assert cell(value) == told


def test_a_long_value_ends_at_a_word_and_a_key_is_recognised_before_it_is_cut() -> None:
    assert cell("word " * 100) == "word " * 58 + "word…"
    told = cell("x" * 280 + " ghp_" + "a1B2" * 9)
    assert len(told) <= LONGEST_CELL
    assert "ghp" not in told


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("day_rate", "Day rate"),
        ("dayRate", "Day rate"),
        ("URL", "URL"),
        ("taxPercent2", "Tax percent2"),
        ("Größe", "Größe"),
        ("", NOTHING),
        ("<!channel>", "Channel"),
    ],
)
def test_a_field_is_named_in_words(name: str, told: str) -> None:
    assert label(name) == told
