"""The page of the operator says what the rules say."""

import re

import pytest

from tests.operator_page import page
from tests.operator_page.examples import FLOWS, MORE
from tests.tools_page.page import NoMarks
from threadline.operator.model.scope import PHRASES, QUERIES, REMOVED, Branch


def test_the_page_shows_the_rules_as_they_are() -> None:
    text = page.PAGE.read_text("utf-8")
    assert text == page.renewed(text), "run: make operator-page"


def test_every_phrase_and_every_way_stands_on_the_page() -> None:
    text = page.PAGE.read_text("utf-8")
    forms = [form for each in PHRASES for form in (each.text, *each.forms)]
    assert [each for each in (*forms, *REMOVED) if f"`{each}`" not in text] == []
    assert [each.text for each in QUERIES if each.text not in text] == []
    assert [each for each in Branch if not re.search(rf"→ {each}: ", text)] == []


def test_an_answer_that_a_step_does_not_give_alike_is_not_written() -> None:
    with pytest.raises(ValueError, match="more than one answer"):
        page._answer(["update rfp", "hello"])


def test_a_page_without_its_marks_is_refused() -> None:
    with pytest.raises(NoMarks, match="end of tree"):
        page.renewed("# The operator\n")


def test_every_row_of_the_examples_has_all_its_cells() -> None:
    rows = [page._example(each) for each in (*FLOWS, *MORE)]
    assert {len(each) for each in rows} == {6}
    assert all(re.findall(r"(?<!\\)\|", cell) == [] for each in rows for cell in each)
