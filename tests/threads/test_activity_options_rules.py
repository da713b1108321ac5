"""Every activity declares its retries and times, and the times fit together."""

from threadline.approvals.contract import EXECUTE
from threadline.cases.contract import AGENT_TURN, FORGE, agent_turn_options
from threadline.cases.model import CaseLimits
from threadline.slack.client import CALL_TIMEOUT
from threadline.threads.activity_options import HEARTBEAT, POST, options_by_name, should_alert
from threadline.threads.outbox import CLAIM_GOOD_FOR, RESEND_AFTER, RESEND_ROOT_AFTER
from threadline.wiring.temporal import CONTRACTS
from threadline.wiring.workers import HEARTBEATS_EVERY

OPTIONS = options_by_name(*CONTRACTS)
NEVER_GIVE_UP = {
    "flush_messages",
    "update_status",
    "save_investigation_result",
    "end_case",
    "forward_reply",
    "store_messages",
    "begin_turn",
    "pass_to_operator",
    "decide_without_model",
    "open_handover",
    "press_handover",
    "finish_turn",
    "load_approval",
    "decide_action",
    "expire_action",
    "look_at_job",
    "fail_job",
    "mark_cancelled",
}


def test_every_activity_declares_its_options() -> None:
    """`options_by_name` fails for an activity without options."""
    assert len(OPTIONS) == sum(len(each.__abstractmethods__) for each in CONTRACTS)


def test_activities_that_store_or_decide_never_give_up() -> None:
    assert {name for name, each in OPTIONS.items() if each.never_gives_up} == NEVER_GIVE_UP


def test_activity_that_never_gives_up_has_no_last_attempt_and_no_deadline() -> None:
    chosen = {name: OPTIONS[name] for name in (*NEVER_GIVE_UP, "run_job")}
    assert [
        name
        for name, each in chosen.items()
        if each.retry.maximum_attempts or each.schedule_to_close
    ] == []


def test_workflow_waits_for_a_model_that_does_not_answer() -> None:
    assert {name for name, each in OPTIONS.items() if each.long_wait_in_workflow} == {
        "decide",
        "think",
    }


def test_slack_call_ends_before_its_attempt_and_that_before_another_send() -> None:
    assert 2 * CALL_TIMEOUT < POST.start_to_close < RESEND_AFTER
    assert RESEND_AFTER - CLAIM_GOOD_FOR - CALL_TIMEOUT >= 30
    assert RESEND_ROOT_AFTER - CLAIM_GOOD_FOR - CALL_TIMEOUT >= 120


def test_worker_that_is_killed_is_missed_within_seconds() -> None:
    """The rest of ten seconds is for a worker's start and the search; a turn begins again within
    fifteen. A word to stop reaches an activity with a heartbeat.
    """
    posting = {
        *(
            "post_notice",
            "post_clarification_question",
            "create_summary_thread",
            "update_card",
            "post_investigation_results",
        ),
        *(
            "escalate_to_humans",
            "post_closing",
            "report_sla_event",
            "finish_turn",
            "post_answer",
            "post_thread_notice",
        ),
        *(
            "open_handover",
            "show_handover",
            "remind_handover",
            "relay_to_person",
            "show_decision",
            "post_outcome",
        ),
        *("relay_until_mended", "show_question_files"),
        *(
            "save_investigation_result",
            "forward_reply",
            "run_job",
            "fail_job",
            "show_reply",
            "send_replies",
        ),
    }
    assert {name for name, each in OPTIONS.items() if each.heartbeat == HEARTBEAT} == posting | {
        "think"
    }
    assert HEARTBEAT <= 5
    assert (OPTIONS["open_pull_request"], FORGE.heartbeat) == (FORGE, 30), (
        "it posts too, but clones and pushes first"
    )
    missed = {name: each.heartbeat or each.start_to_close for name, each in OPTIONS.items()}
    assert {name for name, seconds in missed.items() if seconds > 30} == set()
    assert max(AGENT_TURN.heartbeat or 0, missed["fetch_attachments"]) == 10


def test_several_heartbeats_fit_into_their_timeout() -> None:
    shortest = min(each.heartbeat for each in OPTIONS.values() if each.heartbeat)
    assert HEARTBEATS_EVERY.total_seconds() < shortest / 2


def test_turn_is_tried_once_and_ends_before_temporal_ends_it() -> None:
    chosen = agent_turn_options(limits := CaseLimits(turn_timeout=60))
    assert chosen.retry.maximum_attempts == 1
    assert chosen.start_to_close > limits.turn_timeout
    assert chosen.heartbeat


def test_carrying_out_an_approved_action_alerts_although_it_has_no_last_attempt() -> None:
    assert [attempt for attempt in range(1, 12) if should_alert(EXECUTE, attempt)] == [10, 11]
