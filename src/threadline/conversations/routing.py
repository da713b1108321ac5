"""The beginning of a turn: take up the messages, run the commands about the thread, choose the
route.

All of it is one transaction, so that a binding, the text about it and the route are stored
together or not at all. A repeated call finds the recorded route.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import structlog

from threadline.conversations.contract import BegunTurn, PassToOperator
from threadline.conversations.deps import ConversationDeps
from threadline.conversations.help import Help, asked_by, build_help, is_example
from threadline.conversations.model.conversation import (
    ConversationSnapshot,
    ConversationTurn,
    OutcomeKind,
)
from threadline.conversations.model.listening import Listen
from threadline.conversations.model.quiet import AWAKE_TEXT, parse_quiet_order, quiet_text
from threadline.conversations.model.turn_route import Agent, Branch, TurnRoute, choose_route
from threadline.conversations.replies import IntentType, extract_intent
from threadline.conversations.store.conversation import Conversation, ConversationStore
from threadline.conversations.store.handovers import HandoverStore
from threadline.conversations.store.messages import MessageStore, TurnMessage
from threadline.conversations.store.transcript import DELETED
from threadline.conversations.store.turns import TurnStore
from threadline.db.engine import Transaction
from threadline.decisions.model import sensitive_topics
from threadline.errors import Permanent
from threadline.jobs.model import is_job_question
from threadline.operator.memory import fact_to_remember
from threadline.operator.model.protocol import MAX_STEPS, ProtocolState
from threadline.operator.model.routing import (
    LinkCommand,
    ThreadCommand,
    ask_for_rfp_id,
    is_new_request,
    multiple_rfps_notice,
    normalise_question,
    parse_thread_command,
    truncate_question,
    truncation_notice,
)
from threadline.rfps.model import Rfp, RfpNotFound, Scope, ScopeSource, find_rfp_ids
from threadline.rfps.store import RfpStore
from threadline.slack.model import Thread
from threadline.slack.text import mentions_in
from threadline.slack.users import display_name
from threadline.threads import phrases
from threadline.threads.model import turn_id
from threadline.tools.registry import available_tools
from threadline.tools.roles import RecordKind, RoleDirectory

_LEFT_UNDONE = "I did nothing else that you asked for. Please write the rest again."
FORWARDED_ONLY = "(something was forwarded without a comment)"
"""Words of such a message for the rules, which do not read forwarded messages."""
_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class InputPart:
    """A message: its words in a request, or its command about the thread."""

    author_id: str
    words: str = ""
    command: ThreadCommand | None = None
    cut: bool = False
    """Whether the words were truncated; no rule reads the rest."""


@dataclass(frozen=True)
class RoutingInput:
    """The messages with which a turn begins, in order. `user_id`: the asker. `by_job`: a job asks
    in that user's name, and no person does.
    """

    parts: tuple[InputPart, ...]
    user_id: str
    addressed: bool
    by_job: bool = False

    @property
    def words(self) -> str:
        return "\n".join(each.words for each in self.parts if each.words)

    @property
    def answer(self) -> str:
        """The words of the asker alone."""
        return "\n".join(
            each.words for each in self.parts if each.words and each.author_id == self.user_id
        )


@dataclass
class CommandResult:
    """The result of the commands about a thread.

    - `bound`: the thread's RFP after them;
    - `under`: the thread's RFP at the time of each request;
    - `linked`: whether the last link was made; None if there was none.
    """

    bound: str
    notes: list[str] = field(default_factory=list)
    under: list[str] = field(default_factory=list)
    linked: bool | None = None

    @property
    def scopes(self) -> list[str]:
        """The RFPs of the requests that name none. A request in an unbound thread counts for the
        RFP that the thread was bound to later.
        """
        return list(dict.fromkeys(each or self.bound for each in self.under)) or [self.bound]


async def begin_turn(deps: ConversationDeps, tx: Transaction, turn: ConversationTurn) -> BegunTurn:
    thread = turn.thread
    number = turn.turn
    # This locks the conversation, so that no message is stored meanwhile.
    is_open = await ConversationStore(tx).current_step(thread, number, 1)
    snapshot = await ConversationStore(tx).snapshot(thread)
    plan = await TurnStore(tx).plan(thread, number)
    if not is_open:
        # The turn is settled: this call comes too late, and its next step says so.
        return BegunTurn(snapshot)
    if plan:
        route = plan.route
    else:
        handover = await HandoverStore(tx).open_for(thread)
        person = handover.taken_by if handover else None
        route, snapshot = await _choose_route(deps, tx, turn, snapshot, person)
        await TurnStore(tx).begin(thread, number, route)
    _log.info(
        "turn_started", slack_thread=thread.key, turn=number, route=route.summary, ends=route.ends
    )
    return _begun(turn, snapshot, route)


async def pass_to_operator(deps: ConversationDeps, request: PassToOperator) -> BegunTurn:
    async with deps.database.begin() as tx:
        plan = await TurnStore(tx).plan(request.thread, request.turn)
        if plan is None:
            raise Permanent("This turn has no route yet, so it cannot continue.")
        if plan.route.agent is Agent.OPERATOR:
            route = plan.route  # an earlier attempt has passed it on
        else:
            route = replace(plan.route, agent=Agent.OPERATOR, prior_steps=request.step)
            await TurnStore(tx).reroute(request.thread, request.turn, route)
        return _begun(request, await ConversationStore(tx).snapshot(request.thread), route)


async def _choose_route(
    deps: ConversationDeps,
    tx: Transaction,
    turn: ConversationTurn,
    snapshot: ConversationSnapshot,
    person: str | None,
) -> tuple[TurnRoute, ConversationSnapshot]:
    """Return the route, and the snapshot after it. After a stop the bot asks no question, and
    later messages are left to the next turn.

    Args:
        person: The person who has the open handover; empty while it is not taken, None without
            one.
    """
    thread = turn.thread
    if snapshot.stop_due:
        return TurnRoute(Agent.ASSISTANT, Branch.A, relays_to_person=person is not None), snapshot
    taken, snapshot = await MessageStore(tx).take_up(thread, turn.turn, 1)
    row = await ConversationStore(tx).lock(thread)
    if person or (person is not None and _is_silent(deps, row, taken)):
        return TurnRoute(
            Agent.ASSISTANT, Branch.A, ends=OutcomeKind.SILENT, relays_to_person=True
        ), snapshot
    orders = [each for each in taken if _is_quiet_order(row, each)]
    requests = [each for each in taken if not (each in orders or each.only_stored)]
    quiet = _quiet_notes(row, orders)
    if quiet and not any(has_content(each) and each.addressed for each in requests):
        return replace(_reply_by_rule(quiet), relays_to_person=person is not None), snapshot
    route = await _route_by_rules(deps, tx, turn, snapshot, requests)
    asked = await _asked_by_button(deps, taken)
    # If several people write, a message without a mention of the bot is not for it.
    not_addressed = not snapshot.addressed_due and row.has_several_people
    return replace(
        route,
        notes=(*filter(None, (quiet,)), *asked, *route.notes),
        relays_to_person=person is not None,
        not_addressed=not_addressed,
    ), snapshot


def _is_silent(deps: ConversationDeps, row: Conversation, taken: Sequence[TurnMessage]) -> bool:
    """Return whether the bot only shows these messages to the person who was asked to take over:
    the channel or the quiet of the thread demands a mention, and none of them has one.
    """
    needs_mention = (
        deps.listening.of(row.channel) is Listen.MENTIONED or float(row.quiet_until) > deps.clock()
    )
    return needs_mention and not any(each.addressed for each in taken)


def _is_quiet_order(row: Conversation, said: TurnMessage) -> bool:
    """Return whether a message made the thread quiet or ended that, or was replaced by a later
    such message. One that changed nothing is a request.
    """
    has_changed = said.said_at <= float(row.quiet_changed_at)
    has_words_only = not (said.files or said.forwarded)
    return (
        said.addressed
        and has_words_only
        and has_changed
        and (parse_quiet_order(said.text) is not None)
    )


def _quiet_notes(row: Conversation, orders: Sequence[TurnMessage]) -> str:
    """Return the reply to orders about the quiet of the thread; empty without one."""
    if not orders:
        return ""
    return quiet_text(float(row.quiet_until)) if row.quiet_until else AWAKE_TEXT


async def _route_by_rules(
    deps: ConversationDeps,
    tx: Transaction,
    turn: ConversationTurn,
    snapshot: ConversationSnapshot,
    taken: Sequence[TurnMessage],
) -> TurnRoute:
    thread = turn.thread
    said = read_input(taken, addressed=snapshot.addressed_due)
    hidden = await deps.hidden_from({each.author_id for each in taken} - {""}, thread.channel)
    if RecordKind.RFPS in hidden and (
        any(each.command for each in said.parts) or find_rfp_ids(said.words)
    ):
        return _reply_by_rule(
            deps.services[RoleDirectory].roles.refusal([RecordKind.RFPS], (), to_change=False)
        )
    bound, trouble = await _bound(tx, thread)
    done = await _run_thread_commands(deps, tx, thread, said, bound)
    split = len(done.scopes) > 1 and not find_rfp_ids(said.words)
    if done.linked is False or split:
        # The RFP of a request beside the command is unknown.
        return _reply_by_rule("\n".join([*done.notes, *([_LEFT_UNDONE] if said.words else [])]))
    resumes, question = await _resumed(tx, thread, said)
    if not said.words and done.notes and not (resumes and done.linked):
        return _reply_by_rule("\n".join(done.notes))
    if resumes and not said.answer and not done.linked:
        # The bot's question has no answer, or the answer was deleted: the request stays open.
        return TurnRoute(
            Agent.OPERATOR, Branch.C, ends=OutcomeKind.ASKED, reply=question, resumes_turn=resumes
        )
    pending = "\n".join(await TurnStore(tx).request_texts(thread, resumes)) if resumes else ""
    words = said.answer if resumes else said.words
    chosen = TurnRoute(Agent.ASSISTANT, Branch.A)  # overheard: the agent may be silent about it
    if said.addressed:
        chosen = choose_route(words, pending=pending, resumes_turn=resumes, bound=done.scopes[0])
    if said.addressed and not done.notes and _wants_help(thread, taken, snapshot):
        shown = _help(deps, thread, taken, hidden)
        return replace(
            _reply_by_rule(shown.text),
            missing=chosen.missing,
            is_help=True,
            examples=shown.examples,
        )
    if done.linked or not said.addressed or find_rfp_ids(f"{words}\n{pending}"):
        trouble = ""  # the thread's RFP does not matter to this turn
    route = await _checked(deps, tx, thread, chosen, [*done.notes, trouble], done.bound)
    cut = route.branch in (Branch.C, Branch.D) and any(each.cut for each in said.parts)
    notes = (*route.notes, truncation_notice()) if cut else route.notes
    has_fact_to_remember = said.addressed and any(
        fact_to_remember(each.words) for each in said.parts
    )
    return replace(route, notes=notes, has_fact_to_remember=has_fact_to_remember)


async def _checked(
    deps: ConversationDeps,
    tx: Transaction,
    thread: Thread,
    route: TurnRoute,
    notes: Sequence[str],
    bound: str,
) -> TurnRoute:
    """Return the route with its notes; an RFP that does not exist ends the turn."""
    named = route.scope.origin is ScopeSource.MESSAGE
    before = route.scope.origin is ScopeSource.BINDING and route.scope.rfp_id != bound
    also = (
        f"Your earlier request is about `{route.scope.rfp_id}`."
        if before
        else multiple_rfps_notice(route.scope)
    )
    told = tuple(filter(None, dict.fromkeys((*notes, also))))
    if named:
        try:
            found = await RfpStore(tx).get(thread.team, route.scope.rfp_id)
        except RfpNotFound as error:
            return replace(
                _reply_by_rule("\n".join((*told, unknown_rfp_text(error)))), scope=route.scope
            )
        route = replace(route, scope=replace(route.scope, rfp_id=found.rfp_id))
    if route.branch is Branch.C:
        return replace(
            route, ends=OutcomeKind.ASKED, reply=ask_for_rfp_id(deps.bot_name), notes=told
        )
    return replace(route, notes=told)


async def _run_thread_commands(
    deps: ConversationDeps, tx: Transaction, thread: Thread, said: RoutingInput, bound: Rfp | None
) -> CommandResult:
    """Run the commands about the thread in order, and note their results. A request counts for the
    RFP that the thread has at its place.
    """
    done = CommandResult(bound.rfp_id if bound else "")
    for part in said.parts:
        if isinstance(part.command, LinkCommand):
            done.bound = ""
            done.linked = False
            if not part.command.rfp_id:
                how = f"Write it like this: `@{deps.bot_name} link rfp_abc123`"
                done.notes.append(f"That is not an RFP id, so nothing was bound. {how}")
                continue
            try:
                rfp, before = await RfpStore(tx).bind(thread, part.command.rfp_id, part.author_id)
            except RfpNotFound as error:
                done.notes.append(unknown_rfp_text(error))
                continue
            done.notes.append(bound_text(rfp, before))
            done.bound = rfp.rfp_id
            done.linked = True
        elif part.command:
            now, trouble = await _bound(tx, thread)
            unbound = (
                f"This thread is not bound to an RFP. Bind it with: `@{deps.bot_name} link "
                "rfp_...`"
            )
            done.notes.append(binding_text(now) if now else trouble or unbound)
        else:
            done.under.append(done.bound)
    return done


def _begun(turn: ConversationTurn, snapshot: ConversationSnapshot, route: TurnRoute) -> BegunTurn:
    operator = route.agent is Agent.OPERATOR
    return BegunTurn(
        snapshot,
        route.agent,
        ProtocolState(scope=route.scope.rfp_id) if operator else None,
        route.ends,
        route.branch.falls_through and not operator,
        route.summary,
        turn_id(turn.thread, turn.turn),
        max_steps=MAX_STEPS if operator else 0,
        prior_steps=route.prior_steps,
        relays_to_person=route.relays_to_person,
        not_addressed=route.not_addressed,
    )


async def _bound(tx: Transaction, thread: Thread) -> tuple[Rfp | None, str]:
    """Return the RFP of the thread, or the problem with it."""
    try:
        return await RfpStore(tx).of_thread(thread), ""
    except RfpNotFound as error:
        words = str(error).split(";")[0]
        return (
            None,
            (
                f"This thread is bound to an RFP that no longer exists: {words}. Bind it to "
                "another one."
            ),
        )


async def _resumed(tx: Transaction, thread: Thread, said: RoutingInput) -> tuple[int, str]:
    """Return the turn whose question is answered here, and its question; 0 if there is none."""
    if not said.addressed or said.by_job or phrases.is_close(said.answer):
        return 0, ""
    asked = (await TurnStore(tx).open_questions(thread)).get(said.user_id)
    before = await TurnStore(tx).settled(thread, asked.turn) if asked else None
    if not asked or before is None or is_new_request(said.answer, before.answer):
        return 0, ""
    return asked.turn, before.answer


def _wants_help(
    thread: Thread, taken: Sequence[TurnMessage], snapshot: ConversationSnapshot
) -> bool:
    """Whether no message to the bot needs a model: a cry for help, a greeting, a lone mention. An
    emoji may answer the bot's question, and an emoji without the bot's name may comment on its
    last message: neither wants help.
    """

    def is_request(said: TurnMessage) -> bool:
        greets = phrases.is_greeting(said.text)
        wanted = extract_intent(said.text)
        if wanted and not greets:
            return wanted.type is not IntentType.HELP
        named = said.addressed and (
            greets or not thread.channel.startswith("D")
        )  # a direct message needs no name
        return bool(said.text.strip()) and (bool(snapshot.open_question) or not named)

    fresh = [each for each in taken if has_content(each) and not each.edit_of]
    return bool(fresh) and not any(
        each.files or each.forwarded or is_request(each) for each in fresh
    )


def _help(
    deps: ConversationDeps,
    thread: Thread,
    taken: Sequence[TurnMessage],
    hidden: frozenset[RecordKind],
) -> Help:
    """Return the help for the people who ask. It leaves out the tools whose records are hidden
    from them, and greets them unless they asked for help in words.
    """
    wanted = [extract_intent(each.text) for each in taken]
    offered = available_tools(deps.registry, deps.services)
    return build_help(
        thread.channel,
        {each.toolset for each in offered if hidden.isdisjoint(each.records)},
        deps.case_channels,
        greets=not any(each and each.type is IntentType.HELP for each in wanted),
        has_model=deps.model is not None,
    )


async def _asked_by_button(
    deps: ConversationDeps, taken: Sequence[TurnMessage]
) -> tuple[str, ...]:
    """Return a line for each request that a person made by a button: Slack shows no message of
    theirs.
    """
    lines = list[str]()
    for each in taken:
        if is_example(each.message_id):
            user = await deps.users.get_known(each.author_id)
            lines.append(asked_by(display_name(user, each.author_id), each.text))
    return tuple(lines)


def _reply_by_rule(reply: str) -> TurnRoute:
    return TurnRoute(
        Agent.ASSISTANT, Branch.A, Scope(), ends=OutcomeKind.REPLIED_BY_RULE, reply=reply
    )


def read_input(taken: Sequence[TurnMessage], *, addressed: bool) -> RoutingInput:
    """Return the input of the rules.

    An edit does not count a second time. Messages to the bot count, and so do other messages of
    their authors without a mention; conversations between other people are left to the model. A
    job's request counts if no person writes, and is never about the thread itself.
    """
    fresh = [each for each in taken if not each.edit_of]
    people = [each for each in fresh if not is_job_question(each.message_id)]
    by_job = bool(fresh) and not people
    talk = people or fresh
    newest = max(reversed(talk), key=lambda each: each.addressed) if talk else None
    user = newest.author_id if newest else ""
    askers = {each.author_id for each in talk if each.addressed} or {user}
    parts: list[InputPart] = []
    for each in talk:
        counts = (
            not addressed
            or each.addressed
            or (each.author_id in askers and not mentions_in(each.text))
        )
        if has_content(each) and counts:
            command = _command(each) if addressed and not by_job else None
            words = (
                ""
                if command
                else "\n".join([each.text, *(file.name for file in each.files)]).strip()
            )
            words = words or (FORWARDED_ONLY if each.forwarded and not command else "")
            whole = normalise_question(words)
            kept = truncate_question(whole)
            parts.append(InputPart(each.author_id, kept, command, cut=kept != whole))
    return RoutingInput(tuple(parts), user, addressed, by_job)


def waits_for_next_turn(
    route: TurnRoute, sensitive_words: Sequence[str] = ()
) -> Callable[[TurnMessage], bool]:
    """Return the rule for messages that a running turn leaves to the next one, whose routing sees
    them:

    - commands about the thread itself, and orders to be quiet;
    - examples that were asked by a button, since the answer names the person;
    - for the operator, messages about another RFP than that of the turn;
    - for the assistant, messages that need a separate decision: on a sensitive topic, or addressed
      to the bot in a turn that only overhears.
    """
    scope = route.scope.rfp_id if route.agent is Agent.OPERATOR else ""

    def stays(taken: TurnMessage) -> bool:
        is_command = _command(taken) is not None and not is_job_question(taken.message_id)
        is_order = taken.addressed and parse_quiet_order(taken.text) is not None
        if is_command or is_order or is_example(taken.message_id):
            return True
        if route.agent is Agent.ASSISTANT and (
            (route.not_addressed and taken.addressed)
            or sensitive_topics(taken.text, sensitive_words)
        ):
            return True
        return bool(scope) and find_rfp_ids(taken.text)[:1] not in ((), (scope,))

    return stays


def has_content(taken: TurnMessage) -> bool:
    """Whether a message still has content: it may have been deleted since it was taken up."""
    return taken.text != DELETED


def _command(taken: TurnMessage) -> ThreadCommand | None:
    return None if taken.files else parse_thread_command(normalise_question(taken.text))


def bound_text(rfp: Rfp, before: str | None) -> str:
    """Return the confirmation of a binding, with the one that it replaced."""
    named = _rfp_name(rfp)
    if before == rfp.rfp_id:
        return f"This thread is already bound to {named}."
    was = f" It was bound to `{before}` before." if before else ""
    return f"This thread is now bound to {named}.{was}"


def binding_text(rfp: Rfp) -> str:
    due = f", due {rfp.due_date:%Y-%m-%d}" if rfp.due_date else ""
    return f"This thread is bound to {_rfp_name(rfp)}: {rfp.status.replace('_', ' ')}{due}."


def unknown_rfp_text(error: RfpNotFound) -> str:
    """Return the reply about an RFP that does not exist; the error names the nearest ids."""
    words = str(error)
    return f"{words[:1].upper()}{words[1:]}{'' if words.endswith('?') else '.'} Nothing was done."


def _rfp_name(rfp: Rfp) -> str:
    client = f" for {rfp.client}" if rfp.client else ""
    return f"`{rfp.rfp_id}` ({rfp.title}{client})"
