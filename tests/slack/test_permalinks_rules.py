"""The addresses of messages as people have them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from threadline.errors import Permanent
from threadline.slack.model import Permalink, parse_permalink

ROOT, LATER = "1700000000.000100", "1700000009.000100"
LINK = "https://acme.slack.com/archives"


@pytest.mark.parametrize(
    ("address", "place"),
    [
        (f"{LINK}/C0123456789/p1700000000000100", Permalink("C0123456789", ROOT, ROOT)),
        (f"{LINK}/C1/p1700000009000100?thread_ts=1700000000.000100&cid=C1", Permalink("C1", LATER, ROOT)),
        (f"{LINK}/C1/p1700000009000100?thread_ts=nonsense", Permalink("C1", LATER, LATER)),
        ("http://127.0.0.1:8700/archives/D1/p1700000000000100", Permalink("D1", ROOT, ROOT)),
        (f" <{LINK}/G1/p1700000000000100|it> ", Permalink("G1", ROOT, ROOT)),
        ("C1/1700000000.000100", Permalink("C1", ROOT, ROOT)),
        ("C1/p1700000000000100", Permalink("C1", ROOT, ROOT)),
    ],
)
def test_message_is_found_by_its_link_or_by_channel_and_ts(address: str, place: Permalink) -> None:
    assert parse_permalink(address) == place


@given(st.text() | st.sampled_from(["http://[", "https://a.slack.com/archives/C1/p17", "C1/١٧٠٠٠٠٠٠٠٠.٠٠٠١٠٠"]))
def test_text_that_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(Permanent, match="permalink"):
        parse_permalink(address)
