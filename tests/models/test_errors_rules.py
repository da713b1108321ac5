"""Failures of the model's API are permanent or transient, and repeat nothing that the API wrote."""

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIConnectionError, APIStatusError

from threadline.errors import Mendable, Permanent, Transient
from threadline.models.errors import ContextTooLong, InvalidResponse, translate


def refusal(status: int, code: str | None = None, text: str = "", host: str = "a", **headers: str) -> APIStatusError:
    request = httpx2.Request("POST", f"https://{host}.example/v1/responses")
    response = httpx2.Response(status, headers=headers, request=request)
    body: dict[str, Any] = {"message": text, "code": code, "param": text, "type": text}
    return APIStatusError(text, response=response, body=body)


@pytest.mark.parametrize(
    ("failure", "kind", "says"),
    [
        (refusal(401), Mendable, "OPENAI_API_KEY"),
        (refusal(403), Mendable, "rights of OPENAI_API_KEY"),
        (refusal(404), Mendable, "OPENAI_BASE_URL"),
        (refusal(404, "model_not_found"), Mendable, "THREADLINE_OPENAI_MODEL"),
        (refusal(400, text="The model `x` does not exist"), Mendable, "check THREADLINE_OPENAI_MODEL"),
        (refusal(400), Permanent, "THREADLINE_OPENAI_API"),
        (refusal(400, "context_length_exceeded"), ContextTooLong, "longer"),
        (refusal(400, text="This model's maximum context length is 8192 tokens"), ContextTooLong, "longer"),
        (refusal(413), ContextTooLong, "longer"),
        (refusal(429, "insufficient_quota"), Mendable, "billing"),
        (refusal(402), Mendable, "billing"),
        (refusal(429), Transient, "rate limit"),
        (refusal(408), Transient, "408"),
        (refusal(409), Transient, "409"),
        (refusal(529), Transient, "529"),
        (InvalidResponse("rate_limit_exceeded"), Transient, "rate limit"),
        (InvalidResponse("server_error"), Transient, "broke off"),
        (InvalidResponse("invalid_prompt"), Permanent, "invalid"),
        (InvalidResponse("insufficient_quota"), Mendable, "billing"),
        (InvalidResponse("bio_policy"), Permanent, "refused to answer"),
        (InvalidResponse("context_length_exceeded"), ContextTooLong, "longer"),
    ],
)
def test_failure_has_a_kind_and_names_what_to_mend(failure: Exception, kind: type[Exception], says: str) -> None:
    error = translate(failure, 1)
    assert type(error) is kind
    assert says in str(error)


def test_only_rate_limits_and_outages_are_transient() -> None:
    assert all(issubclass(kind, Transient) for kind in (Transient, Transient))
    assert all(issubclass(kind, Permanent) for kind in (Permanent, ContextTooLong))


@pytest.mark.parametrize(("named", "attempt", "wait"), [("", 1, 2), ("1", 1, 2), ("60", 1, 60), ("5", 3, 8)])
def test_rate_limit_waits_for_the_longer_of_header_and_backoff(named: str, attempt: int, wait: float) -> None:
    error = translate(refusal(429, **({"retry-after": named} if named else {})), attempt)
    assert isinstance(error, Transient)
    assert error.retry_after == wait


SECRET = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=40).map(lambda text: f"zq-{text}")


@given(
    status=st.integers(400, 599),
    secret=SECRET,
    code=st.none() | st.sampled_from(["context_length_exceeded", "insufficient_quota", "model_not_found"]) | SECRET,
    attempt=st.integers(1, 4),
)
def test_error_repeats_no_text_of_the_api(status: int, secret: str, code: str | None, attempt: int) -> None:
    error = refusal(status, code, f"Refused {secret}", secret, **{"x-request-id": secret})
    unreachable = APIConnectionError(message=secret, request=error.request)
    for failure in (error, unreachable, InvalidResponse(secret), TimeoutError(secret)):
        words = str(translate(failure, attempt))
        assert words.endswith(".")
        assert "zq-" not in words
