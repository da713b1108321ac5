"""Adapts requests to one endpoint: omits the fields that it refused, and limits the answer's
length to its maximum.
"""

from collections.abc import Collection, Mapping
from typing import Any

import structlog
from openai import APIStatusError

from threadline.models.refusals import answer_limit, refusal_words, unsupported_fields

OPTIONAL = frozenset(
    {"response_format", "text", "store", "parallel_tool_calls", "tool_choice", "prompt_cache_key"}
)
"""Fields without which an answer is as good, or nearly: instructions also describe the form."""
_LENGTHS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
_OTHER_NAME = {"max_tokens": "max_completion_tokens", "max_completion_tokens": "max_tokens"}
_STATUSES = frozenset({400, 404, 422, 500, 501})


def answer_field(body: Mapping[str, Any]) -> str:
    """Return the field that limits a request's answer; empty where there is none."""
    return next((name for name in _LENGTHS if name in body), "")


class Concessions:
    """The refused fields and the answer limit of one endpoint and model.

    Args:
        kept: fields that are sent even where they are refused.
    """

    def __init__(self, kept: Collection[str] = ()) -> None:
        self._optional = OPTIONAL - frozenset(kept)
        self._left_out = set[str]()
        self._most: int | None = None

    def apply(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the body without the refused fields.

        Where the endpoint does not support `tool_choice`, a request that forbids tools offers
        none.
        """
        asked = {name: value for name, value in body.items() if name not in self._left_out}
        if body.get("tool_choice") == "none" and "tool_choice" not in asked:
            asked.pop("tools", None)
        name = answer_field(body)
        if not name:
            return asked
        most = min(body[name], self._most or body[name])
        usable = [
            each for each in (name, _OTHER_NAME.get(name, name)) if each not in self._left_out
        ]
        return asked | dict.fromkeys(usable[:1], most)

    def learn(self, error: APIStatusError, sent: Mapping[str, Any]) -> bool:
        """Read from a refusal how to change the next request.

        Args:
            error: the refusal.
            sent: the refused body; a concurrent call may have learnt the same.

        Returns:
            Whether the next request will differ from this one.
        """
        if error.status_code not in _STATUSES:
            return False
        told = refusal_words(error)
        length = answer_field(sent)
        most = answer_limit(told) if length else None
        if most is not None and 0 < most < sent[length]:
            self._limit(most)
            return True
        optional = [each for each in sent if each in self._optional or each == length]
        refused = unsupported_fields(told, optional)
        for name in refused - self._left_out:
            structlog.get_logger().info("model_field_left_out", field=name)
        self._left_out |= refused
        return bool(refused)

    def _limit(self, most: int) -> None:
        if self._most is None or most < self._most:
            self._most = most
            structlog.get_logger().info("model_answer_limited", tokens=most)
