"""The model of embeddings, as the environment names it."""

import pytest

from threadline.errors import Permanent
from threadline.models.open_embedder import embedding
from threadline.settings import EmbeddingSettings


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("THREADLINE_EMBEDDINGS", "THREADLINE_EMBEDDINGS_MODEL", "OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "model"),
    [
        ({}, None),
        ({"THREADLINE_EMBEDDINGS": "local"}, "l2_supercat_256"),
        ({"THREADLINE_EMBEDDINGS": "openai", "OPENAI_API_KEY": "sk-x"}, "text-embedding-3-small"),
        (
            {"THREADLINE_EMBEDDINGS": "openai", "OPENAI_API_KEY": "sk-x", "THREADLINE_EMBEDDINGS_MODEL": "large"},
            "large",
        ),
    ],
)
async def test_the_settings_name_the_model(
    monkeypatch: pytest.MonkeyPatch, given: dict[str, str], model: str | None
) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    async with embedding(EmbeddingSettings.read()) as embedder:
        assert (embedder and embedder.model) == model


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"THREADLINE_EMBEDDINGS": "remote"}, "THREADLINE_EMBEDDINGS"),
        ({"THREADLINE_EMBEDDINGS": "openai"}, "OPENAI_API_KEY is not set"),
        ({"THREADLINE_EMBEDDINGS": "local", "THREADLINE_EMBEDDINGS_MODEL": "large"}, "leave .* empty"),
    ],
)
async def test_a_wrong_setting_is_a_sentence(monkeypatch: pytest.MonkeyPatch, given: dict[str, str], says: str) -> None:
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(Permanent, match=says):
        async with embedding(EmbeddingSettings.read()):
            pass


async def test_without_its_package_the_local_model_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("threadline.models.embeddings._PACKAGE", "no_such_package")
    monkeypatch.setenv("THREADLINE_EMBEDDINGS", "local")
    with pytest.raises(Permanent, match=r"pip install 'threadline\[embeddings\]'"):
        async with embedding(EmbeddingSettings.read()):
            pass
