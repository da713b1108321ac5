"""Doctor's checks for faults that raise no error: workflows whose tasks fail, payloads under a
dropped key, answers that are not in Slack, and open faults.
"""

import asyncio
from collections.abc import Sequence

from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryRequest
from temporalio.client import Client
from temporalio.client import WorkflowExecution as FoundWorkflow
from temporalio.common import SearchAttributeKey
from temporalio.service import RPCError, RPCStatusCode

from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Database
from threadline.errors import Permanent
from threadline.privacy.encryption import is_encrypted, key_id_of
from threadline.privacy.keys import KeyRing
from threadline.threads.fault_store import FaultStore
from threadline.threads.model import format_utc
from threadline.threads.store import PostStore

UNPOSTED_GRACE = 300.0
"""Seconds after which an answer that is not in Slack is reported."""
REPORTED_FOR = 7 * 86400.0
"""Seconds for which such an answer is reported: later no sweep posts it, and the user has asked
again.
"""
MAX_LISTED = 10_000
"""Most open workflows in which the oldest are searched."""
MAX_READ = 100
"""Oldest workflows whose beginning is read for its key: a key that is dropped too early is an old
one.
"""
_AT_ONCE = 10
_SHOWN = 5

_PROBLEMS = SearchAttributeKey.for_keyword_list("TemporalReportedProblems")
_ADVICE = {
    "NonDeterministic": (
        "the code decides differently from what is recorded: see `threadline replay`"
    ),
    "WorkerUnhandledFailure": (
        "the workers' log has `Failing workflow task` with the reason, such as a key that "
        "THREADLINE_PAYLOAD_KEYS lacks"
    ),
}
_OTHER_ADVICE = "the workers' log has the reason"


async def check_reported_problems(client: Client) -> str:
    """Check that Temporal reports no workflow with failing tasks.

    Raises:
        Permanent: the tasks of open workflows fail repeatedly.
    """
    query = "TemporalReportedProblems IS NOT NULL AND ExecutionStatus = 'Running'"
    try:
        count = (await client.count_workflows(query)).count
        found = (
            [each async for each in client.list_workflows(query, limit=_SHOWN)] if count else []
        )
    except RPCError as error:
        if error.status is RPCStatusCode.INVALID_ARGUMENT:
            return "not checked: this version of Temporal's server reports none"
        raise Permanent(
            f"Temporal did not list the workflows with problems: {error.message}"
        ) from error
    if not count:
        return "none are reported"
    named = []
    for each in found:
        problems = each.typed_search_attributes.get(_PROBLEMS) or ()
        named.append(f"{each.id}: {advice_for(problems)}")
    workflows = "1 open workflow" if count == 1 else f"{count} open workflows"
    told = "; ".join(named) + _more(count, len(found))
    raise Permanent(f"{workflows} cannot go on, and messages wait there: {told}.")


def advice_for(problems: Sequence[str]) -> str:
    """Return the cause that Temporal reports for a workflow, and advice."""
    cause = next(
        (each.partition("=")[2] for each in problems if each.startswith("cause=")),
        ", ".join(problems),
    )
    advice = next((text for word, text in _ADVICE.items() if word in cause), _OTHER_ADVICE)
    return f"{cause.removeprefix('WorkflowTaskFailedCause')} ({advice})"


async def check_payload_keys(client: Client, keys: KeyRing | None) -> str:
    """Check that the oldest open workflows began under known keys.

    Raises:
        Permanent: some began under a key that is not among `keys`: they wait without an error, and
            fail at their next message.
    """
    known = {key.id for key in keys.keys} if keys else set()
    try:
        running = [
            each
            async for each in client.list_workflows(
                "ExecutionStatus = 'Running'", limit=MAX_LISTED
            )
        ]
        oldest = sorted(running, key=lambda each: each.start_time)[:MAX_READ]
        needed = await _keys_of(client, oldest)
    except RPCError as error:
        raise Permanent(f"Temporal did not show the open workflows: {error.message}") from error
    missing = {key: ids for key, ids in needed.items() if key not in known}
    if missing:
        told = [
            f"{key!r} ({', '.join(ids[:_SHOWN])}{_more(len(ids), _SHOWN)})"
            for key, ids in missing.items()
        ]
        raise Permanent(
            f"THREADLINE_PAYLOAD_KEYS lacks keys that open workflows need: {'; '.join(told)}. Add "
            "them after the others, for every process. Remove a key only when `threadline doctor` "
            "finds no fault without it."
        )
    return f"the {len(oldest)} oldest open workflows can be read"


async def _keys_of(client: Client, workflows: Sequence[FoundWorkflow]) -> dict[str, list[str]]:
    """Return the ids of the keys under which these workflows' runs began, each with the workflows'
    ids.
    """
    slots = asyncio.Semaphore(_AT_ONCE)
    needed = dict[str, list[str]]()

    async def read(found: FoundWorkflow) -> None:
        request = GetWorkflowExecutionHistoryRequest(
            namespace=client.namespace,
            execution=WorkflowExecution(workflow_id=found.id, run_id=found.run_id),
            maximum_page_size=1,
        )
        async with slots:
            try:
                answer = await client.workflow_service.get_workflow_execution_history(request)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:  # it ended in the meantime
                    return
                raise
        for event in answer.history.events:
            for payload in event.workflow_execution_started_event_attributes.input.payloads:
                if is_encrypted(payload):
                    needed.setdefault(key_id_of(payload), []).append(found.id)

    await asyncio.gather(*map(read, workflows))
    return needed


async def check_unposted(database: Database) -> str:
    """Check that all due answers and posts are in Slack.

    Raises:
        Permanent: some were due minutes ago and are missing.
    """
    async with database.begin() as tx:
        turns = await TurnStore(tx).unposted(UNPOSTED_GRACE, REPORTED_FOR, _SHOWN)
        posts = await PostStore(tx).pending(UNPOSTED_GRACE, REPORTED_FOR, _SHOWN)
    if not (turns or posts):
        return f"nothing has been due for more than {UNPOSTED_GRACE / 60:.0f} minutes"
    told = [f"the answer of turn {turn} in {thread.channel}/{thread.ts}" for thread, turn in turns]
    told += [f"the post {key!r} in {channel}" for key, channel in posts]
    raise Permanent(
        f"Not in Slack yet: {'; '.join(told)}. Solve the problems that the lines on Slack, "
        "channels and faults report; the next sweep then posts the answers. `threadline explain "
        "CHANNEL/TS` shows the answer."
    )


async def check_faults(database: Database) -> str:
    """Check that no fault is open.

    Raises:
        Permanent: processes reported faults that last.
    """
    async with database.begin() as tx:
        faults = await FaultStore(tx).open()
    if not faults:
        return "none are open"
    raise Permanent(
        " ".join(f"Since {format_utc(each.first_seen)}: {each.text}" for each in faults)
    )


def _more(count: int, shown: int) -> str:
    return f", and {count - shown} more" if count > shown else ""
