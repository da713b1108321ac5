"""The variants of the decision engine that the settings name."""

from pathlib import Path

from threadline.decisions.model import Thresholds
from threadline.decisions.variants import Variant
from threadline.errors import Permanent
from threadline.settings import DecisionSettings
from threadline.settings.variants import GivenVariant


def variants(settings: DecisionSettings) -> tuple[Variant, ...]:
    """The variants that run side by side; where none is named, the one that all threads have.

    Raises:
        Permanent: a variant's thresholds are out of order, or its prompt cannot be read.
    """
    house = Thresholds(settings.decision_high, settings.decision_low)
    return tuple(_variant(each, house) for each in settings.decision_variants) or (Variant(thresholds=house),)


def _variant(given: GivenVariant, house: Thresholds) -> Variant:
    high = house.high if given.high is None else given.high
    low = house.low if given.low is None else given.low
    try:
        own = Thresholds(high, low)
    except ValueError as error:
        raise Permanent(f"THREADLINE_DECISION_VARIANTS: variant {given.name}: {error}") from error
    return Variant(given.name, given.share, own, _prompt(given.name, given.prompt) if given.prompt else "")


def _prompt(name: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Permanent(
            f"THREADLINE_DECISION_VARIANTS: the prompt of {name} cannot be read: {error}. Name a text file in UTF-8."
        ) from error
    if not text:
        raise Permanent(f"THREADLINE_DECISION_VARIANTS: the prompt of {name}, {path}, is empty.")
    return text
