"""The limits of the tests' waits, which scale by one setting.

A wait ends as soon as its condition holds, so a long limit costs time only in a test that fails.
"""

import os

PATIENCE = float(os.environ.get("TEST_PATIENCE", "4"))
"""A wait may take this many times as long as on an idle machine."""


def patient(seconds: float) -> float:
    """Return the limit of a wait that takes at most `seconds` on an idle machine."""
    return seconds * PATIENCE
