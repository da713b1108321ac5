"""Variant: the thresholds and the prompt of a thread. Each variant has a stable share of all threads."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import log

from threadline.decisions.model import Thresholds

_WHOLE = 2**64


@dataclass(frozen=True)
class Variant:
    """`weight`: its share among all; `prompt`: instructions in place of the product's own, empty for these."""

    name: str = ""
    weight: float = 1.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    prompt: str = ""


def variant_of(variants: Sequence[Variant], thread: str) -> Variant:
    """The variant of a thread: the same for ever, as long as the variants and their weights stay the same.

    Each variant draws an arrival time, which is shorter for a higher weight, and the first to arrive has the thread.
    So an added variant takes its threads from all others, and no thread moves between the others.

    Args:
        variants: at least one, with names of their own and weights above 0.
        thread: its key.
    """
    return min(variants, key=lambda each: _arrival(each, thread))


def _arrival(variant: Variant, thread: str) -> float:
    """Exponentially distributed, with the weight as its rate."""
    drawn = int.from_bytes(sha256(f"{variant.name}\n{thread}".encode()).digest()[:8])
    return -log((drawn + 0.5) / _WHOLE) / variant.weight
