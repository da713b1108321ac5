"""Which thresholds and which prompt hold in a thread: a stable share of all threads for each variant."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from math import log

from threadline.decisions.confidence import Thresholds

_WHOLE = 2**64


@dataclass(frozen=True)
class Variant:
    """`share`: its weight among all; `prompt`: instructions in place of the product's own, empty for these."""

    name: str = ""
    share: float = 1.0
    thresholds: Thresholds = field(default_factory=Thresholds)
    prompt: str = ""


def assigned(variants: Sequence[Variant], thread: str) -> Variant:
    """The variant of a thread: the same for ever, as long as the variants and their shares stay the same.

    Each runs a race of its own, which its share shortens, and the first to arrive has the thread: so one that is added
    takes its threads from all others, and moves no thread between them.

    Args:
        variants: at least one, with names of their own and shares above 0.
    """
    return min(variants, key=lambda each: _arrival(each, thread))


def _arrival(variant: Variant, thread: str) -> float:
    """Exponentially distributed, with the share as its rate."""
    drawn = int.from_bytes(sha256(f"{variant.name}\n{thread}".encode()).digest()[:8])
    return -log((drawn + 0.5) / _WHOLE) / variant.share
