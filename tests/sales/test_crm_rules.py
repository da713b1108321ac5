"""The fields of a customer, and their forms."""

from hypothesis import given
from hypothesis import strategies as st

from threadline.errors import Permanent
from threadline.sales import model as crm
from threadline.sales.model import COMPANY_FIELDS, LEAD_FIELDS


@given(
    st.dictionaries(
        st.sampled_from([*LEAD_FIELDS, *COMPANY_FIELDS, "company", "nickname"]),
        st.text(max_size=300),
    )
)
def test_checked_fields_stay_as_they_are(fields: dict[str, str]) -> None:
    try:
        kept = crm.check_lead_fields(fields)
    except Permanent:
        return
    assert kept.keys() == fields.keys() <= {*LEAD_FIELDS, *COMPANY_FIELDS, "company"}
    assert crm.check_lead_fields(kept) == kept
    lines = [value for name, value in kept.items() if name not in ("notes", "company_notes")]
    assert not any(sign in value for value in lines for sign in "\r\n\x00")


@given(st.text(max_size=80))
def test_address_is_one_lowercase_word(text: str) -> None:
    if crm.is_address(text):
        assert text.count("@") == 1
        assert text == text.lower().strip()
        assert text.isascii()
        assert not set(text) & set(' \r\n\t,;<>"()[]\\')


def test_addresses_differ_from_other_texts() -> None:
    for address in ("first.last+tag@mail.shop.example", "x@xn--bcher-kva.example"):
        assert crm.is_address(address)
    for other in (
        "a",
        "a@b",
        "a@@b.example",
        "a@b..example",
        "A@b.example",
        f"{'a' * 65}@b.example",
        "a@b.example.",
    ):
        assert not crm.is_address(other)
