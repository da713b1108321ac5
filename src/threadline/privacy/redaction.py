"""Secrets in people's words, in logs and in what an agent read become marks that say what stood there.

Not for workflow code: what counts as a secret changes with each release, and a workflow would decide anew at its replay
(import-linter holds `workflows/` to it). Pure: of the detector only the patterns are used.
"""

import re
from collections.abc import Mapping
from typing import Any

_ROUNDS = 8
"""Replacing one secret can uncover another; each round takes text away, and two rounds end nearly every text."""
_SECRET_FIELD = re.compile(r"(?:^|_)(?:password|passwd|secret|api_key|authorization|(?:bot|app|access|auth)_token)$")
_DEEPEST = 20
"""Levels of a nested value that are looked at; what lies deeper is shown as one redacted text."""


def redact(text: str) -> str:
    """The text with each secret replaced by a mark such as `[redacted: GitHub token]`; the rest stays as it is. Never
    raises; takes time in proportion to the text; doing it twice changes nothing."""
    # They take a fifth of a second to load, and most commands redact nothing. `configure_logging` loads them at once.
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
    """JSON-like data with the secrets gone from every text in it, keys included; other objects become their text.
    `field`: the name under which the value stands: a text under `bot_token` is a secret whatever it looks like."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return "[redacted: secret]" if value and _SECRET_FIELD.search(field.lower()) else redact(value)
    if depth < _DEEPEST and isinstance(value, Mapping):
        return {redact(str(name)): redact_value(each, field=str(name), depth=depth + 1) for name, each in value.items()}
    if depth < _DEEPEST and isinstance(value, list | tuple | set | frozenset):
        return [redact_value(each, field=field, depth=depth + 1) for each in value]
    return redact(str(value))
