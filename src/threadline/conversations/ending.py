"""The end of a turn as a value: `decide_ending` computes it from facts, without I/O.

`finish.py` loads the facts, and writes the ending in the same transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from threadline.conversations.contract import FinishRequest
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import Execution, OutcomeKind
from threadline.conversations.model.handover import Handover
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.prompt import parse_note
from threadline.conversations.replies import closing_question
from threadline.conversations.store.turns import StoredTurn, TurnPlan, TurnUsage
from threadline.decisions.model import (
    DecisionOutcome,
    DecisionRound,
    EscalationReason,
    Judgement,
    NextStep,
    escalation,
)
from threadline.models.model import Message, Role, ToolKind
from threadline.models.prices import cost_text
from threadline.operator.enforcement import final_tool_text
from threadline.operator.memory import ToolUse
from threadline.operator.model import protocol
from threadline.operator.model.protocol import FinalText
from threadline.operator.model.routing import truncation_notice
from threadline.rfps.model import MAX_ENTRY, EntryKind
from threadline.tools.public_text import public_lines

BY_RULE = (OutcomeKind.REPLIED_BY_RULE, OutcomeKind.ASKED)
ACCOUNTS = (OutcomeKind.STOPPED, OutcomeKind.FAILED)
"""Ends whose text lists the attempted calls."""
_QUESTIONS = (OutcomeKind.ASKED, OutcomeKind.CLARIFIED)
_BY_DECISION = (OutcomeKind.CLARIFIED, OutcomeKind.ESCALATED)
_OF_PERSON = (OutcomeKind.ANSWERED, OutcomeKind.FAILED, OutcomeKind.NO_ANSWER, *_BY_DECISION)
"""Ends that are not posted while a person has the thread."""
_RESULTS = {
    OutcomeKind.ASKED: DecisionOutcome.CLARIFIED,
    OutcomeKind.CLARIFIED: DecisionOutcome.CLARIFIED,
    OutcomeKind.ESCALATED: DecisionOutcome.ESCALATED,
    OutcomeKind.STOPPED: DecisionOutcome.FAILED,
    OutcomeKind.FAILED: DecisionOutcome.FAILED,
    OutcomeKind.NO_ANSWER: DecisionOutcome.FAILED,
}


@dataclass(frozen=True)
class EndFacts:
    """The database's facts about a turn that ends.

    - `stored`: its route and its transcript;
    - `stop_due`: a stop was requested, which the workflow may not know yet;
    - `uses`: its recorded tool calls by id, loaded only if the end may list them;
    - `decided`: the last round of its decision; None if there is none, or the operator has the
      turn;
    - `handover`: the open handover of the thread;
    - `asker`: id of the last asker in the stored messages; empty if there is none;
    - `sources`: sources that its tool calls found;
    - `is_quiet`: the thread was made quiet, and the turn was not addressed to the bot;
    - `cut_message`: the operator has read one of its messages only in part.
    """

    stored: StoredTurn = field(default_factory=StoredTurn)
    stop_due: bool = False
    uses: Mapping[str, ToolUse] = field(default_factory=dict)
    decided: DecisionRound | None = None
    handover: Handover | None = None
    asker: str = ""
    sources: Sequence[str] = ()
    cut_message: bool = False
    is_quiet: bool = False

    def entry(self, key: str) -> Message | None:
        """Return the message under a key of the turn's transcript."""
        return next((each.message for each in self.stored.entries if each.key == key), None)


@dataclass(frozen=True)
class JournalEntry:
    """A text that goes into an RFP's journal before it is posted."""

    rfp_id: str
    words: str
    kind: EntryKind


@dataclass(frozen=True)
class Ending:
    """The end of a turn.

    - `answer`: the answer alone;
    - `text`: the whole post, empty for a silent end;
    - `own_words`: the answer for the transcript if no model wrote it;
    - `question`: the start of the question that the bot asks in it;
    - `escalate`: why a person takes over a turn that the bot would have answered;
    - `result`: the outcome of its decision; None if there is none;
    - `opens_handover`: the turn waits for a person from now on;
    - `waits_for_person`: this turn, and no other of the thread, waits for a person;
    - `left_to_person`: the answer is not posted, since a person has the thread;
    - `unsaid`: keys of the transcript's entries that would claim a post which does not happen.
    """

    kind: OutcomeKind
    user_id: str = ""
    answer: str = ""
    text: str = ""
    own_words: str = ""
    question: str = ""
    wants_detail: bool = False
    escalate: EscalationReason | None = None
    result: DecisionOutcome | None = None
    opens_handover: bool = False
    waits_for_person: bool = False
    left_to_person: bool = False
    unsaid: tuple[str, ...] = ()
    journal: tuple[JournalEntry, ...] = ()


@dataclass(frozen=True)
class _Words:
    """An answer, the lines after it, and whether a model wrote it."""

    answer: str = ""
    after: str = ""
    by_model: bool = False


def decide_ending(request: FinishRequest, facts: EndFacts) -> Ending:
    """Decide how a turn ends. A stop, and a person who has the thread, take precedence over the
    end that the workflow requests.
    """
    asked = request
    request = _with_unreported_calls(_unless_stopped(asked, facts), facts)
    left = _is_left_to_person(request, facts)
    if left or _is_hushed(request, facts):
        request = replace(request, kind=OutcomeKind.SILENT, text="")
    plan = facts.stored.plan
    verdict = _verdict(request, facts)
    words = _words(request, facts, verdict)
    words, journal = _journalled(request, plan, words)
    wants_detail = _wants_detail(facts)
    notes = "\n".join(_notes(plan, facts)) if words.answer and plan else ""
    result = _decision_result(request, facts, verdict, left=left)
    opens_handover = result is DecisionOutcome.ESCALATED and _passes_on(verdict)
    return Ending(
        kind=request.kind,
        user_id=_user(request, facts),
        answer=words.answer,
        text=answers.fit_answer(notes, words.answer, words.after, detail=wants_detail),
        own_words=""
        if words.by_model
        else answers.fit_answer("", words.answer, words.after, detail=wants_detail),
        question=_question(request, words.answer),
        wants_detail=wants_detail,
        escalate=request.escalate,
        result=result,
        opens_handover=opens_handover,
        waits_for_person=_waits_for_person(request, facts, opens=opens_handover),
        left_to_person=left,
        unsaid=_unsaid(asked, request, facts),
        journal=journal,
    )


def _unsaid(asked: FinishRequest, request: FinishRequest, facts: EndFacts) -> tuple[str, ...]:
    """Return the keys of a reply that a stop or a person has overtaken, and of a speaking call's
    result that a stop has overtaken.

    Args:
        asked: The end that the workflow requested.
    """
    if request.kind not in (OutcomeKind.STOPPED, OutcomeKind.SILENT):
        return ()
    replies = [each for each in facts.stored.entries if each.key.startswith(f"a:{asked.turn}:")]
    is_last_a_text = (
        bool(replies) and not replies[-1].message.calls and bool(replies[-1].message.content)
    )
    is_overtaken = request.kind is OutcomeKind.STOPPED or bool(asked.answer_step)
    unsaid = [replies[-1].key] if is_last_a_text and is_overtaken else []
    if asked.speech and not request.speech:
        unsaid.append(f"t:{asked.turn}:{asked.answer_step}:{asked.speech}")
    return tuple(unsaid)


def is_handed_over(request: FinishRequest, handover: Handover | None) -> bool:
    """Whether this turn, and no other of the thread, waits for a person."""
    return handover is not None and handover.ref.turn == request.turn


def _waits_for_person(request: FinishRequest, facts: EndFacts, *, opens: bool) -> bool:
    if facts.handover is not None:
        return is_handed_over(request, facts.handover)
    return opens


def _unless_stopped(request: FinishRequest, facts: EndFacts) -> FinishRequest:
    """Apply a stop to the requested end. After a stop the bot asks no question, no person takes
    over a failed turn, and the operator's last words are not posted. An answer by rule reports
    completed work, so it is posted; a turn that its decision escalates still goes to a person.
    """
    if not facts.stop_due:
        return request
    stopped = answers.stopped_text(())
    if request.speech:
        return replace(
            request,
            kind=OutcomeKind.STOPPED,
            text=stopped,
            speech="",
            answer_step=0,
            escalate=None,
        )
    # The text lists the calls that ran before the stop.
    if request.kind is OutcomeKind.ESCALATED and request.escalate:
        text = "\n\n".join(filter(None, (stopped, request.text)))
        return replace(request, kind=OutcomeKind.STOPPED, text=text, escalate=None)
    if request.kind in _QUESTIONS and facts.stored.plan:
        return replace(request, kind=OutcomeKind.STOPPED, text=stopped, escalate=None)
    return replace(request, escalate=None)


def _with_unreported_calls(request: FinishRequest, facts: EndFacts) -> FinishRequest:
    """Add the calls whose results the workflow does not have to a text that lists calls."""
    if request.kind not in ACCOUNTS:
        return request
    untold = [
        Execution(call_id, use.tool, use.status, kind=use.kind)
        for call_id, use in facts.uses.items()
        if call_id not in request.listed_calls and use.kind is not ToolKind.SPEAK
    ]
    return replace(request, text=answers.tell_also(request.text, untold))


def _is_left_to_person(request: FinishRequest, facts: EndFacts) -> bool:
    """Whether the answer is left to a person who has taken the thread over since the turn began,
    and so was shown its messages. A turn that changed something posts its answer all the same.
    """
    if request.kind not in _OF_PERSON or request.changed_something or facts.handover is None:
        return False
    return bool(facts.handover.taken_by) and facts.handover.ref.turn != request.turn


def _is_hushed(request: FinishRequest, facts: EndFacts) -> bool:
    """Whether the turn ends silently, since the thread became quiet while it ran. A turn that
    changed something posts its answer all the same.
    """
    return facts.is_quiet and request.kind in _OF_PERSON and not request.changed_something


def _verdict(request: FinishRequest, facts: EndFacts) -> Judgement | None:
    """Return the final judgement: an escalation of the turn replaces that of its decision."""
    before = facts.decided.judgement if facts.decided else None
    if request.escalate:
        return escalation(before.confidence if before else 0.0, request.escalate)
    return before


def _passes_on(verdict: Judgement | None) -> bool:
    return verdict is not None and verdict.next_step is NextStep.ESCALATE


def _words(request: FinishRequest, facts: EndFacts, verdict: Judgement | None) -> _Words:
    plan = facts.stored.plan
    if request.kind is OutcomeKind.SILENT:
        return _Words()
    if request.kind in _BY_DECISION:
        return _Words(answers.decision_text(request.kind, facts.decided, verdict), request.text)
    if plan and is_by_rule(request):
        return _Words(plan.route.reply)
    own = public_lines(request.text, answers.GENERIC_FAILURE)
    reply = facts.entry(f"a:{request.turn}:{request.answer_step}")
    if reply and request.speech:
        spoken = next(
            (final_tool_text(each.arguments) for each in reply.calls if each.id == request.speech),
            "",
        )
        return _Words(spoken or own, by_model=bool(spoken))
    if request.kind in ACCOUNTS:
        return _Words(reply.content if reply else own, by_model=reply is not None)
    notice = answers.escalation_text(verdict.reason) if verdict and _passes_on(verdict) else ""
    if reply is None:
        return _Words(own, notice)
    by_operator = plan is not None and plan.route.agent is Agent.OPERATOR
    passages = facts.decided.sources if facts.decided and not by_operator else ()
    sources = answers.list_sources(reply.content, passages, facts.sources)
    return _Words(reply.content, "\n\n".join(filter(None, (sources, notice))), by_model=True)


def is_by_rule(request: FinishRequest) -> bool:
    """Whether a rule has produced the answer or the question."""
    return request.kind in BY_RULE and not request.speech


def _journalled(
    request: FinishRequest, plan: TurnPlan | None, words: _Words
) -> tuple[_Words, tuple[JournalEntry, ...]]:
    """Return the operator's last words after a list of failed changes, and their journal entries.
    A turn that has written to the journal itself gets none.
    """
    state = request.protocol
    if state is None or (plan and is_by_rule(request)) or not words.answer:
        return words, ()
    if request.kind is OutcomeKind.STOPPED and state.only_reads:
        return words, ()
    final = protocol.final_text_rule(state)
    with_failures = final.text is FinalText.WITH_FAILURES
    if with_failures and request.kind not in ACCOUNTS and request.failures:
        words = replace(words, answer=f"{request.failures}\n\n{words.answer}".strip())
    failed = (
        with_failures and request.kind is not OutcomeKind.PROPOSED
    )  # a proposal beside failed changes is no failure
    told = "\n\n".join(filter(None, (words.answer, words.after)))
    if final.checked:
        kind = EntryKind.FAILED if failed else EntryKind.SAID
    elif failed and request.failures:
        # If a turn has not loaded its RFP, only its failures are facts.
        kind = EntryKind.FAILED
        told = request.failures
    else:
        kind = EntryKind.UNCHECKED
    return words, tuple(JournalEntry(each, told[:MAX_ENTRY], kind) for each in final.journal_in)


def _notes(plan: TurnPlan | None, facts: EndFacts) -> Sequence[str]:
    """Return the lines before an answer."""
    notes = list(plan.route.notes) if plan else []
    if facts.cut_message:
        notes.append(truncation_notice())
    return tuple(dict.fromkeys(notes))


def _wants_detail(facts: EndFacts) -> bool:
    """Whether a message of this turn asks for a long answer."""
    said = (each.message for each in facts.stored.entries if each.message.role is Role.USER)
    return any(answers.wants_detail(each.content) for each in said)


def _question(request: FinishRequest, answer: str) -> str:
    if request.kind in _QUESTIONS:
        return " ".join(answer.split())
    return closing_question(answer) if request.kind is OutcomeKind.ANSWERED else ""


def _user(request: FinishRequest, facts: EndFacts) -> str:
    note = parse_note(facts.entry(f"c:{request.turn}"))
    return note.user_id if note else facts.asker


def _decision_result(
    request: FinishRequest, facts: EndFacts, verdict: Judgement | None, *, left: bool
) -> DecisionOutcome | None:
    if facts.decided is None and not request.escalate:
        return None
    if left:
        return DecisionOutcome.TAKEN_OVER
    result = _RESULTS.get(request.kind, DecisionOutcome.ANSWERED)
    if result is not DecisionOutcome.FAILED and _passes_on(verdict):
        return DecisionOutcome.ESCALATED
    return result


def turn_figures(
    request: FinishRequest, kind: OutcomeKind, plan: TurnPlan, spent: TurnUsage, *, answered: bool
) -> dict[str, Any]:
    """Return the turn's result in figures, as stored and logged."""
    return {
        "kind": kind.value,
        "did_post": answered,
        "agent": plan.route.agent.value,
        "branch": plan.route.branch.value,
        "scope": plan.route.scope.rfp_id,
        "steps": request.model_calls,
        "tools": list(spent.tools),
        "tokens": spent.tokens,
        "cost_usd": spent.cost_usd,
        "seconds": round(spent.seconds, 3),
        "correlation_id": request.key,
        "protocol": asdict(request.protocol) if request.protocol else None,
    }


def turn_summary(
    request: FinishRequest, kind: OutcomeKind, plan: TurnPlan, spent: TurnUsage
) -> str:
    """Return the turn's result for Temporal's UI. It contains no user text."""
    took = f"{spent.model_calls} model calls, {len(spent.tools)} tools, {spent.tokens:,} tokens"
    cost = f"{cost_text(spent.cost_usd)}, {spent.seconds:.1f} s"
    return f"turn {request.turn}: {kind}, {plan.route.summary}; {took}, {cost}"
