"""What a person reads at the end of a turn, at which length, and what is said when the model says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.conversations.model import answers
from threadline.models.model import Execution, ExecutionStatus

CREATED = Execution("1", "estimates.createWbsItems", ExecutionStatus.OK, "Created 3 items.")
LOOKED = Execution("2", "estimates.listRoles", ExecutionStatus.CACHED, read_only=True)
LOCKED = Execution("3", "estimates.updateQuoteTotals", ExecutionStatus.BLOCKED, "The project is locked.")
BROKEN = Execution("4", "jira.search", ExecutionStatus.ERROR, "Jira did not answer.", read_only=True)
LOST = Execution("5", "jira.comment", ExecutionStatus.UNKNOWN)
EXECUTIONS = st.lists(
    st.builds(Execution, st.text(), st.text(), st.sampled_from(ExecutionStatus), st.text(), st.booleans()), max_size=60
)


@pytest.mark.parametrize("text", ["", " \t\r\n", "\x00\x07", "\u200b", "\ufeff\u00a0", "\u2800\u3164", "\ufe0f"])
def test_what_shows_nothing_is_blank(text: str) -> None:
    assert answers.is_blank(text)
    assert not answers.is_blank(f"{text}.{text}")


@pytest.mark.parametrize("text", ["a", "👍", "❤\ufe0f", "\u200b0", "日本", "\U0001fae8"])
def test_what_shows_something_is_not_blank(text: str) -> None:
    assert not answers.is_blank(text)


@pytest.mark.parametrize(
    "text",
    [
        "Show me the details",
        "give me a detailed answer",
        "please explain it in full",
        "the full list of roles",
        "post the complete CI log",
        "Tell me everything\nabout it",
        "step by step, please",
        "no emoji, but all details",
        "details?",
        "the details, please",
        "More details please!",
        "I'd like to see everything",
        "can I have the full log?",
        "How does it work, step by step?",
        "explain how it works in detail",
        "what is open for checkout, with all details",
        "> no\ntell me everything",
        "will you tell me everything about it?",
        "I need more details on this",
        "ok. everything about PRJ-1",
    ],
)
def test_detail_is_asked_for(text: str) -> None:
    assert answers.wants_detail(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "what is open for checkout?",
        "no details, please",
        "Don’t give me the details",
        "without too much detail",
        "not everything, just the total",
        "a detailing company",
        "is everything ok?",
        "tell me if everything is fine",
        "show me how to make sure that everything works",
        "Here are the details: the cart is empty",
        "Details:\nthe cart is empty",
        "Full list: one, two",
        "I tried `make --verbose` and it failed",
        "it prints this with --verbose",
        "```\nshow me everything\n``` what is this?",
        "> tell me everything\nwhat does he mean?",
        "&gt; tell me everything",
        "show " * 8_000,
        "more " * 8_000 + "`" * 200,
        "thanks for the details",
        "I'll give you the details below",
        "we discussed this in detail",
        "I have read the whole story",
        "everything on staging is down",
        "everything about the checkout is broken",
        "verbose output follows",
    ],
)
def test_detail_is_not_asked_for(text: str) -> None:
    assert not answers.wants_detail(text)


def test_a_short_answer_stays_as_it_is() -> None:
    text = "\n  Two\n\nparagraphs.  "
    assert answers.parts(text) == [text]
    assert answers.parts("x" * answers.LIMIT) == ["x" * answers.LIMIT]


def test_a_long_answer_is_cut_at_a_paragraph_and_says_so() -> None:
    paragraphs = [f"{number} " + "word " * 150 for number in range(5)]
    [part] = answers.parts("\n\n".join(paragraphs))
    assert part.startswith(f"{paragraphs[0].strip()} \n\n{paragraphs[1].strip()}")
    assert "2 word" not in part
    assert part.endswith("Ask me for the details to read all of it._")


def test_code_is_closed_where_a_long_answer_is_cut() -> None:
    [part] = answers.parts("```python\n" + "a = 1\n" * 500 + "```")
    assert part.count("```") == 2
    assert len(part) <= answers.LIMIT


def test_an_answer_that_is_long_by_its_spaces_alone_is_not_said_to_be_cut() -> None:
    [part] = answers.parts("All is well." + " " * 3_000)
    assert part == "All is well."


def test_in_detail_all_of_it_is_said_in_as_many_parts_as_it_takes() -> None:
    paragraphs = [f"{number} " + "word " * 150 for number in range(20)]
    text = "\n\n".join(paragraphs)
    parts = answers.parts(text, detail=True)
    assert " ".join(parts).split() == text.split()
    assert all(part.strip().endswith("word") and len(part) <= answers.LIMIT for part in parts)
    assert answers.parts(text, detail=True, limit=100_000) == [text]


def test_of_nothing_there_is_no_part() -> None:
    assert answers.parts("\u200b \n") == []
    assert answers.parts("\u200b \n" * 5_000, detail=True) == []


def test_the_summary_names_what_was_done_and_what_was_not() -> None:
    assert answers.summary([LOOKED, CREATED, LOCKED, BROKEN, LOST]) == (
        "This is what I did:\n\n"
        "- `estimates.listRoles`: done\n"
        "- `estimates.createWbsItems`: done. Created 3 items.\n"
        "- `estimates.updateQuoteTotals`: this was not allowed. The project is locked.\n"
        "- `jira.search`: this did not work. Jira did not answer.\n"
        "- `jira.comment`: I do not know whether this was done, so please check before you ask for it again"
    )


def test_a_summary_of_failures_does_not_claim_that_anything_was_done() -> None:
    text = answers.summary([LOCKED, BROKEN])
    assert text.startswith("I could not do what you asked.")
    assert "The project is locked." in text


def test_nobody_need_check_what_could_have_changed_nothing() -> None:
    text = answers.failed("The database is away.", [Execution("1", "ci.runs", ExecutionStatus.UNKNOWN, read_only=True)])
    assert text == "The database is away.\n\nWhat I did so far:\n\n- `ci.runs`: this was interrupted"


def test_of_many_executions_the_number_is_told() -> None:
    text = answers.summary([CREATED] * 100)
    listed = text.count(CREATED.tool)
    assert 10 < listed < 100
    assert text.endswith(f"- and {100 - listed} more")


def test_a_name_or_a_note_cannot_break_the_list() -> None:
    text = answers.summary([Execution("1", "a`\n# b", ExecutionStatus.OK, "one\n\n# two")])
    assert text.splitlines()[2:] == ["- `a' # b`: done. one # two"]


@given(EXECUTIONS)
def test_our_own_words_can_be_seen_and_are_short(executions: list[Execution]) -> None:
    for text in (answers.summary(executions), answers.stopped(executions), answers.failed("", executions)):
        assert not answers.is_blank(text)
        assert len(text) <= answers.LIMIT
        assert len(text.splitlines()) <= len(executions) + 6


@given(st.text(), EXECUTIONS)
def test_a_failure_always_has_words(words: str, executions: list[Execution]) -> None:
    text = answers.failed(words, executions)
    assert not answers.is_blank(text)
    assert len(text) <= answers.LIMIT


def test_the_longest_account_is_short_enough() -> None:
    long = [Execution("1", "tool" * 100, ExecutionStatus.UNKNOWN, "note " * 500)] * 50
    stopped = answers.stopped(long, by_operator=True)
    for text in (answers.summary(long), answers.stopped(long), stopped, answers.failed("words " * 500, long)):
        assert 1_000 < len(text) <= answers.LIMIT


def test_a_failures_words_come_first() -> None:
    assert answers.failed("The key is refused.", []) == "The key is refused."
    assert answers.failed(" \n", [CREATED]).startswith(answers.TROUBLE)
    assert CREATED.note in answers.failed("The key is refused.", [CREATED])


def test_a_stop_says_what_was_done() -> None:
    assert answers.stopped([]).endswith("Nothing was done yet.")
    assert CREATED.note in answers.stopped([CREATED])


def test_nobody_is_told_to_have_asked_for_what_an_operator_did() -> None:
    for executions in ([], [CREATED]):
        text = answers.stopped(executions, by_operator=True)
        assert "Whoever runs this bot has stopped me" in text
        assert "as you asked" not in text
    assert CREATED.note in text


def test_what_failed_comes_before_the_words_of_a_turn_in_which_no_change_succeeded() -> None:
    patch = Execution("1", "opportunity_patch", ExecutionStatus.ERROR, "There is no such field.")
    assert answers.failures([LOOKED, patch]) == (
        "No change that I tried is known to have succeeded:\n\n"
        "- `opportunity_patch`: this did not work. There is no such field."
    )
    assert answers.failures([]) == "No change that I tried is known to have succeeded."
    assert answers.failures([], proposed=True) == "No change that I tried before that is known to have succeeded."
