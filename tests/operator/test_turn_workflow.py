"""A turn of the operator in its workflow: prepared, run under the protocol, and remembered."""

import asyncio

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.conversation_scene import BEN, ConversationScene, conversation
from tests.support.scripted_model import SILENT, calls
from threadline.conversations.model.conversation import ConversationLimits, OutcomeKind
from threadline.conversations.model.turn_route import Agent
from threadline.db.engine import Database
from threadline.models.model import ModelReply

LOAD = "opportunity.load:1"
PATCH = "opportunity.patch:1"
POST = "slack.post.summary:1"
PROPOSE = "propose.action:1"
SPOKEN = calls(POST, text="It is submitted.")


async def memories(scene: ConversationScene) -> int:
    return len(await scene.rows("SELECT 1 FROM memories"))


@pytest.mark.records("operator_speaks")
async def test_operator_is_prepared_before_it_thinks_and_remembered_after(
    database: Database,
) -> None:
    async with conversation(database) as scene:
        rfp_id = await scene.rfp()
        scene.model.replies = [calls(LOAD, PATCH, rfp_id=rfp_id), SPOKEN]
        await scene.say(f"the proposal for {rfp_id} is submitted")
        assert await scene.until_said(1) == "It is submitted."
        await scene.until_idle()
        assert scene.names("think", "finish_turn") == ["think", "think", "finish_turn"]
        assert scene.model.analysed == 1
        assert await scene.costs("analyse") == [1]
        assert await memories(scene)
        assert {each.agent for each in scene.asked} == {Agent.OPERATOR}
        memo = await (await scene.handle.describe()).memo()
        assert memo["correlation_id"] == f"{scene.thread.key}:1"
        assert (await scene.until_settled(1)).kind is OutcomeKind.POSTED_BY_TOOL
        request = scene.settlement(1)
        assert (request.answer_step, request.speech) == (2, POST)
        assert request.protocol
        assert (
            request.protocol.did_load,
            request.protocol.did_patch,
            request.protocol.did_post,
        ) == (True, True, True)


@pytest.mark.records("operator_speaks_last")
async def test_each_call_of_a_reply_meets_the_state_after_the_last_one(database: Database) -> None:
    async with conversation(database) as scene:
        rfp_id = await scene.rfp()
        both = calls(LOAD, PATCH, rfp_id=rfp_id)
        scene.model.replies = [ModelReply(calls=both.calls + SPOKEN.calls)]
        await scene.say(f"submit {rfp_id}")
        await scene.until_said(1)
        met = [each.protocol for each in scene.requests("act")]
        assert [(each.did_load, each.did_patch, each.did_post) for each in met] == [
            (False, False, False),
            (True, False, False),
            (True, True, False),
        ]
        assert (end := scene.settlement(1).protocol)
        assert (end.did_load, end.did_patch, end.did_post) == (True, True, True)
        assert len(scene.asked) == 1


@pytest.mark.records("operator_asks")
async def test_turn_that_ends_by_rule_asks_no_model(database: Database) -> None:
    async with conversation(database) as scene:
        await scene.say("add to journal: they called")
        assert "Which RFP" in await scene.until_said(1)
        assert (await scene.until_settled(1)).kind is OutcomeKind.ASKED
        await scene.until(lambda: memories(scene), "the turn is remembered")
        assert (scene.asked, scene.model.analysed) == ([], 0)


@pytest.mark.parametrize("asked", [True, False])
async def test_conversational_agent_remembers_only_on_request(
    database: Database, asked: bool
) -> None:
    async with conversation(database, ModelReply("Noted.")) as scene:
        await scene.say(
            "remember that Riga wants everything as PDF"
            if asked
            else "Riga wants everything as PDF"
        )
        await scene.until_said(1)
        await scene.until_idle()
        assert scene.model.analysed == 0
        assert await memories(scene) == asked


@pytest.mark.records("operator_goes_on")
@pytest.mark.parametrize("unclear", [True, False])
async def test_operator_takes_over_an_unclear_request_that_fails(
    database: Database, unclear: bool
) -> None:
    async with conversation(
        database, ModelReply(""), ModelReply(""), ModelReply("From the operator.")
    ) as scene:
        await scene.say("the proposal" if unclear else "the weather")
        said = await scene.until_said(1)
        assert (said == "From the operator.") is unclear
        assert [each.step for each in scene.requests("pass_to_operator")] == [2] * unclear
        assert (Agent.OPERATOR in [each.agent for each in scene.asked]) is unclear


async def test_ninth_step_of_the_operator_has_no_tools(database: Database) -> None:
    async with conversation(
        database, *(calls(f"rfp.get:{number}") for number in range(9))
    ) as scene:
        rfp_id = await scene.rfp()
        await scene.say(f"what is new in {rfp_id}?")
        await scene.until_said(1)
        assert [each.choice.value for each in scene.asked] == ["auto"] * 8 + ["none"]


async def test_no_model_is_asked_after_a_stop_during_the_preparation(database: Database) -> None:
    analysed = asyncio.Event()

    async def analyse() -> None:
        scene.hanging.set()
        await analysed.wait()

    async with conversation(database) as scene:
        scene.model.analyses = [analyse]
        await scene.say(f"submit {await scene.rfp()}")
        await scene.hanging.wait()
        await scene.stop_heard()
        analysed.set()
        await scene.until_said(1)
        assert (await scene.until_settled(1)).kind is OutcomeKind.STOPPED
        assert not scene.asked


async def test_operator_answers_although_somebody_else_writes_meanwhile(
    database: Database,
) -> None:
    """At first the words were for the bot; a second person's message makes them look like talk
    among people.
    """

    async def another() -> None:
        await scene.say("I look into it.", BEN, addressed=False)
        await scene.until_stored(3)

    async with conversation(
        database, ModelReply("Hello."), SILENT, ModelReply("It is new.")
    ) as scene:
        rfp_id = await scene.rfp()
        await scene.say("any news")
        await scene.until_said(1)
        scene.model.analyses = [another]
        await scene.say(f"Hm, so what about {rfp_id}?", addressed=False)
        assert await scene.until_said(2) == "It is new."


@pytest.mark.parametrize(
    ("name", "kind"), [(PATCH, OutcomeKind.ANSWERED), (PROPOSE, OutcomeKind.PROPOSED)]
)
async def test_call_of_unknown_outcome_counts_as_tried(
    database: Database, name: str, kind: OutcomeKind
) -> None:
    """After a change whose outcome is unknown, the operator may not report as if nothing had
    failed.
    """

    async def nothing() -> None: ...

    async def lost() -> None:
        raise ApplicationError("lost", type="WorkerShutdown", non_retryable=True)

    async with conversation(database) as scene:
        rfp_id = await scene.rfp()
        scene.model.replies = [calls(LOAD, name, rfp_id=rfp_id), SPOKEN, ModelReply("I tried.")]
        scene.steps.before["act"] = [nothing, lost]
        await scene.say(f"submit {rfp_id}")
        settled = await scene.until_settled(1)
        assert settled.kind is kind
        protocol = scene.settlement(1).protocol
        assert protocol
        tried = (protocol.write_attempted, protocol.proposed, protocol.only_reads)
        assert tried == (name == PATCH, name != PATCH, False)
        assert ("cannot confirm that any change" in settled.answer) == (name == PATCH)
        assert POST not in scene.ran


async def test_words_after_a_proposal_of_the_same_reply_are_not_posted(database: Database) -> None:
    async with conversation(database) as scene:
        rfp_id = await scene.rfp()
        proposal = calls(LOAD, PROPOSE, rfp_id=rfp_id)
        scene.model.replies = [ModelReply(calls=(*proposal.calls, *SPOKEN.calls))]
        await scene.say(f"submit {rfp_id}")
        settled = await scene.until_settled(1)
        assert settled.kind is OutcomeKind.PROPOSED
        assert "It is submitted." not in settled.answer
        assert POST not in scene.ran


@pytest.mark.records("talk_continued_as_new")
async def test_turn_is_remembered_before_its_run_continues_as_new(database: Database) -> None:
    async with conversation(
        database, SPOKEN, limits=ConversationLimits(max_history_events=20)
    ) as scene:
        await scene.say(f"submit {await scene.rfp()}")
        await scene.until_said(1)
        await scene.until(lambda: memories(scene), "the turn is remembered")
