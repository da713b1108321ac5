"""The sources of a turn's answer: passages that are retrieved, compared, shown to the agent and
cited.
"""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk, talk
from tests.support.decision_activities import OLD_PRICES, PRICES, Engine, engine_of
from tests.support.role_fakes import directory, sellers
from threadline.conversations.contract import PassToOperator, TurnDecision
from threadline.conversations.decide import read_situation
from threadline.conversations.model import answers
from threadline.conversations.model.answers import DEFAULT_QUESTION, escalation_text
from threadline.conversations.model.conversation import ConversationTurn, OutcomeKind
from threadline.conversations.store.transcript import TranscriptStore
from threadline.db.engine import Database
from threadline.decisions.model import EscalationReason, NextStep
from threadline.errors import Transient
from threadline.knowledge import tools as qa
from threadline.knowledge.documents import split_document
from threadline.knowledge.model import Document, Retrieval, Source
from threadline.knowledge.store import KnowledgeStore
from threadline.models.model import Message, Role
from threadline.tools.context import Services
from threadline.tools.registry import ToolRegistry
from threadline.tools.roles import RecordKind, RoleDirectory
from threadline_devstack.models.script import ScriptTurn
from threadline_devstack.slack.identity import TEAM

__all__ = ["make_talk", "talk"]

QUESTION = "what is the price of the Enterprise plan?"


@pytest.fixture
def engine(talk: ConversationActivityScene) -> Engine:
    return engine_of(talk)


def replies(engine: Engine, text: str) -> None:
    """Script the agent's answer."""

    async def script(turn: ScriptTurn) -> None:
        await turn.text_only(text)

    engine.talk.model.script(script)


TOOL = "lamps_list"
RETRIEVE: dict[str, Any] = {
    "retrieval_needed": True,
    "retrieval_query": "Enterprise",
    "query_complexity": 0.1,
}


async def first_round(engine: Engine, then: Callable[[], object]) -> TurnDecision:
    """Make a decision whose first passages are insufficient; call `then` before the second
    round.
    """
    engine.documents.retrieval = Retrieval(0.5)
    engine.documents.after = [then]
    engine.decides("RETRIEVE", **RETRIEVE)
    decision = await engine.decided(QUESTION)
    first, second = await engine.kept()
    assert first.judgement
    assert first.judgement.next_step is NextStep.RETRIEVE_MORE
    assert second.judgement
    return decision


async def search_that_never_returns(engine: Engine) -> None:
    """Start a decision, and lose its worker during the search, after the decision was stored."""
    begun = asyncio.Event()

    async def search(
        team: str, query: str, types: Sequence[str]
    ) -> tuple[Sequence[Source], Retrieval]:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    other = engine_of(engine.talk, look_up=search)
    deciding = asyncio.create_task(other.decide())
    await begun.wait()
    deciding.cancel()
    await asyncio.gather(deciding, return_exceptions=True)


async def test_retrieved_passages_reach_the_agent_and_are_cited(engine: Engine) -> None:
    await engine.hears(QUESTION)
    assert (await engine.decide()).course is NextStep.PROCEED
    assert engine.documents.asked == [QUESTION]
    replies(engine, "It costs 990 a month [1].")
    await engine.talk.think()
    assert any(PRICES.text in str(each) for each in engine.talk.sent())
    said = await engine.settled(OutcomeKind.ANSWERED, answer_step=1)
    assert said == "It costs 990 a month [1].\n\nSources: [1] Plans – Enterprise"
    (source,) = (await engine.last()).sources
    assert (source.title, source.text) == ("Plans", ""), "texts are not kept after the turn"


@pytest.mark.parametrize("needed", [True, False])
async def test_documents_are_searched_with_a_tool_if_the_decision_needs_them(
    engine: Engine, needed: bool
) -> None:
    more = {
        "retrieval_needed": needed,
        "retrieval_query": "Enterprise price",
        "tools_needed": [TOOL],
    }
    engine.decides("USE_TOOL", **more)
    assert (await engine.decided("Send her the price of Enterprise")).course is NextStep.PROCEED
    assert engine.documents.asked == ["Enterprise price"] * needed
    await engine.talk.think()
    (note,) = [
        str(each["content"])
        for each in engine.talk.sent()
        if "[Decision]" in str(each.get("content"))
    ]
    assert f"fits this request: {TOOL}." in note
    assert (PRICES.text in note) is needed


async def test_tool_runs_without_documents_when_the_search_fails(engine: Engine) -> None:
    engine.documents.trouble = Transient("The search is away.")
    engine.decides(
        "USE_TOOL", retrieval_needed=True, retrieval_query="Enterprise", tools_needed=[TOOL]
    )
    assert (await engine.decided("Send her the price of Enterprise")).course is NextStep.PROCEED
    factors, verdict = await engine.weighed()
    assert factors.retrieval_failed
    assert verdict.confidence < 0.75


async def test_poor_passages_are_searched_again_with_a_tool(
    engine: Engine,
) -> None:
    engine.documents.retrieval = Retrieval(0.3)
    engine.decides(
        "USE_TOOL", retrieval_needed=True, retrieval_query="Enterprise", tools_needed=[TOOL]
    )
    assert (await engine.decided("Send her the price of Enterprise")).course is NextStep.CLARIFY
    assert len(engine.documents.asked) == 2


@pytest.mark.parametrize(
    ("complexity", "course"), [(0.0, NextStep.PROCEED), (0.1, NextStep.CLARIFY)]
)
async def test_second_round_without_retrieval_rests_on_the_first(
    engine: Engine, complexity: float, course: NextStep
) -> None:
    reasons = partial(engine.decides, "REASON_ONLY", query_complexity=complexity)
    assert (await first_round(engine, reasons)).course is course
    factors, _ = await engine.weighed()
    assert factors.source_quality == 0.5
    if course is NextStep.PROCEED:
        await engine.talk.think()
        assert any(PRICES.text in str(each) for each in engine.talk.sent())
        assert (await engine.settled(OutcomeKind.ANSWERED, answer_step=1)).endswith(
            "Plans – Enterprise"
        )


@pytest.mark.parametrize("fails", [True, False])
async def test_second_retrieval_keeps_the_passages_of_the_first(
    engine: Engine, fails: bool
) -> None:

    def changed() -> None:
        engine.documents.found = (OLD_PRICES,)
        engine.documents.retrieval = Retrieval(0.2)
        engine.documents.trouble = Transient("The database is away.") if fails else None

    await first_round(engine, changed)
    last = await engine.last()
    assert last.retrieval
    assert (last.retrieval.quality, last.retrieval.failed) == (0.5, False)
    assert list(last.sources) == ([PRICES] if fails else [OLD_PRICES, PRICES])
    assert last.retrieval.suspicious == (() if fails else ((0, 1),)), (
        "passages of both rounds are compared"
    )


async def test_passages_of_two_rounds_are_merged_newest_first_without_repeats(
    engine: Engine,
) -> None:
    a, b, c, d = (
        replace(PRICES, section=name, score=score)
        for name, score in zip("ABCD", (0.9, 0.5, 0.9, 0.7), strict=True)
    )
    engine.documents.found = (c, replace(a, score=0.8), d)
    await first_round(engine, lambda: setattr(engine.documents, "found", (a, b)))
    assert (await engine.last()).sources == (a, b, c, d)


@pytest.mark.parametrize("detail", [False, True])
async def test_long_answer_ends_with_sources_and_the_handover_notice(
    engine: Engine, detail: bool
) -> None:
    question = "what is the price of Enterprise"
    await engine.decided(f"{question}, in detail?" if detail else f"{question}?")
    replies(engine, "\n\n".join(f"Paragraph {number} [1]. {'x' * 300}" for number in range(10)))
    await engine.talk.think()
    said = await engine.settled(
        OutcomeKind.ANSWERED, answer_step=1, escalate=EscalationReason.TOOL_FAILURE
    )
    notice = escalation_text(EscalationReason.TOOL_FAILURE)
    assert said.endswith(f"Sources: [1] Plans – Enterprise\n\n{notice}")
    assert any("Paragraph 9" in each.text for each in engine.talk.posted()) is detail
    assert detail or len(said) <= answers.LIMIT


@pytest.mark.parametrize("decides", [True, False])
async def test_passages_found_by_the_agents_tool_are_cited(
    make_talk: Make, database: Database, decides: bool
) -> None:
    plans = Document(
        "Offers",
        "offers.md",
        "# Starter\n\nThe Starter plan has five seats.\n\n# Moving\n\nBy hand.",
    )
    async with database.begin() as tx:
        await KnowledgeStore(tx).save(TEAM, plans, split_document(plans))
    talk = make_talk(
        registry=ToolRegistry(qa.TOOLS), services=Services().with_service(Database, database)
    )
    engine = engine_of(talk)
    await engine.hears("please list what the Starter plan has")
    if decides:
        engine.decides("REASON_ONLY")
        assert (await engine.decide()).course is NextStep.PROCEED

    async def answering(turn: ScriptTurn) -> None:
        await turn.call("qa_answer", question="Starter plan")
        await turn.text_only("It has five seats.")

    talk.model.script(answering)
    await talk.answer()
    assert talk.posted()[-1].text == "It has five seats.\n\nSources: Offers – Starter"


async def test_operator_continuing_the_turn_cites_no_passages_it_was_not_shown(
    engine: Engine,
) -> None:
    await engine.hears("the price of the proposal")
    assert (await engine.decide()).course is NextStep.PROCEED
    async with engine.talk.database.begin() as tx:
        await TranscriptStore(tx).append(
            engine.talk.thread, 1, 1, [("a:1:1", Message(Role.ASSISTANT, "It is new."))]
        )
    await engine.talk.run(
        engine.talk.activities.pass_to_operator, PassToOperator(engine.talk.thread, 1, 0)
    )
    assert await engine.settled(OutcomeKind.ANSWERED, answer_step=1) == "It is new."


async def test_missing_passages_are_searched_twice_before_a_question(engine: Engine) -> None:
    engine.documents.found = ()
    engine.documents.retrieval = Retrieval(0.0)
    step = await engine.decided("what is the price of the Ultra plan?")
    assert step.course is NextStep.CLARIFY
    assert [each.round for each in await engine.kept()] == [1, 2]
    assert len(engine.documents.asked) == 2
    assert await engine.settled(OutcomeKind.CLARIFIED) == DEFAULT_QUESTION


@pytest.mark.parametrize(
    ("contradicts", "course"), [(True, NextStep.ESCALATE), (False, NextStep.PROCEED)]
)
async def test_suspicious_passages_are_compared_by_the_model(
    engine: Engine, contradicts: bool, course: NextStep
) -> None:
    async def comparing(turn: ScriptTurn) -> None:
        await turn.text_only(json.dumps({"contradiction": contradicts, "reasoning": "Because."}))

    engine.talk.model.script(comparing, schema_name="comparison")
    engine.documents.found = (PRICES, OLD_PRICES)
    engine.documents.retrieval = Retrieval(0.9, suspicious=((0, 1),))
    assert (await engine.decided(QUESTION)).course is course
    factors, _ = await engine.weighed()
    assert factors.conflict is contradicts
    purposes = await engine.talk.rows("SELECT purpose FROM model_calls ORDER BY id")
    assert [each["purpose"] for each in purposes] == ["decide", "compare"]


@pytest.mark.parametrize("raises", [True, False], ids=["raises", "never returns"])
@pytest.mark.parametrize("critical", [False, True])
async def test_failed_retrieval_costs_confidence_or_escalates_if_critical(
    engine: Engine, critical: bool, raises: bool
) -> None:
    types = ["pricing"] if critical else []
    engine.decides(
        "RETRIEVE", retrieval_needed=True, retrieval_query="uptime", document_types=types
    )
    await engine.hears("what is your uptime?")
    if raises:
        engine.documents.trouble = Transient("The database is away.")
        step = await engine.decide()
    else:
        await search_that_never_returns(engine)
        step = await engine.decide_without_model()
    factors, verdict = await engine.weighed()
    assert factors.retrieval_failed
    if critical:
        assert (step.course, verdict.reason) == (
            NextStep.ESCALATE,
            EscalationReason.RETRIEVAL_FAILURE,
        )
        return
    assert step.course is NextStep.PROCEED
    assert verdict.confidence == pytest.approx(
        0.7 * (0.2 * 0.9 + 0.3 * 2 / 3 + 0.2) / 0.7, abs=1e-6
    )
    await engine.talk.think()
    assert any("cannot be asked right now" in str(each) for each in engine.talk.sent())


@pytest.mark.parametrize("restricted", [False, True])
async def test_only_people_with_access_to_documents_get_names_of_earlier_passages(
    engine: Engine, restricted: bool
) -> None:
    """Another person may have asked earlier."""
    engine.decides("RETRIEVE", **RETRIEVE)
    await engine.decided(QUESTION)
    await engine.settled(OutcomeKind.ANSWERED, text="990 a month.")
    await engine.hears("and for ten people?", turn=2)
    roles = sellers(RecordKind.DOCUMENTS) if restricted else directory()
    deps = replace(
        engine.talk.activities.deps, services=Services().with_service(RoleDirectory, roles)
    )
    async with deps.database.begin() as tx:
        deciding = await read_situation(deps, tx, ConversationTurn(engine.talk.thread, 2))
    assert [each.title for each in deciding.situation.sources] == ([] if restricted else ["Plans"])
