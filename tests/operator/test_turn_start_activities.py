"""The start of a turn on Postgres: the authors that count, thread commands, the request's branch,
and the messages that are answers.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.conversation_activities import ConversationActivityScene, Make, make_talk, talk
from tests.support.recording import create
from threadline.conversations.activities import RECEIVED_REACTION
from threadline.conversations.contract import (
    BegunTurn,
    FinishRequest,
    PassToOperator,
    ThinkRequest,
)
from threadline.conversations.model.conversation import ConversationOutcome, OutcomeKind
from threadline.conversations.model.turn_route import Agent, Branch, TurnRoute
from threadline.conversations.prompt import TurnNote
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.jobs.model import job_question_id
from threadline.models.model import Message, Role, ToolCall, ToolChoice, ToolKind
from threadline.operator.model import routing as questions
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.tools import ask_clarifying_question
from threadline.rfps.model import ScopeSource
from threadline.rfps.store import RfpStore
from threadline.threads.model import IncomingMessage, MessageKind, edit_id
from threadline.tools.registry import ToolRegistry
from threadline_devstack.slack.identity import DEVELOPER, REPORTER, TEAM

__all__ = ["make_talk", "talk"]

CITY = "rfp_abc123"
HARBOUR = "rfp_xyz789"
ASK = "add to journal: they called"


@pytest.fixture
async def desk(talk: ConversationActivityScene) -> ConversationActivityScene:
    """A thread in a team that has two RFPs."""
    await create(talk.database, "c1", team=TEAM, rfp_id=CITY, title="City website", client="Riga")
    await create(
        talk.database, "c2", team=TEAM, rfp_id=HARBOUR, title="Harbour crane", client="Port"
    )
    return talk


async def route(desk: ConversationActivityScene, turn: int = 1) -> TurnRoute:
    async with desk.database.begin() as tx:
        plan = await TurnStore(tx).plan(desk.thread, turn)
    assert plan
    return plan.route


async def begun(
    desk: ConversationActivityScene, turn: int, *words: str | IncomingMessage
) -> tuple[str, int, str]:
    """The RFP of a turn, the turn that it resumes, and its end if that comes before the loop."""
    await desk.said(*words)
    ends = (await desk.begin(turn)).ends
    taken = await route(desk, turn)
    return taken.scope.rfp_id, taken.resumes_turn, ends.value if ends else ""


async def ended(desk: ConversationActivityScene, begun: BegunTurn, turn: int) -> str:
    """The post of a turn that was over before the loop."""
    assert begun.ends
    request = FinishRequest(desk.thread, turn, begun.ends, protocol=begun.protocol)
    await desk.run(desk.activities.finish_turn, request)
    await desk.post(turn)
    return desk.posted()[-1].text


async def reply(desk: ConversationActivityScene, turn: int, *words: str | IncomingMessage) -> str:
    """The answer by rule, without a model."""
    await desk.said(*words)
    return await ended(desk, await desk.begin(turn), turn)


async def answered(desk: ConversationActivityScene, turn: int) -> None:
    """A turn whose loop has come to an answer."""
    await desk.settle(ConversationOutcome(OutcomeKind.SUMMARISED, "Done."), turn)
    await desk.post(turn)


async def bound(desk: ConversationActivityScene) -> list[str]:
    return [row["record_id"] for row in await desk.rows("SELECT record_id FROM thread_bindings")]


def overheard(desk: ConversationActivityScene, words: str) -> IncomingMessage:
    return desk.message(words, sender_id=DEVELOPER, addressed=False)


def mine(desk: ConversationActivityScene, words: str) -> IncomingMessage:
    """A message without a mention, by the author of the test's other messages."""
    return desk.message(words, addressed=False)


def by_job(desk: ConversationActivityScene, words: str, run: int = 1) -> IncomingMessage:
    return desk.message(words, id=job_question_id(TEAM, "JOB-1", run))


def stop(desk: ConversationActivityScene, **given: Any) -> IncomingMessage:
    return desk.message("stop", kind=MessageKind.STOP, **given)


async def test_thread_is_linked_and_located_without_a_model(
    desk: ConversationActivityScene,
) -> None:
    linked = await reply(desk, 1, f"link {CITY}")
    assert CITY in linked
    assert "City website for Riga" in linked
    relinked = await reply(desk, 2, f"bind {HARBOUR.upper()}")
    assert HARBOUR in relinked
    assert CITY in relinked, "its RFP before"
    located = await reply(desk, 3, "where?")
    assert HARBOUR in located
    assert "Harbour crane for Port" in located
    assert "new" in located, "the status"
    assert not desk.model.log


async def test_unknown_rfp_is_refused_with_the_nearest_id(desk: ConversationActivityScene) -> None:
    assert "did you mean rfp_abc123" in await reply(desk, 1, "link rfp_abc124")
    assert "not an RFP id" in await reply(desk, 2, "link rfp_...")
    assert "not bound" in await reply(desk, 3, "where")
    assert await bound(desk) == []
    said = await reply(desk, 4, "Update the status of rfp_abc124 to won")
    assert "no RFP rfp_abc124; did you mean rfp_abc123?" in said
    assert "Nothing was done" in said


async def test_rfp_of_the_message_goes_before_that_of_the_thread(
    desk: ConversationActivityScene,
) -> None:
    await reply(desk, 1, f"link {CITY}")
    await desk.said("what's the status?")
    begun = await desk.begin(2)
    assert (begun.agent, begun.protocol, begun.max_steps) == (
        Agent.OPERATOR,
        ProtocolState(scope=CITY),
        8,
    )
    assert (await route(desk, 2)).scope.origin is ScopeSource.BINDING
    await answered(desk, 2)
    await desk.said(f"and of {HARBOUR} in `{CITY}`'s place?")
    await desk.begin(3)
    taken = await route(desk, 3)
    assert (taken.scope.rfp_id, taken.scope.origin, taken.branch) == (
        HARBOUR,
        ScopeSource.MESSAGE,
        Branch.D,
    )
    (note,) = taken.notes
    assert f"about {HARBOUR}" in note
    assert f"again for {CITY}" in note


async def test_deleted_rfp_of_the_thread_is_mentioned_where_it_matters(
    desk: ConversationActivityScene,
) -> None:
    await reply(desk, 1, f"link {CITY}")
    async with desk.database.begin() as tx:
        await RfpStore(tx).delete(TEAM, CITY)
    assert await begun(desk, 2, f"status of {HARBOUR}") == (HARBOUR, 0, "")
    assert (await route(desk, 2)).notes == ()
    await answered(desk, 2)
    await desk.said("where?", "what can you do?")
    begun_ = await desk.begin(3)
    taken = await route(desk, 3)
    assert (begun_.agent, taken.branch, taken.scope.rfp_id) == (Agent.ASSISTANT, Branch.A, "")
    assert not begun_.falls_through
    (note,) = taken.notes
    assert f"{CITY} was deleted" in note
    await answered(desk, 3)
    assert await reply(desk, 4, "where?") == note
    refused = await reply(desk, 5, f"link {CITY}")
    assert "was deleted" in refused
    assert refused.endswith("Nothing was done.")
    assert f"`{CITY}` before" in await reply(desk, 6, f"link {HARBOUR}")


async def test_operator_takes_over_where_the_conversational_agent_fails(
    desk: ConversationActivityScene,
) -> None:
    await desk.said("the proposal")
    first = await desk.begin()
    assert (first.agent, first.falls_through, (await route(desk)).branch) == (
        Agent.ASSISTANT,
        True,
        Branch.B,
    )
    passed = await desk.run(desk.activities.pass_to_operator, PassToOperator(desk.thread, 1, 2))
    again = await desk.begin()
    assert passed.agent is again.agent is Agent.OPERATOR
    assert passed.protocol == ProtocolState()
    assert passed.prior_steps == again.prior_steps == 2
    assert not again.falls_through


@pytest.mark.parametrize("answer", [f"it's {CITY}", f"link {CITY}"])
async def test_answer_resumes_the_request_that_needed_an_rfp(
    desk: ConversationActivityScene, answer: str
) -> None:
    assert "Which RFP is this about?" in await reply(desk, 1, ASK)
    assert (await route(desk)).branch is Branch.C
    await desk.said(answer)
    begun = await desk.begin(2)
    taken = await route(desk, 2)
    assert (begun.agent, begun.ends, taken.resumes_turn, taken.branch) == (
        Agent.OPERATOR,
        None,
        1,
        Branch.D,
    )
    assert begun.protocol == ProtocolState(scope=CITY)


async def test_short_answer_that_the_question_offers_resumes_the_request(make_talk: Make) -> None:
    desk = make_talk(registry=ToolRegistry([ask_clarifying_question]))
    await create(desk.database, "c1", team=TEAM, rfp_id=CITY, title="City website")
    await desk.said(f"add to journal of {CITY}: they called")
    await desk.begin()
    question = json.dumps({"question": "Search for it, or wait?"})
    call = ToolCall("call_1", "slack.ask.clarifying.question", question, kind=ToolKind.SPEAK)
    note = TurnNote(turn=1, at=1.0, user_id=REPORTER, actor="Rina", request_id="r1")
    entries = [("c:1", note.message()), ("a:1:1", Message(Role.ASSISTANT, "", (call,)))]
    async with desk.database.begin() as tx:
        await TranscriptStore(tx).append(desk.thread, 1, 1, entries)
    state = ProtocolState(scope=CITY, loaded=(CITY,), did_load=True)
    asks = FinishRequest(
        desk.thread, 1, OutcomeKind.ASKED, answer_step=1, speech=call.id, protocol=state
    )
    await desk.run(desk.activities.finish_turn, asks)
    await desk.post()
    assert desk.posted()[-1].text == "Search for it, or wait?"
    await desk.said("search for it")
    begun = await desk.begin(2)
    assert (begun.agent, (await route(desk, 2)).resumes_turn) == (Agent.OPERATOR, 1)


@pytest.mark.parametrize(
    ("between", "kind"),
    [
        pytest.param({"text": "rfp_abc124"}, OutcomeKind.REPLIED_BY_RULE, id="unknown RFP"),
        pytest.param({"text": "where?"}, OutcomeKind.REPLIED_BY_RULE, id="where"),
        pytest.param(
            {"text": CITY, "sender_id": DEVELOPER}, OutcomeKind.SUMMARISED, id="somebody else"
        ),
        pytest.param(
            {"text": "<@U9> which one was it?", "addressed": False},
            OutcomeKind.SILENT,
            id="silent turn",
        ),
    ],
)
async def test_request_stays_open_until_its_writer_answers(
    desk: ConversationActivityScene, between: dict[str, Any], kind: OutcomeKind
) -> None:
    await reply(desk, 1, ASK)
    await desk.said(desk.message(**between))
    assert (await desk.begin(2)).ends == (kind if kind is OutcomeKind.REPLIED_BY_RULE else None)
    assert (await route(desk, 2)).resumes_turn == 0
    await desk.settle(ConversationOutcome(kind, ""), 2)
    assert await begun(desk, 3, CITY) == (CITY, 1, "")


async def test_empty_answer_is_asked_for_again(desk: ConversationActivityScene) -> None:
    await reply(desk, 1, ASK)
    await desk.said("")
    again = await desk.begin(2)
    assert ((await route(desk, 2)).resumes_turn, again.ends) == (1, OutcomeKind.ASKED)
    assert "Which RFP" in await ended(desk, again, 2)
    assert await begun(desk, 3, CITY) == (CITY, 2, "")


@pytest.mark.parametrize("own", ["what can you do?", "never mind"])
async def test_message_with_a_request_of_its_own_is_no_answer(
    desk: ConversationActivityScene, own: str
) -> None:
    await reply(desk, 1, ASK)
    assert (await begun(desk, 2, own))[1] == 0


async def test_deleted_words_are_not_part_of_the_request(desk: ConversationActivityScene) -> None:
    await desk.said(ASK)
    async with desk.database.begin() as tx:
        assert await TurnStore(tx).texts(desk.thread, 1) == []
        await MessageStore(tx).take_up(desk.thread, 1, 1)
        assert await TurnStore(tx).texts(desk.thread, 1) == [ASK]
        await tx.exec_driver_sql("UPDATE conversation_messages SET redacted_at = now()")
        assert await TurnStore(tx).texts(desk.thread, 1) == []


async def test_long_question_is_read_to_its_bound_and_its_writer_notified(
    desk: ConversationActivityScene,
) -> None:
    assert (await reply(desk, 1, "add to journal: " + "word " * 2_000)).startswith(
        f"{questions.truncation_notice()}\n\n"
    )
    assert (await route(desk)).branch is Branch.C
    assert await begun(desk, 2, f"link {CITY}") == (CITY, 1, "")
    await answered(desk, 2)
    await desk.said("update status to won for " + "word " * 2_000 + HARBOUR)
    assert (await desk.begin(3)).protocol == ProtocolState(scope=CITY)
    assert (await route(desk, 3)).notes == (questions.truncation_notice(),)


async def test_message_without_words_is_recorded_as_such(desk: ConversationActivityScene) -> None:
    await desk.said("")
    await desk.begin()
    assert (await route(desk)).missing == "missing_question"


async def test_turn_begun_again_keeps_its_route(desk: ConversationActivityScene) -> None:
    await desk.said(f"link {CITY}")
    first = await desk.begin()
    async with desk.database.begin() as tx:
        await RfpStore(tx).delete(TEAM, CITY)
    again = await desk.begin()
    assert (again.ends, again.about) == (first.ends, first.about)
    assert "is now bound to" in await ended(desk, again, 1)


async def test_words_among_people_bind_nothing_and_are_no_request(
    desk: ConversationActivityScene,
) -> None:
    await desk.said(overheard(desk, f"link {CITY}"), overheard(desk, f"{HARBOUR} is lost"), ASK)
    first = await desk.begin()
    assert ((await route(desk)).scope.rfp_id, first.ends) == ("", OutcomeKind.ASKED)
    async with desk.database.begin() as tx:
        assert await TurnStore(tx).texts(desk.thread, 1) == [ASK]
    await ended(desk, first, 1)
    await desk.said(overheard(desk, f"link {CITY}"))
    second = await desk.begin(2)
    assert (second.agent, second.ends, await bound(desk)) == (Agent.ASSISTANT, None, [])


async def test_words_before_calling_the_bot_are_part_of_the_request(
    desk: ConversationActivityScene,
) -> None:
    words = (
        overheard(desk, "hi"),
        mine(desk, f"{CITY} was lost"),
        mine(desk, f"<@U9> see {HARBOUR}"),
    )
    assert await begun(desk, 1, *words, "put that into the journal, please") == (CITY, 0, "")


async def test_edit_of_an_old_thread_command_changes_nothing(
    desk: ConversationActivityScene,
) -> None:
    first = desk.message(f"link {CITY}")
    await reply(desk, 1, first)
    await reply(desk, 2, f"link {HARBOUR}")
    version = f"{float(first.ts) + 1_000:.6f}"
    edit = replace(
        first,
        id=edit_id(TEAM, first.channel, first.ts, version),
        kind=MessageKind.EDIT,
        text=f"link {CITY}.",
        correction_of=first.id,
        version=version,
    )
    assert await begun(desk, 3, edit, "update the rfp: status won") == (HARBOUR, 0, "")
    assert await bound(desk) == [HARBOUR]
    assert (await route(desk, 3)).notes == ()


async def test_request_counts_with_the_rfp_that_its_thread_had_then(
    desk: ConversationActivityScene,
) -> None:
    assert (
        await begun(desk, 1, f"link {CITY}", "update the rfp: status won", f"link {HARBOUR}")
    ) == (CITY, 0, "")
    assert f"earlier request is about `{CITY}`" in (await route(desk)).notes[-1]
    assert await bound(desk) == [HARBOUR]


@pytest.mark.parametrize(
    ("words", "rfp_id"),
    [
        pytest.param(
            ("status won", f"link {HARBOUR}", "and status lost"),
            HARBOUR,
            id="requests about two RFPs",
        ),
        pytest.param(("link rfp_xyz788", "update the rfp: status won"), CITY, id="unknown RFP"),
        pytest.param(("link rfp_...", "update the rfp: status won"), CITY, id="no id"),
    ],
)
async def test_ambiguous_or_refused_link_ends_the_turn(
    desk: ConversationActivityScene, words: tuple[str, ...], rfp_id: str
) -> None:
    assert "I did nothing else" in await reply(desk, 1, f"link {CITY}", *words)
    assert (await route(desk)).scope.rfp_id == ""
    assert await bound(desk) == [rfp_id]


async def test_link_corrected_at_once_goes_on(desk: ConversationActivityScene) -> None:
    words = (f"link {CITY}", "link rfp_xyz788", "update the rfp: status won", f"link {HARBOUR}")
    assert await begun(desk, 1, *words) == (HARBOUR, 0, "")


@pytest.mark.parametrize("question", [f"Look into {CITY} again and tell me more.", f"link {CITY}"])
async def test_question_of_a_job_is_no_answer_and_binds_nothing(
    desk: ConversationActivityScene, question: str
) -> None:
    await reply(desk, 1, ASK)
    assert await begun(desk, 2, by_job(desk, question)) == (CITY, 0, "")
    await answered(desk, 2)
    assert await bound(desk) == []
    assert await begun(desk, 3, by_job(desk, f"again: {CITY}", 2), HARBOUR) == (HARBOUR, 1, "")


async def test_answer_among_several_people_needs_no_mention(
    desk: ConversationActivityScene,
) -> None:
    await reply(desk, 1, overheard(desk, "hello all"), ASK)
    assert not (await desk.said(mine(desk, f"<@U9> is it {CITY}?"))).snapshot.addressed_due
    answer = mine(desk, CITY)
    assert (await desk.said(answer)).snapshot.addressed_due
    assert desk.reacted[answer.ts] == RECEIVED_REACTION
    assert await begun(desk, 2) == (CITY, 1, "")


async def test_stop_ends_the_wait_for_an_answer(desk: ConversationActivityScene) -> None:
    await reply(desk, 1, ASK)
    assert (await desk.said(stop(desk, sender_id=DEVELOPER))).snapshot.open_question, (
        "somebody else's word"
    )
    assert (await desk.said(stop(desk))).snapshot.open_question == ""
    assert await begun(desk, 2, f"I like {CITY}") == (CITY, 0, "")


async def test_stop_before_the_turn_leaves_later_words_for_the_next(
    desk: ConversationActivityScene,
) -> None:
    before = (desk.message(f"link {CITY}"), desk.message(ASK))
    assert await begun(desk, 1, *before, stop(desk), "what can you do?") == ("", 0, "")
    assert await bound(desk) == []
    await desk.settle(ConversationOutcome(OutcomeKind.STOPPED, "I have stopped."), 1)
    async with desk.database.begin() as tx:
        left, _ = await MessageStore(tx).take_up(desk.thread, 2, 1)
    assert [each.text for each in left] == ["what can you do?"]


async def test_thread_command_waits_for_the_next_turn(desk: ConversationActivityScene) -> None:
    await desk.said("Good morning")
    await desk.begin()
    await desk.think()
    await desk.said("one more thing", f"link {HARBOUR}", "update the rfp: status won")
    await desk.think(step=2)
    sent = str(desk.sent())
    assert ("one more thing" in sent, HARBOUR in sent, "status won" in sent) == (
        True,
        False,
        False,
    )
    snapshot = await desk.settle(ConversationOutcome(OutcomeKind.SUMMARISED, "Done."), 1)
    assert snapshot.turn_due
    assert await begun(desk, 2) == (HARBOUR, 0, "")
    assert await bound(desk) == [HARBOUR]


async def test_words_about_another_rfp_wait_for_the_next_turn(
    desk: ConversationActivityScene,
) -> None:
    assert await begun(desk, 1, f"status of {CITY}") == (CITY, 0, "")
    await desk.said(f"due date of {CITY}, too", f"and of {HARBOUR}", "thanks")
    request = ThinkRequest(desk.thread, 1, 2, ToolChoice.AUTO, Agent.OPERATOR)
    await desk.run(desk.activities.think, request)
    async with desk.database.begin() as tx:
        taken, _ = await MessageStore(tx).take_up(desk.thread, 1, 2)
    assert [each.text for each in taken] == [f"due date of {CITY}, too"]
    assert (await desk.settle(ConversationOutcome(OutcomeKind.SUMMARISED, "Done."), 1)).turn_due
    assert await begun(desk, 2) == (HARBOUR, 0, "")
