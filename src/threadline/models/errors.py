"""What went wrong at the model's API, as one of the two sides an error can be on.

The words name the setting to mend, and repeat nothing that the other side wrote: its answers may quote the key, the
address or the conversation. Codes: https://developers.openai.com/api/docs/guides/error-codes.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, OpenAIError

from threadline.errors import Mendable, Permanent, Transient, parse_retry_after

MOST_DOUBLINGS = 10
"""Attempts whose wait still doubles: nobody makes more, and the power of a huge number would not be one."""

_LONG_WORDS = re.compile(
    r"context.{0,12}(?<![a-z])(length|window|size|limit|overflow)|maximum (prompt|model|sequence) length"
    r"|(prompt|input|request|conversation|messages?|`?inputs`?)\b.{0,60}\b(too (long|large)|exceeds|longer than)"
    r"|too many (input |total )?tokens|tokens?\b.{0,40}(cannot exceed|must be <=|exceeds the maximum)"
    r"|must have less than \d+ tokens|reduce the length|exceed_context|prompt_tokens_exceeded|request_too_large",
    re.IGNORECASE | re.DOTALL,
)
_NO_MODEL_WORDS = re.compile(
    r"(model|deployment).*(not found|not exist|unknown|not loaded)|(unknown|no such) model|no models? loaded"
    r"|is not a valid model",
    re.IGNORECASE | re.DOTALL,
)
_KEY_WORDS = re.compile(
    r"(incorrect|invalid|expired|wrong|missing) (api )?key|api key (is )?(not valid|expired|invalid|not found)",
    re.IGNORECASE,
)
_QUOTA_WORDS = re.compile(
    r"insufficient[ _](quota|balance|credits?|funds)|(credit|account) balance is too low|run out of credits"
    r"|exceeded your current quota, please check your plan and billing(?!.*retry)",
    re.IGNORECASE | re.DOTALL,
)
_FILTER_WORDS = re.compile(
    r"content[ _](filter|policy|management policy)|responsible ?ai ?policy|usage (policy|guidelines)"
    r"|(input|prompt|content) (was|is|has been) (flagged|blocked)|flagged (as|for)|data_inspection_failed"
    r"|prohibited_content|moderation|guardrail|inappropriate content|safety (system|reasons)",
    re.IGNORECASE,
)
_GENERATION_WORDS = re.compile(
    r"tool_use_failed|json_validate_failed|failed to call a function"
    r"|failed to (generate|parse).{0,40}(json|tool|function)"
    r"|malformed[ _]function[ _]call|unexpected[ _]tool[ _]call|invalid tool call",
    re.IGNORECASE,
)
_GENERATION_TRIES = 3
"""Attempts at an answer that the model itself wrote wrongly."""

_KEY = "The model's API refused the key: check OPENAI_API_KEY."
_POWERS = (
    "The model's API does not let the key use the model: check the rights of OPENAI_API_KEY, and the model in "
    "THREADLINE_OPENAI_MODEL."
)
_QUOTA = "The account at the model's API has no credit left: check its billing, or set another key in OPENAI_API_KEY."
_MODEL = "The model's API does not know the model: check THREADLINE_OPENAI_MODEL."
_ADDRESS = (
    "No model API was found at the address: check OPENAI_BASE_URL (OpenAI's own ends in /v1) and THREADLINE_OPENAI_API."
)
_INVALID = (
    "The model's API refused the request as invalid: check that the model in THREADLINE_OPENAI_MODEL can call tools, "
    "and with another provider's endpoint set THREADLINE_OPENAI_API to chat."
)
_LONG = (
    "The conversation is longer than the model can read: shorten it, or name a model with a larger window in "
    "THREADLINE_OPENAI_MODEL."
)
_FILTERED = "The model's provider refused to answer this conversation: ask in other words."
_UNUSABLE = "The model wrote a call of a tool that its own API refused: ask again in other words."

MODEL_FAULT = "model"
"""The kind of the faults of the conversations' model."""


class ContextTooLong(Permanent):
    """The prompt does not fit the model's window: asking again with less may help."""


class InvalidResponse(Exception):
    """An answer that came, and told of a failure by its `code` and `message`; some tell none."""

    def __init__(self, code: str = "", message: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.message = message


KNOWN_ERRORS = (OpenAIError, InvalidResponse, TimeoutError)
UNREADABLE = "unreadable"


@contextmanager
def parse_errors() -> Iterator[None]:
    """Turn an answer of another shape, which the SDK does not check, into InvalidResponse."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError) as exc:
        raise InvalidResponse(UNREADABLE) from exc


def translate(error: Exception, attempt: int) -> Permanent | Transient:
    """Pick a side for what a call to the model's API raised, one of `KNOWN_ERRORS`. `attempt` counts from 1: after a
    rate limit the least wait is two seconds, then four, then eight."""
    match error:
        case APIStatusError():
            return _answered(error, attempt)
        case APITimeoutError() | TimeoutError():
            return Transient("The model did not answer in time.")
        case APIConnectionError():
            return Transient("The model's API could not be reached: check the network and OPENAI_BASE_URL.")
        case APIError():
            return _told(str(error.code or error.type or ""), error.message, attempt)
        case InvalidResponse():
            return _told(error.code, error.message, attempt)
        case _:
            return Mendable(_KEY, kind=MODEL_FAULT, subject="key")


def is_endpoint_missing(error: APIStatusError) -> bool:
    """Whether the address knows no such API at all, rather than no such model."""
    return error.status_code in (404, 405) and not _is_model_unknown(error)


def is_reasoning_missing(error: APIStatusError) -> bool:
    """Whether the model does not reason, so that it has no thoughts to encrypt and refuses to be asked for them."""
    return error.param == "include" or "encrypted content is not supported" in error.message.lower()


def reason_of(error: Exception) -> str:
    """The API's own words, for the log alone: they may quote the conversation."""
    if isinstance(error, InvalidResponse):
        return f"{error.code}: {error.message}".strip(": ")
    return str(error)


def _answered(error: APIStatusError, attempt: int) -> Permanent | Transient:
    status, pause = error.status_code, parse_retry_after(error.response.headers, datetime.now(UTC))
    if known := _by_words(f"{error.code} {error.message}", attempt):
        return known
    if status == 429:
        return _limited(attempt, pause)
    if status in (408, 409, 425) or status >= 500:
        return Transient(f"The model's API failed or is overloaded (HTTP {status}).", retry_after=pause)
    if status == 413:
        return ContextTooLong(_LONG)
    return _refused(error, status)


def _refused(error: APIStatusError, status: int) -> Permanent:
    """A refusal that lasts until the admin, or the person who asks, changes something."""
    if status == 402:
        return Mendable(_QUOTA, kind=MODEL_FAULT, subject="credit")
    if status == 401 or (status in (400, 403) and _KEY_WORDS.search(error.message)):
        return Mendable(_KEY, kind=MODEL_FAULT, subject="key")
    if status == 403:
        return Mendable(_POWERS, kind=MODEL_FAULT, subject="key")
    if _is_model_unknown(error):
        return Mendable(_MODEL, kind=MODEL_FAULT, subject="name")
    if status in (404, 405):
        return Mendable(_ADDRESS, kind=MODEL_FAULT, subject="address")
    return Permanent(_INVALID)


def _told(code: str, message: str, attempt: int) -> Permanent | Transient:
    """For an error that came in an answer, where no status says more."""
    if code == UNREADABLE:
        return Transient("The answer of the model's API could not be read: check OPENAI_BASE_URL.")
    if known := _by_words(f"{code} {message}", attempt):
        return known
    if code in ("rate_limit_exceeded", "rate_limit_error", "429", "RESOURCE_EXHAUSTED"):
        return _limited(attempt, None)
    if code.startswith("invalid_"):
        return Permanent(_INVALID)
    if code.endswith(("_policy", "_policy_violation")):
        return Permanent(_FILTERED)
    return Transient("The model's answer broke off.")


def _by_words(told: str, attempt: int) -> Permanent | Transient | None:
    """A failure that vendors tell by words or a code, under whatever status. `told`: code and message."""
    if _GENERATION_WORDS.search(told):
        return Permanent(_UNUSABLE) if attempt >= _GENERATION_TRIES else Transient("The model's answer was unusable.")
    if _LONG_WORDS.search(told):
        return ContextTooLong(_LONG)
    if _QUOTA_WORDS.search(told):
        return Mendable(_QUOTA, kind=MODEL_FAULT, subject="credit")
    if _FILTER_WORDS.search(told):
        return Permanent(_FILTERED)
    return None


def _limited(attempt: int, pause: float | None) -> Transient:
    wait = max(2.0 ** min(max(attempt, 0), MOST_DOUBLINGS), pause or 0.0)
    return Transient("The rate limit of the model's API is reached.", retry_after=wait)


def _is_model_unknown(error: APIStatusError) -> bool:
    if error.code == "model_not_found":
        return True
    said = isinstance(error.body, Mapping) and _NO_MODEL_WORDS.search(error.message)
    return error.status_code in (400, 404) and bool(said)
