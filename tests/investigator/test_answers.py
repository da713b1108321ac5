"""An agent's answer counts, is returned to it once, or fails the turn. Without the CLI."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from claude_agent_sdk import ResultMessage
from structlog.testing import capture_logs

from tests.investigator.investigator_scene import InvestigatorScene
from threadline.cases.model import Action, WorkflowState
from threadline.errors import Permanent
from threadline.investigator import runner
from threadline.investigator.cli import CliSession
from threadline_devstack.models.sandbox import ModelSandbox


class AnsweringSession(CliSession):
    """A session without a process: every prompt gets the same answer, and is kept in `asked`."""

    def __init__(self, answer: dict[str, Any], asked: list[str], *arguments: Any) -> None:
        super().__init__(*arguments)
        self._answer = answer
        self._asked = asked

    async def connect(self) -> None:
        pass

    async def ask(self, prompt: str) -> ResultMessage:
        self._asked.append(prompt)
        result = ResultMessage(
            subtype="success",
            duration_ms=1,
            duration_api_ms=1,
            is_error=False,
            num_turns=1,
            session_id="s",
            total_cost_usd=0.01 * len(self._asked),
            structured_output=self._answer,
        )
        self._monitor.observe(result)
        return result


@pytest.fixture
def model() -> ModelSandbox:
    """No request reaches it here."""
    return ModelSandbox()


@pytest.fixture
def asked() -> list[str]:
    """The prompts of the turn."""
    return []


Answer = Callable[..., None]


@pytest.fixture
def answer(bench: InvestigatorScene, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> Answer:
    """Make the agent answer every prompt with this outcome."""

    def answer(**changes: Any) -> None:
        monkeypatch.setattr(
            runner, "CliSession", partial(AnsweringSession, bench.outcome(**changes), asked)
        )

    return answer


async def test_internal_words_for_the_reporter_are_given_back_once(
    bench: InvestigatorScene, answer: Answer, asked: list[str]
) -> None:
    answer(for_reporter="It is in cart.py.")
    outcome = await bench.run()
    assert len(asked) == 2
    assert "for_reporter" in asked[1]
    assert "cart.py" in asked[1]
    assert outcome.result["for_reporter"], (
        "no turn is lost over it: the words are kept back when they would be shown"
    )


async def test_question_with_something_internal_goes_to_the_developers(
    bench: InvestigatorScene, answer: Answer, asked: list[str]
) -> None:
    answer(
        action="ask_reporter",
        clarification_question="Is it in cart.py?",
        summary="I cannot tell yet.",
    )
    outcome = await bench.run()
    assert len(asked) == 2
    assert "clarification_question" in asked[1]
    assert (outcome.action, outcome.result["clarification_question"]) == (Action.POST_FINDINGS, "")
    assert outcome.result["summary"].startswith("I cannot tell yet.")
    assert outcome.result["summary"].endswith("Is it in cart.py?")


async def test_question_about_a_message_of_the_reporter_is_asked(
    bench: InvestigatorScene, answer: Answer, asked: list[str]
) -> None:
    bench.case.entries[0] = bench.entry(1, "My total.py says something else")
    (bench.workspace / "attachments" / "orders.csv").write_text("1")
    question = "Which line of orders.csv does total.py read?"
    evidence = [{"file": "orders.csv", "line": 1, "note": ""}]
    answer(action="ask_reporter", clarification_question=question, evidence=evidence)
    outcome = await bench.run()
    assert len(asked) == 1
    assert (outcome.action, outcome.result["clarification_question"]) == (
        Action.ASK_REPORTER,
        question,
    )


async def test_question_about_a_message_of_a_developer_is_not_asked(
    bench: InvestigatorScene, answer: Answer
) -> None:
    bench.case.entries.append(bench.entry(2, "Look at total.py", "developer"))
    answer(action="ask_reporter", clarification_question="What does total.py say?")
    assert (await bench.run()).action is Action.POST_FINDINGS


async def test_second_invalid_answer_fails_for_good(
    bench: InvestigatorScene, answer: Answer, asked: list[str]
) -> None:
    answer(action="resolved", summary=" ")
    with (
        capture_logs() as logged,
        pytest.raises(Permanent, match="answer is still unusable") as failed,
    ):
        await bench.run()
    assert "resolved needs a summary" in str(logged)
    assert "needs a summary" not in str(failed.value), "the sentence is for the model"
    assert len(asked) == 2
    assert bench.usage.cost_usd == pytest.approx(0.02)


async def test_continuation_without_a_parent_session_reads_everything(
    bench: InvestigatorScene, answer: Answer, asked: list[str]
) -> None:
    answer()
    await bench.run(number=3, state=WorkflowState.AWAITING_REPORTER)
    assert "Your memory of the earlier turns of this case is gone" in asked[0]
