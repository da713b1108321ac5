"""The gate of decisions: every query is decided and stored, and a model with too few right
decisions is refused.
"""

import io
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from pydantic import SecretStr
from rich.console import Console

from tests.evals import deciding, labelled, tables
from tests.evals.__main__ import arguments, run, status
from tests.evals.deciding import Made
from threadline.db.engine import Database
from threadline.decisions.model import Decision, DecisionType
from threadline.errors import Transient
from threadline.settings import ModelSettings
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn

KEY = "sk-for-the-sandbox"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "OPENAI_API_KEY",
        "OPENAI_BASE_URL",
        "THREADLINE_OPENAI_MODEL",
        "THREADLINE_OPENAI_API",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
async def sandbox() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running(api_key=KEY) as running:
        yield running


async def test_without_a_key_every_query_yields_a_valid_decision_over_the_scripts_server(
    database: Database,
) -> None:
    examples = labelled.decisions()
    async with deciding.judge(ModelSettings.load()) as judge:
        made = await deciding.decide_all(examples, judge.model, database)
        shown = told(lambda console: tables.decisions(console, judge, made))
    assert judge.scripted
    assert [each.example for each in made] == list(examples)
    assert all(each.valid for each in made)
    assert status(made, scripted=True, floor=0.85) == 0
    assert "checks the plumbing alone" in shown
    assert "Valid, and kept as they were made: 90 of 90" in shown
    assert sum(given is right for given, right in (each.pair for each in made)) == 40, (
        "as docs/decisions.md says"
    )


async def test_a_decision_that_is_invalid_twice_is_counted_and_shown(
    sandbox: ModelSandbox, database: Database
) -> None:
    async def nonsense(turn: ScriptTurn) -> None:
        await turn.text_only("I would rather not.")

    sandbox.script(nonsense, schema_name="decision")
    async with deciding.judge(settings(sandbox)) as judge:
        [made] = await deciding.decide_all(labelled.decisions()[:1], judge.model, database)
        shown = told(lambda console: tables.decisions(console, judge, [made]))
    assert not judge.scripted
    assert (made.valid, made.pair) == (False, (DecisionType.RETRIEVE, DecisionType.ESCALATE))
    assert "RETRIEVE, and not ESCALATE: What's your enterprise pricing?" in shown
    assert "kept as they were made: 0 of 1" in shown
    assert status([made], scripted=True, floor=0.85) == 1


async def test_an_overloaded_model_is_called_again_after_a_pause_a_limited_number_of_times(
    sandbox: ModelSandbox, database: Database
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    sandbox.fail_next(
        3 + deciding.TRIES, status=429, retry_after=7, api="responses", schema_name="decision"
    )
    async with deciding.judge(settings(sandbox)) as judge:
        with pytest.raises(Transient):
            await deciding.decide_all(labelled.decisions()[:1], judge.model, database, pause)
        [made] = await deciding.decide_all(labelled.decisions()[:1], judge.model, database, pause)
    assert made.valid
    assert len(pauses) == 2 * (deciding.TRIES - 1)
    assert min(pauses) >= 7


@pytest.mark.parametrize(("wrong", "code"), [(0, 0), (13, 0), (14, 1), (90, 1)])
def test_below_its_floor_a_model_is_refused(wrong: int, code: int) -> None:
    assert status(decided(wrong), scripted=False, floor=0.85) == code


async def test_a_configured_model_is_measured_whole_and_held_to_the_floor(
    sandbox: ModelSandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The script in place of a model decides less than half right."""
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_BASE_URL", f"{sandbox.url}/v1")
    monkeypatch.setenv("THREADLINE_EMBEDDINGS", "off")
    written = io.StringIO()
    assert await run(arguments([]), Console(file=written, width=100), tmp_path) == 1
    shown = written.getvalue()
    assert "no model of embeddings" in shown
    assert (
        "paraphrased: How do I stop being your customer? (cancellation.md, How to cancel)" in shown
    )
    assert "ESCALATE, and not REASON_ONLY: Let me talk to a human, please. Not a bot." in shown
    assert "plumbing" not in shown
    assert len(sandbox.structured_requests) == 90


@pytest.mark.parametrize("floor", ["-0.1", "1.5", "nan"])
def test_a_floor_that_is_no_share_is_refused(
    floor: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        arguments(["--floor", floor])
    assert "write a share from 0 to 1" in capsys.readouterr().err


def settings(sandbox: ModelSandbox) -> ModelSettings:
    return ModelSettings.load().model_copy(
        update={"api_key": SecretStr(KEY), "base_url": f"{sandbox.url}/v1"}
    )


def decided(wrong: int) -> Sequence[Made]:
    """Return one right decision per example, except for this many."""
    made = []
    for place, example in enumerate(labelled.decisions()):
        other = (
            DecisionType.CLARIFY
            if example.right is not DecisionType.CLARIFY
            else DecisionType.RETRIEVE
        )
        decided = Decision(other if place < wrong else example.right, "It is so.")
        made.append(Made(example, decided, (), decided))
    return made


def told(show: Callable[[Console], None]) -> str:
    written = io.StringIO()
    show(Console(file=written, width=100))
    return written.getvalue()
