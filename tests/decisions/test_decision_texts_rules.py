"""The end of an answer: its sources and a notice, which are never cut."""

import pytest

from tests.support.decision_activities import OLD_PRICES, PRICES
from threadline.conversations.model import answers
from threadline.conversations.model.answers import escalation_text, fit_answer, list_sources
from threadline.decisions.model import EscalationReason


def test_failed_answer_is_admitted_and_handed_to_a_team_member() -> None:
    """The design requires a text that admits the difficulty and promises that a team member will
    assist.
    """
    assert escalation_text(EscalationReason.RESPONSE_ERROR) == (
        "I could not produce an answer to this. I have handed it over to a person on the team, "
        "with the conversation so far. They will answer in this thread, and I will remind the "
        "team if nobody takes it."
    )


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Both say so [2][1].", "Sources: [1] Plans – Enterprise; [2] Plans 2024 – Enterprise"),
        ("So it is [2].", "Sources: [2] Plans 2024 – Enterprise"),
        ("See [7].", "Sources: Plans – Enterprise; Plans 2024 – Enterprise"),
        ("", ""),
    ],
)
def test_answer_cites_the_passages_it_marks_or_all(answer: str, cited: str) -> None:
    assert list_sources(answer, [PRICES, OLD_PRICES]) == cited


@pytest.mark.parametrize(
    ("answer", "found", "cited"),
    [
        ("It costs 990.", ["Plans – Team", "Shipping"], "Sources: Plans – Team; Shipping"),
        ("As plans - team says, 990.", ["Plans – Team", "Shipping"], ""),
        ("Shipping is free.", ["Shipping"], "Sources: Shipping"),
        ("It is [1].", ["Plans – Team"], "Sources: [1] Plans – Enterprise; Plans – Team"),
        ("It is [1].", ["Plans – Enterprise"], "Sources: [1] Plans – Enterprise"),
        (
            "Many.",
            [f"D{n}" for n in range(12)],
            f"Sources: {'; '.join(f'D{n}' for n in range(10))}; and 2 more",
        ),
    ],
)
def test_answer_cites_passages_of_its_tools_unless_it_names_them(
    answer: str, found: list[str], cited: str
) -> None:
    assert list_sources(answer, [PRICES] if "[1]" in answer else [], found) == cited


def test_long_source_name_keeps_both_ends() -> None:
    names = [f"{'t' * 120}.pdf – {section}" for section in ("Prices", "Terms")]
    cited = list_sources("It is so.", [], names)
    assert cited.count("…") == 2
    assert ".pdf – Prices; " in cited
    assert cited.endswith(".pdf – Terms")


def test_only_the_answer_is_cut_and_only_if_it_does_not_fit() -> None:
    fits = "y" * 1_700
    end = f"Sources: {'s' * 100}"
    assert fit_answer("", fits, end, detail=False) == f"{fits}\n\n{end}"
    assert fit_answer("", "x" * 1_990, "", detail=False) == "x" * 1_990
    long = "\n\n".join(["z" * 300] * 10)
    for before in ("", "n" * 1_200):
        cut = fit_answer(before, long, end, detail=False)
        assert cut.startswith(before)
        assert cut.endswith(f"_\n\n{end}")
        assert len(cut) <= answers.LIMIT
    assert fit_answer("n", long, end, detail=True) == f"n\n\n{long}\n\n{end}"
