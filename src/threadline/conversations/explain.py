"""Why the bot has answered so: everything on record about one turn, without what was deleted and without secrets."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote

from temporalio.envconfig import ClientConfig

from threadline.conversations.contract import Refusal
from threadline.conversations.model.conversation import conversation_workflow_id
from threadline.conversations.trace_store import Ended, Found, ModelCallTrace, Said, ToolCallTrace, TurnTraces
from threadline.conversations.turn_plans import TurnPlans
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.operator.model.routing import TurnRoute
from threadline.privacy.redaction import redact, redact_value
from threadline.rfps.store import RfpStore
from threadline.settings import DatabaseSettings, TemporalUiSettings
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
class OfCase:
    """The message belongs to a bug's case: `command` shows it."""

    case: str
    command: str


@dataclass(frozen=True)
class Asker:
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
    asker: Asker
    said: Sequence[Said]
    route: TurnRoute | None
    layers: Sequence[Mapping[str, Any]]
    tool_calls: Sequence[ToolCallTrace]
    model_calls: Sequence[ModelCallTrace]
    protocol: Mapping[str, Any] | None
    journal: Sequence[Written]
    events: Sequence[Written]
    spent: Spending
    result: Mapping[str, Any] | None
    ended: Ended | None
    withheld: bool


class ExplainDesk:
    """Args: `ui`: where Temporal's UI is opened, `namespace` in which the workflows are."""

    def __init__(self, database: Database, ui: str, namespace: str) -> None:
        self._database = database
        self._ui = ui.rstrip("/")
        self._namespace = namespace

    async def explain(self, address: str) -> Explanation | OfCase:
        """What is on record about the turn of a message.

        Args:
            address: the permalink of the bot's answer or of a message that a turn has used; or `channel/ts`.

        Raises:
            Permanent: there is no turn to tell of; the message says why, and what can be given.
        """
        place = parse_permalink(address)
        async with self._database.begin() as tx:
            found = await TurnTraces(tx).find(place.channel, place.ts)
            if found and found.turn:
                return _withheld(await self._explanation(tx, found.thread, found.turn))
            if case := await TurnTraces(tx).case_of(place.channel, place.ts):
                return OfCase(case, f"threadline cases show {case}")
            if found:
                raise Permanent(_no_turn(found))
            raise Permanent(await _nothing(tx, place))

    async def _explanation(self, tx: Transaction, thread: Thread, turn: int) -> Explanation:
        traces, plan = TurnTraces(tx), await TurnPlans(tx).of(thread, turn)
        correlation, workflow_id = turn_id(thread, turn), conversation_workflow_id(thread)
        said, ended = await traces.said(thread, turn), await traces.ended(thread, turn)
        models = await traces.model_calls(thread, turn)
        result = plan.result if plan else None
        return Explanation(
            workflow_id,
            f"{self._ui}/namespaces/{quote(self._namespace)}/workflows/{quote(workflow_id, safe=':')}",
            thread,
            turn,
            correlation,
            await _asker(tx, thread, said, ended),
            said,
            plan.route if plan else None,
            plan.layers if plan else (),
            await traces.tool_calls(thread, turn),
            models,
            result.get("protocol") if result else None,
            [
                Written(each.id, each.rfp_id, each.kind, each.text, each.at)
                for each in await RfpStore(tx).journal_of_turn(thread.team, correlation)
            ],
            [
                Written(each.id, each.rfp_id, each.event_type, each.payload, each.at)
                for each in await RfpStore(tx).events_of_turn(thread.team, correlation)
            ],
            Spending(sum(each.input_tokens + each.output_tokens for each in models), _cost(models)),
            result,
            ended,
            await traces.has_read_deleted(thread, turn),
        )


def _cost(calls: Sequence[ModelCallTrace]) -> float:
    return sum(each.cost_usd for each in calls)


async def _asker(tx: Transaction, thread: Thread, said: Sequence[Said], ended: Ended | None) -> Asker:
    """Whom the turn answers: as it has ended or, while it runs, who last spoke to the bot in it."""
    spoke = sorted(said, key=lambda each: each.addressed)
    user_id = (ended.user_id if ended else "") or (spoke[-1].user_id if spoke else "")
    user = await UserStore(tx).get(thread.team, user_id) if user_id else None
    return Asker(user_id, user.display_name if user else "")


def _no_turn(found: Found) -> str:
    """Why a message of a conversation has no turn."""
    where = f"The message is of the conversation {found.thread.key}, but"
    if found.word:
        return f"{where} it is a notice of the bot's own ({found.word}), which no turn has made. {_WAYS}"
    if found.deleted:
        return f"{where} its author has deleted it before a turn has used it. {_WAYS}"
    if found.verdict in _REFUSED:
        return f"{where} the bot does not answer it: {_REFUSED[found.verdict]}. {_WAYS}"
    return f"{where} no turn has used it: it waits for its answer, or was not meant for the bot. {_WAYS}"


async def _nothing(tx: Transaction, place: Permalink) -> str:
    where = f"{place.channel}/{place.ts}"
    if await TurnTraces(tx).is_forgotten(place.channel, place.root):
        return (
            f"The conversation of {where} is forgotten: nothing was said in it for longer than "
            "THREADLINE_CONVERSATION_RETENTION_DAYS, so what led to its answers is no longer on record."
        )
    return f"Nothing is on record about the message {where}: it is none of the bot's, or forgotten. {_WAYS}"


def _withheld(told: Explanation) -> Explanation:
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


@asynccontextmanager
async def explain_desk() -> AsyncIterator[ExplainDesk]:
    """Asks the database alone: Temporal and Slack need not answer."""
    database = Database(DatabaseSettings.load().url.get_secret_value(), pool_size=1, application="threadline-cli")
    namespace = ClientConfig.load_client_connect_config().get("namespace") or "default"
    try:
        yield ExplainDesk(database, TemporalUiSettings.load().temporal_ui, namespace)
    finally:
        await database.dispose()
