"""Turns of the investigator, on the real CLI or a scripted agent."""

import tempfile
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from tests.devstack.model_reset import reset
from tests.investigator.investigator_scene import API_KEY, InvestigatorScene
from tests.investigator.turn_scene import agent, cli_model, cli_turns, turns
from threadline.investigator.runner import InvestigatorConfig
from threadline_devstack.models.sandbox import ModelSandbox

__all__ = ["agent", "cli_model", "cli_turns", "turns"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served_model() -> AsyncIterator[ModelSandbox]:
    async with ModelSandbox.running(api_key=API_KEY) as sandbox:
        yield sandbox


@pytest.fixture
def model(served_model: ModelSandbox) -> ModelSandbox:
    """One server for the tests of a module, which run in one event loop:
    `asyncio(loop_scope="module")`.
    """
    return reset(served_model)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """A workspace with one small repository in it."""
    folder = tmp_path / "workspace"
    (folder / "sample-shop").mkdir(parents=True)
    (folder / "attachments").mkdir()
    (folder / "sample-shop" / "cart.py").write_text(
        "def total(lines):\n    return sum(line.list_total for line in lines)\n"
    )
    return folder


@pytest.fixture
def bench(model: ModelSandbox, workspace: Path) -> InvestigatorScene:
    config = InvestigatorConfig(model="claude-sonnet-5", api_key=API_KEY, base_url=model.url)
    made = InvestigatorScene(model, workspace, config)
    made.case.entries.append(made.entry(1, "The total in the cart is wrong"))
    return made


@pytest.fixture
def leftovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The folders that turns have left in the temporary directory, which is the test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return lambda: [path.name for path in folder.iterdir()]
