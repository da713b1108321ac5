"""Refusals of many vendors that name a part of the request."""

from typing import Any

import httpx2
import pytest
from openai import APIStatusError, OpenAI

from threadline.models.concessions import Concessions
from threadline.models.errors import ContextTooLong, is_answer_counted, reason_of, translate
from threadline.models.refusals import answer_limit, counts_answer, refusal_words

CHAT = {
    "model": "m",
    "messages": [],
    "tools": [{}],
    "tool_choice": "auto",
    "max_tokens": 4096,
    "response_format": {},
    "store": False,
    "parallel_tool_calls": False,
}


def refusal(body: Any, status: int = 400) -> APIStatusError:
    """The error that the SDK makes of a body."""
    answer = (
        httpx2.Response(status, text=body)
        if isinstance(body, str)
        else httpx2.Response(status, json=body)
    )
    http = httpx2.Client(transport=httpx2.MockTransport(lambda request: answer))
    client = OpenAI(api_key="k", base_url="https://a.example/v1", http_client=http, max_retries=0)
    with client, pytest.raises(APIStatusError) as raised:
        client.models.list()
    return raised.value


def told(message: str, **more: Any) -> dict[str, Any]:
    return {
        "error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}
        | more
    }


COUNTED: list[tuple[str, str, bool]] = [
    (
        "vLLM, OpenAI, DeepSeek",
        "This model's maximum context length is 6048 tokens. However, you requested 6616 tokens "
        "(568 in the messages, 6048 in the completion). Please reduce the length of the "
        "messages or completion.",
        True,
    ),
    (
        "vLLM, later",
        "'max_tokens' or 'max_completion_tokens' is too large: 4096. This model's maximum "
        "context length is 4096 tokens and your request has 500 input tokens (4096 > 4096 - "
        "500).",
        True,
    ),
    (
        "vLLM, latest",
        "You passed 3000 input tokens and requested 4096 output tokens. However, the model's "
        "context length is only 4096 tokens, resulting in a maximum input length of 0 tokens. "
        "Please reduce the length of the input prompt.",
        True,
    ),
    (
        "SGLang",
        "Requested token count exceeds the model's maximum context length of 4096 tokens. You "
        "requested a total of 5000 tokens: 904 tokens from the input messages and 4096 tokens "
        "for the completion.",
        True,
    ),
    (
        "OpenRouter",
        "This endpoint's maximum context length is 32768 tokens. However, you requested about "
        "40000 tokens (35904 of text input, 4096 in the output). Please reduce the length of "
        "either one.",
        True,
    ),
    (
        "Groq",
        "Please reduce the length of the messages or completion. context_length_exceeded",
        True,
    ),
    (
        "Anthropic",
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease "
        "input length or `max_tokens` and try again",
        True,
    ),
    (
        "TGI, Together",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: "
        "3000 `inputs` tokens and 4096 `max_new_tokens`; too many tokens",
        True,
    ),
    (
        "vLLM, the prompt alone",
        "This model's maximum context length is 4096 tokens. However, your request has 5000 "
        "input tokens. Please reduce the length of the input messages.",
        False,
    ),
    (
        "llama.cpp",
        "the request exceeds the available context size (2048 tokens), try increasing it",
        False,
    ),
    ("OpenAI", "Your input exceeds the context window of this model.", False),
    ("Anthropic, the prompt", "prompt is too long: 210000 tokens > 200000 maximum", False),
    (
        "LM Studio",
        "Trying to keep the first 5000 tokens when context the overflows. However, the model is "
        "loaded with context length of only 4096 tokens.",
        False,
    ),
    ("Bedrock", "Input is too long for requested model.", False),
    ("a wrong key", "Incorrect API key provided", False),
]


@pytest.mark.parametrize(
    ("text", "counted"), [row[1:] for row in COUNTED], ids=[row[0] for row in COUNTED]
)
def test_window_that_holds_the_answer_is_recognised_by_its_words(text: str, counted: bool) -> None:
    error = refusal(told(text))

    assert is_answer_counted(error) is counted
    assert answer_limit(refusal_words(error)) is None


LIMITS: list[tuple[str, str, int]] = [
    (
        "OpenAI",
        (
            "max_tokens is too large: 6000. This model supports at most 4096 completion tokens, "
            "whereas you provided 6000."
        ),
        4096,
    ),
    ("a plain one", "max_tokens must be at most 4096", 4096),
    ("with a comma", "max_tokens must be no more than 8,192", 8192),
    ("DeepSeek", "Invalid max_tokens value, the valid range of max_tokens is [1, 4096]", 4096),
    (
        "DashScope",
        "<400> InternalError.Algo.InvalidParameter: Range of max_tokens should be [1, 2000]",
        2000,
    ),
    (
        "Groq",
        "`max_completion_tokens` must be less than or equal to `8192`, the maximum value for "
        "`max_completion_tokens` is less than the `context_window` for this model",
        8192,
    ),
    (
        "Anthropic",
        (
            "max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens for "
            "claude-3-opus"
        ),
        4096,
    ),
    (
        "Bedrock",
        "The maximum tokens you requested exceeds the model limit of 4096. Try again with a "
        "maximum tokens value that is lower than 4096.",
        4096,
    ),
    (
        "Vertex",
        "Unable to submit request because it has a maxOutputTokens value of 100000 but the "
        "supported range is from 1 (inclusive) to 8193 (exclusive).",
        8192,
    ),
    ("Fireworks", "Requests with max_tokens > 4096 must have stream=true", 4096),
    ("TGI", "Input validation error: `max_new_tokens` must be <= 2048. Given: 4096", 2048),
    ("Cohere", "invalid request: max_tokens must be less than or equal to 4000", 4000),
    ("Baidu", "the value of max_output_tokens must be in the range [2, 2048]", 2048),
]


@pytest.mark.parametrize(
    ("text", "limit"), [row[1:] for row in LIMITS], ids=[row[0] for row in LIMITS]
)
def test_limit_of_an_answer_is_read(text: str, limit: int) -> None:
    told_words = refusal_words(refusal(told(text)))

    assert answer_limit(told_words) == limit
    assert not counts_answer(told_words)


EXTRA = {
    "type": "extra_forbidden",
    "loc": ["body", "store"],
    "msg": "Extra inputs are not permitted",
    "input": CHAT,
}
UNSUPPORTED: list[tuple[str, Any, set[str]]] = [
    (
        "OpenAI",
        told(
            "Unsupported parameter: 'parallel_tool_calls' is not supported with this model.",
            param="parallel_tool_calls",
            code="unsupported_parameter",
        ),
        {"parallel_tool_calls"},
    ),
    ("OpenAI, unknown", told("Unrecognized request argument supplied: store"), {"store"}),
    (
        "OpenAI, a form",
        told(
            (
                "Invalid parameter: 'response_format' of type 'json_schema' is not supported "
                "with this model."
            ),
            param="response_format",
        ),
        {"response_format"},
    ),
    (
        "OpenAI, Azure",
        told(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            param="max_tokens",
            code="unsupported_parameter",
        ),
        {"max_tokens"},
    ),
    ("Groq", told("property 'store' is unsupported"), {"store"}),
    (
        "Groq, a form",
        told("This model does not support response format `json_schema`."),
        {"response_format"},
    ),
    (
        "Groq, both",
        told("json mode cannot be combined with tool/function calling"),
        {"response_format"},
    ),
    (
        "Mistral",
        {"object": "error", "message": {"detail": [EXTRA]}, "type": "invalid_request_error"},
        {"store"},
    ),
    ("FastAPI", {"detail": [EXTRA]}, {"store"}),
    (
        "Fireworks",
        told("Extra inputs are not permitted, field: 'parallel_tool_calls'"),
        {"parallel_tool_calls"},
    ),
    (
        "Databricks",
        {"error_code": "BAD_REQUEST", "message": "store: Extra inputs are not permitted"},
        {"store"},
    ),
    ("DeepSeek", told("This response_format type is unavailable now"), {"response_format"}),
    (
        "Gemini",
        told('Invalid JSON payload received. Unknown name "store": Cannot find field.'),
        {"store"},
    ),
    ("Gemini, a form", told("JSON mode is not enabled for this model"), {"response_format"}),
    ("a server in Go", 'json: unknown field "tool_choice"', {"tool_choice"}),
    (
        "LiteLLM",
        told(
            "litellm.UnsupportedParamsError: x does not support parameters: "
            "['response_format', 'tool_choice']"
        ),
        {"response_format", "tool_choice"},
    ),
    (
        "LM Studio",
        {"error": "'response_format.type' must be 'json_object' or 'text'"},
        {"response_format"},
    ),
    (
        "llama.cpp",
        told('response_format type must be one of "text" or "json_object", but got: json_schema'),
        {"response_format"},
    ),
    ("llama.cpp, old", told("Unsupported param: tool_choice"), {"tool_choice"}),
    (
        "OpenRouter",
        told("No endpoints found that support the provided 'tool_choice' value."),
        {"tool_choice"},
    ),
    ("Cerebras", told('"tools" is incompatible with "response_format"'), {"response_format"}),
    ("no tools at all", told("registry.ollama.ai/library/x does not support tools"), set()),
    (
        "vLLM without a parser",
        told(
            '"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser '
            "to be set"
        ),
        set(),
    ),
    (
        "another field",
        told("Unsupported parameter: 'messages' is not supported with this model."),
        set(),
    ),
    ("a word of English", told("The store is not supported by the cart"), set()),
    ("no refusal of a field", told("max_tokens is too large"), set()),
]


@pytest.mark.parametrize(
    ("body", "fields"), [row[1:] for row in UNSUPPORTED], ids=[row[0] for row in UNSUPPORTED]
)
def test_refused_fields_are_left_out(body: Any, fields: set[str]) -> None:
    concessions = Concessions()

    assert concessions.learn(refusal(body), CHAT) is bool(fields)
    assert {name for name in CHAT if name not in concessions.apply(CHAT)} == fields


def test_refused_length_has_another_name_and_then_none() -> None:
    concessions = Concessions()
    concessions.learn(refusal(told("Unsupported parameter: 'max_tokens'")), CHAT)
    renamed = concessions.apply(CHAT)
    assert renamed["max_completion_tokens"] == CHAT["max_tokens"]

    assert concessions.learn(
        refusal(told("Unsupported parameter: 'max_completion_tokens'")), renamed
    )
    assert not {"max_tokens", "max_completion_tokens"} & concessions.apply(CHAT).keys()


def test_request_that_forbids_tools_offers_none_without_a_choice() -> None:
    concessions = Concessions()
    concessions.learn(refusal(told("Unsupported parameter: 'tool_choice'")), CHAT)
    assert "tools" in concessions.apply(CHAT)
    assert "tools" not in concessions.apply({**CHAT, "tool_choice": "none"})


def test_kept_field_is_sent_even_where_it_is_refused() -> None:
    concessions = Concessions(kept=("store",))
    assert not concessions.learn(refusal(told("Unknown parameter: 'store'")), CHAT)
    assert "store" in concessions.apply(CHAT)


@pytest.mark.parametrize("status", [401, 403, 429, 503])
def test_other_failures_change_no_request(status: int) -> None:
    assert not Concessions().learn(refusal(told("Unknown parameter: 'store'"), status), CHAT)


LONG = "the request exceeds the available context size"


@pytest.mark.parametrize(
    "body",
    [
        told(LONG),
        {"error": LONG},
        {"error": LONG, "error_type": "validation"},
        {"message": LONG},
        {"object": "error", "message": LONG, "code": 400},
        {"detail": LONG},
        {"detail": [{"loc": ["body", "messages"], "msg": LONG, "type": "value_error"}]},
        {"errors": [{"message": LONG}]},
        [{"error": {"message": LONG}}],
        LONG,
    ],
    ids=str,
)
def test_words_are_found_in_any_body(body: Any) -> None:
    error = refusal(body)
    assert isinstance(translate(error, 1), ContextTooLong)
    assert LONG in reason_of(error)
