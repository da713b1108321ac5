"""Slack's timestamps as numbers, by which messages are ordered."""

import time
from decimal import Decimal

import pytest

from threadline.threads.message_table import seconds


@pytest.mark.parametrize("ts", ["1700000000.000100", "0", "1700000000"])
def test_timestamp_is_read_exactly(ts: str) -> None:
    assert seconds(ts) == Decimal(ts)


@pytest.mark.parametrize("ts", ["", "soon", "nan", "-1", "inf", "-inf", "1e999", "9" * 190])
def test_timestamp_that_cannot_be_read_is_now(ts: str) -> None:
    assert abs(float(seconds(ts)) - time.time()) < 60
