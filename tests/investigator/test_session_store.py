"""The agent's transcripts keep the SDK's contract, and are written only under a claim."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest
from claude_agent_sdk.testing import run_session_store_conformance
from claude_agent_sdk.types import SessionKey, SessionStore, SessionStoreEntry
from sqlalchemy import make_url

from tests.support.case_store import Scene
from tests.support.postgres import Postgres
from threadline.db.agent_role import agent_database as connected_agent
from threadline.db.engine import Database
from threadline.errors import ClaimLost
from threadline.investigator.session_store import TurnSessionStore
from threadline.investigator.store import AgentStore, TurnClaim


def entry(**fields: Any) -> SessionStoreEntry:
    return {"type": "x", **fields}  # type: ignore[typeddict-item]


def key(session_id: str, project: str = "here") -> SessionKey:
    return {"project_key": project, "session_id": session_id}


class ClaimingStore(TurnSessionStore):
    """Claims another turn for each session that it writes, and keeps projects apart.

    The SDK's suite demands both of a store. The agents' worker must do neither.
    """

    def __init__(self, database: Database, claim: TurnClaim) -> None:
        super().__init__(database, claim)
        self._agent = AgentStore(database)

    async def append(self, key: SessionKey, entries: list[SessionStoreEntry]) -> None:
        key = self._apart(key)
        if key["session_id"] != self._claim.session_id:
            claim = await self._agent.claim("BUG-1", 1, 1, key["session_id"], 60)
            assert isinstance(claim, TurnClaim)
            self._claim = claim
        await super().append(key, entries)

    async def load(self, key: SessionKey) -> list[SessionStoreEntry] | None:
        return await super().load(self._apart(key))

    @staticmethod
    def _apart(key: SessionKey) -> SessionKey:
        return {**key, "session_id": f"{key['project_key']}/{key['session_id']}"}


async def test_store_passes_the_sdks_conformance_suite(postgres: Postgres) -> None:
    async with AsyncExitStack() as opened:

        async def fresh() -> SessionStore:
            url = postgres.emptied()
            owner = Database(url, pool_size=1)
            opened.push_async_callback(owner.dispose)
            login = postgres.url_of(make_url(url).database or "", user="threadline_agent")
            database = await opened.enter_async_context(connected_agent(login, pool_size=2))
            scene = Scene(owner, AgentStore(database))
            await scene.opened()
            return cast("SessionStore", ClaimingStore(database, await scene.claim(1)))

        await run_session_store_conformance(fresh)


async def test_session_is_found_from_any_folder_with_odd_characters(
    scene: Scene, agent_database: Database
) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    odd = entry(uuid="a", text="nul \x00, half \ud800, é")
    await TurnSessionStore(agent_database, claim).append(key(claim.session_id), [odd])
    resumed = TurnSessionStore(agent_database, await scene.claim(1, attempt=2))
    assert await resumed.load(key(claim.session_id, "elsewhere")) == [odd]


async def test_overtaken_attempt_appends_nothing(scene: Scene, agent_database: Database) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    store = TurnSessionStore(agent_database, claim)
    await store.append(key(claim.session_id), [entry(uuid="a")])
    await scene.claim(1, attempt=2)
    with pytest.raises(ClaimLost):
        await store.append(key(claim.session_id), [entry(uuid="b")])
    assert await store.load(key(claim.session_id)) == [entry(uuid="a")]


async def test_discarded_transcript_is_not_resumed(scene: Scene, agent_database: Database) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    store = TurnSessionStore(agent_database, claim)
    where = key(claim.session_id)
    await store.discard()
    await store.append(where, [entry(uuid="a")])
    await store.discard()
    assert await store.load(where) is None
    await store.append(where, [entry(uuid="b")])
    resumed = TurnSessionStore(agent_database, await scene.claim(1, attempt=2))
    assert await resumed.load(where) == [entry(uuid="b")]


async def test_claim_writes_its_own_session_alone(scene: Scene, agent_database: Database) -> None:
    await scene.opened()
    store = TurnSessionStore(agent_database, await scene.claim(1))
    with pytest.raises(ClaimLost):
        await store.append(key("another"), [entry()])


async def test_repeated_entries_are_stored_once_and_batches_stay_whole(
    scene: Scene, agent_database: Database
) -> None:
    await scene.opened()
    claim = await scene.claim(1)
    store = TurnSessionStore(agent_database, claim)
    where = key(claim.session_id)
    batches = [[entry(uuid=f"{batch}-{place}") for place in range(5)] for batch in range(12)]
    await asyncio.gather(*(store.append(where, batch) for batch in batches * 2))
    loaded = await store.load(where)
    assert loaded is not None
    uuids = [each["uuid"] for each in loaded]
    assert len(uuids) == len(set(uuids)) == 60
    assert [uuid.split("-")[1] for uuid in uuids] == [str(place) for place in range(5)] * 12
