"""Ids of RFPs in a text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.rfps.model import (
    MAX_ID,
    NOT_IDS,
    Scope,
    ScopeSource,
    find_rfp_ids,
    parse_rfp_id,
    resolve_scope,
)

ids = st.from_regex(r"rfp_[a-z0-9]{1,12}(?:[_-][a-z0-9]{1,6}){0,2}", fullmatch=True).filter(
    lambda each: each not in NOT_IDS
)
marks = st.sampled_from(" .,;:!?()[]{}<>|/'\"`*~_#“”…\n")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("rfp_abc123, rfp_xyz789; RFP_ABC123", ["rfp_abc123", "rfp_xyz789"]),
        ("```\nlog of rfp_old1\n``` copy it to _rfp_new2_", ["rfp_old1", "rfp_new2"]),
        ("<https://rfps.example/rfp_abc123|rfp_abc123>", ["rfp_abc123"]),
        ("<https://rfps.example/rfps/rfp_abc123/state?x=1|the state>", ["rfp_abc123"]),
        ("<https://rfps.example?id=rfp_abc123&amp;x=1>", ["rfp_abc123"]),
        ("rfp_abc123:won", ["rfp_abc123"]),
        ("rfp_abc123.Thanks", ["rfp_abc123"]),
        ("rfp_abc123の状態", ["rfp_abc123"]),
        ("rfp_city__hall", ["rfp_city__hall"]),
        ("rfp_abc123-", ["rfp_abc123"]),
        ("about:rfp_abc123", ["rfp_abc123"]),
        ("rfp_7-b rfp_7_b rfp_77", ["rfp_7-b", "rfp_7_b", "rfp_77"]),
    ],
)
def test_ids_are_found_as_people_write_them(text: str, found: list[str]) -> None:
    assert list(find_rfp_ids(text)) == found


@pytest.mark.parametrize(
    "text",
    [
        "rfp_... or rfp_…",
        "rfp-abc123",
        "xrfp_abc123",
        "my_rfp_abc123",
        "rfp_answer.pdf and RFP_ANSWER.DOCX",
        "rfp_long_answer-2.pdf.",
        "mail rfp_team@acme.example",
        "<mailto:rfp_team@acme.example|rfp_team@acme.example>",
        "post it to <#C123|rfp_team>",
        "<@U1|rfp_bot> <!subteam^S1|@rfp_people>",
        "use rfp_list, then rfp_search or rfp_get",
        f"rfp_{'a' * MAX_ID}",
    ],
)
def test_similar_words_are_no_ids(text: str) -> None:
    assert find_rfp_ids(text) == ()


@given(ids, marks, marks)
def test_id_is_found_between_any_marks(rfp_id: str, before: str, after: str) -> None:
    assert find_rfp_ids(f"{before}{rfp_id}{after}") == (rfp_id,)
    assert find_rfp_ids(f"a {before}{rfp_id.upper()}{after} b") == (rfp_id,)


@given(st.text())
def test_every_found_id_is_an_id_of_the_text(text: str) -> None:
    found = find_rfp_ids(text)
    assert all(each in text.lower() and parse_rfp_id(each) == each for each in found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("word", "rfp_id"),
    [
        ("rfp_A1", "rfp_a1"),
        ("rfp_", ""),
        ("rfp_a.pdf", ""),
        ("a rfp_a", ""),
        ("rfp_" + "a" * 61, ""),
    ],
)
def test_word_is_an_id_or_none(word: str, rfp_id: str) -> None:
    assert parse_rfp_id(word) == rfp_id


def test_id_in_the_message_overrides_the_binding() -> None:
    assert resolve_scope("Compare RFP_A1 with rfp_b2 and rfp_c3", "rfp_z9") == Scope(
        "rfp_a1", ScopeSource.MESSAGE, ("rfp_b2", "rfp_c3")
    )
    assert resolve_scope("How does it stand?", "rfp_z9") == Scope("rfp_z9", ScopeSource.BINDING)
    assert resolve_scope("How does it stand?") == Scope("", ScopeSource.NONE)


@pytest.mark.timeout(10)
@pytest.mark.parametrize("piece", ["rfp_", "rfp_a", "rfp_a_", "rfp_a-", "<@", "a_", "rfp_a.", "_"])
def test_long_text_is_searched_in_time(piece: str) -> None:
    assert len(find_rfp_ids(piece * (40_000 // len(piece)))) <= 1
