"""A turn of the operator in its workflow: prepared before it thinks, over when it has spoken, remembered afterwards."""

import asyncio
from dataclasses import replace

import pytest
from temporalio.exceptions import ApplicationError

from tests.support.conversation_memory import SILENT, Tool, calls
from tests.support.conversation_workflow import BEN, talking
from tests.support.temporal import real_time
from threadline.conversations.contract import ActRequest
from threadline.conversations.model.conversation import ConversationLimits, ConversationMarks
from threadline.conversations.operator_contract import Begun
from threadline.models.model import ModelReply, OutcomeKind
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.model.routing import Agent

LOAD, PATCH, POST = "opportunity.load:1", "opportunity.patch:1", "slack.post.summary:1"


def operator(scope: str = "rfp_abc123", **given: object) -> Begun:
    way = Begun(ConversationMarks(), Agent.OPERATOR, ProtocolState(scope=scope), about=f"branch D, {scope}")
    return Begun(**(vars(way) | {"max_turns": 8, "correlation_id": "T1:C1:1:1"} | given))


async def test_the_operator_is_prepared_before_it_thinks_and_its_turn_is_remembered_when_it_was_said() -> None:
    async with talking(calls(LOAD, PATCH), calls(POST)) as talk:
        talk.desk.ways[1] = operator()
        await talk.say("the proposal for rfp_abc123 is submitted")
        await talk.until_said(1)
        await talk.until(lambda: "remember 1" in talk.desk.around, "the turn is remembered")
        assert talk.desk.around == ["prepare 1", "analyse 1", "remember 1"]
        assert {each.agent for each in talk.desk.asked} == {Agent.OPERATOR}
        memo = await (await talk.handle.describe()).memo()
        assert memo["correlation_id"] == "T1:C1:1:1"
    settled = talk.desk.settled[1]
    assert (settled.kind, settled.answered_at, settled.spoken_by) == (OutcomeKind.SPOKEN, 2, POST)
    assert settled.protocol
    assert (settled.protocol.did_load, settled.protocol.did_patch, settled.protocol.did_post) == (True, True, True)


async def test_each_call_of_one_reply_meets_the_state_behind_the_one_before_it() -> None:
    met: list[ProtocolState | None] = []

    async def look(request: ActRequest) -> str:
        met.append(request.protocol)
        return "done"

    tools: dict[str, Tool] = {name.partition(":")[0]: look for name in (LOAD, PATCH, POST)}
    async with talking(calls(LOAD, PATCH, POST), tools=tools) as talk:
        talk.desk.ways[1] = operator()
        await talk.say("submit rfp_abc123")
        await talk.until_said(1)
    assert [(each.did_load, each.did_patch, each.did_post) for each in met if each] == [
        (False, False, False),
        (True, False, False),
        (True, True, False),
    ]
    assert len(talk.desk.asked) == 1


async def test_a_turn_that_ends_by_rule_asks_no_model() -> None:
    async with talking() as talk:
        talk.desk.ways[1] = operator(ends=OutcomeKind.ASKED)
        await talk.say("add to journal: they called")
        await talk.until(lambda: talk.desk.around, "the turn is remembered")
        assert talk.desk.settled[1].kind is OutcomeKind.ASKED
        assert (talk.desk.asked, talk.desk.around) == ([], ["remember 1"])


@pytest.mark.parametrize("remembers", [True, False])
async def test_what_somebody_asks_the_conversational_agent_to_remember_is_remembered(remembers: bool) -> None:
    async with talking(ModelReply("Noted.")) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(), remembers=remembers)
        await talk.say("remember that Riga wants everything as PDF")
        await talk.until_said(1)
        await talk.until_known("Idle since ")
        assert talk.desk.around == ["remember 1"] * remembers


@pytest.mark.parametrize("falls", [True, False])
async def test_where_the_conversational_agent_fails_the_operator_goes_on_if_nobody_knew_the_way(falls: bool) -> None:
    async with talking(ModelReply(""), ModelReply(""), ModelReply("From the operator.")) as talk:
        talk.desk.ways[1] = Begun(ConversationMarks(), falls_through=falls)
        await talk.say("the proposal")
        await talk.until_said(1)
        agents = [each.agent for each in talk.desk.asked]
    assert (Agent.OPERATOR in agents, "pass on 1 behind 2" in talk.desk.around) == (falls, falls)


async def test_the_operator_may_ask_for_tools_eight_times_and_then_only_for_words() -> None:
    replies = [calls(f"rfp.get:{number}", read_only=True) for number in range(9)]
    async with talking(*replies) as talk:
        talk.desk.ways[1] = operator()
        await talk.say("what is new in rfp_abc123?")
        await talk.until_said(1)
    assert [each.choice.value for each in talk.desk.asked] == ["auto"] * 8 + ["none"]


async def test_a_word_to_stop_breaks_the_preparation_off() -> None:
    async with talking(server=real_time) as talk:

        async def stopped() -> None:
            await talk.stop()
            await asyncio.Event().wait()

        talk.desk.ways[1] = operator()
        talk.desk.hooks["prepare_turn"] = [stopped]
        await talk.say("submit rfp_abc123")
        await talk.until_said(1)
    assert talk.desk.settled[1].kind is OutcomeKind.STOPPED
    assert not talk.desk.asked


async def test_who_was_routed_to_the_operator_is_answered_also_when_somebody_else_writes_meanwhile() -> None:
    """By the first look the words were for the bot; what a second person adds has them look like talk among people."""
    async with talking(SILENT, ModelReply("It is new.")) as talk:
        talk.desk.ways[1] = operator()

        async def another() -> None:
            for row in talk.desk.rows.values():
                row.message = replace(row.message, addressed=False)
            await talk.say("I look into it.", BEN, addressed=False)
            await talk.until_stored(2)

        talk.desk.hooks["prepare_turn"] = [another]
        await talk.say("Hm, so what about it?")
        assert await talk.until_said(1) == "It is new."


@pytest.mark.parametrize(("name", "kind"), [(PATCH, OutcomeKind.SPOKEN), ("propose.action:1", OutcomeKind.PROPOSED)])
async def test_of_a_call_whose_end_nobody_knows_the_turn_knows_that_it_was_tried(name: str, kind: OutcomeKind) -> None:
    lost: dict[str, Tool] = {
        name.partition(":")[0]: ApplicationError("lost", type="WorkerShutdown", non_retryable=True)
    }
    async with talking(calls(LOAD, name), calls(POST), tools=lost) as talk:
        talk.desk.ways[1] = operator()
        await talk.say("submit rfp_abc123")
        await talk.until(lambda: 1 in talk.desk.settled, "the turn is settled")
    settled = talk.desk.settled[1]
    assert settled.protocol
    assert settled.kind is kind
    tried = (settled.protocol.write_attempted, settled.protocol.proposed, settled.protocol.only_reads)
    assert tried == (name == PATCH, name != PATCH, False)


async def test_a_turn_is_remembered_before_its_run_continues_as_new() -> None:
    async with talking(calls(POST), limits=ConversationLimits(history_events=20), server=real_time) as talk:
        talk.desk.ways[1] = operator()
        await talk.say("submit rfp_abc123")
        await talk.until(lambda: "remember 1" in talk.desk.around, "the turn is remembered")
