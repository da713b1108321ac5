"""The beginning of a turn: what people said is taken up, what is meant for the thread is done, and its way is found.

All of it is one transaction, so that a binding, the words about it and the way of the turn are there together or not at
all; asked again, the same way is found on record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import structlog

from threadline.activities import thread_words
from threadline.activities.taking_up import has_words
from threadline.contracts.conversation import TalkTurn
from threadline.contracts.operator import Begun, PassOn
from threadline.db.conversation_reading import TakenUp
from threadline.db.engine import Database
from threadline.db.work import Work
from threadline.domain import addressing, questions, rfps, routing
from threadline.domain.addressing import Thread
from threadline.domain.conversation import ConversationMarks
from threadline.domain.dialogue import OutcomeKind
from threadline.domain.errors import Permanent
from threadline.domain.linking import Link, ThreadCommand, thread_command
from threadline.domain.protocol import MAX_STEPS, ProtocolState
from threadline.domain.rfp_ids import Origin, Scope
from threadline.domain.rfps import RfpNotFound
from threadline.domain.routing import Agent, Request, Route
from threadline.domain.scope import Branch, which_rfp

_LONGEST_CHAIN = 5
"""Answers that go on with one request at most; what came before is in the dialogue all the same."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class _Said:
    """What a turn begins with: the `words` are a request's, `commands` are about the thread. `user_id`: who asks."""

    words: str
    commands: tuple[ThreadCommand, ...]
    user_id: str
    addressed: bool
    too_long: bool = False


class Beginning:
    """Args: `bot_name`: by which people mention the bot, without the `@`."""

    def __init__(self, database: Database, bot_name: str) -> None:
        self._database = database
        self._bot_name = bot_name

    async def begin(self, turn: TalkTurn) -> Begun:
        """See `OperatorActivities.begin_turn`."""
        thread, number = turn.thread, turn.turn
        async with self._database.begin() as work:
            marks = await work.conversations.marks(thread)
            if not await work.conversations.open_step(thread, number, 1):
                return Begun(marks)  # it is settled: whoever asks comes late, and is told so by its next step
            plan = await work.turn_plans.of(thread, number)
            route = plan.route if plan else await self._route(work, turn, addressed=marks.addressed_due)
            if plan is None:
                await work.turn_plans.keep(thread, number, route)
            marks = await work.conversations.marks(thread)
        _log.info("turn_begun", slack_thread=thread.key, turn=number, about=route.about, ends=route.ends)
        return _begun(turn, marks, route)

    async def pass_on(self, request: PassOn) -> Begun:
        """See `OperatorActivities.pass_on`."""
        turn = TalkTurn(request.thread, request.turn)
        async with self._database.begin() as work:
            plan = await work.turn_plans.of(turn.thread, turn.turn)
            if plan is None:
                raise Permanent("This turn has no way yet, so nobody can go on with it.")
            if plan.route.agent is Agent.OPERATOR:
                route = plan.route  # an earlier try has passed it on
            else:
                route = replace(plan.route, agent=Agent.OPERATOR, behind=request.step)
                await work.turn_plans.reroute(turn.thread, turn.turn, route)
            return _begun(turn, await work.conversations.marks(turn.thread), route)

    async def _route(self, work: Work, turn: TalkTurn, *, addressed: bool) -> Route:
        thread = turn.thread
        said = _said(await work.conversations.take_up(thread, turn.turn, 1), addressed=addressed)
        notes = [await self._obey(work, thread, each, said.user_id) for each in said.commands]
        resumes = await work.turn_plans.awaiting(thread, said.user_id) if said.addressed else 0
        if not said.words and notes and not resumes:
            return _told("\n".join(notes))
        if resumes and routing.carries_request(said.words):
            resumes = 0
        pending = await _pending(work, thread, resumes) if resumes else ""
        bound, trouble = await _bound(work, thread)
        request = Request(said.words, thread.channel, thread.ts, pending, resumes, bound, said.addressed)
        route = await self._checked(work, thread, routing.routed(request), [*notes, trouble])
        cut = route.branch is Branch.D and said.too_long
        return replace(route, notes=(*route.notes, questions.cut_note())) if cut else route

    async def _checked(self, work: Work, thread: Thread, route: Route, notes: Sequence[str]) -> Route:
        """The way with what is to be said about it; an RFP that does not exist ends the turn."""
        told = tuple(filter(None, (*notes, routing.first_counts(route.scope))))
        if route.scope.origin is Origin.MESSAGE:
            try:
                found = await work.rfps.get(thread.team, route.scope.rfp_id)
            except RfpNotFound as error:
                return replace(_told("\n".join((*told, thread_words.refused(error)))), scope=route.scope)
            route = replace(route, scope=replace(route.scope, rfp_id=found.rfp_id))
        if route.branch is Branch.C:
            return replace(route, ends=OutcomeKind.ASKED, reply=which_rfp(self._bot_name), notes=told)
        return replace(route, notes=told)

    async def _obey(self, work: Work, thread: Thread, command: ThreadCommand, user_id: str) -> str:
        """Do what was said about the thread, and say so."""
        if isinstance(command, Link):
            if not command.rfp_id:
                return thread_words.no_id(self._bot_name)
            try:
                return thread_words.bound(await work.bindings.bind_rfp(thread, command.rfp_id, user_id))
            except RfpNotFound as error:
                return thread_words.refused(error)
        bound = (await work.bindings.of(thread)).get(rfps.BINDING)
        if not bound:
            return thread_words.unbound(self._bot_name)
        try:
            return thread_words.where(await work.rfps.get(thread.team, bound))
        except RfpNotFound as error:
            return thread_words.gone(error)


def _begun(turn: TalkTurn, marks: ConversationMarks, route: Route) -> Begun:
    operator = route.agent is Agent.OPERATOR
    return Begun(
        marks,
        route.agent,
        ProtocolState(scope=route.scope.rfp_id) if operator else None,
        route.ends,
        route.branch.falls_through and not operator,
        route.about,
        addressing.turn_id(turn.thread, turn.turn),
        max_turns=MAX_STEPS if operator else 0,
        behind=route.behind,
    )


def _said(taken: Sequence[TakenUp], *, addressed: bool) -> _Said:
    newest = max(reversed(taken), key=lambda each: each.addressed) if taken else None
    words: list[str] = []
    commands: list[ThreadCommand] = []
    for each in filter(has_words, taken):
        command = thread_command(questions.normalised(each.text)) if addressed and not each.files else None
        if command:
            commands.append(command)
        else:
            words += [each.text, *(file.name for file in each.files)]
    text, user = "\n".join(words).strip(), newest.author_id if newest else ""
    too_long = any(len(questions.normalised(each)) > questions.LONGEST for each in words)
    return _Said(text, tuple(commands), user, addressed, too_long)


async def _pending(work: Work, thread: Thread, turn: int) -> str:
    """The request that is to be gone on with: what was said in the turn that asked, and in those before it."""
    texts: list[str] = []
    for _ in range(_LONGEST_CHAIN):
        texts = [*await work.turn_plans.said_in(thread, turn), *texts]
        plan = await work.turn_plans.of(thread, turn)
        if plan is None or not plan.route.resumes:
            break
        turn = plan.route.resumes
    return "\n".join(texts)


async def _bound(work: Work, thread: Thread) -> tuple[str, str]:
    """The RFP of the thread, or what is wrong with it."""
    bound = (await work.bindings.of(thread)).get(rfps.BINDING, "")
    try:
        return (bound, "") if not bound else ((await work.rfps.get(thread.team, bound)).rfp_id, "")
    except RfpNotFound as error:
        return "", thread_words.gone(error)


def _told(reply: str) -> Route:
    """A turn that was about the thread alone."""
    return Route(Agent.COPILOT, Branch.A, Scope(), ends=OutcomeKind.TOLD, reply=reply)
