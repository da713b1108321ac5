"""Looks at each thing that Threadline needs, one after the other, and says what to do about what is missing."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from threadline.db import migrate
from threadline.db.agent_role import agent_database, excess_privileges
from threadline.db.engine import Database
from threadline.errors import Permanent, Transient
from threadline.settings import AgentSettings, CatchUpSettings, ChannelSettings, DatabaseSettings, SlackSettings
from threadline.slack.errors import calling
from threadline.threads.store import Quarantine
from threadline.wiring import doctor_machine as surroundings
from threadline.wiring import integrations as toolsets
from threadline.wiring import task_queues as queues
from threadline.wiring.catch_up import check_catch_up, check_sweep
from threadline.wiring.gateway import slack_client
from threadline.wiring.temporal import missing_search_attributes, temporal_client

SCOPES = frozenset(
    {
        "channels:history",
        "channels:read",
        "chat:write",
        "files:read",
        "files:write",
        "groups:history",
        "groups:read",
        "im:history",
        "im:read",
        "mpim:history",
        "mpim:read",
        "reactions:read",
        "reactions:write",
        "users:read",
        "users:read.email",
    }
)


@dataclass(frozen=True)
class Check:
    """`advice` is a sentence on what to do; empty when all is well."""

    name: str
    ok: bool
    found: str
    advice: str = ""


async def examine() -> list[Check]:
    """Every check, whatever the others found."""
    checks: dict[str, Callable[[], Awaitable[str]]] = {
        "database": _database,
        "agents' database": _agents_database,
        "temporal": _temporal,
        "workers": queues.served,
        "open workflows": queues.nobody_forgotten,
        "quarantine": _quarantine,
        "slack": _slack,
        "channels": _channels,
        "catch-up": _catch_up,
        "sweep": _sweep,
        "repositories": surroundings.repositories,
        "model": surroundings.model,
        "conversations' model": surroundings.conversation_model,
        "tools": toolsets.check_integrations,
        "approvals": surroundings.approvers,
        "history": surroundings.retention,
        "clocks": surroundings.clocks,
        "programs": surroundings.programs,
        "workspaces": surroundings.workspaces,
    }
    return [await _checked(name, check) for name, check in checks.items()]


async def _checked(name: str, check: Callable[[], Awaitable[str]]) -> Check:
    try:
        return Check(name, ok=True, found=await check())
    except (Permanent, Transient) as error:
        return Check(name, ok=False, found="needs attention", advice=str(error))
    except Exception as error:  # noqa: BLE001 - one check that breaks must not hide the others
        return Check(name, ok=False, found=f"the check itself failed: {type(error).__name__}", advice=str(error))


async def _database() -> str:
    url = DatabaseSettings.read().url.get_secret_value()
    if not await asyncio.to_thread(migrate.is_current, url):
        raise Permanent("The database schema does not match this code: run `threadline db upgrade`.")
    database = Database(url, pool_size=1, application="threadline-doctor")
    try:
        async with database.connect() as connection:
            version = str((await connection.exec_driver_sql("SHOW server_version")).scalar_one())
    finally:
        await database.dispose()
    return f"{surroundings.judge_postgres(version)}, with the newest schema"


async def _agents_database() -> str:
    async with agent_database(AgentSettings.read().database_url.get_secret_value(), pool_size=1) as database:
        if found := await excess_privileges(database):
            raise Permanent(f"The agents' login has rights that it must not have: {'; '.join(found)}. Revoke them.")
        return "reachable, with the restricted role and no extra rights"


async def _temporal() -> str:
    client = await temporal_client(tries=1)
    if missing := await missing_search_attributes(client):
        raise Permanent(f"The namespace {client.namespace!r} lacks the search attributes {', '.join(missing)}.")
    return f"namespace {client.namespace!r} is reachable and has its search attributes"


async def _quarantine() -> str:
    """Nothing is wrong with the house when a message could not be read; that there are such is said."""
    database = Database(DatabaseSettings.read().url.get_secret_value(), pool_size=1, application="threadline-doctor")
    try:
        async with database.begin() as work:
            kept = await Quarantine(work.tx).count()
    finally:
        await database.dispose()
    if not kept.newest:
        return "empty"
    return f"{kept.count} messages, newest {kept.newest:%Y-%m-%d %H:%M}; `threadline cases quarantine` shows them"


async def _slack() -> str:
    async with slack_client(SlackSettings.read()) as web, calling("auth.test"):
        identity = await web.auth_test()
    granted = {scope.strip() for scope in identity.headers.get("x-oauth-scopes", "").split(",") if scope.strip()}
    if granted and (missing := SCOPES - granted):
        raise Permanent(f"The app lacks the scopes {', '.join(sorted(missing))}: add them, and install it again.")
    return f"the bot is {identity['user']} in {identity['team']}"


async def _catch_up() -> str:
    async with slack_client(SlackSettings.read()) as web, calling("auth.test"):
        identity = await web.auth_test()
    return await check_catch_up(str(identity["team_id"]), str(identity["user_id"]))


async def _sweep() -> str:
    return await check_sweep(await temporal_client(tries=1), CatchUpSettings.read().interval)


async def _channels() -> str:
    channels = ChannelSettings.read()
    named = {
        "THREADLINE_REPORTS_CHANNEL": channels.reports_channel,
        "THREADLINE_SUMMARIES_CHANNEL": channels.summaries_channel,
        "THREADLINE_ESCALATION_CHANNEL": channels.escalation,
    }
    async with slack_client(SlackSettings.read()) as web:
        for variable, channel in named.items():
            async with calling(channel):
                about = (await web.conversations_info(channel=channel))["channel"]
            if not about.get("is_member"):
                raise Permanent(f"The bot is not in #{about.get('name')} ({variable}): invite it there.")
            if about.get("is_ext_shared") and channel not in channels.external_people:
                raise Permanent(
                    f"#{about.get('name')} ({variable}) is shared with another company: use another channel, "
                    "or name it in THREADLINE_EXTERNAL_PEOPLE if those people may take part."
                )
        for channel in channels.conversation_channels:
            async with calling(channel):
                about = (await web.conversations_info(channel=channel))["channel"]
            if not about.get("is_member"):
                raise Permanent(
                    f"The bot is not in #{about.get('name')} (THREADLINE_CONVERSATION_CHANNELS): invite it there."
                )
    return "the bot is a member of each"
