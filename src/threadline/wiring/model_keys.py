"""Doctor's checks of the models' APIs: the key, the address and the model's name, by free
calls.
"""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from threadline.errors import Permanent, Transient
from threadline.settings import AgentSettings, ModelSettings
from threadline.wiring.toolsets import environment_proxy

_ANTHROPIC = "https://api.anthropic.com"
_ANTHROPIC_VERSION = "2023-06-01"
_TIMEOUT = 10.0
_REFUSED = (401, 403)
_NEAR = 5
_UNLISTED = "with a key (not checked, since the endpoint lists no models)"
_NO_LIST = (300, 301, 302, 303, 307, 308, 400, 404, 405, 410, 501)
"""Statuses of endpoints without a list of models, or with one elsewhere. A key is never sent to
another address.
"""


@dataclass(frozen=True)
class ModelList:
    """The list of models of an API, which requires a valid key.

    Args:
        url: of the list.
        headers: with the key.
        variables: the settings to correct when the key is refused.
    """

    url: str
    headers: Mapping[str, str]
    variables: str

    @property
    def host(self) -> str:
        return urlsplit(self.url).hostname or self.url


def anthropic_list(settings: AgentSettings) -> ModelList:
    key = settings.api_key.get_secret_value().strip()
    base = (settings.base_url or _ANTHROPIC).rstrip("/")
    headers = {"x-api-key": key, "anthropic-version": _ANTHROPIC_VERSION}
    return ModelList(f"{base}/v1/models", headers, "ANTHROPIC_API_KEY (or ANTHROPIC_BASE_URL)")


def openai_list(settings: ModelSettings) -> ModelList:
    headers = {"Authorization": f"Bearer {settings.key}"}
    return ModelList(
        f"{settings.base_url.rstrip('/')}/models", headers, "OPENAI_API_KEY (or OPENAI_BASE_URL)"
    )


async def check_key(models: ModelList) -> str:
    """Request the list.

    Returns:
        The state of the key.

    Raises:
        Permanent: the key is refused.
        Transient: the API gives no answer.
    """
    async with _session(models) as session:
        status, _ = await _get(session, models.url)
    return judge_status(status, models.host, models.variables)


async def check_model_name(models: ModelList, model: str) -> str:
    """Request the list, and look the model up in it.

    Returns:
        The state of the key and the model.

    Raises:
        Permanent: the key is refused, the address has no API, or its list does not have the model.
        Transient: the API gives no answer.
    """
    async with _session(models) as session:
        status, text = await _get(session, models.url)
        state = judge_status(status, models.host, models.variables)
        listed = _entries(text) if status < 300 else ()
        if not listed:
            await _find_address(session, models)
            return _UNLISTED if status < 300 else state
    return f"{state}, {_judge_name(listed, model, models.host)}"


async def _find_address(session: aiohttp.ClientSession, models: ModelList) -> None:
    """Raise `Permanent` where the address of the settings has no API for conversations.

    An API refuses a request without any field, which costs nothing.
    """
    base = models.url.removesuffix("/models")
    for path in ("chat/completions", "responses"):
        async with session.post(f"{base}/{path}", json={}, allow_redirects=False) as answer:
            is_page = answer.content_type == "text/html"
            if answer.status not in (404, 405) and not (is_page and answer.status < 500):
                return
    status, text = await _get(session, f"{base}/v1/models")
    hint = (
        f", but one at {base}/v1"
        if status in _REFUSED or (status < 300 and _entries(text))
        else ""
    )
    raise Permanent(f"No model API was found at {base}{hint}: correct OPENAI_BASE_URL.")


def _entries(text: str) -> Sequence[Mapping[str, Any]]:
    """Return the models of a list in any vendor's form; empty where the text is no list."""
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return ()
    found = (body.get("data") or body.get("models")) if isinstance(body, Mapping) else body
    entries = found if isinstance(found, list) else []
    return [
        each for each in entries if isinstance(each, Mapping) and isinstance(each.get("id"), str)
    ]


def _judge_name(listed: Sequence[Mapping[str, Any]], model: str, host: str) -> str:
    names = [str(each["id"]) for each in listed]
    aliases = [str(name) for each in listed for name in each.get("aliases") or ()]
    if any(_is_named(model, name) for name in (*names, *aliases)):
        return "and the API lists the model"
    if any(each.get("owned_by") == "llamacpp" for each in listed):
        return f"and the endpoint answers with {names[0]} to every model name"
    if host.endswith(".azure.com"):
        return "and the model was not checked, since Azure lists no deployments"
    near = get_close_matches(model, names, n=_NEAR, cutoff=0.4) or names[:_NEAR]
    raise Permanent(
        f"The API at {host} does not list the model {model}, but, for example, {', '.join(near)}:"
        " correct THREADLINE_OPENAI_MODEL."
    )


def _is_named(model: str, listed: str) -> bool:
    """Whether an entry matches the model: vendors add a folder, a tag or a pattern to names."""
    entry = listed.removeprefix("models/")
    plain = model.removeprefix("models/")
    tagged = (plain, f"{plain}:latest", plain.partition(":")[0])
    return entry in tagged or fnmatchcase(plain, entry.replace("[", "[[]"))


@asynccontextmanager
async def _session(models: ModelList) -> AsyncIterator[aiohttp.ClientSession]:
    timeout = aiohttp.ClientTimeout(total=_TIMEOUT)
    proxy = environment_proxy(models.url)
    try:
        async with aiohttp.ClientSession(
            proxy=proxy, timeout=timeout, headers=models.headers
        ) as session:
            yield session
    except (aiohttp.ClientError, TimeoutError, OSError, ValueError) as error:
        raise Transient(
            f"The model's API at {models.host} gave no answer ({type(error).__name__}): check "
            "the network and the"
            " address."
        ) from error


async def _get(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    async with session.get(url, allow_redirects=False) as answer:
        return answer.status, await answer.text(errors="replace")


def judge_status(status: int, host: str, variables: str) -> str:
    """Return the state of the key by the status of the answer; raises as `check_key`."""
    if status in _REFUSED:
        raise Permanent(
            f"The model's API at {host} refuses the key (HTTP {status}): correct {variables}."
        )
    if status == 402:
        raise Permanent(
            f"The account at {host} has no credit: check its billing, or set another {variables}."
        )
    if status == 429:
        return "the key is accepted, and its rate limit is reached"
    if status >= 500 and status not in _NO_LIST:
        raise Transient(
            f"The model's API at {host} failed (HTTP {status}): see the status page of its "
            "provider."
        )
    if status in _NO_LIST:
        return _UNLISTED
    return "the key is accepted"
