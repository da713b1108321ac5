"""The risk of a proposed patch follows from the fields that it changes."""

from typing import Any

import pytest

from threadline.rfps.model import patch_risk
from threadline.tools.model import Risk


@pytest.mark.parametrize(
    ("patch", "risk"),
    [
        ({"notes": "They like us."}, Risk.LOW),
        ({"notes": None}, Risk.MEDIUM),
        ({"due_date": "2026-12-01"}, Risk.MEDIUM),
        ({"status": "shortlisted"}, Risk.MEDIUM),
        ({"notes": "x", "status": "No-Bid"}, Risk.HIGH),
        ({"sales": [{"Stage": " cancelled "}]}, Risk.HIGH),
        ({"status": "canceled"}, Risk.HIGH),
        ({"status": "NoBid"}, Risk.HIGH),
        ({"status": "lost"}, Risk.HIGH),
    ],
)
def test_risk_of_a_patch_follows_from_its_fields(patch: dict[str, Any], risk: Risk) -> None:
    assert patch_risk(patch) is risk
