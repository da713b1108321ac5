"""Translates errors of the model's API into `Permanent` or `Transient`.

The messages name the setting to correct, and repeat nothing of the API's answer, which may quote
the key, the address or the conversation. Codes:
https://developers.openai.com/api/docs/guides/error-codes.
"""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from openai import APIConnectionError, APIError, APIStatusError, APITimeoutError, OpenAIError

from threadline.errors import Mendable, Permanent, Transient, parse_retry_after
from threadline.models.model import CallFailure
from threadline.models.refusals import answer_limit, counts_answer, refusal_words
from threadline.privacy.redaction import redact

MOST_DOUBLINGS = 10
"""Attempts after which the wait stops doubling. No caller makes more, and the power of a huge
number would overflow.
"""

_LONG_WORDS = re.compile(
    r"context.{0,12}(?<![a-z])(length|window|size|limit|overflow)|maximum "
    r"(prompt|model|sequence) length"
    r"|(prompt|input|request|conversation|messages?|`?inputs`?)\b.{0,60}\b(too "
    r"(long|large)|exceeds|longer than)"
    r"|too many (input |total )?tokens|tokens?\b.{0,40}(cannot exceed|must be <=|exceeds the "
    r"maximum)"
    r"|must have less than \d+ tokens|reduce the "
    r"length|exceed_context|prompt_tokens_exceeded|request_too_large",
    re.IGNORECASE | re.DOTALL,
)
_NO_MODEL_WORDS = re.compile(
    r"(model|deployment).*(not found|not exist|unknown|not loaded)|(unknown|no such) model|no "
    r"models? loaded"
    r"|is not a valid model",
    re.IGNORECASE | re.DOTALL,
)
_KEY_WORDS = re.compile(
    (
        r"(incorrect|invalid|expired|wrong|missing)[ _](api[ _])?key|api key (is )?(not "
        r"valid|expired|invalid|not found)"
    ),
    re.IGNORECASE,
)
_QUOTA_WORDS = re.compile(
    r"insufficient[ _](quota|balance|credits?|funds)|(credit|account) balance is too low|run out "
    r"of credits"
    r"|exceeded your current quota, please check your plan and billing(?!.*retry)",
    re.IGNORECASE | re.DOTALL,
)
_FILTER_WORDS = re.compile(
    r"content[ _](filter|policy|management policy)|responsible ?ai ?policy|usage "
    r"(policy|guidelines)"
    r"|(input|prompt|content) (was|is|has been) (flagged|blocked)|flagged "
    r"(as|for)|data_inspection_failed"
    r"|prohibited_content|moderation|guardrail|inappropriate content|safety (system|reasons)",
    re.IGNORECASE,
)
_GENERATION_WORDS = re.compile(
    r"tool_use_failed|json_validate_failed|failed to call a function"
    r"|failed to (generate|parse).{0,40}(json|tool|function)"
    r"|malformed[ _]function[ _]call|unexpected[ _]tool[ _]call|invalid tool call",
    re.IGNORECASE,
)
_LONGEST_REASON = 500
_GENERATION_TRIES = 3
"""Attempts while the model itself writes an invalid answer."""

_KEY = "The model's API refused the key: check OPENAI_API_KEY."
_POWERS = (
    "The model's API does not let the key use the model: check the rights of OPENAI_API_KEY, "
    "and the model in THREADLINE_OPENAI_MODEL."
)
_QUOTA = (
    "The account at the model's API has no credit left: check its billing, or set another key in "
    "OPENAI_API_KEY."
)
_MODEL = "The model's API does not know the model: check THREADLINE_OPENAI_MODEL."
_LATE = "The model did not answer in time."
_ADDRESS = (
    "No model API was found at the address: check OPENAI_BASE_URL (OpenAI's own ends in /v1) and "
    "THREADLINE_OPENAI_API."
)
_INVALID = (
    "The model's API refused the request as invalid: check that the model in "
    "THREADLINE_OPENAI_MODEL can call tools, and with another provider's endpoint set "
    "THREADLINE_OPENAI_API to chat."
)
_LONG = (
    "The conversation is longer than the model can read: shorten it, or name a model with a "
    "larger window in THREADLINE_OPENAI_MODEL."
)
_FILTERED = "The model's provider refused to answer this conversation: ask in other words."
_UNUSABLE = "The model wrote a call of a tool that its own API refused: ask again in other words."

MODEL_FAULT = "model"
"""The kind of the faults of the conversations' model."""


class ContextTooLong(Permanent):
    """The prompt does not fit the model's window; a shorter one may."""


class InvalidResponse(Exception):
    """An answer that reports a failure by its `code` and `message`, which may be empty."""

    def __init__(self, code: str = "", message: str = "") -> None:
        super().__init__(code)
        self.code = code
        self.message = message


KNOWN_ERRORS = (OpenAIError, InvalidResponse, TimeoutError)
UNREADABLE = "unreadable"


@contextmanager
def parse_errors() -> Iterator[None]:
    """Raise InvalidResponse for an answer of another shape, which the SDK does not check."""
    try:
        yield
    except (ValueError, TypeError, AttributeError, LookupError) as exc:
        raise InvalidResponse(UNREADABLE) from exc


def translate(error: Exception, attempt: int) -> Permanent | Transient:
    """Translate an exception of a call to the model's API, one of `KNOWN_ERRORS`.

    Args:
        attempt: counts from 1: after a rate limit the least wait is two seconds, then four, then
            eight.
    """
    match error:
        case APIStatusError():
            return _answered(error, attempt)
        case APITimeoutError() | TimeoutError():
            return Transient(_LATE)
        case APIConnectionError():
            return Transient(
                "The model's API could not be reached: check the network and OPENAI_BASE_URL."
            )
        case APIError():
            return _told(str(error.code or error.type or ""), error.message, attempt)
        case InvalidResponse():
            return _told(error.code, error.message, attempt)
        case _:
            return Mendable(_KEY, kind=MODEL_FAULT, subject="key")


def is_endpoint_missing(error: APIStatusError) -> bool:
    """Whether the address has no such API at all, rather than no such model."""
    return error.status_code in (404, 405) and not _is_model_unknown(error)


def is_answer_counted(error: APIStatusError) -> bool:
    """Whether the prompt and the longest answer together are too long, so that a shorter answer
    may fit.
    """
    return isinstance(translate(error, 1), ContextTooLong) and counts_answer(refusal_words(error))


def is_reasoning_missing(error: APIStatusError) -> bool:
    """Whether the model does not reason, so that it has no reasoning to encrypt and refuses the
    request for it.
    """
    return (
        error.param == "include"
        or "encrypted content is not supported" in refusal_words(error).lower()
    )


def reason_of(error: Exception) -> str:
    """Return the API's own text without secrets, for the admin only: it may quote the
    conversation.
    """
    if isinstance(error, APIStatusError):
        told = refusal_words(error)
    else:
        told = (
            f"{error.code}: {error.message}".strip(": ")
            if isinstance(error, InvalidResponse)
            else str(error)
        )
    return redact(told)[:_LONGEST_REASON]


def call_failure(failure: Exception) -> CallFailure:
    """Read an exception of `ChatModel.ask`, or of a timeout around it."""
    cause = failure.__cause__
    reason = reason_of(cause) if isinstance(cause, KNOWN_ERRORS) else ""
    if isinstance(failure, TimeoutError):
        return CallFailure(_LATE)
    told = str(failure) if isinstance(failure, Permanent | Transient) else type(failure).__name__
    return CallFailure(told, reason)


def _answered(error: APIStatusError, attempt: int) -> Permanent | Transient:
    status = error.status_code
    pause = parse_retry_after(error.response.headers, datetime.now(UTC))
    if known := _by_words(refusal_words(error), attempt):
        return known
    if status == 429:
        return _limited(attempt, pause)
    if status in (408, 409, 425) or status >= 500:
        return Transient(
            f"The model's API failed or is overloaded (HTTP {status}).", retry_after=pause
        )
    if status == 413:
        return ContextTooLong(_LONG)
    return _refused(error, status)


def _refused(error: APIStatusError, status: int) -> Permanent:
    """Translate a refusal that lasts until the admin, or the user, changes something."""
    if status == 402:
        return Mendable(_QUOTA, kind=MODEL_FAULT, subject="credit")
    if status == 401 or (status in (400, 403) and _KEY_WORDS.search(refusal_words(error))):
        return Mendable(_KEY, kind=MODEL_FAULT, subject="key")
    if status == 403:
        return Mendable(_POWERS, kind=MODEL_FAULT, subject="key")
    if _is_model_unknown(error):
        return Mendable(_MODEL, kind=MODEL_FAULT, subject="name")
    if status in (404, 405):
        return Mendable(_ADDRESS, kind=MODEL_FAULT, subject="address")
    return Permanent(_INVALID)


def _told(code: str, message: str, attempt: int) -> Permanent | Transient:
    """Translate an error in the body of an answer, where no status says more."""
    if code == UNREADABLE:
        return Transient("The answer of the model's API could not be read: check OPENAI_BASE_URL.")
    if known := _by_words(f"{code} {message}", attempt):
        return known
    if code in ("rate_limit_exceeded", "rate_limit_error", "429", "RESOURCE_EXHAUSTED"):
        return _limited(attempt, None)
    if refused := _refused_by_code(code, message):
        return refused
    if code.endswith(("_policy", "_policy_violation")):
        return Permanent(_FILTERED)
    return Transient("The model's answer broke off.")


def _refused_by_code(code: str, message: str) -> Permanent | None:
    """Translate a refusal in an answer, whose code may be a status."""
    told = f"{code} {message}"
    if code in ("401", "authentication_error", "unauthorized") or _KEY_WORDS.search(told):
        return Mendable(_KEY, kind=MODEL_FAULT, subject="key")
    if code == "402":
        return Mendable(_QUOTA, kind=MODEL_FAULT, subject="credit")
    if code in ("403", "permission_denied", "permission_error"):
        return Mendable(_POWERS, kind=MODEL_FAULT, subject="key")
    if code == "model_not_found" or _NO_MODEL_WORDS.search(message):
        return Mendable(_MODEL, kind=MODEL_FAULT, subject="name")
    if code in ("400", "404", "422") or code.lower().startswith("invalid"):
        return Permanent(_INVALID)
    return None


def _by_words(told: str, attempt: int) -> Permanent | Transient | None:
    """Translate a failure that vendors report by text or a code, with varying status.

    Args:
        told: code and message.
    """
    if _GENERATION_WORDS.search(told):
        return (
            Permanent(_UNUSABLE)
            if attempt >= _GENERATION_TRIES
            else Transient("The model's answer was unusable.")
        )
    if _LONG_WORDS.search(told) and answer_limit(told) is None:
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
    said = isinstance(error.body, Mapping) and _NO_MODEL_WORDS.search(refusal_words(error))
    return error.status_code in (400, 404) and bool(said)
