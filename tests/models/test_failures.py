"""What goes wrong at the model's API, as the real SDK meets it, and in which words it is told."""

from collections.abc import Sequence

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIConnectionError, APIStatusError

from tests.models.asking import BOTH, KEY, Make, asked
from threadline.errors import Permanent, Transient
from threadline.models.errors import (
    AnswerBroken,
    ContextTooLong,
    ModelRefused,
    ModelUnavailable,
    RateLimited,
    translate,
)
from threadline_devstack.models import ModelSandbox

FAULTS: Sequence[tuple[int, str, type[Exception], str]] = (
    (401, "", ModelRefused, "OPENAI_API_KEY"),
    (403, "", ModelRefused, "OPENAI_API_KEY"),
    (404, "model_not_found", ModelRefused, "THREADLINE_OPENAI_MODEL"),
    (400, "model_not_found", ModelRefused, "THREADLINE_OPENAI_MODEL"),
    (400, "", ModelRefused, "THREADLINE_OPENAI_API"),
    (422, "", ModelRefused, "THREADLINE_OPENAI_API"),
    (400, "context_length_exceeded", ContextTooLong, "THREADLINE_OPENAI_MODEL"),
    (413, "", ContextTooLong, "THREADLINE_OPENAI_MODEL"),
    (429, "insufficient_quota", ModelRefused, "billing"),
    (402, "", ModelRefused, "billing"),
    (429, "", RateLimited, "rate limit"),
    (408, "", ModelUnavailable, "408"),
    (409, "", ModelUnavailable, "409"),
    (500, "", ModelUnavailable, "500"),
    (503, "", ModelUnavailable, "503"),
    (529, "", ModelUnavailable, "529"),
)


@BOTH
@pytest.mark.parametrize(("status", "code", "kind", "words"), FAULTS)
async def test_a_refusal_is_on_one_side_and_names_what_to_mend(
    make: Make, sandbox: ModelSandbox, api: str, status: int, code: str, kind: type[Exception], words: str
) -> None:
    sandbox.fail_next(1, status=status, code=code, api=api)
    with pytest.raises(kind, match=words) as raised:
        await make(api=api).ask(asked())
    assert len(sandbox.log) == 1, "the SDK tried again by itself"
    assert KEY not in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)


async def test_a_key_that_is_wrong_is_said_without_the_key(make: Make) -> None:
    with pytest.raises(ModelRefused, match="check OPENAI_API_KEY") as raised:
        await make(api_key="sk-wrong-0123456789").ask(asked())
    assert "sk-wrong" not in str(raised.value)


@pytest.mark.parametrize(("named", "attempt", "wait"), [(None, 1, 2), (1, 1, 2), (60, 1, 60), (5, 3, 8), (0, 2, 4)])
async def test_a_rate_limit_is_waited_for_as_long_as_the_longer_of_both_says(
    make: Make, sandbox: ModelSandbox, named: float | None, attempt: int, wait: float
) -> None:
    sandbox.fail_next(1, status=429, retry_after=named)
    with pytest.raises(RateLimited) as raised:
        await make().ask(asked(), attempt=attempt)
    assert raised.value.retry_after == wait


async def test_an_overloaded_api_says_itself_how_long_to_wait(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.fail_next(1, status=503, retry_after=7)
    with pytest.raises(ModelUnavailable) as raised:
        await make().ask(asked())
    assert raised.value.retry_after == 7


@BOTH
async def test_a_reply_that_breaks_off_may_be_asked_for_again(make: Make, sandbox: ModelSandbox, api: str) -> None:
    sandbox.break_next(1)
    model = make(api=api)
    with pytest.raises(ModelUnavailable):
        await model.ask(asked())
    assert (await model.ask(asked())).reply.calls


async def test_a_model_that_never_answers_is_given_up(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.holds.arm("conversing")
    with pytest.raises(ModelUnavailable, match="in time"):
        await make(timeout=0.2).ask(asked())


async def test_an_endpoint_out_of_reach_is_no_reason_to_give_up(make: Make) -> None:
    with pytest.raises(ModelUnavailable, match="OPENAI_BASE_URL") as raised:
        await make(base_url="http://127.0.0.1:9/v1").ask(asked())
    assert "127.0.0.1" not in str(raised.value)


def test_every_error_of_the_model_is_on_one_side() -> None:
    assert all(issubclass(kind, Transient) for kind in (RateLimited, ModelUnavailable))
    assert all(issubclass(kind, Permanent) for kind in (ModelRefused, ContextTooLong))


SECRET = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=40).map(lambda text: f"zq-{text}")


@given(
    status=st.integers(400, 599),
    secret=SECRET,
    code=st.none() | st.sampled_from(["context_length_exceeded", "insufficient_quota", "model_not_found"]) | SECRET,
    attempt=st.integers(1, 4),
)
def test_no_words_of_the_other_side_are_ever_repeated(status: int, secret: str, code: str | None, attempt: int) -> None:
    request = httpx2.Request("POST", f"https://{secret}.example/v1/responses")
    error = APIStatusError(
        f"Refused {secret}",
        response=httpx2.Response(status, headers={"x-request-id": secret}, request=request),
        body={"message": f"Refused {secret}", "code": code, "param": secret, "type": secret},
    )
    failures = (error, APIConnectionError(message=secret, request=request), AnswerBroken(secret), TimeoutError(secret))
    for failure in failures:
        words = str(translate(failure, attempt))
        assert words.endswith(".")
        assert secret not in words
        assert "zq-" not in words
