"""The default copilot's words: from a person's message to steps, and from a schema to arguments."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline_devstack.models.copilot_arguments import Filler, Known, parsed
from threadline_devstack.models.copilot_plan import Planned, plan, spoken

TOOLS = {
    "estimates_getProjectDetails": "The details of one project.",
    "estimates_listRoles": "The roles and their rates.",
    "estimates_listWbsItems": "The items of the work breakdown structure.",
    "estimates_createWbsItems": "Add items to the work breakdown structure.",
    "estimates_updateWbsItems": "Change items of the work breakdown structure.",
    "estimates_updateQuoteTotals": "Add up the totals of the quote again.",
    "appointments_freeSlots": "Times that are free.",
    "appointments_book": "Book an appointment.",
    "appointments_cancel": "Cancel an appointment.",
    "jira_search": "Search issues.",
    "ci_recentRuns": "The latest runs of the builds.",
    "cases_search": "Search bug cases, such as those open for a component.",
}


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (
            "Create three WBS items and then update the quote totals",
            [["estimates_createWbsItems"], ["estimates_updateQuoteTotals"]],
        ),
        ("Show me the details for this project", [["estimates_getProjectDetails"]]),
        ("list the roles and the WBS items", [["estimates_listRoles", "estimates_listWbsItems"]]),
        ("Book an appointment for tomorrow.", [["appointments_book"]]),
        ("Cancel the appointment, then show the recent runs", [["appointments_cancel"], ["ci_recentRuns"]]),
        ("Search Jira", [["jira_search"]]),
        ("which cases are open for checkout?", [["cases_search"]]),
        ("Good morning!", []),
        ("", []),
    ],
)
def test_words_become_steps(text: str, steps: list[list[str]]) -> None:
    assert [[each.tool for each in step] for step in plan(text, TOOLS)] == steps


@pytest.mark.parametrize(
    ("words", "count"),
    [
        ("two items", 2),
        ("7 items", 7),
        ("items of P-12", 0),
        ("on 2026-12-01 at 10:30", 0),
        ("2.5 days", 0),
        ("99", 20),
    ],
)
def test_a_number_of_things_is_told_from_other_numbers(words: str, count: int) -> None:
    assert Planned("t", words).count == count


WORDS = st.sampled_from(["create", "list", "the", "wbs items", "and", "then", "book", "3", "P-12", '"x"', ","])


@given(st.text() | st.lists(WORDS).map(" ".join))
def test_any_words_become_steps_with_arguments(text: str) -> None:
    for step in plan(text, TOOLS):
        for planned in step:
            assert set(Filler(SCHEMA, planned, text, Known()).arguments()) == set(SCHEMA["required"])


def test_a_tools_name_is_spoken() -> None:
    assert spoken("estimates_listWbsItems") == "list wbs items"
    assert spoken("estimates.listWbsItems") == "list wbs items"


SCHEMA: dict[str, Any] = {
    "type": "object",
    "$defs": {
        "Item": {
            "type": "object",
            "properties": {
                "title": {"type": "string"},
                "days": {"type": "number"},
                "note": {"type": ["string", "null"]},
            },
            "required": ["title", "days", "note"],
        }
    },
    "properties": {
        "project_id": {"type": "string"},
        "items": {"type": "array", "items": {"$ref": "#/$defs/Item"}},
        "start": {"type": "string", "format": "date-time"},
        "kind": {"enum": ["fixed", "daily"]},
        "role": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "urgent": {"type": "boolean"},
    },
    "required": ["project_id", "items", "start", "kind", "role", "urgent"],
}


def filled(words: str, *results: str, prompt: str = "") -> dict[str, Any]:
    known = Known()
    for result in results:
        known.add(result)
    return Filler(SCHEMA, Planned("estimates_createItems", words), prompt or words, known).arguments()


def test_arguments_come_from_the_words() -> None:
    given = filled('create two daily items "Design" and "Build" for P-12 at 2026-12-01T10:00:00Z, 2.5 days')
    titles = [item["title"] for item in given["items"]]
    assert (given["project_id"], titles, given["kind"]) == ("P-12", ["Design", "Build"], "daily")
    assert (given["start"], given["items"][0]["days"]) == ("2026-12-01T10:00:00Z", 2.5)


def test_arguments_come_from_earlier_results_and_else_are_plausible() -> None:
    given = filled("create three items", '{"project": {"projectId": "P-7", "role": "designer"}}')
    assert (given["project_id"], given["role"]) == ("P-7", "designer")
    assert [item["title"] for item in given["items"]] == ["item 1", "item 2", "item 3"]
    assert given["items"][0]["note"] is None
    assert (given["kind"], given["urgent"]) == ("fixed", False)
    assert filled("create an item")["role"] is None


def test_a_time_is_told_by_its_name_and_a_record_by_what_is_quoted() -> None:
    properties = {"project_id": {"type": "string"}, "starts_at": {"type": "string"}, "after": {"type": "integer"}}
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    words = 'use "Web shop" on 2026-12-01T10:00'
    given = Filler(schema, Planned("t", words), words, Known()).arguments()
    assert given == {"project_id": "Web shop", "starts_at": "2026-12-01T10:00", "after": 1}
    words = "take 2"
    given = Filler(schema, Planned("t", words), words, Known()).arguments()
    assert given["starts_at"].startswith("2030-01-07")


def test_a_record_is_named_by_its_name_too() -> None:
    assert filled("show the project Web shop")["project_id"] == "Web shop"
    assert filled("show the project PRJ-1")["project_id"] == "PRJ-1"
    schema = {"type": "object", "properties": {"role": {"type": "string"}}, "required": ["role"]}
    given = Filler(schema, Planned("t", "create an item for the tester"), "", Known()).arguments()
    assert given == {"role": "tester"}


def test_a_schema_without_an_end_is_filled_to_some_depth() -> None:
    schema = {
        "type": "object",
        "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}, "required": ["next"]}},
        "properties": {"node": {"$ref": "#/$defs/Node"}},
        "required": ["node"],
    }
    assert Filler(schema, Planned("t", ""), "", Known()).arguments()["node"]["next"]


@pytest.mark.parametrize(
    ("text", "value"),
    [('{"a": 1} and more', {"a": 1}), ("see [1, 2]", [1, 2]), ("none", None), ("{broken", None)],
)
def test_json_is_found_in_what_a_tool_says(text: str, value: Any) -> None:
    assert parsed(text) == value
