"""Doctor notices a refused key, a wrong address and an unknown model."""

from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from threadline.errors import Permanent, Transient
from threadline.wiring import doctor
from threadline.wiring.model_keys import judge_status
from threadline_devstack.models.sandbox import ModelSandbox

KEY = "sk-sandbox-0123456789"
CHECKS = {
    "ANTHROPIC": (doctor.check_model, ""),
    "OPENAI": (doctor.check_conversation_model, "/v1"),
}


@pytest.mark.parametrize("api", CHECKS)
async def test_refused_key_is_a_fault_and_a_valid_one_is_none(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    check, path = CHECKS[api]
    monkeypatch.setenv("THREADLINE_AGENT_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    async with ModelSandbox.running(api_key=KEY) as sandbox:
        monkeypatch.setenv(f"{api}_BASE_URL", sandbox.url + path)
        monkeypatch.setenv(f"{api}_API_KEY", KEY)
        assert ": the key is accepted" in await check()
        monkeypatch.setenv(f"{api}_API_KEY", "sk-revoked-0123456789")
        with pytest.raises(
            Permanent, match=f"refuses the key \\(HTTP 401\\): correct {api}_API_KEY"
        ) as raised:
            await check()
        assert "sk-revoked" not in str(raised.value)


@pytest.mark.parametrize("api", CHECKS)
async def test_unreachable_api_is_reported(
    api: str, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int
) -> None:
    monkeypatch.setenv("THREADLINE_AGENT_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    monkeypatch.setenv(f"{api}_API_KEY", KEY)
    monkeypatch.setenv(f"{api}_BASE_URL", f"http://127.0.0.1:{unused_tcp_port}")
    with pytest.raises(Transient, match="gave no answer"):
        await CHECKS[api][0]()


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (200, "accepted"),
        (429, "rate limit"),
        *((status, "not checked") for status in (301, 307, 400, 404, 405, 501)),
        *((status, "refuses the key") for status in (401, 403)),
        (402, "no credit"),
        *((status, "failed") for status in (500, 503, 529)),
    ],
)
def test_status_of_the_answer_decides_the_verdict_on_the_key(status: int, told: str) -> None:
    try:
        found = judge_status(status, "api.example", "SOME_KEY")
    except (Permanent, Transient) as error:
        found = str(error)
    assert told in found


def endpoint(
    listed: Any = None, status: int = 200, *, prefix: str = "/v1", html: bool = False
) -> web.Application:
    """An API that converses at `prefix`, and lists these models where they are given."""

    async def models(request: web.Request) -> web.Response:
        return web.json_response(listed, status=status)

    async def refuse(request: web.Request) -> web.Response:
        assert await request.json() == {}, "a request that could cost something"
        return web.json_response(
            {"error": {"message": "you must provide a model parameter"}}, status=400
        )

    async def page(request: web.Request) -> web.Response:
        return web.Response(text="<html>Welcome</html>", content_type="text/html")

    app = web.Application()
    if listed is not None:
        app.router.add_get(f"{prefix}/models", models)
    if html:
        app.router.add_route("*", "/{rest:.*}", page)
    else:
        app.router.add_post(f"{prefix}/chat/completions", refuse)
    return app


def ids(*names: str, **more: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": name, **more} for name in names]}


async def ask_doctor(
    monkeypatch: pytest.MonkeyPatch,
    app: web.Application,
    *,
    model: str = "qwen3-8b",
    path: str = "/v1",
) -> str:
    async with TestServer(app) as server:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_BASE_URL", str(server.make_url(path)))
        monkeypatch.setenv("THREADLINE_OPENAI_MODEL", model)
        return await doctor.check_conversation_model()


@pytest.mark.parametrize(
    ("listed", "model", "told"),
    [
        (ids("a", "qwen3-8b"), "qwen3-8b", "lists the model"),
        ([{"id": "qwen3-8b"}], "qwen3-8b", "lists the model"),
        (ids("models/gemini-2.5-flash"), "gemini-2.5-flash", "lists the model"),
        (ids("llama3.2:latest"), "llama3.2", "lists the model"),
        (ids("openai/gpt-4o"), "openai/gpt-4o:online", "lists the model"),
        (ids("openai/*"), "openai/gpt-4o", "lists the model"),
        (
            ids("mistral-small-2506", aliases=["mistral-small-latest"]),
            "mistral-small-latest",
            "lists the model",
        ),
        (ids("/models/qwen.gguf", owned_by="llamacpp"), "anything", "to every model name"),
        (ids(), "qwen3-8b", "lists no models"),
        ({"object": "list", "data": None}, "qwen3-8b", "lists no models"),
        (None, "qwen3-8b", "lists no models"),
    ],
)
async def test_model_is_looked_up_in_any_list(
    monkeypatch: pytest.MonkeyPatch, listed: Any, model: str, told: str
) -> None:
    assert told in await ask_doctor(monkeypatch, endpoint(listed), model=model)


async def test_unknown_model_is_reported_with_five_near_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [
        *(f"text-embedding-{number}" for number in range(9)),
        *(f"qwen3-{size}b" for size in (4, 14, 32)),
    ]
    with pytest.raises(
        Permanent, match=r"does not list the model qwen3-8b.* THREADLINE_OPENAI_MODEL"
    ) as raised:
        await ask_doctor(monkeypatch, endpoint(ids(*names)))
    assert all(name in str(raised.value) for name in ("qwen3-4b", "qwen3-14b", "qwen3-32b"))
    with pytest.raises(Permanent) as raised:
        await ask_doctor(monkeypatch, endpoint(ids(*names)), model="unlike")
    assert sum(name in str(raised.value) for name in names) == 5


@pytest.mark.parametrize(
    ("app", "path", "told"),
    [
        (endpoint(ids("qwen3-8b")), "", "but one at .*/v1: correct OPENAI_BASE_URL"),
        (endpoint(ids("qwen3-8b"), 401), "/", "but one at .*/v1: correct OPENAI_BASE_URL"),
        (
            endpoint(ids("qwen3-8b")),
            "/v2",
            "No model API was found at .*/v2: correct OPENAI_BASE_URL",
        ),
        (endpoint(ids("qwen3-8b")), "/v1/chat/completions", "No model API was found"),
        (endpoint(html=True), "/v1", "No model API was found"),
    ],
)
async def test_wrong_address_is_reported(
    monkeypatch: pytest.MonkeyPatch, app: web.Application, path: str, told: str
) -> None:
    with pytest.raises(Permanent, match=told):
        await ask_doctor(monkeypatch, app, path=path)
