"""The agent worker's connections: as the restricted role, and as no other."""

import json
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import asyncpg

from threadline.db.errors import translate_errors
from threadline.errors import Permanent

AGENT_ROLE = "threadline_agent"


@asynccontextmanager
async def agent_pool(url: str, *, size: int = 4) -> AsyncIterator[asyncpg.Pool]:
    """A pool that closes with its block.

    Args:
        url: `postgresql://threadline_agent@…`.

    Raises:
        Permanent: the login could do more than an agent may.
        Transient: the database cannot be reached now.
    """
    settings = {"application_name": "threadline-agents", "statement_timeout": "15s", "lock_timeout": "10s"}
    with translate_errors():
        pool = await asyncpg.create_pool(
            url,
            min_size=1,
            max_size=size,
            timeout=5,
            command_timeout=20,
            server_settings=settings,
            reset=_keeps_nothing,
        )
    try:
        with translate_errors():
            login = await pool.fetchval("SELECT current_user")
        if login != AGENT_ROLE:
            raise Permanent(f"the agent worker must log in as {AGENT_ROLE}, not as {login}: correct its database URL")
        yield pool
    finally:
        await pool.close()


async def _keeps_nothing(_: object) -> None:
    """No locks, settings or cursors outlive their transaction here: asyncpg's question for each use is left out."""


def jsonb(value: object) -> str:
    """JSON that `jsonb` takes: a NUL or a lone surrogate, which a tool's output may hold, is refused by Postgres."""
    return json.dumps(storable_json(value))


def storable_json(value: object) -> object:
    """The same value as `jsonb` takes it and gives it back; a float that is no number becomes a word."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, dict):
        return {storable(str(name)): storable_json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable_json(each) for each in value]
    if isinstance(value, float):
        return _storable_number(value)
    return value


def _storable_number(value: float) -> float | int | str:
    """From 1e16 on Postgres gives the digits that Python wrote, as a whole number: only in full is it the same one."""
    if not math.isfinite(value):
        return str(value)
    return int(value) if abs(value) >= _WRITTEN_SHORT else value


_WRITTEN_SHORT = 1e16


def storable(text: str) -> str:
    """Text that Postgres takes, at any length."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode("utf-8")


def parsed(value: Any) -> Any:
    """What a `jsonb` column holds: asyncpg hands it over as text."""
    return json.loads(value) if isinstance(value, str) else value
