"""explain_turn: everything that is stored about one turn, without deleted content and without
secrets.

The functions neither wait for a conversation's row nor lock it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from sqlalchemy import text
from sqlalchemy.dialects.postgresql import JSONB

from threadline.conversations.model.conversation import Refusal, conversation_workflow_id
from threadline.conversations.model.turn_route import TurnRoute
from threadline.conversations.store.conversation import ConversationStore, thread_key
from threadline.conversations.store.turns import SettledTurn, TurnStore
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.models.model import add_costs
from threadline.privacy.redaction import redact, redact_value
from threadline.rfps.model import Event, JournalEntry
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.slack.store import UserStore
from threadline.slack.text import Permalink, parse_permalink
from threadline.threads.fault_store import FaultStore
from threadline.threads.model import turn_id

WITHHELD = "(left out: a message that this turn may have read was deleted)"
_RESULT_READ = 4_000
"""Characters of a result; the rest of two megabytes helps no reader."""
_TOO_MUCH = "its author sent too many messages in a short time"
_REFUSED: Mapping[str | None, str] = {
    Refusal.DUPLICATE: "its author had sent the same message shortly before",
    Refusal.THROTTLED: _TOO_MUCH,
    Refusal.THROTTLED_FIRST: _TOO_MUCH,
}
_WAYS = (
    "Give the permalink or CHANNEL/TS of an answer by the bot, or of a message that it answered."
)
_ANSWER = re.compile(r"conversation:([^:]+):([^:]+):([^:]+):turn:(\d+)(?:#\d+)?")
_NOTICE = re.compile(r"conversation:([^:]+):([^:]+):([^:]+):([a-z_]+):.*", re.DOTALL)

_MESSAGE = text("""
SELECT c.team, c.channel, c.thread_ts, m.turn, m.verdict, m.redacted_at IS NOT NULL AS deleted
FROM conversation_messages m JOIN conversations c ON c.id = m.conversation_id
WHERE m.message_id = ANY(ARRAY(
    SELECT DISTINCT team || ':' || :channel || ':' || :ts FROM conversations
    WHERE channel = :channel))
LIMIT 1
""")
"""A permalink names no team."""
_POST = text(
    "SELECT key FROM posts WHERE channel = :channel AND ts = :ts AND key LIKE "
    "'conversation:%' LIMIT 1"
)
"""The condition on the key lets Postgres use the partial index."""
_CASE = text("""
SELECT split_part(key, ':', 1) AS bug_id FROM posts
WHERE channel = :channel AND ts = :ts AND key LIKE 'BUG-%'
UNION ALL
SELECT bug_id FROM bug_conversations WHERE channel = :channel AND slack_ts = :ts
UNION ALL
SELECT c.bug_id FROM threads t JOIN cases c USING (workflow_id)
WHERE t.channel = :channel AND t.thread_ts = :ts
LIMIT 1
""")
_PRUNED = text("""
SELECT EXISTS (SELECT FROM conversations
               WHERE channel = :channel AND thread_ts = :root AND stored = 0)
""")
_DELETED = text("""
SELECT EXISTS (SELECT FROM conversation_messages
               WHERE conversation_id = :id AND redacted_at IS NOT NULL
                 AND coalesce(turn, 0) <= :turn)
""")
_SAID = text("""
SELECT sender_id AS user_id, channel, slack_ts AS ts,
       concat_ws(E'\\n', nullif(message_text, ''), nullif(forwarded, '')) AS text,
       redacted_at IS NOT NULL AS deleted, addressed
FROM conversation_messages
WHERE conversation_id = :id AND turn = :turn AND message_type = 'message'
ORDER BY said_at, seq
""")
_TOOL_CALLS = text("""
SELECT step, call_id, tool_name, parameters, coalesce(status, 'unknown') AS status,
       execution_time_ms AS milliseconds,
       left(coalesce(nullif(result->'error', 'null'), nullif(result->'data', 'null'),
                     result->'display_text') #>> '{}',
            :longest) AS result, created_at AS begun_at
FROM agent_tool_executions
WHERE team = :team AND channel = :channel AND thread_ts = :thread_ts AND turn = :turn
ORDER BY step, created_at, call_id
""").columns(parameters=JSONB)
"""The result of a failed tool call is its error; otherwise the text for the model, or else the
text for people.
"""
_MODEL_CALLS = text("""
SELECT step, purpose, model, input_tokens, cached_tokens, output_tokens, reasoning_tokens,
       cost_usd, milliseconds, failure, created_at AS at
FROM model_calls WHERE conversation_id = :id AND turn = :turn ORDER BY id
""")


@dataclass(frozen=True)
class FoundMessage:
    """A message of the turn `turn` of `thread`; 0 while no turn has used it.

    `notice`: the kind of a notice by the bot itself, such as `throttled`. `verdict`: the reason
    why a person's message is not answered, or `ok`. `deleted`: its author has deleted it.
    """

    thread: Thread
    turn: int = 0
    notice: str = ""
    verdict: str | None = None
    deleted: bool = False


@dataclass(frozen=True)
class CaseMessage:
    """A message that belongs to a bug's case, which `command` shows."""

    case: str
    command: str


Stored = Mapping[str, Any]
"""A row by the names of its columns, as its statement selects them."""


@dataclass(frozen=True)
class Explanation:
    """Everything that is stored about one turn.

    `route` and `result` are None in a turn from before routes were stored; `ended` is None while
    it runs. `asker`: `user_id` and `name`, which is empty where Slack was never asked. `said`: the
    messages that the turn has used, in order. `tool_calls`: in the order of their starts.
    `model_calls`: in the order of their ends, with repeats; `failure` is the reason of a failed
    one. `journal` and `events`: the turn's writes (`id`, `rfp_id`, `kind`, `what`, `at`).
    `withheld`: texts, arguments and results are left out, since a message that the turn may have
    read was deleted.
    """

    workflow_id: str
    workflow_url: str
    thread: Thread
    turn: int
    correlation_id: str
    asker: Mapping[str, str]
    said: Sequence[Stored]
    route: TurnRoute | None
    layers: Sequence[Stored]
    tool_calls: Sequence[Stored]
    model_calls: Sequence[Stored]
    protocol: Stored | None
    journal: Sequence[Stored]
    events: Sequence[Stored]
    spent: Mapping[str, float | None]
    result: Stored | None
    ended: SettledTurn | None
    withheld: bool
    faults: Sequence[str] = ()
    """Open faults of the installation, while the answer is not posted."""


async def explain_turn(
    database: Database, address: str, *, ui: str, namespace: str
) -> Explanation | CaseMessage:
    """Return everything that is stored about the turn of a message.

    Args:
        address: the permalink of the bot's answer or of a message that a turn has used; or
            `channel/ts`.
        ui: the address of Temporal's UI.
        namespace: the workflows' namespace.

    Raises:
        Permanent: the message has no turn; the text gives the reason and the valid addresses.
    """
    place = parse_permalink(address)
    where = {"channel": place.channel, "ts": place.ts}
    async with database.begin() as tx:
        found = await find_message(tx, place.channel, place.ts)
        if found and found.turn:
            workflows = f"{ui.rstrip('/')}/namespaces/{quote(namespace)}/workflows"
            return await read_turn(tx, found.thread, found.turn, workflows)
        if case := (await tx.execute(_CASE, where)).scalar_one_or_none():
            return CaseMessage(case, f"threadline cases show {case}")
        raise Permanent(_no_turn(found) if found else await _nothing(tx, place))


async def read_turn(
    tx: Transaction, thread: Thread, turn: int, workflows: str = ""
) -> Explanation:
    """Return everything that is stored about a turn, running or ended.

    `workflows`: the address of the list of workflows in Temporal's UI.
    """
    plan = await TurnStore(tx).plan(thread, turn)
    ended = await TurnStore(tx).settled(thread, turn)
    correlation = turn_id(thread, turn)
    workflow_id = conversation_workflow_id(thread)
    which = {"id": await ConversationStore(tx).find_id(thread), "turn": turn}
    hide = bool((await tx.execute(_DELETED, which)).scalar_one())

    def shown(value: Any) -> Any:
        """Redact secrets, and withhold anything that may quote a deleted message."""
        return WITHHELD if hide and value is not None and value != "" else redact_value(value)

    said = [
        dict(each, text=redact(each["text"]))
        for each in (await tx.execute(_SAID, which)).mappings()
    ]
    made = await tx.execute(
        _TOOL_CALLS, thread_key(thread) | {"turn": turn, "longest": _RESULT_READ}
    )
    tool_calls = [
        each
        | {name: shown(each[name]) for name in ("parameters", "result")}
        | {"tool_name": redact(each["tool_name"])}
        for each in map(dict, made.mappings())
    ]
    asked = (await tx.execute(_MODEL_CALLS, which)).mappings()
    models = [dict(each, failure=shown(each["failure"])) for each in asked]
    journal = await RfpStore(tx).journal_of_turn(thread.team, correlation)
    events = await RfpStore(tx).events_of_turn(thread.team, correlation)
    result = plan.result if plan else None
    return Explanation(
        workflow_id=workflow_id,
        workflow_url=f"{workflows}/{quote(workflow_id, safe=':')}",
        thread=thread,
        turn=turn,
        correlation_id=correlation,
        asker=await _asker(tx, thread, said, ended),
        said=said,
        route=_shown_route(plan.route, shown) if plan else None,
        layers=[redact_value(each) for each in plan.layers] if plan else (),
        tool_calls=tool_calls,
        model_calls=models,
        protocol=result.get("protocol") if result else None,
        journal=[_written(each, each.kind, shown(each.text)) for each in journal],
        events=[_written(each, each.event_type, shown(each.payload)) for each in events],
        spent={
            "tokens": sum(each["input_tokens"] + each["output_tokens"] for each in models),
            "cost_usd": add_costs(each["cost_usd"] for each in models),
        },
        result=result,
        ended=ended and replace(ended, answer=shown(ended.answer)),
        withheld=hide,
        faults=await _open_faults(tx) if ended and not ended.posted_at else (),
    )


async def _open_faults(tx: Transaction) -> list[str]:
    """Return the faults of the installation that may keep an answer from Slack."""
    return [each.text for each in await FaultStore(tx).open()]


async def find_message(tx: Transaction, channel: str, ts: str) -> FoundMessage | None:
    """Return a conversation's message; None when it belongs to no conversation, or is pruned."""
    where = {"channel": channel, "ts": ts}
    key = (await tx.execute(_POST, where)).scalar_one_or_none()
    if answer := _ANSWER.fullmatch(key or ""):
        return FoundMessage(Thread(*answer.group(1, 2, 3)), int(answer.group(4)))
    if notice := _NOTICE.fullmatch(key or ""):
        return FoundMessage(Thread(*notice.group(1, 2, 3)), notice=notice.group(4))
    row = (await tx.execute(_MESSAGE, where)).one_or_none()
    if row is None:
        return None
    return FoundMessage(Thread(*row[:3]), row.turn or 0, verdict=row.verdict, deleted=row.deleted)


async def _asker(
    tx: Transaction, thread: Thread, said: Sequence[Stored], ended: SettledTurn | None
) -> dict[str, str]:
    """Return the user whom the turn answers; while it runs, the last one who addressed the bot in
    it.
    """
    spoke = sorted(said, key=lambda each: each["addressed"])
    user_id = (ended.user_id if ended else "") or (spoke[-1]["user_id"] if spoke else "")
    user = await UserStore(tx).get(thread.team, user_id) if user_id else None
    return {"user_id": user_id, "name": user.display_name if user else ""}


def _shown_route(route: TurnRoute, shown: Callable[[str], str]) -> TurnRoute:
    return replace(route, reply=shown(route.reply), notes=tuple(map(shown, route.notes)))


def _written(entry: JournalEntry | Event, kind: str, what: Any) -> Stored:
    return {
        "id": entry.id,
        "rfp_id": entry.rfp_id,
        "kind": kind,
        "what": what,
        "at": entry.created_at,
    }


def _no_turn(found: FoundMessage) -> str:
    """Return the reason why a message of a conversation has no turn."""
    where = f"The message belongs to the conversation {found.thread.key}, but"
    if found.notice:
        return (
            f"{where} it is a notice from the bot ({found.notice}), not a turn's answer. {_WAYS}"
        )
    if found.deleted:
        return f"{where} its author deleted it before a turn used it. {_WAYS}"
    if found.verdict in _REFUSED:
        return f"{where} the bot does not answer it: {_REFUSED[found.verdict]}. {_WAYS}"
    return (
        f"{where} no turn has used it: it is still unanswered, or was not meant for the bot. "
        f"{_WAYS}"
    )


async def _nothing(tx: Transaction, place: Permalink) -> str:
    where = f"{place.channel}/{place.ts}"
    if (await tx.execute(_PRUNED, {"channel": place.channel, "root": place.root})).scalar_one():
        return (
            f"The conversation of {where} is no longer on record: it had no message for longer "
            "than THREADLINE_CONVERSATION_RETENTION_DAYS, so it was deleted."
        )
    return (
        f"The message {where} is not on record: the bot neither wrote nor received it, or the "
        f"record was deleted. {_WAYS}"
    )
