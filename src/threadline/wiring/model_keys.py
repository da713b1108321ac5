"""What doctor finds out about a model's key: whether the API takes it, by a call that costs nothing."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

import aiohttp

from threadline.errors import Permanent, Transient
from threadline.settings import AgentSettings, ModelSettings
from threadline.wiring.toolsets import environment_proxy

_ANTHROPIC = "https://api.anthropic.com"
_ANTHROPIC_VERSION = "2023-06-01"
_TIMEOUT = 10.0
_REFUSED = (401, 403)
_NO_LIST = (300, 301, 302, 303, 307, 308, 400, 404, 405, 410, 501)
"""Answers of endpoints that have no list of models, or have it elsewhere. A key is sent to no other address."""


@dataclass(frozen=True)
class ModelList:
    """The list of models of an API, which only a valid key may read.

    Args:
        url: of the list.
        headers: with the key.
        variables: the settings to mend when the key is refused.
    """

    url: str
    headers: Mapping[str, str]
    variables: str


def anthropic_list(settings: AgentSettings) -> ModelList:
    key = settings.api_key.get_secret_value().strip()
    base = (settings.base_url or _ANTHROPIC).rstrip("/")
    headers = {"x-api-key": key, "anthropic-version": _ANTHROPIC_VERSION}
    return ModelList(f"{base}/v1/models", headers, "ANTHROPIC_API_KEY (or ANTHROPIC_BASE_URL)")


def openai_list(settings: ModelSettings) -> ModelList:
    headers = {"Authorization": f"Bearer {settings.key}"}
    return ModelList(f"{settings.base_url.rstrip('/')}/models", headers, "OPENAI_API_KEY (or OPENAI_BASE_URL)")


async def check_key(models: ModelList) -> str:
    """Ask for the list. Returns what is known of the key. Raises `Permanent` when it is refused, and `Transient` when
    the API gives no answer."""
    host = urlsplit(models.url).hostname or models.url
    try:
        async with (
            aiohttp.ClientSession(
                proxy=environment_proxy(models.url), timeout=aiohttp.ClientTimeout(total=_TIMEOUT)
            ) as session,
            session.get(models.url, headers=models.headers, allow_redirects=False) as answer,
        ):
            return judge_status(answer.status, host, models.variables)
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise Transient(
            f"The model's API at {host} gave no answer ({type(error).__name__}): check the network and the address."
        ) from error


def judge_status(status: int, host: str, variables: str) -> str:
    """What the status of the answer says about the key; raises as `check_key`."""
    if status in _REFUSED:
        raise Permanent(f"The model's API at {host} refuses the key (HTTP {status}): correct {variables}.")
    if status == 402:
        raise Permanent(f"The account at {host} has no credit: check its billing, or set another {variables}.")
    if status == 429:
        return "the key is accepted, and its rate limit is reached"
    if status >= 500 and status not in _NO_LIST:
        raise Transient(f"The model's API at {host} failed (HTTP {status}): see the status page of its provider.")
    if status in _NO_LIST:
        return "with a key (not checked, since the endpoint lists no models)"
    return "the key is accepted"
