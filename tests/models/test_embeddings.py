"""Embeddings: of the local model without a network, and of OpenAI's API with its failures."""

import math
from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from threadline.errors import Permanent, Transient
from threadline.models.embeddings import LocalEmbedder, OpenAIEmbedder


def _cosine(one: list[float], other: list[float]) -> float:
    dot = sum(a * b for a, b in zip(one, other, strict=True))
    return dot / math.sqrt(sum(a * a for a in one) * sum(b * b for b in other))


async def test_local_model_puts_similar_texts_close() -> None:
    embedder = LocalEmbedder()
    texts = [
        "How can I get my money returned?",
        "Customers can claim a refund within 30 days.",
        "Cats purr at night.",
    ]
    asked, refund, cats = await embedder.embed(texts)
    assert {len(each) for each in (asked, refund, cats)} == {256}
    assert _cosine(asked, refund) > 0.3 > _cosine(asked, cats)
    assert await embedder.embed([]) == []
    assert await embedder.embed([""]) == [[0.0] * 256]
    assert embedder.model == "l2_supercat_256"


class Endpoint:
    """Answers each text with its length, or with `status` and `answer`."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: object = None
        self.sizes: list[int] = []

    async def embeddings(self, request: web.Request) -> web.Response:
        asked = await request.json()
        self.sizes.append(len(asked["input"]))
        data = [
            {"object": "embedding", "index": place, "embedding": [float(len(text)), 1.0]}
            for place, text in enumerate(asked["input"])
        ]
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        told = {"object": "list", "data": data, "model": asked["model"], "usage": usage}
        return web.json_response(told if self.answer is None else self.answer, status=self.status)


@pytest.fixture
def endpoint() -> Endpoint:
    return Endpoint()


@pytest.fixture
async def embedder(endpoint: Endpoint) -> AsyncIterator[OpenAIEmbedder]:
    app = web.Application()
    app.router.add_post("/v1/embeddings", endpoint.embeddings)
    async with TestServer(app) as server:
        embedder = OpenAIEmbedder("sk-test", str(server.make_url("/v1")), "m", timeout=5)
        yield embedder
        await embedder.close()


async def test_texts_are_sent_in_batches_and_answered_in_order(
    endpoint: Endpoint, embedder: OpenAIEmbedder
) -> None:
    found = await embedder.embed(["x" * number for number in range(1, 101)])
    assert found == [[float(number), 1.0] for number in range(1, 101)]
    assert endpoint.sizes == [64, 36]


@pytest.mark.parametrize(
    ("status", "answer", "side"),
    [
        (500, {}, Transient),
        (401, {}, Permanent),
        (200, {"data": []}, Transient),
        (200, {"data": [{"embedding": []}]}, Transient),
        (200, {"other": 1}, Transient),
    ],
)
async def test_failure_is_transient_or_permanent(
    endpoint: Endpoint,
    embedder: OpenAIEmbedder,
    status: int,
    answer: object,
    side: type[Exception],
) -> None:
    endpoint.status = status
    endpoint.answer = answer
    with pytest.raises(side):
        await embedder.embed(["a"])


async def test_unreachable_endpoint_is_transient() -> None:
    embedder = OpenAIEmbedder("sk-test", "http://127.0.0.1:1/v1", timeout=5)
    with pytest.raises(Transient):
        await embedder.embed(["a"])
    await embedder.close()
