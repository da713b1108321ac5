"""Errors in the body of an answer with status 200, in the fields that vendors commonly use."""

from collections.abc import Mapping
from typing import Any

from threadline.models.errors import InvalidResponse

_CODES = ("code", "type", "status", "error_code", "status_code")
_WORDS = ("message", "msg", "detail", "error_msg", "status_msg")


def raise_error(answer: Any, *, has_answer: bool) -> None:
    """Raise InvalidResponse where an answer reports an error.

    Args:
        answer: the SDK's object, or a part of it.
        has_answer: whether the object also holds an answer, so that a mere `message` in it is no
            error.
    """
    fields = _fields(answer)
    for name in ("error", "errors", "base_resp"):
        _raise(fields.get(name), fields)
    if not has_answer and any(isinstance(fields.get(name), str) for name in _WORDS):
        _raise(fields, fields)


def _fields(answer: Any) -> Mapping[str, Any]:
    if isinstance(answer, Mapping):
        return answer
    return {**getattr(answer, "__dict__", {}), **(getattr(answer, "model_extra", None) or {})}


def _raise(error: Any, around: Mapping[str, Any]) -> None:
    if isinstance(error, list):
        error = error[0] if error else None
    if not error:
        return
    if isinstance(error, str):
        raise InvalidResponse(_code(around), error)
    told = _fields(error) or around
    code = _code(told)
    if set(told) & {"status_code", "status_msg"} and code in ("", "0"):
        return  # MiniMax reports success in the same place
    words = next((str(told[name]) for name in _WORDS if told.get(name)), "")
    raise InvalidResponse(code, words or str(told))


def _code(told: Mapping[str, Any]) -> str:
    return next((str(told[name]) for name in _CODES if told.get(name)), "")
