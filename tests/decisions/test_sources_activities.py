"""What a turn's answer rests on: what was looked up, compared, shown to the agent, and cited."""

import json
from dataclasses import replace

import pytest

from tests.support.conversation_activities import Make, Talking, make_talk, talk
from tests.support.decision_activities import OLD_PRICES, PRICES, Engine, begun, engine_of
from threadline.conversations import decision_texts as decision_words
from threadline.conversations.decision_contract import Escalate
from threadline.conversations.model import answers
from threadline.conversations.operator_contract import PassOn
from threadline.db.engine import Database
from threadline.decisions.model import Course, Reason, Retrieval
from threadline.errors import Transient
from threadline.knowledge import tools as qa
from threadline.knowledge.library import PostgresKnowledge
from threadline.knowledge.model import Document
from threadline.knowledge.splitting import split
from threadline.models.model import Message, OutcomeKind, Role
from threadline.tools.context import Ports
from threadline.tools.registry import Registry
from threadline_devstack.models.script import Turn
from threadline_devstack.slack.identity import TEAM

__all__ = ["make_talk", "talk"]


@pytest.fixture
def engine(talk: Talking) -> Engine:
    return engine_of(talk)


async def test_what_was_looked_up_reaches_the_agent_and_is_cited_in_the_answer(engine: Engine) -> None:
    await begun(engine, "what is the price of the Enterprise plan?")
    assert (await engine.whole()).course is Course.PROCEED
    assert engine.documents.asked == ["what is the price of the Enterprise plan?"]

    async def answering(turn: Turn) -> None:
        await turn.text_only("It costs 990 a month [1].")

    engine.talk.model.script(answering)
    await engine.talk.think()
    assert any(PRICES.text in str(each) for each in engine.talk.sent())
    said = await engine.settled(OutcomeKind.ANSWERED, answered_at=1)
    assert said == "It costs 990 a month [1].\n\nSources: [1] Plans – Enterprise"
    (source,) = (await engine.last()).sources
    assert (source.title, source.text) == ("Plans", ""), "the texts of documents are not kept with the turn"


@pytest.mark.parametrize(("complexity", "course"), [(0.0, Course.PROCEED), (0.1, Course.CLARIFY)])
async def test_a_second_round_that_looks_nothing_up_rests_on_what_the_first_one_found(
    engine: Engine, complexity: float, course: Course
) -> None:
    engine.documents.retrieval = Retrieval(0.5)
    engine.decides("RETRIEVE", retrieval_needed=True, retrieval_query="Enterprise", query_complexity=0.1)
    await begun(engine, "what is the price of the Enterprise plan?")
    for step in ("decide", "look_up", "weigh"):
        made = await engine.step(step)
    assert made.course is Course.RETRIEVE_MORE
    engine.decides("REASON_ONLY", query_complexity=complexity)
    assert (await engine.step("decide", 1, 2)).course is course
    factors = (await engine.last()).factors
    assert factors
    assert factors.source_quality == 0.5
    if course is Course.PROCEED:
        await engine.talk.think()
        assert any(PRICES.text in str(each) for each in engine.talk.sent())
        said = await engine.settled(OutcomeKind.ANSWERED, answered_at=1)
        assert said.endswith("Plans – Enterprise")


@pytest.mark.parametrize(
    ("answer", "cited"),
    [
        ("Both say so [2][1].", "Sources: [1] Plans – Enterprise; [2] Plans 2024 – Enterprise"),
        ("So it is [2].", "Sources: [2] Plans 2024 – Enterprise"),
        ("It costs 990.", "Sources: Plans – Enterprise; Plans 2024 – Enterprise"),
        ("See [7].", "Sources: Plans – Enterprise; Plans 2024 – Enterprise"),
    ],
)
def test_an_answer_names_the_passages_that_it_marks_or_all_that_it_was_given(answer: str, cited: str) -> None:
    assert decision_words.sources_of(answer, [PRICES, OLD_PRICES]) == cited
    assert decision_words.sources_of("", [PRICES]) == ""


@pytest.mark.parametrize(
    ("answer", "found", "cited"),
    [
        ("It costs 990.", ["Plans – Team", "Shipping"], "Sources: Plans – Team; Shipping"),
        ("As plans - team says, 990.", ["Plans – Team", "Shipping"], ""),
        ("Shipping is free.", ["Shipping"], "Sources: Shipping"),
        ("It is [1].", ["Plans – Team"], "Sources: [1] Plans – Enterprise; Plans – Team"),
        ("It is [1].", ["Plans – Enterprise"], "Sources: [1] Plans – Enterprise"),
        ("Many.", [f"D{n}" for n in range(12)], f"Sources: {'; '.join(f'D{n}' for n in range(10))}; and 2 more"),
    ],
)
def test_an_answer_names_what_its_tools_have_found_unless_it_has_done_so(
    answer: str, found: list[str], cited: str
) -> None:
    given = [PRICES] if "[1]" in answer else []
    assert decision_words.sources_of(answer, given, found) == cited


@pytest.mark.parametrize("words", ["what is the price of Enterprise?", "what is the price of Enterprise, in detail?"])
async def test_a_long_answer_says_what_it_rests_on_and_that_a_person_takes_over(engine: Engine, words: str) -> None:
    async def long(turn: Turn) -> None:
        await turn.text_only("\n\n".join(f"Paragraph {number} [1]. {'x' * 300}" for number in range(10)))

    await (await begun(engine, words)).whole()
    engine.talk.model.script(long)
    await engine.talk.think()
    await engine.talk.run(engine.activities.escalate, Escalate(engine.talk.thread, 1, Reason.TOOL_FAILURE))
    said = await engine.settled(OutcomeKind.ANSWERED, answered_at=1)
    notice = decision_words.handed_over(Reason.TOOL_FAILURE)
    assert said.endswith(f"Sources: [1] Plans – Enterprise\n\n{notice}")
    whole = "\n".join(each.text for each in engine.talk.posted())
    assert ("Paragraph 9" in whole) is ("in detail" in words)
    assert ("This is not the whole answer" in whole) is ("in detail" not in words)
    assert "in detail" in words or len(said) <= answers.LIMIT


def test_what_stands_around_an_answer_is_never_cut_and_what_fits_is_not_cut_either() -> None:
    fits, end = "y" * 1_700, f"Sources: {'s' * 100}"
    assert decision_words.fitting("", fits, end, detail=False) == f"{fits}\n\n{end}"
    assert decision_words.fitting("", "x" * 1_990, "", detail=False) == "x" * 1_990
    long = "\n\n".join(["z" * 300] * 10)
    for before in ("", "n" * 1_200):
        cut = decision_words.fitting(before, long, end, detail=False)
        assert cut.startswith(before)
        assert cut.endswith(f"_\n\n{end}")
        assert len(cut) <= answers.LIMIT
    assert decision_words.fitting("n", long, end, detail=True) == f"n\n\n{long}\n\n{end}"


def test_a_source_with_a_long_name_keeps_both_its_ends() -> None:
    names = [f"{'t' * 120}.pdf – {section}" for section in ("Prices", "Terms")]
    told = decision_words.sources_of("It is so.", [], names)
    assert told.count("…") == 2
    assert ".pdf – Prices; " in told
    assert told.endswith(".pdf – Terms")


@pytest.mark.parametrize("decides", [True, False])
async def test_what_the_agent_looks_up_by_itself_is_cited_too(
    make_talk: Make, database: Database, decides: bool
) -> None:
    plans = Document("Offers", "offers.md", "# Starter\n\nThe Starter plan has five seats.\n\n# Moving\n\nBy hand.")
    async with database.begin() as work:
        await work.knowledge.save(TEAM, plans, split(plans))
    talk = make_talk(registry=Registry(qa.TOOLS), ports=Ports().having(qa.KNOWLEDGE, PostgresKnowledge(database)))
    engine = engine_of(talk)
    await begun(engine, "please list what the Starter plan has")
    if decides:
        engine.decides("REASON_ONLY")
        assert (await engine.whole()).course is Course.PROCEED

    async def answering(turn: Turn) -> None:
        await turn.call("qa_answer", question="Starter plan")
        await turn.text_only("It has five seats.")

    talk.model.script(answering)
    await talk.answer()
    assert talk.posted()[-1].text == "It has five seats.\n\nSources: Offers – Starter"


async def test_what_is_not_found_is_looked_for_once_more_and_then_asked_about(engine: Engine) -> None:
    engine.documents.found, engine.documents.retrieval = (), Retrieval(0.0)
    step = await (await begun(engine, "what is the price of the Ultra plan?")).whole()
    assert step.course is Course.CLARIFY
    assert [each.round for each in await engine.kept()] == [1, 2]
    assert len(engine.documents.asked) == 2
    assert await engine.settled(OutcomeKind.CLARIFIED) == decision_words.SAY_MORE


@pytest.mark.parametrize(("contradicts", "course"), [(True, Course.ESCALATE), (False, Course.PROCEED)])
async def test_passages_that_look_contradictory_are_compared_by_the_model(
    engine: Engine, contradicts: bool, course: Course
) -> None:
    async def comparing(turn: Turn) -> None:
        await turn.text_only(json.dumps({"contradiction": contradicts, "reasoning": "Because."}))

    engine.talk.model.script(comparing, form="comparison")
    engine.documents.found = (PRICES, OLD_PRICES)
    engine.documents.retrieval = Retrieval(0.9, suspicious=((0, 1),))
    assert (await (await begun(engine, "what is the price of Enterprise?")).whole()).course is course
    made = await engine.last()
    assert made.factors
    assert made.factors.conflict is contradicts
    purposes = await engine.talk.rows("SELECT purpose FROM model_calls ORDER BY id")
    assert [each["purpose"] for each in purposes] == ["decide", "compare"]


@pytest.mark.parametrize(
    ("types", "course", "reason"),
    [([], Course.PROCEED, None), (["pricing"], Course.ESCALATE, Reason.RETRIEVAL_FAILURE)],
)
async def test_documents_that_cannot_be_asked_cost_confidence_or_bring_a_person_when_it_matters(
    engine: Engine, types: list[str], course: Course, reason: Reason | None
) -> None:
    engine.documents.trouble = Transient("The database is away.")
    engine.decides("RETRIEVE", retrieval_needed=True, retrieval_query="uptime", document_types=types)
    step = await (await begun(engine, "what is your uptime?")).whole()
    assert step.course is course
    made = await engine.last()
    assert made.verdict
    assert made.verdict.reason is reason
    if course is Course.PROCEED:
        assert made.verdict.confidence == pytest.approx(0.7 * (0.2 * 0.9 + 0.3 * 2 / 3 + 0.2) / 0.7, abs=1e-6)
        await engine.talk.think()
        assert any("cannot be asked right now" in str(each) for each in engine.talk.sent())


@pytest.mark.parametrize(
    ("types", "course", "reason"),
    [([], Course.PROCEED, None), (["pricing"], Course.ESCALATE, Reason.RETRIEVAL_FAILURE)],
)
async def test_a_look_up_that_never_came_back_counts_as_documents_that_cannot_be_asked(
    engine: Engine, types: list[str], course: Course, reason: Reason | None
) -> None:
    engine.decides("RETRIEVE", retrieval_needed=True, retrieval_query="uptime", document_types=types)
    await begun(engine, "what is your uptime?")
    assert (await engine.step("decide")).course is None
    assert (await engine.step("give_up_deciding")).course is course
    made = await engine.last()
    assert made.verdict
    assert made.factors
    assert (made.verdict.reason, made.factors.retrieval_failed) == (reason, True)
    if course is Course.PROCEED:
        assert made.verdict.confidence == pytest.approx(0.7 * (0.2 * 0.9 + 0.3 * 2 / 3 + 0.2) / 0.7, abs=1e-6)


@pytest.mark.parametrize("fails", [True, False])
async def test_what_the_first_round_found_is_there_when_the_second_finds_nothing(engine: Engine, fails: bool) -> None:
    engine.documents.retrieval = Retrieval(0.5)
    engine.decides("RETRIEVE", retrieval_needed=True, retrieval_query="Enterprise", query_complexity=0.1)
    await begun(engine, "what is the price of the Enterprise plan?")
    for step in ("decide", "look_up", "weigh"):
        made = await engine.step(step)
    assert made.course is Course.RETRIEVE_MORE
    engine.documents.found, engine.documents.retrieval = (OLD_PRICES,), Retrieval(0.2)
    engine.documents.trouble = Transient("The database is away.") if fails else None
    for step in ("decide", "look_up", "weigh"):
        await engine.step(step, 1, 2)
    last = await engine.last()
    assert last.retrieval
    assert (last.retrieval.quality, last.retrieval.failed) == (0.5, False)
    assert list(last.sources) == ([PRICES] if fails else [OLD_PRICES, PRICES])
    assert last.retrieval.suspicious == (() if fails else ((0, 1),)), "also what stands in two rounds is compared"


async def test_of_two_rounds_the_later_ones_passages_come_first_each_as_it_was_found_and_once(engine: Engine) -> None:
    a, b, c, d = (
        replace(PRICES, section=name, score=score) for name, score in zip("ABCD", (0.9, 0.5, 0.9, 0.7), strict=True)
    )
    engine.documents.found, engine.documents.retrieval = (c, replace(a, score=0.8), d), Retrieval(0.5)
    engine.decides("RETRIEVE", retrieval_needed=True, retrieval_query="Enterprise", query_complexity=0.1)
    await begun(engine, "what is the price of the Enterprise plan?")
    for number in (1, 2):
        for step in ("decide", "look_up", "weigh"):
            await engine.step(step, 1, number)
        engine.documents.found = (a, b)
    assert (await engine.last()).sources == (a, b, c, d)


async def test_the_operator_that_goes_on_in_the_agents_place_cites_no_passages_that_it_was_not_shown(
    engine: Engine,
) -> None:
    await begun(engine, "the price of the proposal")
    assert (await engine.whole()).course is Course.PROCEED
    async with engine.talk.database.begin() as work:
        await work.transcripts.append(engine.talk.thread, 1, 1, [("a:1:1", Message(Role.ASSISTANT, "It is new."))])
    await engine.talk.run(engine.talk.operator.pass_on, PassOn(engine.talk.thread, 1, 0))
    assert await engine.settled(OutcomeKind.ANSWERED, answered_at=1) == "It is new."
