"""The model that embeds questions and documents, as the environment names it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from threadline.errors import Permanent
from threadline.models.chat_model import Embedder
from threadline.models.embeddings import LOCAL_MODEL, OPENAI_MODEL, LocalEmbedder, OpenAIEmbedder, OpenAIEmbedding
from threadline.settings import EmbeddingSettings, OpenAISettings


@asynccontextmanager
async def embedding(settings: EmbeddingSettings) -> AsyncIterator[Embedder | None]:
    """The model for as long as the block runs; None where documents are found by words alone.

    Raises:
        Permanent: a setting is wrong, or the local model is not installed.
    """
    match settings.kind:
        case "off":
            yield None
        case "local":
            yield _local(settings.model)
        case "openai":
            embedder = _openai(settings.model, OpenAISettings.read())
            try:
                yield embedder
            finally:
                await embedder.close()


def _local(model: str) -> LocalEmbedder:
    if model not in ("", LOCAL_MODEL):
        raise Permanent(f"The local model is {LOCAL_MODEL}: leave THREADLINE_EMBEDDINGS_MODEL empty.")
    return LocalEmbedder()


def _openai(model: str, settings: OpenAISettings) -> OpenAIEmbedder:
    key = settings.api_key.get_secret_value().strip() if settings.api_key else ""
    if not key:
        raise Permanent(
            "THREADLINE_EMBEDDINGS is openai, and OPENAI_API_KEY is not set: set it, or turn embeddings off."
        )
    return OpenAIEmbedder(OpenAIEmbedding(key, settings.base_url, model or OPENAI_MODEL))
