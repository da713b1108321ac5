"""The beginning of a call of the model: what is unused is taken up, and the transcript says all that it will be asked.

Everything is kept under its key, so a second attempt finds what the first one wrote and asks the same.
"""

import asyncio
import contextlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations.contract import ThinkRequest
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.model.conversation import ConversationSnapshot, ConversationTurn
from threadline.conversations.operator_context import OperatorQuestion, read_question
from threadline.conversations.prompt import (
    Past,
    PlacedMessage,
    TurnNote,
    Window,
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
from threadline.estimates.model import PROJECT_BINDING, ProjectNotFound
from threadline.estimates.store import EstimateStore
from threadline.models.model import ChatModel, Message, Role
from threadline.operator.model import routing as questions
from threadline.operator.model.routing import Agent
from threadline.slack.model import Thread, name_with_id
from threadline.slack.text import is_blank
from threadline.slack.users import display_name, time_zone
from threadline.threads.activity import LONG_WAIT
from threadline.threads.model import message_id
from threadline.threads.store import ThreadBindingStore
from threadline.tools.model import ErrorCode, Operation, error_result
from threadline.tools.output import render_result, result_limit
from threadline.tools.store import ToolExecutionStore

_OVER = "This step of the turn has ended, so the model is not asked again."
_log = structlog.get_logger(__name__)
LONGEST_SUMMARY = 180.0
"""Seconds for all pieces."""
_SUMMARY_ATTEMPTS = 2


@dataclass(frozen=True)
class ThreadBinding:
    """What a thread is bound to, in words, and what follows from it."""

    records: tuple[str, ...] = ()
    read_only: bool = False
    because: str = ""


@dataclass(frozen=True)
class ModelCallInput:
    """What the model is to be asked, as which step of the turn: `kept` is its reply where there is one already.

    `taken` are the messages that this call takes up, of which those that were deleted meanwhile have no words.
    """

    snapshot: ConversationSnapshot
    step: int
    kept: Message | None = None
    briefing: TurnNote | None = None
    past: Past = field(default_factory=lambda: Past("", ()))
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
    """What one transaction found: this call's share of what people wrote, and the transcript, of which a turn that has
    its briefing needs its own part alone."""

    snapshot: ConversationSnapshot
    step: int
    kept: Message | None = None
    taken: tuple[TurnMessage, ...] = ()
    summary: str = ""
    summary_until: int = 0
    placed: tuple[TranscriptEntry, ...] = ()
    briefing: TurnNote | None = None
    previous: TurnNote | None = None
    about: ThreadBinding = field(default_factory=ThreadBinding)
    plan: TurnPlan | None = None
    begins: bool = False
    """The agent whose turn it is has no reply in it yet."""

    @property
    def several(self) -> bool:
        return _several(self.taken, self.briefing or self.previous, self.placed)

    @property
    def overhears(self) -> bool:
        return self.plan is not None and self.plan.route.overhears


async def prepare_call(deps: ConversationDeps, request: ThinkRequest, attempt: int) -> ModelCallInput:
    """Take up what is unused, once for each call of the model, and return the whole of what it is asked.

    One transaction, unless Slack has to be asked for names, which nobody's messages are to wait for, or a summary
    is made first.
    """
    thread, turn = request.thread, request.turn
    found, made = await _read_call(deps, request, summarises=True)
    if made is None and _has_too_much(deps, request, found):
        await summarise(deps, ConversationTurn(thread, turn), attempt)
        found, made = await _read_call(deps, request, summarises=False)
    if made:
        return made
    names, brief = await _name_people(deps, request, found)
    async with deps.database.begin() as tx:
        if await ConversationStore(tx).current_step(thread, turn, found.step) != found.step:
            raise Permanent(_OVER)
        # Read once more: somebody may have deleted a message while Slack was asked for names.
        taken = await MessageStore(tx).take_up(thread, turn, found.step)
        plan = await TurnStore(tx).plan(thread, turn) if found.plan else None
        found = replace(found, plan=plan, snapshot=await ConversationStore(tx).snapshot(thread))
        return await _write_call(deps, tx, request, found, brief, names, taken)


async def _read_call(
    deps: ConversationDeps, request: ThinkRequest, *, summarises: bool
) -> tuple[_FoundForCall, ModelCallInput | None]:
    """What is found, and what is asked where nothing else is needed for it.

    Args:
        summarises: a summary may have to be made first.
    """
    async with deps.database.begin() as tx:
        found = await _find(deps, tx, request)
        if found.kept:
            return found, ModelCallInput(found.snapshot, found.step, found.kept)
        if not _knows_people(deps, found) or (summarises and _has_too_much(deps, request, found)):
            return found, None
        names, brief = await _name_people(deps, request, found)
        return found, await _write_call(deps, tx, request, found, brief, names, found.taken)


def _knows_people(deps: ConversationDeps, found: _FoundForCall) -> bool:
    """Whether Slack need not be asked for anybody's name or time zone."""
    if found.briefing and not (found.several and found.taken):
        return True
    people = {each.author_id for each in found.taken} | ({found.previous.user_id} if found.previous else set())
    return all(deps.users.is_cached(each) for each in people if each)


def _has_too_much(deps: ConversationDeps, request: ThinkRequest, found: _FoundForCall) -> bool:
    """Whether a turn that begins has more past than the model is sent."""
    said = _as_messages(deps, found.taken, {}, request.agent)
    return found.briefing is None and bool(_choose_past(deps, request, found, said).older)


async def _name_people(
    deps: ConversationDeps, request: ThinkRequest, found: _FoundForCall
) -> tuple[dict[str, str], TurnNote]:
    """The names of who wrote, and the turn's context."""
    names = await _names_of(deps, found.taken, several=found.several)
    if found.briefing:
        return names, found.briefing
    return names, await _write_note(deps, request, found, _as_messages(deps, found.taken, names, request.agent))


async def _write_call(
    deps: ConversationDeps,
    tx: Transaction,
    request: ThinkRequest,
    found: _FoundForCall,
    brief: TurnNote,
    names: Mapping[str, str],
    taken: Sequence[TurnMessage],
) -> ModelCallInput:
    """Keep what the model is asked in the transcript, and return it with what came before."""
    thread, turn, step = request.thread, request.turn, found.step
    entries = [
        *await _without_result(tx, thread, turn, found.placed),
        *([] if found.briefing else [(f"c:{turn}", brief.message())]),
        *_keyed(taken, _as_messages(deps, taken, names, request.agent)),
    ]
    await TranscriptStore(tx).append(thread, turn, step, entries)
    if not found.briefing:  # an earlier attempt's stands
        brief = parse_note(await TranscriptStore(tx).get(thread, f"c:{turn}")) or brief
    transcript = await TranscriptStore(tx).read(thread, since=brief.since)
    operator = request.agent is Agent.OPERATOR
    plan = found.plan if operator else None
    asked = await read_question(tx, thread, turn, plan) if plan and found.begins and not plan.context else None
    conversation = await ConversationStore(tx).find_id(thread)
    decided = None if operator else last_round(await DecisionStore(tx).rounds(conversation, turn))
    before, current = split_at_turn(_entries(transcript.messages), turn)
    past, words = Past(transcript.summary, tuple(before)), tuple(message for _, message in current)
    return ModelCallInput(found.snapshot, step, None, brief, past, words, tuple(taken), plan, decided, asked)


async def append_unread(deps: ConversationDeps, thread: Thread, turn: int, words: str) -> None:
    """After the end of a turn: the model is to know later what it has not read, and what was said in its place.

    Args:
        words: our own last words; empty when the model had some, or nothing was said.
    """
    async with deps.database.begin() as tx:
        unread = await MessageStore(tx).unread(thread, turn)
        notes = await TranscriptStore(tx).find(thread, [f"c:{turn}", f"c:{turn - 1}"])
    last = notes.get(f"c:{turn}") or notes.get(f"c:{turn - 1}")
    if not (unread or words):
        return
    names = await _names_of(deps, unread, several=_several(unread, parse_note(last)))
    own = [(f"f:{turn}", Message(Role.ASSISTANT, words))] if words else []
    async with deps.database.begin() as tx:
        unread = await MessageStore(tx).unread(thread, turn)  # somebody may have deleted one meanwhile
        entries = _keyed(unread, _as_messages(deps, unread, names))
        await TranscriptStore(tx).append(thread, turn, 0, [*entries, *own])


async def _find(deps: ConversationDeps, tx: Transaction, request: ThinkRequest) -> _FoundForCall:
    """A step in which the model was away has no reply: a run that begins the turn anew goes on behind it."""
    thread, turn = request.thread, request.turn
    step = await ConversationStore(tx).current_step(thread, turn, request.step)
    mine = await TranscriptStore(tx).entries_of(thread, turn)
    if kept := _reply(mine, request.step):
        return _FoundForCall(await ConversationStore(tx).snapshot(thread), kept.step, kept.message)
    if not step:
        raise Permanent(_OVER)
    plan = await TurnStore(tx).plan(thread, turn)
    stays = waits_for_next_turn(plan.route, deps.sensitive_words) if plan and step > 1 else None
    taken = await MessageStore(tx).take_up(thread, turn, step, stays)
    snapshot = await ConversationStore(tx).snapshot(thread)
    begins = _reply(mine, plan.route.prior_steps + 1 if plan else 1) is None
    if begun := parse_note(next((each.message for each in mine if each.key == f"c:{turn}"), None)):
        return _FoundForCall(snapshot, step, taken=tuple(taken), placed=mine, briefing=begun, plan=plan, begins=begins)
    transcript = await TranscriptStore(tx).read(thread)
    previous = parse_note(await TranscriptStore(tx).get(thread, f"c:{turn - 1}"))
    return _FoundForCall(
        snapshot=snapshot,
        step=step,
        taken=tuple(taken),
        summary=transcript.summary,
        summary_until=transcript.summary_until,
        placed=transcript.messages,
        previous=previous or _last_briefing(transcript.messages),
        about=await read_binding(tx, thread),
        plan=plan,
        begins=begins,
    )


async def _names_of(deps: ConversationDeps, taken: Sequence[TurnMessage], *, several: bool) -> dict[str, str]:
    """By id, whoever wrote it; of one who writes alone there is no need to ask."""
    return {each.author_id: await _label(deps, each.author_id) for each in taken} if several else {}


def _as_messages(
    deps: ConversationDeps, taken: Sequence[TurnMessage], names: Mapping[str, str], agent: Agent = Agent.COPILOT
) -> list[Message]:
    """The operator reads no more of a message than its writer is told that it does."""
    said = []
    for each in taken:
        words = (
            questions.truncate_question(questions.normalise_question(each.text))
            if _too_long(each, agent)
            else each.text
        )
        text = f"[Corrected] {words}" if each.edit_of else words
        said.append((names.get(each.author_id, ""), text, each.files))
    return user_messages(said, deps.budget)


async def _label(deps: ConversationDeps, user: str) -> str:
    return name_with_id(await _name(deps, user), user)


async def _name(deps: ConversationDeps, user: str) -> str:
    return display_name(await deps.users.get_known(user), user)


async def _clocks(deps: ConversationDeps, users: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Time zones with the people who live by them."""
    by_zone: dict[str, list[str]] = {}
    for user in users:
        if zone := time_zone(await deps.users.get_known(user)):
            by_zone.setdefault(zone, []).append(await _label(deps, user))
    return tuple((zone, tuple(people)) for zone, people in by_zone.items())


def _choose_past(
    deps: ConversationDeps, request: ThinkRequest, found: _FoundForCall, fresh: Sequence[Message]
) -> Window:
    before, _ = split_at_turn(_entries(found.placed), request.turn)
    return choose_window(Past(found.summary, tuple(before)), fresh, deps.budget)


async def _write_note(
    deps: ConversationDeps, request: ThinkRequest, found: _FoundForCall, fresh: Sequence[Message]
) -> TurnNote:
    """The turn's context; it decides what of the past is sent: where no summary has made room, the end of it."""
    cut = _choose_past(deps, request, found, fresh)
    if cut.older:
        key, left_out = request.thread.key, len(cut.older)
        _log.warning("history_truncated", slack_thread=key, turn=request.turn, messages_omitted=left_out)
    newest = max(reversed(found.taken), key=lambda each: each.addressed) if found.taken else None
    user = newest.author_id if newest else found.previous.user_id if found.previous else ""
    others = dict.fromkeys(each.author_id for each in found.taken if each.author_id != user)
    listed = found.previous.ids if found.previous else ()
    return TurnNote(
        turn=request.turn,
        at=deps.clock(),
        user_id=user,
        actor=await _name(deps, user) if user else "Somebody",
        request_id=newest.message_id if newest else f"{request.thread.key}:{request.turn}",
        others=tuple([await _label(deps, each) for each in others]),
        clocks=await _clocks(deps, [user, *others] if user else []),
        # What came before it is among what the operator is told.
        joined_late=request.agent is Agent.COPILOT and _begun_late(request.thread, found),
        several=found.several,
        addressed=found.snapshot.addressed_due and not found.overhears,
        read_only=found.about.read_only,
        read_only_reason=found.about.because,
        records=found.about.records,
        ids=recent_ids([message for _, message in cut.kept], listed),
        since=max(cut.since, found.summary_until + 1),  # a deletion in mid-turn voids the summary, and only that
    )


def _entries(placed: Sequence[TranscriptEntry]) -> list[PlacedMessage]:
    return [(each.position, each.message) for each in placed]


def _begun_late(thread: Thread, found: _FoundForCall) -> bool:
    """Whether something was said in the thread, its root at least, before what was the first to be stored of it."""
    if found.previous:
        return found.previous.joined_late
    root = message_id(thread.team, thread.channel, thread.ts)
    stored = {f"u:{each.message_id}" for each in found.taken} | {each.key for each in found.placed}
    return f"u:{root}" not in stored


def _reply(placed: Sequence[TranscriptEntry], step: int) -> TranscriptEntry | None:
    """Of one turn: the model's reply in this step, or in the next that has one."""
    replies = (each for each in placed if each.key == f"a:{each.turn}:{each.step}" and each.step >= step)
    return min(replies, key=lambda each: each.step, default=None)


def _keyed(taken: Sequence[TurnMessage], said: Sequence[Message]) -> list[tuple[str, Message]]:
    return [(f"u:{each.message_id}", message) for each, message in zip(taken, said, strict=True)]


def _last_briefing(placed: Sequence[TranscriptEntry]) -> TurnNote | None:
    return next((found for each in reversed(placed) if (found := parse_note(each.message))), None)


def _several(taken: Sequence[TurnMessage], known: TurnNote | None, placed: Sequence[TranscriptEntry] = ()) -> bool:
    """Whether more than one person has written in the thread, as far as its turns so far have seen."""
    authors = {each.author_id for each in taken} | ({known.user_id} if known and known.user_id else set())
    named = any(each.message.author for each in placed)
    return len(authors) > 1 or named or bool(known and known.several)


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


async def read_binding(tx: Transaction, thread: Thread) -> ThreadBinding:
    """What a thread is about, and whether anything may be changed there."""
    bound = await ThreadBindingStore(tx).of(thread)
    about = ThreadBinding(tuple(f"{kind} {record}" for kind, record in sorted(bound.items())))
    if project_id := bound.get(PROJECT_BINDING):
        with contextlib.suppress(ProjectNotFound):
            if (await EstimateStore(tx).project(thread.team, project_id)).locked:
                return replace(about, read_only=True, because=f"the project {project_id} is locked")
    return about


def _too_long(taken: TurnMessage, agent: Agent) -> bool:
    return agent is Agent.OPERATOR and len(questions.normalise_question(taken.text)) > questions.MAX_QUESTION


async def summarise(deps: ConversationDeps, turn: ConversationTurn, attempt: int) -> None:
    """Before a turn's first thought: leave of the past what fills half of the budget, so that it lasts for a while.

    What is to be told is told piece by piece, each kept at once, so that an attempt which is broken off is not in
    vain. Where a summary cannot be had, the model reads less, and the next turn tries again.

    Raises:
        Transient: it may be had by the second attempt.
    """
    try:
        async with asyncio.timeout(LONGEST_SUMMARY):
            await _summarise_pieces(deps, turn)
    except Exception as error:
        if isinstance(error, Transient) and attempt < _SUMMARY_ATTEMPTS and (error.retry_after or 0) <= LONG_WAIT:
            raise
        _log.warning("summary_failed", slack_thread=turn.thread.key, turn=turn.turn, exc_info=error)


async def _summarise_pieces(deps: ConversationDeps, turn: ConversationTurn) -> None:
    while deps.model and (asked := await _older(deps, turn)):
        past, older = asked
        piece = next_piece(older)
        if not await _extend_summary(deps, deps.model, turn, past, piece) or len(piece) == len(older):
            return


async def _older(deps: ConversationDeps, turn: ConversationTurn) -> tuple[Past, Sequence[PlacedMessage]] | None:
    """The past of a turn that has not begun, and what of it is for the summary; None when there is room for all."""
    async with deps.database.begin() as tx:
        if parse_note(await TranscriptStore(tx).get(turn.thread, f"c:{turn.turn}")):
            return None
        past = _past(await TranscriptStore(tx).read(turn.thread), turn.turn)
        unused = await MessageStore(tx).unused(turn.thread)
    fresh = user_messages([("", each.text, each.files) for each in unused], deps.budget)
    too_much = choose_window(past, fresh, deps.budget).older
    half = choose_window(past, (), deps.budget.half()).older
    return (past, max(half, too_much, key=len)) if too_much else None


async def _extend_summary(
    deps: ConversationDeps, model: ChatModel, turn: ConversationTurn, past: Past, piece: Sequence[PlacedMessage]
) -> bool:
    """Have the summary extended by a piece; False when there are no words, or it tells what is there no more."""
    begun = time.monotonic()
    answer = await model.ask(summary_prompt(past, piece))
    took = round((time.monotonic() - begun) * 1000)
    summary = limit_summary(storable(answer.reply.text))
    async with deps.database.begin() as tx:
        await ConversationStore(tx).add_usage(turn.thread, turn.turn, 0, "summarise", answer.usage, took)
        now = _past(await TranscriptStore(tx).read(turn.thread), turn.turn)
        # Somebody may have deleted a message meanwhile, whose words the summary would keep.
        same = now.summary == past.summary and now.messages[: len(piece)] == tuple(piece)
        if is_blank(summary) or not same:
            _log.warning("summary_failed", slack_thread=turn.thread.key, turn=turn.turn, outdated=not same)
            return False
        await TranscriptStore(tx).replace_with_summary(turn.thread, summary, piece[-1][0])
    return True


def _past(transcript: Transcript, turn: int) -> Past:
    entries = [(each.position, each.message) for each in transcript.messages]
    return Past(transcript.summary, tuple(split_at_turn(entries, turn)[0]))
