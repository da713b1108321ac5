"""Texts are cut into words and identifiers alike, in stored texts and in questions."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.db.words import MAX_TERM, asked_words, cut, stored_words
from threadline.knowledge.model import MAX_CHARACTERS


@pytest.mark.parametrize(
    ("text", "wholes"),
    [
        ("Refunds, please!", ["refunds", "please"]),
        ("(ERR-4012)", ["err4012"]),
        ("ERR\u20114012", ["err4012"]),
        ("ＥＲＲ－４０１２", ["err4012"]),
        ("err_4012 Err4012", ["err4012", "err4012"]),
        ("v2.3.1, then 2.13.", ["v2.3.1", "then", "2.13"]),
        ("CVE-2026-2332", ["cve2026.2332"]),
        ("Node.js nodeJS node-js", ["nodejs"] * 3),
        ("max_retries maxRetries MAX_RETRIES", ["maxretries"] * 3),
        ("C, C#, C++ and F#/C++17", ["c", "c#", "c++", "and", "f#c++17"]),
        (".NET --force /deploy #42", [".net", "--force", "/deploy", "#42"]),
        ("1,200 1,2", ["1200", "1.2"]),
        ("List<String> <your-key>", ["list", "string", "yourkey"]),
        ("an e-mail’s", ["an", "email", "s"]),
        ("re\u00adfund", ["refund"]),
        ("退款政策", ["退款", "款政", "政策"]),
        ("税。AI技術", ["税", "ai", "技術"]),
        ("ﾌｧｲﾙ", ["ファ", "ァイ", "イル"]),
        ("คืนเงิน", ["คืน", "นเ", "เงิ", "งิน"]),
        ("नीति है", ["नीति", "है"]),
        ("… -- || #", []),
    ],
)
def test_text_is_cut_into_words_identifiers_and_pairs(text: str, wholes: list[str]) -> None:
    assert [word.whole.text for word in cut(text)] == wholes


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("refund", []),
        ("4012", []),
        ("ERR4012", ["err", "4012"]),
        ("HCA060T", ["hca", "060"]),
        ("HTTPServerError", ["http", "server", "error"]),
        ("APIs", []),
        ("100GB", ["100", "gb"]),
        ("C++17", ["c++", "17"]),
        ("Notepad++", ["notepad"]),
        ("C#", []),
        ("10.0.0.1:8080", ["10.0.0.1", "8080"]),
        ("f47ac10b-58cc-0e02b2c3d479", ["f47ac10b", "58", "cc", "0e02b2c3d479"]),
        ("退款", []),
    ],
)
def test_question_with_an_identifier_looks_for_its_longer_parts(
    text: str, parts: list[str]
) -> None:
    [word] = cut(text)
    assert [part.text for part in word.parts] == parts


def test_neighbouring_parts_and_shorter_versions_are_stored_too() -> None:
    stored = set(stored_words("DS-7604NI-E1", "v2.3.1"))
    assert {"=7604", "=ds7604", "=7604ni", "=ds7604ni", "=ds7604nie1"} <= stored
    assert {"=v2.3.1", "=2.3.1", "=2.3"} <= stored
    assert {"ds", "ni", "nie"} <= stored
    assert stored_words("max_retries") == ["=maxretries", "max", "maxretries", "retries"]
    assert stored_words("Refunds") == ["refunds"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Refunds, refunds!", ["refunds"]),
        ("ERR-4012?", ["=err4012", "err", "=4012"]),
        ("2.3.1", ["=2.3.1"]),
        ("C# and C++", ["=c#", "and", "=c++"]),
        ("max_retries", ["=maxretries", "maxretries", "max", "retries"]),
        ("退款政", ["=退款", "=款政"]),
        ("", []),
    ],
)
def test_question_looks_for_identifiers_as_a_whole_and_by_parts(
    text: str, words: list[str]
) -> None:
    assert asked_words(text) == words


@given(st.text(max_size=200) | st.text(st.sampled_from("aA9.,_-#+/ 退คื"), max_size=200))
def test_every_term_of_a_question_is_stored_with_the_same_text(text: str) -> None:
    stored = set(stored_words(text))
    assert stored.issuperset(asked_words(text))
    for word in cut(text):
        assert not word.parts or word.whole.exact in stored
        for term in (word.whole, *word.parts):
            assert 0 < len(term.text) <= MAX_TERM
            assert term.stored in stored


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "part", ["-", "a", "Aa", "a1", "a-", "退", "1,", "999,", ".", "+", "a.-#"]
)
def test_longest_text_is_cut_within_seconds(part: str) -> None:
    text = part * (MAX_CHARACTERS // len(part))
    terms = {term.text for word in cut(text) for term in word.known_by}
    assert all(len(term) <= MAX_TERM for term in terms)


def test_stored_words_of_a_long_text_end_at_a_number_of_bytes() -> None:
    words = stored_words(" ".join(f"ERR-{number:06}" for number in range(20_000)))
    assert "=err000000" in words
    assert 70_000 < sum(len(each.encode()) for each in words) <= 80_000
