"""How each activity is tried, and that its times fit together."""

from threadline.approvals.contract import ApprovalActivities
from threadline.cases.contract import AgentActivities, CaseActivities, IntakeActivities, SlackActivities
from threadline.cases.fix_contract import FixActivities
from threadline.cases.model import Limits
from threadline.conversations.contract import ConversationActivities, SpeakingActivities
from threadline.conversations.decision_contract import DecisionActivities
from threadline.conversations.operator_contract import OperatorActivities
from threadline.handovers.contract import HandoverActivities
from threadline.jobs.contract import AgentJobActivities
from threadline.slack.client import HTTP_TOTAL
from threadline.threads import activity_options as options
from threadline.threads.catch_up_contract import SweepActivities
from threadline.threads.contract import CatchUpActivities
from threadline.threads.outbox import CLAIM_LEASE, LATE_ARRIVAL, LATE_ROOT_ARRIVAL

CONTRACTS = (
    AgentActivities,
    CaseActivities,
    FixActivities,
    IntakeActivities,
    SlackActivities,
    CatchUpActivities,
    SweepActivities,
    ConversationActivities,
    SpeakingActivities,
    OperatorActivities,
    DecisionActivities,
    HandoverActivities,
    ApprovalActivities,
    AgentJobActivities,
)
TURNS = {"run_agent_investigation", "run_continuation_investigation"}
ACTIVITIES = {name for contract in CONTRACTS for name in contract.__abstractmethods__}


def test_every_activity_has_options_and_nothing_else_has() -> None:
    assert set(options.FOR) == ACTIVITIES - TURNS


def test_what_never_gives_up_has_neither_a_last_attempt_nor_a_last_moment() -> None:
    chosen = {name: options.FOR[name] for name in (*options.NEVER_GIVE_UP, "tell_job_trouble")}
    assert [name for name, each in chosen.items() if each.retry.maximum_attempts or each.schedule_to_close] == []


def test_activities_that_store_or_decide_never_give_up() -> None:
    kept = CaseActivities.__abstractmethods__ | {"forward_reply"}
    of_a_conversation = ConversationActivities.__abstractmethods__ - {"summarise", "think", "act"}
    of_a_turn = {"begin_turn", "pass_on", "give_up_deciding", "escalate"}
    of_an_approval = {"open_approval", "decide_action", "expire_action", "open_handover", "press_handover"}
    of_a_job = AgentJobActivities.__abstractmethods__ - {"run_job", "tell_job_trouble"}
    assert kept | of_a_conversation | of_a_turn | of_an_approval | of_a_job == options.NEVER_GIVE_UP


def test_slack_call_ends_before_its_attempt_and_that_before_its_claim() -> None:
    assert HTTP_TOTAL < options.POST.start_to_close < CLAIM_LEASE
    assert HTTP_TOTAL < options.REPAIR.start_to_close < CLAIM_LEASE
    assert HTTP_TOTAL + LATE_ARRIVAL < CLAIM_LEASE < HTTP_TOTAL + LATE_ROOT_ARRIVAL


def test_turn_is_tried_once_and_ends_before_temporal_ends_it() -> None:
    chosen = options.turn(limits := Limits())
    assert chosen.retry.maximum_attempts == 1
    assert chosen.start_to_close > limits.turn_timeout
    assert chosen.heartbeat
