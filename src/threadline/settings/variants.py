"""How the variants of the decision engine that run side by side are written down."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

_FORM = 'write it as a JSON list, such as [{"name": "calm", "share": 1, "high": 0.8, "low": 0.5}]'


def _checked_name(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", name):
        raise ValueError("a variant's name has 1 to 40 letters, digits, dots, dashes and underscores")
    return name


class GivenVariant(BaseModel):
    """`share`: its weight among all. What is None is as it is without variants; `prompt` is a file's path."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Annotated[str, AfterValidator(_checked_name)]
    share: Annotated[float, Field(gt=0, le=1_000_000, allow_inf_nan=False)] = 1.0
    high: Annotated[float, Field(gt=0, le=1)] | None = None
    low: Annotated[float, Field(gt=0, le=1)] | None = None
    prompt: Path | None = None


def _listed(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{_FORM}: {error}") from None
    if isinstance(found, list):
        return found
    raise ValueError(_FORM)


def _named_once(value: tuple[GivenVariant, ...]) -> tuple[GivenVariant, ...]:
    if len({each.name for each in value}) < len(value):
        raise ValueError("each variant needs its own name")
    return value


Variants = Annotated[tuple[GivenVariant, ...], BeforeValidator(_listed), AfterValidator(_named_once)]
