"""explain_turn: everything that is stored about one turn, without what was deleted and without secrets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from threadline.conversations.model.conversation import Refusal, conversation_workflow_id
from threadline.conversations.store.trace import (
    FoundMessage,
    MessageTrace,
    ModelCallTrace,
    ToolCallTrace,
    case_of_message,
    find_message,
    is_pruned,
    read_trace,
)
from threadline.conversations.store.turns import SettledTurn, TurnStore
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.operator.model.routing import TurnRoute
from threadline.privacy.redaction import redact, redact_value
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.slack.store import UserStore
from threadline.slack.text import Permalink, parse_permalink
from threadline.threads.model import turn_id

WITHHELD = "(left out: a message that this turn may have read was deleted)"
_TOO_MUCH = "its author has written too much in a short time"
_REFUSED: Mapping[str | None, str] = {
    Refusal.DUPLICATE: "its author has said the same shortly before",
    Refusal.THROTTLED: _TOO_MUCH,
    Refusal.THROTTLED_FIRST: _TOO_MUCH,
}
_WAYS = "Give the permalink of an answer of the bot or of a message that it has answered, or CHANNEL/TS."


@dataclass(frozen=True)
class CaseMessage:
    """The message belongs to a bug's case: `command` shows it."""

    case: str
    command: str


@dataclass(frozen=True)
class ExplainedAsker:
    """`name` is empty where Slack was never asked."""

    user_id: str
    name: str = ""


@dataclass(frozen=True)
class Written:
    """What the turn has put into the journal (`kind`, `text`) or the log of events (`event_type`, `payload`)."""

    id: int
    rfp_id: str
    kind: str
    what: Any
    at: datetime


@dataclass(frozen=True)
class Spending:
    tokens: int
    cost_usd: float


@dataclass(frozen=True)
class Explanation:
    """One turn. `route` and `result` are None in a turn from before ways were kept; `ended` while it runs.

    `withheld`: words, arguments and results are left out, since a message that it may have read was deleted.
    """

    workflow_id: str
    workflow_url: str
    thread: Thread
    turn: int
    correlation_id: str
    asker: ExplainedAsker
    said: Sequence[MessageTrace]
    route: TurnRoute | None
    layers: Sequence[Mapping[str, Any]]
    tool_calls: Sequence[ToolCallTrace]
    model_calls: Sequence[ModelCallTrace]
    protocol: Mapping[str, Any] | None
    journal: Sequence[Written]
    events: Sequence[Written]
    spent: Spending
    result: Mapping[str, Any] | None
    ended: SettledTurn | None
    withheld: bool


async def explain_turn(database: Database, address: str, *, ui: str, namespace: str) -> Explanation | CaseMessage:
    """What is stored about the turn of a message.

    Args:
        address: the permalink of the bot's answer or of a message that a turn has used; or `channel/ts`.
        ui: where Temporal's UI is opened.
        namespace: in which the workflows are.

    Raises:
        Permanent: there is no turn to tell of; the message says why, and what can be given.
    """
    place = parse_permalink(address)
    async with database.begin() as tx:
        found = await find_message(tx, place.channel, place.ts)
        if found and found.turn:
            where = f"{ui.rstrip('/')}/namespaces/{quote(namespace)}"
            return _redacted(await _explanation(tx, found.thread, found.turn, where))
        if case := await case_of_message(tx, place.channel, place.ts):
            return CaseMessage(case, f"threadline cases show {case}")
        raise Permanent(_no_turn(found) if found else await _nothing(tx, place))


async def _explanation(tx: Transaction, thread: Thread, turn: int, ui: str) -> Explanation:
    plan, ended = await TurnStore(tx).plan(thread, turn), await TurnStore(tx).settled(thread, turn)
    correlation, workflow_id = turn_id(thread, turn), conversation_workflow_id(thread)
    trace = await read_trace(tx, thread, turn)
    models, result = trace.model_calls, plan.result if plan else None
    journal = await RfpStore(tx).journal_of_turn(thread.team, correlation)
    events = await RfpStore(tx).events_of_turn(thread.team, correlation)
    return Explanation(
        workflow_id=workflow_id,
        workflow_url=f"{ui}/workflows/{quote(workflow_id, safe=':')}",
        thread=thread,
        turn=turn,
        correlation_id=correlation,
        asker=await _asker(tx, thread, trace.messages, ended),
        said=trace.messages,
        route=plan.route if plan else None,
        layers=plan.layers if plan else (),
        tool_calls=trace.tool_calls,
        model_calls=models,
        protocol=result.get("protocol") if result else None,
        journal=[Written(each.id, each.rfp_id, each.kind, each.text, each.created_at) for each in journal],
        events=[Written(each.id, each.rfp_id, each.event_type, each.payload, each.created_at) for each in events],
        spent=Spending(
            sum(each.input_tokens + each.output_tokens for each in models), sum(each.cost_usd for each in models)
        ),
        result=result,
        ended=ended,
        withheld=trace.has_read_deleted,
    )


async def _asker(
    tx: Transaction, thread: Thread, said: Sequence[MessageTrace], ended: SettledTurn | None
) -> ExplainedAsker:
    """Whom the turn answers: as it has ended or, while it runs, who last spoke to the bot in it."""
    spoke = sorted(said, key=lambda each: each.addressed)
    user_id = (ended.user_id if ended else "") or (spoke[-1].user_id if spoke else "")
    user = await UserStore(tx).get(thread.team, user_id) if user_id else None
    return ExplainedAsker(user_id, user.display_name if user else "")


def _no_turn(found: FoundMessage) -> str:
    """Why a message of a conversation has no turn."""
    where = f"The message is of the conversation {found.thread.key}, but"
    if found.notice:
        return f"{where} it is a notice of the bot's own ({found.notice}), which no turn has made. {_WAYS}"
    if found.deleted:
        return f"{where} its author has deleted it before a turn has used it. {_WAYS}"
    if found.verdict in _REFUSED:
        return f"{where} the bot does not answer it: {_REFUSED[found.verdict]}. {_WAYS}"
    return f"{where} no turn has used it: it waits for its answer, or was not meant for the bot. {_WAYS}"


async def _nothing(tx: Transaction, place: Permalink) -> str:
    where = f"{place.channel}/{place.ts}"
    if await is_pruned(tx, place.channel, place.root):
        return (
            f"The conversation of {where} is forgotten: nothing was said in it for longer than "
            "THREADLINE_CONVERSATION_RETENTION_DAYS, so what led to its answers is no longer on record."
        )
    return f"Nothing is on record about the message {where}: it is none of the bot's, or forgotten. {_WAYS}"


def _redacted(told: Explanation) -> Explanation:
    """The same without secrets, and without whatever may quote what was deleted."""
    hide = told.withheld
    ended = told.ended and replace(told.ended, answer=_text(told.ended.answer, hide=hide))
    return replace(
        told,
        said=[replace(each, text=redact(each.text)) for each in told.said],
        route=told.route and _plain_route(told.route, hide=hide),
        layers=[redact_value(each) for each in told.layers],
        tool_calls=[
            replace(
                each,
                tool_name=redact(each.tool_name),
                parameters=WITHHELD if hide else redact_value(each.parameters),
                result=None if each.result is None else _text(each.result, hide=hide),
            )
            for each in told.tool_calls
        ],
        journal=[_plain(each, hide=hide) for each in told.journal],
        events=[_plain(each, hide=hide) for each in told.events],
        ended=ended,
    )


def _plain_route(route: TurnRoute, *, hide: bool) -> TurnRoute:
    notes = tuple(_text(each, hide=hide) for each in route.notes)
    return replace(route, reply=_text(route.reply, hide=hide), notes=notes)


def _plain(written: Written, *, hide: bool) -> Written:
    return replace(written, what=WITHHELD if hide else redact_value(written.what))


def _text(words: str, *, hide: bool) -> str:
    return WITHHELD if hide and words else redact(words)
