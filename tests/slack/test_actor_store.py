"""Who asks, as Slack said it."""

from tests.support.tool_store import NOW
from threadline.db.engine import Database
from threadline.slack.model import UserProfile

ANA = UserProfile("U1", "ana@acme.example", "Ana", "sub-1", NOW)


async def test_newer_answer_replaces_an_older_one(database: Database) -> None:
    async with database.begin() as work:
        assert await work.actors.of("T1", "U1") is None
        await work.actors.save("T1", ANA)
        await work.actors.save("T1", UserProfile("U1", "old@acme.example", "Old", "", NOW - 1))
        assert await work.actors.of("T1", "U1") == ANA
        later = UserProfile("U1", "ana@acme.example", "Ana S.", "sub-1", NOW + 1)
        await work.actors.save("T1", later)
        await work.actors.save("T1", UserProfile("U2\x00", "", "B\x00", "", NOW))
        assert await work.actors.all_of("T1", ["U1", "U2", "U3"]) == {
            "U1": later,
            "U2": UserProfile("U2", "", "B", "", NOW),
        }
        assert await work.actors.of("T2", "U1") is None


async def test_old_answers_are_pruned(database: Database) -> None:
    async with database.begin() as work:
        await work.actors.save("T1", ANA)
        assert await work.actors.prune(NOW) == 0
        assert await work.actors.prune(NOW + 1) == 1
        assert await work.actors.of("T1", "U1") is None
