"""The tools of every feature, and the clients of external services that the settings configure."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

from threadline.appointments import tools as appointments_tools
from threadline.approvals import tools as approvals_tools
from threadline.cases import tools as cases_tools
from threadline.ci import tools as ci_tools
from threadline.conversations import thread_tool
from threadline.estimates import tools as estimates_tools
from threadline.forge.actions import Actions
from threadline.jobs import tools as jobs_tools
from threadline.knowledge import tools as knowledge_tools
from threadline.models.embeddings import Embedder, open_embedder
from threadline.operator import tools as operator_tools
from threadline.rfps import files as rfps_files
from threadline.rfps import tools as rfps_tools
from threadline.sales import tools as sales_tools
from threadline.sales.email import SmtpMailer
from threadline.settings import (
    AccessSettings,
    CiSettings,
    GitHubSettings,
    JiraSettings,
    MailSettings,
    ModelSettings,
)
from threadline.tools.context import Services, setup_hint
from threadline.tools.policy import CallRules
from threadline.tools.policy_files import load_roles, load_rules
from threadline.tools.registry import Tool, ToolRegistry, available_tools
from threadline.tools.roles import Roles
from threadline.trackers import tools as trackers_tools
from threadline.trackers.jira import JiraClient

TOOLS: Sequence[Tool] = (
    *appointments_tools.TOOLS,
    *cases_tools.TOOLS,
    *ci_tools.TOOLS,
    *sales_tools.TOOLS,
    *estimates_tools.TOOLS,
    *trackers_tools.TOOLS,
    *jobs_tools.TOOLS,
    *operator_tools.TOOLS,
    *approvals_tools.TOOLS,
    *knowledge_tools.TOOLS,
    *rfps_files.TOOLS,
    *rfps_tools.TOOLS,
    *thread_tool.TOOLS,
)
"""The tools of every feature, configured or not."""
REMOTE: Sequence[Tool] = (*trackers_tools.TOOLS, *ci_tools.TOOLS)
"""Tools that need an external service."""


@asynccontextmanager
async def open_integrations(services: Services | None = None) -> AsyncIterator[Services]:
    """Open the services of the environment's settings, added to the given ones.

    Raises:
        Permanent: a setting is wrong.
    """
    services = services or Services()
    jira = JiraSettings.load()
    builds = CiSettings.load()
    forge = GitHubSettings.load()
    mail = MailSettings.load()
    async with AsyncExitStack() as opened:
        if jira.url and jira.token:
            session = await opened.enter_async_context(
                aiohttp.ClientSession(proxy=environment_proxy(jira.url))
            )
            services = services.with_service(
                JiraClient, JiraClient(session, jira.url, jira.email, jira.token)
            )
        token = builds.token or forge.token
        if builds.repository and token:
            address = builds.api_url or forge.api_url or ""
            services = services.with_service(Actions, Actions(builds.repository, token, address))
        if mail.smtp_url is not None:
            services = services.with_service(SmtpMailer, SmtpMailer(mail.smtp_url))
        yield services


def load_access(settings: AccessSettings) -> tuple[CallRules, Roles]:
    """Return the rules of calls and the roles that the settings name.

    Raises:
        Permanent: a file is wrong.
    """
    roles = load_roles(settings.roles)
    return load_rules(settings.policy, roles, [each.name for each in TOOLS]), roles


def configured_embedder(settings: ModelSettings) -> AbstractAsyncContextManager[Embedder | None]:
    """Return the embeddings model of the settings, not yet opened.

    Raises:
        Permanent: on opening, if the local model is not installed or the key is missing.
    """
    return open_embedder(
        settings.embeddings,
        settings.embeddings_model,
        api_key=settings.key,
        base_url=settings.base_url,
    )


def environment_proxy(url: str) -> str | None:
    """Return the environment's proxy for an address. aiohttp's `trust_env` would also take an
    account from ~/.netrc, and refuse the request for having two.
    """
    address = urlsplit(url)
    return None if proxy_bypass(address.hostname or "") else getproxies().get(address.scheme)


async def check_integrations() -> str:
    """Check that each configured service accepts its account; the result names the settings for
    the others, which is no fault.
    """
    async with open_integrations() as services:
        if JiraClient in services:
            await services[JiraClient].account()
        if Actions in services:
            await services[Actions].recent("", "", 1)
        if SmtpMailer in services:
            await services[SmtpMailer].check()
        mail = (
            "mail is sent"
            if SmtpMailer in services
            else f"no mail is sent: {setup_hint(SmtpMailer)}"
        )
        return f"{describe_toolsets(ToolRegistry(REMOTE), services)}; {mail}"


def describe_toolsets(registry: ToolRegistry, services: Services) -> str:
    """Return the toolsets that are on, and advice for those that are off."""
    on = sorted({each.toolset for each in available_tools(registry, services)})
    missing: dict[str, type[Any]] = {
        each.toolset: kind
        for each in registry.all()
        for kind in each.needs
        if kind not in services
    }
    off = (f"{toolset} is off: {setup_hint(kind)}" for toolset, kind in sorted(missing.items()))
    return "; ".join((f"on: {', '.join(on) or 'none'}", *off))
