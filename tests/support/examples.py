"""The number of examples of a property: that of hypothesis's profile, see tests/conftest.py."""

from hypothesis import HealthCheck, settings


def examples(factor: float = 1.0) -> settings:
    """Return settings with the profile's number of examples times a factor.

    Examples share the fixtures; where these are Postgres or Temporal, each example has a thread or
    a team of its own.

    Args:
        factor: below 1 for expensive examples, above 1 for cheap ones of which most prove little.
    """
    profile = settings()
    return settings(
        max_examples=max(1, round(profile.max_examples * factor)),
        suppress_health_check=[
            *profile.suppress_health_check,
            HealthCheck.function_scoped_fixture,
        ],
    )
