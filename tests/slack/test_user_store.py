"""Profiles of Slack users, as Slack last described them."""

from tests.support.tool_store import NOW
from threadline.db.engine import Database
from threadline.slack.model import UserProfile
from threadline.slack.store import UserStore

ANA = UserProfile("U1", "ana@acme.example", "Ana", "sub-1", NOW)


async def test_newer_answer_replaces_an_older_one(database: Database) -> None:
    async with database.begin() as tx:
        users = UserStore(tx)
        assert await users.get("T1", "U1") is None
        await users.save("T1", ANA)
        await users.save("T1", UserProfile("U1", "old@acme.example", "Old", "", NOW - 1))
        assert await users.get("T1", "U1") == ANA
        later = UserProfile("U1", "ana@acme.example", "Ana S.", "sub-1", NOW + 1)
        await users.save("T1", later)
        await users.save("T1", UserProfile("U2\x00", "", "B\x00", "", NOW))
        found = [await users.get("T1", user_id) for user_id in ("U1", "U2", "U3")]
        assert found == [later, UserProfile("U2", "", "B", "", NOW), None]
        assert await users.get("T2", "U1") is None


async def test_old_answers_are_pruned(database: Database) -> None:
    async with database.begin() as tx:
        users = UserStore(tx)
        await users.save("T1", ANA)
        assert await users.prune(NOW) == 0
        assert await users.prune(NOW + 1) == 1
        assert await users.get("T1", "U1") is None
