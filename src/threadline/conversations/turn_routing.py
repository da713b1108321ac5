"""The beginning of a turn: what people said is taken up, what is meant for the thread is done, and its way is found.

All of it is one transaction, so that a binding, the words about it and the way of the turn are there together or not at
all; asked again, the same way is found on record.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations import binding_replies as thread_words
from threadline.conversations import intent
from threadline.conversations import turn_input as turn_words
from threadline.conversations.contract import TalkTurn
from threadline.conversations.intent import IntentType
from threadline.conversations.model.conversation import ConversationSnapshot, OutcomeKind
from threadline.conversations.operator_contract import Begun, PassOn
from threadline.conversations.prompt_building import has_words
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore, TurnMessage
from threadline.conversations.store.turns import TurnStore
from threadline.conversations.think import Mind
from threadline.conversations.turn_input import Said
from threadline.db.engine import Database, Transaction
from threadline.errors import Permanent
from threadline.handovers.store import HandoverStore
from threadline.operator.model import routing
from threadline.operator.model import routing as questions
from threadline.operator.model.protocol import MAX_STEPS, ProtocolState
from threadline.operator.model.routing import Agent, Branch, LinkCommand, RouteRequest, TurnRoute, ask_for_rfp_id
from threadline.rfps import model as rfps
from threadline.rfps.model import RfpNotFound, Scope, ScopeSource, find_rfp_ids
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.threads import phrases
from threadline.threads.model import turn_id
from threadline.threads.store import ThreadBindingStore
from threadline.tools.registry import available_tools

_log = structlog.get_logger(__name__)


@dataclass
class _Obeyed:
    """What came of what was said about the thread: `bound` is its RFP by then.

    `under`: what it was bound to when each request was said. `linked`: the last link was made; `refused`: it was not.
    """

    bound: str
    notes: list[str] = field(default_factory=list)
    under: list[str] = field(default_factory=list)
    linked: bool = False
    refused: bool = False

    @property
    def scopes(self) -> list[str]:
        """The RFPs that requests are about which name none: of a thread that was bound to none, the one it got."""
        return list(dict.fromkeys(each or self.bound for each in self.under)) or [self.bound]


class Beginning:
    """Args: `mind`: its tools are told to who asks for help, by its name people mention the bot."""

    def __init__(self, database: Database, mind: Mind) -> None:
        self._database = database
        self._mind = mind
        self._bot_name = mind.bot_name

    async def begin(self, turn: TalkTurn) -> Begun:
        """See `OperatorActivities.begin_turn`."""
        thread, number = turn.thread, turn.turn
        async with self._database.begin() as tx:
            is_open = await ConversationStore(tx).current_step(thread, number, 1)  # nothing is stored meanwhile
            marks = await ConversationStore(tx).snapshot(thread)
            if not is_open:
                return Begun(marks)  # it is settled: whoever asks comes late, and is told so by its next step
            plan = await TurnStore(tx).plan(thread, number)
            route = plan.route if plan else await self._route(tx, turn, marks)
            if plan is None:
                await TurnStore(tx).begin(thread, number, route)
            marks = await ConversationStore(tx).snapshot(thread)
        _log.info("turn_started", slack_thread=thread.key, turn=number, about=route.about, ends=route.ends)
        return _begun(turn, marks, route)

    async def pass_on(self, request: PassOn) -> Begun:
        """See `OperatorActivities.pass_on`."""
        turn = TalkTurn(request.thread, request.turn)
        async with self._database.begin() as tx:
            plan = await TurnStore(tx).plan(turn.thread, turn.turn)
            if plan is None:
                raise Permanent("This turn has no route yet, so it cannot continue.")
            if plan.route.agent is Agent.OPERATOR:
                route = plan.route  # an earlier try has passed it on
            else:
                route = replace(plan.route, agent=Agent.OPERATOR, behind=request.step)
                await TurnStore(tx).reroute(turn.thread, turn.turn, route)
            return _begun(turn, await ConversationStore(tx).snapshot(turn.thread), route)

    async def _route(self, tx: Transaction, turn: TalkTurn, marks: ConversationSnapshot) -> TurnRoute:
        """Somebody who has said to stop is not asked anything; what came after that is for the next turn."""
        thread = turn.thread
        handover = await HandoverStore(tx).open_for(thread)
        if marks.stop_due:
            return TurnRoute(Agent.COPILOT, Branch.A, relays=handover is not None)
        taken = await MessageStore(tx).take_up(thread, turn.turn, 1)
        if handover and handover.taken_by:
            return TurnRoute(Agent.COPILOT, Branch.A, ends=OutcomeKind.SILENT, relays=True)
        route = await self._way(tx, turn, marks, taken)
        overhears = not marks.addressed_due and await ConversationStore(tx).has_several_people(thread)
        return replace(route, relays=handover is not None, overhears=overhears)

    async def _way(
        self, tx: Transaction, turn: TalkTurn, marks: ConversationSnapshot, taken: Sequence[TurnMessage]
    ) -> TurnRoute:
        """The way of what was taken up, where no person has the thread."""
        thread = turn.thread
        said = turn_words.said(taken, addressed=marks.addressed_due)
        bound, trouble = await _bound(tx, thread)
        done = await self._obey(tx, thread, said, bound)
        split = len(done.scopes) > 1 and not find_rfp_ids(said.words)
        if done.refused or split:
            return _told("\n".join([*done.notes, *([thread_words.left_undone()] if said.words else [])]))
        resumes = await _resumed(tx, thread, said)
        if not said.words and done.notes and not (resumes and done.linked):
            return _told("\n".join(done.notes))
        if resumes and not said.answer and not done.linked:
            return await _asked_again(tx, thread, resumes)
        pending = "\n".join(await TurnStore(tx).request_texts(thread, resumes)) if resumes else ""
        words = said.answer if resumes else said.words
        request = RouteRequest(words, thread.channel, thread.ts, pending, resumes, done.scopes[0], said.addressed)
        chosen = routing.choose_route(request)
        if said.addressed and not done.notes and _wants_help(thread, taken, marks):
            told = intent.help_text(available_tools(self._mind.registry, self._mind.services))
            return replace(_told(told), missing=chosen.missing)
        if done.linked or not said.addressed or find_rfp_ids(f"{words}\n{pending}"):
            trouble = ""  # the thread's RFP is nothing to this turn
        route = await self._checked(tx, thread, chosen, [*done.notes, trouble], done.bound)
        cut = route.branch in (Branch.C, Branch.D) and said.too_long
        notes = (*route.notes, questions.truncation_notice()) if cut else route.notes
        return replace(route, notes=notes, remembers=said.addressed and said.to_remember)

    async def _checked(
        self, tx: Transaction, thread: Thread, route: TurnRoute, notes: Sequence[str], bound: str
    ) -> TurnRoute:
        """The way with what is to be said about it; an RFP that does not exist ends the turn."""
        named = route.scope.origin is ScopeSource.MESSAGE
        before = route.scope.origin is ScopeSource.BINDING and route.scope.rfp_id != bound
        also = thread_words.asked_before(route.scope.rfp_id) if before else routing.multiple_rfps_notice(route.scope)
        told = tuple(filter(None, dict.fromkeys((*notes, also))))
        if named:
            try:
                found = await RfpStore(tx).get(thread.team, route.scope.rfp_id)
            except RfpNotFound as error:
                return replace(_told("\n".join((*told, thread_words.refused(error)))), scope=route.scope)
            route = replace(route, scope=replace(route.scope, rfp_id=found.rfp_id))
        if route.branch is Branch.C:
            return replace(route, ends=OutcomeKind.ASKED, reply=ask_for_rfp_id(self._bot_name), notes=told)
        return replace(route, notes=told)

    async def _obey(self, tx: Transaction, thread: Thread, said: Said, bound: str) -> _Obeyed:
        """Do what was said about the thread, in its order, and say so; a request counts with the RFP it then has."""
        done = _Obeyed(bound)
        for part in said.parts:
            if isinstance(part.command, LinkCommand):
                await self._link(tx, thread, part.command, part.author_id, done)
            elif part.command:
                done.notes.append(await self._where(tx, thread))
            else:
                done.under.append(done.bound)
        return done

    async def _link(self, tx: Transaction, thread: Thread, link: LinkCommand, user_id: str, done: _Obeyed) -> None:
        done.bound, done.linked, done.refused = "", False, True
        if not link.rfp_id:
            done.notes.append(thread_words.no_id(self._bot_name))
            return
        try:
            made = await RfpStore(tx).bind(thread, link.rfp_id, user_id)
        except RfpNotFound as error:
            done.notes.append(thread_words.refused(error))
            return
        done.notes.append(thread_words.bound(made))
        done.bound, done.linked, done.refused = made.rfp.rfp_id, True, False

    async def _where(self, tx: Transaction, thread: Thread) -> str:
        bound = (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING)
        if not bound:
            return thread_words.unbound(self._bot_name)
        try:
            return thread_words.where(await RfpStore(tx).get(thread.team, bound))
        except RfpNotFound as error:
            return thread_words.gone(error)


def _begun(turn: TalkTurn, marks: ConversationSnapshot, route: TurnRoute) -> Begun:
    operator = route.agent is Agent.OPERATOR
    return Begun(
        marks,
        route.agent,
        ProtocolState(scope=route.scope.rfp_id) if operator else None,
        route.ends,
        route.branch.falls_through and not operator,
        route.about,
        turn_id(turn.thread, turn.turn),
        max_turns=MAX_STEPS if operator else 0,
        behind=route.behind,
        relays=route.relays,
        overhears=route.overhears,
    )


async def _bound(tx: Transaction, thread: Thread) -> tuple[str, str]:
    """The RFP of the thread, or what is wrong with it."""
    bound = (await ThreadBindingStore(tx).of(thread)).get(rfps.BINDING, "")
    try:
        return (bound, "") if not bound else ((await RfpStore(tx).get(thread.team, bound)).rfp_id, "")
    except RfpNotFound as error:
        return "", thread_words.gone(error)


async def _resumed(tx: Transaction, thread: Thread, said: Said) -> int:
    """The turn whose question is answered here; 0 for none."""
    if not said.addressed or said.by_job or phrases.is_close(said.answer):
        return 0
    asked = (await TurnStore(tx).open_questions(thread)).get(said.user_id)
    before = await TurnStore(tx).settled(thread, asked.turn) if asked else None
    return 0 if not asked or before is None or routing.is_new_request(said.answer, before.answer) else asked.turn


async def _asked_again(tx: Transaction, thread: Thread, turn: int) -> TurnRoute:
    """Nothing was said to what the bot has asked, or nothing is left of it: the request stays open."""
    before = await TurnStore(tx).settled(thread, turn)
    reply = before.answer if before else ""
    return TurnRoute(Agent.OPERATOR, Branch.C, Scope(), ends=OutcomeKind.ASKED, reply=reply, resumes=turn)


def _wants_help(thread: Thread, taken: Sequence[TurnMessage], marks: ConversationSnapshot) -> bool:
    """Whether nothing was said to the bot that a model has to understand: a cry for help, a mention without words.

    An emoji may be the answer to what the bot has asked. One that comes without the bot's name may also be an answer to
    what it has said: nobody wants help by it.
    """
    fresh = [each for each in taken if has_words(each) and not each.edit_of]
    return bool(fresh) and not any(each.files or _is_request(thread, each, marks) for each in fresh)


def _is_request(thread: Thread, said: TurnMessage, marks: ConversationSnapshot) -> bool:
    wanted = intent.extract(said.text)
    if wanted:
        return wanted.type is not IntentType.HELP
    named = said.addressed and not thread.channel.startswith("D")  # what is written to it directly needs no name
    return bool(said.text.strip()) and (bool(marks.open_question) or not named)


def _told(reply: str) -> TurnRoute:
    """A turn that was about the thread alone."""
    return TurnRoute(Agent.COPILOT, Branch.A, Scope(), ends=OutcomeKind.TOLD, reply=reply)
