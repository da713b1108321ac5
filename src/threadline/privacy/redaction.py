"""Replaces secrets in people's words, in logs and in an agent's sources with marks that name the
kind of secret.

Not for workflow code: the rules change with each release, and a workflow would decide differently
at its replay (import-linter keeps it out of `workflows/`). Pure: it uses only the patterns of
detect-secrets.
"""

import re
from collections.abc import Mapping
from typing import Any

_ROUNDS = 8
"""Replacing one secret can uncover another. Each round removes text, and two rounds are enough for
nearly every text.
"""
_SECRET_FIELD = re.compile(
    r"(?:^|_)(?:password|passwd|secret|api_key|authorization|(?:bot|app|access|auth)_token)$"
)
_DEEPEST = 20
"""Levels of a nested value that are searched; a deeper value becomes one redacted text."""


def redact(text: str) -> str:
    """Replace each secret with a mark such as `[redacted: GitHub token]`; the rest of the text
    stays unchanged. Never raises, takes linear time, and is idempotent.
    """
    # The rules take a fifth of a second to load, and most commands redact nothing.
    # `configure_logging` loads them at once.
    from threadline.privacy.secret_rules import RULES

    for _ in range(_ROUNDS):
        before = text
        folded = text.lower()
        for rule in RULES:
            searched = folded if rule.folds else text
            for hint in rule.hints:
                if hint in searched:
                    text = rule.apply(text)
                    break
        if text == before:
            break
    return text


def redact_value(value: Any, *, field: str = "", depth: int = 0) -> Any:
    """Redact every text in JSON-like data, keys included; other objects become their text.

    Args:
        field: the name of the value: every text under `bot_token` is a secret, regardless of its
            form.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return (
            "[redacted: secret]"
            if value and _SECRET_FIELD.search(field.lower())
            else redact(value)
        )
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {
            redact(str(name)): redact_value(each, field=str(name), depth=depth + 1)
            for name, each in value.items()
        }
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [redact_value(each, field=field, depth=depth + 1) for each in value]
    return redact(str(value))
