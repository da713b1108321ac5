"""The gateway's limits of time, for scenes in which no limit is tested.

Slack waits three seconds, so the gateway gives up earlier, and Slack delivers again. On a busy
machine this would be correct, and no fault of the product.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest import mock

from tests.support.patience import patient
from threadline.gateway import router
from threadline.threads import authors

SECONDS = patient(15)
_LIMITS = (
    (router, "ACCEPT_TIMEOUT"),
    (router, "LOOKUP_TIMEOUT"),
    (router, "CASE_LOOKUP_TIMEOUT"),
    (authors, "LOOKUP_TIMEOUT"),
)


@contextmanager
def unhurried() -> Iterator[None]:
    """Raise the limits of the gateway, and of the catch-up that uses its router, to `SECONDS`."""
    with ExitStack() as limits:
        for module, name in _LIMITS:
            limits.enter_context(mock.patch.object(module, name, SECONDS))
        yield
