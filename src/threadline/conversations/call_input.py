"""The preparation of a model call: it takes up the unused messages, and writes the whole question
to the transcript.

Every entry has a key, so a second attempt finds the entries of the first one and asks the same.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations.contract import ThinkRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.failed_calls import failures_kept
from threadline.conversations.model.conversation import ConversationSnapshot, ConversationTurn
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.operator_context import OperatorQuestion, read_question
from threadline.conversations.prompt import (
    SaidMessage,
    TurnNote,
    choose_window,
    limit_summary,
    next_piece,
    parse_note,
    recent_ids,
    split_at_turn,
    summary_prompt,
    tool_message,
    user_messages,
)
from threadline.conversations.routing import waits_for_next_turn
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore, TurnMessage
from threadline.conversations.store.transcript import Transcript, TranscriptEntry, TranscriptStore
from threadline.conversations.store.turns import TurnPlan, TurnStore
from threadline.db.engine import Transaction
from threadline.db.values import storable
from threadline.decisions.model import DecisionRound, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import Permanent, Transient
from threadline.estimates.model import PROJECT_BINDING
from threadline.estimates.store import EstimateStore
from threadline.models.model import ChatModel, Message, Role, ToolKind
from threadline.operator.model import routing as questions
from threadline.slack.model import Thread, User, name_with_id
from threadline.slack.names import plain_tokens
from threadline.slack.text import is_blank, mentions_in
from threadline.slack.users import display_name, known_names, time_zone
from threadline.threads.activity import LONG_WAIT
from threadline.threads.model import message_id
from threadline.tools.model import ErrorCode, Operation, error_result
from threadline.tools.output import render_result, result_limit
from threadline.tools.registry import Tool, ToolRegistry
from threadline.tools.roles import RecordKind
from threadline.tools.store import ToolExecutionStore

_NOT_SHOWN = (
    "Not shown: not everybody who asks now may see all of it. Call the tool again for what they "
    "may see."
)
_OVER = "This step of the turn has already ended, so I cannot repeat it. Please ask me again."
_log = structlog.get_logger(__name__)
MAX_NAMED = 20
"""Users per message whose mentions become names."""
LONGEST_SUMMARY = 180.0
"""Seconds for all pieces of a summary."""
_SUMMARY_ATTEMPTS = 2


People = Mapping[str, User | None]
"""Users by their ids, as Slack knows them."""


@dataclass(frozen=True)
class ModelCallInput:
    """The input of a model call.

    - `step`: the step of the turn;
    - `kept`: the recorded reply, if there is one already;
    - `taken`: the messages that this call takes up; those deleted meanwhile have no text.
    """

    snapshot: ConversationSnapshot
    step: int
    kept: Message | None = None
    briefing: TurnNote | None = None
    past: Transcript = field(default_factory=Transcript)
    current: tuple[Message, ...] = ()
    taken: tuple[TurnMessage, ...] = ()
    plan: TurnPlan | None = None
    """The turn's route, with the operator's context; None for the assistant."""
    decided: DecisionRound | None = None
    """The decision about the turn before the assistant runs."""
    asked: OperatorQuestion | None = None
    """The question for which the operator's context is gathered; None if the context exists, or
    the agent has begun without it.
    """


@dataclass(frozen=True)
class _FoundForCall:
    """Facts that a transaction reads before the call's messages are in the transcript.

    - `begins`: the current agent has no reply in the transcript yet;
    - `note`: the note of this turn;
    - `previous`: the note of an earlier turn, if this one has none.
    """

    snapshot: ConversationSnapshot
    step: int
    taken: tuple[TurnMessage, ...]
    plan: TurnPlan | None
    begins: bool
    transcript: Transcript
    note: TurnNote | None = None
    previous: TurnNote | None = None

    def past(self, turn: int) -> Transcript:
        """Return the transcript before the turn."""
        return replace(self.transcript, messages=split_at_turn(self.transcript.messages, turn)[0])

    @property
    def several(self) -> bool:
        return _several(self.taken, self.note or self.previous, self.transcript.messages)

    @property
    def people(self) -> set[str]:
        """Users whose names and time zones the call needs."""
        mentioned = _mentioned(self.taken)
        if self.note and not self.several:
            return mentioned
        previous = [self.previous.user_id] if self.previous else []
        return {*(each.author_id for each in self.taken), *previous, *mentioned} - {""}


@dataclass(frozen=True)
class UnpreparedCall:
    """A call that cannot be prepared yet.

    - `people`: the users whose names the call needs;
    - `older`: the entries of the past that need a summary first; empty if everything fits;
    - `past`, `fresh`: the transcript before the turn, and the messages of the call.
    """

    people: frozenset[str]
    older: Sequence[TranscriptEntry]
    past: Transcript
    fresh: Sequence[Message]


async def prepare_call(
    deps: ConversationDeps, request: ThinkRequest, attempt: int
) -> ModelCallInput:
    """Take up the unused messages, once per model call, and return the complete input.

    Everything happens in one transaction. It is restarted after Slack was asked for names, since
    storing messages must not wait for Slack, and after a summary was made.
    """
    people: People = {}
    summarises = True
    while True:
        async with deps.database.begin() as tx:
            prepared = await prepare_in(deps, tx, request, people, summarises=summarises)
        if isinstance(prepared, ModelCallInput):
            return prepared
        if prepared.older:
            await _summarise(deps, request, prepared.past, prepared.fresh, attempt)
            summarises = False
        people = await known_people(deps, people, prepared.people)


async def known_people(
    deps: ConversationDeps, known: People, wanted: Collection[str]
) -> dict[str, User | None]:
    """Return the users that are known, and look the others up."""
    missing = [each for each in wanted if each not in known]
    return {**known, **{each: await deps.users.get_known(each) for each in missing}}


async def prepare_in(
    deps: ConversationDeps,
    tx: Transaction,
    request: ThinkRequest,
    people: People,
    *,
    summarises: bool = True,
) -> ModelCallInput | UnpreparedCall:
    """Take up the unused messages and write the call to the transcript, unless it needs names that
    Slack has to be asked for, or a summary.

    Args:
        people: The users that were looked up for this call.
        summarises: Whether a past that is too long has to be summarised first.
    """
    found = await _find(deps, tx, request)
    if isinstance(found, ModelCallInput):
        return found
    if all(deps.users.is_cached(each) for each in found.people if each not in people):
        people = await known_people(deps, people, found.people)
    past = found.past(request.turn)
    fresh = _as_messages(deps, found.taken, people, request.agent)
    older = _for_summary(deps, past, fresh) if summarises and not found.note else ()
    if older or not people.keys() >= found.people:
        return UnpreparedCall(frozenset(found.people), older, past, fresh)
    return await _write_call(deps, tx, request, found, people)


async def _find(
    deps: ConversationDeps, tx: Transaction, request: ThinkRequest
) -> _FoundForCall | ModelCallInput:
    """Read the facts of a call, or return the reply that it already has.

    A step in which the model was unavailable has no reply: a run that begins the turn again
    continues after it. A step whose result was lost on the way to the workflow has one, and is not
    asked again.
    """
    thread = request.thread
    turn = request.turn
    step = await ConversationStore(tx).current_step(thread, turn, request.step)
    plan = await TurnStore(tx).plan(thread, turn)
    transcript = await TranscriptStore(tx).read(thread)
    mine = [each for each in transcript.messages if each.turn == turn]
    if kept := _reply(mine, request.since or request.step):
        return ModelCallInput(
            await ConversationStore(tx).snapshot(thread), kept.step, kept.message
        )
    if not step:
        raise Permanent(_OVER)
    stays = waits_for_next_turn(plan.route, deps.sensitive_words) if plan and step > 1 else None
    taken, snapshot = await MessageStore(tx).take_up(thread, turn, step, stays)
    begins = _reply(mine, plan.route.prior_steps + 1 if plan else 1) is None
    note = parse_note(next((each.message for each in mine if each.key == f"c:{turn}"), None))
    found = _FoundForCall(snapshot, step, tuple(taken), plan, begins, transcript, note)
    if note:
        return found
    previous = None
    # A summary may have replaced that turn.
    if turn > 1 and not any(each.key == f"c:{turn - 1}" for each in transcript.messages):
        previous = parse_note(await TranscriptStore(tx).get(thread, f"c:{turn - 1}"))
    return replace(found, previous=previous or _last_note(transcript.messages))


async def _write_call(
    deps: ConversationDeps,
    tx: Transaction,
    request: ThinkRequest,
    found: _FoundForCall,
    people: People,
) -> ModelCallInput:
    """Write the messages of a call to the transcript, and return its complete input."""
    thread = request.thread
    turn = request.turn
    step = found.step
    fresh = _as_messages(deps, found.taken, people, request.agent, with_authors=found.several)
    note = found.note or await _make_note(deps, tx, request, found, people, fresh)
    entries = [
        *await _without_result(tx, thread, turn, found.transcript.messages),
        *([] if found.note else [(f"c:{turn}", note.message())]),
        *_keyed(found.taken, fresh),
    ]
    transcript = found.transcript
    added = await TranscriptStore(tx).append(thread, turn, step, entries)
    if added != len(entries):  # another attempt has written some of them
        transcript = await TranscriptStore(tx).read(thread)
        entries = []
    known = (each for each in transcript.messages if each.position >= note.since)
    new = (TranscriptEntry(0, key, turn, step, message) for key, message in entries)
    transcript = replace(transcript, messages=(*known, *new))
    operator = request.agent is Agent.OPERATOR
    plan = found.plan if operator else None
    asked = (
        await read_question(tx, thread, turn, note.user_id, plan)
        if plan and found.begins and not plan.context
        else None
    )
    conversation = await ConversationStore(tx).find_id(thread)
    decided = None if operator else last_round(await DecisionStore(tx).rounds(conversation, turn))
    before, current = split_at_turn(transcript.messages, turn)
    everybody = await MessageStore(tx).askers(thread, turn, step) if deps.hides_records else []
    askers = {
        note.user_id,
        *(each.author_id for each in found.taken),
        *(each.user_id for each in everybody),
    } - {""}
    hidden = await deps.hidden_from(askers, thread.channel)
    past = without_hidden(deps.registry, replace(transcript, messages=before), hidden)
    words = tuple(each.message for each in current)
    return ModelCallInput(
        found.snapshot, step, None, note, past, words, found.taken, plan, decided, asked
    )


def without_hidden(
    registry: ToolRegistry, past: Transcript, hidden: frozenset[RecordKind]
) -> Transcript:
    """Return earlier turns without the tool calls and results that the current askers may not see.
    A summary and the model's own thoughts may quote these, so they are omitted as well.
    """
    if not hidden:
        return past
    calls = {call.id: call.name for each in past.messages for call in each.message.calls}
    secret = {
        call_id for call_id, name in calls.items() if _may_tell_of(registry.get(name), hidden)
    }
    if not secret and not past.summary:
        return past
    told = render_result(error_result(ErrorCode.NOT_ALLOWED, _NOT_SHOWN))
    messages = [
        replace(each, message=tool_message(each.message.call_id, told))
        if each.message.call_id in secret
        else replace(each, message=_without_arguments(each.message, secret))
        for each in past.messages
    ]
    return replace(past, summary="", messages=tuple(messages))


def _without_arguments(message: Message, secret: Collection[str]) -> Message:
    if message.role is not Role.ASSISTANT:
        return message
    calls = tuple(
        replace(each, arguments="{}") if each.id in secret else each for each in message.calls
    )
    return replace(message, calls=calls, provider_data="")


def _may_tell_of(tool: Tool | None, kinds: frozenset[RecordKind]) -> bool:
    """Whether a result may hold records of these kinds. A proposal has the result of another tool,
    and the records of a removed tool are unknown, so both count.
    """
    return tool is None or tool.kind is ToolKind.PROPOSE or not kinds.isdisjoint(tool.all_records)


async def append_unread(
    deps: ConversationDeps, tx: Transaction, turn: ConversationTurn, words: str
) -> None:
    """Append the messages that the model has not read, and the answer given in its place, so that
    the model sees them later. This runs in the transaction that ends the turn. Users who are not
    cached appear by id, since storing messages must not wait for Slack.

    Args:
        words: The bot's own last words; empty if the model wrote the answer, or there is none.
    """
    thread = turn.thread
    number = turn.turn
    unread = await MessageStore(tx).unread(thread, number)
    if not (unread or words):
        return
    notes = await TranscriptStore(tx).find(thread, [f"c:{number}", f"c:{number - 1}"])
    several = _several(
        unread, parse_note(notes.get(f"c:{number}") or notes.get(f"c:{number - 1}"))
    )
    named = {*(each.author_id for each in unread), *_mentioned(unread)}
    people = {
        each: await deps.users.get_known(each) for each in named if deps.users.is_cached(each)
    }
    said = _as_messages(deps, unread, people, with_authors=several)
    own = [(f"f:{number}", Message(Role.ASSISTANT, words))] if words else []
    await TranscriptStore(tx).append(thread, number, 0, [*_keyed(unread, said), *own])


def _mentioned(taken: Sequence[TurnMessage]) -> set[str]:
    """Return the mentioned users, at most `MAX_NAMED` of a message: Slack is asked for each."""
    return {user for each in taken for user in sorted(mentions_in(each.shown))[:MAX_NAMED]}


def _as_messages(
    deps: ConversationDeps,
    taken: Sequence[TurnMessage],
    people: People,
    agent: Agent = Agent.ASSISTANT,
    *,
    with_authors: bool = False,
) -> list[Message]:
    """Return the messages as the model reads them, with names for mentions. For the operator a
    long message is cut, as the truncation notice says.

    Args:
        people: The users whose names are known.
        with_authors: Name the author of each message; not needed if one person writes alone.
    """
    names = known_names(people)
    said = []
    for each in taken:
        words = plain_tokens(each.shown, names)
        if (
            agent is Agent.OPERATOR
            and len(whole := questions.normalise_question(words)) > questions.MAX_QUESTION
        ):
            words = questions.truncate_question(whole)
        text = f"[Corrected] {words}" if each.edit_of else words
        author = _label(people, each.author_id) if with_authors else ""
        said.append(SaidMessage(author, text, each.files, each.file_texts))
    return user_messages(said, deps.budget)


def _label(people: People, user: str) -> str:
    return name_with_id(display_name(people.get(user), user), user)


def _clocks(people: People, users: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return the time zones with the people who live by them."""
    by_zone: dict[str, list[str]] = {}
    for user in users:
        if zone := time_zone(people.get(user)):
            by_zone.setdefault(zone, []).append(_label(people, user))
    return tuple((zone, tuple(names)) for zone, names in by_zone.items())


def _newest(found: _FoundForCall) -> TurnMessage | None:
    """Return the message that the turn answers: the last one that addressed the bot, else the last
    one; None without new messages.
    """
    if not found.taken:
        return None
    return max(reversed(found.taken), key=lambda each: each.addressed)


async def _make_note(
    deps: ConversationDeps,
    tx: Transaction,
    request: ThinkRequest,
    found: _FoundForCall,
    people: People,
    fresh: Sequence[Message],
) -> TurnNote:
    """Return the turn's note. It fixes the part of the past that is sent: without a summary that
    has made room, only the end of it.
    """
    cut = choose_window(found.past(request.turn), fresh, deps.budget)
    if cut.older:
        key = request.thread.key
        left_out = len(cut.older)
        _log.warning(
            "history_truncated", slack_thread=key, turn=request.turn, messages_omitted=left_out
        )
    newest = _newest(found)
    previous_user = found.previous.user_id if found.previous else ""
    user = newest.author_id if newest else previous_user
    others = dict.fromkeys(each.author_id for each in found.taken if each.author_id != user)
    hidden = await deps.hidden_from({user, *others} - {""}, request.thread.channel)
    kept = without_hidden(
        deps.registry, replace(found.transcript, messages=tuple(cut.kept)), hidden
    )
    earlier_ids = found.previous.ids if found.previous and not hidden else ()
    records, read_only_reason = await read_binding(tx, request.thread)
    not_addressed = found.plan is not None and found.plan.route.not_addressed
    return TurnNote(
        turn=request.turn,
        at=deps.clock(),
        user_id=user,
        actor=display_name(people.get(user), user) if user else "Somebody",
        request_id=newest.message_id if newest else f"{request.thread.key}:{request.turn}",
        others=tuple(_label(people, each) for each in others),
        clocks=_clocks(people, [user, *others] if user else []),
        # The operator's context already has the earlier messages.
        joined_late=request.agent is Agent.ASSISTANT and _begun_late(request.thread, found),
        several=found.several,
        addressed=found.snapshot.addressed_due and not not_addressed,
        read_only_reason=read_only_reason,
        records=records,
        ids=recent_ids([each.message for each in kept.messages], earlier_ids),
        # A deletion in mid-turn voids only the summary.
        since=max(cut.since, found.transcript.summary_until + 1),
    )


def _begun_late(thread: Thread, found: _FoundForCall) -> bool:
    """Whether the thread has messages, at least its root, that are older than the first stored
    one.
    """
    if found.previous:
        return found.previous.joined_late
    root = message_id(thread.team, thread.channel, thread.ts)
    stored = {f"u:{each.message_id}" for each in found.taken} | {
        each.key for each in found.transcript.messages
    }
    return f"u:{root}" not in stored


def _reply(placed: Sequence[TranscriptEntry], step: int) -> TranscriptEntry | None:
    """Return the model's reply in this step of a turn, or in the next step that has one."""
    replies = (
        each for each in placed if each.key == f"a:{each.turn}:{each.step}" and each.step >= step
    )
    return min(replies, key=lambda each: each.step, default=None)


def _keyed(taken: Sequence[TurnMessage], said: Sequence[Message]) -> list[tuple[str, Message]]:
    return [(f"u:{each.message_id}", message) for each, message in zip(taken, said, strict=True)]


def _last_note(placed: Sequence[TranscriptEntry]) -> TurnNote | None:
    return next((found for each in reversed(placed) if (found := parse_note(each.message))), None)


def _several(
    taken: Sequence[TurnMessage], known: TurnNote | None, placed: Sequence[TranscriptEntry] = ()
) -> bool:
    """Whether more than one person has written in the thread, as far as known from its turns."""
    authors = {each.author_id for each in taken} | (
        {known.user_id} if known and known.user_id else set()
    )
    return (
        len(authors) > 1
        or any(each.message.author for each in placed)
        or bool(known and known.several)
    )


async def _without_result(
    tx: Transaction, thread: Thread, turn: int, placed: Sequence[TranscriptEntry]
) -> list[tuple[str, Message]]:
    """Return an entry for each call of this turn that has no result in the transcript: the
    recorded result, or an error if it is unknown because the worker was lost.
    """
    mine = [each for each in placed if each.turn == turn]
    answered = {each.message.call_id for each in mine if each.message.call_id}
    found = []
    for each in mine:
        for call in each.message.calls:
            if call.id not in answered:
                execution = await ToolExecutionStore(tx).get(
                    Operation(thread, turn, each.step, call.id)
                )
                recorded = execution.tool_result if execution else None
                unknown = (
                    ErrorCode.TOOL_EXECUTION_FAILED
                    if call.read_only
                    else ErrorCode.OUTCOME_UNKNOWN
                )
                told = render_result(
                    recorded or error_result(unknown), result_limit(len(each.message.calls))
                )
                found.append((f"t:{turn}:{each.step}:{call.id}", tool_message(call.id, told)))
    return found


async def read_binding(tx: Transaction, thread: Thread) -> tuple[tuple[str, ...], str]:
    """Return the records that a thread is about ("project PRJ-1"), and why nothing may be changed
    there; empty if changes are allowed.
    """
    bound, is_locked = await EstimateStore(tx).records_of(thread)
    reason = f"the project {bound[PROJECT_BINDING]} is locked" if is_locked else ""
    return tuple(f"{kind} {record}" for kind, record in sorted(bound.items())), reason


# -- The summary


def _for_summary(
    deps: ConversationDeps, past: Transcript, fresh: Sequence[Message]
) -> tuple[TranscriptEntry, ...]:
    """Return the entries of the past to summarise, so that the rest fills half of the budget and
    there is room for a while. Empty if everything fits.
    """
    too_much = choose_window(past, fresh, deps.budget).older
    return (
        max(choose_window(past, (), deps.budget.half()).older, too_much, key=len)
        if too_much
        else ()
    )


async def _summarise(
    deps: ConversationDeps,
    request: ThinkRequest,
    past: Transcript,
    fresh: Sequence[Message],
    attempt: int,
) -> None:
    """Summarise the part of the past that is too long, before a turn's first model call. Each
    piece is stored at once, so that an interrupted attempt is not in vain. If a summary fails, the
    model reads less, and the next turn tries again.

    Raises:
        Transient: The second attempt may succeed.
    """
    try:
        async with asyncio.timeout(LONGEST_SUMMARY):
            while deps.model and (older := _for_summary(deps, past, fresh)):
                piece = next_piece(older)
                summary = await _extend_summary(deps, deps.model, request, past, piece)
                if not summary or len(piece) == len(older):
                    return
                past = Transcript(summary, piece[-1].position, past.messages[len(piece) :])
    except Exception as error:
        if (
            isinstance(error, Transient)
            and attempt < _SUMMARY_ATTEMPTS
            and (error.retry_after or 0) <= LONG_WAIT
        ):
            raise
        _log.warning(
            "summary_failed", slack_thread=request.thread.key, turn=request.turn, exc_info=error
        )


async def _extend_summary(
    deps: ConversationDeps,
    model: ChatModel,
    request: ThinkRequest,
    past: Transcript,
    piece: Sequence[TranscriptEntry],
) -> str:
    """Return the summary extended by a piece; empty if the model wrote none, or a message in it
    was deleted.
    """
    thread = request.thread
    turn = request.turn
    begun = time.monotonic()
    async with failures_kept(deps.database, thread, turn, 0, "summarise"):
        answer = await model.ask(summary_prompt(past.summary, piece))
    took = round((time.monotonic() - begun) * 1000)
    summary = limit_summary(storable(answer.reply.text))
    async with deps.database.begin() as tx:
        await ConversationStore(tx).add_usage(thread, turn, 0, "summarise", answer.usage, took)
        now = await TranscriptStore(tx).read(thread)
        # A message may have been deleted meanwhile; the summary would keep its words.
        told, _ = split_at_turn(now.messages, turn)
        same = now.summary == past.summary and told[: len(piece)] == tuple(piece)
        if is_blank(summary) or not same:
            _log.warning("summary_failed", slack_thread=thread.key, turn=turn, outdated=not same)
            return ""
        await TranscriptStore(tx).replace_with_summary(thread, summary, piece[-1].position)
    return summary
