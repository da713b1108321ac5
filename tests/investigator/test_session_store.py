"""The agent's transcripts keep the SDK's contract, and are written under a claim alone."""

import asyncio
from typing import Any, ClassVar

import asyncpg
import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import SessionKey, SessionStoreEntry

from tests.support.case_store import Scene
from tests.support.postgres import Postgres
from threadline.errors import ClaimLost, Permanent
from threadline.investigator.session_store import PostgresSessionStore


class Isolating(PostgresSessionStore):
    """Keeps projects apart, as the contract's tests demand and a worker on any machine must not."""

    project: ClassVar[str] = ""


def entry(**fields: Any) -> SessionStoreEntry:
    return {"type": "x", **fields}  # type: ignore[typeddict-item]


def key(session_id: str, project: str = "here") -> SessionKey:
    return {"project_key": project, "session_id": session_id}


async def test_store_passes_the_sdks_conformance_suite(postgres: Postgres) -> None:
    pools: list[asyncpg.Pool] = []

    async def fresh() -> Isolating:
        if pools:
            await pools[-1].close()
        pools.append(await asyncpg.create_pool(postgres.emptied(), min_size=1, max_size=2))
        return Isolating(pools[-1])

    await run_session_store_conformance(fresh)
    await pools[-1].close()


async def test_session_is_found_from_any_folder_with_odd_characters(scene: Scene, pool: asyncpg.Pool) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    odd = entry(uuid="a", text="nul \x00, half \ud800, é")
    await PostgresSessionStore(pool, claim).append(key(claim.session_id), [odd])
    assert await PostgresSessionStore(pool).load(key(claim.session_id, "elsewhere")) == [odd]


async def test_overtaken_attempt_appends_nothing(scene: Scene, pool: asyncpg.Pool) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    store = PostgresSessionStore(pool, claim)
    await store.append(key(claim.session_id), [entry(uuid="a")])
    await scene.claim(1, attempt=2)
    with pytest.raises(ClaimLost):
        await store.append(key(claim.session_id), [entry(uuid="b")])
    assert await store.load(key(claim.session_id)) == [entry(uuid="a")]


async def test_claim_writes_its_own_session_alone(scene: Scene, pool: asyncpg.Pool) -> None:
    await scene.opened()
    store = PostgresSessionStore(pool, await scene.claim(1))
    with pytest.raises(ClaimLost):
        await store.append(key("another"), [entry()])
    with pytest.raises(Permanent):
        await store.delete(key("another"))


async def test_repeated_entries_are_stored_once_and_batches_stay_whole(scene: Scene, pool: asyncpg.Pool) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    store, where = PostgresSessionStore(pool, claim), key(claim.session_id)
    batches = [[entry(uuid=f"{batch}-{place}") for place in range(5)] for batch in range(12)]
    await asyncio.gather(*(store.append(where, batch) for batch in batches * 2))
    loaded = await store.load(where)
    assert loaded is not None
    uuids = [each["uuid"] for each in loaded]
    assert len(uuids) == len(set(uuids)) == 60
    assert [uuid.split("-")[1] for uuid in uuids] == [str(place) for place in range(5)] * 12
