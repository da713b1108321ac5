"""One table of timeouts and retries: no workflow names a number of its own.

Seconds throughout. Steps in the database never give up: an accepted message has nowhere else to go. A turn is tried
once here, since only the workflow knows whether it may be tried again, and how.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from threadline.cases.model import Limits
from threadline.threads.addressing import AGENTS_QUEUE, CORE_QUEUE


@dataclass(frozen=True)
class Options:
    start_to_close: float
    retry: RetryPolicy
    task_queue: str = CORE_QUEUE
    schedule_to_close: float | None = None
    heartbeat: float | None = None

    def arguments(self) -> dict[str, Any]:
        """As `workflow.start_activity_method` takes them."""
        return {
            "task_queue": self.task_queue,
            "start_to_close_timeout": timedelta(seconds=self.start_to_close),
            "schedule_to_close_timeout": _seconds(self.schedule_to_close),
            "heartbeat_timeout": _seconds(self.heartbeat),
            "retry_policy": self.retry,
            "cancellation_type": ActivityCancellationType.TRY_CANCEL,
        }


def _seconds(value: float | None) -> timedelta | None:
    return None if value is None else timedelta(seconds=value)


def _retry(first: float, longest: float, attempts: int = 0) -> RetryPolicy:
    return RetryPolicy(
        initial_interval=timedelta(seconds=first),
        backoff_coefficient=2.0,
        maximum_interval=timedelta(seconds=longest),
        maximum_attempts=attempts,
    )


STORE = Options(start_to_close=30, retry=_retry(0.2, 30))
POST = Options(start_to_close=30, retry=_retry(1, 60))
"""Longer than one HTTP call to Slack (10 s), shorter than the lease on the post (45 s): see `slack.posts`."""
READ_SLACK = Options(start_to_close=30, retry=_retry(1, 30), schedule_to_close=600)
FORGE = Options(start_to_close=660, retry=_retry(2, 120), schedule_to_close=3600)
"""After an hour without the code host people are told, and may ask again."""
COSMETIC = Options(start_to_close=20, retry=_retry(5, 20, attempts=2), schedule_to_close=60)
CLEANUP = Options(start_to_close=120, retry=_retry(5, 60, attempts=5), task_queue=AGENTS_QUEUE, schedule_to_close=900)
LOOK = Options(start_to_close=600, heartbeat=30, retry=_retry(1, 60))
"""Reading many pages of Slack at its pace; what was done is kept, so a lost worker costs no more than the heartbeat."""
THINK = Options(start_to_close=180, retry=_retry(2, 60, attempts=4), heartbeat=20)
"""Longer than the model's own limit (120 s); a fault's `retry_after` counts. After these the workflow waits."""
DECIDE = Options(start_to_close=180, retry=_retry(2, 20, attempts=3), schedule_to_close=240, heartbeat=20)
"""Longer than two answers of the model may take: see `models/client.py`. After that the turn goes on without."""
WEIGH = Options(start_to_close=330, retry=_retry(2, 20, attempts=3), schedule_to_close=420, heartbeat=20)
"""As `DECIDE`, for four answers: see `decisions/conflicts.py`."""
SUMMARISE = Options(start_to_close=180, retry=_retry(2, 60, attempts=2), schedule_to_close=240, heartbeat=20)
"""Longer than the model's own limit; a turn waits for it, and can do without."""
ACT = Options(start_to_close=90, retry=_retry(1, 20, attempts=3), heartbeat=20)
"""Longer than any tool's own limit."""
CARRY_OUT = Options(start_to_close=90, retry=_retry(1, 60), heartbeat=20)
"""As `ACT`, but nobody calls again: without an end, since what was begun is on record and not made twice."""
CARRY_OUT_TRIES = 60
"""How often a service that is away is asked, for about an hour; a database that is away is waited for without end."""
JOB = Options(start_to_close=120, retry=_retry(1, 60), schedule_to_close=3600)
"""After an hour without Slack, say, a run has failed, which is said as soon as Slack is back."""
REPAIR = Options(start_to_close=30, retry=_retry(1, 30, attempts=3), schedule_to_close=180)
"""Given up soon: the next sweep finds it again."""

NEVER_GIVE_UP = frozenset(
    {
        "open_case",
        "flush_messages",
        "update_status",
        "save_investigation_result",
        "end_case",
        "parse_bug_report",
        "forward_reply",
        "open_conversation",
        "store_messages",
        "begin_turn",
        "pass_on",
        "give_up_deciding",
        "escalate",
        "open_handover",
        "press_handover",
        "settle_turn",
        "open_approval",
        "decide_action",
        "expire_action",
        "look_at_job",
        "begin_job",
        "settle_job",
        "drop_job",
    }
)
"""Tried again even after a fault that looks permanent: a person mends the database, and they go on."""

UNEXPECTED = 10
"""Attempts at any other activity whose error nobody foresaw: a fault in the code does not mend itself."""


def keeps_failing(activity: str, attempt: int) -> bool:
    """Whether an error that nobody foresaw has come as often as is tried, or, where there is no end, three times."""
    if activity in NEVER_GIVE_UP:
        return attempt >= 3
    chosen = FOR.get(activity)
    return attempt >= min(UNEXPECTED, (chosen.retry.maximum_attempts if chosen else 0) or UNEXPECTED)


HEARTBEAT = 30.0
TURN_GRACE = 120.0
"""Beyond the turn's own limit: laying the workspace, taking the diff, committing the outcome."""


def turn(limits: Limits) -> Options:
    """One attempt at a turn; what runs out first is the turn's own limit, inside the activity."""
    return Options(
        start_to_close=limits.turn_timeout + TURN_GRACE,
        retry=RetryPolicy(maximum_attempts=1),
        task_queue=AGENTS_QUEUE,
        heartbeat=HEARTBEAT,
    )


FETCH_ATTEMPTS = 5

FOR: dict[str, Options] = {
    "open_case": STORE,
    "flush_messages": STORE,
    "parse_bug_report": STORE,
    "update_status": STORE,
    "save_investigation_result": Options(start_to_close=60, retry=_retry(0.2, 30)),
    "end_case": STORE,
    "fetch_report": READ_SLACK,
    "fetch_attachments": Options(start_to_close=300, retry=_retry(1, 10, attempts=FETCH_ATTEMPTS)),
    "post_clarification_question": POST,
    "create_summary_thread": POST,
    "post_investigation_results": Options(start_to_close=120, retry=_retry(1, 60)),
    "escalate_to_humans": POST,
    "post_closing": Options(start_to_close=60, retry=_retry(1, 60)),
    "post_notice": POST,
    "report_sla_event": POST,
    "forward_reply": Options(start_to_close=30, retry=_retry(1, 300)),
    "open_pull_request": FORGE,
    "check_pull_request": Options(start_to_close=660, retry=_retry(2, 60, attempts=5)),
    "open_conversation": STORE,
    "store_messages": STORE,
    "begin_turn": STORE,
    "pass_on": STORE,
    "prepare_turn": Options(start_to_close=30, retry=_retry(0.5, 5, attempts=2), schedule_to_close=45, heartbeat=20),
    "analyse_request": Options(start_to_close=20, retry=_retry(1, 1, attempts=1), schedule_to_close=30, heartbeat=20),
    "decide": DECIDE,
    "look_up": Options(start_to_close=30, retry=_retry(0.5, 5, attempts=3), schedule_to_close=60, heartbeat=20),
    "weigh": WEIGH,
    "give_up_deciding": STORE,
    "escalate": STORE,
    "open_handover": POST,
    "press_handover": STORE,
    "show_handover": POST,
    "whisper_handover": COSMETIC,
    "remind_handover": POST,
    "relay_to_person": POST,
    "remember_turn": Options(start_to_close=10, retry=_retry(1, 5, attempts=3), schedule_to_close=20),
    "summarise": SUMMARISE,
    "think": THINK,
    "act": ACT,
    "settle_turn": STORE,
    "post_answer": Options(start_to_close=120, retry=_retry(1, 60)),
    "post_word": Options(start_to_close=30, retry=_retry(1, 60), schedule_to_close=600),
    "add_reactions": COSMETIC,
    "mark_messages": COSMETIC,
    "show_status": Options(start_to_close=10, retry=_retry(1, 1, attempts=1), schedule_to_close=20),
    "mark_used": COSMETIC,
    "open_approval": STORE,
    "decide_action": STORE,
    "expire_action": STORE,
    "whisper": Options(start_to_close=30, retry=_retry(1, 30, attempts=5), schedule_to_close=300),
    "show_decision": Options(start_to_close=60, retry=_retry(1, 60), schedule_to_close=3600),
    "carry_out": CARRY_OUT,
    "post_outcome": Options(start_to_close=120, retry=_retry(1, 60)),
    "look_at_job": STORE,
    "begin_job": STORE,
    "run_job": JOB,
    "settle_job": STORE,
    "tell_job_trouble": POST,
    "drop_job": STORE,
    "cleanup_workspace": CLEANUP,
    "plan_catch_up": STORE,
    "read_history_page": LOOK,
    "record_channel": STORE,
    "select_threads": STORE,
    "compare_threads": LOOK,
    "sweep_cases": LOOK,
    "sweep_clocks": LOOK,
    "sweep_conversations": LOOK,
    "find_missing_answers": LOOK,
}
