"""Where an approval is shown in Slack, and what is said of its outcome."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from threadline.approvals import blocks as approvals
from threadline.approvals.blocks import Verdict
from threadline.approvals.model import ProposedAction
from threadline.conversations.blocks import answer_of
from threadline.db.unit_of_work import Work
from threadline.errors import Permanent, Transient
from threadline.operator.enforcement import Speech
from threadline.slack.formatting import Rendered
from threadline.slack.model import Thread
from threadline.threads.outbox import Post
from threadline.threads.store import PostStore
from threadline.tools.model import Operation
from threadline.tools.public_text import public_sentence
from threadline.tools.store import ToolExecution

_NOT_YET = 5.0
"""Seconds until a message that is about to be posted is looked for again."""
_UNKNOWN = "It is not known whether it took effect. Please check before you ask for it again."


@dataclass(frozen=True)
class Place:
    """The message with the buttons, as it was posted."""

    ts: str
    rendered: Rendered


def thread_of(team: str, action: ProposedAction) -> Thread:
    return Thread(team, action.channel, action.thread_ts)


def operation_of(team: str, action: ProposedAction) -> Operation:
    """Under which an approved action is made, once and for ever. It is of no turn: what it shows is told by itself."""
    return Operation(thread_of(team, action), 0, 0, f"approved:{action.action_id}")


def outcome_key(team: str, action: ProposedAction) -> str:
    """Of the post that says what came of it."""
    return f"talk:{thread_of(team, action).key}:approval:{action.action_id}"


async def shown_in(work: Work, team: str, action: ProposedAction) -> Place | None:
    """The message in which the action's turn shows it; None where that turn says nothing.

    Raises:
        Transient: it is not posted yet.
    """
    thread = thread_of(team, action)
    turn = _turn_of(action.author.correlation_id, thread)
    settled = await work.conversations.settled(thread, turn)
    if settled is None:
        raise Transient("The turn that proposed this has not ended yet.", retry_after=_NOT_YET)
    groups = tuple(groups_of(await work.tool_executions.record_groups(thread, turn)))
    parts = answer_of(settled.answer, groups, settled.detail) if settled.answer else ()
    for number, part in enumerate(parts, start=1):
        if approvals.holds(part, action.action_id):
            key = f"talk:{thread.key}:turn:{turn}"
            ts = await PostStore(work.tx).ts_of(key if number == 1 else f"{key}#{number}")
            if not ts:
                raise Transient("The message with the buttons is not in Slack yet.", retry_after=_NOT_YET)
            return Place(ts, part)
    return None


def with_decision(place: Place, action: ProposedAction, verdict: Verdict) -> Rendered:
    return approvals.decided(place.rendered, action.action_id, verdict)


def outcome(team: str, action: ProposedAction, record: ToolExecution | None) -> Post:
    """What came of an approved action, for the thread."""
    result = record.result if record and isinstance(record.result, Mapping) else {}
    groups = tuple(groups_of([result.get("structured")]))
    rendered = answer_of(_words(action, record, result), groups)
    thread = thread_of(team, action)
    return Post(outcome_key(team, action), thread.channel, thread.ts, rendered)


def groups_of(shown: Sequence[Any]) -> Iterator[tuple[str, Sequence[Any]]]:
    """The records that calls returned, in the order of the calls; see `tools.model.RecordGroup`."""
    for parts in shown:
        for part in parts or ():
            if isinstance(part, Mapping) and part.get("records"):
                yield str(part.get("kind") or ""), part["records"]


async def unjournalled(_: Speech) -> None:
    """Nothing is said by an action: what speaks cannot be proposed."""
    raise Permanent("An approved action cannot post a message.")


def _words(action: ProposedAction, record: ToolExecution | None, result: Mapping[str, Any]) -> str:
    if record is None:  # an intent is written down before anything is done
        return f"{action.action_id} was approved but could not be started. Nothing was done. Please ask for it again."
    if record.status is None:
        return f"{action.action_id} was approved and started. {_UNKNOWN}"
    error = result.get("error")
    if isinstance(error, Mapping):
        told = public_sentence(f"{error.get('message', '')} {error.get('suggestion', '')}", "Something went wrong.")
        return f"{action.action_id} was approved but could not be carried out: {told}"
    said = public_sentence(str(result.get("display_text") or ""), "Done.")
    return f"{action.action_id} was approved and carried out: {said}"


def _turn_of(correlation_id: str, thread: Thread) -> int:
    """The turn whose message shows what was proposed in it; 0 where the correlation id names none."""
    turn = correlation_id.removeprefix(f"{thread.key}:")
    return int(turn) if turn != correlation_id and turn.isdecimal() else 0
