"""The beginning of a call of the model: what is unused is taken up, and the transcript says all that it will be asked.

Everything is kept under its key, so a second attempt finds what the first one wrote and asks the same.
"""

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations.contract import ThinkRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationSnapshot, ConversationTurn
from threadline.conversations.operator_context import OperatorQuestion, read_question
from threadline.conversations.prompt import (
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
from threadline.operator.model.routing import Agent
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

_NOT_SHOWN = "Not shown: not everybody who asks now may see all of it. Call the tool again for what they may see."
_OVER = "This step of the turn has ended, so the model is not asked again."
_log = structlog.get_logger(__name__)
MAX_NAMED = 20
"""Users of one message whose mentions become names."""
LONGEST_SUMMARY = 180.0
"""Seconds for all pieces."""
_SUMMARY_ATTEMPTS = 2


People = Mapping[str, User | None]
"""Users by their ids, as Slack knows them."""


@dataclass(frozen=True)
class ModelCallInput:
    """What the model is to be asked, as which step of the turn: `kept` is its reply where there is one already.

    `taken` are the messages that this call takes up, of which those that were deleted meanwhile have no words.
    """

    snapshot: ConversationSnapshot
    step: int
    kept: Message | None = None
    briefing: TurnNote | None = None
    past: Transcript = field(default_factory=Transcript)
    current: tuple[Message, ...] = ()
    taken: tuple[TurnMessage, ...] = ()
    plan: TurnPlan | None = None
    """The turn's route, with what the operator is told."""
    decided: DecisionRound | None = None
    """What was decided about the turn before its conversational agent is asked."""
    asked: OperatorQuestion | None = None
    """What the operator's context is gathered for; None where it is there, or the agent has begun without it."""


@dataclass(frozen=True)
class _FoundForCall:
    """What a transaction has found before the call's share of what people wrote is in the transcript.

    `begins`: the agent whose turn it is has no reply in it yet. `note`: the turn's own; `previous`: an earlier turn's,
    where it has none.
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
        """What lies before the turn."""
        return replace(self.transcript, messages=split_at_turn(self.transcript.messages, turn)[0])

    @property
    def several(self) -> bool:
        return _several(self.taken, self.note or self.previous, self.transcript.messages)

    @property
    def people(self) -> set[str]:
        """Whose names and time zones the call needs."""
        mentioned = _mentioned(self.taken)
        if self.note and not self.several:
            return mentioned
        previous = [self.previous.user_id] if self.previous else []
        return {*(each.author_id for each in self.taken), *previous, *mentioned} - {""}


async def prepare_call(deps: ConversationDeps, request: ThinkRequest, attempt: int) -> ModelCallInput:
    """Take up what is unused, once for each call of the model, and return the whole of what it is asked.

    One transaction. It is begun anew where Slack has to be asked for names, which nobody's messages are to wait for,
    or where a summary is made first.
    """
    people: dict[str, User | None] = {}
    summarises = True
    while True:
        async with deps.database.begin() as tx:
            found = await _find(deps, tx, request)
            if isinstance(found, ModelCallInput):
                return found
            unknown = [each for each in found.people if each not in people]
            if all(map(deps.users.is_cached, unknown)):
                people |= {each: await deps.users.get_known(each) for each in unknown}
            past, fresh = found.past(request.turn), _as_messages(deps, found.taken, people, request.agent)
            older = _for_summary(deps, past, fresh) if summarises and not found.note else ()
            if not older and people.keys() >= found.people:
                return await _write_call(deps, tx, request, found, people)
        if older:
            await _summarise(deps, request, past, fresh, attempt)
            summarises = False
        people |= {each: await deps.users.get_known(each) for each in found.people if each not in people}


async def _find(deps: ConversationDeps, tx: Transaction, request: ThinkRequest) -> _FoundForCall | ModelCallInput:
    """A step in which the model was away has no reply: a run that begins the turn anew goes on behind it. A step whose
    result was lost on the way to the workflow has one, and is not asked again."""
    thread, turn = request.thread, request.turn
    step = await ConversationStore(tx).current_step(thread, turn, request.step)
    plan, transcript = await TurnStore(tx).plan_and_transcript(thread, turn)
    mine = [each for each in transcript.messages if each.turn == turn]
    if kept := _reply(mine, request.since or request.step):
        return ModelCallInput(await ConversationStore(tx).snapshot(thread), kept.step, kept.message)
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
    if turn > 1 and not any(each.key == f"c:{turn - 1}" for each in transcript.messages):  # a summary may tell of it
        previous = parse_note(await TranscriptStore(tx).get(thread, f"c:{turn - 1}"))
    return replace(found, previous=previous or _last_note(transcript.messages))


async def _write_call(
    deps: ConversationDeps, tx: Transaction, request: ThinkRequest, found: _FoundForCall, people: People
) -> ModelCallInput:
    """Keep what the model is asked in the transcript, and return it with what came before."""
    thread, turn, step = request.thread, request.turn, found.step
    fresh = _as_messages(deps, found.taken, people, request.agent, with_authors=found.several)
    note = found.note or await _make_note(deps, tx, request, found, people, fresh)
    entries = [
        *await _without_result(tx, thread, turn, found.transcript.messages),
        *([] if found.note else [(f"c:{turn}", note.message())]),
        *_keyed(found.taken, fresh),
    ]
    transcript, added = found.transcript, await TranscriptStore(tx).append(thread, turn, step, entries)
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
    askers = {note.user_id, *(each.author_id for each in found.taken), *(each.user_id for each in everybody)} - {""}
    hidden = await deps.hidden_from(askers, thread.channel)
    past = without_hidden(deps.registry, replace(transcript, messages=before), hidden)
    words = tuple(each.message for each in current)
    return ModelCallInput(found.snapshot, step, None, note, past, words, found.taken, plan, decided, asked)


def without_hidden(registry: ToolRegistry, past: Transcript, hidden: frozenset[RecordKind]) -> Transcript:
    """Earlier turns, without calls and results of tools that somebody else asked for and whoever asks now may not see.
    A summary and the model's own thoughts may quote them, so they are left out with them."""
    if not hidden:
        return past
    calls = {call.id: call.name for each in past.messages for call in each.message.calls}
    secret = {call_id for call_id, name in calls.items() if _may_tell_of(registry.get(name), hidden)}
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
    calls = tuple(replace(each, arguments="{}") if each.id in secret else each for each in message.calls)
    return replace(message, calls=calls, provider_data="")


def _may_tell_of(tool: Tool | None, kinds: frozenset[RecordKind]) -> bool:
    """Whether a result may hold records of these kinds: that of a proposed call is the other tool's, and nobody knows
    what a tool read that is gone."""
    return tool is None or tool.kind is ToolKind.PROPOSE or not kinds.isdisjoint(tool.all_records)


async def append_unread(deps: ConversationDeps, tx: Transaction, turn: ConversationTurn, words: str) -> None:
    """In the transaction that ends a turn: the model is to know later what it has not read, and what was said in its
    place. Whoever is not known here is named by their id, since nobody's messages wait for Slack. `words`: our own last
    words; empty when the model had some, or nothing was said."""
    thread, number = turn.thread, turn.turn
    unread = await MessageStore(tx).unread(thread, number)
    if not (unread or words):
        return
    notes = await TranscriptStore(tx).find(thread, [f"c:{number}", f"c:{number - 1}"])
    several = _several(unread, parse_note(notes.get(f"c:{number}") or notes.get(f"c:{number - 1}")))
    named = {*(each.author_id for each in unread), *_mentioned(unread)}
    people = {each: await deps.users.get_known(each) for each in named if deps.users.is_cached(each)}
    said = _as_messages(deps, unread, people, with_authors=several)
    own = [(f"f:{number}", Message(Role.ASSISTANT, words))] if words else []
    await TranscriptStore(tx).append(thread, number, 0, [*_keyed(unread, said), *own])


def _mentioned(taken: Sequence[TurnMessage]) -> set[str]:
    """The users whom people mention; of very many in one message a part, since Slack is asked for each."""
    return {user for each in taken for user in sorted(mentions_in(each.shown))[:MAX_NAMED]}


def _as_messages(
    deps: ConversationDeps,
    taken: Sequence[TurnMessage],
    people: People,
    agent: Agent = Agent.COPILOT,
    *,
    with_authors: bool = False,
) -> list[Message]:
    """What people wrote, as the model reads it: mentions are names. The operator reads no more of a message than its
    writer is told that it does.

    Args:
        people: the users whose names are known.
        with_authors: name the author of each message; where one person writes alone there is no need.
    """
    names = known_names(people)
    said = []
    for each in taken:
        words = plain_tokens(each.shown, names)
        if agent is Agent.OPERATOR and len(whole := questions.normalise_question(words)) > questions.MAX_QUESTION:
            words = questions.truncate_question(whole)
        text = f"[Corrected] {words}" if each.edit_of else words
        said.append((_label(people, each.author_id) if with_authors else "", text, each.files))
    return user_messages(said, deps.budget)


def _label(people: People, user: str) -> str:
    return name_with_id(display_name(people.get(user), user), user)


def _clocks(people: People, users: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Time zones with the people who live by them."""
    by_zone: dict[str, list[str]] = {}
    for user in users:
        if zone := time_zone(people.get(user)):
            by_zone.setdefault(zone, []).append(_label(people, user))
    return tuple((zone, tuple(names)) for zone, names in by_zone.items())


async def _make_note(
    deps: ConversationDeps,
    tx: Transaction,
    request: ThinkRequest,
    found: _FoundForCall,
    people: People,
    fresh: Sequence[Message],
) -> TurnNote:
    """The turn's context; it decides what of the past is sent: where no summary has made room, the end of it."""
    cut = choose_window(found.past(request.turn), fresh, deps.budget)
    if cut.older:
        key, left_out = request.thread.key, len(cut.older)
        _log.warning("history_truncated", slack_thread=key, turn=request.turn, messages_omitted=left_out)
    newest = max(reversed(found.taken), key=lambda each: each.addressed) if found.taken else None
    user = newest.author_id if newest else found.previous.user_id if found.previous else ""
    others = dict.fromkeys(each.author_id for each in found.taken if each.author_id != user)
    hidden = await deps.hidden_from({user, *others} - {""}, request.thread.channel)
    kept = without_hidden(deps.registry, replace(found.transcript, messages=tuple(cut.kept)), hidden)
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
        # What came before it is among what the operator is told.
        joined_late=request.agent is Agent.COPILOT and _begun_late(request.thread, found),
        several=found.several,
        addressed=found.snapshot.addressed_due and not not_addressed,
        read_only_reason=read_only_reason,
        records=records,
        ids=recent_ids([each.message for each in kept.messages], earlier_ids),
        # A deletion in mid-turn voids the summary, and only that.
        since=max(cut.since, found.transcript.summary_until + 1),
    )


def _begun_late(thread: Thread, found: _FoundForCall) -> bool:
    """Whether something was said in the thread, its root at least, before what was the first to be stored of it."""
    if found.previous:
        return found.previous.joined_late
    root = message_id(thread.team, thread.channel, thread.ts)
    stored = {f"u:{each.message_id}" for each in found.taken} | {each.key for each in found.transcript.messages}
    return f"u:{root}" not in stored


def _reply(placed: Sequence[TranscriptEntry], step: int) -> TranscriptEntry | None:
    """Of one turn: the model's reply in this step, or in the next that has one."""
    replies = (each for each in placed if each.key == f"a:{each.turn}:{each.step}" and each.step >= step)
    return min(replies, key=lambda each: each.step, default=None)


def _keyed(taken: Sequence[TurnMessage], said: Sequence[Message]) -> list[tuple[str, Message]]:
    return [(f"u:{each.message_id}", message) for each, message in zip(taken, said, strict=True)]


def _last_note(placed: Sequence[TranscriptEntry]) -> TurnNote | None:
    return next((found for each in reversed(placed) if (found := parse_note(each.message))), None)


def _several(taken: Sequence[TurnMessage], known: TurnNote | None, placed: Sequence[TranscriptEntry] = ()) -> bool:
    """Whether more than one person has written in the thread, as far as its turns so far have seen."""
    authors = {each.author_id for each in taken} | ({known.user_id} if known and known.user_id else set())
    return len(authors) > 1 or any(each.message.author for each in placed) or bool(known and known.several)


async def _without_result(
    tx: Transaction, thread: Thread, turn: int, placed: Sequence[TranscriptEntry]
) -> list[tuple[str, Message]]:
    """For each call of this turn that has no result, what is on record of it, or that nobody knows: its worker was
    lost before it told."""
    mine = [each for each in placed if each.turn == turn]
    answered = {each.message.call_id for each in mine if each.message.call_id}
    found = []
    for each in mine:
        for call in each.message.calls:
            if call.id not in answered:
                execution = await ToolExecutionStore(tx).get(Operation(thread, turn, each.step, call.id))
                recorded = execution.tool_result if execution else None
                unknown = ErrorCode.TOOL_EXECUTION_FAILED if call.read_only else ErrorCode.OUTCOME_UNKNOWN
                told = render_result(recorded or error_result(unknown), result_limit(len(each.message.calls)))
                found.append((f"t:{turn}:{each.step}:{call.id}", tool_message(call.id, told)))
    return found


async def read_binding(tx: Transaction, thread: Thread) -> tuple[tuple[str, ...], str]:
    """What a thread is about, in words ("project PRJ-1"), and why nothing may be changed there; empty where it may."""
    bound, is_locked = await EstimateStore(tx).records_of(thread)
    reason = f"the project {bound[PROJECT_BINDING]} is locked" if is_locked else ""
    return tuple(f"{kind} {record}" for kind, record in sorted(bound.items())), reason


# -- The summary ---------------------------------------------------------------------------------------------------


def _for_summary(deps: ConversationDeps, past: Transcript, fresh: Sequence[Message]) -> tuple[TranscriptEntry, ...]:
    """What of a past that is too long is for the summary: the rest fills half of the budget, so that it lasts for a
    while. Nothing when there is room for all."""
    too_much = choose_window(past, fresh, deps.budget).older
    return max(choose_window(past, (), deps.budget.half()).older, too_much, key=len) if too_much else ()


async def _summarise(
    deps: ConversationDeps, request: ThinkRequest, past: Transcript, fresh: Sequence[Message], attempt: int
) -> None:
    """Before a turn's first thought: have what is too much of its past summarised. What is to be told is told piece by
    piece, each kept at once, so that an attempt which is broken off is not in vain. Where a summary cannot be had, the
    model reads less, and the next turn tries again. Raises `Transient` when it may be had by the second attempt."""
    try:
        async with asyncio.timeout(LONGEST_SUMMARY):
            while deps.model and (older := _for_summary(deps, past, fresh)):
                piece = next_piece(older)
                summary = await _extend_summary(deps, deps.model, request, past, piece)
                if not summary or len(piece) == len(older):
                    return
                past = Transcript(summary, piece[-1].position, past.messages[len(piece) :])
    except Exception as error:
        if isinstance(error, Transient) and attempt < _SUMMARY_ATTEMPTS and (error.retry_after or 0) <= LONG_WAIT:
            raise
        _log.warning("summary_failed", slack_thread=request.thread.key, turn=request.turn, exc_info=error)


async def _extend_summary(
    deps: ConversationDeps, model: ChatModel, request: ThinkRequest, past: Transcript, piece: Sequence[TranscriptEntry]
) -> str:
    """The summary that tells a piece more; empty when there are no words, or it tells what is there no more."""
    thread, turn, begun = request.thread, request.turn, time.monotonic()
    answer = await model.ask(summary_prompt(past.summary, piece))
    took = round((time.monotonic() - begun) * 1000)
    summary = limit_summary(storable(answer.reply.text))
    async with deps.database.begin() as tx:
        await ConversationStore(tx).add_usage(thread, turn, 0, "summarise", answer.usage, took)
        now = await TranscriptStore(tx).read(thread)
        # Somebody may have deleted a message meanwhile, whose words the summary would keep.
        told, _ = split_at_turn(now.messages, turn)
        same = now.summary == past.summary and told[: len(piece)] == tuple(piece)
        if is_blank(summary) or not same:
            _log.warning("summary_failed", slack_thread=thread.key, turn=turn, outdated=not same)
            return ""
        await TranscriptStore(tx).replace_with_summary(thread, summary, piece[-1].position)
    return summary
