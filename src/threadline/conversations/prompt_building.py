"""The beginning of a call of the model: what is unused is taken up, and the transcript says all that it will be asked.

Everything is kept under its key, so a second attempt finds what the first one wrote and asks the same.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations import context_window as context
from threadline.conversations import recent_ids as references
from threadline.conversations import turn_input as turn_words
from threadline.conversations import turn_note as briefing
from threadline.conversations.context_window import Budget, Past
from threadline.conversations.contract import ThinkRequest
from threadline.conversations.model.conversation import ConversationSnapshot
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore, TurnMessage
from threadline.conversations.store.transcript import DELETED, TranscriptEntry, TranscriptStore
from threadline.conversations.store.turns import TurnPlan, TurnStore
from threadline.conversations.turn_note import Briefing
from threadline.db.engine import Database, Transaction
from threadline.decisions.model import DecisionRound, last_round
from threadline.decisions.store import DecisionStore
from threadline.errors import Permanent
from threadline.estimates.model import ProjectNotFound
from threadline.estimates.store import bound_project
from threadline.models.model import Message, Role
from threadline.operator.model import routing as questions
from threadline.operator.model.routing import Agent
from threadline.slack.model import Thread, name_with_id
from threadline.slack.users import UserDirectory, display_name, time_zone
from threadline.threads.model import message_id
from threadline.threads.store import ThreadBindingStore
from threadline.tools.model import ErrorCode, Operation, error_result
from threadline.tools.output import render_result, result_limit
from threadline.tools.store import recorded_result

_OVER = "This step of the turn has ended, so the model is not asked again."
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class About:
    """What a thread is bound to, in words, and what follows from it."""

    records: tuple[str, ...] = ()
    read_only: bool = False
    because: str = ""


@dataclass(frozen=True)
class Question:
    """What the model is to be asked, as which step of the turn: `kept` is its reply where there is one already.

    `taken` are the messages that this call takes up, of which those that were deleted meanwhile have no words.
    """

    marks: ConversationSnapshot
    step: int
    kept: Message | None = None
    briefing: Briefing | None = None
    past: Past = field(default_factory=lambda: Past("", ()))
    current: tuple[Message, ...] = ()
    taken: tuple[TurnMessage, ...] = ()
    plan: TurnPlan | None = None
    """The turn's route, with what the operator is told."""
    decided: DecisionRound | None = None
    """What was decided about the turn before its conversational agent is asked."""


@dataclass(frozen=True)
class _Found:
    """What one transaction found: this call's share of what people wrote, and the transcript, of which a turn that has
    its briefing needs its own part alone."""

    marks: ConversationSnapshot
    step: int
    kept: Message | None = None
    taken: tuple[TurnMessage, ...] = ()
    summary: str = ""
    summary_until: int = 0
    placed: tuple[TranscriptEntry, ...] = ()
    briefing: Briefing | None = None
    previous: Briefing | None = None
    about: About = field(default_factory=About)
    overhears: bool = False


class TakingUp:
    """Args: `clock` returns seconds since 1970; for `sensitive_words` see `turn_words.staying`."""

    def __init__(
        self,
        database: Database,
        users: UserDirectory,
        budget: Budget,
        clock: Callable[[], float],
        sensitive_words: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._sensitive_words = sensitive_words
        self._users = users
        self._budget = budget
        self._clock = clock

    async def question(self, request: ThinkRequest) -> Question:
        """Take up what is unused, once for each call of the model, and return the whole of what it is asked.

        One transaction, unless Slack has to be asked for names, which nobody's messages are to wait for.
        """
        async with self._database.begin() as tx:
            found = await self._found(tx, request)
            if found.kept:
                return Question(found.marks, found.step, found.kept)
            several = _several(found.taken, found.briefing or found.previous, found.placed)
            if found.briefing and not (several and found.taken):
                return await self._asked(tx, request, found, found.briefing, {}, found.taken)
        thread, turn, step = request.thread, request.turn, found.step
        names = await self._names_of(found.taken, several=several)
        said = self._said(found.taken, names, request.agent)
        brief = found.briefing or await self._brief(request, found, said, several=several)
        async with self._database.begin() as tx:
            if await ConversationStore(tx).current_step(thread, turn, step) != step:
                raise Permanent(_OVER)
            # Read once more: somebody may have deleted a message while Slack was asked for names.
            taken = await MessageStore(tx).take_up(thread, turn, step)
            return await self._asked(tx, request, found, brief, names, taken)

    async def _asked(
        self,
        tx: Transaction,
        request: ThinkRequest,
        found: _Found,
        brief: Briefing,
        names: Mapping[str, str],
        taken: Sequence[TurnMessage],
    ) -> Question:
        """Keep what the model is asked in the transcript, and return it with what came before."""
        thread, turn, step = request.thread, request.turn, found.step
        entries = [
            *await _without_result(tx, thread, turn, found.placed),
            *([] if found.briefing else [(f"c:{turn}", brief.message())]),
            *_keyed(taken, self._said(taken, names, request.agent)),
        ]
        await TranscriptStore(tx).append(thread, turn, step, entries)
        brief = briefing.read(await TranscriptStore(tx).get(thread, f"c:{turn}")) or brief
        transcript = await TranscriptStore(tx).read(thread, since=brief.since)
        operator = request.agent is Agent.OPERATOR
        plan = await TurnStore(tx).plan(thread, turn) if operator else None
        conversation = await ConversationStore(tx).find_id(thread)
        decided = None if operator else last_round(await DecisionStore(tx).rounds(conversation, turn))
        marks = await ConversationStore(tx).snapshot(thread)
        before, current = context.parted(_entries(transcript.messages), turn)
        past, words = Past(transcript.summary, tuple(before)), tuple(message for _, message in current)
        return Question(marks, step, None, brief, past, words, tuple(taken), plan, decided)

    async def remember(self, thread: Thread, turn: int, words: str) -> None:
        """After the end of a turn: the model is to know later what it has not read, and what was said in its place.

        Args:
            words: our own last words; empty when the model had some, or nothing was said.
        """
        async with self._database.begin() as tx:
            unread = await MessageStore(tx).unread(thread, turn)
            last = await TranscriptStore(tx).get(thread, f"c:{turn}") or await TranscriptStore(tx).get(
                thread, f"c:{turn - 1}"
            )
        if not (unread or words):
            return
        names = await self._names_of(unread, several=_several(unread, briefing.read(last)))
        own = [(f"f:{turn}", Message(Role.ASSISTANT, words))] if words else []
        async with self._database.begin() as tx:
            unread = await MessageStore(tx).unread(thread, turn)  # as in `question`
            entries = _keyed(unread, self._said(unread, names))
            await TranscriptStore(tx).append(thread, turn, 0, [*entries, *own])

    async def _found(self, tx: Transaction, request: ThinkRequest) -> _Found:
        """A step in which the model was away has no reply: a run that begins the turn anew goes on behind it."""
        thread, turn = request.thread, request.turn
        step = await ConversationStore(tx).current_step(thread, turn, request.step)
        mine = await TranscriptStore(tx).entries_of(thread, turn)
        if kept := _reply(mine, request.step):
            return _Found(await ConversationStore(tx).snapshot(thread), kept.step, kept.message)
        if not step:
            raise Permanent(_OVER)
        plan = await TurnStore(tx).plan(thread, turn)
        stays = turn_words.staying(plan.route, self._sensitive_words) if plan and step > 1 else None
        taken = await MessageStore(tx).take_up(thread, turn, step, stays)
        marks = await ConversationStore(tx).snapshot(thread)
        if begun := briefing.read(await TranscriptStore(tx).get(thread, f"c:{turn}")):
            return _Found(marks, step, taken=tuple(taken), placed=mine, briefing=begun)
        transcript = await TranscriptStore(tx).read(thread)
        previous = briefing.read(await TranscriptStore(tx).get(thread, f"c:{turn - 1}"))
        return _Found(
            marks=marks,
            step=step,
            taken=tuple(taken),
            summary=transcript.summary,
            summary_until=transcript.summary_until,
            placed=transcript.messages,
            previous=previous or _last_briefing(transcript.messages),
            about=await bound_to(tx, thread),
            overhears=plan is not None and plan.route.overhears,
        )

    async def _names_of(self, taken: Sequence[TurnMessage], *, several: bool) -> dict[str, str]:
        """By id, whoever wrote it; of one who writes alone there is no need to ask."""
        return {each.author_id: await self._label(each.author_id) for each in taken} if several else {}

    def _said(
        self, taken: Sequence[TurnMessage], names: Mapping[str, str], agent: Agent = Agent.COPILOT
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
        return context.from_people(said, self._budget)

    async def _label(self, user: str) -> str:
        return name_with_id(await self._name(user), user)

    async def _name(self, user: str) -> str:
        return display_name(await self._users.get_known(user), user)

    async def _clocks(self, users: Sequence[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Time zones with the people who live by them."""
        by_zone: dict[str, list[str]] = {}
        for user in users:
            if zone := time_zone(await self._users.get_known(user)):
                by_zone.setdefault(zone, []).append(await self._label(user))
        return tuple((zone, tuple(people)) for zone, people in by_zone.items())

    async def _brief(self, request: ThinkRequest, found: _Found, fresh: list[Message], *, several: bool) -> Briefing:
        """The turn's context; it decides what of the past is sent: where no summary has made room, the end of it."""
        before, _ = context.parted(_entries(found.placed), request.turn)
        past = Past(found.summary, tuple(before))
        cut = context.cut(past, fresh, self._budget)
        if cut.older:
            key, left_out = request.thread.key, len(cut.older)
            _log.warning("history_truncated", slack_thread=key, turn=request.turn, messages_omitted=left_out)
        newest = max(reversed(found.taken), key=lambda each: each.addressed) if found.taken else None
        user = newest.author_id if newest else found.previous.user_id if found.previous else ""
        others = dict.fromkeys(each.author_id for each in found.taken if each.author_id != user)
        listed = found.previous.ids if found.previous else ()
        return Briefing(
            turn=request.turn,
            at=self._clock(),
            user_id=user,
            actor=await self._name(user) if user else "Somebody",
            request_id=newest.message_id if newest else f"{request.thread.key}:{request.turn}",
            others=tuple([await self._label(each) for each in others]),
            clocks=await self._clocks([user, *others] if user else []),
            # What came before it is among what the operator is told.
            begun_late=request.agent is Agent.COPILOT and _begun_late(request.thread, found),
            several=several,
            addressed=found.marks.addressed_due and not found.overhears,
            read_only=found.about.read_only,
            because=found.about.because,
            records=found.about.records,
            ids=references.ids([message for _, message in cut.kept], listed),
            since=max(cut.since, found.summary_until + 1),  # a deletion in mid-turn voids the summary, and only that
        )


def _entries(placed: Sequence[TranscriptEntry]) -> list[context.Placed]:
    return [(each.position, each.message) for each in placed]


def _begun_late(thread: Thread, found: _Found) -> bool:
    """Whether something was said in the thread, its root at least, before what was the first to be stored of it."""
    if found.previous:
        return found.previous.begun_late
    root = message_id(thread.team, thread.channel, thread.ts)
    stored = {f"u:{each.message_id}" for each in found.taken} | {each.key for each in found.placed}
    return f"u:{root}" not in stored


def _reply(placed: Sequence[TranscriptEntry], step: int) -> TranscriptEntry | None:
    """Of one turn: the model's reply in this step, or in the next that has one."""
    replies = (each for each in placed if each.key == f"a:{each.turn}:{each.step}" and each.step >= step)
    return min(replies, key=lambda each: each.step, default=None)


def _keyed(taken: Sequence[TurnMessage], said: Sequence[Message]) -> list[tuple[str, Message]]:
    return [(f"u:{each.message_id}", message) for each, message in zip(taken, said, strict=True)]


def _last_briefing(placed: Sequence[TranscriptEntry]) -> Briefing | None:
    return next((found for each in reversed(placed) if (found := briefing.read(each.message))), None)


def _several(taken: Sequence[TurnMessage], known: Briefing | None, placed: Sequence[TranscriptEntry] = ()) -> bool:
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
                recorded = await recorded_result(tx, Operation(thread, turn, each.step, call.id))
                unknown = ErrorCode.TOOL_EXECUTION_FAILED if call.read_only else ErrorCode.OUTCOME_UNKNOWN
                told = render_result(recorded or error_result(unknown), result_limit(len(each.message.calls)))
                found.append((f"t:{turn}:{each.step}:{call.id}", context.result(call.id, told)))
    return found


async def bound_to(tx: Transaction, thread: Thread) -> About:
    """What a thread is about, and whether anything may be changed there."""
    bound = await ThreadBindingStore(tx).of(thread)
    about = About(tuple(f"{kind} {record}" for kind, record in sorted(bound.items())))
    with contextlib.suppress(ProjectNotFound):
        project = await bound_project(tx, thread)
        if project and project.locked:
            return replace(about, read_only=True, because=f"the project {project.project_id} is locked")
    return about


def _too_long(taken: TurnMessage, agent: Agent) -> bool:
    return agent is Agent.OPERATOR and len(questions.normalise_question(taken.text)) > questions.MAX_QUESTION


def has_words(taken: TurnMessage) -> bool:
    """Whether anything is left of a message: it may have been deleted since it was taken up."""
    return taken.text != DELETED
