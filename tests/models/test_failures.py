"""Failures at the model's API, as the real SDK meets them over both APIs."""

import contextlib

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from tests.models.asking import BOTH, KEY, Make, asked
from threadline.errors import Permanent, Transient
from threadline.models.errors import ContextTooLong
from threadline_devstack.models.sandbox import ModelSandbox


@BOTH
@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (401, "", Permanent),
        (400, "model_not_found", Permanent),
        (422, "", Permanent),
        (413, "", ContextTooLong),
        (429, "", Transient),
        (503, "", Transient),
    ],
)
async def test_refused_call_is_not_repeated_and_quotes_nothing(
    make: Make, sandbox: ModelSandbox, api: str, status: int, code: str, kind: type[Exception]
) -> None:
    sandbox.fail_next(1, status=status, code=code, api=api)
    with pytest.raises(kind) as raised:
        await make(api=api).ask(asked())
    assert len(sandbox.log) == 1, "the SDK tried again by itself"
    assert KEY not in str(raised.value)
    assert "127.0.0.1" not in str(raised.value)


@pytest.mark.parametrize(("status", "kind"), [(429, Transient), (503, Transient)])
async def test_wait_named_by_the_api_is_kept(
    make: Make, sandbox: ModelSandbox, status: int, kind: type[Transient | Transient]
) -> None:
    sandbox.fail_next(1, status=status, retry_after=7)
    with pytest.raises(kind) as raised:
        await make().ask(asked())
    assert raised.value.retry_after == 7


@BOTH
async def test_reply_that_breaks_off_may_be_asked_for_again(
    make: Make, sandbox: ModelSandbox, api: str
) -> None:
    sandbox.disconnect_next(1)
    model = make(api=api)
    with pytest.raises(Transient):
        await model.ask(asked())
    assert (await model.ask(asked())).reply.calls


async def test_model_that_never_answers_is_given_up(make: Make, sandbox: ModelSandbox) -> None:
    sandbox.holds.arm("conversing")
    with pytest.raises(Transient, match="in time"):
        await make(timeout=0.2).ask(asked())


async def test_answer_that_never_ends_is_given_up(make: Make) -> None:
    async def alive(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"content-type": "application/json"})
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await answer.write(b" " * 1_000)  # a single one would fill the buffers for seconds
        return answer

    app = web.Application()
    app.router.add_post("/v1/responses", alive)
    async with TestServer(app) as server:
        with pytest.raises(Transient, match="in time"):
            await make(base_url=str(server.make_url("/v1")), timeout=0.5).ask(asked())


async def test_unreachable_endpoint_is_transient(make: Make) -> None:
    with pytest.raises(Transient, match="OPENAI_BASE_URL") as raised:
        await make(base_url="http://127.0.0.1:9/v1").ask(asked())
    assert "127.0.0.1" not in str(raised.value)
