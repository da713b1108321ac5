"""The text that a person reads at the end of a turn, and its length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.conversations.model import answers
from threadline.conversations.model.conversation import Execution
from threadline.models.model import ToolKind
from threadline.slack.text import is_blank
from threadline.tools.model import ToolStatus

CREATED = Execution("1", "estimates.createWbsItems", ToolStatus.OK, "Created 3 items.")
LOOKED = Execution("2", "estimates.listRoles", ToolStatus.CACHED, kind=ToolKind.READ)
LOCKED = Execution(
    "3", "estimates.updateQuoteTotals", ToolStatus.BLOCKED, "The project is locked."
)
BROKEN = Execution(
    "4", "jira.search", ToolStatus.ERROR, "Jira did not answer.", kind=ToolKind.READ
)
LOST = Execution("5", "jira.comment", ToolStatus.UNKNOWN)
EXECUTIONS = st.lists(
    st.builds(
        Execution,
        st.text(),
        st.text(),
        st.sampled_from(ToolStatus),
        st.text(),
        st.sampled_from(ToolKind),
    ),
    max_size=60,
)


def test_text_that_shows_nothing_is_blank() -> None:
    for blank in ("", " \t\r\n", "\x00\x07", "\u200b", "\ufeff\u00a0", "\u2800\u3164", "\ufe0f"):
        assert is_blank(blank), ascii(blank)
    for visible in ("a", "👍", "❤\ufe0f", "\u200b0\u200b", "日本", "\U0001fae8"):
        assert not is_blank(visible), ascii(visible)


@pytest.mark.parametrize(
    "text",
    [
        "Show me the details",
        "give me a detailed answer",
        "the full list of roles",
        "post the complete CI log",
        "Tell me everything\nabout it",
        "step by step, please",
        "no emoji, but all details",
        "details?",
        "More details please!",
        "I'd like to see everything",
        "I need more details on this",
        "can I have the full log?",
        "explain how it works in detail",
        "what is open for checkout, with all details",
        "> no\ntell me everything",
        "will you tell me everything about it?",
        "ok. everything about PRJ-1",
    ],
)
def test_detail_is_asked_for(text: str) -> None:
    assert answers.wants_detail(text)


@pytest.mark.parametrize(
    "text",
    [
        "what is open for checkout?",
        "no details, please",
        "Don’t give me the details",
        "without too much detail",
        "a detailing company",
        "is everything ok?",
        "tell me if everything is fine",
        "Details:\nthe cart is empty",
        "I tried `make --verbose` and it failed",
        "it prints this with --verbose",
        "```\nshow me everything\n``` what is this?",
        "> tell me everything\nwhat does he mean?",
        "> tell me everything",
        "show " * 8_000,
        "more " * 8_000 + "`" * 200,
        "thanks for the details",
        "I'll give you the details below",
        "we discussed this in detail",
        "everything about the checkout is broken",
        "verbose output follows",
    ],
)
def test_detail_is_not_asked_for(text: str) -> None:
    assert not answers.wants_detail(text)


def test_short_answer_is_one_part_unchanged() -> None:
    for text in ("\n  Two\n\nparagraphs.  ", "x" * answers.LIMIT):
        assert answers.split_answer(text) == [text]


def test_long_answer_is_cut_at_a_paragraph_and_says_so() -> None:
    paragraphs = [f"{number} " + "word " * 150 for number in range(5)]
    [part] = answers.split_answer("\n\n".join(paragraphs))
    assert part.startswith(f"{paragraphs[0].strip()} \n\n{paragraphs[1].strip()}")
    assert "2 word" not in part
    assert "not the whole answer" in part


def test_code_block_is_closed_where_an_answer_is_cut() -> None:
    [part] = answers.split_answer("```python\n" + "a = 1\n" * 500 + "```")
    assert part.count("```") == 2
    assert len(part) <= answers.LIMIT


def test_answer_with_trailing_spaces_does_not_claim_to_be_cut() -> None:
    assert answers.split_answer("All is well." + " " * 3_000) == ["All is well."]


def test_detailed_answer_is_whole_in_as_many_parts_as_it_takes() -> None:
    text = "\n\n".join(f"{number} " + "word " * 150 for number in range(20))
    parts = answers.split_answer(text, detail=True)
    assert " ".join(parts).split() == text.split()
    assert all(part.strip().endswith("word") and len(part) <= answers.LIMIT for part in parts)
    assert answers.split_answer(text, detail=True, limit=100_000) == [text]


def test_blank_answer_has_no_part() -> None:
    assert answers.split_answer("\u200b \n") == []
    assert answers.split_answer("\u200b \n" * 5_000, detail=True) == []


def test_summary_names_each_call_with_its_status_and_note() -> None:
    done, *lines = answers.summary_text([LOOKED, CREATED, LOCKED, BROKEN, LOST]).split("\n- ")
    assert done.startswith("This is what I did")
    assert lines == [
        "`estimates.listRoles`: done",
        "`estimates.createWbsItems`: done. Created 3 items.",
        "`estimates.updateQuoteTotals`: this was not allowed. The project is locked.",
        "`jira.search`: this did not work. Jira did not answer.",
        (
            "`jira.comment`: I do not know whether this was done, so please check before you ask "
            "for it again"
        ),
    ]


def test_summary_of_failures_does_not_claim_that_anything_was_done() -> None:
    text = answers.summary_text([LOCKED, BROKEN])
    assert text.startswith("I could not do what you asked.")
    assert LOCKED.note in text


def test_read_only_call_with_unknown_outcome_needs_no_check() -> None:
    text = answers.failure_text(
        "The database is away.",
        [Execution("1", "ci.runs", ToolStatus.UNKNOWN, kind=ToolKind.READ)],
    )
    assert text.startswith("The database is away.")
    assert text.endswith("- `ci.runs`: this was interrupted")


def test_summary_of_many_calls_says_how_many_are_left_out() -> None:
    text = answers.summary_text([CREATED] * 100)
    listed = text.count(CREATED.tool)
    assert 10 < listed < 100
    assert text.endswith(f"- and {100 - listed} more")


def test_tool_name_and_note_cannot_break_the_list() -> None:
    text = answers.summary_text([Execution("1", "a`\n# b", ToolStatus.OK, "one\n\n# two")])
    assert text.splitlines()[2:] == ["- `a' # b`: done. one # two"]


@given(st.text(), EXECUTIONS)
def test_account_of_any_calls_is_visible_and_short(
    failure: str, executions: list[Execution]
) -> None:
    for text in (
        answers.summary_text(executions),
        answers.stopped_text(executions),
        answers.failure_text("", executions),
    ):
        assert len(text.splitlines()) <= len(executions) + 6
        assert not is_blank(text)
        assert len(text) <= answers.LIMIT
    assert not is_blank(answers.failure_text(failure, executions))


def test_longest_account_is_within_the_limit() -> None:
    long = [Execution("1", "tool" * 100, ToolStatus.UNKNOWN, "note " * 500)] * 50
    stopped = answers.stopped_text(long, by_admin=True)
    for text in (
        answers.summary_text(long),
        answers.stopped_text(long),
        stopped,
        answers.failure_text("words " * 500, long),
    ):
        assert 1_000 < len(text) <= answers.LIMIT


def test_failure_text_comes_first() -> None:
    assert answers.failure_text("The key is refused.", []) == "The key is refused."
    assert answers.failure_text(" \n", [CREATED]).startswith(answers.GENERIC_FAILURE)
    assert CREATED.note in answers.failure_text("The key is refused.", [CREATED])


def test_stop_names_who_stopped_and_what_was_done() -> None:
    assert "as you asked" in answers.stopped_text([])
    assert CREATED.note in answers.stopped_text([CREATED])
    for executions in ([], [CREATED]):
        assert "as you asked" not in answers.stopped_text(executions, by_admin=True)
    assert CREATED.note in answers.stopped_text([CREATED], by_admin=True)


def test_failed_changes_are_named_and_reads_are_not() -> None:
    patch = Execution(
        "1", "opportunity_patch", ToolStatus.ERROR, "There is no such field.", ToolKind.PATCH
    )
    first, line = answers.failed_changes_text([LOOKED, patch]).split("\n\n")
    assert first.startswith("I cannot confirm that any change")
    assert line == "- `opportunity_patch`: this did not work. There is no such field."
    assert answers.failed_changes_text([]) != answers.failed_changes_text([], proposed=True)


WISHES = """
    bitte ausführlich | zeig mir alle Details | Gib mir die ganze Liste | mehr Einzelheiten, bitte | en détail
    | donne-moi plus de détails | la liste complète | en detalle, por favor | muéstrame la lista completa
    | mais detalhes | in dettaglio | alle details graag | подробнее, пожалуйста | покажи полный список
    | ayrıntılı anlat | 请详细说明
    | 给我完整列表 | 详情 | 詳しく教えてください | 詳細をお願いします | 자세히 알려줘 | 전체 목록 | بالتفصيل من فضلك
    | विस्तार से बताओ | więcej szczegółów
"""
NO_WISHES = """
    keine Details, bitte | sans détails | sin detalles | 不要详细 | без подробностей | was kostet es? | 多少钱？
    | こんにちは | qué cuesta | les prix | nicht ausführlich
"""


@pytest.mark.parametrize("text", [each.strip() for each in WISHES.split("|")])
def test_wish_for_details_is_understood_in_the_languages_that_people_write(text: str) -> None:
    assert answers.wants_detail(text)


@pytest.mark.parametrize("text", [each.strip() for each in NO_WISHES.split("|")])
def test_other_words_in_other_languages_are_no_wish_for_details(text: str) -> None:
    assert not answers.wants_detail(text)


SENTENCE = {
    "chinese": "这是一个很长的回答。",
    "japanese": "これは長い回答です。",
    "thai": "นี่คือคำตอบที่ยาวมาก",
    "json": '{"a":1,"b":[2,3]},',
    "base64": "QUJDREVGR0g",
}


@pytest.mark.parametrize("piece", SENTENCE.values(), ids=SENTENCE)
@pytest.mark.parametrize("begin", ["", "Hello: ", "你好：\n"])
def test_long_text_without_blanks_keeps_most_of_its_room(piece: str, begin: str) -> None:
    text = begin + piece * (2_288 // len(piece))
    shown = answers.shorten(text)
    assert 1_800 < len(shown) <= answers.LIMIT
    assert shown.endswith("read all of it._")
    assert text.startswith(shown.partition("\n\n_This is")[0])
