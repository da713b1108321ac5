"""The end of a turn follows from its facts alone."""

from dataclasses import replace
from typing import Any

import pytest

from threadline.conversations.contract import FinishRequest
from threadline.conversations.ending import EndFacts, Ending, decide_ending
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import ConversationTurn, OutcomeKind
from threadline.conversations.model.handover import Handover
from threadline.conversations.model.turn_route import Agent, Branch, TurnRoute
from threadline.conversations.store.transcript import TranscriptEntry
from threadline.conversations.store.turns import StoredTurn, TurnPlan
from threadline.decisions.model import (
    Decision,
    DecisionOutcome,
    DecisionRound,
    DecisionType,
    EscalationReason,
    Judgement,
    NextStep,
    Thresholds,
)
from threadline.models.model import Message, Role, ToolCall, ToolKind
from threadline.operator.memory import ToolUse
from threadline.operator.model.protocol import ProtocolState
from threadline.rfps.model import EntryKind, Scope
from threadline.slack.model import Thread
from threadline.tools.model import ToolStatus

THREAD = Thread("T1", "C1", "1700000000.000100")
REPLY = TranscriptEntry(2, "a:1:1", 1, 1, Message(Role.ASSISTANT, "There are two."))
SPOKEN = ToolCall("7", "slack.post.summary", '{"text": "It is won."}', kind=ToolKind.SPEAK)
SPEECH = TranscriptEntry(2, "a:1:1", 1, 1, Message(Role.ASSISTANT, "", (SPOKEN,)))
ROUTE = TurnRoute(Agent.ASSISTANT, Branch.A, reply="This thread is bound to `rfp_a`.")
OPERATOR = TurnRoute(Agent.OPERATOR, Branch.D, Scope("rfp_a"))
READ_ONLY = ProtocolState(scope="rfp_a", loaded=("rfp_a",), did_load=True)
WROTE = ProtocolState(
    scope="rfp_a", did_journal=True, write_succeeded=True, attempted=("rfp_a",), only_reads=False
)
STOPPED = answers.stopped_text(())


def request(kind: OutcomeKind, text: str = "", **given: Any) -> FinishRequest:
    return FinishRequest(THREAD, 1, kind, text, **given)


def facts(*entries: TranscriptEntry, route: TurnRoute = ROUTE, **given: Any) -> EndFacts:
    return EndFacts(StoredTurn(TurnPlan(route), entries=entries), **given)


def decided(step: NextStep, question: str = "") -> DecisionRound:
    kind = DecisionType.CLARIFY if question else DecisionType.REASON_ONLY
    decision = Decision(kind, "It is so.", question=question)
    return DecisionRound(
        1, decision, Thresholds(), "", "", judgement=Judgement(step, 0.4, EscalationReason.DECIDED)
    )


def handover(turn: int, taken_by: str = "") -> Handover:
    return Handover(1, ConversationTurn(THREAD, turn), "U1", taken_by=taken_by)


ANSWERED = request(OutcomeKind.ANSWERED, answer_step=1)
SPEAKS = request(OutcomeKind.POSTED_BY_TOOL, answer_step=1, speech="7", protocol=READ_ONLY)
FAILED = request(
    OutcomeKind.ESCALATED, "What I did so far: nothing.", escalate=EscalationReason.RESPONSE_ERROR
)

ENDS = {
    "the model's words are posted": (ANSWERED, facts(REPLY), "answered", "There are two."),
    "a rule's words are posted": (
        request(OutcomeKind.REPLIED_BY_RULE),
        facts(),
        "replied_by_rule",
        ROUTE.reply,
    ),
    "a rule's words are posted after a stop": (
        *(request(OutcomeKind.REPLIED_BY_RULE), facts(stop_due=True)),
        *("replied_by_rule", ROUTE.reply),
    ),
    "an answer is posted although a stop came": (
        ANSWERED,
        facts(REPLY, stop_due=True),
        "answered",
        "There are two.",
    ),
    "a question by rule is not asked after a stop": (
        *(request(OutcomeKind.ASKED), facts(stop_due=True)),
        *("stopped", STOPPED),
    ),
    "a clarification is not asked after a stop": (
        *(
            request(OutcomeKind.CLARIFIED),
            facts(stop_due=True, decided=decided(NextStep.CLARIFY, "Which one?")),
        ),
        *("stopped", STOPPED),
    ),
    "the operator's words are posted": (
        SPEAKS,
        facts(SPEECH, route=OPERATOR),
        "posted_by_tool",
        "It is won.",
    ),
    "the operator's words are not posted after a stop": (
        *(SPEAKS, facts(SPEECH, route=OPERATOR, stop_due=True)),
        *("stopped", STOPPED),
    ),
    "words that are gone are a failure": (
        SPEAKS,
        facts(route=OPERATOR),
        "posted_by_tool",
        answers.GENERIC_FAILURE,
    ),
    "a silent turn posts nothing": (request(OutcomeKind.SILENT), facts(REPLY), "silent", ""),
    "an answer is left to the person who has the thread": (
        *(replace(ANSWERED, turn=1), facts(REPLY, handover=handover(2, "U2"))),
        *("silent", ""),
    ),
    "an answer is posted while no person has the thread": (
        *(ANSWERED, facts(REPLY, handover=handover(2))),
        *("answered", "There are two."),
    ),
    "changes are reported although a person has the thread": (
        *(replace(ANSWERED, changed_something=True), facts(REPLY, handover=handover(2, "U2"))),
        *("answered", "There are two."),
    ),
}


@pytest.mark.parametrize(("asked", "known", "kind", "text"), ENDS.values(), ids=ENDS)
def test_end_and_its_words_follow_from_the_facts(
    asked: FinishRequest, known: EndFacts, kind: str, text: str
) -> None:
    ending = decide_ending(asked, known)
    assert (ending.kind.value, ending.text) == (kind, text)


PASSED_ON = {
    "a decision gives it to a person": (
        *(request(OutcomeKind.ESCALATED), facts(decided=decided(NextStep.ESCALATE))),
        *(DecisionOutcome.ESCALATED, True),
    ),
    "a decision gives it to a person although a stop came": (
        *(
            request(OutcomeKind.ESCALATED),
            facts(decided=decided(NextStep.ESCALATE), stop_due=True),
        ),
        *(DecisionOutcome.ESCALATED, True),
    ),
    "a failed turn goes to a person": (
        *(FAILED, facts(decided=decided(NextStep.PROCEED))),
        *(DecisionOutcome.ESCALATED, True),
    ),
    "a failed turn is not handed over after a stop": (
        *(FAILED, facts(decided=decided(NextStep.PROCEED), stop_due=True)),
        *(DecisionOutcome.FAILED, False),
    ),
    "an answer is not handed over": (
        *(ANSWERED, facts(REPLY, decided=decided(NextStep.PROCEED))),
        *(DecisionOutcome.ANSWERED, False),
    ),
    "a person has taken it over": (
        *(ANSWERED, facts(REPLY, decided=decided(NextStep.PROCEED), handover=handover(2, "U2"))),
        *(DecisionOutcome.TAKEN_OVER, False),
    ),
    "nothing was decided": (ANSWERED, facts(REPLY), None, False),
}


@pytest.mark.parametrize(("asked", "known", "result", "opens"), PASSED_ON.values(), ids=PASSED_ON)
def test_decision_ends_with_its_outcome(
    asked: FinishRequest, known: EndFacts, result: DecisionOutcome | None, opens: bool
) -> None:
    ending = decide_ending(asked, known)
    assert (ending.result, ending.opens_handover) == (result, opens)


UNSAID = {
    "a reply that a stop has overtaken": (
        request(OutcomeKind.STOPPED, STOPPED),
        facts(REPLY),
        ("a:1:1",),
    ),
    "a reply that is left to a person": (
        ANSWERED,
        facts(REPLY, handover=handover(2, "U2")),
        ("a:1:1",),
    ),
    "a speaking call that a stop has overtaken": (
        SPEAKS,
        facts(SPEECH, stop_due=True),
        ("t:1:1:7",),
    ),
    "an answer": (ANSWERED, facts(REPLY), ()),
    "silence of the model's own": (request(OutcomeKind.SILENT), facts(REPLY), ()),
}


@pytest.mark.parametrize(("asked", "known", "keys"), UNSAID.values(), ids=UNSAID)
def test_transcript_takes_back_only_words_that_were_not_posted(
    asked: FinishRequest, known: EndFacts, keys: tuple[str, ...]
) -> None:
    assert decide_ending(asked, known).unsaid == keys


def journal(ending: Ending) -> list[tuple[str, str, EntryKind]]:
    return [(each.rfp_id, each.words, each.kind) for each in ending.journal]


def test_operators_words_are_journalled_unless_it_has_written() -> None:
    known = facts(SPEECH, route=OPERATOR)
    assert journal(decide_ending(SPEAKS, known)) == [("rfp_a", "It is won.", EntryKind.SAID)]
    assert journal(decide_ending(replace(SPEAKS, protocol=WROTE), known)) == []
    assert journal(decide_ending(SPEAKS, replace(known, stop_due=True))) == []


def test_account_of_a_stopped_turn_lists_calls_that_the_workflow_does_not_know() -> None:
    uses = {
        "1": ToolUse("lamps.create", ToolStatus.OK),
        "2": ToolUse("lamps.list", ToolStatus.OK, ToolKind.READ),
        "7": ToolUse("slack.post.summary", ToolStatus.OK, ToolKind.SPEAK),
    }
    ending = decide_ending(
        request(OutcomeKind.STOPPED, STOPPED, listed_calls=("2",)), facts(uses=uses)
    )
    assert "`lamps.create`: done" in ending.text
    assert "lamps.list" not in ending.text
    assert "slack.post.summary" not in ending.text, "its words were not posted"


@pytest.mark.parametrize("ended", [ANSWERED, FAILED])
def test_an_overhearing_turn_ends_silently_once_the_thread_is_quiet(ended: FinishRequest) -> None:
    found = decide_ending(ended, facts(REPLY, is_quiet=True))
    assert (found.kind, found.text, found.left_to_person) == (OutcomeKind.SILENT, "", False)


def test_a_turn_that_changed_something_posts_its_answer_in_a_quiet_thread() -> None:
    found = decide_ending(replace(ANSWERED, changed_something=True), facts(REPLY, is_quiet=True))
    assert found.kind is OutcomeKind.ANSWERED
