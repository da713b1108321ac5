"""Failures of the model's API are permanent or transient, and quote no text of the API."""

from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import APIConnectionError, APIStatusError

from threadline.errors import Mendable, Permanent, Transient
from threadline.models.errors import ContextTooLong, InvalidResponse, translate


def refusal(
    status: int, code: str | None = None, text: str = "", host: str = "a", **headers: str
) -> APIStatusError:
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
        (
            refusal(400, text="The model `x` does not exist"),
            Mendable,
            "check THREADLINE_OPENAI_MODEL",
        ),
        (refusal(400), Permanent, "THREADLINE_OPENAI_API"),
        (refusal(400, "context_length_exceeded"), ContextTooLong, "longer"),
        (
            refusal(400, text="This model's maximum context length is 8192 tokens"),
            ContextTooLong,
            "longer",
        ),
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
def test_failure_has_a_kind_and_names_what_to_mend(
    failure: Exception, kind: type[Exception], says: str
) -> None:
    error = translate(failure, 1)
    assert type(error) is kind
    assert says in str(error)


def test_only_rate_limits_and_outages_are_transient() -> None:
    assert all(issubclass(kind, Transient) for kind in (Transient, Transient))
    assert all(issubclass(kind, Permanent) for kind in (Permanent, ContextTooLong))


@pytest.mark.parametrize(
    ("named", "attempt", "wait"), [("", 1, 2), ("1", 1, 2), ("60", 1, 60), ("5", 3, 8)]
)
def test_rate_limit_waits_for_the_longer_of_header_and_backoff(
    named: str, attempt: int, wait: float
) -> None:
    error = translate(refusal(429, **({"retry-after": named} if named else {})), attempt)
    assert isinstance(error, Transient)
    assert error.retry_after == wait


SECRET = st.text("abcdefghijklmnopqrstuvwxyz0123456789", min_size=12, max_size=40).map(
    lambda text: f"zq-{text}"
)


@given(
    status=st.integers(400, 599),
    secret=SECRET,
    code=st.none()
    | st.sampled_from(["context_length_exceeded", "insufficient_quota", "model_not_found"])
    | SECRET,
    attempt=st.integers(1, 4),
)
def test_error_repeats_no_text_of_the_api(
    status: int, secret: str, code: str | None, attempt: int
) -> None:
    error = refusal(status, code, f"Refused {secret}", secret, **{"x-request-id": secret})
    unreachable = APIConnectionError(message=secret, request=error.request)
    for failure in (error, unreachable, InvalidResponse(secret), TimeoutError(secret)):
        words = str(translate(failure, attempt))
        assert words.endswith(".")
        assert "zq-" not in words


FILTERED = "refused to answer"
VENDORS: list[tuple[str, int, str, str, type[Exception], str]] = [
    (
        "OpenAI",
        400,
        "context_length_exceeded",
        "This model's maximum context length is 8192 tokens.",
        ContextTooLong,
        "",
    ),
    (
        "OpenAI Responses",
        400,
        "",
        "Your input exceeds the context window of this model.",
        ContextTooLong,
        "",
    ),
    (
        "OpenAI, per minute",
        429,
        "rate_limit_exceeded",
        "Request too large for gpt-5 on tokens per min (TPM): Limit 30000, "
        "Requested 40000. The input or output tokens must be reduced.",
        ContextTooLong,
        "",
    ),
    (
        "Azure",
        400,
        "content_filter",
        (
            "The response was filtered due to the prompt triggering Azure OpenAI's content "
            "management policy."
        ),
        Permanent,
        FILTERED,
    ),
    (
        "Azure, no deployment",
        404,
        "DeploymentNotFound",
        "The API deployment for this resource does not exist.",
        Mendable,
        "THREADLINE_OPENAI_MODEL",
    ),
    (
        "Anthropic",
        400,
        "invalid_request_error",
        "prompt is too long: 210000 tokens > 200000 maximum",
        ContextTooLong,
        "",
    ),
    (
        "Anthropic, with the answer",
        400,
        "",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000",
        ContextTooLong,
        "",
    ),
    (
        "Anthropic, size",
        413,
        "request_too_large",
        "Request exceeds the maximum size",
        ContextTooLong,
        "",
    ),
    (
        "Anthropic, credit",
        400,
        "",
        "Your credit balance is too low to access the Anthropic API.",
        Mendable,
        "billing",
    ),
    ("Anthropic, busy", 529, "overloaded_error", "Overloaded", Transient, "529"),
    (
        "Bedrock",
        400,
        "ValidationException",
        "Input is too long for requested model.",
        ContextTooLong,
        "",
    ),
    (
        "Bedrock, guardrail",
        400,
        "",
        "Sorry, the guardrail blocked this request.",
        Permanent,
        FILTERED,
    ),
    (
        "Gemini",
        400,
        "INVALID_ARGUMENT",
        "The input token count (1100000) exceeds the maximum number of tokens allowed (1048576).",
        ContextTooLong,
        "",
    ),
    (
        "Gemini, key",
        400,
        "INVALID_ARGUMENT",
        "API key not valid. Please pass a valid API key.",
        Mendable,
        "OPENAI_API_KEY",
    ),
    (
        "Gemini, rate",
        429,
        "RESOURCE_EXHAUSTED",
        (
            "You exceeded your current quota, please check your plan and billing details. Please "
            "retry in 34s."
        ),
        Transient,
        "rate limit",
    ),
    ("Gemini, safety", 400, "", "The prompt was blocked: PROHIBITED_CONTENT", Permanent, FILTERED),
    (
        "vLLM",
        400,
        "",
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens.",
        ContextTooLong,
        "",
    ),
    (
        "vLLM, decoder",
        400,
        "",
        "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
        ContextTooLong,
        "",
    ),
    (
        "llama.cpp",
        400,
        "",
        "the request exceeds the available context size (2048 tokens), try increasing it",
        ContextTooLong,
        "",
    ),
    ("llama.cpp, type", 400, "exceed_context_size_error", "", ContextTooLong, ""),
    ("llama.cpp, old", 500, "", "context size exceeded", ContextTooLong, ""),
    (
        "llama.cpp, a call",
        500,
        "",
        "Failed to parse tool call arguments as JSON",
        Transient,
        "unusable",
    ),
    ("llama.cpp, loading", 503, "", "Loading model", Transient, "503"),
    (
        "LM Studio",
        400,
        "",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens.",
        ContextTooLong,
        "",
    ),
    (
        "LM Studio, none",
        404,
        "",
        "No models loaded. Please load a model in the developer page.",
        Mendable,
        "THREADLINE_OPENAI_MODEL",
    ),
    (
        "Ollama",
        404,
        "",
        'model "llama9" not found, try pulling it first',
        Mendable,
        "THREADLINE_OPENAI_MODEL",
    ),
    (
        "Groq",
        400,
        "",
        "Please reduce the length of the messages or completion.",
        ContextTooLong,
        "",
    ),
    (
        "Groq, size",
        413,
        "rate_limit_exceeded",
        "Request too large for model `x` on tokens per minute (TPM): Limit 6000.",
        ContextTooLong,
        "",
    ),
    (
        "Groq, a call",
        400,
        "tool_use_failed",
        "Failed to call a function. Please adjust your prompt.",
        Transient,
        "unusable",
    ),
    ("Groq, JSON", 400, "json_validate_failed", "Failed to generate JSON.", Transient, "unusable"),
    (
        "xAI",
        400,
        "",
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
        ContextTooLong,
        "",
    ),
    (
        "xAI, key",
        400,
        "",
        "Incorrect API key provided: x. You can obtain an API key from the console.",
        Mendable,
        "OPENAI_API_KEY",
    ),
    ("xAI, guidelines", 403, "", "Content violates usage guidelines.", Permanent, FILTERED),
    (
        "OpenRouter",
        400,
        "",
        (
            "This endpoint's maximum context length is 32768 tokens. However, you requested "
            "about 40000."
        ),
        ContextTooLong,
        "",
    ),
    (
        "OpenRouter, moderation",
        403,
        "",
        "Your chosen model requires moderation and your input was flagged for violence.",
        Permanent,
        FILTERED,
    ),
    ("OpenRouter, credit", 402, "", "Insufficient credits. Add more.", Mendable, "billing"),
    (
        "Mistral",
        400,
        "",
        (
            "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 "
            "maximum context length"
        ),
        ContextTooLong,
        "",
    ),
    ("DeepSeek, balance", 402, "", "Insufficient Balance", Mendable, "billing"),
    (
        "TGI",
        422,
        "",
        "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000",
        ContextTooLong,
        "",
    ),
    (
        "SGLang",
        400,
        "",
        "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
        ContextTooLong,
        "",
    ),
    (
        "a limit on the answer",
        400,
        "",
        "max_tokens is too large: 4096. This model supports at most 1024 completion tokens.",
        Permanent,
        "invalid",
    ),
    ("a busy server", 503, "", "The server is too busy, try again later", Transient, "503"),
]


@pytest.mark.parametrize("row", VENDORS, ids=[row[0] for row in VENDORS])
def test_error_of_a_vendor_is_understood_by_its_words(
    row: tuple[str, int, str, str, type[Exception], str],
) -> None:
    _, status, code, text, kind, says = row
    error = translate(refusal(status, code or None, text), 1)
    assert type(error) is kind
    assert says in str(error)


def test_call_that_the_model_writes_wrongly_is_tried_again_few_times() -> None:
    kinds = [type(translate(refusal(400, "tool_use_failed"), attempt)) for attempt in (1, 2, 3, 4)]
    assert kinds == [Transient, Transient, Permanent, Permanent]
