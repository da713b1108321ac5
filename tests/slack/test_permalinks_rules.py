"""The addresses of messages as people have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.errors import Permanent
from threadline.slack.permalinks import Place, place_of


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (
            "https://acme.slack.com/archives/C0123456789/p1700000000000100",
            Place("C0123456789", "1700000000.000100", "1700000000.000100"),
        ),
        (
            "https://acme.slack.com/archives/C1/p1700000009000100?thread_ts=1700000000.000100&cid=C1",
            Place("C1", "1700000009.000100", "1700000000.000100"),
        ),
        (
            "https://acme.slack.com/archives/C1/p1700000009000100?thread_ts=nonsense",
            Place("C1", "1700000009.000100", "1700000009.000100"),
        ),
        ("http://127.0.0.1:8700/archives/D1/p1700000000000100", Place("D1", "1700000000.000100", "1700000000.000100")),
        (
            " <https://a.slack.com/archives/G1/p1700000000000100|it> ",
            Place("G1", "1700000000.000100", "1700000000.000100"),
        ),
        ("C1/1700000000.000100", Place("C1", "1700000000.000100", "1700000000.000100")),
        ("C1/p1700000000000100", Place("C1", "1700000000.000100", "1700000000.000100")),
    ],
)
def test_a_message_is_found_by_its_link_or_by_channel_and_moment(address: str, place: Place) -> None:
    assert place_of(address) == place


@given(st.text() | st.sampled_from(["http://[", "https://a.slack.com/archives/C1/p17", "C1/١٧٠٠٠٠٠٠٠٠.٠٠٠١٠٠"]))
def test_what_is_no_address_is_told_so(address: str) -> None:
    with pytest.raises(Permanent, match="give a message's permalink"):
        place_of(address)
