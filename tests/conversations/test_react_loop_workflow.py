"""How a turn of the conversation goes on and ends, reply by reply."""

from uuid import uuid4

import pytest
from temporalio import activity
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer

from tests.conversations.react_scene import LoopWorkflow
from tests.conversations.scripted_turn import Script, done
from tests.support.temporal import skipping_time, worker
from threadline.conversations.model import answers
from threadline.conversations.react_loop import MAX_TURNS
from threadline.errors import ClaimLost, Permanent
from threadline.models.model import (
    Execution,
    ExecutionStatus,
    ModelReply,
    OutcomeKind,
    StepFailed,
    ToolCall,
    ToolChoice,
)
from threadline.threads.addressing import CORE_QUEUE
from threadline.wiring.temporal import workflow_runner

AUTO, NONE = ToolChoice.AUTO, ToolChoice.NONE
LOOK = ToolCall("1", "estimates.getProjectDetails", read_only=True)
CREATE = ToolCall("2", "estimates.createWbsItems")
TOTAL = ToolCall("3", "estimates.updateQuoteTotals")
ANSWER = ModelReply("Three items were created, and the total is 4,200.")


def asks(*calls: ToolCall, text: str = "") -> ModelReply:
    return ModelReply(text, calls)


def test_a_text_without_calls_is_the_answer() -> None:
    script = Script([ANSWER, ModelReply("more")])
    outcome = script.play()
    assert (outcome.kind, outcome.text, outcome.step) == (OutcomeKind.ANSWERED, ANSWER.text, 1)
    assert script.asked == [AUTO]
    assert script.ran == []


def test_tools_are_chained_until_there_is_an_answer() -> None:
    script = Script([asks(LOOK), asks(CREATE, TOTAL), ANSWER])
    outcome = script.play()
    assert script.ran == [[LOOK], [CREATE, TOTAL]]
    assert script.asked == [AUTO] * 3
    assert (outcome.text, outcome.step, outcome.model_calls) == (ANSWER.text, 3, 3)
    assert outcome.executions == (done(LOOK), done(CREATE), done(TOTAL))


def test_a_text_beside_calls_is_no_answer() -> None:
    script = Script([asks(LOOK, text="Let me look that up."), ANSWER])
    outcome = script.play()
    assert script.ran == [[LOOK]]
    assert outcome.text == ANSWER.text


@pytest.mark.parametrize("nothing", ["", " \n\t", "\x00", "\u200b\ufeff"])
def test_neither_text_nor_calls_is_asked_once_more_without_tools(nothing: str) -> None:
    script = Script([asks(LOOK), ModelReply(nothing), ANSWER])
    assert script.play().text == ANSWER.text
    assert script.asked == [AUTO, AUTO, NONE]


def test_a_model_that_never_stops_asking_for_tools_is_asked_for_words() -> None:
    replies = [asks(ToolCall(str(number), "ci.rerun")) for number in range(20)]
    script = Script([*replies[:MAX_TURNS], ANSWER])
    assert script.play().text == ANSWER.text
    assert script.asked == [AUTO] * MAX_TURNS + [NONE]
    assert len(script.ran) == MAX_TURNS


@pytest.mark.parametrize("max_turns", [0, 1, 2, 8])
def test_the_number_of_turns_is_the_callers(max_turns: int) -> None:
    script = Script([asks(ToolCall(str(number), "ci.rerun")) for number in range(20)])
    outcome = script.play(max_turns=max_turns)
    assert script.asked == [AUTO] * max_turns + [NONE]
    assert outcome.model_calls == max_turns + 1


def test_calls_of_the_last_reply_are_not_run() -> None:
    script = Script([ModelReply(), asks(CREATE, text="Done.")])
    outcome = script.play()
    assert script.ran == []
    assert (outcome.kind, outcome.text) == (OutcomeKind.ANSWERED, "Done.")


def test_what_was_done_is_told_by_rule_when_the_model_has_no_words() -> None:
    script = Script([asks(LOOK)])
    outcome = script.play()
    assert outcome.kind is OutcomeKind.SUMMARISED
    assert (outcome.text, outcome.step) == (answers.summary([done(LOOK)]), 0)
    assert script.asked == [AUTO, AUTO, NONE]


def test_when_nothing_was_done_either_a_sentence_is_said() -> None:
    script = Script([])
    outcome = script.play()
    assert (outcome.kind, outcome.text) == (OutcomeKind.SPEECHLESS, answers.NOTHING_TO_SAY)
    assert script.asked == [AUTO, NONE]


def test_a_call_whose_id_was_seen_is_not_run_again() -> None:
    again = ToolCall(CREATE.id, "estimates.createWbsItems", '{"other": "arguments"}')
    script = Script([asks(CREATE), asks(again, TOTAL), ANSWER])
    script.play()
    assert script.ran == [[CREATE], [TOTAL]]


def test_an_id_that_one_reply_has_twice_is_run_once() -> None:
    script = Script([asks(CREATE, CREATE, TOTAL), ANSWER])
    script.play()
    assert script.ran == [[CREATE, TOTAL]]


def test_the_same_call_for_ever_ends_with_words() -> None:
    script = Script([asks(CREATE, text="Creating.")] * 4)
    outcome = script.play()
    assert script.ran == [[CREATE]]
    assert script.asked == [AUTO, AUTO, NONE]
    assert outcome.text == "Creating."


def test_an_error_of_a_tool_is_a_result_like_any_other() -> None:
    failed = Execution(LOOK.id, LOOK.name, ExecutionStatus.ERROR, "There is no such project.")
    script = Script([asks(LOOK), ModelReply("I cannot find that project.")], [[failed]])
    outcome = script.play()
    assert outcome.text == "I cannot find that project."
    assert outcome.executions == (failed,)


@pytest.mark.parametrize("replies", [[], [asks(LOOK)], [asks(LOOK), ModelReply()]])
def test_a_model_that_cannot_be_had_ends_the_turn_with_a_sentence(replies: list[ModelReply]) -> None:
    script = Script([*replies, StepFailed("The model refuses our key. Tell whoever runs this bot.")])
    outcome = script.play()
    assert outcome.kind is OutcomeKind.FAILED
    assert outcome.text.startswith("The model refuses our key. Tell whoever runs this bot.")
    assert (LOOK.name in outcome.text) == bool(replies)
    assert outcome.model_calls == len(replies) + 1


def test_a_failure_without_words_is_given_some() -> None:
    assert Script([StepFailed()]).play().text == answers.TROUBLE


@pytest.mark.parametrize("error", [ClaimLost("taken over"), Permanent("no"), RuntimeError("a bug")])
def test_what_is_no_failure_of_a_step_is_not_swallowed(error: Exception) -> None:
    class Breaking(Script):
        async def think(self, choice: ToolChoice) -> ModelReply:
            raise error

    with pytest.raises(type(error)):
        Breaking([]).play()


def test_a_stop_before_the_first_step_costs_nothing() -> None:
    script = Script([ANSWER])
    outcome = script.play(stopping=lambda: True)
    assert (outcome.kind, outcome.text) == (OutcomeKind.STOPPED, answers.stopped([]))
    assert script.asked == []


def test_a_stop_while_the_model_thinks_runs_nothing_that_it_asks_for() -> None:
    script = Script([asks(LOOK), asks(CREATE), ANSWER])
    outcome = script.play(stopping=lambda: len(script.asked) == 2)
    assert script.ran == [[LOOK]]
    assert (outcome.kind, outcome.text) == (OutcomeKind.STOPPED, answers.stopped([done(LOOK)]))


def test_a_stop_while_tools_run_lets_them_end_and_says_what_was_done() -> None:
    script = Script([asks(LOOK), asks(CREATE), ANSWER])
    outcome = script.play(stopping=lambda: len(script.ran) == 2)
    assert outcome.text == answers.stopped([done(LOOK), done(CREATE)])
    assert script.asked == [AUTO, AUTO]


def test_a_stop_saves_the_last_call_too() -> None:
    script = Script([asks(LOOK), ANSWER])
    assert script.play(max_turns=1, stopping=lambda: len(script.ran) == 1).kind is OutcomeKind.STOPPED
    assert script.asked == [AUTO]


def test_an_answer_that_comes_with_the_stop_is_given() -> None:
    script = Script([asks(LOOK), ANSWER])
    assert script.play(stopping=lambda: len(script.asked) == 2).text == ANSWER.text


def test_silence_is_a_result_where_it_is_allowed() -> None:
    outcome = Script([ModelReply(silent=True)]).play(may_be_silent=lambda: True)
    assert (outcome.kind, outcome.text) == (OutcomeKind.SILENT, "")


def test_a_look_around_does_not_forbid_silence() -> None:
    script = Script([asks(LOOK), ModelReply(silent=True)])
    assert script.play(may_be_silent=lambda: True).kind is OutcomeKind.SILENT


@pytest.mark.parametrize("status", [ExecutionStatus.OK, ExecutionStatus.ERROR, ExecutionStatus.UNKNOWN])
def test_who_has_changed_something_may_not_be_silent(status: ExecutionStatus) -> None:
    changed = Execution(CREATE.id, CREATE.name, status)
    script = Script([asks(CREATE), ModelReply(silent=True), ModelReply(silent=True)], [[changed]])
    outcome = script.play(may_be_silent=lambda: True)
    assert (outcome.kind, outcome.text) == (OutcomeKind.SUMMARISED, answers.summary([changed]))


@pytest.mark.parametrize("text", ["", "NO_REPLY"])
def test_silence_where_it_is_not_allowed_is_an_empty_reply_after_which_the_model_is_asked_once_more(text: str) -> None:
    silent = ModelReply(text, silent=True)
    script = Script([silent] * 9)
    assert script.play().kind is OutcomeKind.SPEECHLESS
    assert script.asked == [AUTO, AUTO, NONE]
    assert Script([silent, ANSWER]).play().text == ANSWER.text


def test_a_model_that_is_asked_once_more_is_not_called_more_often_than_it_may_be() -> None:
    script = Script([ModelReply(silent=True)] * 9)
    assert script.play(max_turns=1).model_calls == 2
    assert script.asked == [AUTO, NONE]


def test_a_failure_is_told_to_nobody_who_has_not_asked() -> None:
    outcome = Script([asks(LOOK), StepFailed("The model is away.")]).play(may_be_silent=lambda: True)
    assert (outcome.kind, outcome.text) == (OutcomeKind.SILENT, "")


def test_a_failure_after_a_change_is_told_to_everybody() -> None:
    outcome = Script([asks(CREATE), StepFailed("The model is away.")]).play(may_be_silent=lambda: True)
    assert (outcome.kind, outcome.executions) == (OutcomeKind.FAILED, (done(CREATE),))


def test_a_model_without_words_is_silent_where_it_may_be() -> None:
    script = Script([])
    assert script.play(may_be_silent=lambda: True).kind is OutcomeKind.SILENT
    assert script.asked == [AUTO, NONE]


@pytest.mark.parametrize("broken", [False, True])
async def test_in_a_workflow_each_step_is_an_activity_and_the_history_replays(broken: bool) -> None:
    last = StepFailed("The model is away.") if broken else ANSWER
    script = Script([asks(LOOK), asks(LOOK, CREATE, text="Next."), last])

    @activity.defn
    async def think(choice: ToolChoice) -> ModelReply:
        return await script.think(choice)

    @activity.defn
    async def act(calls: list[ToolCall]) -> list[Execution]:
        return await script.act(calls)

    async with skipping_time() as environment, worker(environment, [LoopWorkflow], [think, act]):
        handle = await environment.client.start_workflow(
            LoopWorkflow.run, MAX_TURNS, id=str(uuid4()), task_queue=CORE_QUEUE
        )
        outcome = await handle.result()
        history = await handle.fetch_history()
    assert outcome.kind is (OutcomeKind.FAILED if broken else OutcomeKind.ANSWERED)
    assert outcome.text.startswith("The model is away." if broken else ANSWER.text)
    assert script.ran == [[LOOK], [CREATE]]
    replayer = Replayer(
        workflows=[LoopWorkflow], data_converter=pydantic_data_converter, workflow_runner=workflow_runner()
    )
    await replayer.replay_workflow(history)
