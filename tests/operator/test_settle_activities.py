"""The end of an operator's turn on Postgres: one message, the choice of its words, and the journal
entries before it.
"""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.support.conversation_activities import (
    KEY,
    ConversationActivityScene,
    Make,
    make_talk,
    talk,
)
from tests.support.recording import create
from threadline.conversations import blocks
from threadline.conversations.contract import ActRequest, FinishRequest, ThinkRequest
from threadline.conversations.model import answers
from threadline.conversations.model.conversation import OutcomeKind
from threadline.conversations.model.turn_route import Agent
from threadline.conversations.prompt import TurnNote
from threadline.conversations.store.conversation import ConversationStore
from threadline.conversations.store.messages import MessageStore
from threadline.conversations.store.transcript import TranscriptStore
from threadline.conversations.store.turns import TurnStore
from threadline.conversations.turn import turn_ending
from threadline.errors import Transient
from threadline.models.model import Message, Role, ToolCall, ToolChoice, ToolKind
from threadline.operator.model import routing as questions
from threadline.operator.model.protocol import ProtocolState
from threadline.operator.tools import ask_clarifying_question, post_summary
from threadline.rfps.model import EntryKind
from threadline.rfps.store import RfpStore
from threadline.threads.model import MessageKind
from threadline.tools.model import ToolStatus
from threadline.tools.registry import ToolRegistry
from threadline_devstack.slack.identity import REPORTER, TEAM

__all__ = ["make_talk", "talk"]

CITY = "rfp_abc123"
STATUS_TURN = ProtocolState(scope=CITY, loaded=(CITY,), did_load=True)
FAILED_TURN = ProtocolState(
    scope=CITY, loaded=(CITY,), did_load=True, attempted=(CITY,), only_reads=False
)


NOTE = TurnNote(turn=1, at=1.0, user_id=REPORTER, actor="Rina", request_id="r1")


@pytest.fixture
async def desk(make_talk: Make) -> ConversationActivityScene:
    """A turn about an RFP that has begun."""
    talk = make_talk(registry=ToolRegistry([post_summary, ask_clarifying_question]))
    await create(talk.database, "c1", team=TEAM, rfp_id=CITY, title="City website")
    await talk.said(f"what is the status of {CITY}?")
    await talk.begin()
    return talk


async def settled(
    talk: ConversationActivityScene, kind: OutcomeKind, text: str = "It is new.", **given: Any
) -> str:
    request = FinishRequest(talk.thread, 1, kind, text, **given)
    for _ in range(2):  # the result was lost, so the activity runs again
        await talk.run(talk.activities.finish_turn, request)
        await talk.post()
    (post,) = [each for each in talk.posted() if each.thread_ts == talk.thread.ts]
    return post.text


async def journal(talk: ConversationActivityScene) -> list[tuple[EntryKind, str, str]]:
    async with talk.database.begin() as tx:
        entries = await RfpStore(tx).journal(TEAM, CITY)
    return [(each.kind, each.text, each.author.correlation_id) for each in entries]


@pytest.mark.parametrize(
    "kind",
    [
        OutcomeKind.SUMMARISED,
        OutcomeKind.FAILED,
        OutcomeKind.NO_ANSWER,
        OutcomeKind.PROPOSED,
        OutcomeKind.ANSWERED,
    ],
)
async def test_words_of_a_status_turn_are_journalled_once(
    desk: ConversationActivityScene, kind: OutcomeKind
) -> None:
    """An answer's words are in the transcript; other words come with the request."""
    async with desk.database.begin() as tx:
        await TranscriptStore(tx).append(
            desk.thread, 1, 1, [("a:1:1", Message(Role.ASSISTANT, "It is new."))]
        )
    given: dict[str, Any] = {"answer_step": 1, "text": ""} if kind is OutcomeKind.ANSWERED else {}
    assert await settled(desk, kind, protocol=STATUS_TURN, **given) == "It is new."
    assert await journal(desk) == [(EntryKind.SAID, "It is new.", f"{desk.thread.key}:1")]


async def test_answer_about_an_rfp_that_was_not_loaded_is_no_fact_of_its_journal(
    desk: ConversationActivityScene,
) -> None:
    assert (
        await settled(
            desk, OutcomeKind.SUMMARISED, "It is won.", protocol=ProtocolState(scope=CITY)
        )
        == "It is won."
    )
    assert await journal(desk) == []
    async with desk.database.begin() as tx:
        kept = await RfpStore(tx).journal_of_turn(TEAM, f"{desk.thread.key}:1")
    assert [(each.kind, each.text) for each in kept] == [(EntryKind.UNCHECKED, "It is won.")]


async def test_failure_of_a_change_without_a_load_is_journalled_without_the_models_words(
    desk: ConversationActivityScene,
) -> None:
    tried = ProtocolState(scope=CITY, attempted=(CITY,), only_reads=False)
    given: dict[str, Any] = {"failures": "The change was refused.", "protocol": tried}
    said = await settled(desk, OutcomeKind.SUMMARISED, "It is won.", **given)
    assert said == "The change was refused.\n\nIt is won."
    assert [each[:2] for each in await journal(desk)] == [
        (EntryKind.FAILED, "The change was refused.")
    ]


@pytest.mark.parametrize("kind", [OutcomeKind.SUMMARISED, OutcomeKind.PROPOSED])
async def test_failures_are_reported_and_journalled_where_nothing_was_changed(
    desk: ConversationActivityScene, kind: OutcomeKind
) -> None:
    said = await settled(desk, kind, protocol=FAILED_TURN, failures="No change has succeeded.")
    assert said == "No change has succeeded.\n\nIt is new."
    entry = EntryKind.SAID if kind is OutcomeKind.PROPOSED else EntryKind.FAILED
    assert await journal(desk) == [(entry, said, f"{desk.thread.key}:1")]


async def test_words_of_a_final_call_are_journalled_once(desk: ConversationActivityScene) -> None:
    final = await _reply(desk, "slack.post.summary", {"text": "It is won now."})
    assert (
        await settled(
            desk,
            OutcomeKind.POSTED_BY_TOOL,
            "",
            answer_step=1,
            speech=final.id,
            protocol=STATUS_TURN,
        )
        == "It is won now."
    )
    assert await journal(desk) == [(EntryKind.SAID, "It is won now.", f"{desk.thread.key}:1")]


async def test_final_call_that_is_lost_leaves_nothing_in_the_journal(
    desk: ConversationActivityScene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its words in the journal and the end of the turn are one transaction."""

    async def lost(*_: object, **__: object) -> None:
        raise Transient("The database is away.")

    final = await _reply(desk, "slack.post.summary", {"text": "It is won now."})
    given: dict[str, Any] = {"answer_step": 1, "speech": final.id, "protocol": STATUS_TURN}
    with monkeypatch.context() as away:
        away.setattr(TurnStore, "settle", lost)
        with pytest.raises(Transient):
            await desk.run(
                desk.activities.finish_turn,
                FinishRequest(desk.thread, 1, OutcomeKind.POSTED_BY_TOOL, **given),
            )
    assert await journal(desk) == []
    assert await settled(desk, OutcomeKind.POSTED_BY_TOOL, "", **given) == "It is won now."
    assert await journal(desk) == [(EntryKind.SAID, "It is won now.", f"{desk.thread.key}:1")]


@pytest.mark.parametrize("refused", ["by the protocol", "by the tool"])
async def test_turn_goes_on_when_its_final_call_is_refused(
    desk: ConversationActivityScene, refused: str
) -> None:
    final = await _reply(
        desk, "slack.post.summary", {"text": " " if refused == "by the tool" else "It is new."}
    )
    state = STATUS_TURN if refused == "by the tool" else FAILED_TURN
    request = ActRequest(desk.thread, 1, 1, (final,), state)
    for _ in range(2):
        [execution] = await desk.run(desk.activities.act, request)
        assert execution.status in (ToolStatus.ERROR, ToolStatus.BLOCKED)
        assert turn_ending(execution) is None
    assert [key for key, _ in await desk.transcript()].count("t:1:1:call_1") == 1, (
        "the model reads why"
    )
    assert await journal(desk) == []


async def test_word_to_stop_wins_over_a_final_call(desk: ConversationActivityScene) -> None:
    final = await _reply(desk, "slack.post.summary", {"text": "It is new."})
    await desk.run(desk.activities.act, ActRequest(desk.thread, 1, 1, (final,), STATUS_TURN))
    await desk.said(desk.message("stop", kind=MessageKind.STOP))
    said = await settled(
        desk, OutcomeKind.POSTED_BY_TOOL, "", answer_step=1, speech=final.id, protocol=STATUS_TURN
    )
    assert said == answers.stopped_text(())
    assert await journal(desk) == []
    assert (
        dict(await desk.transcript())["t:1:1:call_1"].content
        == "(This was not posted: somebody had asked me to stop.)"
    )


async def test_turn_fails_where_its_final_call_is_no_longer_stored(
    desk: ConversationActivityScene,
) -> None:
    said = await settled(
        desk, OutcomeKind.POSTED_BY_TOOL, "", answer_step=1, speech="call_1", protocol=STATUS_TURN
    )
    assert said == answers.GENERIC_FAILURE


async def test_silent_turn_leaves_nothing_in_the_journal(desk: ConversationActivityScene) -> None:
    request = FinishRequest(desk.thread, 1, OutcomeKind.SILENT, protocol=STATUS_TURN)
    finished = await desk.run(desk.activities.finish_turn, request)
    assert (finished.snapshot.turn, await journal(desk)) == (1, [])


WROTE = ProtocolState(
    scope=CITY, did_journal=True, write_succeeded=True, attempted=(CITY,), only_reads=False
)


@pytest.mark.parametrize(
    ("kind", "state"),
    [
        pytest.param(OutcomeKind.SUMMARISED, WROTE, id="already written"),
        pytest.param(OutcomeKind.STOPPED, STATUS_TURN, id="stopped before anything was done"),
    ],
)
async def test_turn_that_needs_no_entry_leaves_none(
    desk: ConversationActivityScene, kind: OutcomeKind, state: ProtocolState
) -> None:
    await settled(desk, kind, protocol=state)
    assert await journal(desk) == []


async def test_words_are_posted_although_the_rfp_was_deleted(
    desk: ConversationActivityScene,
) -> None:
    async with desk.database.begin() as tx:
        await RfpStore(tx).delete(TEAM, CITY)
    assert await settled(desk, OutcomeKind.SUMMARISED, protocol=STATUS_TURN) == "It is new."
    assert await journal(desk) == []


@pytest.mark.parametrize(
    ("kind", "name"), [(OutcomeKind.POSTED_BY_TOOL, "text"), (OutcomeKind.ASKED, "question")]
)
async def test_words_of_a_speaking_call_are_the_turns_only_message(
    desk: ConversationActivityScene, kind: OutcomeKind, name: str
) -> None:
    tool = (
        "slack.post.summary"
        if kind is OutcomeKind.POSTED_BY_TOOL
        else "slack.ask.clarifying.question"
    )
    final = await _reply(desk, tool, {name: "It is with the client. Is that right?"})
    said = await settled(
        desk,
        kind,
        "",
        answer_step=1,
        speech=final.id,
        protocol=replace(STATUS_TURN, did_journal=True),
    )
    assert said == "It is with the client. Is that right?"
    assert await journal(desk) == []
    async with desk.database.begin() as tx:
        snapshot = await ConversationStore(tx).snapshot(desk.thread)
        plan = await TurnStore(tx).plan(desk.thread, 1)
    assert bool(snapshot.open_question) == (kind is OutcomeKind.ASKED)
    assert plan
    assert plan.result
    assert plan.result["did_post"] is True
    metadata = next(each.metadata for each in desk.posted() if each.thread_ts == desk.thread.ts)
    assert metadata
    assert metadata["event_payload"]["correlation_id"] == f"{desk.thread.key}:1"


async def test_result_of_a_turn_is_kept_and_its_context_cleared(
    desk: ConversationActivityScene,
) -> None:
    async with desk.database.begin() as tx:
        await TurnStore(tx).set_context(
            desk.thread, 1, "Everything about the city.", "", [{"name": "user"}]
        )
        await TurnStore(tx).set_context(desk.thread, 1, "Something else.", "", [])
        await TurnStore(tx).set_analysis(desk.thread, 1, "They want to know.")
        before = await TurnStore(tx).plan(desk.thread, 1)
    assert before
    assert (before.context, before.analysis) == (
        "Everything about the city.",
        "They want to know.",
    )
    request = FinishRequest(
        desk.thread, 1, OutcomeKind.SUMMARISED, "It is new.", model_calls=2, protocol=STATUS_TURN
    )
    finished = await desk.run(desk.activities.finish_turn, request)
    async with desk.database.begin() as tx:
        plan = await TurnStore(tx).plan(desk.thread, 1)
    assert plan
    assert plan.result
    assert (plan.context, plan.analysis, len(plan.layers)) == ("", "", 1)
    kept = {
        name: plan.result[name] for name in ("branch", "scope", "agent", "steps", "correlation_id")
    }
    assert kept == {
        "branch": "D",
        "scope": CITY,
        "agent": "operator",
        "steps": 2,
        "correlation_id": f"{desk.thread.key}:1",
    }
    assert plan.result["did_post"] is True
    assert (
        "turn 1: summarised, branch D, operator, rfp_abc123 (from the message)" in finished.summary
    )
    assert KEY not in str(plan.result)
    async with desk.database.begin() as tx:
        await TurnStore(tx).set_context(
            desk.thread, 1, "It comes late.", "They asked.", [{"name": "late"}]
        )
        await TurnStore(tx).set_analysis(desk.thread, 1, "It comes late.")
        assert await TurnStore(tx).plan(desk.thread, 1) == plan


async def _reply(
    desk: ConversationActivityScene, name: str, arguments: dict[str, str]
) -> ToolCall:
    """The model's reply is in the transcript; returns its only call, as the workflow knows it."""
    call = ToolCall("call_1", name, json.dumps(arguments), kind=ToolKind.SPEAK)
    entries = [("c:1", NOTE.message()), ("a:1:1", Message(Role.ASSISTANT, "", (call,)))]
    async with desk.database.begin() as tx:
        await TranscriptStore(tx).append(desk.thread, 1, 1, entries)
    return call.reference()


async def test_writer_of_a_long_message_during_the_turn_gets_a_notice(
    desk: ConversationActivityScene,
) -> None:
    await desk.said(f"{CITY}: " + "word " * 2_000)
    async with desk.database.begin() as tx:
        await MessageStore(tx).take_up(desk.thread, 1, 2)
    assert (
        await settled(desk, OutcomeKind.SUMMARISED, protocol=STATUS_TURN)
        == f"{questions.truncation_notice()}\n\nIt is new."
    )


async def test_deleted_request_clears_the_context_and_asks_no_model(
    desk: ConversationActivityScene,
) -> None:
    (kept,) = await desk.rows("SELECT message_id, slack_ts FROM conversation_messages")
    gone = {"id": f"{kept['message_id']}:d", "kind": "deletion", "ts": kept["slack_ts"]}
    async with desk.database.begin() as tx:
        await TurnStore(tx).set_context(desk.thread, 1, "Everything about the city.", "", [])
        await TurnStore(tx).set_analysis(desk.thread, 1, "They want to know.")
    await desk.said(desk.message("", **gone, correction_of=kept["message_id"]))
    async with desk.database.begin() as tx:
        plan = await TurnStore(tx).plan(desk.thread, 1)
    assert plan
    assert (plan.context, plan.analysis) == ("", "")
    request = ThinkRequest(desk.thread, 1, 1, ToolChoice.AUTO, Agent.OPERATOR)
    thought = await desk.run(desk.activities.think, request)
    assert thought.reply.text == blocks.DELETED
    assert not desk.model.log


async def test_question_by_rule_is_not_asked_after_a_stop(talk: ConversationActivityScene) -> None:
    await talk.said("add to journal: they called")
    begun = await talk.begin()
    assert begun.ends is OutcomeKind.ASKED
    await talk.said(talk.message("stop", kind=MessageKind.STOP))
    assert await settled(talk, begun.ends, "", protocol=begun.protocol) == answers.stopped_text(())
    async with talk.database.begin() as tx:
        snapshot = await ConversationStore(tx).snapshot(talk.thread)
        assert (snapshot.open_question, snapshot.turn_due) == ("", False)
        assert await TurnStore(tx).open_questions(talk.thread) == {}
        remembered = [
            each.message.content for each in (await TranscriptStore(tx).read(talk.thread)).messages
        ]
    assert answers.stopped_text(()) in " ".join(remembered)


async def test_command_done_by_rule_is_reported_after_a_stop(
    desk: ConversationActivityScene,
) -> None:
    await settled(desk, OutcomeKind.SUMMARISED, protocol=STATUS_TURN)
    await desk.said(f"link {CITY}")
    begun = await desk.begin(2)
    assert begun.ends is OutcomeKind.REPLIED_BY_RULE
    await desk.said(desk.message("stop", kind=MessageKind.STOP))
    request = FinishRequest(desk.thread, 2, begun.ends, protocol=begun.protocol)
    finished = await desk.run(desk.activities.finish_turn, request)
    await desk.post(2)
    assert "is now bound to" in desk.posted()[-1].text
    assert not finished.snapshot.turn_due
