"""Variant: the thresholds and the prompt of a thread. Each variant has a stable share of all
threads.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import log
from pathlib import Path
from typing import Any

from threadline.decisions.model import Thresholds
from threadline.errors import Permanent

_VARIABLE = "THREADLINE_DECISION_VARIANTS"
_FORM = 'write it as a JSON list, such as [{"name": "calm", "share": 1, "high": 0.8, "low": 0.5}]'
_FIELDS = frozenset({"name", "share", "high", "low", "prompt"})


@dataclass(frozen=True)
class Variant:
    """One variant. `share`: its weight among all. `prompt`: its instructions; empty for the
    product's own.
    """

    name: str = ""
    share: float = 1.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    prompt: str = ""


def variant_of(variants: Sequence[Variant], thread: str) -> Variant:
    """Return the variant of a thread; it stays the same as long as the variants and their shares
    do.

    Each variant draws an arrival time, which is shorter for a larger share, and the first to
    arrive gets the thread. So an added variant takes its threads from all others, and no thread
    moves between the others.

    Args:
        variants: at least one, with unique names and shares above 0.
        thread: its key.
    """

    # Exponentially distributed, with the share as its rate.
    def arrival(variant: Variant) -> float:
        drawn = int.from_bytes(sha256(f"{variant.name}\n{thread}".encode()).digest()[:8])
        return -log((drawn + 0.5) / 2**64) / variant.share

    return min(variants, key=arrival)


def load_variants(text: str, default: Thresholds) -> tuple[Variant, ...]:
    """Parse the concurrent variants from the value of THREADLINE_DECISION_VARIANTS.

    Args:
        text: a JSON list of objects with a `name` and, where they differ from the defaults,
            `share`, `high`, `low`, and `prompt`, the path of a file; empty for one variant for all
            threads.
        default: the thresholds of a variant that gives none.

    Raises:
        Permanent: no such list, a repeated name, a value out of its range, or an unreadable
            prompt.
    """
    try:
        given = json.loads(text) if text.strip() else []
    except (ValueError, RecursionError) as error:
        raise Permanent(f"{_VARIABLE}: {_FORM}: {error}") from None
    if not isinstance(given, list):
        raise Permanent(f"{_VARIABLE}: {_FORM}")
    found = tuple(_variant(each, default) for each in given)
    if len({each.name for each in found}) < len(found):
        raise Permanent(f"{_VARIABLE}: each variant needs its own name")
    return found or (Variant(thresholds=default),)


def _variant(given: Any, default: Thresholds) -> Variant:
    if not isinstance(given, dict) or not given.keys() <= _FIELDS:
        raise Permanent(
            f"{_VARIABLE} is {given!r}: {_FORM}; also with a prompt, the path of a text file"
        )
    name = given.get("name")
    prompt = given.get("prompt")
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name):
        raise Permanent(
            f"{_VARIABLE} is {name!r}: a variant's name has 1 to 40 letters, digits, dots, "
            "dashes and underscores"
        )
    high = _number(given, "high", default.high, 1)
    low = _number(given, "low", default.low, 1)
    try:
        own = Thresholds(high, low)
    except ValueError as error:
        raise Permanent(f"{_VARIABLE}: variant {name}: {error}") from error
    return Variant(
        name, _number(given, "share", 1.0, 1_000_000), own, _prompt(name, prompt) if prompt else ""
    )


def _number(given: Mapping[str, Any], field_name: str, default: float, most: float) -> float:
    value = given.get(field_name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= most:
        raise Permanent(
            f"{_VARIABLE} is {value!r}: a variant's {field_name} is greater than 0 and less "
            f"than or equal to {most}"
        )
    return float(value)


def _prompt(name: str, path: object) -> str:
    try:
        text = Path(str(path)).read_text(encoding="utf-8-sig").strip()
    except (OSError, ValueError) as error:  # ValueError: no UTF-8 text, or no valid path
        raise Permanent(
            f"{_VARIABLE}: the prompt of {name} cannot be read: {error}. Name a text file "
            "in UTF-8."
        ) from error
    if not text:
        raise Permanent(f"{_VARIABLE}: the prompt of {name}, {path}, is empty.")
    return text
