"""The times that the product waits after a crash, shortened together, so that their order stays what it must be."""

from dataclasses import replace
from functools import partial

from threadline.activities import turns
from threadline.bootstrap import gateway, workers
from threadline.contracts import options
from threadline.domain import retrying
from threadline.slack import posts
from threadline.slack.client import make_client

CALL, ATTEMPT, LEASE = 3.0, 5.0, 6.0
"""One call to Slack ends within the first, an activity's attempt within the second, a claim of a post outlives both."""
GRACE = 1.0
"""A call's message is in Slack by then: the sandbox stores it at once."""


def hurry() -> None:
    """Shorten them in this process."""
    for name, given in options.FOR.items():
        options.FOR[name] = replace(given, start_to_close=min(given.start_to_close, ATTEMPT))
    options.HEARTBEAT = 4.0
    vars(posts).update(HTTP_TOTAL=CALL, LEASE=LEASE, GRACE=GRACE, ROOT_GRACE=GRACE)
    vars(gateway).update(make_client=partial(make_client, timeout=CALL))
    turns.LEASE, turns.BEAT = 8.0, 1.0
    retrying.FIRST_DELAY, retrying.LONGEST_DELAY = 0.5, 2.0
    workers.GRACE = 3
