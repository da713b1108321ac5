"""What is kept of a customer, field by field."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.sales import model as crm
from threadline.sales.model import COMPANY_FIELDS, LEAD_FIELDS, LeadRefused


@given(st.dictionaries(st.sampled_from([*LEAD_FIELDS, *COMPANY_FIELDS, "company", "nickname"]), st.text(max_size=300)))
def test_what_is_kept_is_kept_again_as_it_is(fields: dict[str, str]) -> None:
    try:
        kept = crm.checked(fields)
    except LeadRefused:
        return
    assert kept.keys() == fields.keys() <= {*LEAD_FIELDS, *COMPANY_FIELDS, "company"}
    assert crm.checked(kept) == kept
    lines = [value for name, value in kept.items() if name not in ("notes", "company_notes")]
    assert not any(sign in value for value in lines for sign in "\r\n\x00")


@given(st.text(max_size=80))
def test_an_address_is_one_word_in_small_letters_that_names_one_place(text: str) -> None:
    if crm.is_address(text):
        assert text.count("@") == 1
        assert text == text.lower().strip()
        assert text.isascii()
        assert not set(text) & set(' \r\n\t,;<>"()[]\\')


@pytest.mark.parametrize("text", ["a@b.example", "first.last+tag@mail.shop.example", "x@xn--bcher-kva.example"])
def test_addresses_that_people_have_are_addresses(text: str) -> None:
    assert crm.is_address(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a",
        "a@b",
        "a@@b.example",
        "a@b..example",
        "A@b.example",
        f"{'a' * 65}@b.example",
        "a@b.example.",
        "ä@b.example",
    ],
)
def test_what_is_none_is_none(text: str) -> None:
    assert not crm.is_address(text)
