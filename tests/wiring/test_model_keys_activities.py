"""Whether doctor notices a refused key of a model, on the sandbox of both APIs."""

import pytest

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
async def test_refused_key_is_a_fault_and_a_valid_one_is_none(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check, path = CHECKS[api]
    monkeypatch.setenv("THREADLINE_AGENT_DATABASE_URL", "postgresql://127.0.0.1:1/none")
    async with ModelSandbox.running(api_key=KEY) as sandbox:
        monkeypatch.setenv(f"{api}_BASE_URL", sandbox.url + path)
        monkeypatch.setenv(f"{api}_API_KEY", KEY)
        assert (await check()).endswith(": the key is accepted")
        monkeypatch.setenv(f"{api}_API_KEY", "sk-revoked-0123456789")
        with pytest.raises(Permanent, match=f"refuses the key \\(HTTP 401\\): correct {api}_API_KEY") as raised:
            await check()
        assert "sk-revoked" not in str(raised.value)
        monkeypatch.setenv(f"{api}_BASE_URL", f"{sandbox.url}/elsewhere{path}")
        assert (await check()).endswith("(not checked, since the endpoint lists no models)")


@pytest.mark.parametrize("api", CHECKS)
async def test_api_that_is_away_is_told(api: str, monkeypatch: pytest.MonkeyPatch, unused_tcp_port: int) -> None:
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
def test_status_says_what_is_known_of_the_key(status: int, told: str) -> None:
    try:
        found = judge_status(status, "api.example", "SOME_KEY")
    except (Permanent, Transient) as error:
        found = str(error)
    assert told in found
