"""Models that turn texts into vectors: OpenAI's endpoint, and a small one whose weights come with
its package.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, Protocol

from openai import AsyncOpenAI, Timeout

from threadline.errors import Permanent, Transient
from threadline.models.client import OPENAI
from threadline.models.errors import KNOWN_ERRORS, parse_errors, translate

OPENAI_MODEL = "text-embedding-3-small"
LOCAL_MODEL = "l2_supercat"

_PACKAGE = "wordllama"
_DIMENSIONS = 256
"""Dimensions of the local model in its package; larger ones would have to be downloaded."""
_BATCH = 64
"""Texts in one call: even with the longest passages well below the endpoint's limit of tokens."""
_REFUSED = (
    "The embeddings endpoint refused the request: check OPENAI_API_KEY, OPENAI_BASE_URL and "
    "THREADLINE_EMBEDDINGS_MODEL."
)


class Embedder(Protocol):
    """Turns texts into vectors. Only vectors of the same `model` are comparable."""

    model: str

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector for each text, all of one length.

        Raises:
            Permanent: the request was refused.
            Transient: the model did not answer; a retry may succeed.
        """


class OpenAIEmbedder(Embedder):
    """Vectors from OpenAI's endpoint. Holds connections: the creator closes it. `timeout` bounds a
    call, in seconds.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str = OPENAI,
        model: str = OPENAI_MODEL,
        *,
        timeout: float = 20.0,
    ) -> None:
        self.model = model
        self._timeout = timeout
        self._client = AsyncOpenAI(
            api_key=api_key,
            base_url=base_url,
            # a question falls back to its words, and the next ingestion adds missing vectors
            max_retries=0,
            timeout=Timeout(timeout, connect=min(5.0, timeout)),
        )

    async def close(self) -> None:
        await self._client.close()

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        batches = [texts[begin : begin + _BATCH] for begin in range(0, len(texts), _BATCH)]
        return [vector for batch in batches for vector in await self._ask(batch)]

    async def _ask(self, texts: Sequence[str]) -> list[list[float]]:
        try:
            async with asyncio.timeout(self._timeout):
                with parse_errors():
                    answer = await self._client.embeddings.create(
                        model=self.model, input=list(texts), encoding_format="float"
                    )
                    vectors = [[float(each) for each in one.embedding] for one in answer.data]
        except KNOWN_ERRORS as error:
            fault = translate(error, 1)
            raise fault if isinstance(fault, Transient) else Permanent(_REFUSED) from error
        if len(vectors) != len(texts) or not all(vectors):
            raise Transient(
                "The embeddings endpoint did not return a vector for each text: check "
                "OPENAI_BASE_URL."
            )
        return vectors


class LocalEmbedder(Embedder):
    """Vectors from a model in this process, without network access. Raises Permanent where the
    package is not installed.
    """

    model = f"{LOCAL_MODEL}_{_DIMENSIONS}"

    def __init__(self) -> None:
        if find_spec(_PACKAGE) is None:
            raise Permanent(
                "THREADLINE_EMBEDDINGS is local, but its model is missing: run pip install "
                "'threadline[embeddings]'."
            )

    async def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """See `Embedder.embed`; a text without known words is all zeros, and resembles nothing."""
        if not texts:
            return []
        return await asyncio.to_thread(lambda: list(self._loaded.embed(list(texts)).tolist()))

    @cached_property
    def _loaded(self) -> Any:
        """Load the weights from the package's folder. By default the library misses the tokenizer
        there, and downloads it.
        """
        package = import_module(_PACKAGE)  # takes a second and 40 MiB, so only on first use
        folder = Path(str(package.__file__)).parent
        return package.WordLlama.load(
            LOCAL_MODEL, cache_dir=folder, dim=_DIMENSIONS, disable_download=True
        )


@asynccontextmanager
async def open_embedder(
    kind: Literal["off", "local", "openai"],
    model: str = "",
    *,
    api_key: str = "",
    base_url: str = OPENAI,
) -> AsyncIterator[Embedder | None]:
    """Open the model of this kind for as long as the block runs.

    Args:
        kind: `off` yields None: documents are found by words alone.
        model: its name; empty for the kind's default.
        api_key: for `openai`.
        base_url: for `openai`.

    Raises:
        Permanent: the model does not exist, the key is missing, or the local model is not
            installed.
    """
    match kind:
        case "off":
            yield None
        case "local":
            if model not in ("", LOCAL_MODEL):
                raise Permanent(
                    f"The local model is {LOCAL_MODEL}: leave THREADLINE_EMBEDDINGS_MODEL empty."
                )
            yield LocalEmbedder()
        case "openai":
            if not api_key:
                raise Permanent(
                    "THREADLINE_EMBEDDINGS is openai, and OPENAI_API_KEY is not set: set it, "
                    "or turn embeddings off."
                )
            embedder = OpenAIEmbedder(api_key, base_url, model or OPENAI_MODEL)
            try:
                yield embedder
            finally:
                await embedder.close()
