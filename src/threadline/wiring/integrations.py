"""The services that are elsewhere: clients where the settings bring them, and what doctor says of them."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from threadline.ci import tools as ci
from threadline.ci.tools import CI, Builds
from threadline.forge.actions import Actions
from threadline.models.embeddings import Embedder, open_embedder
from threadline.sales.email_tools import MAILER, Mailer
from threadline.settings import CiSettings, EmbeddingSettings, ForgeSettings, JiraSettings, MailSettings, OpenAISettings
from threadline.tools import access
from threadline.tools.context import Port, Ports
from threadline.tools.registry import Registry, Tool
from threadline.trackers import tools as jira
from threadline.trackers.jira import JiraClient
from threadline.trackers.tools import JIRA

REMOTE: Sequence[Tool] = (*jira.TOOLS, *ci.TOOLS)


@asynccontextmanager
async def remote_ports(ports: Ports | None = None) -> AsyncIterator[Ports]:
    """The given ports, and those of the services that the environment names.

    Raises:
        Permanent: a setting is wrong.
    """
    ports = ports or Ports()
    async with AsyncExitStack() as opened:
        if client := await _jira(opened, JiraSettings.read()):
            ports = ports.having(JIRA, client)
        if builds := _actions(CiSettings.read(), ForgeSettings.read()):
            ports = ports.having(CI, builds)
        if mailer := _mailer(MailSettings.read()):
            ports = ports.having(MAILER, mailer)
        yield ports


def configured_embedder(settings: EmbeddingSettings) -> AbstractAsyncContextManager[Embedder | None]:
    """The model that the settings name, to be opened; the endpoint's settings are read only where it is asked.

    Raises:
        Permanent: a setting is wrong, or the local model is not installed. Also when it is opened.
    """
    if settings.kind != "openai":
        return open_embedder(settings.kind, settings.model)
    openai = OpenAISettings.read()
    key = openai.api_key.get_secret_value().strip() if openai.api_key else ""
    return open_embedder(settings.kind, settings.model, api_key=key, base_url=openai.base_url)


async def _jira(opened: AsyncExitStack, settings: JiraSettings) -> JiraClient | None:
    if not (settings.url and settings.token):
        return None
    session = await opened.enter_async_context(aiohttp.ClientSession(proxy=_environment_proxy(settings.url)))
    return JiraClient(session, settings.url, settings.email, settings.token)


def _environment_proxy(url: str) -> str | None:
    """The proxy that the environment names for an address.

    aiohttp's `trust_env` would take an account from ~/.netrc as well, and refuse the request for having two.
    """
    address = urlsplit(url)
    return None if proxy_bypass(address.hostname or "") else getproxies().get(address.scheme)


def _actions(settings: CiSettings, forge: ForgeSettings) -> Builds | None:
    token = settings.token or forge.token
    if not (settings.repository and token):
        return None
    return Actions(settings.repository, token, settings.api_url or forge.api_url or "")


def _mailer(settings: MailSettings) -> Mailer | None:
    if settings.server is None:
        return None
    from threadline.sales.email import Smtp

    return Smtp(settings.server)


async def examined() -> str:
    """Each service that is set answers its account; what to set for the others is said, and is no fault."""
    async with remote_ports() as ports:
        if JIRA in ports:
            await ports[JIRA].account()
        if CI in ports:
            await ports[CI].recent("", "", 1)
        if MAILER in ports:
            await ports[MAILER].look()
        mail = "mail is sent" if MAILER in ports else f"no mail is sent: {MAILER.help}"
        return f"{told(Registry(REMOTE), ports)}; {mail}"


def told(registry: Registry, ports: Ports) -> str:
    """Which toolsets are on, and what to do for those that are not."""
    on = sorted({each.toolset for each in access.offered(registry, ports)})
    missing: dict[str, Port[Any]] = {
        each.toolset: port for each in registry.all() for port in each.needs if port not in ports
    }
    off = (f"{toolset} is off: {port.help}" for toolset, port in sorted(missing.items()))
    return "; ".join((f"on: {', '.join(on) or 'none'}", *off))
