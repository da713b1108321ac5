"""A case's number is understood as people write it and copy it."""

import pytest

from threadline.cli.cases import case_id
from threadline.errors import Permanent


@pytest.mark.parametrize(
    "written",
    [
        "BUG-4",
        "bug-4",
        "Bug-4",
        "4",
        "#4",
        "# 4",
        "Bug 4",
        "bug #4",
        "BUG4",
        "bug_4",
        "bug:4",
        "BUG-#4",
        "BUG – 4",
        "BUG\N{NON-BREAKING HYPHEN}4",
        "bug\N{NO-BREAK SPACE}4",
        "BUG-004",
        " bug-4 ",
        "`BUG-4`",
        "*BUG-4*",
        "(BUG-4)",
        "[BUG-4]",
        "BUG-4:",
        "BUG-4.",
        "“BUG-4”",
    ],
)
def test_case_number_is_understood_in_every_usual_form(written: str) -> None:
    assert case_id([written]) == "BUG-4"


def test_case_number_may_be_two_words_of_the_command_line() -> None:
    assert case_id(["Bug", "4"]) == "BUG-4"


@pytest.mark.parametrize(
    "written",
    [
        "",
        "bug",
        "BUG-",
        "BUG-x",
        "#",
        "-4",
        "4.5",
        "4-5",
        "4 5",
        "TICKET-4",
        "rfp_abc123",
        "BUG-4 BUG-5",
        "debug-4",
        "9" * 5_000,
        "https://acme.slack.com/archives/C1/p1700000000000000",
    ],
)
def test_other_words_are_refused_with_an_example(written: str) -> None:
    with pytest.raises(Permanent, match=r"is not a case number: write it as BUG-12 or 12\.") as no:
        case_id([written])
    assert len(str(no.value)) < 250
