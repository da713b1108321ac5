"""The beginning of a turn on Postgres: what is said about the thread, and which way a request takes."""

import json

import pytest

from tests.support.conversation_activities import Talking, make_talk, talk
from tests.support.recording import create
from threadline.conversations.contract import SettleRequest
from threadline.conversations.model.conversation import ConversationMarks
from threadline.conversations.operator_contract import Begun, PassOn
from threadline.conversations.turn_plans import Plan
from threadline.models.model import Message, Outcome, OutcomeKind, Role, ToolCall
from threadline.operator.model import input_validation as questions
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent
from threadline.operator.model.scope import Branch
from threadline.rfps.rfp_ids import Origin
from threadline_devstack.slack.identity import DEVELOPER, TEAM

__all__ = ["make_talk", "talk"]

CITY, HARBOUR = "rfp_abc123", "rfp_xyz789"


@pytest.fixture
async def desk(talk: Talking) -> Talking:
    """A thread in a house that has two RFPs."""
    await create(talk.database, "c1", team=TEAM, rfp_id=CITY, title="City website", client="Riga")
    await create(talk.database, "c2", team=TEAM, rfp_id=HARBOUR, title="Harbour crane", client="Port")
    return talk


async def plan(talk: Talking, turn: int = 1) -> Plan:
    async with talk.database.begin() as work:
        found = await work.turn_plans.of(talk.thread, turn)
    assert found
    return found


async def ended(talk: Talking, begun: Begun, turn: int) -> ConversationMarks:
    """A turn that was over before the loop, settled and posted."""
    assert begun.ends
    request = SettleRequest(talk.thread, turn, begun.ends, protocol=begun.protocol)
    await talk.run(talk.thinking.settle_turn, request)
    return await talk.post(turn)


async def answered(talk: Talking, turn: int) -> None:
    await talk.settle(Outcome(OutcomeKind.SUMMARISED, "Done."), turn)
    await talk.post(turn)


def said(talk: Talking) -> str:
    return talk.posted()[-1].text


async def test_a_thread_is_linked_and_says_what_it_was_linked_to_without_a_model(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(), 1)
    assert said(desk) == f"This thread is now bound to `{CITY}` (City website for Riga)."
    await desk.said(f"bind {HARBOUR.upper()}")
    await ended(desk, await desk.begin(2), 2)
    assert f"`{HARBOUR}`" in said(desk)
    assert f"It was bound to `{CITY}` before." in said(desk)
    await desk.said("where?")
    await ended(desk, await desk.begin(3), 3)
    assert said(desk) == f"This thread is bound to `{HARBOUR}` (Harbour crane for Port): new."
    assert not desk.model.log


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("link rfp_abc124", "There is no RFP rfp_abc124; did you mean rfp_abc123?"),
        ("link rfp_...", "That is not an RFP id, so nothing was bound."),
        ("where", "This thread is not bound to an RFP."),
    ],
)
async def test_what_cannot_be_bound_is_refused_with_what_to_do(desk: Talking, words: str, told: str) -> None:
    await desk.said(words)
    await ended(desk, await desk.begin(), 1)
    assert told in said(desk)
    assert not await desk.rows("SELECT * FROM thread_bindings")


async def test_the_message_names_the_rfp_before_its_thread_does(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(), 1)
    await desk.said("what's the status?")
    begun = await desk.begin(2)
    assert (begun.agent, begun.protocol, begun.max_turns) == (Agent.OPERATOR, ProtocolState(scope=CITY), 8)
    assert (await plan(desk, 2)).route.scope.origin is Origin.BINDING
    await answered(desk, 2)
    await desk.said(f"and of {HARBOUR} in `{CITY}`'s place?")
    route = (await desk.begin(3), (await plan(desk, 3)).route)[1]
    assert (route.scope.rfp_id, route.scope.origin, route.branch) == (HARBOUR, Origin.MESSAGE, Branch.D)
    assert route.notes == (f"You named several RFPs. This answer is about {HARBOUR}. Please ask again for {CITY}.",)


async def test_an_rfp_that_does_not_exist_ends_the_turn_with_the_nearest_ids(desk: Talking) -> None:
    await desk.said("Update the status of rfp_abc124 to won")
    await ended(desk, await desk.begin(), 1)
    assert said(desk) == "There is no RFP rfp_abc124; did you mean rfp_abc123? Nothing was done."


async def test_a_thread_that_is_bound_to_a_deleted_rfp_says_so_and_goes_on_without(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(), 1)
    async with desk.database.begin() as work:
        await work.rfps.delete(TEAM, CITY)
    await desk.said("what can you do?")
    begun = await desk.begin(2)
    route = (await plan(desk, 2)).route
    assert (begun.agent, route.branch, route.scope.rfp_id) == (Agent.COPILOT, Branch.A, "")
    assert route.notes == (
        f"This thread is bound to an RFP that no longer exists: {CITY} was deleted. Bind it to another one.",
    )


@pytest.mark.parametrize(
    ("words", "branch", "agent"),
    [
        ("What can you do?", Branch.A, Agent.COPILOT),
        ("Upload this file as a new opportunity", Branch.A, Agent.COPILOT),
        ("the proposal", Branch.B, Agent.COPILOT),
        ("add to journal: they called", Branch.C, Agent.OPERATOR),
        (f"Update the status to proposal submitted for {CITY}", Branch.D, Agent.OPERATOR),
    ],
)
async def test_a_request_takes_one_of_four_branches(desk: Talking, words: str, branch: Branch, agent: Agent) -> None:
    await desk.said(words)
    begun = await desk.begin()
    assert ((await plan(desk)).route.branch, begun.agent) == (branch, agent)
    assert begun.falls_through == (branch is Branch.B)
    assert (begun.ends is OutcomeKind.ASKED) == (branch is Branch.C)


async def test_where_the_conversational_agent_fails_the_operator_goes_on_without_an_rfp(desk: Talking) -> None:
    await desk.said("the proposal")
    await desk.begin()
    passed = await desk.run(desk.operator.pass_on, PassOn(desk.thread, 1, 2))
    again = await desk.begin()
    assert passed.agent is again.agent is Agent.OPERATOR
    assert passed.protocol == ProtocolState()
    assert passed.behind == again.behind == 2
    assert not again.falls_through


@pytest.mark.parametrize("answer", [CITY, f"it's {CITY}", f"link {CITY}"])
async def test_the_answer_goes_on_with_the_request_that_wanted_an_rfp(desk: Talking, answer: str) -> None:
    await desk.said("add to journal: they called")
    await ended(desk, await desk.begin(), 1)
    assert said(desk) == (
        "Which RFP is this about? Include an id like `rfp_...` or bind this thread with: `@polaris link rfp_...`"
    )
    await desk.said(answer)
    begun = await desk.begin(2)
    route = (await plan(desk, 2)).route
    assert (begun.agent, begun.ends, route.resumes, route.branch) == (Agent.OPERATOR, None, 1, Branch.D)
    assert begun.protocol == ProtocolState(scope=CITY)


@pytest.mark.parametrize(
    ("question", "answer"),
    [("Is it for one that we have, or is it a new RFP?", "a new rfp"), ("Search for it, or wait?", "search for it")],
)
async def test_a_short_answer_that_the_question_asked_for_goes_on_with_the_request(
    desk: Talking, question: str, answer: str
) -> None:
    await desk.said(f"add to journal of {CITY}: they called")
    await desk.begin()
    call = ToolCall("call_1", "slack_ask_clarifying_question", json.dumps({"question": question}))
    async with desk.database.begin() as work:
        await work.transcripts.append(desk.thread, 1, 1, [("a:1:1", Message(Role.ASSISTANT, "", (call,)))])
    spoken = SettleRequest(desk.thread, 1, OutcomeKind.ASKED, answered_at=1, spoken_by="call_1")
    await desk.run(desk.thinking.settle_turn, spoken)
    await desk.post()
    assert said(desk) == question
    await desk.said(answer)
    begun = await desk.begin(2)
    assert (begun.agent, (await plan(desk, 2)).route.resumes) == (Agent.OPERATOR, 1)


async def test_an_answer_that_names_nothing_that_exists_leaves_the_request_open(desk: Talking) -> None:
    await desk.said("add to journal: they called")
    await ended(desk, await desk.begin(), 1)
    await desk.said("rfp_abc124")
    await ended(desk, await desk.begin(2), 2)
    await desk.said(CITY)
    await desk.begin(3)
    assert (await plan(desk, 3)).route.resumes == 1


@pytest.mark.parametrize("own", ["what can you do?", "search for new tenders", f"update rfp {HARBOUR}"])
async def test_a_message_with_a_request_of_its_own_is_no_answer(desk: Talking, own: str) -> None:
    await desk.said("add to journal: they called")
    await ended(desk, await desk.begin(), 1)
    await desk.said(own)
    await desk.begin(2)
    assert (await plan(desk, 2)).route.resumes == 0


async def test_somebody_elses_message_is_no_answer(desk: Talking) -> None:
    await desk.said("add to journal: they called")
    await ended(desk, await desk.begin(), 1)
    await desk.said(desk.message(CITY, sender_id=DEVELOPER))
    await desk.begin(2)
    assert (await plan(desk, 2)).route.resumes == 0
    await answered(desk, 2)
    await desk.said("rfp_abc123, I mean")
    await desk.begin(3)
    assert (await plan(desk, 3)).route.resumes == 1


async def test_what_was_deleted_of_the_request_is_not_gone_on_with(desk: Talking) -> None:
    request = desk.message(f"add to journal of {HARBOUR} that they called")
    await desk.said(request)
    async with desk.database.begin() as work:
        assert await work.turn_plans.said_in(desk.thread, 1) == []
        await work.conversations.take_up(desk.thread, 1, 1)
        assert await work.turn_plans.said_in(desk.thread, 1) == [request.text]
        await work.connection.exec_driver_sql("UPDATE conversation_messages SET redacted_at = now()")
        assert await work.turn_plans.said_in(desk.thread, 1) == []


async def test_a_question_that_is_too_long_is_cut_and_its_writer_is_told(desk: Talking) -> None:
    await desk.said(f"{CITY}: " + "word " * 2_000)
    await desk.begin()
    assert (await plan(desk)).route.notes == (questions.cut_note(),)


async def test_who_is_asked_back_about_a_question_that_is_too_long_is_told_that_it_was_cut(desk: Talking) -> None:
    await desk.said("add to journal: " + "word " * 2_000)
    await ended(desk, await desk.begin(), 1)
    assert said(desk).startswith(f"{questions.cut_note()}\n\n")
    assert (await plan(desk)).route.branch is Branch.C


async def test_an_id_behind_what_is_read_is_not_what_the_turn_is_about(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    await ended(desk, await desk.begin(), 1)
    await desk.said("update status to won for " + "word " * 2_000 + HARBOUR)
    assert (await desk.begin(2)).protocol == ProtocolState(scope=CITY)


@pytest.mark.parametrize(
    ("words", "remembers"),
    [
        ("Remember that Riga wants everything as PDF", True),
        ("What do we remember of Riga?", False),
    ],
)
async def test_what_somebody_asks_to_have_remembered_is_known_from_the_beginning(
    desk: Talking, words: str, remembers: bool
) -> None:
    await desk.said(words)
    assert (await desk.begin()).remembers is remembers


async def test_a_message_without_words_is_recorded_as_that(desk: Talking) -> None:
    await desk.said("")
    await desk.begin()
    assert (await plan(desk)).route.missing == "missing_question"


async def test_the_way_of_a_turn_is_the_same_when_it_is_asked_for_again(desk: Talking) -> None:
    await desk.said(f"link {CITY}")
    first = await desk.begin()
    async with desk.database.begin() as work:
        await work.rfps.delete(TEAM, CITY)
    again = await desk.begin()
    assert (again.ends, again.about) == (first.ends, first.about)
    await ended(desk, again, 1)
    assert "is now bound to" in said(desk)


async def test_words_that_are_not_for_the_bot_take_no_way_of_the_operator(desk: Talking) -> None:
    await desk.said("hello", desk.message(f"link {CITY}", sender_id=DEVELOPER, addressed=False))
    await desk.begin()
    await answered(desk, 1)
    await desk.said(desk.message(f"link {CITY}", sender_id=DEVELOPER, addressed=False))
    begun = await desk.begin(2)
    assert (begun.agent, begun.ends) == (Agent.COPILOT, None)
