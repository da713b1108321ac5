"""Property 11: a rate limit is met again 2^attempt seconds later at the earliest, by a client that tries once alone."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2
from hypothesis import given, settings
from hypothesis import strategies as st
from openai import RateLimitError

from threadline.models.errors import RateLimited, translate
from threadline.retry_after import retry_after
from threadline.threads import activity_options as options

NOW = datetime(2026, 11, 21, 10, tzinfo=UTC)
ANYTHING = st.text(st.characters(min_codepoint=32, max_codepoint=126))
SECONDS = st.floats(0, 1e6).map(lambda seconds: f"{seconds:g}")
DATES = st.integers(-10_000, 10_000).map(lambda away: format_datetime(NOW + timedelta(seconds=away), usegmt=True))
HEADERS = st.dictionaries(st.sampled_from(["retry-after", "retry-after-ms"]), ANYTHING | SECONDS | DATES)
BODIES = st.none() | st.dictionaries(st.sampled_from(["code", "message", "type", "param"]), st.none() | ANYTHING)


def limited(headers: dict[str, str], body: object) -> RateLimitError:
    request = httpx2.Request("POST", "https://inner.example/v1/responses")
    return RateLimitError("Slow down.", response=httpx2.Response(429, headers=headers, request=request), body=body)


@settings(max_examples=300)
@given(attempt=st.integers(1, 3), headers=HEADERS, body=BODIES)
def test_property_11_a_rate_limit_waits_two_to_the_attempt_or_as_long_as_the_server_says(
    attempt: int, headers: dict[str, str], body: dict[str, str | None] | None
) -> None:
    failure = translate(limited(headers, body), attempt)
    assert isinstance(failure, RateLimited)
    assert failure.retry_after is not None
    assert failure.retry_after >= 2**attempt
    if not headers.get("retry-after", "").endswith("GMT"):  # a date is counted from the moment of the call
        assert failure.retry_after >= (retry_after(headers, NOW) or 0)


def test_property_11_a_call_is_tried_again_three_times_at_most() -> None:
    assert options.FOR["think"].retry.maximum_attempts == 1 + 3


@settings(max_examples=200)
@given(headers=HEADERS)
def test_what_a_server_asks_for_is_a_time_or_nothing(headers: dict[str, str]) -> None:
    seconds = retry_after(headers, NOW)
    assert seconds is None or 0 < seconds < float("inf")


@settings(max_examples=100)
@given(away=st.integers(1, 10_000))
def test_a_date_is_waited_for(away: int) -> None:
    assert retry_after({"retry-after": format_datetime(NOW + timedelta(seconds=away), usegmt=True)}, NOW) == away


@settings(max_examples=100)
@given(attempt=st.integers())
def test_no_number_of_attempts_is_too_large_for_a_wait(attempt: int) -> None:
    failure = translate(limited({}, None), attempt)
    assert isinstance(failure, RateLimited)
    assert failure.retry_after is not None
    assert 1 <= failure.retry_after <= 2**10
