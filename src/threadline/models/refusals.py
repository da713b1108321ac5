"""Reads refusals that name a part of the request, in the wording of many vendors' endpoints.

The functions take the text of a refusal. `tests/models/test_refusals_rules.py` has the table.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from openai import APIStatusError

_LONGEST = 4_000
_ANSWER = r"max_?(?:new|completion|output)?_?tokens"
_LIMITS = (
    re.compile(r"supports? at most ([\d,]+) (?:completion |output )?tokens", re.IGNORECASE),
    re.compile(
        rf"(?<!\+ )(?<!\+ `){_ANSWER}\b(?!.{{0,20}}\+).{{0,80}}?"
        r"(?:at most|less than or equal to|no (?:more|greater|larger) than|not exceed|cannot "
        r"exceed|<=)\W*([\d,]+)",
        re.IGNORECASE | re.DOTALL,
    ),
    re.compile(rf"{_ANSWER}\b[^\[]{{0,60}}\[\s*\d+\s*,\s*([\d,]+)\s*\]", re.IGNORECASE),
    re.compile(rf"{_ANSWER}\W{{1,3}}[\d,]+ > ([\d,]+), which is the maximum", re.IGNORECASE),
    re.compile(rf"{_ANSWER} > ([\d,]+) must have stream", re.IGNORECASE),
    re.compile(r"maximum tokens you requested exceeds the model limit of ([\d,]+)", re.IGNORECASE),
)
_LIMIT_EXCLUSIVE = re.compile(
    rf"{_ANSWER}.{{0,80}}to ([\d,]+) \(exclusive\)", re.IGNORECASE | re.DOTALL
)
_COUNTED = re.compile(
    r"(?:in|for) the (?:completion|output)\b|(?:messages?|input|prompt) (?:or|and) (?:the "
    r")?(?:completion|output)"
    rf"|{_ANSWER}\W{{1,3}}exceeds? (?:the )?context|\+ `?{_ANSWER}|requested [\d,]+ output tokens"
    rf"|{_ANSWER}\b.{{0,40}}too large.{{0,80}}context length|length of either one",
    re.IGNORECASE | re.DOTALL,
)

_UNSUPPORTED = re.compile(
    r"unknown|unrecogni[sz]ed|unsupported|(?:not|n't|cannot) (?:currently "
    r")?(?:support|permit|allow|enabled)"
    r"|unexpected|extra[_ ](?:inputs?|fields?|forbidden)|unavailable|cannot be "
    r"combined|incompatible|no endpoints found"
    r"|additional propert|invalid parameter|'?type'? must be|cannot find field|conversion "
    r"failed|parse grammar",
    re.IGNORECASE,
)
_JSON = r"response[_ ]format|json[_ ]schema|json[_ ]mode|structured[_ ]outputs?|grammar"
_NAMES = {
    "response_format": re.compile(_JSON, re.IGNORECASE),
    "text": re.compile(rf"\btext\.format|'text'|{_JSON}", re.IGNORECASE),
    "tool_choice": re.compile(r"\btool[_ ]?choice\b", re.IGNORECASE),
    "store": re.compile(
        r"[`'\"]store\b|(?:argument|parameter|field|supplied|property|input)s?:? store\b|\bstore: "
    ),
}
"""Patterns for fields with several names, or whose names are English words."""


def refusal_words(error: APIStatusError) -> str:
    """Return the text of a refusal from any place in its body; from a validation's result without
    the input that it echoes.

    The SDK's message only covers `error.message`.
    """
    body = error.body
    words = [f"{place!r}: {message}" for place, message in _validated(body)]
    told = body.get("message") if isinstance(body, Mapping) else None
    if body and not words and not isinstance(told, str):
        words = [str(body)[:_LONGEST]]
    code = str(error.code or "")
    return " ".join(filter(None, (code, error.message, *words)))


def _validated(body: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the places and messages of errors in the form of pydantic and FastAPI."""
    if isinstance(body, Mapping) and {"loc", "msg"} <= body.keys():
        yield body["loc"], body["msg"]
        return
    inner = body.values() if isinstance(body, Mapping) else body
    if isinstance(body, Mapping) or (isinstance(body, Sequence) and not isinstance(body, str)):
        for each in inner:
            yield from _validated(each)


def answer_limit(refused: str) -> int | None:
    """Return the limit of an answer's tokens, where a refusal names it."""
    if found := _LIMIT_EXCLUSIVE.search(refused):
        return _number(found[1]) - 1
    for form in _LIMITS:
        if found := form.search(refused):
            return _number(found[1])
    return None


def counts_answer(refused: str) -> bool:
    """Whether the endpoint counts the answer's tokens into the model's window."""
    return _COUNTED.search(refused) is not None


def unsupported_fields(refused: str, sent: Iterable[str]) -> frozenset[str]:
    """Return the sent fields that a refusal names as unknown or unsupported."""
    if not _UNSUPPORTED.search(refused):
        return frozenset()
    named = [each for each in sent if _is_named(each, refused)]
    instead = re.search(r"[Uu]se [`'\"](\w+)[`'\"] instead", refused)
    return frozenset(each for each in named if instead is None or each != instead[1])


def _is_named(field: str, refused: str) -> bool:
    return (_NAMES.get(field) or re.compile(rf"\b{field}\b")).search(refused) is not None


def _number(text: str) -> int:
    return int(text.replace(",", ""))
