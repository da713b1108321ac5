"""The model sandbox, with the real Claude Code CLI as client."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SystemMessage, query

from tests.devstack.model_reset import reset
from tests.support.patience import patient
from threadline_devstack.models.sandbox import ModelSandbox
from threadline_devstack.models.script import ScriptTurn

SCHEMA = {"type": "object", "properties": {"action": {"type": "string"}}, "required": ["action"]}


class Claude:
    """The real CLI in a folder of its own: `run` returns its result and its other messages."""

    def __init__(self, url: str, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "cart.py").write_text("def total():\n    return 1\n")
        own = folder / "claude"
        own.mkdir()
        self._options = ClaudeAgentOptions(
            cwd=self.workspace,
            model="claude-sonnet-4-5",
            tools=["Read", "Grep"],
            permission_mode="dontAsk",
            setting_sources=[],
            strict_mcp_config=True,
            output_format={"type": "json_schema", "schema": SCHEMA},
            max_turns=12,
            stderr=lambda line: None,
            env={
                "ANTHROPIC_BASE_URL": url,
                "ANTHROPIC_API_KEY": "any",
                "HOME": str(own),
                "CLAUDE_CONFIG_DIR": str(own),
                "CLAUDE_CODE_TMPDIR": str(own),
                "CLAUDE_CODE_MAX_RETRIES": "2",
                "DISABLE_TELEMETRY": "1",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            },
        )

    async def run(
        self, prompt: str = "Case BUG-7, turn 1 (initial)"
    ) -> tuple[ResultMessage, Sequence[Any]]:
        messages = [message async for message in query(prompt=prompt, options=self._options)]
        return next(
            message for message in messages if isinstance(message, ResultMessage)
        ), messages


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_model() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running() as running:
        yield running


@pytest.fixture
def model(served_model: ModelSandbox) -> ModelSandbox:
    return reset(served_model)


@pytest.fixture
def claude(model: ModelSandbox, tmp_path: Path) -> Claude:
    return Claude(model.url, tmp_path)


async def reads(turn: ScriptTurn) -> None:
    await turn.say("I look at the file.")
    read = await turn.call("Read", file_path=f"{turn.workspace}/cart.py")
    await turn.finish(action="seen" if "return 1" in read.text else "missed")


async def test_the_real_cli_calls_a_tool_and_returns_the_structured_output(
    model: ModelSandbox, claude: Claude
) -> None:
    model.script(reads)
    result, _ = await claude.run()
    assert result.structured_output == {"action": "seen"}
    assert result.usage is not None
    assert result.usage["output_tokens"] > 0
    assert [len(exchange.conversation.steps) for exchange in model.log] == [0, 1]


@pytest.mark.parametrize("fault", ["error", "disconnect", "sse_error"])
async def test_the_real_cli_asks_again_after_a_fault(
    model: ModelSandbox, claude: Claude, fault: str
) -> None:
    async def fails_once(turn: ScriptTurn) -> None:
        await turn.call("Read", file_path=f"{turn.workspace}/cart.py")
        if turn.asked == 1 and fault == "error":
            await turn.error(529, retry_after=0)
        elif turn.asked == 1:
            await getattr(turn, fault)()
        await turn.finish(action="at last")

    model.script(fails_once)
    result, messages = await claude.run()
    assert result.structured_output == {"action": "at last"}
    assert [(len(exchange.conversation.steps), exchange.asked) for exchange in model.log] == [
        (0, 1),
        (1, 1),
        (1, 2),
    ]
    if fault == "error":
        assert "api_retry" in [
            message.subtype for message in messages if isinstance(message, SystemMessage)
        ]


async def test_the_real_cli_waits_at_a_hold(model: ModelSandbox, claude: Claude) -> None:
    async def held(turn: ScriptTurn) -> None:
        await turn.call("Read", file_path=f"{turn.workspace}/cart.py")
        await turn.hold("here")
        await turn.finish(action="released")

    model.script(held)
    running = asyncio.create_task(claude.run())
    await asyncio.wait_for(model.holds.reached("here"), patient(30))
    assert not running.done()
    await model.holds.release("here")
    result, _ = await asyncio.wait_for(running, patient(30))
    assert result.structured_output == {"action": "released"}


async def test_the_real_cli_asks_again_after_a_text_only_reply(
    model: ModelSandbox, claude: Claude
) -> None:
    async def talks_first(turn: ScriptTurn) -> None:
        await turn.text_only("I think that I know.")
        await turn.finish(action="asked")

    model.script(talks_first)
    result, _ = await claude.run()
    assert result.structured_output == {"action": "asked"}


async def test_an_output_that_does_not_fit_is_a_result_for_the_script(
    model: ModelSandbox, claude: Claude
) -> None:
    async def learns(turn: ScriptTurn) -> None:
        refused = await turn.finish(colour="red")
        await turn.finish(action="mended" if refused.is_error else "not refused")

    model.script(learns)
    result, _ = await claude.run()
    assert result.structured_output == {"action": "mended"}


async def test_a_script_that_fails_ends_the_run_with_its_own_words(
    model: ModelSandbox, claude: Claude
) -> None:
    async def fails(turn: ScriptTurn) -> None:
        raise KeyError("no such plan")

    model.script(fails)
    with pytest.raises(Exception, match="no such plan"):
        await claude.run()
