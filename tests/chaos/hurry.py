"""The times that the product waits after a crash, shortened together, so that their order stays what it must be."""

from dataclasses import replace
from datetime import timedelta
from functools import partial

from threadline.conversations import turn as conversation_turn
from threadline.investigator import activities as turns
from threadline.slack import history
from threadline.slack.client import make_client
from threadline.threads import activity_options as options
from threadline.threads import outbox_posts as posts
from threadline.threads import retrying
from threadline.threads import sweep_activities as sweeping
from threadline.threads.catch_up_activities import LiveCatchUpActivities
from threadline.wiring import agent_worker as agents
from threadline.wiring import catch_up, gateway, workers

CALL, ATTEMPT, LEASE = 3.0, 5.0, 6.0
"""One call to Slack ends within the first, an activity's attempt within the second, a claim of a post outlives both."""
GRACE = 1.0
"""A call's message is in Slack by then: the sandbox stores it at once."""
QUIET = 2.5
"""What was said longer ago should be stored; sometimes it is not yet, and is then signalled twice."""
INTERVAL = "4s"
"""Between two looks of the catch-up, each of which begins a sweep."""
ANSWER = 20.0
"""What finished longer ago and was not said is said by the sweep."""
_LOOKS = ("read_history", "compare_threads")


def hurry() -> None:
    """Shorten them in this process."""
    for name, given in options.FOR.items():
        options.FOR[name] = replace(given, start_to_close=min(given.start_to_close, ATTEMPT))
    for name in _LOOKS:  # else they would wait a minute after the last fault
        retry = replace(options.FOR[name].retry, maximum_interval=timedelta(seconds=2))
        options.FOR[name] = replace(options.FOR[name], retry=retry)
    think = options.FOR["think"]  # a model that is away for seconds is away for long: the workflow waits for it, too
    retry = replace(think.retry, initial_interval=timedelta(seconds=0.5), maximum_attempts=2)
    options.FOR["think"] = replace(think, retry=retry)
    vars(conversation_turn).update(FIRST_WAIT=1.0, LONGEST_WAIT=2.0)
    options.HEARTBEAT = 4.0
    vars(posts).update(HTTP_TOTAL=CALL, LEASE=LEASE, GRACE=GRACE, ROOT_GRACE=GRACE)
    vars(gateway).update(make_client=partial(make_client, timeout=CALL))
    turns.LEASE, turns.BEAT = 8.0, 1.0
    retrying.FIRST_DELAY, retrying.LONGEST_DELAY = 0.5, 2.0
    workers.GRACE = 3
    agents.SWEEP = 5.0
    sweeping.GRACE = ANSWER
    vars(catch_up).update(LiveCatchUpActivities=partial(LiveCatchUpActivities, quiet=QUIET))
    vars(history).update(
        BURST=1000.0, PER_SECOND=500.0
    )  # a look every ten minutes stays within Slack's, one in 4 s not
