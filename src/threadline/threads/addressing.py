"""Identity comes from Slack: who a thread is decides which workflow it is, on every process and for ever."""

import re
import uuid

from threadline.slack.model import Thread

CORE_QUEUE = "threadline"
AGENTS_QUEUE = "threadline-agents"

BUG_WORKFLOW = "BugInvestigationWorkflow"
CONVERSATION_WORKFLOW = "ConversationWorkflow"
ROUTE_REPLY_WORKFLOW = "RouteReplyWorkflow"
SLA_WORKFLOW = "SLATrackingWorkflow"
CATCH_UP_WORKFLOW = "CatchUpWorkflow"
CATCH_UP_ID = "catch-up"
"""Of the one catch-up that runs at a time, and of the schedule that starts the sweep and with it the catch-up."""

AGENT_JOB_WORKFLOW = "AgentJobWorkflow"
SWEEP_WORKFLOW = "SweepWorkflow"
SWEEP_ID = "sweep"
"""The schedule adds the time to it."""

APPROVAL_WORKFLOW = "ApprovalWorkflow"
HANDOVER_WORKFLOW = "HandoverWorkflow"

INCOMING_MESSAGE = "incoming_message"
CLOSE_REQUESTED = "close_requested"
LOOK = "look"
BUTTON_PRESSED = "button_pressed"

JOB_QUESTION = r":run:[0-9]+$"
"""In the id of what a job asks, and in that of nothing else; a pattern of Python and of Postgres alike."""

_SESSIONS = uuid.UUID("6f1a4c0e-52f0-5d0b-9a53-0d0f3a1f7c11")


def bug_workflow_id(thread: Thread) -> str:
    """The workflow of the case that was reported in `thread` (the root message in the reports channel)."""
    return f"bug:{thread.key}"


def conversation_workflow_id(thread: Thread) -> str:
    """The workflow of the conversation in `thread`."""
    return f"talk:{thread.key}"


def turn_id(thread: Thread, turn: int) -> str:
    """The correlation id of a turn: the same in all that it writes."""
    return f"{thread.key}:{turn}"


def thread_of_conversation(workflow_id: str) -> Thread:
    """The thread of a conversation's workflow."""
    _, team, channel, ts = workflow_id.split(":")
    return Thread(team, channel, ts)


def route_reply_workflow_id(thread: Thread) -> str:
    return f"route:{thread.key}"


def sla_workflow_id(bug_id: str, escalation: int) -> str:
    """One SLA clock for each escalation, so that a second one is not taken for the first."""
    return f"sla:{bug_id}:{escalation}"


def approval_workflow_id(team: str, action_id: str) -> str:
    """The workflow in which a proposed action waits for somebody's word."""
    return f"approval:{team}:{action_id}"


def handover_workflow_id(thread: Thread, turn: int) -> str:
    """The workflow in which a turn waits for a person to take it over, and to close it."""
    return f"handover:{thread.key}:{turn}"


def message_id(team: str, channel: str, ts: str) -> str:
    """The id under which a message is stored once, however often and by whichever event it arrives."""
    return f"{team}:{channel}:{ts}"


def edit_id(team: str, channel: str, ts: str, edited_ts: str) -> str:
    return f"{message_id(team, channel, ts)}:e{edited_ts}"


def deletion_id(team: str, channel: str, ts: str) -> str:
    return f"{message_id(team, channel, ts)}:d"


def stop_id(team: str, channel: str, ts: str, user: str, moment: str) -> str:
    """Of a stop sign that a person put on a message at a moment: taken away and put back, it says so again."""
    return f"{message_id(team, channel, ts)}:stop:{user}:{moment}"


def thumb_id(team: str, channel: str, ts: str, user: str, reaction: str, moment: str) -> str:
    """Of a thumb that a person put on a message, or took from it, at a moment."""
    return f"{message_id(team, channel, ts)}:thumb:{user}:{reaction}:{moment}"


def job_workflow_id(team: str, job_id: str) -> str:
    """Of a job's workflow, or of a cron its schedule; as the row has it, and computed for a row that is gone."""
    return f"job:{team}:{job_id.removeprefix('JOB-')}"


def job_question_id(team: str, job_id: str, run: int) -> str:
    """Of what a job asks in a run of it, in the name of a person."""
    return f"{team}:{job_id}:run:{run}"


def is_job_question(message_id: str) -> bool:
    """Whether a job asks this, and nobody has written it now."""
    return re.search(JOB_QUESTION, message_id) is not None


def session_id(bug_id: str, turn: int, attempt: int) -> str:
    """The agent session of one attempt: known before it starts, and never shared with another attempt."""
    return str(uuid.uuid5(_SESSIONS, f"{bug_id}:{turn}:{attempt}"))
